//! Commits, tags and reflogs: what is reachable here and saved nowhere.
//!
//! Saved is what a remote-tracking ref names that a configured remote's refspec really maps, and
//! what the refs of a repository that stays name. For a remote that is a directory of this machine,
//! the directory itself is asked, not our memory of it.

use std::collections::{HashMap, HashSet};

use bstr::ByteSlice;
use gix_hash::ObjectId;
use gix_object::Kind;

use crate::commits::{Commit, Peeled, difference};
use crate::containment::Containment;
use crate::proof::{Channel, print_of_ref};
use crate::refs::{Head, Reflog, Refs, parse_id, pseudo_refs, read_head, read_limited, reflogs};
use crate::report::{Report, shown};
use crate::repository::{Objects, Repository};
use crate::saved::{Saved, Standing};

/// Commits that one walk may read: the largest histories known have about a million.
const MOST_COMMITS: usize = 4_000_000;

/// `.git/shallow` holds a line per cut-off commit.
const SHALLOW_BYTES: u64 = 64 * 1024 * 1024;

/// A commit that something here names.
#[derive(Debug, Clone)]
struct Tip {
    commit: ObjectId,
    channel: Channel,
    /// `branch wip`, `detached HEAD`, `refs/wip/mine`.
    named: String,
    aside: Aside,
}

/// Whether something was put aside on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aside {
    /// A branch, or what was on one: it may have landed.
    No,
    /// By `git stash`: a change of the work tree, one of the index, and perhaps new files.
    Stash,
    /// A note, a tag, a ref of a kind of its own: never taken for contained in something else.
    Yes,
    /// Nothing names it any more.
    Adrift,
}

/// Objects of a repository that may be commits which nothing names.
#[derive(Debug, Default)]
pub(crate) struct Adrift {
    /// Loose ones, of any kind.
    pub(crate) loose: Vec<ObjectId>,
    /// Commits in packs.
    pub(crate) packed: Vec<ObjectId>,
}

impl Adrift {
    fn all(&self) -> impl Iterator<Item = &ObjectId> {
        self.loose.iter().chain(&self.packed)
    }
}

/// A repository's refs and reflogs, and what is saved of it.
pub(crate) struct History {
    pub(crate) refs: Refs,
    logs: Vec<Reflog>,
    pub(crate) saved: Saved,
    unreadable: Vec<String>,
    /// The commits reachable here that are saved nowhere; `None` until examined, or when that failed.
    unsaved: Option<HashSet<ObjectId>>,
}

impl History {
    /// Reads what there is. Nothing is decided yet.
    pub(crate) fn read(repo: &Repository, standing: &Standing<'_>) -> Self {
        let mut unreadable = Vec::new();
        let refs = Refs::read(&repo.common_dir, &repo.settings);
        let logs = reflogs(&repo.git_dir, &repo.settings, &mut unreadable);
        let shallow = shallow(repo, &mut unreadable);
        let saved = Saved::of(repo, standing, &refs, &logs, shallow);
        Self { refs, logs, saved, unreadable, unsaved: None }
    }

    /// What this work tree alone names, beside the refs of the repository that it is linked to.
    pub(crate) fn named(&self, repo: &Repository) -> Vec<ObjectId> {
        let mut unreadable = Vec::new();
        let own = Refs::read(&repo.git_dir, &repo.settings);
        let head = crate::examine::head_commit(repo, &self.refs);
        let pseudo = pseudo_refs(&repo.git_dir, &repo.settings, &mut unreadable).into_iter().map(|(_, id)| id);
        let logged = self.logs.iter().flat_map(|log| log.objects.iter().copied());
        head.into_iter().chain(own.direct.into_iter().map(|(_, id)| id)).chain(pseudo).chain(logged).collect()
    }

