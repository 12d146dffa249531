//! Decides by brute force, with stock git, what would be lost if the clone vanished: every object
//! that anything in it reaches and every file in it, less what the repositories that stay reach.
//!
//! Two classes. *Content* is bytes or commits that exist nowhere else. *State* is what the documented
//! table calls a loss although each byte of it exists elsewhere: a staged change, another mode, an
//! operation in progress. Not here: what the probe says.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use derelict_testkit::git::tool;
use derelict_testkit::scratch::{exists, read};

use crate::landed::{Landed, Staying, landed, stash_landed};
use crate::objects::{Flat, Id, Object, Objects, git, ids, run};
use crate::places::{Named, Places, WorkTree, named};
use crate::world::World;

const GITLINK: u32 = 0o160_000;

/// What would be lost.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    pub(crate) content: Vec<String>,
    pub(crate) state: Vec<String>,
    /// Commits that nothing names any more, as a dropped stash. Told, and not held against the probe.
    pub(crate) dangling: Vec<String>,
}

/// A repository of the clone as git shows it.
struct Shown {
    place: String,
    refs: Vec<(Id, String)>,
    named: Named,
    reached: HashSet<Id>,
    /// Commits that nothing here reaches.
    dangling: HashSet<Id>,
    /// Those and all that they reach.
    adrift: HashSet<Id>,
}

/// Whether git is to be asked where trees alone do not show that something has landed. That takes long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    Git,
    Nobody,
}

/// Looks at the world as it is.
pub(crate) fn losses(world: &World, ask: Ask) -> Losses {
    let mut losses = Losses::default();
    let places = Places::of(&world.clone());
    losses.state.extend(places.broken.iter().map(|path| format!("broken: {}", path.display())));
    let stays = staying(world);
    let mut repositories = Vec::new();
    for git_dir in &places.repositories {
        match shown(world, git_dir) {
            Ok(shown) => repositories.push(shown),
            Err(why) => losses.state.push(format!("unreadable: {why}")),
        }
    }
    let wanted: HashSet<Id> = repositories
        .iter()
        .flat_map(|shown| shown.reached.iter().chain(&shown.adrift))
        .chain(&stays)
        .cloned()
        .collect();
    let bare = world.bare();
    let up = ["w.git", "sub.git", "fork.git"].map(|name| world.up(name));
    let mut stores: Vec<&Path> = places.repositories.iter().map(AsRef::as_ref).collect();
    stores.extend([bare.as_path(), &up[1], &up[2]]);
    let mut objects = match Objects::read(&up[0], &stores, &wanted) {
        Ok(objects) => objects,
        Err(why) => {
            losses.state.push(format!("unreadable: {why}"));
            return losses;
        }
    };
    let commits: Vec<Id> = stays.iter().filter(|id| objects.commit(id).is_some()).cloned().collect();
    let held = commits.iter().flat_map(|id| objects.flat(Some(id)).values().cloned().collect::<Vec<_>>()).collect();
    let paths = stores.iter().map(|store| store.join("objects").display().to_string()).collect::<Vec<_>>();
    let ask = (ask == Ask::Git).then(|| (up[0].clone(), paths.join(":")));
    let staying = Staying { objects: stays, commits, files: held, ask };
    let mut contents = Contents::of(&staying, &objects);
    let mut explained = HashSet::new();
    for shown in &repositories {
        explained.extend(history(shown, &mut objects, &staying, &mut losses));
        adrift(shown, &mut objects, &staying, &mut losses);
    }
    contents.landed = explained;
    for work_tree in &places.work_trees {
        if let Err(why) = files(work_tree, &mut objects, &contents, &staying, &mut losses) {
            losses.state.push(format!("unreadable: {why}"));
        }
    }
    losses
}

/// What the files that stay hold: bytes, and bytes with a mode.
struct Contents {
    bytes: HashSet<Vec<u8>>,
    files: HashSet<(u32, Vec<u8>)>,
    /// Files of commits that have landed: checked out, they are not more than these.
    landed: HashSet<Id>,
}

impl Contents {
    fn of(staying: &Staying, objects: &Objects) -> Self {
        let bytes = staying.objects.iter().filter_map(|id| objects.blob(id)).map(<[u8]>::to_vec).collect();
        let files = staying.files.iter().filter_map(|(mode, id)| Some((*mode, objects.blob(id)?.to_vec()))).collect();
        Self { bytes, files, landed: HashSet::new() }
    }
}

