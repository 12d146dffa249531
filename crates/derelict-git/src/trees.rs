//! Differences between trees, and single paths in them.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use gix_hash::ObjectId;
use gix_object::TreeRefIter;

use crate::commits::Stores;

/// What a path holds: its mode and object.
pub(crate) type Held = (u16, ObjectId);

/// What changed at each path: before and after.
pub(crate) type Changes = BTreeMap<Vec<u8>, (Option<Held>, Option<Held>)>;

/// A comparison that finds more changes than this is given up.
const MOST_CHANGES: usize = 20_000;

/// Trees nested deeper than this are given up.
const DEEPEST: usize = 512;

type Listing = BTreeMap<Vec<u8>, Held>;

fn is_tree(held: &Held) -> bool {
    held.0 == 0o040_000
}

/// Lists a tree. An error also stands for a tree that is not here.
pub(crate) fn list(stores: &Stores, tree: &ObjectId) -> Result<Listing, String> {
    if tree.is_empty_tree() {
        return Ok(Listing::new());
    }
    let mut buffer = Vec::new();
    let data =
        stores.find(tree, &mut buffer)?.ok_or_else(|| format!("tree {tree} is missing from the object database"))?;
    TreeRefIter::from_bytes(data.data, tree.kind())
        .map(|entry| {
            let entry = entry.map_err(|error| format!("cannot parse tree {tree}: {error}"))?;
            Ok((entry.filename.to_vec(), (entry.mode.value(), entry.oid.to_owned())))
        })
        .collect()
}

/// All paths below two trees that do not hold the same.
pub(crate) fn changes(stores: &Stores, before: &ObjectId, after: &ObjectId) -> Result<Changes, String> {
    let mut found = Changes::new();
    let mut pending = vec![(Vec::new(), Some(*before), Some(*after), 0)];
    while let Some((prefix, before, after, depth)) = pending.pop() {
        if before == after {
            continue;
        }
        if depth > DEEPEST || found.len() > MOST_CHANGES {
            return Err("the trees differ too much to compare".into());
        }
        let load = |tree: Option<ObjectId>| tree.map_or_else(|| Ok(Listing::new()), |tree| list(stores, &tree));
        let (before, mut after) = (load(before)?, load(after)?);
        let both = before.into_iter().map(|(name, old)| (after.remove(&name), name, Some(old))).collect::<Vec<_>>();
        let new = after.into_iter().map(|(name, new)| (Some(new), name, None));
        for (new, name, old) in both.into_iter().chain(new).collect::<Vec<_>>() {
            if old == new {
                continue;
            }
            let path = [prefix.as_slice(), &name].concat();
            let tree_of = |held: Option<Held>| held.filter(is_tree).map(|held| held.1);
            let leaf_of = |held: Option<Held>| held.filter(|held| !is_tree(held));
            if tree_of(old).is_some() || tree_of(new).is_some() {
                pending.push(([path.as_slice(), b"/"].concat(), tree_of(old), tree_of(new), depth + 1));
            }
            if leaf_of(old).is_some() || leaf_of(new).is_some() {
                found.insert(path, (leaf_of(old), leaf_of(new)));
            }
        }
    }
    Ok(found)
}

/// Looks up paths in many trees of one history, most of whose subtrees are the same.
#[derive(Default)]
pub(crate) struct Lookup {
    listed: HashMap<ObjectId, Listing>,
}

impl Lookup {
    /// What `path` holds in `tree`, if it is there and no directory.
    pub(crate) fn at(&mut self, stores: &Stores, tree: &ObjectId, path: &[u8]) -> Result<Option<Held>, String> {
        let mut tree = *tree;
        let mut parts = path.split(|byte| *byte == b'/').peekable();
        while let Some(part) = parts.next() {
            let listing = match self.listed.entry(tree) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(unknown) => unknown.insert(list(stores, &tree)?),
            };
            let held = listing.get(part).copied();
            match (held, parts.peek()) {
                (Some(held), None) => return Ok(Some(held).filter(|held| !is_tree(held))),
                (Some(held), Some(_)) if is_tree(&held) => tree = held.1,
                (Some(_) | None, _) => return Ok(None),
            }
        }
        Ok(None)
    }
}
