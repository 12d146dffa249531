//! One work tree with its repository: opened, compared, and everything inside it judged in turn.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use bstr::ByteSlice;
use gix_hash::ObjectId;
use rustix::fs::FileType;
use rustix::io::Errno;

use crate::commits::Stores;
use crate::doubts::{Doubt, Doubts};
use crate::git_dir::{Met, walk_git_dir};
use crate::history::{Adrift, History};
use crate::index::Index;
use crate::landing::is_file;
use crate::lfs::Pointer;
use crate::packs;
use crate::proof::{Channel, Findings};
use crate::refs::{Head, Refs, read_head};
use crate::report::{Place, Report, shown};
use crate::repository::{Repository, path_line, read_git_file};
use crate::saved::{Saved, Standing};
use crate::saved_files::Sought;
use crate::stat::{open_dir_at, stat_at};
use crate::surroundings::Surroundings;
use crate::trees::Lookup;
use crate::walk::{Meter, measure_below};
use crate::work_tree::{Owner, walk_work_tree};

/// Repositories inside repositories inside repositories; deeper than this is not followed.
const DEEPEST_NESTING: usize = 16;

/// Paths compared when the index differs from HEAD.
const MOST_DIFFERENCES: usize = 1_000;

/// Files and directories of an operation that was begun and not ended.
const OPERATIONS: [(&str, &str); 9] = [
    ("MERGE_HEAD", "a merge"),
    ("NOTES_MERGE_PARTIAL", "a merge of notes"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("BISECT_LOG", "a bisect"),
    ("BISECT_START", "a bisect"),
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase or an am"),
    ("sequencer", "a sequence of picks"),
];

/// Examines a candidate and everything in it.
pub(crate) struct Examiner<'a> {
    pub(crate) around: &'a Surroundings,
    /// The candidate's canonical path.
    pub(crate) top: &'a Path,
    pub(crate) meter: &'a mut dyn Meter,
    pub(crate) findings: &'a mut Findings,
    /// Canonical git directories already examined together with their work tree.
    pub(crate) done: HashSet<PathBuf>,
    /// Paths of repositories whose HEAD is a commit that is saved, and that commit.
    on_saved: HashMap<Vec<u8>, ObjectId>,
    /// Contents of git-lfs that files of the work tree at hand hold.
    pub(crate) lfs: HashSet<Pointer>,
    depth: usize,
}

impl<'a> Examiner<'a> {
    pub(crate) fn new(
        around: &'a Surroundings,
        top: &'a Path,
        meter: &'a mut dyn Meter,
        findings: &'a mut Findings,
    ) -> Self {
        Self {
            around,
            top,
            meter,
            findings,
            done: HashSet::new(),
            on_saved: HashMap::new(),
            lfs: HashSet::new(),
            depth: 0,
        }
    }

    /// Examines the work tree `dir`, which lies at `prefix` below the candidate. Returns the commit
    /// its HEAD stands on, if that could be told.
    pub(crate) fn work_tree(&mut self, dir: BorrowedFd<'_>, prefix: &[u8], place: &Place) -> Option<ObjectId> {
        if self.depth >= DEEPEST_NESTING {
            Report::new(self.findings, place.clone()).unknown(Channel::Nested, "repositories are nested too deeply");
            measure_below(dir, prefix, self.meter);
            return None;
        }
        self.depth += 1;
        let head = match self.open(dir, prefix, place) {
            Ok((repo, met)) => self.opened(dir, prefix, place, &repo, &met),
            Err(why) => {
                Report::new(self.findings, place.clone()).unknown(Channel::Repository, &why);
                // The git directory was measured while it was walked; what is left is the work tree.
                walk_work_tree(self, dir, prefix, place, None);
                None
            }
        };
        self.depth -= 1;
        head
    }

