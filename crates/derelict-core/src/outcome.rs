//! How each directory ended, and how the numbers of a report come from that: folded, never counted
//! along the way, so that what was scanned is what is accounted for.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::ids::{NonEmpty, SourceId, Timestamp};
use crate::policy::Limit;
use crate::rescue::RescueEntry;
use crate::verdict::{Hold, Orphan, Verdict};

/// What came of one attempt to remove a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is entirely gone.
    Removed {
        /// What was unlinked.
        discarded: Discarded,
        /// What became of the owner's record of it.
        release: Release,
        /// Where what it alone held was rescued to, if it was.
        rescued: Option<RescueEntry>,
    },
    /// It is fenced and waits out its grace.
    Quarantined,
    /// It was gone before we came: neither a failure nor a removal.
    Vanished,
    /// It became live again between plan and removal.
    Resurrected(Verdict),
    /// It is no longer what the plan showed, without being live.
    Changed(Verdict),
    /// Something would not go. What would is gone; the next run finishes the rest.
    Refused {
        /// What refused, each named by the outermost obstruction.
        refusals: NonEmpty<Refusal>,
        /// What was unlinked before and beside it.
        discarded: Discarded,
    },
    /// Its creator holds its lock.
    Busy {
        /// Which lock.
        lock: String,
    },
    /// The sweep had to stop with this directory in hand; recovery settles it.
    Interrupted {
        /// Why.
        why: String,
    },
}

/// What a discard unlinked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Discarded {
    /// Directory entries.
    pub entries: u64,
    /// Bytes on disk of inodes whose last link went. Of a directory that was measured and shares no inode with
    /// another, what was measured, in proportion to the entries.
    pub bytes: u64,
}

/// What became of the owner's record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Release {
    /// These records were dropped.
    Dropped(NonEmpty<String>),
    /// There was none.
    NothingRecorded,
    /// The directory is gone and its record could not be dropped; a later run drops it.
    Failed(String),
}

/// Something that would not go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The outermost obstruction.
    pub path: PathBuf,
    /// Why, in the system's words.
    pub why: String,
}

/// Where a directory stands at the end. Each has exactly one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// The verdict kept it.
    Kept(Verdict),
    /// It may go, and this sweep only reports.
    Removable,
    /// It may go, and the limits left it for later.
    BeyondLimit,
    /// A removal was attempted.
    Settled(Outcome),
    /// The sweep ended before its turn.
    NotReached,
}

/// Why a sweep ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopReason {
    /// Everything planned was attempted.
    Finished,
    /// A limit left something for later.
    LimitReached(Limit),
    /// An owner source could not be read again.
    SourceLost {
        /// Which.
        source: SourceId,
        /// Why, in its own words.
        why: String,
    },
    /// A circuit breaker stopped it before the first removal.
    BreakerTripped(Breaker),
    /// The journal could not be written.
    JournalLost(String),
    /// The root is missing.
    RootAbsent(PathBuf),
    /// Somebody asked it to stop.
    Cancelled,
    /// Its time was up; what was in hand was finished.
    Deadline,
}

/// Circuit breakers: what looks like mass abandonment is more often a broken source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Breaker {
    /// The owner source lists nobody at all.
    EmptySource {
        /// How many directories it would have condemned.
        candidates: u64,
    },
    /// The owner source lost most of its owners since the last sweep.
    SourceShrank {
        /// Owners then.
        before: u64,
        /// Owners now.
        now: u64,
    },
    /// Most directories that were referenced are not any more.
    MassOrphaning {
        /// Referenced then.
        before: u64,
        /// Referenced now.
        now: u64,
    },
    /// The last sweep lies in the future.
    ClockStepped {
        /// When the last sweep ran, by the clock of then.
        last: Timestamp,
        /// The clock of now.
        now: Timestamp,
    },
    /// The root is another file system or directory than last time.
    RootReplaced,
    /// The clock of an owner source and the one here differ: ages mean nothing.
    SourceClock {
        /// The source's time.
        source: Timestamp,
        /// The time here when it was asked.
        here: Timestamp,
    },
}

