//! What is really there: names, trees, rows, locks and the journal. The reaper's changes go through
//! here and are checked against the promises; the first that is broken is remembered.

use std::collections::{BTreeMap, BTreeSet};

use derelict_core::evidence::Evidence;
use derelict_core::ids::IntentId;
use derelict_core::outcome::FateName;

use super::Missing;
use super::dice::Dice;

/// The number of a workspace, which is its name.
pub(crate) type Workspace = usize;

/// The number of a tree; never used twice.
pub(crate) type Ino = u64;

/// Where a tree can lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Live(Workspace),
    /// Moved away by somebody, to a place of its own.
    Aside(Ino),
    Trash(IntentId),
    Begun(IntentId),
}

/// One file of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The work that is nowhere else, if any.
    pub(crate) work: Option<u64>,
    /// Whether it refuses to be unlinked.
    pub(crate) immutable: Immutable,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Immutable {
    Yes,
    No,
}

#[derive(Debug, Clone)]
pub(crate) struct Tree {
    pub(crate) entries: Vec<Entry>,
    /// Entries that we unlinked.
    pub(crate) unlinked: u64,
    pub(crate) version: u64,
    /// Open handles of its owners.
    pub(crate) handles: u64,
    /// Whether a row held it when the second look began.
    pub(crate) owed: bool,
    pub(crate) looked_at: bool,
    /// The work that force accepts to lose.
    pub(crate) accepted: BTreeSet<u64>,
    pub(crate) end: End,
}

/// How a tree ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    NotYet,
    ByUs,
    ByItsOwner,
}

/// What the owners' table says of a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Row {
    None,
    Standing,
    Held,
    Elsewhere,
    Unreadable,
}

/// Who holds the creators' lock of a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    Free,
    ByUs,
    ByACreator,
}

/// A line of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) workspace: Workspace,
    pub(crate) ino: Ino,
    pub(crate) finished: Finished,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finished {
    Yes,
    No,
}

/// Whether something was written in a tree since it was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    SinceTheLook,
    No,
}

/// Whether a signal came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cancelled {
    Yes,
    No,
}

/// Whether something keeps a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Live {
    Yes,
    No,
}

/// How the world treats us at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weather {
    Storm,
    Calm,
}

#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) dice: Dice,
    pub(crate) missing: Missing,
    pub(crate) weather: Weather,
    pub(crate) names: BTreeMap<Place, Ino>,
    pub(crate) trees: BTreeMap<Ino, Tree>,
    pub(crate) rows: Vec<Row>,
    pub(crate) records: Vec<Option<Ino>>,
    pub(crate) locks: Vec<Held>,
    pub(crate) journal: BTreeMap<IntentId, Line>,
    /// What the last survey saw, for a sweep that believes it.
    pub(crate) planned: BTreeMap<Workspace, Evidence>,
    /// The version that the last first look was about.
    pub(crate) traced: Option<(Ino, u64)>,
    /// Whether the last first look saw the directory live.
    pub(crate) looked_live: Live,
    /// Where each directory of this sweep has to end, as far as it is known.
    pub(crate) expected: BTreeMap<Ino, FateName>,
    /// Whether somebody has asked the sweep to stop.
    pub(crate) cancelled: Cancelled,
    /// Whether the sweep has to end, and why.
    pub(crate) ending: Option<&'static str>,
    next: u64,
    pub(crate) unlinked: u64,
    pub(crate) calls: u64,
    pub(crate) moves: u64,
    pub(crate) log: Vec<String>,
    pub(crate) broken: Option<String>,
}

