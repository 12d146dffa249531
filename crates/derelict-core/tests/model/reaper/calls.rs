//! What each port call of the sweep does to the world, one atomic step at a time, in the order in
//! which the real ports do it.

use super::{Live, Progress, Reaper, Went};
use crate::program::{Answer, Call, Ending, Seen};
use crate::state::{CreatorsLock, Flaw, Model, State};
use crate::world::{Breach, Dir, Line, Name, NotMoved, Sight, WHOLE};

pub(super) fn carry_on(state: &mut State, number: usize, call: &Call, model: &Model<'_>) -> (&'static str, Progress) {
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
        Call::SetAside(_) => {
            if !model.scenario.has(Flaw::SetAsideNotDurable) {
                state.world.sync();
            }
            done("makes durable that it is set aside")
        }
        Call::Discard(dir) => discard(state, number, dir, model),
        Call::Release(dir) => {
            let (what, released) = release(state, dir, model);
            (what, released.map(|()| Went::Answered(Answer::Done)))
        }
        Call::Settle(dir, ending) => {
            let journal = usize::from(state.reapers[number].journal);
            match ending {
                Ending::Finished => state.world.journals[journal][usize::from(dir)] = Line::Finished,
                Ending::SetAside => state.world.journals[journal][usize::from(dir)] = Line::SetAside,
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
pub(super) const UNLINKING: u8 = 2;

/// The step at which the emptied tree goes.
pub(super) const EMPTIED: u8 = UNLINKING + WHOLE;

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
