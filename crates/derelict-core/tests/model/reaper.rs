//! A reaper as a process: it opens its journal, settles what an earlier run left, runs the real
//! sweep, and can be killed before any of its steps. What a port call does to the world is in `calls`.

mod calls;

use derelict_core::outcome::FateName;

use crate::explore::Step;
use crate::program::{Answer, Call, NodeId, Seen};
use crate::recovery::Recovery;
use crate::state::{Journals, Model, State};
use crate::world::{Breach, Dir, Ino, Line, Name, Who, Work};

pub(crate) use calls::release;
use calls::{EMPTIED, UNLINKING, carry_on};

/// What a reaper is at.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    /// About to open its journal.
    Starting,
    /// Settling what an earlier run left.
    Recovering(Recovery),
    /// In the sweep, at this port call.
    Sweeping(NodeId),
    Over,
}

/// Whether a run makes a plan of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Errand {
    Sweep,
    RecoverOnly,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Reaper {
    pub(crate) who: Who,
    pub(crate) journal: u8,
    pub(crate) phase: Phase,
    errand: Errand,
    /// Whether it comes back once more if an intent is left open.
    returns: bool,
    /// How far the port call in hand has come.
    at: u8,
    seen: Seen,
    /// The version of the contents that the first look is about, and the work that it saw.
    traced: u8,
    proved: Work,
    /// Whether the first look saw the directory live or holding what force was not told to accept.
    looked_live: Live,
    /// Whether a source or the journal was lost, so that nothing more may be begun.
    lost: bool,
    handle: Option<Ino>,
    removed: [bool; 2],
    /// Whether its last run could not settle everything: a lock was busy, a record or a line could not be written.
    pub(crate) left_something: bool,
    pub(crate) was_killed: bool,
}

/// Whether something keeps a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Live {
    Yes,
    No,
}

/// What one atomic step of a port call came to.
enum Went {
    /// The call is not finished.
    On,
    Answered(Answer),
}

type Progress = Result<Went, Breach>;

impl Reaper {
    pub(crate) fn new(number: u8, journals: Journals) -> Self {
        let journal = match journals {
            Journals::Shared => 0,
            Journals::Apart => number,
        };
        Self {
            who: Who(number),
            journal,
            phase: Phase::Starting,
            errand: Errand::Sweep,
            returns: true,
            at: 0,
            seen: Seen::default(),
            traced: 0,
            proved: 0,
            looked_live: Live::No,
            lost: false,
            handle: None,
            removed: [false; 2],
            left_something: false,
            was_killed: false,
        }
    }

    pub(crate) fn is_at_work(&self) -> bool {
        match self.phase {
            Phase::Recovering(_) | Phase::Sweeping(_) => true,
            Phase::Starting | Phase::Over => false,
        }
    }

    /// Ends as a process; what it knew is forgotten. It is started again, to settle what it left.
    pub(crate) fn die(&mut self) {
        let fresh = Self::new(self.who.0, Journals::Apart);
        let Self { journal, removed, .. } = *self;
        *self = Self { journal, removed, errand: Errand::RecoverOnly, was_killed: true, ..fresh };
    }
}

pub(crate) fn steps(state: &State, number: usize, model: &Model<'_>, steps: &mut Vec<Step<State>>) {
    let reaper = &state.reapers[number];
    let who = reaper.who;
    let mut push = |what, to| steps.push(Step { who, what, to });
    match &reaper.phase {
        Phase::Starting => push("opens its journal", Ok(start(state, number))),
        Phase::Recovering(recovery) => {
            let (what, to) = crate::recovery::step(state, number, recovery, model);
            push(what, to);
        }
        Phase::Sweeping(node) => sweeping(state, number, *node, model, &mut push),
        Phase::Over => {
            if reaper.returns && has_open_intent(state, reaper.journal) {
                let mut next = state.clone();
                let reaper = &mut next.reapers[number];
                reaper.returns = false;
                reaper.errand = Errand::RecoverOnly;
                reaper.phase = Phase::Starting;
                push("is run once more", Ok(next));
            }
        }
    }
    if reaper.is_at_work() && state.budget.kills > 0 {
        let mut next = state.clone();
        next.budget.kills -= 1;
        next.world.leave(who);
        next.reapers[number].die();
        push("is killed", Ok(next));
    }
}

fn has_open_intent(state: &State, journal: u8) -> bool {
    state.world.journals[usize::from(journal)].contains(&Line::Intended)
}

fn start(state: &State, number: usize) -> State {
    let mut next = state.clone();
    let reaper = &mut next.reapers[number];
    let lock = &mut next.world.journal_locks[usize::from(reaper.journal)];
    if lock.is_some() {
        reaper.phase = Phase::Over;
        reaper.left_something = true;
        return next;
    }
    *lock = Some(reaper.who);
    reaper.phase = Phase::Recovering(Recovery::new());
    reaper.left_something = false;
    if !has_open_intent(state, state.reapers[number].journal) {
        recovered(&mut next, number);
    }
    next
}

