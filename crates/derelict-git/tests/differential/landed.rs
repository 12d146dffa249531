//! The one relaxation of the oracle: a branch whose content has landed in what stays, by squash, rebase
//! or cherry-pick, though its commits have not. Decided by comparing whole trees with each commit
//! that stays, one by one. Not here: which commits are lost.

use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;

use crate::objects::{Flat, Id, Objects};

/// What became of a branch's changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Landed {
    No,
    /// All it changed is held by what stays.
    Yes,
    /// It changed nothing: only messages are lost.
    Nothing,
}

type Change<'f> = BTreeMap<&'f [u8], (Option<&'f (u32, Id)>, Option<&'f (u32, Id)>)>;

/// What stays: its objects, and its commits.
pub(crate) struct Staying {
    pub(crate) objects: HashSet<Id>,
    pub(crate) commits: Vec<Id>,
}

/// `chain` are the lost commits that `tip` reaches.
pub(crate) fn landed(objects: &mut Objects, tip: &Id, chain: &HashSet<Id>, staying: &Staying) -> Landed {
    let end = objects.flat(Some(tip));
    let mut touched: HashSet<Vec<u8>> = HashSet::new();
    let mut bases: Vec<Rc<Flat>> = Vec::new();
    let mut between: Vec<Rc<Flat>> = Vec::new();
    for commit in chain {
        let (here, before) = (objects.flat(Some(commit)), parents(objects, commit));
        for parent in &before {
            let flat = objects.flat(Some(parent));
            if !chain.contains(parent) {
                bases.push(flat);
            }
        }
        let before: Vec<Rc<Flat>> = before.iter().map(|parent| objects.flat(Some(parent))).collect();
        let paths: HashSet<&Vec<u8>> = before.iter().flat_map(|flat| flat.keys()).chain(here.keys()).collect();
        let changed = paths.into_iter().filter(|path| before.iter().all(|flat| flat.get(*path) != here.get(*path)));
        touched.extend(changed.cloned());
        between.push(here.clone());
    }
    if touched.is_empty() {
        return Landed::Nothing;
    }
    // What was put back at the end exists nowhere but in between.
    let undone = touched.iter().any(|path| {
        let back = bases.iter().any(|base| base.get(path) == end.get(path));
        let mut held = between.iter().filter_map(|flat| flat.get(path));
        back && held.any(|(_, id)| !staying.objects.contains(id))
    });
    let whole = staying.commits.iter().any(|commit| {
        let flat = objects.flat(Some(commit));
        touched.iter().all(|path| flat.get(path) == end.get(path))
    });
    if (whole && !undone) || each(objects, chain, staying) { Landed::Yes } else { Landed::No }
}

/// Whether each commit made the very change that a staying commit made.
fn each(objects: &mut Objects, chain: &HashSet<Id>, staying: &Staying) -> bool {
    chain.iter().all(|commit| {
        let Some((before, after)) = step(objects, commit) else { return false };
        let made = change(&before, &after);
        !made.is_empty()
            && staying
                .commits
                .iter()
                .any(|other| step(objects, other).is_some_and(|(before, after)| change(&before, &after) == made))
    })
}

/// A commit's tree and that of its parent, unless it is a merge.
fn step(objects: &mut Objects, commit: &Id) -> Option<(Rc<Flat>, Rc<Flat>)> {
    let parents = parents(objects, commit);
    if parents.len() > 1 {
        return None;
    }
    Some((objects.flat(parents.first()), objects.flat(Some(commit))))
}

fn change<'f>(before: &'f Flat, after: &'f Flat) -> Change<'f> {
    let paths = before.keys().chain(after.keys());
    let differing = paths.filter(|path| before.get(*path) != after.get(*path));
    differing.map(|path| (path.as_slice(), (before.get(path), after.get(path)))).collect()
}

fn parents(objects: &Objects, commit: &Id) -> Vec<Id> {
    objects.commit(commit).map_or_else(Vec::new, |(_, parents)| parents.to_vec())
}
