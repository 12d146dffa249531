//! What happens after the consent: the journal is opened, what an earlier run left is settled, the plan is carried out
//! by `derelict-core`'s sweep over the real ports, and the change is measured.

use std::path::Path;
use std::time::Duration;

use derelict_core::evidence::{Candidate, Evidence};
use derelict_core::outcome::{Release, StopReason};
use derelict_core::plan::ApprovedPlan;
use derelict_core::ports::{Observe, SourceLost};
use derelict_core::record::{Disposal, SetAside, SweepReport};
use derelict_core::rescue::Salvage;
use derelict_core::sweep::{World, stopped, sweep};
use derelict_observe::DevlaunchObserver;
use derelict_reclaim::beneath::Root;
use derelict_reclaim::journal::{Journal, JournalError};
use derelict_reclaim::lock::DevlaunchLocks;
use derelict_reclaim::quarantine::{self, Expiries};
use derelict_reclaim::reclaimer::{OpenWorkspace, Reclaimer};
use derelict_reclaim::recover;
use derelict_reclaim::release::DevlaunchRecords;
use derelict_reclaim::rescue::Rescues;

use crate::aftermath::{Aftermath, Recovered, Recovery, StaleRecords};
use crate::console::Console;
use crate::estate::{Estate, Memory, POLICY};
use crate::exit::Failure;
use crate::findings::Findings;
use crate::host;
use crate::signals::Stop;
use crate::text;

/// An estate about to be changed: its journal is open, and no other derelict changes anything while it is.
pub(crate) struct Acting<'e> {
    estate: &'e Estate,
    journal: Journal,
    reclaimer: Reclaimer,
    locks: DevlaunchLocks,
    stop: Stop,
    free: Option<u64>,
}

/// What looks again, and what the survey leaves to remember.
pub(crate) struct Looks {
    /// Looks again.
    pub(crate) observer: DevlaunchObserver,
    /// Is remembered.
    pub(crate) memory: Memory,
}

/// What settling the left-overs of earlier runs came to.
#[derive(Debug)]
pub(crate) struct Recoveries {
    told: Vec<Recovered>,
    lost: Option<StopReason>,
}

impl Recoveries {
    /// What is to be told.
    pub(crate) fn into_told(self) -> Vec<Recovered> {
        self.told
    }

    /// Why nothing more may be done, if so.
    pub(crate) fn lost(&self) -> Option<&StopReason> {
        self.lost.as_ref()
    }
}

impl<'e> Acting<'e> {
    /// Opens the journal, which waits a moment for another derelict to end.
    ///
    /// # Errors
    /// A [`Failure`] when the journal or the root cannot be opened; nothing has changed then.
    pub(crate) fn begin(estate: &'e Estate, rescue: Option<&Path>) -> Result<Self, Failure> {
        // From here on a signal finishes what is in hand.
        let stop = Stop::watch().map_err(Failure::incomplete)?;
        let free = host::free_space(estate.repos());
        let mut journal = Journal::open(estate.state()).map_err(not_opened)?;
        let now = host::now().map_err(Failure::stopped)?;
        let rescues = rescue.map(|place| Rescues::open(place, now, text::stamp(now))).transpose();
        let rescues = rescues.map_err(Failure::incomplete)?;
        journal.note_sweep(now).map_err(Failure::stopped)?;
        let root = Root::open(estate.repos()).map_err(Failure::stopped)?;
        let records = DevlaunchRecords::new(estate.home());
        let reclaimer = Reclaimer::new(root, records, journal.id().clone()).with_rescues(rescues);
        let locks = DevlaunchLocks::new(estate.home());
        Ok(Self { estate, journal, reclaimer, locks, stop, free })
    }

    /// Settles what earlier runs left: puts back what is whole, finishes what was begun.
    pub(crate) fn recover(&mut self) -> Recoveries {
        let recovery = recover::recover(&mut self.journal, &self.reclaimer, &mut self.locks);
        Recoveries {
            told: recovery.recovered.iter().map(told).collect(),
            lost: recovery.lost.map(|lost| StopReason::JournalLost(lost.why)),
        }
    }