/// What a run does after everything was settled.
pub(crate) fn recovered(state: &mut State, number: usize) {
    match state.reapers[number].errand {
        Errand::Sweep => state.reapers[number].phase = Phase::Sweeping(0),
        Errand::RecoverOnly => over(state, number),
    }
}

fn over(state: &mut State, number: usize) {
    let reaper = &mut state.reapers[number];
    let Reaper { who, journal, removed, left_something, returns, was_killed, .. } = *reaper;
    let journals = if journal == who.0 { Journals::Apart } else { Journals::Shared };
    let fresh = Reaper::new(who.0, journals);
    *reaper = Reaper { phase: Phase::Over, removed, left_something, returns, was_killed, ..fresh };
    state.world.leave(who);
}

/// One atomic step of the port call in hand, and the faults it can meet.
fn sweeping(
    state: &State,
    number: usize,
    node: NodeId,
    model: &Model<'_>,
    push: &mut impl FnMut(&'static str, Result<State, Breach>),
) {
    let call = model.program.borrow().call(node).clone();
    if let Call::Done(fates) = &call {
        let mut next = state.clone();
        let told = accounted(state, number, fates, model);
        over(&mut next, number);
        return push("reports", told.map(|()| next));
    }
    let mut next = state.clone();
    let (what, went) = carry_on(&mut next, number, &call, model);
    push(what, went.map(|went| answered(next, number, node, went, model)));
    if let Some((what, answer)) = fault(&call, &state.reapers[number]).filter(|_| state.budget.faults > 0) {
        let mut next = state.clone();
        next.budget.faults -= 1;
        let reaper = &mut next.reapers[number];
        reaper.left_something |= matches!(call, Call::Release(_) | Call::Settle(..));
        reaper.lost |= loses(&call);
        push(what, Ok(answered(next, number, node, Went::Answered(answer), model)));
    }
}

fn answered(mut state: State, number: usize, node: NodeId, went: Went, model: &Model<'_>) -> State {
    let reaper = &mut state.reapers[number];
    match went {
        Went::On => reaper.at += 1,
        Went::Answered(answer) => {
            reaper.at = 0;
            reaper.seen = Seen::default();
            reaper.phase = Phase::Sweeping(model.program.borrow_mut().answered(node, answer));
        }
    }
    state
}

/// Every directory has one fate, and it is a true one.
fn accounted(state: &State, number: usize, fates: &[(Dir, FateName)], model: &Model<'_>) -> Result<(), Breach> {
    let reaper = &state.reapers[number];
    for dir in 0..model.scenario.dirs {
        let mut of_dir = fates.iter().filter(|(of, _)| *of == dir).map(|(_, fate)| *fate);
        let (Some(fate), None) = (of_dir.next(), of_dir.next()) else {
            return Err(Breach("a directory has no fate, or two"));
        };
        if (fate == FateName::Removed) != reaper.removed[usize::from(dir)] {
            return Err(Breach("what is told to be removed is not what was removed"));
        }
        let in_trash = [Name::Trash(reaper.journal, dir), Name::Begun(reaper.journal, dir)];
        let tried =
            [FateName::Removed, FateName::RetainedResurrected, FateName::RetainedChanged, FateName::Interrupted];
        if tried.contains(&fate) && in_trash.into_iter().any(|name| state.world.at(name) == Some(dir)) {
            return Err(Breach("a directory stays in the trash that is not named as refused"));
        }
    }
    Ok(())
}

/// Whether a fault of this call takes away what the sweep cannot go on without.
fn loses(call: &Call) -> bool {
    match call {
        Call::Refresh | Call::LookAgain(_) | Call::SecondLook(_) | Call::Intend(_) | Call::Settle(..) => true,
        Call::Acquire(_)
        | Call::Open(_)
        | Call::Fence(_)
        | Call::PutBack(_)
        | Call::SetAside(_)
        | Call::Discard(_)
        | Call::Release(_)
        | Call::Unlock(_)
        | Call::Done(_) => false,
    }
}

/// What can go wrong with a call, before it does anything.
fn fault(call: &Call, reaper: &Reaper) -> Option<(&'static str, Answer)> {
    let at_first = |what| (reaper.at == 0).then_some((what, Answer::Failed));
    match call {
        Call::Refresh | Call::LookAgain(_) | Call::SecondLook(_) => at_first("loses the source of owners"),
        Call::Intend(_) => at_first("cannot write its intent"),
        Call::Fence(_) => at_first("is refused the rename"),
        Call::PutBack(_) => at_first("is refused the way back"),
        Call::SetAside(_) => None,
        Call::Discard(_) => (reaper.at > UNLINKING && reaper.at <= EMPTIED)
            .then_some(("meets an entry that will not go", Answer::Stuck)),
        Call::Release(_) => at_first("cannot drop the record"),
        Call::Settle(..) => at_first("cannot write how it ended"),
        Call::Acquire(_) | Call::Open(_) | Call::Unlock(_) | Call::Done(_) => None,
    }
}
