//! One unattended sweep of one root, from the first question to the record of what was done. It always ends in a
//! record: whatever stops it is a stop reason in it, and what was done before that stays in it.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use derelict_core::ids::{Digest, Timestamp};
use derelict_core::outcome::{Breaker, FateName, StopReason};
use derelict_core::plan::{Consent, Judged, Plan};
use derelict_core::policy::{Force, Limits, Policy, Postponed, Selection};
use derelict_core::record::{Disposal, LastSweep, SetAside, SweepReport};
use derelict_core::survey::{breakers, judge_all, referenced, source_clock};
use derelict_core::sweep::{World, report_only, stopped, sweep};
use derelict_observe::roots::{NotSurveyed, Owners, RootObserver, RootSpec, RootSurvey, Shape};
use derelict_observe::{Environment, Progress, Terms};
use derelict_reclaim::beneath::Root;
use derelict_reclaim::journal::{Journal, Untold};
use derelict_reclaim::pace::Pace;
use derelict_reclaim::quarantine::{self, Expired, Expiries};
use derelict_reclaim::reclaimer::{OpenWorkspace, Reclaimer};
use derelict_reclaim::recover::{self, Recovered, Recovery};

use crate::host;
use crate::last_sweep::Remembered;
use crate::reaper::ports::{Hand, Looker, OwnerLocks};
use crate::reaper::postponed;
use crate::reaper::record::{Mode, SweepRecord};
use crate::reaper::recording::{Head, record};
use crate::text;

/// One root as it is to be swept, everything resolved from the configuration.
#[derive(Debug, Clone)]
pub(crate) struct Assignment {
    /// Its name in the configuration.
    pub(crate) name: String,
    /// Where it is, resolved.
    pub(crate) path: PathBuf,
    /// The name of its owner source in evidence and reports.
    pub(crate) source: String,
    /// What its workspaces look like.
    pub(crate) shape: Shape,
    /// The rules.
    pub(crate) policy: Policy,
    /// What is said outside of the workspaces.
    pub(crate) terms: Terms,
    /// Where programs and the user's files are.
    pub(crate) environment: Environment,
    /// How long an owner may have been idle, for the cutoff.
    pub(crate) idle: Duration,
    /// How much one sweep may take.
    pub(crate) limits: Limits,
    /// How hard the file system is worked.
    pub(crate) pace: Pace,
    /// How long one sweep may take.
    pub(crate) deadline: Duration,
    /// How long what goes waits beside its place; zero discards it at once.
    pub(crate) grace: Duration,
    /// Whether anything may go.
    pub(crate) mode: Mode,
    /// Breakers that do not stop it, by name.
    pub(crate) acknowledged: Vec<String>,
    /// The key by which sweepers of one root know each other, whatever path they reach it by.
    pub(crate) lock_key: String,
    /// How often it is swept.
    pub(crate) interval: Duration,
    /// Where its journal and its memory are.
    pub(crate) state: PathBuf,
}

/// Told what a sweep is doing, for metrics and for whoever watches from outside; and asked whether it has to end.
pub(crate) trait Watcher: Sync {
    /// Something an operator should know that is no fate of a directory.
    fn tell(&self, text: &str);
    /// A sign of life.
    fn progress(&self);
    /// Whether somebody wants the sweep to end.
    fn cancelled(&self) -> bool;
    /// One row and one directory were read again, in this time.
    fn reread(&self, took: Duration);
    /// Entries were unlinked, each in this time on average.
    fn unlinked(&self, each: Duration);
    /// This long passed between a re-check and the second look behind the fence.
    fn window(&self, took: Duration);
}

/// A sweep that is under way.
struct Sweeping<'s> {
    assignment: &'s Assignment,
    watcher: &'s dyn Watcher,
    now: Timestamp,
    begun: Instant,
    remembered: Remembered,
}

/// Why there is no plan, or none that may be carried out.
type Stopped = StopReason;

