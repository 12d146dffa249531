//! Who comes back: programs and people that own, enter, replace or share a directory while it is
//! being removed, one atomic step after the other.

use crate::explore::Step;
use crate::state::{CreatorsLock, Scenario, State};
use crate::world::{Breach, Ino, Name, Sight, Who, Work, World};

/// What kind of owner comes back. All of them come to directory 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// A launcher: takes the creators' lock, makes or finds the directory, registers, enters, works.
    Launcher,
    /// A program with a row: touches it, enters or makes the directory, works. It knows no lock.
    Resumer,
    /// Somebody in a shell: enters, works, leaves, and tells nobody.
    Visitor,
    /// Somebody who moves the directory aside and makes another in its place, with work in it.
    Mover,
    /// A program on another host: enters unseen, works, and touches its row only afterwards.
    Remote,
}

/// The tree that is planned to go, in the directory that all of them come to.
const PLANNED: Ino = 0;

/// The work that owners leave behind.
const FRESH_WORK: Work = 9;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    who: Who,
    kind: Kind,
    /// The next step; `None` when there is none left.
    at: Option<u8>,
    found: Option<Ino>,
}

impl Owner {
    pub(crate) fn new(who: Who, kind: Kind) -> Self {
        Self { who, kind, at: Some(0), found: None }
    }

    pub(crate) fn ended(&self) -> bool {
        self.at.is_none()
    }

    pub(crate) fn end(&mut self) {
        self.at = None;
        self.found = None;
    }
}

/// What an owner does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Lock,
    Find,
    MakeIfNone,
    Register,
    EnterFound,
    TouchRow,
    EnterOrMake,
    EnterIfThere,
    EnterUnseen,
    Work,
    Leave,
    Unlock,
    MoveAside,
    MakeAnother,
}

fn deeds(kind: Kind) -> &'static [Deed] {
    match kind {
        Kind::Launcher => &[
            Deed::Lock,
            Deed::Find,
            Deed::MakeIfNone,
            Deed::Register,
            Deed::EnterFound,
            Deed::Work,
            Deed::Unlock,
            Deed::Leave,
        ],
        Kind::Resumer => &[Deed::TouchRow, Deed::EnterOrMake, Deed::Work, Deed::Leave],
        Kind::Visitor => &[Deed::EnterIfThere, Deed::Work, Deed::Leave],
        Kind::Mover => &[Deed::MoveAside, Deed::MakeAnother],
        Kind::Remote => &[Deed::EnterUnseen, Deed::Work, Deed::TouchRow, Deed::Leave],
    }
}

pub(crate) fn steps(state: &State, number: usize, scenario: &Scenario, steps: &mut Vec<Step<State>>) {
    let owner = &state.owners[number];
    let Some(at) = owner.at else { return };
    let deed = deeds(owner.kind)[usize::from(at)];
    let who = owner.who;
    let locked = scenario.lock == CreatorsLock::Shared;
    if deed == Deed::Lock && locked && state.world.locks[0].is_some() {
        return;
    }
    let mut next = state.clone();
    let done = act(deed, locked, &mut next.owners[number], &mut next.world);
    let (what, breach) = match done {
        Ok(what) => (what, None),
        Err((what, breach)) => (what, Some(breach)),
    };
    let owner = &mut next.owners[number];
    owner.at = owner.at.map(|at| at + 1).filter(|at| usize::from(*at) < deeds(owner.kind).len());
    steps.push(Step { who, what, to: breach.map_or(Ok(next), Err) });
}

/// What was done, and the promise that it found broken.
type Acted = Result<&'static str, (&'static str, Breach)>;

const CHANGED: Breach = Breach("what a creator had found while it held its lock changed under it");

fn act(deed: Deed, locked: bool, owner: &mut Owner, world: &mut World) -> Acted {
    let live = Name::Live(0);
    let who = owner.who;
    Ok(match deed {
        Deed::Lock => {
            if locked {
                world.locks[0] = Some(who);
            }
            "takes the creators' lock"
        }
        Deed::Find => {
            owner.found = world.at(live);
            if owner.found.is_some() { "finds the directory" } else { "finds nothing" }
        }
        Deed::MakeIfNone => return make_if_none(owner, world),
        Deed::Register => {
            world.rows[0] = true;
            world.records[0] = owner.found;
            "registers the directory as its own"
        }
        Deed::EnterFound => {
            if world.at(live) != owner.found {
                return Err(("does not find what it had found", CHANGED));
            }
            return enter(owner, world, Sight::Seen);
        }
        Deed::TouchRow => {
            world.rows[0] = true;
            "touches its row"
        }
        Deed::EnterOrMake => {
            owner.found = world.at(live).or_else(|| world.make(live, 0));
            return enter(owner, world, Sight::Seen);
        }
        Deed::EnterIfThere => return enter_if_there(owner, world, Sight::Seen),
        Deed::EnterUnseen => return enter_if_there(owner, world, Sight::OnAnotherHost),
        Deed::Work => {
            if let Some(ino) = owner.found {
                let tree = world.tree(ino);
                tree.work = FRESH_WORK;
                tree.version += 1;
            }
            "works in it, and nobody else has that work"
        }
        Deed::Leave => {
            world.leave(who);
            "leaves it"
        }
        Deed::Unlock => {
            world.locks[0] = world.locks[0].filter(|holder| *holder != who);
            "lets go of the creators' lock"
        }
        Deed::MoveAside => {
            if world.carry(live, Name::Moved(0)).is_err() {
                owner.end();
            }
            "moves the directory aside"
        }
        Deed::MakeAnother => {
            world.make(live, FRESH_WORK);
            "makes another in its place, with work in it"
        }
    })
}

fn make_if_none(owner: &mut Owner, world: &mut World) -> Acted {
    let live = Name::Live(0);
    if owner.found.is_some() {
        return Ok("need not make it");
    }
    let taken = world.at(live);
    if taken == Some(PLANNED) {
        return Err(("finds the old directory where there was nothing", CHANGED));
    }
    // Another owner's, who knows no lock, is as good as its own.
    owner.found = taken.or_else(|| world.make(live, 0));
    Ok("makes a new directory")
}

fn enter_if_there(owner: &mut Owner, world: &mut World, sight: Sight) -> Acted {
    owner.found = world.at(Name::Live(0));
    if owner.found.is_none() {
        owner.end();
        return Ok("finds nothing and goes away");
    }
    enter(owner, world, sight)
}

fn enter(owner: &mut Owner, world: &mut World, sight: Sight) -> Acted {
    if owner.found.is_some_and(|ino| world.is_half(ino)) {
        return Err(("enters the directory", Breach("an owner came into a half-removed tree")));
    }
    world.open.extend(owner.found.map(|ino| (owner.who, ino, sight)));
    Ok("enters the directory")
}
