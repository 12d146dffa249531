//! Finds, by looking at every directory, what a clone is made of: repositories, work trees, files, and
//! the names by which git's own files hold on to commits. Not here: what of it would be lost.

use std::collections::{BTreeMap, HashSet};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use derelict_testkit::scratch::{exists, read};

use crate::objects::Id;

/// A file, link or something else in a work tree, with its content and the mode git would give it.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) mode: u32,
    pub(crate) content: Vec<u8>,
}

/// A work tree and its git directory, which may be linked.
#[derive(Debug)]
pub(crate) struct WorkTree {
    pub(crate) path: PathBuf,
    pub(crate) git_dir: PathBuf,
    /// Relative path to file, without those of other work trees below.
    pub(crate) files: BTreeMap<Vec<u8>, File>,
}

/// All work trees at and below a directory, and the repositories that only git directories show.
#[derive(Debug, Default)]
pub(crate) struct Places {
    pub(crate) work_trees: Vec<WorkTree>,
    /// Git directories that own objects and refs, those of the work trees among them.
    pub(crate) repositories: Vec<PathBuf>,
    /// `.git` files that lead nowhere.
    pub(crate) broken: Vec<PathBuf>,
}

impl Places {
    pub(crate) fn of(top: &Path) -> Self {
        let mut places = Self::default();
        places.look(top, None);
        places
    }

    fn look(&mut self, dir: &Path, owner: Option<usize>) {
        let dot_git = dir.join(".git");
        let owner = if exists(&dot_git) { self.work_tree(dir, &dot_git).or(owner) } else { owner };
        if is_git_dir(dir) {
            // A bare one: a repository, and files of the work tree around it as well.
            self.git_dir(dir);
        }
        for entry in children(dir) {
            let meta = entry.symlink_metadata().expect("because it is being listed");
            if entry.file_name().is_some_and(|name| name == ".git") {
                continue;
            }
            if meta.is_dir() {
                self.look(&entry, owner);
                continue;
            }
            let Some(owner) = owner.map(|owner| &mut self.work_trees[owner]) else { continue };
            let file = if meta.is_symlink() {
                let target = std::fs::read_link(&entry).expect("because it is being listed");
                File { mode: 0o120_000, content: target.as_os_str().as_bytes().to_vec() }
            } else {
                let executable = meta.permissions().mode() & 0o100 != 0;
                File { mode: if executable { 0o100_755 } else { 0o100_644 }, content: read(&entry) }
            };
            let path = entry.strip_prefix(&owner.path).expect("because it was found below");
            owner.files.insert(path.as_os_str().as_bytes().to_vec(), file);
        }
    }

    fn work_tree(&mut self, dir: &Path, dot_git: &Path) -> Option<usize> {
        let git_dir = if dot_git.is_dir() {
            self.git_dir(dot_git);
            dot_git.to_owned()
        } else {
            let text = String::from_utf8_lossy(&read(dot_git)).into_owned();
            let named = text.trim().strip_prefix("gitdir: ").map(|path| dir.join(path));
            match named.and_then(|path| path.canonicalize().ok()) {
                Some(path) => path,
                None => {
                    self.broken.push(dot_git.to_owned());
                    return None;
                }
            }
        };
        self.work_trees.push(WorkTree { path: dir.to_owned(), git_dir, files: BTreeMap::new() });
        Some(self.work_trees.len() - 1)
    }

    /// A repository, and those of submodules inside it.
    fn git_dir(&mut self, git_dir: &Path) {
        if !is_git_dir(git_dir) {
            return self.broken.push(git_dir.to_owned());
        }
        self.repositories.push(git_dir.to_owned());
        let mut open = vec![git_dir.join("modules")];
        while let Some(dir) = open.pop().filter(|dir| exists(dir)) {
            for inner in children(&dir).into_iter().filter(|inner| inner.is_dir()) {
                if is_git_dir(&inner) { self.git_dir(&inner) } else { open.push(inner) }
            }
        }
    }
}

fn is_git_dir(dir: &Path) -> bool {
    ["HEAD", "objects", "refs"].iter().all(|name| exists(dir.join(name)))
}

fn children(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap_or_else(|error| panic!("cannot list {}: {error}", dir.display()));
    entries.map(|entry| entry.expect("because the directory is being listed").path()).collect()
}

/// Commits that files of a git directory name, though no ref does.
#[derive(Debug, Default)]
pub(crate) struct Named {
    /// HEADs, `*_HEAD`, reflogs of everything but the stash.
    pub(crate) loose: HashSet<Id>,
    /// The reflog of the stash, and refs that a linked work tree has for itself.
    pub(crate) aside: HashSet<Id>,
    /// The reflog of the stash alone.
    pub(crate) stashes: HashSet<Id>,
    /// Files that tell of an operation in progress, and lock files.
    pub(crate) unfinished: Vec<String>,
}

const OPERATIONS: [&str; 7] =
    ["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG", "rebase-merge", "rebase-apply", "sequencer"];

/// Reads the git directory of a repository and those of its linked work trees.
pub(crate) fn named(git_dir: &Path) -> Named {
    let mut named = Named::default();
    let linked = git_dir.join("worktrees");
    let linked = if exists(&linked) { children(&linked) } else { Vec::new() };
    for dir in std::iter::once(git_dir.to_owned()).chain(linked) {
        for file in children(&dir) {
            let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_else(String::new);
            if file.is_file() && (name == "HEAD" || name.ends_with("_HEAD")) {
                let text = String::from_utf8_lossy(&read(&file)).into_owned();
                named.loose.extend(text.lines().filter_map(|line| hex(line.get(..40)?)));
            }
            if OPERATIONS.contains(&name.as_str()) || name.ends_with(".lock") {
                named.unfinished.push(name);
            }
        }
        if dir != git_dir {
            named.aside.extend(own_refs(&dir));
            named.unfinished.extend(lives_outside(git_dir, &dir));
        }
        let mut open = vec![dir.join("logs")];
        while let Some(path) = open.pop().filter(|path| exists(path)) {
            if path.is_dir() {
                open.extend(children(&path));
                continue;
            }
            let text = String::from_utf8_lossy(&read(&path)).into_owned();
            let ids = text.lines().flat_map(|line| [line.get(..40), line.get(41..81)]).flatten().filter_map(hex);
            if path.ends_with("refs/stash") {
                let ids: Vec<Id> = ids.collect();
                named.stashes.extend(ids.iter().cloned());
                named.aside.extend(ids);
            } else {
                named.loose.extend(ids);
            }
        }
    }
    named
}

/// A linked work tree that is there and no part of the clone: it would lose its git directory.
fn lives_outside(git_dir: &Path, linked: &Path) -> Option<String> {
    let text = String::from_utf8(read(linked.join("gitdir"))).ok()?;
    let work_tree = Path::new(text.trim()).parent()?.to_owned();
    let inside = git_dir.parent().is_some_and(|clone| work_tree.starts_with(clone));
    (!inside && exists(&work_tree)).then(|| format!("work tree elsewhere: {}", work_tree.display()))
}

fn own_refs(linked: &Path) -> Vec<Id> {
    let (mut open, mut found) = (vec![linked.join("refs")], Vec::new());
    while let Some(path) = open.pop().filter(|path| exists(path)) {
        if path.is_dir() {
            open.extend(children(&path));
        } else {
            found.extend(String::from_utf8_lossy(&read(&path)).get(..40).and_then(hex));
        }
    }
    found
}

fn hex(text: &str) -> Option<Id> {
    let nothing = text.bytes().all(|byte| byte == b'0');
    (!nothing && text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| text.to_owned())
}