    /// Discards what was set aside earlier and whose grace is over, then carries out the plan. With a `grace`, what the
    /// plan lets go is set aside.
    pub(crate) fn sweep(
        mut self,
        approved: &ApprovedPlan,
        grace: Option<Duration>,
        looks: Looks,
        findings: &Findings,
        recoveries: Recoveries,
        console: &mut Console,
    ) -> Aftermath {
        let Looks { mut observer, memory } = looks;
        let Expiries { expired, stop } = if findings.expired.is_empty() {
            Expiries { expired: Vec::new(), stop: None }
        } else {
            self.expire(&mut observer, &memory, console)
        };
        let disposal = grace.map_or(Disposal::Discard, |grace| Disposal::Quarantine { until: memory.now.after(grace) });
        let report = match stop {
            None => self.remove(approved, disposal, observer, &memory, console),
            Some(stop) => stopped(approved.plan(), stop),
        };
        let stale = match &report.stop {
            StopReason::Finished | StopReason::LimitReached(_) => self.drop_stale(&findings.stale_records),
            // Whoever is alive could not be told, or was not asked to the end: the records stay as they are.
            StopReason::SourceLost { .. }
            | StopReason::BreakerTripped(_)
            | StopReason::JournalLost(_)
            | StopReason::RootAbsent(_)
            | StopReason::Cancelled
            | StopReason::Deadline => StaleRecords::Dropped(Vec::new()),
        };
        let remembered = self.estate.remember(&memory);
        Aftermath {
            recovered: recoveries.into_told(),
            expired,
            report,
            estimate: approved.plan().frees(),
            measured: self.measured(),
            stale,
            history: remembered.err().map(|error| format!("this sweep will not be remembered: {error:#}")),
        }
    }

    fn expire(&mut self, observer: &mut DevlaunchObserver, memory: &Memory, console: &mut Console) -> Expiries {
        let progress = console.phase("asking who wants back what was set aside");
        if let Err(lost) = observer.refresh() {
            let stop = StopReason::SourceLost { source: lost.source_id, why: lost.why };
            return Expiries { expired: Vec::new(), stop: Some(stop) };
        }
        let stop = self.stop.clone();
        let look = |set_aside: &SetAside, open: &OpenWorkspace| {
            progress.now(format!("discarding what was set aside: {}", text::path(&set_aside.candidate.below_root)));
            observer.look_at_set_aside(set_aside, open.dir())
        };
        let halt = || stop.asked().then_some(StopReason::Cancelled);
        quarantine::expire(&mut self.journal, &self.reclaimer, &mut self.locks, (&POLICY, memory.now), look, halt)
    }

    fn remove(
        &mut self,
        approved: &ApprovedPlan,
        disposal: Disposal,
        observer: DevlaunchObserver,
        memory: &Memory,
        console: &mut Console,
    ) -> SweepReport {
        let progress = console.phase("asking again who is alive");
        let total = text::number(approved.plan().removals().len() as u64);
        let mut begun = 0_u64;
        let (stop, mut looker) = (self.stop.clone(), Looker(observer));
        let world = World {
            observe: &mut looker,
            lock: &mut self.locks,
            reclaim: &mut self.reclaimer,
            journal: &mut self.journal,
        };
        sweep(
            approved,
            &POLICY,
            memory.now,
            disposal,
            world,
            || stop.asked().then_some(StopReason::Cancelled),
            |removal| {
                begun += 1;
                let name = text::path(&removal.judged().candidate.below_root);
                progress.now(format!("removing {} of {total}: {name}", text::number(begun)));
            },
        )
    }

    fn drop_stale(&self, keys: &[String]) -> StaleRecords {
        match DevlaunchRecords::new(self.estate.home()).drop_vanished(keys, &self.journal) {
            Release::Dropped(keys) => StaleRecords::Dropped(keys.as_slice().to_vec()),
            Release::NothingRecorded => StaleRecords::Dropped(Vec::new()),
            Release::Failed(why) => StaleRecords::Failed(why),
        }
    }

    /// By how much the free space grew since the beginning.
    fn measured(&self) -> Option<i64> {
        let (before, after) = (self.free?, host::free_space(self.estate.repos())?);
        i64::try_from(i128::from(after) - i128::from(before)).ok()
    }
}

/// The observer as the sweep's port: it looks through the descriptor that the reclaimer holds.
struct Looker(DevlaunchObserver);

impl Observe for Looker {
    type Handle = OpenWorkspace;

    fn refresh(&mut self) -> Result<(), SourceLost> {
        self.0.refresh()
    }

    fn look_again(&mut self, candidate: &Candidate, handle: &OpenWorkspace) -> Result<Evidence, SourceLost> {
        self.0.look_again(candidate, handle.dir())
    }

    fn second_look(
        &mut self,
        candidate: &Candidate,
        handle: &OpenWorkspace,
        first: &Evidence,
    ) -> Result<Evidence, SourceLost> {
        self.0.second_look(candidate, handle.dir(), first)
    }

    fn salvage(&mut self, candidate: &Candidate, handle: &OpenWorkspace) -> Result<Box<dyn Salvage>, String> {
        self.0.salvage(candidate, handle.dir())
    }
}