/// What a sweep came to.
pub(crate) struct Swept {
    /// Without one nothing was looked at.
    pub(crate) plan: Option<Plan>,
    /// How each directory of the plan ended.
    pub(crate) report: SweepReport,
    /// What was set aside earlier and whose grace is over.
    pub(crate) expired: Vec<Expired>,
    /// What an earlier sweep left.
    pub(crate) left: Leftovers,
}

impl Swept {
    fn nothing(stop: StopReason, left: Leftovers) -> Self {
        let report = SweepReport { settled: Vec::new(), stop };
        Self { plan: None, report, expired: Vec::new(), left }
    }
}

/// What an earlier sweep left.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    /// What it had in hand.
    pub(crate) recovered: Vec<Recovered>,
    /// What it had removed, and was killed before it could tell.
    pub(crate) untold: Vec<Untold>,
}

/// What a sweep acts with, and what an earlier one left.
struct Begun {
    acting: Result<(Journal, Reclaimer), Stopped>,
    left: Leftovers,
}

/// What was done after the plan was made.
struct Acted {
    plan: Plan,
    expired: Vec<Expired>,
    report: SweepReport,
}

impl Acted {
    fn nothing(plan: Plan, report: impl FnOnce(&Plan) -> SweepReport) -> Self {
        Self { report: report(&plan), plan, expired: Vec::new() }
    }
}

/// Everything that was seen and decided before the first removal.
struct Planned {
    observer: RootObserver,
    plan: Plan,
    memory: LastSweep,
    /// What would not go before.
    postponed: Postponed,
    alarm: Option<Breaker>,
}

/// Sweeps one root. The owner source must be connected, and this process be the only one that sweeps the root.
///
/// # Errors
/// When the clock cannot be read; then nothing was looked at.
pub(crate) fn sweep_root(
    assignment: &Assignment,
    owners: &Owners,
    watcher: &dyn Watcher,
) -> anyhow::Result<SweepRecord> {
    let now = host::now()?;
    let remembered = Remembered::of(&assignment.path, &assignment.state);
    let sweeping = Sweeping { assignment, watcher, now, begun: Instant::now(), remembered };
    let free = host::free_space(&assignment.path);
    let swept = sweeping.run(owners);
    let measured = free.zip(host::free_space(&assignment.path)).and_then(|(before, after)| {
        // A report changes nothing, so what changed meanwhile is somebody else's.
        let grown = i128::from(after) - i128::from(before);
        i64::try_from(grown).ok().filter(|_| assignment.mode == Mode::Armed)
    });
    let ended = host::now()?;
    let cutoff = now.before(assignment.idle);
    Ok(record(&Head { assignment, began: now, ended, cutoff, measured }, swept))
}

/// The record of a sweep that could not even begin.
///
/// # Errors
/// When the clock cannot be read.
pub(crate) fn not_begun(assignment: &Assignment, stop: StopReason) -> anyhow::Result<SweepRecord> {
    let now = host::now()?;
    let cutoff = now.before(assignment.idle);
    let swept = Swept::nothing(stop, Leftovers::default());
    Ok(record(&Head { assignment, began: now, ended: now, cutoff, measured: None }, swept))
}

