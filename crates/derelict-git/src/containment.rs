//! Squash, rebase and cherry-pick: a branch whose whole change is already in saved history is saved,
//! though none of its commits is.
//!
//! Each relaxation is a proof. A branch is contained when one saved commit that is not before its base
//! holds, at every path the branch touched, what the branch holds there: merging the branch into it
//! would change nothing. Or when each of its commits made the change that some such commit made. A
//! stash is contained when each of its parts is. What looks alike and is kept: a branch that ends where
//! it began (its work was undone, and exists nowhere else), work that a merge dropped, an empty commit.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use gix_hash::ObjectId;

use crate::commits::{Commit, difference};
use crate::landing::{Landing, Origin, Wanted};
use crate::saved::Saved;
use crate::saved_files::{Sought, saved_files};
use crate::trees::{Changes, Held, changes};

/// Saved commits that are searched for the change, newest first.
const MOST_COMMITS: usize = 5_000;

/// Commits of a branch; more have never been squashed.
const LONGEST: usize = 1_000;

/// Saved commits that a branch stands on: its base, and what was merged into it.
const MOST_BASES: usize = 64;

/// Commits times paths that are looked at to see what became of a path on a branch.
const MOST_WORK: usize = 4_000_000;

/// Says of unsaved commits whether their content is saved.
pub(crate) struct Containment<'s> {
    unsaved: &'s HashMap<ObjectId, Commit>,
    saved: &'s Saved,
    landing: Landing<'s>,
    /// Saved commits that are not before these.
    later: HashMap<BTreeSet<ObjectId>, Option<Rc<Later>>>,
}

/// Where a change may have landed, newest first.
struct Later {
    commits: Vec<(Origin, Commit)>,
    /// How many of them descend from all the bases; these come first.
    descendants: usize,
}

/// The unsaved commits that a tip reaches.
struct Strand {
    /// Children before parents.
    commits: Vec<ObjectId>,
    children: HashMap<ObjectId, Vec<ObjectId>>,
    /// The saved commits it stands on.
    bases: BTreeSet<ObjectId>,
}

/// What one commit did itself: at these paths it holds what none of its parents does.
struct Step {
    touched: BTreeMap<Vec<u8>, Option<Held>>,
    /// Before and after, unless it is a merge.
    change: Option<Changes>,
}

impl<'s> Containment<'s> {
    pub(crate) fn new(unsaved: &'s HashMap<ObjectId, Commit>, saved: &'s Saved) -> Self {
        Self { unsaved, saved, landing: Landing::new(saved), later: HashMap::new() }
    }

    /// The commits of a branch that are contained; all or none. What cannot be decided is not contained.
    pub(crate) fn of_branch(&mut self, tip: &ObjectId) -> Option<Vec<ObjectId>> {
        let strand = self.strand(tip)?;
        let steps: Vec<Step> = strand.commits.iter().map(|id| self.step(id)).collect::<Option<_>>()?;
        let later = self.later(&strand.bases)?;
        let whole = self.wanted(&strand, &steps).is_some_and(|wanted| self.is_held(&later, &wanted));
        (whole || self.every_commit(&steps, &later)).then_some(strand.commits)
    }

    /// The commits of a stash, if what it changed in the work tree, what it changed in the index, and the
    /// new files it took along are each contained, or are files of saved history one by one.
    pub(crate) fn of_stash(&mut self, tip: &ObjectId) -> Option<Vec<ObjectId>> {
        let stash = self.unsaved.get(tip)?;
        let (base, index, files) = match stash.parents.as_slice() {
            [base, index] => (base, index, None),
            [base, index, files] => (base, index, Some(files)),
            _ => return None,
        };
        let (mut commits, mut changed) = (vec![*tip], false);
        let bases = if self.unsaved.contains_key(base) {
            commits.extend(self.of_branch(base)?);
            self.strand(base)?.bases
        } else {
            BTreeSet::from([*base])
        };
        let before = self.commit(base)?.tree;
        let parts = [Some(tip), Some(index).filter(|index| self.unsaved.contains_key(*index))];
        for part in parts.into_iter().flatten() {
            let change = changes(&self.saved.stores, &before, &self.commit(part)?.tree).ok()?;
            changed |= !change.is_empty();
            if !self.is_part_held(&bases, change)? {
                return None;
            }
            commits.push(*part);
        }
        if let Some(files) = files.filter(|files| self.unsaved.contains_key(*files)) {
            let commit = self.commit(files)?;
            let nothing = ObjectId::empty_tree(commit.tree.kind());
            let all = changes(&self.saved.stores, &nothing, &commit.tree).ok()?;
            if !commit.parents.is_empty() || !self.are_saved_files(&all) {
                return None;
            }
            commits.push(*files);
            changed = true;
        }
        // One that holds nothing but a message is no stash.
        changed.then_some(commits)
    }