/// Another derelict at work is a reason to come back; a journal that cannot be used is one to stop.
fn not_opened(error: JournalError) -> Failure {
    match &error {
        JournalError::Busy { .. } => Failure::incomplete(error),
        JournalError::Io { .. } | JournalError::Corrupt { .. } | JournalError::Newer { .. } => Failure::stopped(error),
    }
}

/// What recovery did, in words.
fn told(recovered: &recover::Recovered) -> Recovered {
    let (settled, records) = match recovered {
        recover::Recovered::Untouched { .. } => (Recovery::Settled, Vec::new()),
        recover::Recovered::PutBack { .. } => (Recovery::PutBack, Vec::new()),
        recover::Recovered::Finished { release, .. } | recover::Recovered::Gone { release, .. } => match release {
            Release::Dropped(keys) => (Recovery::Settled, keys.as_slice().to_vec()),
            Release::NothingRecorded => (Recovery::Settled, Vec::new()),
            Release::Failed(_) => (Recovery::Left, Vec::new()),
        },
        recover::Recovered::Occupied { .. }
        | recover::Recovered::Unfinished { .. }
        | recover::Recovered::Busy { .. }
        | recover::Recovered::Undecided { .. }
        | recover::Recovered::UnknownTrash { .. } => (Recovery::Left, Vec::new()),
    };
    Recovered { text: sentence(recovered), settled, records }
}

fn sentence(recovered: &recover::Recovered) -> String {
    match recovered {
        recover::Recovered::Untouched { path } => {
            format!("{}: an earlier run was interrupted before it touched this", text::path(path))
        }
        recover::Recovered::PutBack { path } => {
            format!("{}: put back after an earlier run was interrupted", text::path(path))
        }
        recover::Recovered::Occupied { trash, path } => {
            let (trash, path) = (text::path(trash), text::path(path));
            format!("{trash}: set aside by an earlier run, whole; to restore it, free its name and move it to {path}")
        }
        recover::Recovered::Finished { path, discarded, release } => {
            let entries = text::count(discarded.entries, text::ENTRY);
            let path = text::path(path);
            format!("{path}: what an earlier run had begun to remove is gone now ({entries}){}", trouble(release))
        }
        recover::Recovered::Unfinished { path, discarded, refusals } => {
            let (path, entries) = (text::path(path), text::count(discarded.entries, text::ENTRY));
            let why = refusals.iter().map(|refusal| format!("{}: {}", text::path(&refusal.path), refusal.why));
            let why = why.collect::<Vec<_>>().join("; ");
            format!(
                "{path}: an earlier run had begun to remove it ({entries} more went now); the rest would not go: {why}"
            )
        }
        recover::Recovered::Gone { path, release } => {
            format!("{}: was gone already when an earlier run ended{}", text::path(path), trouble(release))
        }
        recover::Recovered::Busy { path, lock } => {
            format!("{}: left by an earlier run, and stays for now: {lock}", text::path(path))
        }
        recover::Recovered::Undecided { path, why } => {
            format!("{}: left by an earlier run, and not touched: {why}", text::path(path))
        }
        recover::Recovered::UnknownTrash { path } => {
            format!("{}: set aside by a run that no journal here knows; not touched", text::path(path))
        }
    }
}

fn trouble(release: &Release) -> String {
    match release {
        Release::Dropped(_) | Release::NothingRecorded => String::new(),
        Release::Failed(why) => format!("; its record stays: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use derelict_core::ids::NonEmpty;
    use derelict_core::outcome::{Discarded, Refusal};

    use super::*;

    #[test]
    fn what_recovery_could_not_settle_is_left_for_a_person_and_named() {
        let refusals = vec![Refusal { path: "/c/trash/x".into(), why: "immutable".into() }];
        let discarded = Discarded { entries: 2, bytes: 0 };
        let unfinished = told(&recover::Recovered::Unfinished { path: "/c/a".into(), discarded, refusals });
        assert_eq!(unfinished.settled, Recovery::Left);
        assert!(unfinished.text.ends_with("the rest would not go: /c/trash/x: immutable"), "{}", unfinished.text);
        let unknown = told(&recover::Recovered::UnknownTrash { path: "/c/b".into() });
        assert_eq!(unknown.settled, Recovery::Left);
    }

    #[test]
    fn records_that_recovery_dropped_are_counted() {
        let release = Release::Dropped(NonEmpty::of("a/b/c".into()));
        let gone = told(&recover::Recovered::Gone { path: "/c/a".into(), release });
        assert_eq!((gone.settled, gone.records), (Recovery::Settled, vec!["a/b/c".to_owned()]));
    }
}