/// All that the refs reach of what stays. A remote that cannot be asked saves what its mapped
/// remote-tracking refs name, provided that it really was given to it once.
fn staying(world: &World) -> HashSet<Id> {
    let up = ["w.git", "sub.git", "fork.git"].map(|name| world.up(name));
    let bare = world.bare();
    let mut tips: String = up
        .iter()
        .chain([&bare])
        .flat_map(|path| refs(path).expect("because what stays is whole"))
        .map(|(id, _)| format!("{id}\n"))
        .collect();
    let clone = world.clone().join(".git");
    let config = if exists(clone.join("config")) { read(clone.join("config")) } else { Vec::new() };
    let config = String::from_utf8_lossy(&config);
    if config.contains("forge.invalid:") || config.contains("@forge.invalid") || config.contains("forge.invalid/acme") {
        let narrow = config.contains("refs/heads/main:refs/remotes");
        let everything = run(
            {
                let mut command = git(&up[0]);
                command.args(["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"]);
                command
            },
            b"",
        );
        let everything = ids(&everything.expect("because the upstream is whole"));
        // Refs that cannot be listed save nothing, and are told as unreadable elsewhere.
        for (id, name) in refs(&clone).into_iter().flatten() {
            let Some((_, branch)) = name.strip_prefix("refs/remotes/").and_then(|name| name.split_once('/')) else {
                continue;
            };
            if everything.contains(&id) && branch != "fake" && (!narrow || branch == "main") {
                tips.push_str(&format!("{id}\n"));
            }
        }
    }
    let stores = up.iter().chain([&bare]).map(|path| path.join("objects").display().to_string()).collect::<Vec<_>>();
    let mut command = git(&up[0]);
    command.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", stores.join(":"));
    command.args(["rev-list", "--objects", "--no-object-names", "--stdin"]);
    ids(&run(command, tips.as_bytes()).expect("because what stays is whole"))
}

fn refs(git_dir: &Path) -> Result<Vec<(Id, String)>, String> {
    let mut command = git(git_dir);
    command.args(["for-each-ref", "--format=%(objectname) %(refname)"]);
    let text = String::from_utf8_lossy(&run(command, b"")?).into_owned();
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    Ok(lines.map(|(id, name)| (id.to_owned(), name.to_owned())).collect())
}

fn shown(world: &World, git_dir: &Path) -> Result<Shown, String> {
    let named = named(git_dir);
    let mut command = git(git_dir);
    command.args(["rev-list", "--objects", "--no-object-names", "--ignore-missing", "--all", "--reflog"]);
    command.args(["--indexed-objects", "--stdin"]);
    let input: String = named.loose.iter().chain(&named.aside).map(|id| format!("{id}\n")).collect();
    let reached = ids(&run(command, input.as_bytes())?);
    let place = git_dir.strip_prefix(world.clone()).unwrap_or(git_dir).display().to_string();
    let dangling: HashSet<Id> = all_commits(git_dir)?.difference(&reached).cloned().collect();
    let mut adrift = HashSet::new();
    if !dangling.is_empty() {
        let mut command = git(git_dir);
        command.args(["rev-list", "--objects", "--no-object-names", "--stdin"]);
        let input: String = dangling.iter().map(|id| format!("{id}\n")).collect();
        // What is half pruned cannot be listed, and is half gone.
        adrift = run(command, input.as_bytes()).map_or_else(|_| HashSet::new(), |text| ids(&text));
    }
    Ok(Shown { place, refs: refs(git_dir)?, named, reached, dangling, adrift })
}

/// The commits of a stash, if all of them have landed, and what it stands on.
fn landed_stash(objects: &mut Objects, stash: &Id, lost: &HashSet<&Id>, staying: &Staying) -> Option<HashSet<Id>> {
    let parents = objects.commit(stash)?.1.to_vec();
    if parents.len() < 2 || !stash_landed(objects, stash, staying) {
        return None;
    }
    let base = objects.ancestry([parents[0].clone()]);
    let mut commits: HashSet<Id> = base.into_iter().filter(|id| lost.contains(id)).collect();
    if !commits.is_empty() && landed(objects, &parents[0], &commits, staying) != Landed::Yes {
        return None;
    }
    commits.extend(parents.into_iter().skip(1).chain([stash.clone()]));
    Some(commits)
}

