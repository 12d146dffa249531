//! What an act came to: the report of the sweep and everything measured and mended around it.

use derelict_core::outcome::{Fate, Outcome, Release, StopReason};
use derelict_core::record::SweepReport;
use derelict_core::size::Freed;
use derelict_reclaim::quarantine::{End, Expired};

use crate::exit::Exit;
use crate::quarantine;

/// All that happened after the consent.
#[derive(Debug)]
pub(crate) struct Aftermath {
    /// What became of removals that an earlier run had left in hand.
    pub(crate) recovered: Vec<Recovered>,
    /// What became of directories that were set aside earlier and whose grace is over.
    pub(crate) expired: Vec<Expired>,
    /// Every directory of the plan with its fate.
    pub(crate) report: SweepReport,
    /// What the plan promised to free.
    pub(crate) estimate: Freed,
    /// How much the free space of the file system grew; `None` when it could not be asked.
    pub(crate) measured: Option<i64>,
    /// The records of directories that were gone before.
    pub(crate) stale: StaleRecords,
    /// Why the breakers will not remember this sweep, if they will not.
    pub(crate) history: Option<String>,
}

/// What became of one removal that an earlier run had left in hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Recovered {
    /// A sentence naming the directory.
    pub(crate) text: String,
    /// Whether it is settled now.
    pub(crate) settled: Recovery,
    /// The records that were dropped with it.
    pub(crate) records: Vec<String>,
}

/// Whether a recovery succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recovery {
    /// It is back under its name, to be judged again.
    PutBack,
    /// It is settled in another way: finished, or nothing had happened.
    Settled,
    /// Something is left for a person or a later run.
    Left,
}

/// What became of the records of directories that vanished earlier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StaleRecords {
    /// These were dropped; perhaps none.
    Dropped(Vec<String>),
    /// They stay, for this reason.
    Failed(String),
}

impl Aftermath {
    /// The keys of all records that were dropped.
    pub(crate) fn records_dropped(&self) -> Vec<String> {
        let released = self.report.settled.iter().filter_map(|settled| match &settled.fate {
            Fate::Settled(Outcome::Removed { release: Release::Dropped(keys), .. }) => Some(keys.as_slice()),
            Fate::Kept(_) | Fate::Removable | Fate::BeyondLimit | Fate::NotReached | Fate::Settled(_) => None,
        });
        let stale = match &self.stale {
            StaleRecords::Dropped(keys) => keys.as_slice(),
            StaleRecords::Failed(_) => &[],
        };
        let recovered = self.recovered.iter().flat_map(|recovered| &recovered.records);
        let expired = self.expired.iter().filter_map(|expired| match &expired.end {
            End::Removed { release: Release::Dropped(keys), .. } => Some(keys.as_slice()),
            End::Removed { release: Release::NothingRecorded | Release::Failed(_), .. }
            | End::Refused { .. }
            | End::PutBack(_)
            | End::Occupied(_)
            | End::Unseen(_)
            | End::Left(_) => None,
        });
        recovered.chain(expired.flatten()).chain(released.flatten()).chain(stale).cloned().collect()
    }

    /// What went wrong beside the sweep itself, one sentence each.
    pub(crate) fn troubles(&self) -> Vec<String> {
        let stale = match &self.stale {
            StaleRecords::Dropped(_) => None,
            StaleRecords::Failed(why) => Some(format!("the records of directories that are gone stay: {why}")),
        };
        stale.into_iter().chain(self.history.iter().cloned()).collect()
    }

    /// The exit code: the worst of how the sweep ended and of how each directory did.
    pub(crate) fn exit(&self) -> Exit {
        let fates = self.report.settled.iter().map(|settled| exit_of_fate(&settled.fate));
        let stale = match &self.stale {
            StaleRecords::Dropped(_) => Exit::Done,
            StaleRecords::Failed(_) => Exit::Incomplete,
        };
        let left = self.recovered.iter().map(|recovered| match recovered.settled {
            Recovery::PutBack | Recovery::Settled => Exit::Done,
            Recovery::Left => Exit::Incomplete,
        });
        let expired = self.expired.iter().map(|expired| quarantine::exit_of(&expired.end));
        fates.chain(left).chain(expired).chain([exit_of_stop(&self.report.stop), stale]).max().unwrap_or(Exit::Done)
    }
}