    fn is_part_held(&mut self, bases: &BTreeSet<ObjectId>, change: Changes) -> Option<bool> {
        if change.is_empty() || self.are_saved_files(&change) {
            return Some(true);
        }
        let later = self.later(bases)?;
        let wanted = change.into_iter().map(|(path, (old, end))| Wanted { path, origins: vec![old], end });
        let wanted: Vec<Wanted> = wanted.collect();
        Some(self.is_held(&later, &wanted))
    }

    /// Whether a change only put in what saved history has as files.
    fn are_saved_files(&self, change: &Changes) -> bool {
        let sought: Option<Vec<Sought>> =
            change.iter().map(|(path, (_, after))| Some(Sought { path: path.clone(), held: (*after)? })).collect();
        sought.is_some_and(|sought| saved_files(self.saved, &sought).into_iter().all(|saved| saved))
    }

    fn commit(&self, id: &ObjectId) -> Option<Commit> {
        match self.unsaved.get(id) {
            Some(commit) => Some(commit.clone()),
            None => self.saved.stores.commit(id).ok()?,
        }
    }

    /// The unsaved commits below a tip, if all of them stand on saved ones.
    fn strand(&self, tip: &ObjectId) -> Option<Strand> {
        let (mut children, mut bases) = (HashMap::<ObjectId, Vec<ObjectId>>::new(), BTreeSet::new());
        let (mut pending, mut seen) = (vec![*tip], HashSet::from([*tip]));
        while let Some(id) = pending.pop() {
            let commit = self.unsaved.get(&id)?;
            if commit.parents.is_empty() || seen.len() > LONGEST {
                return None;
            }
            for parent in commit.parents.iter().collect::<BTreeSet<_>>() {
                if !self.unsaved.contains_key(parent) {
                    bases.insert(*parent);
                    continue;
                }
                children.entry(*parent).or_default().push(id);
                if seen.insert(*parent) {
                    pending.push(*parent);
                }
            }
        }
        let mut open: HashMap<ObjectId, usize> = children.iter().map(|(id, above)| (*id, above.len())).collect();
        let (mut ready, mut commits) = (vec![*tip], Vec::new());
        while let Some(id) = ready.pop() {
            commits.push(id);
            for parent in self.unsaved[&id].parents.iter().collect::<BTreeSet<_>>() {
                let Some(above) = open.get_mut(parent) else { continue };
                *above -= 1;
                if *above == 0 {
                    ready.push(*parent);
                }
            }
        }
        (bases.len() <= MOST_BASES).then_some(Strand { commits, children, bases })
    }

    fn step(&self, id: &ObjectId) -> Option<Step> {
        let commit = &self.unsaved[id];
        let stores = &self.saved.stores;
        let mut from_each = Vec::new();
        for parent in &commit.parents {
            from_each.push(changes(stores, &self.commit(parent)?.tree, &commit.tree).ok()?);
        }
        let (first, others) = from_each.split_first()?;
        let own = first.iter().filter(|(path, _)| others.iter().all(|other| other.contains_key(*path)));
        let touched = own.map(|(path, (_, after))| (path.clone(), *after)).collect();
        let change = if others.is_empty() { from_each.pop() } else { None };
        Some(Step { touched, change })
    }

    /// What one saved commit must hold so that the strand is contained as a whole. `None` when no commit
    /// can: what was touched and put back, or dropped by a merge, is in no result.
    fn wanted(&mut self, strand: &Strand, steps: &[Step]) -> Option<Vec<Wanted>> {
        let end = self.unsaved[&strand.commits[0]].tree;
        let below = self.below(strand);
        let paths: BTreeSet<&Vec<u8>> = steps.iter().flat_map(|step| step.touched.keys()).collect();
        if paths.is_empty() || paths.len().saturating_mul(steps.len()) > MOST_WORK {
            return None;
        }
        let mut wanted = Vec::new();
        for path in paths {
            let end = self.landing.at(&end, path)?;
            let mut bases = BTreeSet::new();
            let mut touched_above: HashSet<&ObjectId> = HashSet::new();
            for (id, step) in strand.commits.iter().zip(steps) {
                let above = strand.children.get(id).into_iter().flatten().any(|child| touched_above.contains(child));
                let own = step.touched.get(path);
                if own.is_some_and(|own| !above && *own != end) {
                    return None;
                }
                if own.is_some() {
                    bases.extend(&below[id]);
                }
                if above || own.is_some() {
                    touched_above.insert(id);
                }
            }
            let mut origins = Vec::new();
            for base in bases {
                let tree = self.commit(&base)?.tree;
                origins.push(self.landing.at(&tree, path)?);
            }
            if origins.contains(&end) {
                return None;
            }
            wanted.push(Wanted { path: path.clone(), origins, end });
        }
        Some(wanted)
    }

