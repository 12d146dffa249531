//! A reaper as a process: it opens its journal, settles what an earlier run left, runs the real
//! sweep, and can be killed before any of its steps. Here is what each port call of the sweep does
//! to the world, one atomic step at a time, in the order in which the real ports do it.

use derelict_core::outcome::FateName;

use crate::explore::Step;
use crate::program::{Answer, Call, Ending, NodeId, Seen};
use crate::recovery::Recovery;
use crate::state::{CreatorsLock, Flaw, Journals, Model, State};
use crate::world::{Breach, Dir, Ino, Line, Name, NotMoved, Sight, WHOLE, Who, Work};

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
        Call::Discard(_) => (reaper.at > UNLINKING && reaper.at <= EMPTIED)
            .then_some(("meets an entry that will not go", Answer::Stuck)),
        Call::Release(_) => at_first("cannot drop the record"),
        Call::Settle(..) => at_first("cannot write how it ended"),
        Call::Acquire(_) | Call::Open(_) | Call::Unlock(_) | Call::Done(_) => None,
    }
}

fn carry_on(state: &mut State, number: usize, call: &Call, model: &Model<'_>) -> (&'static str, Progress) {
    let done = |what| (what, Ok(Went::Answered(Answer::Done)));
    match *call {
        Call::Refresh => done("asks every owner anew"),
        Call::Acquire(_) if state.reapers[number].lost => {
            ("begins another", Err(Breach("a sweep went on without its owners or its journal")))
        }
        Call::Acquire(dir) => {
            let free = model.scenario.lock == CreatorsLock::None || model.scenario.has(Flaw::NoLock);
            let lock = &mut state.world.locks[usize::from(dir)];
            match lock {
                _ if free => done("takes no lock"),
                Some(_) => ("finds the creators' lock busy", Ok(Went::Answered(Answer::Failed))),
                None => {
                    *lock = Some(state.reapers[number].who);
                    done("takes the creators' lock")
                }
            }
        }
        Call::Open(dir) => open(state, number, dir, model),
        Call::LookAgain(dir) => look_again(state, number, dir, model),
        Call::Intend(dir) => {
            if !model.scenario.has(Flaw::IntentAfterFence) {
                intend(state, number, dir);
            }
            done("writes its intent durably")
        }
        Call::Fence(dir) => fence(state, number, dir, model),
        Call::SecondLook(dir) => second_look(state, number, dir, model),
        Call::PutBack(dir) => put_back(state, number, dir, model),
        Call::Discard(dir) => discard(state, number, dir, model),
        Call::Release(dir) => {
            let (what, released) = release(state, dir, model);
            (what, released.map(|()| Went::Answered(Answer::Done)))
        }
        Call::Settle(dir, ending) => {
            let journal = usize::from(state.reapers[number].journal);
            match ending {
                Ending::Finished => state.world.journals[journal][usize::from(dir)] = Line::Finished,
                Ending::Unfinished => {}
            }
            done("writes down how it ended")
        }
        Call::Unlock(_) => {
            let Reaper { who, journal, .. } = state.reapers[number];
            state.world.leave(who);
            state.world.journal_locks[usize::from(journal)] = Some(who);
            state.reapers[number].handle = None;
            let reaper = &mut state.reapers[number];
            (reaper.traced, reaper.proved, reaper.looked_live) = (0, 0, Live::No);
            done("lets go of the directory and of its lock")
        }
        Call::Done(_) => unreachable!("because a sweep that is done asks for nothing"),
    }
}

fn intend(state: &mut State, number: usize, dir: Dir) {
    let journal = usize::from(state.reapers[number].journal);
    state.world.journals[journal][usize::from(dir)] = Line::Intended;
}

fn open(state: &mut State, number: usize, dir: Dir, model: &Model<'_>) -> (&'static str, Progress) {
    let answer = |what, answer| (what, Ok(Went::Answered(answer)));
    let State { world, reapers, .. } = state;
    let reaper = &mut reapers[number];
    let Some(ino) = reaper.handle else {
        return match world.at(Name::Live(dir)) {
            None => answer("opens the directory: it is gone", Answer::Vanished),
            Some(ino) if ino != dir && !model.scenario.has(Flaw::AnyIdentity) => {
                answer("opens the directory: it is another", Answer::Failed)
            }
            Some(ino) => {
                reaper.handle = Some(ino);
                world.open.insert((reaper.who, ino, Sight::Seen));
                ("opens the directory", Ok(Went::On))
            }
        };
    };
    if world.trees[usize::from(ino)].flock.is_some() {
        reaper.handle = None;
        world.open.remove(&(reaper.who, ino, Sight::Seen));
        return answer("finds the directory locked", Answer::Failed);
    }
    world.tree(ino).flock = Some(reaper.who);
    answer("locks the directory itself", Answer::Done)
}