    /// Finds and opens the repository of a work tree. It is never looked for further up.
    fn open(&mut self, dir: BorrowedFd<'_>, prefix: &[u8], place: &Place) -> Result<(Repository, Met), String> {
        let here = self.path_of(prefix);
        let stat = match stat_at(dir, b".git") {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Err("not a repository: it has no .git".into()),
            Err(error) => return Err(format!("cannot read .git: {error}")),
        };
        match stat.kind() {
            FileType::Directory => {
                let git_dir = open_dir_at(dir, b".git").map_err(|error| format!("cannot open .git: {error}"))?;
                let mut report = Report::new(self.findings, place.clone());
                let met =
                    walk_git_dir(std::os::fd::AsFd::as_fd(&git_dir), &join(prefix, b".git"), self.meter, &mut report);
                if !met.readable {
                    return Err("the git directory cannot be trusted".into());
                }
                // Through the descriptor, so that nobody can put another directory in its place.
                let path = PathBuf::from(format!("/proc/self/fd/{}/.git", dir.as_raw_fd()));
                let repo = Repository::open(&path)?;
                self.check_own_work_tree(&repo, &here)?;
                Ok((repo, met))
            }
            FileType::RegularFile => {
                let git_dir = read_git_file(&here)?;
                let repo = Repository::open(&git_dir)?;
                self.check_linked(&repo, &here)?;
                self.done.insert(git_dir);
                Ok((repo, Met::default()))
            }
            FileType::Symlink => Err(".git is a symlink".into()),
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => Err(".git is neither a file nor a directory".into()),
        }
    }

    /// A repository that says its work tree is somewhere else is not this directory's.
    fn check_own_work_tree(&self, repo: &Repository, here: &Path) -> Result<(), String> {
        if repo.settings.bare {
            return Err("its configuration says it is bare, and here is a work tree".into());
        }
        if repo.is_linked() {
            return Err("its git directory names another one as its common directory".into());
        }
        match &repo.settings.worktree {
            None => Ok(()),
            Some(worktree) => match std::fs::canonicalize(here.join(".git").join(worktree)) {
                Ok(path) if path == here => Ok(()),
                Ok(_) | Err(_) => Err("core.worktree names another directory".into()),
            },
        }
    }

    /// A `.git` file and the git directory it names must name each other, and the git directory must
    /// be one that goes together with this work tree, or one that stays.
    fn check_linked(&self, repo: &Repository, here: &Path) -> Result<(), String> {
        let back = if repo.is_linked() {
            let text = crate::refs::read_limited(&repo.git_dir.join("gitdir"), 8192);
            let text = text.map_err(|error| {
                format!("cannot read where the work tree of {} is: {error}", repo.git_dir.display())
            })?;
            // Newer versions of git may write it relative to the git directory.
            std::fs::canonicalize(repo.git_dir.join(path_line(&text)))
                .ok()
                .and_then(|path| path.parent().map(Path::to_owned))
        } else {
            let worktree = repo.settings.worktree.as_ref();
            worktree.and_then(|worktree| std::fs::canonicalize(repo.git_dir.join(worktree)).ok())
        };
        if back.as_deref() != Some(here) {
            return Err(format!("{} does not name this work tree as its own", repo.git_dir.display()));
        }
        let common = std::fs::canonicalize(&repo.common_dir)
            .map_err(|error| format!("cannot open the common git directory: {error}"))?;
        if !common.starts_with(self.top) && self.around.goes(&common, self.top) {
            return Err(format!("its repository {} may go in the same sweep", common.display()));
        }
        Ok(())
    }

