//! Looks for repositories elsewhere that would break if a clone vanished: they read its objects, or
//! they are its work tree or its submodule's. Nothing in a clone says who borrows from it, so the places
//! where repositories usually are get searched, breadth first and within bounds that are disclosed.

use std::collections::{HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use derelict_git::Borrower;
use rustix::fs::{FileType, Mode, OFlags};

use crate::files;
use crate::place::{Placed, Placer};
use crate::seen::{self, Inode, Seen};
use crate::survey::{BorrowerSearch, Extent};

/// How deep below a place repositories are looked for: `src/host/owner/repository` below a home has four.
pub(crate) const MAX_DEPTH: u32 = 3;

/// How many directories are looked at in all: well under a second of a quiet machine's time.
const MAX_DIRECTORIES: u64 = 20_000;

/// How long a file that names another repository may be.
const FILE_BYTES: u64 = 1 << 20;

/// How far lenders of lenders are followed: git's own bound.
const MAX_LENDERS: u32 = 5;

/// Directories that are large and hold no repositories of their own.
const PASSED_OVER: [&[u8]; 2] = [b".git", b"node_modules"];

/// A search that can be continued with more places.
pub(crate) struct Search<'p, 's> {
    placer: &'p Placer<'s>,
    /// The directory of all clones; each of them is a place of its own.
    repos: Inode,
    visited: HashSet<Inode>,
    found: Vec<Borrower>,
    /// Who was found to need which clone: one need of it is enough.
    known: HashSet<(PathBuf, Inode)>,
    report: BorrowerSearch,
}

/// Where to look, and how far down.
#[derive(Debug, Clone)]
pub(crate) enum Start {
    /// This directory alone.
    Alone(PathBuf),
    /// This directory and what lies below it, to the depth of the search.
    Below(PathBuf),
}

struct Step {
    path: PathBuf,
    depth: u32,
    parent: Option<Seen>,
}

impl<'p, 's> Search<'p, 's> {
    /// A search that has not looked anywhere.
    pub(crate) fn new(placer: &'p Placer<'s>, repos: Inode) -> Self {
        let report = BorrowerSearch { directories: 0, unreadable: 0, found: 0, extent: Extent::ToDepth };
        Self { placer, repos, visited: HashSet::new(), found: Vec::new(), known: HashSet::new(), report }
    }

    /// Looks in these places too.
    pub(crate) fn look(&mut self, starts: impl IntoIterator<Item = Start>) {
        let steps = starts.into_iter().map(|start| match start {
            Start::Alone(path) => Step { path, depth: MAX_DEPTH, parent: None },
            Start::Below(path) => Step { path, depth: 0, parent: None },
        });
        let mut queue: VecDeque<Step> = steps.collect();
        while let Some(step) = queue.pop_front() {
            if self.report.directories >= MAX_DIRECTORIES {
                self.report.extent = Extent::Bounded;
                return;
            }
            self.step(&step, &mut queue);
        }
    }

    /// All that borrow from a clone, and how far the search went.
    pub(crate) fn finish(mut self) -> (Vec<Borrower>, BorrowerSearch) {
        self.found.sort_by(|a, b| (&a.repository, &a.borrows_from).cmp(&(&b.repository, &b.borrows_from)));
        self.report.found = self.found.len() as u64;
        (self.found, self.report)
    }

    fn step(&mut self, step: &Step, queue: &mut VecDeque<Step>) {
        let (dir, seen) = match open(&step.path) {
            Ok(opened) => opened,
            Err(error) if is_nothing(&error) => return,
            Err(_) => {
                self.report.unreadable += 1;
                return;
            }
        };
        let crosses = step.parent.as_ref().is_some_and(|parent| seen.crosses_from(parent));
        if crosses || seen.inode() == self.repos || !self.visited.insert(seen.inode()) {
            return;
        }
        self.report.directories += 1;
        self.probe(&dir, &step.path);
        if step.depth >= MAX_DEPTH {
            return;
        }
        match subdirectories(&dir) {
            Ok(names) => queue.extend(names.into_iter().map(|name| Step {
                path: step.path.join(name),
                depth: step.depth + 1,
                parent: Some(seen),
            })),
            Err(_) => self.report.unreadable += 1,
        }
    }

    /// Whether a directory is a repository, and what it needs.
    fn probe(&mut self, dir: &OwnedFd, path: &Path) {
        let git = path.join(".git");
        match seen::at(dir.as_fd(), OsStr::new(".git")).map(|seen| seen.kind) {
            Ok(FileType::Directory) => self.git_directory(path, &git),
            Ok(FileType::Symlink) => {
                self.needs(path, &git);
                self.git_directory(path, &git);
            }
            Ok(FileType::RegularFile) => {
                if let Some(target) = self.named_in(&git, Some(b"gitdir:")) {
                    let target = path.join(target);
                    self.needs(path, &target);
                    self.git_directory(path, &target);
                }
            }
            Ok(_) => {}
            Err(error) if files::is_absent(&error) => {}
            Err(_) => self.report.unreadable += 1,
        }
        if seen::at(dir.as_fd(), OsStr::new("objects")).is_ok() {
            self.git_directory(path, path);
        }
    }

    fn git_directory(&mut self, repository: &Path, git: &Path) {
        if let Some(common) = self.named_in(&git.join("commondir"), None) {
            self.needs(repository, &git.join(common));
        }
        let objects = git.join("objects");
        if seen::itself(&objects).is_ok_and(|seen| seen.kind == FileType::Symlink) {
            self.needs(repository, &objects);
        }
        self.alternates(repository, &objects, MAX_LENDERS);
    }

    fn alternates(&mut self, repository: &Path, objects: &Path, lenders: u32) {
        let Some(listed) = self.read(&objects.join("info/alternates")) else { return };
        for line in listed.split(|byte| *byte == b'\n') {
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let Some(lender) = unquoted(line) else {
                self.report.unreadable += 1;
                continue;
            };
            let lender = objects.join(lender);
            self.needs(repository, &lender);
            if lenders > 0 {
                self.alternates(repository, &lender, lenders - 1);
            }
        }
    }

    /// Notes that a repository needs a directory, if that lies in a clone and it does not itself.
    fn needs(&mut self, repository: &Path, needed: &Path) {
        let (Ok(needed), Ok(own)) = (self.placer.place(needed), self.placer.place(repository)) else {
            self.report.unreadable += 1;
            return;
        };
        let Placed { in_clone: Some((lender, borrows_from)), .. } = needed else { return };
        let is_another = own.in_clone.is_none_or(|(borrower, _)| borrower != lender);
        if is_another && self.known.insert((own.resolved.clone(), lender)) {
            self.found.push(Borrower { repository: own.resolved, borrows_from });
        }
    }

    /// The path that a one-line file holds, after its keyword.
    fn named_in(&mut self, file: &Path, keyword: Option<&[u8]>) -> Option<PathBuf> {
        let content = self.read(file)?;
        let line = content.strip_prefix(keyword.unwrap_or(b""))?.trim_ascii();
        (!line.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(line)))
    }

    fn read(&mut self, file: &Path) -> Option<Vec<u8>> {
        match files::read(file, FILE_BYTES) {
            Ok(content) => Some(content),
            Err(error) if is_nothing(&error) => None,
            Err(_) => {
                self.report.unreadable += 1;
                None
            }
        }
    }
}

fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn open(path: &Path) -> io::Result<(OwnedFd, Seen)> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = rustix::fs::open(path, flags, Mode::empty())?;
    Ok((seen::of(&dir)?, dir)).map(|(seen, dir)| (dir, seen))
}

/// The names of the real directories in a directory. A file system that does not tell what an entry is
/// gets it opened, which then says.
fn subdirectories(dir: &OwnedFd) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        let could_be = matches!(entry.file_type(), FileType::Directory | FileType::Unknown);
        if could_be && name != b"." && name != b".." && !PASSED_OVER.contains(&name) {
            names.push(OsString::from_vec(name.to_vec()));
        }
    }
    Ok(names)
}

/// A line of `alternates`: a path, or one in double quotes with backslash escapes.
fn unquoted(line: &[u8]) -> Option<PathBuf> {
    let Some(quoted) = line.strip_prefix(b"\"") else { return Some(PathBuf::from(OsStr::from_bytes(line))) };
    let mut path = Vec::new();
    let mut rest = quoted.strip_suffix(b"\"")?.iter().copied();
    while let Some(byte) = rest.next() {
        path.push(if byte == b'\\' { escape(&mut rest)? } else { byte });
    }
    Some(PathBuf::from(OsString::from_vec(path)))
}

fn escape(rest: &mut impl Iterator<Item = u8>) -> Option<u8> {
    match rest.next()? {
        b'a' => Some(7),
        b'b' => Some(8),
        b't' => Some(b'\t'),
        b'n' => Some(b'\n'),
        b'v' => Some(11),
        b'f' => Some(12),
        b'r' => Some(b'\r'),
        same @ (b'"' | b'\\') => Some(same),
        first @ b'0'..=b'3' => {
            let digits = [first, rest.next()?, rest.next()?];
            digits.iter().try_fold(0_u8, |value, digit| match digit {
                b'0'..=b'7' => value.checked_mul(8)?.checked_add(digit - b'0'),
                _ => None,
            })
        }
        _ => None,
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests build what is looked at")]
mod tests {
    use super::*;
    use crate::scan::{Scan, scan};

    struct World {
        directory: tempfile::TempDir,
        root: PathBuf,
        scan: Scan,
    }

    impl World {
        fn new() -> Self {
            let directory = tempfile::tempdir().expect("because a temporary directory can be made");
            let root = std::fs::canonicalize(directory.path()).unwrap();
            for path in [
                "cache/repos/o/r/a/.git/objects",
                "cache/repos/o/r/a/.git/worktrees/w",
                "cache/repos/o/r/.bare/objects",
            ] {
                std::fs::create_dir_all(root.join(path)).unwrap();
            }
            let scan = scan(&root.join("cache/repos")).unwrap();
            Self { directory, root, scan }
        }

        fn file(&self, path: &str, content: &str) {
            let path = self.root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }

        fn found(&self, starts: Vec<Start>) -> Vec<(PathBuf, PathBuf)> {
            let placer = Placer::new(&self.directory.path().join("cache"), &self.scan).unwrap();
            let mut search = Search::new(&placer, self.scan.root_seen.inode());
            search.look(starts);
            let (found, report) = search.finish();
            assert_eq!((report.unreadable, report.extent), (0, Extent::ToDepth));
            let strip = |path: PathBuf| path.strip_prefix(&self.root).unwrap().to_path_buf();
            found.into_iter().map(|one| (strip(one.repository), strip(one.borrows_from))).collect()
        }

        fn below(&self) -> Vec<(PathBuf, PathBuf)> {
            self.found(vec![Start::Below(self.root.clone())])
        }
    }

    fn pair(repository: &str, needed: &str) -> (PathBuf, PathBuf) {
        (repository.into(), needed.into())
    }

    #[test]
    fn everyone_who_reads_a_clones_objects_is_found() {
        let world = World::new();
        let objects = world.root.join("cache/repos/o/r/a/.git/objects");
        world.file("plain/.git/objects/info/alternates", &format!("# lent\n{}\n", objects.display()));
        world.file("x/bare/objects/info/alternates", "../../../cache/repos/o/r/a/.git/objects\n");
        world.file(
            "quoted/.git/objects/info/alternates",
            &format!("\"{}\"\n", objects.display().to_string().replace('o', "\\157")),
        );
        world.file(
            "second/.git/objects/info/alternates",
            &format!("{}\n", world.root.join("plain/.git/objects").display()),
        );
        world.file(
            "mirror/.git/objects/info/alternates",
            &format!("{}\n", world.root.join("cache/repos/o/r/.bare/objects").display()),
        );
        let needed = "cache/repos/o/r/a/.git/objects";
        assert_eq!(world.below(), ["plain", "quoted", "second", "x/bare"].map(|one| pair(one, needed)));
    }

    #[test]
    fn work_trees_and_submodules_that_live_off_a_clone_are_found() {
        let world = World::new();
        let git = world.root.join("cache/repos/o/r/a/.git");
        world.file("tree/.git", &format!("gitdir: {}\n", git.join("worktrees/w").display()));
        world.file("common/.git/commondir", "../../cache/repos/o/r/a/.git\n");
        std::fs::create_dir(world.root.join("linked")).unwrap();
        std::os::unix::fs::symlink(&git, world.root.join("linked/.git")).unwrap();
        let expected = [
            pair("common", "cache/repos/o/r/a/.git"),
            pair("linked", "cache/repos/o/r/a/.git"),
            pair("tree", "cache/repos/o/r/a/.git/worktrees/w"),
        ];
        assert_eq!(world.below(), expected);
    }

    #[test]
    fn a_clone_that_needs_another_is_found_and_one_that_needs_itself_is_none() {
        let world = World::new();
        world.file("cache/repos/o/r/b/.git", "gitdir: ../a/.git/worktrees/w\n");
        world.file("cache/repos/o/r/a/sub/.git", "gitdir: ../.git/modules/sub\n");
        let starts = ["a", "a/sub", "b"].map(|name| Start::Alone(world.root.join("cache/repos/o/r").join(name)));
        let expected = [pair("cache/repos/o/r/b", "cache/repos/o/r/a/.git/worktrees/w")];
        assert_eq!(world.found(starts.into()), expected);
    }

    #[test]
    fn the_search_ends_at_its_depth() {
        let world = World::new();
        let objects = world.root.join("cache/repos/o/r/a/.git/objects");
        for place in ["1/2/3", "1/2/3/4", "node_modules/x"] {
            world.file(&format!("{place}/.git/objects/info/alternates"), &format!("{}\n", objects.display()));
        }
        assert_eq!(world.below(), [pair("1/2/3", "cache/repos/o/r/a/.git/objects")]);
    }
}
