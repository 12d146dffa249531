//! The abstract world: names that lead to trees, trees with contents, open handles, locks, a row per
//! directory, the owner's record, and a journal per reaper. Every change goes through a function
//! here, and each of them checks the promises that could be broken by it.

use std::collections::{BTreeMap, BTreeSet};

/// A directory of the plan; also the inode number of the tree that was planned.
pub(crate) type Dir = u8;

/// An inode number: the planned trees come first, then those that are made on the way.
pub(crate) type Ino = u8;

/// What a tree is the only copy of; zero is nothing.
pub(crate) type Work = u8;

/// The entries of a whole tree. Two, so that there is a half.
pub(crate) const WHOLE: u8 = 2;

/// The most directories in one plan of the model.
pub(crate) const DIRS: usize = 2;

/// Somebody who takes steps: the reapers are 0 and 1, the others come after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Who(pub(crate) u8);

impl std::fmt::Display for Who {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(["reaper", "second reaper", "owner", "other owner", "machine"][usize::from(self.0)])
    }
}

/// The one whose step is a loss of power.
pub(crate) const MACHINE: Who = Who(4);

/// A name below the root. Trash names carry the journal's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Name {
    Live(Dir),
    Moved(Dir),
    Trash(u8, Dir),
    Begun(u8, Dir),
}

/// A tree on disk.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Tree {
    pub(crate) entries: u8,
    /// The entries it had when they were last made durable.
    pub(crate) synced: u8,
    pub(crate) work: Work,
    /// Grows with every write.
    pub(crate) version: u8,
    pub(crate) flock: Option<Who>,
    /// Whether an owner had claimed it when the second look at it began: from then on whoever comes
    /// finds nothing, before that he must not lose it.
    pub(crate) owed: bool,
    /// Whether a second look at it has begun.
    pub(crate) looked_at: bool,
}

/// What a journal says of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Line {
    Nothing,
    Intended,
    /// It waits in the trash for the end of its grace.
    SetAside,
    Finished,
}

/// A promise that was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Breach(pub(crate) &'static str);

/// Why a rename did not happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotMoved {
    Absent,
    Taken,
}

/// Whether somebody's open handle is seen by those who look for users here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Sight {
    Seen,
    OnAnotherHost,
}

/// Whether the planned directories have records of an owner that is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recorded {
    Yes,
    No,
}

/// Everything that outlives a process, and what processes hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct World {
    /// The names as they are, preceded by every state that a loss of power could go back to.
    names: Vec<BTreeMap<Name, Ino>>,
    pub(crate) trees: Vec<Tree>,
    /// Whether the row of a directory claims it now.
    pub(crate) rows: [bool; DIRS],
    /// Whose record of a directory there is.
    pub(crate) records: [Option<Ino>; DIRS],
    pub(crate) locks: [Option<Who>; DIRS],
    pub(crate) open: BTreeSet<(Who, Ino, Sight)>,
    pub(crate) journals: [[Line; DIRS]; 2],
    pub(crate) journal_locks: [Option<Who>; 2],
    /// What force was told to accept.
    accepted: Work,
    /// Whether a loss of power is still to be reckoned with.
    pub(crate) power_may_fail: bool,
}

impl World {
    /// `dirs` orphans of the plan, holding `work` and nothing else.
    pub(crate) fn new(dirs: u8, work: Work, recorded: Recorded, power_may_fail: bool) -> Self {
        let mut world = Self {
            names: vec![BTreeMap::new()],
            trees: Vec::new(),
            rows: [false; DIRS],
            records: [None; DIRS],
            locks: [None; DIRS],
            open: BTreeSet::new(),
            journals: [[Line::Nothing; DIRS]; 2],
            journal_locks: [None; 2],
            accepted: work,
            power_may_fail,
        };
        for dir in 0..dirs {
            let ino = world.make(Name::Live(dir), work).expect("because nothing lies there yet");
            world.records[usize::from(dir)] = (recorded == Recorded::Yes).then_some(ino);
        }
        world.sync();
        world
    }

