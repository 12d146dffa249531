//! Commits, tags and reflogs: what is reachable here and saved nowhere.
//!
//! Saved is what a remote-tracking ref names that a configured remote's refspec really maps, and
//! what the refs of a repository that stays name. For a remote that is a directory of this machine,
//! the directory itself is asked, not our memory of it.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use bstr::ByteSlice;
use gix_hash::ObjectId;
use gix_object::Kind;

use crate::commits::{Commit, Peeled, Stores, difference};
use crate::containment::contained;
use crate::proof::Channel;
use crate::refs::{Head, Reflog, Refs, parse_id, pseudo_refs, read_head, read_limited, reflogs};
use crate::report::{Report, shown};
use crate::repository::{Objects, Repository};
use crate::settings::Remote;
use crate::surroundings::Surroundings;

/// Commits that one walk may read: the largest histories known have about a million.
const MOST_COMMITS: usize = 4_000_000;

/// `.git/shallow` holds a line per cut-off commit.
const SHALLOW_BYTES: u64 = 64 * 1024 * 1024;

/// Where a repository stands among others.
pub(crate) struct Standing<'a> {
    pub(crate) around: &'a Surroundings,
    /// The canonical path of the candidate that would go.
    pub(crate) top: &'a Path,
    /// The canonical path of this repository's work tree, against which relative remotes resolve.
    pub(crate) base: &'a Path,
}

