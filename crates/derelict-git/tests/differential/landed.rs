//! The relaxations of the oracle: a branch whose content has landed in what stays, by squash, rebase
//! or cherry-pick, though its commits have not, and a stash of which the same can be said. Decided by
//! comparing whole trees with each commit that stays, one by one; where that is not enough and somebody says
//! that nothing is lost, git is asked to merge and to name patches. Not here: which commits are lost.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::rc::Rc;

use crate::objects::{Flat, Id, Objects, git, run};

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

/// What stays: its objects, its commits, and the files of these.
pub(crate) struct Staying {
    pub(crate) objects: HashSet<Id>,
    pub(crate) commits: Vec<Id>,
    pub(crate) files: HashSet<(u32, Id)>,
    /// Where git finds all objects, if it is to be asked.
    pub(crate) ask: Option<(PathBuf, String)>,
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
    let landed = (whole && !undone) || each(objects, chain, staying);
    if landed || merges_to_nothing(tip, undone, staying) || patches_are_there(objects, chain, staying) {
        Landed::Yes
    } else {
        Landed::No
    }
}

/// Whether both parts of a stash and its new files are in what stays.
pub(crate) fn stash_landed(objects: &mut Objects, stash: &Id, staying: &Staying) -> bool {
    let (parents, work) = (parents(objects, stash), objects.flat(Some(stash)));
    let (Some(base), Some(index)) = (parents.first(), parents.get(1)) else { return false };
    let before = objects.flat(Some(base));
    for after in [work, objects.flat(Some(index))] {
        let made = change(&before, &after);
        let files = made.values().all(|(_, after)| after.is_some_and(|file| staying.files.contains(file)));
        let whole = staying.commits.iter().any(|commit| {
            let flat = objects.flat(Some(commit));
            made.iter().all(|(path, (_, after))| flat.get(*path) == *after)
        });
        let merged = || made.values().all(|(_, after)| after.is_some()) && staying.ask.is_some();
        let held = files || whole || (merged() && merges_to_nothing(stash, false, staying));
        if !held {
            return false;
        }
    }
    let new = objects.flat(parents.get(2));
    new.values().all(|file| staying.files.contains(file))
}

fn asked(staying: &Staying, arguments: &[&str], input: &[u8]) -> Option<String> {
    let (git_dir, stores) = staying.ask.as_ref()?;
    let mut command = git(git_dir);
    command.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", stores).args(arguments);
    run(command, input).ok().map(|text| String::from_utf8_lossy(&text).into_owned())
}

/// Whether git, merging the tip into some commit that stays, comes out with that commit's tree.
fn merges_to_nothing(tip: &Id, undone: bool, staying: &Staying) -> bool {
    let merges = |commit: &Id| {
        let merged = asked(staying, &["merge-tree", "--write-tree", commit, tip], b"");
        let tree = asked(staying, &["rev-parse", &format!("{commit}^{{tree}}")], b"");
        merged.is_some_and(|merged| tree.is_some_and(|tree| merged.trim() == tree.trim()))
    };
    !undone && staying.ask.is_some() && staying.commits.iter().any(merges)
}

/// Whether the patch of each commit, to the last space, is that of some commit that stays.
fn patches_are_there(objects: &mut Objects, chain: &HashSet<Id>, staying: &Staying) -> bool {
    let patches = |commits: &mut dyn Iterator<Item = &Id>| -> Option<HashSet<String>> {
        let input: String = commits.map(|id| format!("{id}\n")).collect();
        let text = asked(staying, &["diff-tree", "-p", "--stdin", "--root"], input.as_bytes())?;
        let named = asked(staying, &["patch-id", "--verbatim"], text.as_bytes())?;
        Some(named.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect())
    };
    let (merges, single): (Vec<&Id>, Vec<&Id>) = chain.iter().partition(|id| parents(objects, id).len() > 1);
    if merges.into_iter().any(|id| !did_nothing(objects, id)) || staying.ask.is_none() {
        return false;
    }
    match (patches(&mut single.into_iter()), patches(&mut staying.commits.iter())) {
        (Some(ours), Some(theirs)) => !ours.is_empty() && ours.is_subset(&theirs),
        (Some(_) | None, _) => false,
    }
}

/// Whether a merge holds at every path what one of its parents does.
fn did_nothing(objects: &mut Objects, merge: &Id) -> bool {
    let here = objects.flat(Some(merge));
    let before: Vec<Rc<Flat>> = parents(objects, merge).iter().map(|parent| objects.flat(Some(parent))).collect();
    let mut paths = before.iter().flat_map(|flat| flat.keys()).chain(here.keys());
    paths.all(|path| before.iter().any(|flat| flat.get(path) == here.get(path)))
}

/// Whether each commit made the very change that a staying commit made.
fn each(objects: &mut Objects, chain: &HashSet<Id>, staying: &Staying) -> bool {
    chain.iter().all(|commit| {
        let Some((before, after)) = step(objects, commit) else { return did_nothing(objects, commit) };
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
