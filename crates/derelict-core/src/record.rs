//! What is written down: the intent before each removal, and the report at the end.

use crate::evidence::{Candidate, Observed, Proof};
use crate::ids::{Digest, FileIdentity, IntentId, Timestamp};
use crate::outcome::{Discarded, Fate, Outcome, StopReason, Tally};
use crate::recheck::Grace;
use crate::size::Freed;

/// What becomes of a directory that passed the second look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposal {
    /// It is discarded at once.
    Discard,
    /// It is set aside: it stays fenced and whole, and a sweep at this instant or later may discard it.
    Quarantine {
        /// When its grace is over.
        until: Timestamp,
    },
}

/// What is about to happen, durably on disk before it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// Which directory.
    pub candidate: Candidate,
    /// The digest of the plan it belongs to.
    pub plan: Digest,
    /// The digest of the evidence of the re-check.
    pub evidence: Digest,
    /// What of that says that nothing is lost, channel by channel.
    pub proof: Observed<Proof>,
    /// The losses accepted by force, if any.
    pub accepted_losses: Option<Digest>,
    /// The instant of the sweep.
    pub at: Timestamp,
    /// What becomes of it after the second look.
    pub disposal: Disposal,
    /// What its removal frees, by the plan.
    pub frees: Freed,
}

/// A directory that was set aside, as the journal knows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SetAside {
    /// The intent it was set aside for.
    pub intent: IntentId,
    /// Which directory, where it lay.
    pub candidate: Candidate,
    /// When.
    pub since: Timestamp,
    /// Until when it stays, and what may then go with it.
    pub grace: Grace,
    /// The bytes its removal frees, by the plan of then.
    pub bytes: u64,
    /// The inodes its removal frees, by the plan of then.
    pub inodes: u64,
}

/// What is remembered of a root from the last sweep that acted, for the circuit breakers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastSweep {
    /// When it ran.
    pub at: Timestamp,
    /// The root it ran on.
    pub root: FileIdentity,
    /// How many owners the sources listed.
    pub owners: u64,
    /// How many directories were referenced.
    pub referenced: u64,
}

/// One directory and where it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// Which directory.
    pub candidate: Candidate,
    /// The intent, if one was written.
    pub intent: Option<IntentId>,
    /// Where it ended.
    pub fate: Fate,
}

/// The report of a sweep. It is returned on every path, a fault included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SweepReport {
    /// Every directory of the plan with its fate.
    pub settled: Vec<Settled>,
    /// Why the sweep ended.
    pub stop: StopReason,
}

impl SweepReport {
    /// Counts by label, folded from the fates.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.settled.iter().map(|settled| &settled.fate).collect()
    }

    /// What was unlinked in all, partly removed directories included.
    #[must_use]
    pub fn discarded(&self) -> Discarded {
        let each = self.settled.iter().filter_map(|settled| match &settled.fate {
            Fate::Settled(Outcome::Removed { discarded, .. } | Outcome::Refused { discarded, .. }) => Some(*discarded),
            Fate::Settled(
                Outcome::Quarantined
                | Outcome::Vanished
                | Outcome::Resurrected(_)
                | Outcome::Changed(_)
                | Outcome::Busy { .. }
                | Outcome::Interrupted { .. },
            )
            | Fate::Kept(_)
            | Fate::Removable
            | Fate::BeyondLimit
            | Fate::NotReached => None,
        });
        each.fold(Discarded { entries: 0, bytes: 0 }, |sum, one| Discarded {
            entries: sum.entries + one.entries,
            bytes: sum.bytes + one.bytes,
        })
    }
}