/// A commit that something here names.
#[derive(Debug, Clone)]
struct Tip {
    commit: ObjectId,
    channel: Channel,
    /// `branch wip`, `detached HEAD`, `refs/wip/mine`.
    named: String,
    /// Work that was put aside on purpose: never taken for contained in something else.
    aside: Aside,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aside {
    Yes,
    No,
}

/// Everything that is saved elsewhere.
#[derive(Default)]
struct Saved {
    tips: HashSet<ObjectId>,
    stores: Vec<Objects>,
}

/// Examines refs, reflogs and tags of one repository or linked work tree.
pub(crate) fn examine_history(
    repo: &Repository,
    refs: &Refs,
    loose: &[ObjectId],
    standing: &Standing<'_>,
    report: &mut Report<'_>,
) {
    let mut unreadable = Vec::new();
    let hash = repo.settings.hash;
    let logs = reflogs(&repo.git_dir, hash, &mut unreadable);
    let shallow = shallow(repo, &mut unreadable);
    let saved = saved(repo, standing, refs, &logs);
    let mut stores = vec![repo.objects.another()];
    stores.extend(saved.stores);
    let stores = Stores::new(stores, shallow);
    let mut tips = Tips { stores: &stores, saved: &saved.tips, tips: Vec::new(), unreadable };
    tips.of_head(repo, refs);
    if repo.is_linked() {
        // The branches are the common directory's and stay with it; what goes is this work tree's.
        tips.of_refs(&Refs::read(&repo.git_dir, hash), report);
    } else {
        tips.of_refs(refs, report);
        tips.unreadable.extend(refs.unreadable.iter().cloned());
    }
    tips.of_reflogs(&logs);
    tips.of_pseudo_refs(repo);
    tips.of_loose(loose, &repo.objects);
    let Tips { tips, unreadable, .. } = tips;
    report.examined(Channel::Commits, "refs", refs.direct.len() as u64);
    report.examined(Channel::Commits, "saved tips", saved.tips.len() as u64);
    report.examined(Channel::Reflog, "reflogs", logs.len() as u64);
    unreadable.iter().for_each(|why| report.unknown(Channel::Commits, why));
    if let Err(why) = tell_unsaved(&stores, tips, &saved.tips, report) {
        report.unknown(Channel::Commits, &why);
    }
}

/// Walks once for all tips, takes out what is contained in saved history, and tells the rest, each
/// commit under the first tip that reaches it.
fn tell_unsaved(
    stores: &Stores,
    mut tips: Vec<Tip>,
    saved: &HashSet<ObjectId>,
    report: &mut Report<'_>,
) -> Result<(), String> {
    let ids: Vec<ObjectId> = tips.iter().map(|tip| tip.commit).collect();
    let unsaved = difference(stores, &ids, saved, MOST_COMMITS)?;
    tips.retain(|tip| unsaved.contains_key(&tip.commit));
    if tips.is_empty() {
        return Ok(());
    }
    let of_kind = |aside| tips.iter().filter(move |tip| tip.aside == aside).map(|tip| tip.commit).collect::<Vec<_>>();
    let mut relaxed = contained(stores, &unsaved, &of_kind(Aside::No), saved);
    // What was put aside keeps all it reaches, whatever else contains it.
    for commit in of_kind(Aside::Yes) {
        reach(&unsaved, commit, &HashSet::new()).iter().for_each(|(id, _)| {
            relaxed.remove(id);
        });
    }
    let mut told = relaxed;
    tips.sort_by_key(|tip| tip.channel);
    for tip in &tips {
        let commits = reach(&unsaved, tip.commit, &told);
        let Some((id, commit)) = commits.first() else { continue };
        let more = commits.len() - 1;
        report.loss(tip.channel, || describe(id, commit, more, &tip.named), &[id.as_slice(), tip.named.as_bytes()]);
        told.extend(commits.iter().map(|(id, _)| *id));
    }
    Ok(())
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
    stores: &'s Stores,
    saved: &'s HashSet<ObjectId>,
    tips: Vec<Tip>,
    unreadable: Vec<String>,
}

impl Tips<'_> {
    fn of_head(&mut self, repo: &Repository, refs: &Refs) {
        match read_head(&repo.git_dir, repo.settings.hash) {
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
            if self.saved.contains(id) {
                continue;
            }
            let aside = if is_branch_like(name) { Aside::No } else { Aside::Yes };
            match self.stores.peel(*id) {
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
            let (channel, aside) = if stash { (Channel::Commits, Aside::Yes) } else { (Channel::Reflog, Aside::No) };
            for id in &log.objects {
                let name = if stash { "the stash".to_owned() } else { format!("the reflog of {}", shown(&log.name)) };
                self.add_if_here(*id, channel, name, aside);
            }
        }
    }

    fn of_pseudo_refs(&mut self, repo: &Repository) {
        for (file, id) in pseudo_refs(&repo.git_dir, repo.settings.hash, &mut self.unreadable) {
            self.add_if_here(id, Channel::Reflog, file, Aside::No);
        }
    }

    /// Commits that nothing names any more: a dropped stash, a deleted branch. They lie loose until git
    /// collects them; what was packed meanwhile was still named when it was.
    fn of_loose(&mut self, loose: &[ObjectId], own: &Objects) {
        for id in loose.iter().filter(|id| !self.stores.has_elsewhere(id)) {
            match own.kind(id) {
                Ok(Some(Kind::Commit)) => self.add(*id, Channel::Reflog, "no ref any more".into(), Aside::No),
                Ok(Some(Kind::Blob | Kind::Tree | Kind::Tag) | None) => {}
                Err(why) => self.unreadable.push(why),
            }
        }
    }

    fn add(&mut self, id: ObjectId, channel: Channel, named: String, aside: Aside) {
        if !self.saved.contains(&id) {
            self.tips.push(Tip { commit: id, channel, named, aside });
        }
    }

    fn add_if_here(&mut self, id: ObjectId, channel: Channel, named: String, aside: Aside) {
        if self.saved.contains(&id) {
            return;
        }
        match self.stores.peel(id) {
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

/// Branches may have landed by squash or rebase; notes, stashes and refs of other kinds have not.
fn is_branch_like(name: &[u8]) -> bool {
    name.starts_with(b"refs/heads/") || name.starts_with(b"refs/remotes/")
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

fn saved(repo: &Repository, standing: &Standing<'_>, refs: &Refs, logs: &[Reflog]) -> Saved {
    let mut saved = Saved::default();
    let keepers = standing.around.keepers_of(standing.top);
    let named: HashSet<ObjectId> = refs.direct.iter().map(|(_, id)| *id).collect();
    let mut local = Vec::new();
    let (mut forges, mut others) = (Vec::new(), Vec::new());
    for remote in &repo.settings.remotes {
        match remote.url.as_ref().map(|url| address(url, standing)) {
            Some(Address::Forge) => forges.push(remote),
            Some(Address::Directory(path)) => {
                others.push(remote);
                local.extend(standing.around.keeper(&path));
            }
            Some(Address::Nowhere) | None => others.push(remote),
        }
    }
    if repo.is_linked()
        && std::fs::canonicalize(&repo.common_dir).is_ok_and(|dir| !standing.around.goes(&dir, standing.top))
    {
        local.extend(standing.around.keeper(&repo.common_dir));
    }
    for keeper in keepers.iter().chain(&local).filter(|keeper| keeper.objects().hash == repo.settings.hash) {
        // What is named here and there is believed only if it is really there; what only the keeper
        // names hides no more than what it reaches.
        saved.tips.extend(keeper.tips.iter().filter(|id| !named.contains(*id) || keeper.holds(id)));
        saved.stores.push(keeper.objects());
    }
    // A ref that a remote of another kind may have written says nothing of a forge.
    let maps = |remotes: &[&Remote], name: &[u8]| remotes.iter().any(|remote| remote.maps(name));
    let mapped = refs.direct.iter().filter(|(name, _)| maps(&forges, name) && !maps(&others, name));
    saved.tips.extend(mapped.filter(|(name, id)| was_fetched(name, id, logs)).map(|(_, id)| *id));
    saved
}

/// Words by which git notes in a reflog that it wrote a remote-tracking ref because of a remote.
const REMOTE_DEEDS: [&[u8]; 6] = [b"fetch", b"pull", b"clone", b"update by push", b"remote", b"push"];

/// A remote-tracking ref without a reflog is believed, as a clone leaves it. One whose reflog says
/// that something else than a fetch or a push wrote its present value proves nothing.
fn was_fetched(name: &[u8], id: &ObjectId, logs: &[Reflog]) -> bool {
    let last = logs.iter().find(|log| log.name == name).and_then(|log| log.last.as_ref());
    match last {
        Some((new, message)) => new == id && REMOTE_DEEDS.iter().any(|deed| message.starts_with(deed)),
        None => true,
    }
}

enum Address {
    /// Another machine, as far as can be told.
    Forge,
    /// A directory of this machine that stays.
    Directory(PathBuf),
    /// Nothing that would still be there.
    Nowhere,
}

/// Where a remote's address leads, by git's own rule: a colon before the first slash is a host.
fn address(url: &[u8], standing: &Standing<'_>) -> Address {
    let path = match url.split_once_str("://") {
        Some((b"file", path)) => path,
        Some(_) => return Address::Forge,
        None => {
            if url.starts_with(b"ext::") || url.starts_with(b"fd::") {
                return Address::Nowhere;
            }
            let colon = url.find_byte(b':');
            if colon.is_some_and(|colon| !url[..colon].contains(&b'/')) {
                return Address::Forge;
            }
            url
        }
    };
    let Ok(path) = path.to_path() else { return Address::Nowhere };
    let path = standing.base.join(path);
    let with_suffix = path.with_added_extension("git");
    match [path, with_suffix].iter().find_map(|path| std::fs::canonicalize(path).ok()) {
        Some(path) if path.is_dir() && !standing.around.goes(&path, standing.top) => Address::Directory(path),
        Some(_) | None => Address::Nowhere,
    }
}