    fn opened(
        &mut self,
        dir: BorrowedFd<'_>,
        prefix: &[u8],
        place: &Place,
        repo: &Repository,
        met: &Met,
    ) -> Option<ObjectId> {
        let here = self.path_of(prefix);
        let mut history = History::read(repo, &Standing { around: self.around, top: self.top, base: &here });
        let mut doubts = Doubts::default();
        let outer = std::mem::take(&mut self.lfs);
        let head = head_commit(repo, &history.refs);
        let index = self.index(repo, head, place, &mut doubts);
        let owner = Owner { repo, index, saved: &history.saved, doubts: &mut doubts };
        walk_work_tree(self, dir, prefix, place, Some(owner));
        let adrift = self.adrift(repo, met, &history.saved, place);
        let mut report = Report::new(self.findings, place.clone());
        history.examine(repo, &adrift, &mut report);
        if let Some(head) = head.filter(|head| history.is_saved(head)) {
            self.on_saved.insert(prefix.to_vec(), head);
        }
        let on_saved = &self.on_saved;
        doubts.settle(&history.saved, |path, commit| on_saved.get(&join(prefix, path)) == Some(commit), &mut report);
        operations(&repo.git_dir, &mut report);
        let stores: Vec<PathBuf> = history.saved.lfs_stores().collect();
        let large: HashSet<Pointer> =
            std::mem::replace(&mut self.lfs, outer).into_iter().chain(met.lfs.iter().cloned()).collect();
        report.examined(Channel::Lfs, "objects", large.len() as u64 + met.lfs_strange);
        let only_here = large.iter().filter(|pointer| !pointer.is_in(&stores)).count() as u64 + met.lfs_strange;
        if only_here > 0 {
            report.unknown(Channel::Lfs, &format!("{only_here} objects of git-lfs, which may not have been uploaded"));
        }
        if repo.settings.lfs_storage {
            report.unknown(Channel::Lfs, "lfs.storage keeps the objects of git-lfs in another place");
        }
        if met.annex_objects > 0 {
            report
                .unknown(Channel::Lfs, &format!("{} files of git-annex, which may be nowhere else", met.annex_objects));
        }
        if !repo.is_linked() {
            self.inner_repositories(repo, &here, prefix, met);
            self.linked_work_trees(repo, prefix, place);
        }
        head
    }

    /// Whether the repository at a path was examined and its HEAD found to be a commit that is saved.
    pub(crate) fn stands_on_saved(&self, path: &[u8], head: &ObjectId) -> bool {
        self.on_saved.get(path) == Some(head)
    }

    /// Objects that may be commits which nothing names: loose ones, and those of packs that no repository which stays
    /// has, too. A pack is named by what it holds.
    fn adrift(&mut self, repo: &Repository, met: &Met, saved: &Saved, place: &Place) -> Adrift {
        let mut adrift = Adrift { loose: met.loose.clone(), packed: Vec::new() };
        let stores: Vec<PathBuf> = saved.object_stores().collect();
        let is_there = |(pack, length): &&(Vec<u8>, u64)| {
            let below = pack.strip_prefix(b"objects/").unwrap_or(pack).to_path_lossy();
            stores.iter().any(|store| std::fs::metadata(store.join(&below)).is_ok_and(|found| found.len() == *length))
        };
        for (pack, _) in met.packs.iter().filter(|pack| !is_there(pack)) {
            match packs::commits_of(&repo.git_dir.join(pack.to_path_lossy()), repo.settings.hash) {
                Ok(found) => adrift.packed.extend(found),
                Err(why) => Report::new(self.findings, place.clone()).unknown(Channel::Reflog, &why),
            }
        }
        adrift
    }

