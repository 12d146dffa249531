//! One story: a few runs in the storm, then two in the calm, and the promises at the end of each.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use derelict_core::ids::Timestamp;
use derelict_core::outcome::{Fate, FateName, Outcome, StopReason};
use derelict_core::plan::{ApprovedPlan, Consent, Plan};
use derelict_core::policy::{Force, Limits, Selection};
use derelict_core::record::{Disposal, Settled, SweepReport};
use derelict_core::survey::judge_all;
use derelict_core::sweep::{World, sweep};

use super::Missing;
use super::adversary::{act, rest};
use super::ground::{Cancelled, End, Finished, Ground, Held, Place, Weather};
use super::look::{NOW, POLICY, survey, workspace_of};
use super::ports::{JOURNAL, Killed, Port, accept};
use super::recovery::recover;

/// The most runs in the storm.
const MOST_RUNS: usize = 4;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Sweeps that were begun.
    pub sweeps: u64,
    /// Sweeps that were killed.
    pub killed: u64,
    /// Port calls.
    pub calls: u64,
    /// What others did.
    pub moves: u64,
    /// Where directories ended, over all sweeps.
    pub fates: BTreeMap<FateName, u64>,
}

/// A promise was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// By which seed.
    pub seed: u64,
    /// Which promise.
    pub promise: String,
    /// All that happened until then.
    pub log: Vec<String>,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}: {}", self.seed, self.promise)?;
        self.log.iter().try_for_each(|line| writeln!(f, "    {line}"))
    }
}

impl std::error::Error for Broken {}

/// Tells the story of a seed, with a part of the protocol left out or with nothing missing.
///
/// # Errors
/// [`Broken`] names the promise and tells what happened.
pub fn simulate(seed: u64, missing: Missing) -> Result<Told, Broken> {
    let ground = RefCell::new(Ground::new(seed, missing));
    let mut told = Told { sweeps: 0, killed: 0, calls: 0, moves: 0, fates: BTreeMap::new() };
    let runs = 1 + ground.borrow_mut().dice.below(MOST_RUNS);
    for _ in 0..runs {
        run(&ground, &mut told);
    }
    rest(&mut ground.borrow_mut());
    for _ in 0..2 {
        run(&ground, &mut told);
    }
    let mut ground = ground.into_inner();
    at_the_end(&mut ground);
    (told.calls, told.moves) = (ground.calls, ground.moves);
    let Ground { log, broken, .. } = ground;
    broken.map_or(Ok(told), |promise| Err(Broken { seed, promise, log }))
}

/// One run of the program: recovery, survey, plan, sweep.
fn run(ground: &RefCell<Ground>, told: &mut Told) {
    told.sweeps += 1;
    ground.borrow_mut().note("run");
    ground.borrow_mut().ending = None;
    ground.borrow_mut().expected.clear();
    ground.borrow_mut().cancelled = Cancelled::No;
    let mut report = None;
    let all = || {
        recover(Port(ground));
        let approved = plan(&mut ground.borrow_mut());
        let before = ground.borrow().unlinked;
        let swept = carry_out(&approved, ground);
        check(&approved, &swept, before, &mut ground.borrow_mut());
        report = Some(swept);
    };
    if let Err(payload) = catch_unwind(AssertUnwindSafe(all)) {
        if !payload.is::<Killed>() {
            resume_unwind(payload);
        }
        told.killed += 1;
    }
    for settled in report.iter().flat_map(|report| &report.settled) {
        *told.fates.entry(settled.fate.name()).or_insert(0) += 1;
    }
}

fn plan(ground: &mut Ground) -> ApprovedPlan {
    let sightings = survey(ground);
    ground.planned =
        sightings.iter().map(|sighting| (workspace_of(&sighting.candidate), sighting.evidence.clone())).collect();
    let storm = ground.weather == Weather::Storm;
    let force = if storm && ground.dice.one_in(4) { Force::UnsavedAsShown } else { Force::No };
    let removals = (storm && ground.dice.one_in(3)).then(|| ground.dice.below(4) as u64);
    let selection = Selection::new(force, Limits { removals, ..Limits::NONE });
    forget_accepted(ground);
    let plan = Plan::new(judge_all(sightings, &POLICY, NOW), &selection);
    for removal in plan.removals().iter().filter(|removal| removal.accepted_losses().is_some()) {
        accept(ground, removal.judged().candidate.identity.ino);
    }
    let names: Vec<_> = plan.removals().iter().map(|removal| removal.judged().candidate.name.clone()).collect();
    ground.note(format!("plan: {names:?}, {force:?}"));
    // The question is open for a while.
    act(ground);
    let seen = plan.digest();
    plan.approve(Consent::Operator { seen }).expect("because it was seen")
}

/// What force was told to accept in an earlier sweep is accepted no more, save where that one had begun.
fn forget_accepted(ground: &mut Ground) {
    for (place, ino) in ground.names.clone() {
        match place {
            Place::Live(_) => ground.tree(ino).accepted.clear(),
            Place::Aside(_) | Place::Trash(_) | Place::Begun(_) => {}
        }
    }
}