    /// Examines refs, reflogs and tags of one repository or linked work tree.
    pub(crate) fn examine(&mut self, repo: &Repository, adrift: &Adrift, report: &mut Report<'_>) {
        let unreadable = std::mem::take(&mut self.unreadable);
        let mut tips = Tips { saved: &self.saved, tips: Vec::new(), unreadable };
        tips.of_head(repo, &self.refs);
        if repo.is_linked() {
            // The branches are the common directory's and stay with it; what goes is this work tree's.
            tips.of_refs(&Refs::read(&repo.git_dir, &repo.settings), report);
        } else {
            tips.of_refs(&self.refs, report);
            tips.unreadable.extend(self.refs.unreadable.iter().cloned());
        }
        tips.of_reflogs(&self.logs);
        tips.of_pseudo_refs(repo);
        tips.of_adrift(adrift, &repo.objects);
        let Tips { tips, unreadable, .. } = tips;
        report.examined(Channel::Commits, "refs", self.refs.direct.len() as u64);
        let refs = |tags| self.refs.direct.iter().filter(move |(name, _)| name.starts_with(b"refs/tags/") == tags);
        let prints = |tags| refs(tags).map(|(name, id)| print_of_ref(name, id));
        let saved = self.saved.tips();
        report.rests_on_met(Channel::Commits, prints(false).chain(saved.iter().map(|id| print_of_ref(b"saved", id))));
        report.rests_on_met(Channel::Tags, prints(true));
        let logged = self.logs.iter().flat_map(|log| log.objects.iter().map(|id| print_of_ref(&log.name, id)));
        report.rests_on_met(Channel::Reflog, logged.chain(adrift.all().map(|id| print_of_ref(b"adrift", id))));
        report.examined(Channel::Commits, "saved tips", saved.len() as u64);
        report.examined(Channel::Reflog, "reflogs", self.logs.len() as u64);
        unreadable.iter().for_each(|why| report.unknown(Channel::Commits, why));
        match self.saved.doubts(MOST_COMMITS) {
            Ok(doubts) => doubts.into_iter().for_each(|why| report.unknown(Channel::Commits, why)),
            Err(why) => report.unknown(Channel::Commits, &why),
        }
        match tell_unsaved(&self.saved, tips, report) {
            Ok(unsaved) => self.unsaved = Some(unsaved),
            Err(why) => report.unknown(Channel::Commits, &why),
        }
    }

    /// Whether a commit that a ref or HEAD here names is reachable from something that stays. Only to be
    /// asked of such commits, and after the examination.
    pub(crate) fn is_saved(&self, named: &ObjectId) -> bool {
        self.unsaved.as_ref().is_some_and(|unsaved| !unsaved.contains(named))
    }
}

/// Walks once for all tips, takes out what is contained in saved history, and tells the rest, each
/// commit under the first tip that reaches it. Returns all commits that are saved nowhere as such.
fn tell_unsaved(saved: &Saved, mut tips: Vec<Tip>, report: &mut Report<'_>) -> Result<HashSet<ObjectId>, String> {
    let ids: Vec<ObjectId> = tips.iter().map(|tip| tip.commit).collect();
    let unsaved = difference(&saved.stores, &ids, &saved.tips(), MOST_COMMITS)?;
    tips.retain(|tip| unsaved.contains_key(&tip.commit));
    // What something names is not adrift, wherever it is stored.
    let mut named = HashSet::new();
    for tip in tips.iter().filter(|tip| tip.aside != Aside::Adrift) {
        named.extend(reach(&unsaved, tip.commit, &named).into_iter().map(|(id, _)| id));
    }
    tips.retain(|tip| {
        let (id, adrift) = (&tip.commit, tip.aside == Aside::Adrift);
        !adrift || !(named.contains(id) || saved.is_held(id, &unsaved[id]))
    });
    if tips.is_empty() {
        return Ok(unsaved.into_keys().collect());
    }
    let mut relaxed = contained(&tips, &unsaved, saved);
    tips.sort_by_key(|tip| tip.channel);
    for tip in &tips {
        let commits = reach(&unsaved, tip.commit, &relaxed);
        let Some((id, commit)) = commits.first() else { continue };
        let more = commits.len() - 1;
        report.loss(tip.channel, || describe(id, commit, more, &tip.named), &[id.as_slice(), tip.named.as_bytes()]);
        relaxed.extend(commits.iter().map(|(id, _)| *id));
    }
    Ok(unsaved.into_keys().collect())
}

