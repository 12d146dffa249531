//! How each directory ended, and how the numbers of a report come from that: folded, never counted
//! along the way, so that what was scanned is what is accounted for.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::ids::{NonEmpty, SourceId, Timestamp};
use crate::verdict::{Orphan, Verdict};

/// What came of one attempt to remove a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is entirely gone.
    Removed {
        /// What was unlinked.
        discarded: Discarded,
        /// What became of the owner's record of it.
        release: Release,
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
    /// Bytes on disk of inodes whose last link went.
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
    LimitReached,
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
        }
    }
}

impl Fate {
    /// The label under which it is counted; a closed set.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::Kept(verdict) => verdict_label(verdict),
            Self::BeyondLimit => "beyond_limit",
            Self::NotReached => "not_reached",
            Self::Settled(outcome) => match outcome {
                Outcome::Removed { .. } => "removed",
                Outcome::Quarantined => "quarantined",
                Outcome::Vanished => "vanished",
                Outcome::Resurrected(_) => "resurrected",
                Outcome::Changed(_) => "changed",
                Outcome::Refused { .. } => "refused",
                Outcome::Busy { .. } => "busy",
                Outcome::Interrupted { .. } => "interrupted",
            },
        }
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

/// Counts of fates by label. It can only be folded from the fates themselves, so the sum is the
/// number of directories by construction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally(BTreeMap<&'static str, u64>);

impl Tally {
    /// How many directories ended under `label`.
    #[must_use]
    pub fn of(&self, label: &str) -> u64 {
        self.0.get(label).copied().unwrap_or(0)
    }

    /// How many directories were looked at: the sum over all labels.
    #[must_use]
    pub fn scanned(&self) -> u64 {
        self.0.values().sum()
    }

    /// Label and count, in the order of the labels.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(label, count)| (*label, *count))
    }
}

impl<'a> FromIterator<&'a Fate> for Tally {
    fn from_iter<I: IntoIterator<Item = &'a Fate>>(fates: I) -> Self {
        let mut counts = BTreeMap::new();
        for fate in fates {
            *counts.entry(fate.label()).or_insert(0) += 1;
        }
        Self(counts)
    }
}