fn carry_out(approved: &ApprovedPlan, ground: &RefCell<Ground>) -> SweepReport {
    let port = Port(ground);
    let (mut observe, mut lock, mut reclaim, mut journal) = (port, port, port, port);
    let world = World { observe: &mut observe, lock: &mut lock, reclaim: &mut reclaim, journal: &mut journal };
    let halt = || {
        let mut ground = ground.borrow_mut();
        let cancelled = ground.cancelled == Cancelled::Yes;
        cancelled.then(|| {
            ground.ending.get_or_insert(StopReason::Cancelled.name());
            StopReason::Cancelled
        })
    };
    let now: Timestamp = NOW;
    sweep(approved, &POLICY, now, Disposal::Discard, world, halt, |_| {})
}

/// What must hold after every sweep that reported.
fn check(approved: &ApprovedPlan, report: &SweepReport, before: u64, ground: &mut Ground) {
    ground.note(format!("report: {:?}, {:?}", report.stop, report.tally()));
    let plan = approved.plan();
    let planned = plan.removals().iter().chain(plan.beyond_limit()).map(|removal| &removal.judged().candidate);
    let mut planned: Vec<u64> =
        planned.chain(plan.kept().map(|judged| &judged.candidate)).map(|one| one.identity.ino).collect();
    let mut told: Vec<u64> = report.settled.iter().map(|settled| settled.candidate.identity.ino).collect();
    planned.sort_unstable();
    told.sort_unstable();
    let why = ground.ending.unwrap_or_else(|| plan.limit().map_or("finished", |_| "limit"));
    ground.must(report.stop.name() == why, "a sweep says why it ended");
    ground.must(planned == told, "every candidate has exactly one fate");
    ground.must(report.tally().scanned() == planned.len() as u64, "the counts balance");
    let unlinked = ground.unlinked - before;
    ground.must(report.discarded().entries == unlinked, "what is told to be unlinked is what was unlinked");
    for settled in &report.settled {
        let ino = settled.candidate.identity.ino;
        let gone = ground.trees[&ino].end == End::ByUs;
        let removed = matches!(settled.fate, Fate::Settled(Outcome::Removed { .. }));
        let expected = ground.expected.get(&ino).copied();
        let fate = settled.fate.name();
        ground.must(expected.is_none_or(|expected| expected == fate), "a directory is told to have ended as it did");
        ground.must(gone == removed, "what is told to be removed is what was removed");
    }
    for settled in &report.settled {
        left_in_order(settled, ground);
    }
    let held = ground.locks.contains(&Held::ByUs);
    ground.must(!held, "no lock outlives the sweep");
}

/// Nothing stays fenced that is not named, and the journal knows how each intent ended.
fn left_in_order(settled: &Settled, ground: &mut Ground) {
    let ino = settled.candidate.identity.ino;
    let fate = settled.fate.name();
    let fenced = ground.names.iter().any(|(place, at)| match place {
        Place::Trash(_) | Place::Begun(_) => *at == ino,
        Place::Live(_) | Place::Aside(_) => false,
    });
    ground.must(!fenced || fate == FateName::Refused, "what stays in the trash is named as refused");
    let Some(line) = settled.intent.and_then(|intent| ground.journal.get(&intent).copied()) else { return };
    let ended = matches!(fate, FateName::Removed | FateName::RetainedResurrected | FateName::RetainedChanged);
    let finished = line.finished == Finished::Yes;
    let lost = ground.ending == Some(JOURNAL);
    ground.must(finished == ended || lost, "the journal says how each intent ended");
}

/// What must hold after everybody rested and two more runs were made.
fn at_the_end(ground: &mut Ground) {
    for (place, ino) in ground.names.clone() {
        let line = |intent| ground.journal.get(&intent).copied();
        let half = ground.trees[&ino].unlinked > 0;
        match place {
            Place::Live(_) | Place::Aside(_) => ground.must(!half, "no half-removed tree lies under a live name"),
            Place::Trash(intent) => {
                let known = line(intent).is_some_and(|line| line.finished == Finished::No);
                let taken = line(intent).is_some_and(|line| ground.names.contains_key(&Place::Live(line.workspace)));
                ground.must(!half, "no half-removed tree looks whole");
                ground.must(known, "no trash is unknown to the journal");
                ground.must(taken, "what can be put back is put back");
            }
            Place::Begun(_) => ground.must(false, "what was begun is finished"),
        }
    }
    let lost = ground.trees.iter().any(|(ino, tree)| {
        tree.end == End::NotYet && (!ground.names.values().any(|at| at == ino) || tree.unlinked > 0)
    });
    ground.must(!lost, "what was not removed is there, and whole");
    let verdicts = judge_all(survey(ground), &POLICY, NOW);
    let left = verdicts.iter().any(|judged| judged.verdict.is_clean_orphan());
    ground.must(!left, "what nobody wants is gone at the end");
}