    pub(crate) fn at(&self, name: Name) -> Option<Ino> {
        self.current().get(&name).copied()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = (Name, Ino)> {
        self.current().iter().map(|(name, ino)| (*name, *ino))
    }

    pub(crate) fn tree(&mut self, ino: Ino) -> &mut Tree {
        &mut self.trees[usize::from(ino)]
    }

    /// A new whole tree under a name; `None` when the name is taken.
    pub(crate) fn make(&mut self, name: Name, work: Work) -> Option<Ino> {
        if self.at(name).is_some() {
            return None;
        }
        let ino = Ino::try_from(self.trees.len()).expect("because few trees are made");
        self.trees.push(Tree {
            entries: WHOLE,
            synced: WHOLE,
            work,
            version: 0,
            flock: None,
            owed: false,
            looked_at: false,
        });
        self.change(|names| names.insert(name, ino));
        Some(ino)
    }

    /// A rename by an owner, who answers to nobody.
    pub(crate) fn carry(&mut self, from: Name, to: Name) -> Result<(), NotMoved> {
        let ino = self.at(from).ok_or(NotMoved::Absent)?;
        if self.at(to).is_some() {
            return Err(NotMoved::Taken);
        }
        self.change(|names| {
            names.remove(&from);
            names.insert(to, ino)
        });
        Ok(())
    }

    /// A rename by a reaper, replacing nothing.
    pub(crate) fn rename(&mut self, journal: u8, dir: Dir, from: Name, to: Name) -> Result<Option<NotMoved>, Breach> {
        self.intended(journal, dir)?;
        match self.carry(from, to) {
            Ok(()) => Ok(None),
            Err(why) => Ok(Some(why)),
        }
    }

    /// Unlinks one entry of a tree.
    pub(crate) fn unlink(&mut self, journal: u8, dir: Dir, ino: Ino) -> Result<(), Breach> {
        self.intended(journal, dir)?;
        let claimed = self.rows[usize::from(dir)];
        let (accepted, lived_in) = (self.accepted, self.is_lived_in(ino));
        let power_may_fail = self.power_may_fail;
        let tree = self.tree(ino);
        if tree.work != 0 && tree.work != accepted {
            return Err(Breach("the only copy of something was unlinked"));
        }
        if lived_in {
            return Err(Breach("a directory was unlinked while its owner was in it"));
        }
        if claimed && (tree.owed || !tree.looked_at) {
            return Err(Breach("a directory was unlinked whose owner had claimed it in time"));
        }
        tree.entries -= 1;
        if !power_may_fail {
            tree.synced = tree.entries;
        }
        Ok(())
    }

    /// Removes an emptied tree from its parent.
    pub(crate) fn rmdir(&mut self, journal: u8, dir: Dir, name: Name) -> Result<(), Breach> {
        self.intended(journal, dir)?;
        self.change(|names| names.remove(&name));
        Ok(())
    }

    /// Makes every rename and unlink so far durable.
    pub(crate) fn sync(&mut self) {
        self.names.drain(..self.names.len() - 1);
        self.trees.iter_mut().for_each(|tree| tree.synced = tree.entries);
    }

    /// Drops the record of a directory that is gone.
    pub(crate) fn release(&mut self, dir: Dir) -> Result<(), Breach> {
        let Some(recorded) = self.records[usize::from(dir)].take() else { return Ok(()) };
        // What its owner moved elsewhere is not at the place that the record names.
        let mut there = self.names().filter(|(name, _)| *name != Name::Moved(dir));
        if there.any(|(_, ino)| ino == dir || ino == recorded) {
            return Err(Breach("a record was dropped while its directory was still there"));
        }
        Ok(())
    }

    /// Whether anybody but `who` uses the tree, as far as it can be seen from here.
    pub(crate) fn is_used(&self, ino: Ino, who: Who) -> bool {
        let seen = |(other, at, sight): &(Who, Ino, Sight)| *other != who && *at == ino && *sight == Sight::Seen;
        self.open.iter().any(seen) || self.trees[usize::from(ino)].flock.is_some_and(|holder| holder != who)
    }

    /// Whatever a process holds, it lets go of.
    pub(crate) fn leave(&mut self, who: Who) {
        self.open.retain(|(holder, ..)| *holder != who);
        let mine = |holder: &Option<Who>| *holder == Some(who);
        for lock in self.locks.iter_mut().chain(&mut self.journal_locks).filter(|lock| mine(lock)) {
            *lock = None;
        }
        for tree in self.trees.iter_mut().filter(|tree| mine(&tree.flock)) {
            tree.flock = None;
        }
    }

    /// Every world that could be found after the power failed now.
    pub(crate) fn without_power(&self) -> Vec<Self> {
        let mut found = Vec::new();
        for names in &self.names {
            for entries in [|tree: &Tree| tree.entries, |tree: &Tree| tree.synced] {
                let mut world = Self { names: vec![names.clone()], power_may_fail: false, ..self.clone() };
                for (ino, tree) in world.trees.iter_mut().enumerate() {
                    tree.entries = entries(tree);
                    tree.synced = tree.entries;
                    // An owner that made a directory and did not sync it lost it to the power, not to us.
                    if !names.values().any(|at| usize::from(*at) == ino) {
                        tree.work = 0;
                    }
                }
                found.push(world);
            }
        }
        found
    }

    pub(crate) fn is_half(&self, ino: Ino) -> bool {
        self.trees[usize::from(ino)].entries < WHOLE
    }

    fn is_lived_in(&self, ino: Ino) -> bool {
        self.open.iter().any(|(who, at, _)| who.0 > 1 && *at == ino)
    }

    fn intended(&self, journal: u8, dir: Dir) -> Result<(), Breach> {
        match self.journals[usize::from(journal)][usize::from(dir)] {
            Line::Intended => Ok(()),
            Line::Nothing | Line::SetAside | Line::Finished => {
                Err(Breach("a change on disk had no durable intent before it"))
            }
        }
    }

    fn current(&self) -> &BTreeMap<Name, Ino> {
        self.names.last().expect("because there is always a current state of the names")
    }

    fn change<T>(&mut self, change: impl FnOnce(&mut BTreeMap<Name, Ino>) -> T) {
        let mut names = self.current().clone();
        let _ = change(&mut names);
        if !self.power_may_fail {
            self.names.clear();
        }
        self.names.push(names);
    }
}