impl Sweeping<'_> {
    fn run(&self, owners: &Owners) -> Swept {
        let (acting, left) = match self.assignment.mode {
            Mode::Report => (None, Leftovers::default()),
            Mode::Armed => match self.begin(owners) {
                Begun { acting: Ok(acting), left } => (Some(acting), left),
                Begun { acting: Err(stop), left } => return Swept::nothing(stop, left),
            },
        };
        let planned = match self.plan(owners) {
            Ok(planned) => planned,
            Err(stop) => return Swept::nothing(stop, left),
        };
        let Planned { observer, plan, memory, postponed, alarm } = planned;
        let Acted { plan, expired, report } = match (&alarm, acting) {
            (Some(breaker), _) => {
                Acted::nothing(plan, |plan| stopped(plan, StopReason::BreakerTripped(breaker.clone())))
            }
            (None, None) => Acted::nothing(plan, report_only),
            (None, Some(acting)) => self.act(plan, observer, acting, owners),
        };
        let report = match alarm {
            // What tripped a breaker is not the measure of the next sweep.
            Some(_) => report,
            None => self.remember(memory, &postponed, &plan, report),
        };
        Swept { plan: Some(plan), report, expired, left }
    }

    /// Opens the journal and settles what an earlier sweep left, so that what is put back is judged like the rest.
    fn begin(&self, owners: &Owners) -> Begun {
        let (mut journal, reclaimer) = match self.open() {
            Ok(opened) => opened,
            Err(stop) => return Begun { acting: Err(stop), left: Leftovers::default() },
        };
        let untold = journal.untold().to_vec();
        let Recovery { recovered, lost } = recover::recover(&mut journal, &reclaimer, &mut OwnerLocks::new(owners));
        for recovered in &recovered {
            self.watcher.tell(&recovered.to_string());
        }
        let acting = match lost {
            Some(journal) => Err(StopReason::JournalLost(journal.why)),
            None => Ok((journal, reclaimer)),
        };
        Begun { acting, left: Leftovers { recovered, untold } }
    }

    fn open(&self) -> Result<(Journal, Reclaimer), Stopped> {
        let lost = |error: &dyn std::fmt::Display| StopReason::JournalLost(error.to_string());
        let root = Root::open(&self.assignment.path).map_err(|error| self.absent(&error.source.to_string()))?;
        let mut journal = Journal::open(&self.assignment.state).map_err(|error| lost(&error))?;
        journal.note_sweep(self.now).map_err(|error| lost(&error))?;
        let reclaimer = Reclaimer::without_records(root, NonZeroUsize::MIN, journal.id().clone());
        Ok((journal, reclaimer.with_pace(self.assignment.pace)))
    }

    fn absent(&self, why: &str) -> StopReason {
        self.watcher.tell(&format!("the root {} cannot be read: {why}", text::path(&self.assignment.path)));
        StopReason::RootAbsent(self.assignment.path.clone())
    }

    fn plan(&self, owners: &Owners) -> Result<Planned, Stopped> {
        let last = self.remembered.last().map_err(|error| StopReason::JournalLost(format!("{error:#}")))?;
        let postponed =
            postponed::read(&self.assignment.state).map_err(|error| StopReason::JournalLost(format!("{error:#}")))?;
        let mut observer = RootObserver::new(self.spec(), owners.clone(), self.now);
        let clock = || host::now().unwrap_or(self.now);
        let survey = observer.survey(clock, &|_: Progress| self.watcher.progress()).map_err(|error| match error {
            NotSurveyed::RootAbsent { why, .. } => self.absent(&why),
            NotSurveyed::SourceLost(lost) => StopReason::SourceLost { source: lost.source_id, why: lost.why },
        })?;
        for word in self.assignment.terms.words() {
            self.watcher.tell(&text::sentence(&word));
        }
        let RootSurvey { sightings, skipped, owners, root, clocks, git, .. } = survey;
        for why in git {
            self.watcher.tell(&format!(
                "git's configuration cannot be read, so no forge saves anything: {}",
                text::sentence(&why)
            ));
        }
        for skipped in skipped {
            self.watcher.tell(&format!("{}: left out: {}", text::path(&skipped.path), text::sentence(&skipped.why)));
        }
        if last.is_none() && self.assignment.mode == Mode::Armed {
            self.watcher.tell("armed without ever having been observed in report-only mode");
        }
        let judged = judge_all(sightings, &self.assignment.policy, self.now);
        let memory = LastSweep { at: self.now, root, owners: owners.unwrap_or(0), referenced: referenced(&judged) };
        let tripped = breakers(&judged, owners, root, last.as_ref(), self.now)
            .into_iter()
            .chain(clocks.and_then(|(theirs, here)| source_clock(theirs, here)));
        let alarm = { tripped }.find(|breaker| !self.assignment.acknowledged.iter().any(|name| name == breaker.name()));
        let selection = Selection { force: Force::No, limits: self.assignment.limits, postponed: postponed.clone() };
        let plan = Plan::new(judged, &selection);
        Ok(Planned { observer, plan, memory, postponed, alarm })
    }

    fn spec(&self) -> RootSpec {
        RootSpec {
            path: self.assignment.path.clone(),
            source: derelict_core::ids::SourceId(self.assignment.source.as_str().into()),
            shape: self.assignment.shape.clone(),
            terms: self.assignment.terms.clone(),
            environment: self.assignment.environment.clone(),
            cutoff: self.now.before(self.assignment.idle),
        }
    }

    /// Discards what was set aside earlier and whose grace is over, then carries out the plan.
    fn act(
        &self,
        plan: Plan,
        observer: RootObserver,
        (mut journal, reclaimer): (Journal, Reclaimer),
        owners: &Owners,
    ) -> Acted {
        let policy = &self.assignment.policy;
        let mut locks = OwnerLocks::new(owners);
        let look = |set_aside: &SetAside, open: &OpenWorkspace| {
            self.watcher.progress();
            observer.look_at_set_aside(set_aside, open.dir())
        };
        let Expiries { expired, stop } =
            quarantine::expire(&mut journal, &reclaimer, &mut locks, (policy, self.now), look, || self.halt());
        if let Some(stop) = stop {
            return Acted { report: stopped(&plan, stop), plan, expired };
        }
        let words = self.assignment.terms.words();
        let consent = Consent::Standing { policy: Digest::of(&(policy, &self.assignment.limits, words)) };
        let approved = plan.approve(consent).expect("because a standing consent is to every plan");
        let disposal = match self.assignment.grace {
            Duration::ZERO => Disposal::Discard,
            grace => Disposal::Quarantine { until: self.now.after(grace) },
        };
        let (mut looker, mut hand) = (Looker::new(observer, self.watcher), Hand::new(reclaimer, self.watcher));
        let world = World { observe: &mut looker, lock: &mut locks, reclaim: &mut hand, journal: &mut journal };
        let report = sweep(&approved, policy, self.now, disposal, world, || self.halt(), |_| self.watcher.progress());
        Acted { plan: approved.into_plan(), expired, report }
    }

    fn halt(&self) -> Option<StopReason> {
        self.watcher.progress();
        if self.watcher.cancelled() {
            return Some(StopReason::Cancelled);
        }
        (self.begun.elapsed() >= self.assignment.deadline).then_some(StopReason::Deadline)
    }

    /// Remembers what the next sweep is measured by, and what it should try last. A memory that cannot be written
    /// ends an otherwise orderly sweep with the journal's stop reason: the next breaker would compare with the past.
    fn remember(&self, memory: LastSweep, before: &Postponed, plan: &Plan, report: SweepReport) -> SweepReport {
        let gone = owners_of_the_gone(plan, &report);
        let memory = LastSweep { owners: memory.owners.saturating_sub(gone), ..memory };
        let state = &self.assignment.state;
        let remembered = self.remembered.remember(&memory).and_then(|()| postponed::write(state, before, &report));
        match (remembered, &report.stop) {
            (Err(error), StopReason::Finished | StopReason::LimitReached(_)) => {
                SweepReport { stop: StopReason::JournalLost(format!("{error:#}")), ..report }
            }
            // What stopped it is the worse news, and this one is told beside it.
            (Err(error), _) => {
                self.watcher.tell(&format!("this sweep will not be remembered: {error:#}"));
                report
            }
            (Ok(()), _) => report,
        }
    }
}

/// How many of the owners that were counted have no directory any more: their rows will not be asked for again.
fn owners_of_the_gone(plan: &Plan, report: &SweepReport) -> u64 {
    let gone: std::collections::BTreeSet<&Path> = report
        .settled
        .iter()
        .filter(|settled| matches!(settled.fate.name(), FateName::Removed | FateName::Quarantined | FateName::Vanished))
        .map(|settled| settled.candidate.below_root.as_path())
        .collect();
    let owned = |judged: &&Judged| judged.evidence.sources().iter().any(|source| source.has_claims());
    let removed = plan.removals().iter().map(|removal| removal.judged());
    removed.filter(|judged| gone.contains(judged.candidate.below_root.as_path())).filter(owned).count() as u64
}
