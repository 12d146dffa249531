//! Files that saved history has, at any path: what a work tree holds of such content is saved, whatever the
//! index says of it.
//!
//! The mode counts as well as the content. An empty file says nothing but its name, so it counts only
//! where saved history has it at the same path. The search is bounded; what it does not come to is not
//! saved.

use std::collections::{BinaryHeap, HashMap, HashSet};

use gix_hash::ObjectId;
use gix_object::{Kind, TreeRefIter};

use crate::commits::Stores;
use crate::saved::Saved;
use crate::trees::Held;

/// Trees that one search may read: about a second.
const MOST_TREES: usize = 40_000;

/// Commits that one search may read.
const MOST_COMMITS: usize = 40_000;

/// A file to be looked for.
#[derive(Debug, Clone)]
pub(crate) struct Sought {
    /// Where it lies, from the top of the work tree.
    pub(crate) path: Vec<u8>,
    pub(crate) held: Held,
}

/// Says for each file whether saved history has it.
pub(crate) fn saved_files(saved: &Saved, sought: &[Sought]) -> Vec<bool> {
    let mut found = HashMap::new();
    for whole in [Extent::SamePaths, Extent::Everywhere] {
        for (stores, tips, must_read) in
            [(&saved.stores, &saved.forge, Believe::TheTree), (&saved.theirs, &saved.kept, Believe::TheBytes)]
        {
            let left: Vec<&Sought> = sought.iter().filter(|sought| !is_found(&found, sought)).collect();
            if left.is_empty() || tips.is_empty() {
                continue;
            }
            Search::new(stores, must_read, whole, &left, &mut found).run(tips);
        }
    }
    sought.iter().map(|sought| is_found(&found, sought)).collect()
}

/// Where something was found: anywhere, and for empty files at which paths.
type Hits = HashMap<Held, HashSet<Vec<u8>>>;

fn is_found(found: &Hits, sought: &Sought) -> bool {
    let Some(paths) = found.get(&sought.held) else { return false };
    !sought.held.1.is_empty_blob() || paths.contains(&sought.path)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// Only where a file lies that is looked for: most were saved there, in an earlier version.
    SamePaths,
    Everywhere,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Believe {
    /// A forge has what its trees name.
    TheTree,
    /// A repository that stays has what can be read from it.
    TheBytes,
}

struct Search<'a> {
    stores: &'a Stores,
    believe: Believe,
    extent: Extent,
    wanted: HashSet<Held>,
    /// Paths that are looked for, and all directories above them with a slash at the end.
    paths: HashSet<&'a [u8]>,
    above: HashSet<&'a [u8]>,
    open: usize,
    seen: HashSet<(Vec<u8>, ObjectId)>,
    found: &'a mut Hits,
}

impl<'a> Search<'a> {
    fn new(stores: &'a Stores, believe: Believe, extent: Extent, left: &[&'a Sought], found: &'a mut Hits) -> Self {
        let wanted: HashSet<Held> = left.iter().map(|sought| sought.held).collect();
        let paths: HashSet<&[u8]> = left.iter().map(|sought| sought.path.as_slice()).collect();
        let slashes = |path: &'a [u8]| (0..path.len()).filter(move |at| path[*at] == b'/').map(move |at| &path[..=at]);
        let above = paths.iter().flat_map(|path| slashes(path)).collect();
        Self { stores, believe, extent, open: wanted.len(), wanted, paths, above, seen: HashSet::new(), found }
    }

    fn run(&mut self, tips: &HashSet<ObjectId>) {
        let (stores, mut queue, mut reached) = (self.stores, BinaryHeap::new(), HashSet::new());
        let mut reach = |id: ObjectId, queue: &mut BinaryHeap<_>| {
            if reached.len() < MOST_COMMITS && reached.insert(id) {
                // What cannot be read proves nothing.
                if let Ok(Some(commit)) = stores.commit(&id) {
                    queue.push((commit.time, id, commit.tree, commit.parents));
                }
            }
        };
        for tip in tips {
            if let Some(id) = stores.peel(*tip).ok().and_then(|peeled| peeled.commit()) {
                reach(id, &mut queue);
            }
        }
        while let Some((_, _, tree, parents)) = queue.pop() {
            if self.open == 0 || self.seen.len() > MOST_TREES {
                return;
            }
            self.tree(tree);
            parents.into_iter().for_each(|parent| reach(parent, &mut queue));
        }
    }

    fn tree(&mut self, top: ObjectId) {
        let (mut pending, mut buffer) = (vec![(Vec::new(), top)], Vec::new());
        while let Some((prefix, tree)) = pending.pop() {
            // Everywhere, it does not matter where a tree is; only empty files ask for the path.
            let key = if self.extent == Extent::SamePaths { prefix.clone() } else { Vec::new() };
            if self.seen.len() > MOST_TREES || !self.seen.insert((key, tree)) {
                continue;
            }
            let Ok(Some(data)) = self.stores.find(&tree, &mut buffer) else { continue };
            if data.kind != Kind::Tree {
                continue;
            }
            let mut leaves = Vec::new();
            for entry in TreeRefIter::from_bytes(data.data, tree.kind()).map_while(Result::ok) {
                let (mode, id) = (entry.mode.value(), entry.oid.to_owned());
                let is_tree = mode == 0o040_000;
                if !is_tree && !self.wanted.contains(&(mode, id)) {
                    continue;
                }
                let mut path = [prefix.as_slice(), entry.filename].concat();
                if is_tree {
                    path.push(b'/');
                    if self.extent == Extent::Everywhere || self.above.contains(path.as_slice()) {
                        pending.push((path, id));
                    }
                } else if self.extent == Extent::Everywhere || self.paths.contains(path.as_slice()) {
                    leaves.push((path, (mode, id)));
                }
            }
            leaves.into_iter().for_each(|(path, held)| self.leaf(path, held));
        }
    }

    fn leaf(&mut self, path: Vec<u8>, held: Held) {
        if self.believe == Believe::TheBytes && !self.found.contains_key(&held) && !is_readable(self.stores, &held.1) {
            return;
        }
        let paths = self.found.entry(held).or_default();
        if paths.is_empty() {
            self.open = self.open.saturating_sub(1);
        }
        // Other files say more than their name.
        if paths.is_empty() || held.1.is_empty_blob() {
            paths.insert(path);
        }
    }
}

/// Whether the store yields exactly the bytes that the name stands for.
fn is_readable(stores: &Stores, id: &ObjectId) -> bool {
    let mut buffer = Vec::new();
    let Ok(Some(data)) = stores.find(id, &mut buffer) else { return false };
    gix_object::compute_hash(id.kind(), data.kind, data.data).is_ok_and(|hash| hash == *id)
}