/// Everything a repository reaches, less what stays. Returns the files of commits that have landed.
fn history(shown: &Shown, objects: &mut Objects, staying: &Staying, losses: &mut Losses) -> HashSet<Id> {
    let place = &shown.place;
    losses.state.extend(shown.named.unfinished.iter().map(|name| format!("unfinished: {place}/{name}")));
    let lost: HashSet<&Id> = shown.reached.difference(&staying.objects).collect();
    let soft = |name: &str| ["refs/heads/", "refs/remotes/", "refs/tags/"].iter().any(|kind| name.starts_with(kind));
    let (branches, others): (Vec<_>, Vec<_>) = shown.refs.iter().partition(|(_, name)| soft(name));
    let tips: HashSet<Id> = branches.iter().map(|(id, _)| id).chain(&shown.named.loose).cloned().collect();
    let mut aside: HashSet<Id> = others.iter().map(|(id, _)| id).chain(&shown.named.aside).cloned().collect();
    let stashes: HashSet<Id> =
        others.iter().filter(|(_, name)| name == "refs/stash").map(|(id, _)| id.clone()).collect();
    let landed_stashes: HashSet<Id> = stashes
        .union(&shown.named.stashes)
        .filter_map(|id| landed_stash(objects, id, &lost, staying))
        .flatten()
        .collect();
    aside.retain(|id| !landed_stashes.contains(id));
    let aside: Vec<Id> = aside.iter().filter_map(|id| objects.peel(id)).collect();
    let aside = objects.ancestry(aside);
    let (mut tolerated, mut empty) = (HashSet::new(), HashSet::new());
    for tip in tips.iter().filter_map(|id| objects.peel(id)).collect::<HashSet<_>>() {
        let chain: HashSet<Id> = objects.ancestry([tip.clone()]).into_iter().filter(|id| lost.contains(id)).collect();
        if chain.is_empty() {
            continue;
        }
        match landed(objects, &tip, &chain, staying) {
            Landed::No => {}
            Landed::Yes => tolerated.extend(chain),
            Landed::Nothing => empty.extend(chain),
        }
    }
    tolerated.extend(landed_stashes);
    tolerated.retain(|id| !aside.contains(id));
    let mut explained: HashSet<Id> = HashSet::new();
    for commit in &tolerated {
        explained.extend(objects.flat(Some(commit)).values().map(|(_, id)| id.clone()));
    }
    for id in lost {
        match objects.get(id) {
            Some(Object::Commit { .. }) if tolerated.contains(id) => {}
            Some(Object::Commit { .. }) if empty.contains(id) => {
                losses.state.push(format!("empty commit: {place} {id}"))
            }
            Some(Object::Commit { .. }) => losses.content.push(format!("commit: {place} {id}")),
            Some(Object::Tag(_)) => losses.content.push(format!("tag object: {place} {id}")),
            Some(Object::Blob(_)) if !explained.contains(id) => losses.content.push(format!("blob: {place} {id}")),
            Some(Object::Blob(_)) => {}
            // The names in a tree are in commits too, and its blobs are told one by one.
            Some(Object::Tree(_)) => {}
            None => losses.state.push(format!("unreadable: {place} {id}")),
        }
    }
    explained
}

struct Entry {
    skipped: bool,
    mode: u32,
    id: Id,
    stage: char,
}

/// Every file of a work tree, byte by byte, and the index between it and HEAD.
fn files(
    work_tree: &WorkTree,
    objects: &mut Objects,
    contents: &Contents,
    staying: &Staying,
    losses: &mut Losses,
) -> Result<(), String> {
    let index = index(work_tree)?;
    let mut command = git(&work_tree.git_dir);
    command.args(["rev-parse", "--quiet", "--verify", "HEAD"]);
    let head = run(command, b"").ok().map(|id| String::from_utf8_lossy(&id).trim().to_owned());
    let head = objects.flat(head.as_ref());
    staged(work_tree, &index, &head, staying, losses);
    let rebuildable = rebuildable(work_tree, &index);
    for (path, file) in &work_tree.files {
        let at = format!("{}/{}", work_tree.path.display(), path.escape_ascii());
        if rebuildable.contains(path) {
            continue;
        }
        let checked_out = index.get(path).filter(|entry| head.get(path) == Some(&(entry.mode, entry.id.clone())));
        let landed = checked_out
            .is_some_and(|entry| contents.landed.contains(&entry.id) && objects.blob(&entry.id) == Some(&file.content));
        if !landed && !contents.bytes.contains(&file.content) {
            losses.content.push(format!("file: {at}"));
        }
        // An empty file says nothing but its name.
        let stays = !file.content.is_empty() && contents.files.contains(&(file.mode, file.content.clone()));
        match index.get(path) {
            None if stays => {}
            Some(entry) if entry.mode == file.mode && stays => {}
            None => losses.state.push(format!("untracked: {at}")),
            Some(entry) if entry.mode != file.mode => losses.state.push(format!("mode: {at}")),
            Some(entry) if objects.blob(&entry.id) != Some(&file.content) => {
                losses.state.push(format!("changed: {at}"))
            }
            Some(_) => {}
        }
    }
    let missing = index
        .iter()
        .filter(|(path, entry)| !entry.skipped && entry.mode != GITLINK && !work_tree.files.contains_key(*path));
    losses.state.extend(missing.map(|(path, _)| format!("deleted: {}", path.escape_ascii())));
    Ok(())
}