    /// For each commit of a strand, the saved commits it stands on.
    fn below(&self, strand: &Strand) -> HashMap<ObjectId, BTreeSet<ObjectId>> {
        let mut below: HashMap<ObjectId, BTreeSet<ObjectId>> = HashMap::new();
        for id in strand.commits.iter().rev() {
            let mut bases = BTreeSet::new();
            for parent in &self.unsaved[id].parents {
                match below.get(parent) {
                    Some(further) => bases.extend(further),
                    None => {
                        bases.insert(*parent);
                    }
                }
            }
            below.insert(*id, bases);
        }
        below
    }

    /// Whether one saved commit holds it all. A change that only takes files away is in any commit that
    /// never had them; it must be one that came after.
    fn is_held(&mut self, later: &Later, wanted: &[Wanted]) -> bool {
        let puts_in = wanted.iter().any(|wanted| wanted.end.is_some());
        let candidates = if puts_in { later.commits.len() } else { later.descendants };
        later.commits[..candidates].iter().any(|(origin, commit)| self.landing.holds(*origin, commit, wanted))
    }

    /// Whether each commit made the change that some saved commit made.
    fn every_commit(&mut self, steps: &[Step], later: &Later) -> bool {
        // Merges alone have nothing that could have landed, like empty commits.
        let some = steps.iter().any(|step| step.change.is_some());
        some && steps.iter().all(|step| match &step.change {
            // A merge that did nothing itself has nothing to be lost.
            None => step.touched.is_empty(),
            Some(change) if change.is_empty() => false,
            Some(change) => later.commits.iter().any(|(origin, commit)| self.landing.made(*origin, commit, change)),
        })
    }

    fn later(&mut self, bases: &BTreeSet<ObjectId>) -> Option<Rc<Later>> {
        if let Some(known) = self.later.get(bases) {
            return known.clone();
        }
        let later = self.find_later(bases).map(Rc::new);
        self.later.insert(bases.clone(), later.clone());
        later
    }

    fn find_later(&self, bases: &BTreeSet<ObjectId>) -> Option<Later> {
        let hidden: HashSet<ObjectId> = bases.iter().copied().collect();
        let stores = &self.saved.stores;
        let after = |tips: &HashSet<ObjectId>| {
            let tips: Vec<ObjectId> = tips.iter().filter_map(|id| stores.peel(*id).ok()?.commit()).collect();
            // An error is a history that cannot be read far enough, hence no proof.
            difference(stores, &tips, &hidden, MOST_COMMITS).ok()
        };
        let (forge, kept) = (after(&self.saved.forge)?, after(&self.saved.kept)?);
        let of = |origin, commits: &HashMap<ObjectId, Commit>| {
            commits.iter().map(|(id, commit)| (*id, (origin, commit.clone()))).collect::<Vec<_>>()
        };
        let mut all = of(Origin::Forge, &forge);
        all.extend(of(Origin::Kept, &kept).into_iter().filter(|(id, _)| !forge.contains_key(id)));
        all.sort_by_key(|(_, (_, commit))| std::cmp::Reverse(commit.time));
        let mut descend: Option<HashSet<ObjectId>> = None;
        for base in bases {
            let from = descendants(all.iter().map(|(id, (_, commit))| (id, commit)), base);
            descend = Some(match descend {
                Some(known) => known.intersection(&from).copied().collect(),
                None => from,
            });
        }
        let descend = descend?;
        let (first, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(|(id, _)| descend.contains(id));
        let descendants = first.len();
        Some(Later { commits: first.into_iter().chain(rest).map(|(_, found)| found).collect(), descendants })
    }
}

/// Of these commits, those that have `base` as an ancestor.
fn descendants<'c>(commits: impl Iterator<Item = (&'c ObjectId, &'c Commit)>, base: &ObjectId) -> HashSet<ObjectId> {
    let mut children: HashMap<ObjectId, Vec<ObjectId>> = HashMap::new();
    for (id, commit) in commits {
        commit.parents.iter().for_each(|parent| children.entry(*parent).or_default().push(*id));
    }
    let (mut pending, mut seen) = (vec![*base], HashSet::new());
    while let Some(id) = pending.pop() {
        let below = children.get(&id).into_iter().flatten();
        pending.extend(below.filter(|child| seen.insert(**child)));
    }
    seen
}