    pub(crate) fn index(
        &mut self,
        repo: &Repository,
        head: Option<ObjectId>,
        place: &Place,
        doubts: &mut Doubts,
    ) -> Option<Index> {
        let mut report = Report::new(self.findings, place.clone());
        let index = match Index::read(&repo.git_dir.join("index"), repo.settings.hash) {
            Ok(index) => index?,
            Err(why) => {
                report.unknown(Channel::Tracked, &why);
                return None;
            }
        };
        report.examined(Channel::Tracked, "index entries", index.entries() as u64);
        report.rests_on(Channel::Tracked, &index.print());
        report.rests_on(Channel::Tracked, head.as_ref().map_or(&[], |head| head.as_slice()));
        let unmerged = index.unmerged();
        for path in &unmerged {
            report.loss(Channel::Tracked, || format!("unmerged: {}", shown(path)), &[path]);
        }
        let stores = Stores::new(vec![repo.objects.another()], HashSet::new());
        let tree = match head.map(|head| stores.commit(&head)) {
            None => Ok(ObjectId::empty_tree(repo.settings.hash)),
            Some(Ok(Some(commit))) => Ok(commit.tree),
            Some(Ok(None)) => Err("the commit of HEAD is missing".to_owned()),
            Some(Err(why)) => Err(why),
        };
        let differences = tree.and_then(|tree| Ok((tree, index.differences(&stores, &tree, MOST_DIFFERENCES)?)));
        match differences {
            Ok((tree, paths)) => {
                // A list that was cut off proves nothing of what it leaves out; and the index of a branch without a
                // commit is all that there is of it.
                let whole = paths.len() < MOST_DIFFERENCES && head.is_some();
                let mut committed = Lookup::default();
                for path in paths.iter().filter(|path| !unmerged.contains(&path.as_slice())) {
                    let staged = index.position(path).map(|entry| index.held(entry));
                    let what = format!("staged: {}", shown(path));
                    let content = vec![path.clone(), staged.map_or_else(Vec::new, |held| held.1.as_slice().to_vec())];
                    let sought = staged.map(|held| Sought { path: path.clone(), held }).into_iter().collect();
                    let mut ignored = || {
                        let before = committed.at(&stores, &tree, path).ok().flatten();
                        before.is_some_and(|held| is_file(&held)) && staged.is_none_or(|held| is_file(&held))
                    };
                    if self.around.ignored_changes().matches(path) && ignored() {
                        let content: Vec<&[u8]> = content.iter().map(Vec::as_slice).collect();
                        report.allowed(|| what, &content);
                    } else if whole {
                        doubts.add(Doubt { channel: Channel::Tracked, what, content, sought });
                    } else {
                        let content: Vec<&[u8]> = content.iter().map(Vec::as_slice).collect();
                        report.loss(Channel::Tracked, || what, &content);
                    }
                }
            }
            Err(why) => report.unknown(Channel::Tracked, &why),
        }
        Some(index)
    }

    /// Git directories inside this one whose work tree the walk did not meet: submodules of other
    /// branches, or whatever somebody put there.
    fn inner_repositories(&mut self, repo: &Repository, here: &Path, prefix: &[u8], met: &Met) {
        for inner in &met.repositories {
            let path = here.join(".git").join(inner.to_path_lossy());
            if !self.done.insert(path.clone()) {
                continue;
            }
            let place = Place::Submodule(join(prefix, &[b".git/", inner.as_slice()].concat()));
            let mut report = Report::new(self.findings, place);
            match Repository::open(&repo.git_dir.join(inner.to_path_lossy())) {
                Ok(repo) => {
                    let standing = Standing { around: self.around, top: self.top, base: &path };
                    History::read(&repo, &standing).examine(&repo, &Adrift::default(), &mut report);
                }
                Err(why) => report.unknown(Channel::Submodules, &why),
            }
        }
    }

    pub(crate) fn path_of(&self, prefix: &[u8]) -> PathBuf {
        if prefix.is_empty() { self.top.to_owned() } else { self.top.join(prefix.to_path_lossy()) }
    }
}

pub(crate) fn join(prefix: &[u8], name: &[u8]) -> Vec<u8> {
    if prefix.is_empty() { name.to_vec() } else { [prefix, b"/", name].concat() }
}

pub(crate) fn head_commit(repo: &Repository, refs: &Refs) -> Option<ObjectId> {
    match read_head(&repo.git_dir, &repo.settings) {
        Ok(Head::Detached(id)) => Some(id),
        Ok(Head::Branch(name)) => refs.find(&name),
        // The history says so too, and keeps the directory for it.
        Err(_) => None,
    }
}

pub(crate) fn operations(git_dir: &Path, report: &mut Report<'_>) {
    for (file, operation) in OPERATIONS {
        match std::fs::symlink_metadata(git_dir.join(file)) {
            Ok(_) => {
                report.loss(Channel::Operation, || format!("{operation} in progress ({file})"), &[file.as_bytes()])
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => report.unknown(Channel::Operation, &format!("cannot look for {file}: {error}")),
        }
    }
}
