//! One state of everything, the steps that lead out of it, and what must hold where none does.

use std::cell::RefCell;

use derelict_core::record::Disposal;

use crate::explore::{CounterExample, Explored, Step, explore};
use crate::owner::Owner;
use crate::program::Program;
use crate::reaper::{Phase, Reaper};
use crate::world::{Breach, DIRS, Line, MACHINE, Name, Recorded, WHOLE, Who, Work, World};

/// A way to leave out or to misplace a part of the protocol, for the negative controls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    NoFenceNoSecondLook,
    NoFence,
    NoSecondLook,
    NoRecheck,
    NoLock,
    IntentAfterFence,
    UsersAfterContents,
    TraceAfterProof,
    NoMark,
    SetAsideNotDurable,
    MarkNotDurable,
    PutBackNotDurable,
    AnyIdentity,
    RecoveryWithoutLock,
    ReleaseUnlooked,
    WriteOffNotDurable,
    GoneUnlooked,
}

/// Whether owners and reapers share a creators' lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CreatorsLock {
    Shared,
    /// As with rows whose programs know no lock: only fence and second look protect them.
    None,
}

/// Whether two reapers write to one journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Journals {
    /// One machine: the second reaper waits for the first or gives up.
    Shared,
    /// Two machines that know nothing of each other.
    Apart,
}

/// Who takes part, and what may go wrong.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) dirs: u8,
    /// What the planned directories hold, accepted by force.
    pub(crate) work: Work,
    /// What becomes of what passes the second look.
    pub(crate) disposal: Disposal,
    pub(crate) reapers: u8,
    pub(crate) owners: Vec<crate::owner::Kind>,
    pub(crate) lock: CreatorsLock,
    pub(crate) journals: Journals,
    /// How many times a reaper is killed, in all.
    pub(crate) kills: u8,
    /// How many times the power fails.
    pub(crate) power_cuts: u8,
    /// How many times something refuses, cannot be read or cannot be written.
    pub(crate) faults: u8,
    pub(crate) flaw: Option<Flaw>,
}

impl Scenario {
    /// One reaper, one directory, a creators' lock, and nothing that goes wrong.
    pub(crate) fn calm() -> Self {
        Self {
            dirs: 1,
            work: 0,
            disposal: Disposal::Discard,
            reapers: 1,
            owners: Vec::new(),
            lock: CreatorsLock::Shared,
            journals: Journals::Apart,
            kills: 0,
            power_cuts: 0,
            faults: 0,
            flaw: None,
        }
    }

    pub(crate) fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// Explores all of it.
    pub(crate) fn explore(&self) -> Result<(Explored, usize), CounterExample> {
        let program = RefCell::new(Program::new(self.dirs, self.work, self.disposal));
        let first = State::first(self);
        let explored = explore(
            first,
            |state| state.steps(&Model { scenario: self, program: &program }),
            |state| state.consistent(self),
        )?;
        Ok((explored, program.into_inner().runs()))
    }
}

/// What does not change while a scenario is explored.
pub(crate) struct Model<'m> {
    pub(crate) scenario: &'m Scenario,
    pub(crate) program: &'m RefCell<Program>,
}

/// What may still go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    pub(crate) kills: u8,
    pub(crate) power_cuts: u8,
    pub(crate) faults: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) world: World,
    pub(crate) reapers: Vec<Reaper>,
    pub(crate) owners: Vec<Owner>,
    pub(crate) budget: Budget,
}

impl State {
    fn first(scenario: &Scenario) -> Self {
        let Scenario { kills, power_cuts, faults, .. } = *scenario;
        let owners = scenario.owners.iter().enumerate();
        // Records are a launcher's, who has a lock; a row is its own record.
        let recorded = match scenario.lock {
            CreatorsLock::Shared => Recorded::Yes,
            CreatorsLock::None => Recorded::No,
        };
        Self {
            world: World::new(scenario.dirs, scenario.work, recorded, power_cuts > 0),
            reapers: (0..scenario.reapers).map(|number| Reaper::new(number, scenario.journals)).collect(),
            owners: owners.map(|(number, kind)| Owner::new(Who(number as u8 + 2), *kind)).collect(),
            budget: Budget { kills, power_cuts, faults },
        }
    }

    fn steps(&self, model: &Model<'_>) -> Vec<Step<Self>> {
        let mut steps = Vec::new();
        for number in 0..self.reapers.len() {
            crate::reaper::steps(self, number, model, &mut steps);
        }
        for number in 0..self.owners.len() {
            crate::owner::steps(self, number, model.scenario, &mut steps);
        }
        self.power_cut(&mut steps);
        steps
    }