fn index(work_tree: &WorkTree) -> Result<HashMap<Vec<u8>, Entry>, String> {
    let mut command = git(&work_tree.git_dir);
    command.arg("--work-tree").arg(&work_tree.path).current_dir(&work_tree.path);
    command.args(["ls-files", "-t", "-s", "-z"]);
    let text = run(command, b"")?;
    let mut index = HashMap::new();
    for line in text.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
        let tab = line.iter().position(|byte| *byte == b'\t').expect("because git prints a tab");
        let words = String::from_utf8_lossy(&line[..tab]).into_owned();
        let [tag, mode, id, stage] = words.split(' ').collect::<Vec<_>>()[..] else { panic!("unexpected: {words}") };
        let mode = u32::from_str_radix(mode, 8).expect("because git prints a mode");
        let stage = stage.chars().next().expect("because git prints a stage");
        index.insert(line[tab + 1..].to_vec(), Entry { skipped: tag == "S", mode, id: id.to_owned(), stage });
    }
    Ok(index)
}

fn staged(work_tree: &WorkTree, index: &HashMap<Vec<u8>, Entry>, head: &Flat, staying: &Staying, losses: &mut Losses) {
    let at = |path: &[u8]| format!("{}/{}", work_tree.path.display(), path.escape_ascii());
    for (path, entry) in index {
        if entry.stage != '0' {
            losses.state.push(format!("unmerged: {}", at(path)));
        } else if head.get(path) != Some(&(entry.mode, entry.id.clone()))
            && entry.mode != GITLINK
            && !staying.files.contains(&(entry.mode, entry.id.clone()))
        {
            losses.state.push(format!("staged: {}", at(path)));
        }
    }
    let removed = head.keys().filter(|path| !index.contains_key(*path));
    losses.state.extend(removed.map(|path| format!("staged deletion: {}", at(path))));
}

/// Untracked files that a tool is known to make again, without the secrets and databases among them.
fn rebuildable(work_tree: &WorkTree, index: &HashMap<Vec<u8>, Entry>) -> HashSet<Vec<u8>> {
    let has = |path: String| work_tree.files.contains_key(path.as_bytes());
    let may_be: Vec<&Vec<u8>> = work_tree
        .files
        .iter()
        .filter(|(path, file)| {
            let text = String::from_utf8_lossy(path);
            let witnessed = |name: &str, witness: &str| match format!("/{text}").split_once(&format!("/{name}/")) {
                Some((above, _)) => has(format!("{above}/{witness}").trim_start_matches('/').to_owned()),
                None => false,
            };
            let precious = text.ends_with(".env") || file.content.starts_with(b"SQLite");
            let made = witnessed("node_modules", "package.json")
                || witnessed("target", "target/CACHEDIR.TAG")
                || text.starts_with("__pycache__/");
            made && !precious && !index.contains_key(*path)
        })
        .map(|(path, _)| path)
        .collect();
    if may_be.is_empty() {
        return HashSet::new();
    }
    let mut command = tool("git");
    command.current_dir(&work_tree.path).args(["check-ignore", "-z", "--stdin"]);
    let input: Vec<u8> = may_be.iter().flat_map(|path| [path.as_slice(), b"\0"].concat()).collect();
    // It fails when nothing is ignored.
    let Ok(ignored) = run(command, &input) else { return HashSet::new() };
    ignored.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
}

fn all_commits(git_dir: &Path) -> Result<HashSet<Id>, String> {
    let mut command = git(git_dir);
    command.args(["cat-file", "--batch-all-objects", "--batch-check=%(objecttype) %(objectname)"]);
    let text = String::from_utf8_lossy(&run(command, b"")?).into_owned();
    Ok(text.lines().filter_map(|line| line.strip_prefix("commit ")).map(str::to_owned).collect())
}

/// Commits that nothing names, unless they stay or have landed.
fn adrift(shown: &Shown, objects: &mut Objects, staying: &Staying, losses: &mut Losses) {
    for tip in shown.dangling.iter().filter(|id| !staying.objects.contains(*id)) {
        let chain = objects.ancestry([tip.clone()]);
        let chain: HashSet<Id> = chain.into_iter().filter(|id| !staying.objects.contains(id)).collect();
        if !chain.is_empty() && landed(objects, tip, &chain, staying) == Landed::No {
            losses.dangling.push(format!("{} {tip}", shown.place));
        }
    }
}
