//! What a restart does about the intents that an earlier run left open: finish what was begun, put
//! back what was only fenced, write off what was never touched. Under the creators' lock, and by
//! identity.

use crate::reaper::{Reaper, recovered, release};
use crate::state::{CreatorsLock, Flaw, Model, State};
use crate::world::{Breach, Dir, Line, Name};

/// How far a recovery has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Recovery {
    dir: Dir,
    at: At,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum At {
    Lock,
    LookForBegun,
    LookForTrash,
    MakeSeenDurable,
    LookForLive,
    PutBack,
    MakePutBackDurable,
    Finish(Finish),
    Release,
    Close,
    Unlock,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Finish {
    Hold,
    MakeMarkDurable,
    Unlink,
    Remove,
    MakeGoneDurable,
}

impl Recovery {
    pub(crate) fn new() -> Self {
        Self { dir: 0, at: At::Lock }
    }
}

/// Takes the next step of a recovery.
pub(crate) fn step(
    state: &State,
    number: usize,
    recovery: &Recovery,
    model: &Model<'_>,
) -> (&'static str, Result<State, Breach>) {
    let Recovery { dir, at } = *recovery;
    let mut next = state.clone();
    let (what, went) = carry_on(&mut next, number, dir, at, model);
    let went = went.map(|at| {
        let phase = &mut next.reapers[number].phase;
        match at {
            Some(at) => *phase = crate::reaper::Phase::Recovering(Recovery { dir, at }),
            None => next_line(&mut next, number, dir + 1),
        }
        next
    });
    (what, went)
}

/// Goes on with the next open intent, or ends the recovery.
fn next_line(state: &mut State, number: usize, from: Dir) {
    let journal = state.world.journals[usize::from(state.reapers[number].journal)];
    let open = (from..).take_while(|dir| usize::from(*dir) < journal.len());
    match open.into_iter().find(|dir| journal[usize::from(*dir)] == Line::Intended) {
        Some(dir) => state.reapers[number].phase = crate::reaper::Phase::Recovering(Recovery { dir, at: At::Lock }),
        None => recovered(state, number),
    }
}

/// What was done, and what comes next; nothing comes when the line is settled or left for later.
type Went = (&'static str, Result<Option<At>, Breach>);

fn carry_on(state: &mut State, number: usize, dir: Dir, at: At, model: &Model<'_>) -> Went {
    let Reaper { who, journal, .. } = state.reapers[number];
    let (trash, begun) = (Name::Trash(journal, dir), Name::Begun(journal, dir));
    match at {
        At::Lock => lock(state, number, dir, model),
        At::LookForBegun => match state.world.at(begun) {
            Some(_) => ("finds that its discarding had begun", Ok(Some(At::Finish(Finish::Hold)))),
            None => ("finds no discarding that had begun", Ok(Some(At::LookForTrash))),
        },
        At::LookForTrash => match state.world.at(trash) {
            Some(ino) if ino == dir => ("finds it fenced", Ok(Some(At::PutBack))),
            Some(_) => {
                state.reapers[number].left_something = true;
                ("finds another in the trash and leaves it", Ok(Some(At::Unlock)))
            }
            None => ("finds nothing in the trash", Ok(Some(At::MakeSeenDurable))),
        },
        // What an earlier run did and did not sync would come back after the line was closed.
        At::MakeSeenDurable => {
            if !model.scenario.has(Flaw::WriteOffNotDurable) {
                state.world.sync();
            }
            ("makes durable what it saw", Ok(Some(At::LookForLive)))
        }
        At::LookForLive => match state.world.at(Name::Live(dir)) {
            Some(_) => ("finds its name in use", Ok(Some(At::Close))),
            None if others_have_it(state, journal, dir) && !model.scenario.has(Flaw::GoneUnlooked) => {
                ("finds it in the trash of another journal, whose it is now", Ok(Some(At::Close)))
            }
            None => ("finds that it is gone", Ok(Some(At::Release))),
        },
        At::PutBack => match state.world.rename(journal, dir, trash, Name::Live(dir)) {
            Ok(None) => ("puts it back", Ok(Some(At::MakePutBackDurable))),
            Ok(Some(_)) => ("leaves it whole in the trash, for its name is taken", Ok(Some(At::Unlock))),
            Err(breach) => ("puts it back", Err(breach)),
        },
        At::MakePutBackDurable => {
            state.world.sync();
            ("makes that durable", Ok(Some(At::Close)))
        }
        At::Finish(at) => finish(state, number, dir, at),
        At::Release => {
            let (what, released) = release(state, dir, model);
            (what, released.map(|()| Some(At::Close)))
        }
        At::Close => {
            state.world.journals[usize::from(journal)][usize::from(dir)] = Line::Finished;
            ("writes down that it is settled", Ok(Some(At::Unlock)))
        }
        At::Unlock => {
            state.world.leave(who);
            state.world.journal_locks[usize::from(journal)] = Some(who);
            ("lets go of the directory and of its lock", Ok(None))
        }
    }
}

/// What was begun is finished.
fn finish(state: &mut State, number: usize, dir: Dir, at: Finish) -> Went {
    let Reaper { who, journal, .. } = state.reapers[number];
    let next_entry = |state: &State| {
        let emptied = state.world.trees[usize::from(dir)].entries == 0;
        At::Finish(if emptied { Finish::Remove } else { Finish::Unlink })
    };
    match at {
        Finish::MakeMarkDurable => {
            state.world.sync();
            ("makes the mark durable", Ok(Some(next_entry(state))))
        }
        Finish::Unlink => {
            let went = state.world.unlink(journal, dir, dir);
            ("unlinks an entry", went.map(|()| Some(next_entry(state))))
        }
        Finish::Remove => {
            let went = state.world.rmdir(journal, dir, Name::Begun(journal, dir));
            ("removes the emptied directory", went.map(|()| Some(At::Finish(Finish::MakeGoneDurable))))
        }
        Finish::MakeGoneDurable => {
            state.world.sync();
            ("makes that durable", Ok(Some(At::Release)))
        }
        Finish::Hold => {
            let tree = state.world.tree(dir);
            if tree.flock.is_some_and(|holder| holder != who) {
                state.reapers[number].left_something = true;
                return ("finds it locked", Ok(Some(At::Unlock)));
            }
            tree.flock = Some(who);
            ("locks the directory itself", Ok(Some(At::Finish(Finish::MakeMarkDurable))))
        }
    }
}

/// Whether what seems to be gone lies in the trash of another journal: then it is not gone yet.
fn others_have_it(state: &State, journal: u8, dir: Dir) -> bool {
    let others = |name| match name {
        Name::Trash(other, of) | Name::Begun(other, of) => other != journal && of == dir,
        Name::Live(_) | Name::Moved(_) => false,
    };
    state.world.names().any(|(name, _)| others(name))
}

fn lock(state: &mut State, number: usize, dir: Dir, model: &Model<'_>) -> Went {
    if state.world.journals[usize::from(state.reapers[number].journal)][usize::from(dir)] != Line::Intended {
        return ("has nothing to settle here", Ok(None));
    }
    if model.scenario.lock == CreatorsLock::None || model.scenario.has(Flaw::RecoveryWithoutLock) {
        return ("takes no lock", Ok(Some(At::LookForBegun)));
    }
    let lock = &mut state.world.locks[usize::from(dir)];
    if lock.is_some() {
        state.reapers[number].left_something = true;
        return ("finds the creators' lock busy", Ok(None));
    }
    *lock = Some(state.reapers[number].who);
    ("takes the creators' lock", Ok(Some(At::LookForBegun)))
}