impl Ground {
    pub(crate) fn new(seed: u64, missing: Missing) -> Self {
        let mut ground = Self {
            dice: Dice::new(seed),
            missing,
            weather: Weather::Storm,
            names: BTreeMap::new(),
            trees: BTreeMap::new(),
            rows: Vec::new(),
            records: Vec::new(),
            locks: Vec::new(),
            journal: BTreeMap::new(),
            planned: BTreeMap::new(),
            traced: None,
            looked_live: Live::No,
            expected: BTreeMap::new(),
            cancelled: Cancelled::No,
            ending: None,
            next: 1,
            unlinked: 0,
            calls: 0,
            moves: 0,
            log: Vec::new(),
            broken: None,
        };
        for workspace in 0..2 + ground.dice.below(5) {
            ground.rows.push(*ground.dice.clone().pick(&[Row::None, Row::None, Row::Standing]).unwrap_or(&Row::None));
            let work = ground.dice.one_in(4);
            ground.locks.push(Held::Free);
            ground.records.push(None);
            let ino = ground.make(workspace);
            ground.records[workspace] = Some(ino);
            if work {
                ground.write(ino);
            }
        }
        ground
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(crate) fn note(&mut self, what: impl Into<String>) {
        self.log.push(what.into());
    }

    pub(crate) fn must(&mut self, holds: bool, promise: &str) {
        if !holds && self.broken.is_none() {
            self.note(format!("BROKEN: {promise}"));
            self.broken = Some(promise.to_owned());
        }
    }

    /// A new tree under a workspace's name, which is free.
    pub(crate) fn make(&mut self, workspace: Workspace) -> Ino {
        let ino = self.number();
        let entries = vec![Entry { work: None, immutable: Immutable::No }; 1 + self.dice.below(3)];
        let tree = Tree {
            entries,
            unlinked: 0,
            version: 0,
            handles: 0,
            owed: false,
            looked_at: false,
            accepted: BTreeSet::new(),
            end: End::NotYet,
        };
        self.trees.insert(ino, tree);
        self.names.insert(Place::Live(workspace), ino);
        ino
    }

    /// New work, in a new file.
    pub(crate) fn write(&mut self, ino: Ino) {
        let work = Some(self.number());
        let tree = self.tree(ino);
        tree.entries.push(Entry { work, immutable: Immutable::No });
        tree.version += 1;
    }

    pub(crate) fn tree(&mut self, ino: Ino) -> &mut Tree {
        self.trees.get_mut(&ino).expect("because no tree is forgotten")
    }

    /// What others hold on to: rows that keep, one way or the other.
    pub(crate) fn claims(&self, workspace: Workspace) -> bool {
        self.rows[workspace] != Row::None
    }

    /// Where a directory has to end that something keeps now, told from the ground and not by the rule
    /// that is under test; `None` when nothing keeps it.
    pub(crate) fn keeps(&self, workspace: Workspace, ino: Ino, written: Written) -> Option<FateName> {
        let tree = &self.trees[&ino];
        let works: BTreeSet<u64> = tree.entries.iter().filter_map(|entry| entry.work).collect();
        let row = self.rows[workspace];
        if matches!(row, Row::Standing | Row::Elsewhere) {
            return Some(FateName::RetainedResurrected);
        }
        if row == Row::Unreadable || written == Written::SinceTheLook {
            return Some(FateName::RetainedChanged);
        }
        if row == Row::Held || tree.handles > 0 {
            return Some(FateName::RetainedResurrected);
        }
        (!works.is_empty() && works != tree.accepted).then_some(FateName::RetainedChanged)
    }

    pub(crate) fn expect(&mut self, ino: Ino, fate: FateName) {
        self.expected.insert(ino, fate);
    }

    /// Renames, replacing nothing; only what an open intent of this very tree covers.
    pub(crate) fn rename(&mut self, intent: IntentId, from: Place, to: Place) -> Result<(), &'static str> {
        if self.names.contains_key(&to) {
            return Err("the name is taken");
        }
        let ino = self.names.remove(&from).ok_or("nothing is there")?;
        let covered = self.journal.get(&intent).is_some_and(|line| line.finished == Finished::No);
        self.must(covered, "every change on disk has a durable intent before it");
        self.names.insert(to, ino);
        Ok(())
    }

    /// Unlinks one entry; `None` when only what refuses is left.
    pub(crate) fn unlink(&mut self, intent: IntentId, ino: Ino) -> Option<()> {
        let line = self.journal.get(&intent).copied();
        let covered = line.is_some_and(|line| line.finished == Finished::No && line.ino == ino);
        self.must(covered, "every change on disk has a durable intent before it");
        let claimed = line.is_some_and(|line| self.claims(line.workspace));
        let tree = self.trees.get_mut(&ino)?;
        let at = tree.entries.iter().position(|entry| entry.immutable == Immutable::No)?;
        let entry = tree.entries.remove(at);
        tree.unlinked += 1;
        let (handles, owed, looked_at) = (tree.handles, tree.owed, tree.looked_at);
        let accepted = entry.work.is_none_or(|work| tree.accepted.contains(&work));
        self.unlinked += 1;
        self.must(accepted, "nothing is unlinked that is the only copy of something");
        self.must(handles == 0, "nothing is unlinked while its owner is in it");
        self.must(!owed && (looked_at || !claimed), "nothing is unlinked that its owner claimed in time");
        Some(())
    }

    /// Removes an emptied tree.
    pub(crate) fn rmdir(&mut self, place: Place) -> Ino {
        let ino = self.names.remove(&place).expect("because what is removed has its name");
        self.unlinked += 1;
        let tree = self.tree(ino);
        tree.unlinked += 1;
        tree.end = End::ByUs;
        ino
    }

    /// Drops the record of what is gone, unless something lies there again, or in the trash from
    /// which it may come back. Tells which record that was.
    pub(crate) fn release(&mut self, workspace: Workspace) -> Option<Ino> {
        let of_it = |intent| self.journal.get(intent).is_some_and(|line| line.workspace == workspace);
        let there = self.names.keys().any(|place| match place {
            Place::Live(other) => *other == workspace,
            Place::Trash(intent) | Place::Begun(intent) => of_it(intent),
            Place::Aside(_) => false,
        });
        if there {
            return None;
        }
        let recorded = self.records[workspace].take()?;
        let elsewhere = self.names.iter().any(|(place, ino)| *ino == recorded && *place != Place::Aside(recorded));
        self.must(!elsewhere, "no record is dropped before its directory is gone");
        Some(recorded)
    }

    /// Whoever comes to a name finds a whole tree or nothing.
    pub(crate) fn come_to(&mut self, workspace: Workspace) -> Option<Ino> {
        let ino = self.names.get(&Place::Live(workspace)).copied()?;
        let whole = self.trees[&ino].unlinked == 0;
        self.must(whole, "nobody meets a half-removed tree");
        Some(ino)
    }
}
