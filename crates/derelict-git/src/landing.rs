//! Whether a change is in one saved commit: as what its files hold, or as the change it made itself. Not
//! here: which commits are asked.

use std::collections::HashMap;

use gix_hash::ObjectId;
use gix_object::Kind;

use crate::commits::{Commit, Stores};
use crate::lines::{MOST_BYTES, carries, same_change};
use crate::saved::Saved;
use crate::trees::{Changes, Held, Lookup, changes};

/// On whose word a commit is saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// A forge's: it holds all that its commits reach, and we read our copies.
    Forge,
    /// That of a repository that stays: only what is read from it is believed.
    Kept,
}

/// What a saved commit must hold at a path.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) path: Vec<u8>,
    /// What saved commits held there before it was changed.
    pub(crate) origins: Vec<Option<Held>>,
    pub(crate) end: Option<Held>,
}

/// Texts that are compared line by line for one repository; the rest is compared as a whole only.
const MOST_TEXTS: usize = 2_000;

/// Compares, and remembers what it has read.
pub(crate) struct Landing<'s> {
    saved: &'s Saved,
    here: Lookup,
    kept: Lookup,
    made: HashMap<(Origin, ObjectId, ObjectId), Option<Changes>>,
    /// Answers for three versions of a text: before, there and here.
    carried: HashMap<(Origin, [ObjectId; 3]), bool>,
    texts: usize,
}

/// Regular files: only these are text.
pub(crate) fn is_file(held: &Held) -> bool {
    held.0 == 0o100_644 || held.0 == 0o100_755
}

const GITLINK: u16 = 0o160_000;

impl<'s> Landing<'s> {
    pub(crate) fn new(saved: &'s Saved) -> Self {
        let (here, kept) = (Lookup::default(), Lookup::default());
        Self { saved, here, kept, made: HashMap::new(), carried: HashMap::new(), texts: 0 }
    }

    fn stores(&self, origin: Origin) -> &'s Stores {
        match origin {
            Origin::Forge => &self.saved.stores,
            Origin::Kept => &self.saved.theirs,
        }
    }

    /// What a tree of this repository holds at a path; `None` when that cannot be read.
    pub(crate) fn at(&mut self, tree: &ObjectId, path: &[u8]) -> Option<Option<Held>> {
        self.here.at(&self.saved.stores, tree, path).ok()
    }

    /// Whether the commit holds, at every path, what is wanted there, or merging it in would change nothing.
    pub(crate) fn holds(&mut self, origin: Origin, commit: &Commit, wanted: &[Wanted]) -> bool {
        wanted.iter().all(|wanted| self.holds_one(origin, commit, wanted))
    }

    fn holds_one(&mut self, origin: Origin, commit: &Commit, wanted: &Wanted) -> bool {
        let stores = self.stores(origin);
        let lookup = match origin {
            Origin::Forge => &mut self.here,
            Origin::Kept => &mut self.kept,
        };
        let Ok(there) = lookup.at(stores, &commit.tree, &wanted.path) else { return false };
        if there == wanted.end {
            return there.is_none_or(|held| self.is_there(origin, &held));
        }
        let (Some(there), Some(end)) = (there, wanted.end) else { return false };
        if there.0 != end.0 || !is_file(&end) {
            return false;
        }
        wanted.origins.iter().flatten().filter(|before| is_file(before)).any(|before| {
            let key = (origin, [before.1, there.1, end.1]);
            if let Some(known) = self.carried.get(&key) {
                return *known;
            }
            self.texts += 1;
            let carried = self.texts <= MOST_TEXTS && self.carries(origin, key.1).unwrap_or(false);
            self.carried.insert(key, carried);
            carried
        })
    }

    fn carries(&self, origin: Origin, [before, there, end]: [ObjectId; 3]) -> Option<bool> {
        let here = |id| text(&self.saved.stores, id);
        Some(carries(&here(&before)?, &text(self.stores(origin), &there)?, &here(&end)?))
    }

    /// Whether the commit made this very change to its only parent, or the same change of texts.
    pub(crate) fn made(&mut self, origin: Origin, commit: &Commit, change: &Changes) -> bool {
        let [parent] = commit.parents.as_slice() else { return false };
        let key = (origin, *parent, commit.tree);
        if !self.made.contains_key(&key) {
            let stores = self.stores(origin);
            let before = stores.commit(parent).ok().flatten();
            let made = before.and_then(|before| changes(stores, &before.tree, &commit.tree).ok());
            self.made.insert(key, made);
        }
        let Some(made) = &self.made[&key] else { return false };
        if made.len() != change.len() || !made.keys().eq(change.keys()) {
            return false;
        }
        self.texts += made.values().zip(change.values()).filter(|(there, here)| there != here).count();
        let pairs = made.values().zip(change.values());
        pairs
            .into_iter()
            .all(|(there, here)| (there == here || self.texts <= MOST_TEXTS) && self.is_same(origin, *there, *here))
    }

    fn is_same(&self, origin: Origin, there: (Option<Held>, Option<Held>), here: (Option<Held>, Option<Held>)) -> bool {
        if there == here {
            return there.1.is_none_or(|held| self.is_there(origin, &held));
        }
        let ((Some(old_there), Some(new_there)), (Some(old), Some(new))) = (there, here) else { return false };
        let files = [old_there, new_there, old, new].iter().all(is_file);
        if !files || old_there.0 != old.0 || new_there.0 != new.0 {
            return false;
        }
        let (theirs, ours) = (self.stores(origin), &self.saved.stores);
        let texts = |stores, one: Held, other: Held| Some((text(stores, &one.1)?, text(stores, &other.1)?));
        match (texts(theirs, old_there, new_there), texts(ours, old, new)) {
            (Some(there), Some(here)) => same_change((&there.0, &there.1), (&here.0, &here.1)),
            (Some(_) | None, _) => false,
        }
    }

    fn is_there(&self, origin: Origin, held: &Held) -> bool {
        match origin {
            Origin::Forge => true,
            Origin::Kept if held.0 == GITLINK => true,
            Origin::Kept => self.saved.theirs.kind(&held.1) == Ok(Some(Kind::Blob)),
        }
    }
}

/// A blob, if it is here and not too large to be a text.
fn text(stores: &Stores, id: &ObjectId) -> Option<Vec<u8>> {
    let mut buffer = Vec::new();
    let data = stores.find(id, &mut buffer).ok()??;
    (data.kind == Kind::Blob && data.data.len() as u64 <= MOST_BYTES).then(|| data.data.to_vec())
}