/// Tips that are looked for in saved history under other names; a reflog can have a hundred thousand.
const MOST_LOOKED_FOR: usize = 500;

/// The unsaved commits whose content is in saved history after all.
fn contained(tips: &[Tip], unsaved: &HashMap<ObjectId, Commit>, saved: &Saved) -> HashSet<ObjectId> {
    let mut containment = Containment::new(unsaved, saved);
    let (mut relaxed, mut keeps) = (HashSet::new(), Vec::new());
    let mut looked = 0;
    for tip in tips {
        if tip.aside == Aside::No && relaxed.contains(&tip.commit) {
            continue;
        }
        looked += 1;
        let found = match tip.aside {
            _ if looked > MOST_LOOKED_FOR => None,
            Aside::No => containment.of_branch(&tip.commit),
            // A dropped stash is one still.
            Aside::Adrift if unsaved[&tip.commit].parents.len() > 1 => containment.of_stash(&tip.commit),
            Aside::Adrift => containment.of_branch(&tip.commit),
            Aside::Stash => containment.of_stash(&tip.commit),
            Aside::Yes => None,
        };
        match (tip.aside, found) {
            (_, Some(found)) => relaxed.extend(found),
            (Aside::Yes | Aside::Stash, None) => keeps.push(tip.commit),
            (Aside::No | Aside::Adrift, None) => {}
        }
    }
    // What was put aside keeps all it reaches, whatever else contains it.
    for (id, _) in keeps.iter().flat_map(|tip| reach(unsaved, *tip, &HashSet::new())) {
        relaxed.remove(&id);
    }
    relaxed
}

fn describe(id: &ObjectId, commit: &Commit, more: usize, named: &str) -> String {
    let more = match more {
        0 => String::new(),
        more => format!(" and {more} before it"),
    };
    format!("commit {} \"{}\"{more} on {named}", id.to_hex_with_len(9), commit.subject)
}

/// Unsaved commits reachable from one, itself first, without those in `without`.
fn reach<'u>(
    unsaved: &'u HashMap<ObjectId, Commit>,
    from: ObjectId,
    without: &HashSet<ObjectId>,
) -> Vec<(ObjectId, &'u Commit)> {
    let (mut pending, mut seen, mut found) = (vec![from], HashSet::new(), Vec::new());
    while let Some(id) = pending.pop() {
        let Some(commit) = unsaved.get(&id).filter(|_| !without.contains(&id)) else { continue };
        if seen.insert(id) {
            found.push((id, commit));
            pending.extend(&commit.parents);
        }
    }
    found
}

/// Collects what names commits here.
struct Tips<'s> {
    saved: &'s Saved,
    tips: Vec<Tip>,
    unreadable: Vec<String>,
}

