//! Squash, rebase and cherry-pick: a branch whose whole change is already in saved history is saved,
//! though none of its commits is.
//!
//! Each relaxation is a proof. A branch is contained when a saved commit *after* its base holds, at
//! every path the branch touched, exactly what the branch holds there: merging the branch into it
//! would change nothing. Or when each of its commits made exactly the change, object for object,
//! that some saved commit made. What looks alike and is kept: a branch that ends where it began (its
//! work was undone, and exists nowhere else), an empty commit, a merge.

use std::collections::{HashMap, HashSet};

use gix_hash::ObjectId;

use crate::commits::{Commit, Stores, difference};
use crate::trees::{Changes, Lookup, changes};

/// Saved commits that are searched for the change, newest first, and commits of a branch.
const MOST_COMMITS: usize = 5_000;

/// A chain of unsaved commits on a saved base.
struct Chain {
    base: ObjectId,
    /// Newest first.
    commits: Vec<ObjectId>,
}

/// The unsaved commits that are contained in saved history after all. What cannot be decided is left
/// out, and so stays unsaved.
pub(crate) fn contained(
    stores: &Stores,
    unsaved: &HashMap<ObjectId, Commit>,
    tips: &[ObjectId],
    saved: &HashSet<ObjectId>,
) -> HashSet<ObjectId> {
    let mut contained = HashSet::new();
    for tip in tips.iter().filter(|tip| unsaved.contains_key(*tip)) {
        if contained.contains(tip) {
            continue;
        }
        let Some(chain) = chain(unsaved, tip) else { continue };
        // An error here is a history that cannot be read far enough, hence no proof.
        if is_contained(stores, unsaved, &chain, saved).unwrap_or(false) {
            contained.extend(chain.commits);
        }
    }
    contained
}

/// The unsaved commits below a tip, if each has exactly one parent.
fn chain(unsaved: &HashMap<ObjectId, Commit>, tip: &ObjectId) -> Option<Chain> {
    let (mut at, mut commits) = (*tip, Vec::new());
    while let Some(commit) = unsaved.get(&at) {
        let [parent] = commit.parents.as_slice() else { return None };
        commits.push(at);
        if commits.len() > MOST_COMMITS {
            return None;
        }
        at = *parent;
    }
    Some(Chain { base: at, commits })
}

fn is_contained(
    stores: &Stores,
    unsaved: &HashMap<ObjectId, Commit>,
    chain: &Chain,
    saved: &HashSet<ObjectId>,
) -> Result<bool, String> {
    let tips: Vec<ObjectId> = saved.iter().filter_map(|id| stores.peel(*id).ok()?.commit()).collect();
    let later = difference(stores, &tips, &HashSet::from([chain.base]), MOST_COMMITS)?;
    let later = descendants(&later, &chain.base);
    let steps = steps(stores, unsaved, chain)?;
    Ok(whole_branch(stores, unsaved, chain, &steps, &later)? || every_commit(stores, &steps, &later)?)
}

/// The change each commit of the chain made, oldest first.
fn steps(stores: &Stores, unsaved: &HashMap<ObjectId, Commit>, chain: &Chain) -> Result<Vec<Changes>, String> {
    let base = stores.commit(&chain.base)?.ok_or("the base of the branch is missing")?;
    let mut before = base.tree;
    let mut steps = Vec::new();
    for id in chain.commits.iter().rev() {
        let after = unsaved[id].tree;
        steps.push(changes(stores, &before, &after)?);
        before = after;
    }
    Ok(steps)
}

/// Of `commits`, those that have `base` as an ancestor.
fn descendants<'c>(commits: &'c HashMap<ObjectId, Commit>, base: &ObjectId) -> Vec<&'c Commit> {
    let mut children: HashMap<ObjectId, Vec<ObjectId>> = HashMap::new();
    for (id, commit) in commits {
        commit.parents.iter().for_each(|parent| children.entry(*parent).or_default().push(*id));
    }
    let (mut pending, mut seen) = (vec![*base], HashSet::new());
    while let Some(id) = pending.pop() {
        let below = children.get(&id).into_iter().flatten();
        pending.extend(below.filter(|child| seen.insert(**child)));
    }
    let mut found: Vec<&Commit> = seen.iter().filter_map(|id| commits.get(id)).collect();
    found.sort_by_key(|commit| std::cmp::Reverse(commit.time));
    found
}

/// Whether one later commit holds the end result at every path the branch touched.
fn whole_branch(
    stores: &Stores,
    unsaved: &HashMap<ObjectId, Commit>,
    chain: &Chain,
    steps: &[Changes],
    later: &[&Commit],
) -> Result<bool, String> {
    let Some(base) = stores.commit(&chain.base)? else { return Ok(false) };
    let tip = &unsaved[&chain.commits[0]];
    let mut lookup = Lookup::default();
    let mut wanted = Vec::new();
    for path in steps.iter().flat_map(|step| step.keys()).collect::<HashSet<_>>() {
        let end = lookup.at(stores, &tip.tree, path)?;
        if end == lookup.at(stores, &base.tree, path)? {
            // Touched and put back: what was there in between is in no result.
            return Ok(false);
        }
        wanted.push((path, end));
    }
    if wanted.is_empty() {
        return Ok(false);
    }
    for commit in later {
        let mut all = true;
        for (path, end) in &wanted {
            if lookup.at(stores, &commit.tree, path)? != *end {
                all = false;
                break;
            }
        }
        if all {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether each step was made, object for object, by some later commit.
fn every_commit(stores: &Stores, steps: &[Changes], later: &[&Commit]) -> Result<bool, String> {
    if steps.iter().any(Changes::is_empty) {
        return Ok(false);
    }
    let mut missing: Vec<&Changes> = steps.iter().collect();
    for commit in later {
        let [parent] = commit.parents.as_slice() else { continue };
        let Some(parent) = stores.commit(parent)? else { continue };
        let made = changes(stores, &parent.tree, &commit.tree)?;
        missing.retain(|step| **step != made);
        if missing.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}