fn exit_of_stop(stop: &StopReason) -> Exit {
    match stop {
        StopReason::Finished | StopReason::LimitReached(_) => Exit::Done,
        // Agreed to, and not all of it done.
        StopReason::Cancelled | StopReason::Deadline => Exit::Incomplete,
        StopReason::SourceLost { .. }
        | StopReason::BreakerTripped(_)
        | StopReason::JournalLost(_)
        | StopReason::RootAbsent(_) => Exit::Stopped,
    }
}

fn exit_of_fate(fate: &Fate) -> Exit {
    match fate {
        Fate::Settled(outcome) => match outcome {
            Outcome::Removed { release: Release::Failed(_), .. }
            | Outcome::Refused { .. }
            | Outcome::Busy { .. }
            | Outcome::Interrupted { .. } => Exit::Incomplete,
            Outcome::Removed { release: Release::Dropped(_) | Release::NothingRecorded, .. }
            | Outcome::Quarantined
            | Outcome::Vanished
            | Outcome::Resurrected(_)
            | Outcome::Changed(_) => Exit::Done,
        },
        Fate::Kept(_) | Fate::Removable | Fate::BeyondLimit | Fate::NotReached => Exit::Done,
    }
}

/// Aftermaths for the tests of the reports.
#[cfg(test)]
pub(crate) mod samples {
    use derelict_core::record::Settled;
    use derelict_core::size::Completeness;

    use super::*;
    use crate::findings::samples::{CLEAN, judged};

    /// An act in which the directories `c0`, `c1`, … ended so.
    pub(crate) fn aftermath(fates: Vec<Fate>, stop: StopReason) -> Aftermath {
        let settled = fates.into_iter().enumerate().map(|(n, fate)| {
            let candidate = judged(format!("c{n}").as_bytes(), n as u64, CLEAN).candidate;
            Settled { candidate, intent: None, fate }
        });
        Aftermath {
            recovered: Vec::new(),
            expired: Vec::new(),
            report: SweepReport { settled: settled.collect(), stop },
            estimate: Freed { bytes: 4096, inodes: 3, completeness: Completeness::Exact },
            measured: Some(2048),
            stale: StaleRecords::Dropped(Vec::new()),
            history: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use derelict_core::ids::{NonEmpty, SourceId};
    use derelict_core::outcome::{Discarded, Refusal};

    use super::samples::aftermath;
    use super::*;

    const NOTHING: Discarded = Discarded { entries: 0, bytes: 0 };

    fn exit(outcome: Outcome) -> Exit {
        aftermath(vec![Fate::Settled(outcome)], StopReason::Finished).exit()
    }

    #[test]
    fn what_was_refused_busy_or_interrupted_asks_for_a_person() {
        let refusals = NonEmpty::of(Refusal { path: "/c/x".into(), why: "immutable".into() });
        assert_eq!(exit(Outcome::Refused { refusals, discarded: NOTHING }), Exit::Incomplete);
        assert_eq!(exit(Outcome::Busy { lock: "launch lock".into() }), Exit::Incomplete);
        assert_eq!(exit(Outcome::Interrupted { why: "x".into() }), Exit::Incomplete);
        let release = Release::Failed("metadata.json: not JSON".into());
        assert_eq!(exit(Outcome::Removed { discarded: NOTHING, release, rescued: None }), Exit::Incomplete);
    }

    #[test]
    fn a_directory_that_was_saved_or_gone_in_time_is_no_failure() {
        let verdict = crate::findings::samples::referenced();
        assert_eq!(exit(Outcome::Vanished), Exit::Done);
        assert_eq!(exit(Outcome::Changed(crate::findings::samples::unsaved())), Exit::Done);
        assert_eq!(exit(Outcome::Resurrected(verdict)), Exit::Done);
    }

    #[test]
    fn a_lost_source_is_worse_than_a_refusal() {
        let stop = StopReason::SourceLost { source: SourceId("devpod".into()), why: "gone".into() };
        assert_eq!(aftermath(vec![Fate::NotReached], stop).exit(), Exit::Stopped);
        assert_eq!(aftermath(vec![Fate::NotReached], StopReason::Cancelled).exit(), Exit::Incomplete);
    }

    #[test]
    fn dropped_records_are_those_of_removals_and_the_stale_ones() {
        let release = Release::Dropped(NonEmpty::of("a/b/c".into()));
        let mut after = aftermath(
            vec![Fate::Settled(Outcome::Removed { discarded: NOTHING, release, rescued: None })],
            StopReason::Finished,
        );
        after.stale = StaleRecords::Dropped(vec!["a/b/gone".into()]);
        assert_eq!(after.records_dropped(), ["a/b/c", "a/b/gone"]);
    }
}