impl Breaker {
    /// The name an operator acknowledges it by.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::EmptySource { .. } => "empty-source",
            Self::SourceShrank { .. } => "source-shrank",
            Self::MassOrphaning { .. } => "mass-orphaning",
            Self::ClockStepped { .. } => "clock-stepped",
            Self::RootReplaced => "root-replaced",
            Self::SourceClock { .. } => "source-clock",
        }
    }
}

impl StopReason {
    /// Every name, for whoever exports them all.
    pub const NAMES: [&'static str; 8] =
        ["finished", "limit", "source_lost", "breaker", "journal_lost", "root_absent", "cancelled", "deadline"];

    /// Its name in reports, records and metrics; a closed set.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::LimitReached(_) => "limit",
            Self::SourceLost { .. } => "source_lost",
            Self::BreakerTripped(_) => "breaker",
            Self::JournalLost(_) => "journal_lost",
            Self::RootAbsent(_) => "root_absent",
            Self::Cancelled => "cancelled",
            Self::Deadline => "deadline",
        }
    }
}

/// The names under which fates are counted, recorded, logged and exported: one closed set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FateName {
    /// A living owner claims it.
    Referenced,
    /// The sources contradict each other.
    Disputed,
    /// Something could not be seen.
    Undetermined,
    /// It holds the only copy of something.
    Unsaved,
    /// Made or changed inside the window.
    RetainedFresh,
    /// Somebody or something uses it now.
    RetainedInUse,
    /// Its source holds it.
    RetainedLeased,
    /// A checkout lies inside.
    RetainedNestedCheckout,
    /// Its times lie in the future.
    RetainedClockSkew,
    /// Its top level is not the expected one.
    SkippedLayout,
    /// It may go, and the sweep only reports.
    Removable,
    /// It may go, and the limits left it for later.
    BeyondLimit,
    /// The sweep ended before its turn.
    NotReached,
    /// It is entirely gone.
    Removed,
    /// It is fenced and waits out its grace.
    Quarantined,
    /// It was gone before we came.
    Vanished,
    /// It became live again between plan and removal: a near miss.
    RetainedResurrected,
    /// It is no longer what the plan showed, without being live.
    RetainedChanged,
    /// Something of it would not go.
    Refused,
    /// Its creator holds its lock.
    Busy,
    /// The sweep had to stop with it in hand.
    Interrupted,
}

impl FateName {
    /// Every name, in the order of reports.
    pub const ALL: [Self; 21] = [
        Self::Referenced,
        Self::Disputed,
        Self::Undetermined,
        Self::Unsaved,
        Self::RetainedFresh,
        Self::RetainedInUse,
        Self::RetainedLeased,
        Self::RetainedNestedCheckout,
        Self::RetainedClockSkew,
        Self::SkippedLayout,
        Self::Removable,
        Self::BeyondLimit,
        Self::NotReached,
        Self::Removed,
        Self::Quarantined,
        Self::Vanished,
        Self::RetainedResurrected,
        Self::RetainedChanged,
        Self::Refused,
        Self::Busy,
        Self::Interrupted,
    ];

    /// The name itself.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Referenced => "referenced",
            Self::Disputed => "disputed",
            Self::Undetermined => "undetermined",
            Self::Unsaved => "unsaved",
            Self::RetainedFresh => "retained_fresh",
            Self::RetainedInUse => "retained_in_use",
            Self::RetainedLeased => "retained_leased",
            Self::RetainedNestedCheckout => "retained_nested_checkout",
            Self::RetainedClockSkew => "retained_clock_skew",
            Self::SkippedLayout => "skipped_layout",
            Self::Removable => "removable",
            Self::BeyondLimit => "beyond_limit",
            Self::NotReached => "not_reached",
            Self::Removed => "removed",
            Self::Quarantined => "quarantined",
            Self::Vanished => "vanished",
            Self::RetainedResurrected => "retained_resurrected",
            Self::RetainedChanged => "retained_changed",
            Self::Refused => "refused",
            Self::Busy => "busy",
            Self::Interrupted => "interrupted",
        }
    }
}