/// What one step of a look reads.
#[derive(Debug, Clone, Copy)]
enum Glance {
    Owner,
    Users,
    Trace,
    Proof,
    Contents,
}

fn glance(state: &mut State, number: usize, dir: Dir, glance: Glance) -> &'static str {
    let State { world, reapers, .. } = state;
    let reaper = &mut reapers[number];
    let ino = reaper.handle.expect("because a look has a handle");
    let tree = &world.trees[usize::from(ino)];
    match glance {
        Glance::Owner => {
            reaper.seen.claimed = world.rows[usize::from(dir)];
            "reads the owner"
        }
        Glance::Users => {
            reaper.seen.used = world.is_used(ino, reaper.who);
            "looks for users"
        }
        Glance::Trace => {
            reaper.traced = tree.version;
            "notes the times of what it is about to read"
        }
        Glance::Proof => {
            (reaper.seen.work, reaper.proved) = (tree.work, tree.work);
            "reads the contents"
        }
        Glance::Contents => {
            // What was proved before is believed as long as nothing was written: it is not proved again.
            reaper.seen.rewritten = tree.version != reaper.traced;
            reaper.seen.work = reaper.proved;
            "looks whether anything was written meanwhile"
        }
    }
}

fn look_again(state: &mut State, number: usize, dir: Dir, model: &Model<'_>) -> (&'static str, Progress) {
    if model.scenario.has(Flaw::NoRecheck) {
        glance(state, number, dir, Glance::Trace);
        state.reapers[number].proved = model.scenario.work;
        return ("does not look again", Ok(Went::Answered(Answer::AsBefore)));
    }
    let order = if model.scenario.has(Flaw::TraceAfterProof) {
        [Glance::Owner, Glance::Users, Glance::Proof, Glance::Trace]
    } else {
        [Glance::Owner, Glance::Users, Glance::Trace, Glance::Proof]
    };
    let told = look(state, number, dir, &order);
    let reaper = &mut state.reapers[number];
    let Seen { claimed, used, work, .. } = reaper.seen;
    let kept = claimed || used || (work != 0 && work != model.scenario.work);
    reaper.looked_live = if kept { Live::Yes } else { Live::No };
    told
}

fn second_look(state: &mut State, number: usize, dir: Dir, model: &Model<'_>) -> (&'static str, Progress) {
    if model.scenario.has(Flaw::NoFenceNoSecondLook) || model.scenario.has(Flaw::NoSecondLook) {
        return ("does not look a second time", Ok(Went::Answered(Answer::AsBefore)));
    }
    let Reaper { at, handle, .. } = state.reapers[number];
    if let (0, Some(ino)) = (at, handle) {
        let claimed = state.world.rows[usize::from(dir)];
        let tree = state.world.tree(ino);
        (tree.owed, tree.looked_at) = (claimed, true);
    }
    let order = if model.scenario.has(Flaw::UsersAfterContents) {
        [Glance::Owner, Glance::Contents, Glance::Users]
    } else {
        [Glance::Owner, Glance::Users, Glance::Contents]
    };
    look(state, number, dir, &order)
}

fn look(state: &mut State, number: usize, dir: Dir, order: &[Glance]) -> (&'static str, Progress) {
    let at = usize::from(state.reapers[number].at);
    let what = glance(state, number, dir, order[at]);
    let went = if at + 1 == order.len() { Went::Answered(Answer::Saw(state.reapers[number].seen)) } else { Went::On };
    (what, Ok(went))
}

