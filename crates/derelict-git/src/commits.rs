//! The ancestry walk: which commits are reachable from here and not from there.
//!
//! Exact where it says "reachable from there"; where clocks disagree by more than the history can
//! show, it may call a saved commit unsaved, never the other way round.

use std::collections::{BinaryHeap, HashMap, HashSet};

use bstr::ByteSlice;
use gix_hash::ObjectId;
use gix_object::{CommitRefIter, Kind, TagRefIter};

use crate::repository::Objects;

/// The object stores a walk may read: the repository's own first, then those that stay.
pub(crate) struct Stores {
    stores: Vec<Objects>,
    shallow: HashSet<ObjectId>,
}

/// What a walk needs to know of a commit.
#[derive(Debug, Clone)]
pub(crate) struct Commit {
    pub(crate) tree: ObjectId,
    pub(crate) parents: Vec<ObjectId>,
    /// Committer time, seconds since the epoch.
    pub(crate) time: i64,
    /// First line of the message, escaped.
    pub(crate) subject: String,
}

/// What an object name leads to.
pub(crate) enum Peeled {
    Commit(ObjectId),
    /// A blob or a tree, alone or behind tags.
    Other,
    Missing,
}

impl Peeled {
    /// The commit, if it leads to one.
    pub(crate) fn commit(self) -> Option<ObjectId> {
        match self {
            Self::Commit(id) => Some(id),
            Self::Other | Self::Missing => None,
        }
    }
}

/// Tags that point to tags: git itself has no bound, nobody has more than two.
const TAG_DEPTH: usize = 16;

impl Stores {
    /// `shallow` are the commits whose parents were cut off on purpose.
    pub(crate) fn new(stores: Vec<Objects>, shallow: HashSet<ObjectId>) -> Self {
        Self { stores, shallow }
    }

    /// The first store that has the object answers.
    pub(crate) fn find<'b>(
        &self,
        id: &gix_hash::oid,
        buffer: &'b mut Vec<u8>,
    ) -> Result<Option<gix_object::Data<'b>>, String> {
        match self.stores.iter().find(|store| store.hash == id.kind() && store.has(id)) {
            Some(store) => store.find(id, buffer),
            None => Ok(None),
        }
    }

    /// What kind of object it is; `None` when no store has it.
    pub(crate) fn kind(&self, id: &gix_hash::oid) -> Result<Option<Kind>, String> {
        match self.stores.iter().find(|store| store.hash == id.kind() && store.has(id)) {
            Some(store) => store.kind(id),
            None => Ok(None),
        }
    }

    /// Whether any of the stores has an object of this name.
    pub(crate) fn has(&self, id: &gix_hash::oid) -> bool {
        self.stores.iter().any(|store| store.hash == id.kind() && store.has(id))
    }

    /// Reads a commit; `None` when no store has it.
    pub(crate) fn commit(&self, id: &ObjectId) -> Result<Option<Commit>, String> {
        let mut buffer = Vec::new();
        let Some(data) = self.find(id, &mut buffer)? else { return Ok(None) };
        if data.kind != Kind::Commit {
            return Err(format!("object {id} should be a commit and is a {}", data.kind));
        }
        let mut iter = CommitRefIter::from_bytes(data.data, id.kind());
        let broken = |error| format!("cannot parse commit {id}: {error}");
        let tree = iter.tree_id().map_err(broken)?;
        let committer = iter.committer().map_err(broken)?;
        let subject = iter.message().map_err(broken)?;
        let parents = if self.shallow.contains(id) { Vec::new() } else { iter.parent_ids().collect() };
        let subject = subject.lines().next().map(|line| line.escape_ascii().to_string()).unwrap_or_else(String::new);
        Ok(Some(Commit { tree, parents, time: committer.seconds(), subject }))
    }

    /// Follows tags to what they are about.
    pub(crate) fn peel(&self, id: ObjectId) -> Result<Peeled, String> {
        let (mut id, mut buffer) = (id, Vec::new());
        for _ in 0..TAG_DEPTH {
            let Some(data) = self.find(&id, &mut buffer)? else { return Ok(Peeled::Missing) };
            match data.kind {
                Kind::Commit => return Ok(Peeled::Commit(id)),
                Kind::Blob | Kind::Tree => return Ok(Peeled::Other),
                Kind::Tag => {
                    let target = TagRefIter::from_bytes(data.data, id.kind()).target_id();
                    id = target.map_err(|error| format!("cannot parse tag {id}: {error}"))?;
                }
            }
        }
        Err(format!("tag {id} points to more than {TAG_DEPTH} tags in a row"))
    }
}

struct Node {
    commit: Commit,
    hidden: bool,
    queued: bool,
}

/// The walk's state. Commits are taken newest first.
struct Walk<'s> {
    stores: &'s Stores,
    nodes: HashMap<ObjectId, Node>,
    queue: BinaryHeap<(i64, ObjectId)>,
    /// Queued commits that are not hidden, as far as is known.
    open: usize,
}

/// Commits reachable from `tips` and not from `hidden`, with their data.
///
/// `limit` bounds how many commits are read; beyond it the answer is an error, never a short list.
pub(crate) fn difference(
    stores: &Stores,
    tips: &[ObjectId],
    hidden: &HashSet<ObjectId>,
    limit: usize,
) -> Result<HashMap<ObjectId, Commit>, String> {
    let mut walk = Walk { stores, nodes: HashMap::new(), queue: BinaryHeap::new(), open: 0 };
    for tip in tips.iter().filter(|tip| !hidden.contains(*tip)) {
        walk.reach(*tip, false)?;
    }
    if walk.open == 0 {
        return Ok(HashMap::new());
    }
    for id in hidden {
        if let Peeled::Commit(id) = stores.peel(*id)? {
            walk.reach(id, true)?;
        }
    }
    let mut oldest = i64::MAX;
    while let Some((time, id)) = walk.queue.pop() {
        if walk.open == 0 && time < oldest {
            break;
        }
        if walk.nodes.len() > limit {
            return Err(format!("more than {limit} commits would have to be read"));
        }
        let Some((parents, hidden)) = walk.take(&id) else { continue };
        if !hidden {
            oldest = oldest.min(time);
        }
        for parent in parents {
            walk.reach(parent, hidden)?;
        }
    }
    Ok(walk.nodes.into_iter().filter(|(_, node)| !node.hidden).map(|(id, node)| (id, node.commit)).collect())
}

impl Walk<'_> {
    /// A commit was reached, from a hidden one or not.
    fn reach(&mut self, id: ObjectId, hidden: bool) -> Result<(), String> {
        if let Some(node) = self.nodes.get_mut(&id) {
            if hidden && !node.hidden {
                node.hidden = true;
                if node.queued {
                    self.open -= 1;
                } else {
                    node.queued = true;
                    self.queue.push((node.commit.time, id));
                }
            }
            return Ok(());
        }
        let commit = match self.stores.commit(&id)? {
            Some(commit) => commit,
            // A hidden commit that is missing hides nothing further; that errs to the side of keeping.
            None if hidden => return Ok(()),
            None => return Err(format!("commit {id} is missing from the object database")),
        };
        self.queue.push((commit.time, id));
        self.open += usize::from(!hidden);
        self.nodes.insert(id, Node { commit, hidden, queued: true });
        Ok(())
    }

    fn take(&mut self, id: &ObjectId) -> Option<(Vec<ObjectId>, bool)> {
        let node = self.nodes.get_mut(id).filter(|node| node.queued)?;
        node.queued = false;
        self.open -= usize::from(!node.hidden);
        Some((node.commit.parents.clone(), node.hidden))
    }
}