impl Tips<'_> {
    fn of_head(&mut self, repo: &Repository, refs: &Refs) {
        match read_head(&repo.git_dir, &repo.settings) {
            Ok(Head::Detached(id)) => self.add(id, Channel::Commits, "detached HEAD".into(), Aside::No),
            Ok(Head::Branch(name)) => {
                if let Some(id) = refs.find(&name) {
                    self.add(id, Channel::Commits, named(&name), Aside::No);
                }
            }
            Err(why) => self.unreadable.push(why),
        }
    }

    fn of_refs(&mut self, refs: &Refs, report: &mut Report<'_>) {
        for (name, id) in &refs.direct {
            if self.saved.names(id) {
                continue;
            }
            let aside = kind_of(name);
            match self.saved.stores.peel(*id) {
                Ok(Peeled::Commit(commit)) if commit == *id => self.add(commit, Channel::Commits, named(name), aside),
                Ok(Peeled::Commit(commit)) => {
                    self.add(commit, Channel::Commits, named(name), aside);
                    report.loss(
                        Channel::Tags,
                        || format!("the message of annotated {}", named(name)),
                        &[name, id.as_slice()],
                    );
                }
                Ok(Peeled::Other) => report.loss(
                    Channel::Commits,
                    || format!("the object {} names", named(name)),
                    &[name, id.as_slice()],
                ),
                Ok(Peeled::Missing) => self.unreadable.push(format!("the object of {} is missing", named(name))),
                Err(why) => self.unreadable.push(why),
            }
        }
    }

    /// What a reflog names and the store no longer has is gone already.
    fn of_reflogs(&mut self, logs: &[Reflog]) {
        for log in logs {
            let stash = log.name == b"refs/stash";
            let (channel, aside) = if stash { (Channel::Commits, Aside::Stash) } else { (Channel::Reflog, Aside::No) };
            for id in &log.objects {
                let name = if stash { "the stash".to_owned() } else { format!("the reflog of {}", shown(&log.name)) };
                self.add_if_here(*id, channel, name, aside);
            }
        }
    }

    fn of_pseudo_refs(&mut self, repo: &Repository) {
        for (file, id) in pseudo_refs(&repo.git_dir, &repo.settings, &mut self.unreadable) {
            self.add_if_here(id, Channel::Reflog, file, Aside::No);
        }
    }

    /// Commits that nothing names any more: a dropped stash, a deleted branch. They lie loose or in a cruft
    /// pack until git collects them; what else is packed was still named when it was.
    fn of_adrift(&mut self, adrift: &Adrift, own: &Objects) {
        let objects = &adrift.loose;
        let memory = self.saved.memory();
        let mut no_commits = Vec::new();
        for id in memory.map_or_else(|| objects.clone(), |memory| memory.may_be_commits(objects)) {
            match own.kind(&id) {
                Ok(Some(Kind::Commit)) => self.add(id, Channel::Reflog, "no ref any more".into(), Aside::Adrift),
                Ok(Some(Kind::Blob | Kind::Tree | Kind::Tag)) => no_commits.push(id),
                Ok(None) => {}
                Err(why) => self.unreadable.push(why),
            }
        }
        if let Some(memory) = memory {
            memory.are_no_commits(no_commits);
        }
        for id in &adrift.packed {
            self.add(*id, Channel::Reflog, "no ref any more".into(), Aside::Adrift);
        }
    }

    fn add(&mut self, id: ObjectId, channel: Channel, named: String, aside: Aside) {
        if !self.saved.names(&id) {
            self.tips.push(Tip { commit: id, channel, named, aside });
        }
    }

    fn add_if_here(&mut self, id: ObjectId, channel: Channel, named: String, aside: Aside) {
        if self.saved.names(&id) {
            return;
        }
        match self.saved.stores.peel(id) {
            Ok(Peeled::Commit(commit)) => self.add(commit, channel, named, aside),
            Ok(Peeled::Other | Peeled::Missing) => {}
            Err(why) => self.unreadable.push(why),
        }
    }
}

fn named(name: &[u8]) -> String {
    match (name.strip_prefix(b"refs/heads/"), name.strip_prefix(b"refs/tags/")) {
        _ if name == b"refs/stash" => "the stash".into(),
        (Some(branch), _) => format!("branch {}", shown(branch)),
        (_, Some(tag)) => format!("tag {}", shown(tag)),
        (None, None) if name.starts_with(b"refs/notes/") => format!("note ref {}", shown(name)),
        (None, None) => shown(name),
    }
}

/// Branches may have landed by squash or rebase, and a stash may have been committed; notes and refs of
/// other kinds have not.
fn kind_of(name: &[u8]) -> Aside {
    match name {
        b"refs/stash" => Aside::Stash,
        _ if name.starts_with(b"refs/heads/") || name.starts_with(b"refs/remotes/") => Aside::No,
        _ => Aside::Yes,
    }
}

fn shallow(repo: &Repository, unreadable: &mut Vec<String>) -> HashSet<ObjectId> {
    match read_limited(&repo.common_dir.join("shallow"), SHALLOW_BYTES) {
        Ok(text) => text.lines().filter_map(|line| parse_id(line.trim(), repo.settings.hash)).collect(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => HashSet::new(),
        Err(error) => {
            unreadable.push(format!("cannot read shallow: {error}"));
            HashSet::new()
        }
    }
}