    /// Every process ends, and what was not durable may be undone.
    fn power_cut(&self, steps: &mut Vec<Step<Self>>) {
        let is_at_work = self.reapers.iter().any(|reaper| reaper.is_at_work());
        if self.budget.power_cuts == 0 || !is_at_work {
            return;
        }
        for world in self.world.without_power() {
            let mut next = Self { world, ..self.clone() };
            next.budget.power_cuts -= 1;
            next.world.power_may_fail = next.budget.power_cuts > 0;
            for who in (0..MACHINE.0).map(Who) {
                next.world.leave(who);
            }
            next.reapers.iter_mut().for_each(Reaper::die);
            next.owners.iter_mut().for_each(Owner::end);
            steps.push(Step { who: MACHINE, what: "loses power", to: Ok(next) });
        }
    }

    /// What must hold when nobody can take a step any more.
    fn consistent(&self, scenario: &Scenario) -> Result<(), Breach> {
        let world = &self.world;
        let over =
            self.reapers.iter().all(|reaper| reaper.phase == Phase::Over) && self.owners.iter().all(Owner::ended);
        if !over {
            return Err(Breach("somebody waits for ever"));
        }
        let holds = |lock: &Option<Who>| lock.is_some();
        if world.locks.iter().chain(&world.journal_locks).any(holds)
            || world.trees.iter().any(|tree| holds(&tree.flock))
        {
            return Err(Breach("a lock outlived its holder"));
        }
        let line = |journal: u8, dir: u8| world.journals[usize::from(journal)][usize::from(dir)];
        for (name, ino) in world.names() {
            match name {
                Name::Live(_) | Name::Moved(_) if world.is_half(ino) => {
                    return Err(Breach("a half-removed tree lies under a live name"));
                }
                Name::Trash(..) if world.is_half(ino) => {
                    return Err(Breach("a half-removed tree looks whole in the trash"));
                }
                Name::Trash(journal, dir) if line(journal, dir) == Line::SetAside => {}
                Name::Trash(journal, dir) | Name::Begun(journal, dir) if line(journal, dir) != Line::Intended => {
                    return Err(Breach("a tree lies in the trash that its journal does not know"));
                }
                Name::Live(_) | Name::Moved(_) | Name::Trash(..) | Name::Begun(..) => {}
            }
        }
        for dir in 0..scenario.dirs {
            let aside = |journal| line(journal, dir) == Line::SetAside && world.at(Name::Trash(journal, dir)).is_none();
            if (0..2).any(aside) {
                return Err(Breach("what was set aside is not where its journal says"));
            }
        }
        self.nothing_is_missing(scenario)
    }

    fn nothing_is_missing(&self, scenario: &Scenario) -> Result<(), Breach> {
        let world = &self.world;
        let left = |ino: usize| world.names().any(|(_, at)| usize::from(at) == ino);
        for (ino, tree) in world.trees.iter().enumerate() {
            if tree.work != 0 && tree.work != scenario.work && !(left(ino) && tree.entries == WHOLE) {
                return Err(Breach("the only copy of something is nowhere"));
            }
        }
        for dir in 0..DIRS {
            let open = (0..2_u8).filter(|journal| world.journals[usize::from(*journal)][dir] == Line::Intended);
            for journal in open {
                let in_trash = [Name::Trash(journal, dir as u8), Name::Begun(journal, dir as u8)];
                let known = in_trash.into_iter().any(|name| world.at(name).is_some());
                if !known && !self.reapers.iter().any(|reaper| reaper.journal == journal && reaper.left_something) {
                    return Err(Breach("an intent is open of which nothing is left to do"));
                }
            }
            let recorded = world.records[dir];
            let excused = self.reapers.iter().any(|reaper| reaper.left_something);
            let free = world.at(Name::Live(dir as u8)).is_none();
            let of_planned = recorded.is_some_and(|ino| ino < scenario.dirs && !left(usize::from(ino)));
            // A record that could not be dropped, or that a new owner's directory kept until the power took it,
            // is dropped by a later run, as that of a directory which vanished.
            let certain = scenario.power_cuts == 0 && scenario.faults == 0;
            if free && of_planned && !excused && certain {
                return Err(Breach("a record is left of a directory that is gone"));
            }
        }
        let quiet = scenario.disposal == Disposal::Discard
            && scenario.owners.is_empty()
            && scenario.faults == 0
            && scenario.power_cuts == 0;
        let put_back = self.reapers.iter().any(|reaper| reaper.was_killed);
        if quiet && !put_back && (0..scenario.dirs).any(|dir| left(usize::from(dir))) {
            return Err(Breach("nobody came back and nothing went wrong, and yet a directory stayed"));
        }
        Ok(())
    }
}