impl Fate {
    /// The name under which it is counted.
    #[must_use]
    pub fn name(&self) -> FateName {
        match self {
            Self::Kept(verdict) => kept_name(verdict),
            Self::Removable => FateName::Removable,
            Self::BeyondLimit => FateName::BeyondLimit,
            Self::NotReached => FateName::NotReached,
            Self::Settled(outcome) => match outcome {
                Outcome::Removed { .. } => FateName::Removed,
                Outcome::Quarantined => FateName::Quarantined,
                Outcome::Vanished => FateName::Vanished,
                Outcome::Resurrected(_) => FateName::RetainedResurrected,
                Outcome::Changed(_) => FateName::RetainedChanged,
                Outcome::Refused { .. } => FateName::Refused,
                Outcome::Busy { .. } => FateName::Busy,
                Outcome::Interrupted { .. } => FateName::Interrupted,
            },
        }
    }
}

/// What keeps a directory; where several holds do, the first names it.
fn kept_name(verdict: &Verdict) -> FateName {
    match verdict {
        Verdict::Referenced(_) => FateName::Referenced,
        Verdict::Disputed(_) => FateName::Disputed,
        Verdict::Undetermined(_) => FateName::Undetermined,
        Verdict::Orphaned(Orphan::Held(holds)) => hold_name(holds.first()),
        Verdict::Orphaned(Orphan::Unsaved(_)) => FateName::Unsaved,
        Verdict::Orphaned(Orphan::Clean) => FateName::Removable,
    }
}

fn hold_name(hold: &Hold) -> FateName {
    match hold {
        Hold::Fresh { .. } => FateName::RetainedFresh,
        Hold::InUse(_) => FateName::RetainedInUse,
        Hold::Leased { .. } => FateName::RetainedLeased,
        Hold::NestedCheckout(_) => FateName::RetainedNestedCheckout,
        Hold::UnexpectedLayout(_) => FateName::SkippedLayout,
        Hold::ClockSkew { .. } => FateName::RetainedClockSkew,
    }
}

/// The label of a verdict in reports and records; a closed set.
#[must_use]
pub fn verdict_label(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Referenced(_) => "referenced",
        Verdict::Disputed(_) => "disputed",
        Verdict::Undetermined(_) => "undetermined",
        Verdict::Orphaned(Orphan::Held(_)) => "held",
        Verdict::Orphaned(Orphan::Unsaved(_)) => "unsaved",
        Verdict::Orphaned(Orphan::Clean) => "clean",
    }
}

/// Counts of fates by name. It can only be folded from the fates themselves, so the sum is the
/// number of directories by construction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally(BTreeMap<FateName, u64>);

impl Tally {
    /// How many directories ended under `name`.
    #[must_use]
    pub fn of(&self, name: FateName) -> u64 {
        self.0.get(&name).copied().unwrap_or(0)
    }

    /// How many directories were looked at: the sum over all names.
    #[must_use]
    pub fn scanned(&self) -> u64 {
        self.0.values().sum()
    }

    /// Name and count, in the order of reports; names that nobody bears are left out.
    pub fn iter(&self) -> impl Iterator<Item = (FateName, u64)> {
        self.0.iter().map(|(name, count)| (*name, *count))
    }
}

impl<'a> FromIterator<&'a Fate> for Tally {
    fn from_iter<I: IntoIterator<Item = &'a Fate>>(fates: I) -> Self {
        let mut counts = BTreeMap::new();
        for fate in fates {
            *counts.entry(fate.name()).or_insert(0) += 1;
        }
        Self(counts)
    }
}