/// Looks whether the name still leads to the open directory, renames, makes sure that it was that
/// one, and renames back what was not.
fn fence(state: &mut State, number: usize, dir: Dir, model: &Model<'_>) -> (&'static str, Progress) {
    let Reaper { at, handle, journal, .. } = state.reapers[number];
    let (live, trash) = (Name::Live(dir), Name::Trash(journal, dir));
    let answer = |what, answer| (what, Ok(Went::Answered(answer)));
    if model.scenario.has(Flaw::NoFenceNoSecondLook) || model.scenario.has(Flaw::NoFence) {
        return answer("sets up no fence", Answer::Done);
    }
    if state.reapers[number].looked_live == Live::Yes {
        return ("begins the fence", Err(Breach("a directory was fenced that had just been seen to be live")));
    }
    let any_identity = model.scenario.has(Flaw::AnyIdentity);
    match at {
        0 if state.world.at(live) != handle && !any_identity => {
            answer("looks before the fence: another lies there", Answer::Failed)
        }
        0 => ("looks before the fence", Ok(Went::On)),
        1 => match state.world.rename(journal, dir, live, trash) {
            Ok(None) => ("fences the directory", Ok(Went::On)),
            Ok(Some(_)) => answer("finds nothing to fence", Answer::Failed),
            Err(breach) => ("fences the directory", Err(breach)),
        },
        2 if state.world.at(trash) == handle || any_identity => {
            if model.scenario.has(Flaw::IntentAfterFence) {
                intend(state, number, dir);
            }
            answer("makes sure that it fenced the right one", Answer::Done)
        }
        2 => ("sees that it fenced another", Ok(Went::On)),
        _ => {
            let back = state.world.rename(journal, dir, trash, live);
            ("takes the fence back", back.map(|_| Went::Answered(Answer::Failed)))
        }
    }
}

fn put_back(state: &mut State, number: usize, dir: Dir, model: &Model<'_>) -> (&'static str, Progress) {
    let Reaper { at, journal, .. } = state.reapers[number];
    if at > 0 {
        state.world.sync();
        return ("makes that durable", Ok(Went::Answered(Answer::Done)));
    }
    let durable = !model.scenario.has(Flaw::PutBackNotDurable);
    let went = state.world.rename(journal, dir, Name::Trash(journal, dir), Name::Live(dir));
    let went = went.map(|refused| match refused {
        None if durable => Went::On,
        None => Went::Answered(Answer::Done),
        Some(NotMoved::Taken | NotMoved::Absent) => Went::Answered(Answer::Failed),
    });
    ("puts the directory back, if its name is free", went)
}

/// The step of a discard at which the first entry goes.
const UNLINKING: u8 = 2;

/// The step at which the emptied tree goes.
const EMPTIED: u8 = UNLINKING + WHOLE;

fn discard(state: &mut State, number: usize, dir: Dir, model: &Model<'_>) -> (&'static str, Progress) {
    let Reaper { at, handle, journal, .. } = state.reapers[number];
    let unfenced = model.scenario.has(Flaw::NoFenceNoSecondLook) || model.scenario.has(Flaw::NoFence);
    let (trash, begun) = (Name::Trash(journal, dir), Name::Begun(journal, dir));
    let unmarked = model.scenario.has(Flaw::NoMark);
    let name = match (unfenced, unmarked) {
        (true, _) => Name::Live(dir),
        (false, true) => trash,
        (false, false) => begun,
    };
    let ino = handle.expect("because a discard has a handle");
    let on = |went: Result<(), Breach>| went.map(|()| Went::On);
    match at {
        0 if unfenced || unmarked => ("begins at once", Ok(Went::On)),
        0 => {
            let went = state.world.rename(journal, dir, trash, begun);
            (
                "marks the tree as begun",
                went.map(|refused| if refused.is_none() { Went::On } else { Went::Answered(Answer::Stuck) }),
            )
        }
        1 => {
            if !model.scenario.has(Flaw::MarkNotDurable) {
                state.world.sync();
            }
            ("makes the mark durable", Ok(Went::On))
        }
        EMPTIED => {
            state.reapers[number].removed[usize::from(dir)] = true;
            ("removes the emptied directory", on(state.world.rmdir(journal, dir, name)))
        }
        at if at < EMPTIED => ("unlinks an entry", on(state.world.unlink(journal, dir, ino))),
        _ => {
            state.world.sync();
            ("makes that durable", Ok(Went::Answered(Answer::Done)))
        }
    }
}

/// Drops the record, unless something lies under the name again.
pub(crate) fn release(state: &mut State, dir: Dir, model: &Model<'_>) -> (&'static str, Result<(), Breach>) {
    if state.world.at(Name::Live(dir)).is_some() && !model.scenario.has(Flaw::ReleaseUnlooked) {
        return ("leaves the record, for something lies there again", Ok(()));
    }
    ("drops the record", state.world.release(dir))
}
