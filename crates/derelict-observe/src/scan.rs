//! Lists the clones of a cache: the real directories exactly two levels below an owner's directory.
//! Everything is opened from the root's descriptor, without symlinks and without crossing a mount.
//! What a clone *is* is decided from the evidence, not here.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use derelict_core::evidence::Candidate;
use derelict_core::ids::WorkspaceName;
use rustix::fs::{Mode, OFlags};

use crate::seen::{self, Inode, Seen};

/// Names that begin like this are directories that are being removed; they are nobody's workspace.
pub const TRASH_PREFIX: &str = ".derelict-trash-";

/// The bare mirror of a repository: it stays, and it is never a candidate.
pub(crate) const BARE: &str = ".bare";

/// The lock file of a repository.
const LOCK: &str = ".lock";

/// Something in the place of a clone that is not considered, and is never touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// What.
    pub path: PathBuf,
    /// In what way it is not a clone.
    pub kind: SkipKind,
    /// In words.
    pub why: String,
}

/// In what way something is not a clone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SkipKind {
    /// A symlink; it is not followed.
    Symlink,
    /// A file or something else that is no directory.
    NotADirectory,
    /// A hidden directory in the place of a workspace.
    Hidden,
    /// Something is mounted there; it is not entered.
    Mount,
    /// It could not be read, so that clones may lie below it that were not seen.
    Unreadable,
}

/// Part of a cache that may hold clones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Scope {
    /// All of it.
    Everything,
    /// What lies below one owner's directory.
    Owner(Inode),
    /// What lies in one repository's directory.
    Repository(Inode),
}

/// A clone, and where it belongs.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) candidate: Candidate,
    pub(crate) seen: Seen,
    pub(crate) owner: Inode,
    pub(crate) repository: Inode,
}

impl Found {
    pub(crate) fn inode(&self) -> Inode {
        self.seen.inode()
    }

    /// The name as an owner source would write it. Sources write text: another name is nobody's id.
    pub(crate) fn leaf(&self) -> Option<&str> {
        std::str::from_utf8(self.candidate.name.as_bytes()).ok()
    }
}

/// All that lies in a cache.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) root: OwnedFd,
    pub(crate) root_seen: Seen,
    pub(crate) found: Vec<Found>,
    pub(crate) skipped: Vec<Skipped>,
    /// Owner and repository directories, for claims that point at them.
    pub(crate) directories: HashMap<Inode, Scope>,
    /// The bare mirrors.
    pub(crate) bares: Vec<PathBuf>,
}

/// Whether a name in a repository's directory can be a clone's.
pub(crate) fn is_clone_name(name: &OsStr) -> bool {
    name != BARE && name != LOCK && !name.as_bytes().starts_with(TRASH_PREFIX.as_bytes())
}

/// Lists a cache by its canonical `repos` directory.
pub(crate) fn scan(repos: &Path) -> io::Result<Scan> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = rustix::fs::open(repos, flags, Mode::empty())?;
    let root_seen = seen::of(&root)?;
    let names = names(root.as_fd())?;
    let mut scan = Scan {
        root,
        root_seen,
        found: Vec::new(),
        skipped: Vec::new(),
        directories: HashMap::new(),
        bares: Vec::new(),
    };
    for name in names {
        scan.owner(repos, &name);
    }
    Ok(scan)
}

/// Opens a clone again by its place below the root, component by component.
pub(crate) fn open(root: BorrowedFd<'_>, below: &Path) -> io::Result<OwnedFd> {
    let mut opened: Option<OwnedFd> = None;
    for name in below.iter() {
        let parent = opened.as_ref().map_or(root, |directory| directory.as_fd());
        opened = Some(seen::open_directory(parent, name)?);
    }
    opened.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))
}

impl Scan {
    /// A clone that lies elsewhere at present, as if it lay where it did.
    pub(crate) fn as_if_there(&self, candidate: &Candidate, dir: BorrowedFd<'_>) -> io::Result<Found> {
        let repository = candidate.below_root.parent().ok_or(io::ErrorKind::InvalidFilename)?;
        let owner = repository.parent().ok_or(io::ErrorKind::InvalidFilename)?;
        let inode_of = |below: &Path| Ok::<_, io::Error>(seen::of(open(self.root.as_fd(), below)?)?.inode());
        let seen = seen::of(dir)?;
        let candidate = Candidate { identity: seen.identity, ..candidate.clone() };
        Ok(Found { candidate, seen, owner: inode_of(owner)?, repository: inode_of(repository)? })
    }

    fn owner(&mut self, repos: &Path, name: &OsStr) {
        let root = match self.root.try_clone() {
            Ok(root) => root,
            Err(error) => return self.unreadable(repos.join(name), &error),
        };
        let root_seen = self.root_seen;
        let path = repos.join(name);
        let Some((directory, seen)) = self.enter(root.as_fd(), &root_seen, name, &path) else { return };
        self.directories.insert(seen.inode(), Scope::Owner(seen.inode()));
        match names(directory.as_fd()) {
            Ok(names) => names.iter().for_each(|name| self.repository(directory.as_fd(), &seen, name, &path)),
            Err(error) => self.unreadable(path, &error),
        }
    }

    fn repository(&mut self, parent: BorrowedFd<'_>, owner: &Seen, name: &OsStr, parent_path: &Path) {
        let path = parent_path.join(name);
        let Some((directory, seen)) = self.enter(parent, owner, name, &path) else { return };
        self.directories.insert(seen.inode(), Scope::Repository(seen.inode()));
        match names(directory.as_fd()) {
            Ok(names) => names.iter().for_each(|name| self.leaf(directory.as_fd(), (owner, &seen), name, &path)),
            Err(error) => self.unreadable(path, &error),
        }
    }

    fn leaf(&mut self, parent: BorrowedFd<'_>, (owner, repository): (&Seen, &Seen), name: &OsStr, parent_path: &Path) {
        let path = parent_path.join(name);
        if !is_clone_name(name) {
            if name == BARE && seen::at(parent, name).is_ok_and(|seen| seen.is_directory()) {
                self.bares.push(path);
            }
            return;
        }
        let seen = match seen::at(parent, name) {
            Ok(seen) if seen.is_directory() => seen,
            Ok(seen) => return self.not_a_directory(path, &seen),
            // Gone since it was listed: there is nothing to account for.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => return self.unreadable(path, &error),
        };
        let (Some(repository_name), Some(owner_name)) =
            (parent_path.file_name(), parent_path.parent().and_then(Path::file_name))
        else {
            return self.unreadable(path, &io::Error::from(io::ErrorKind::InvalidFilename));
        };
        let Ok(workspace) = WorkspaceName::new(name.as_bytes()) else {
            return self.unreadable(path, &io::Error::from(io::ErrorKind::InvalidFilename));
        };
        let below_root = [owner_name, repository_name, name].iter().collect();
        let candidate = Candidate { name: workspace, path, below_root, identity: seen.identity };
        self.found.push(Found { candidate, seen, owner: owner.inode(), repository: repository.inode() });
    }

    /// Opens an owner's or a repository's directory, or says why it is passed over.
    fn enter(&mut self, dir: BorrowedFd<'_>, parent: &Seen, name: &OsStr, path: &Path) -> Option<(OwnedFd, Seen)> {
        let seen = match seen::at(dir, name) {
            Ok(seen) => seen,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                self.unreadable(path.to_path_buf(), &error);
                return None;
            }
        };
        if !seen.is_directory() {
            self.not_a_directory(path.to_path_buf(), &seen);
            return None;
        }
        if seen.crosses_from(parent) {
            let why = "something is mounted there; it is not entered".to_owned();
            self.skipped.push(Skipped { path: path.to_path_buf(), kind: SkipKind::Mount, why });
            return None;
        }
        match seen::open_directory(dir, name).and_then(|opened| Ok((seen::of(&opened)?, opened))) {
            Ok((again, opened)) if again.inode() == seen.inode() => Some((opened, again)),
            Ok(_) => {
                self.unreadable(path.to_path_buf(), &io::Error::other("it was replaced while being read"));
                None
            }
            Err(error) => {
                self.unreadable(path.to_path_buf(), &error);
                None
            }
        }
    }

    fn unreadable(&mut self, path: PathBuf, error: &io::Error) {
        let why = format!("it cannot be read: {error}");
        self.skipped.push(Skipped { path, kind: SkipKind::Unreadable, why });
    }

    fn not_a_directory(&mut self, path: PathBuf, seen: &Seen) {
        let (kind, why) = if seen.kind == rustix::fs::FileType::Symlink {
            (SkipKind::Symlink, "a symlink; it is not followed")
        } else {
            (SkipKind::NotADirectory, "not a directory")
        };
        self.skipped.push(Skipped { path, kind, why: why.to_owned() });
    }
}

/// The names in a directory, sorted by their bytes.
pub(crate) fn names(dir: BorrowedFd<'_>) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(dir)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            names.push(name.to_os_string());
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests build what is looked at")]
mod tests {
    use super::*;

    fn world(paths: &[&str]) -> tempfile::TempDir {
        let world = tempfile::tempdir().expect("because a temporary directory can be made");
        for path in paths {
            std::fs::create_dir_all(world.path().join(path)).unwrap();
        }
        world
    }

    fn below(scan: &Scan) -> Vec<&Path> {
        scan.found.iter().map(|found| found.candidate.below_root.as_path()).collect()
    }

    #[test]
    fn only_real_directories_two_levels_below_an_owner_are_candidates() {
        let world = world(&["o/r/a", "o/r/b/deep", "o/r/.bare", "o/s/c", "p", "o/r/.derelict-trash-1-2"]);
        std::fs::write(world.path().join("o/r/.lock"), "").unwrap();
        std::fs::write(world.path().join("o/r/file"), "").unwrap();
        std::fs::write(world.path().join("stray"), "").unwrap();
        std::os::unix::fs::symlink(".bare", world.path().join("o/r/link")).unwrap();
        let scan = scan(world.path()).unwrap();
        assert_eq!(below(&scan), [Path::new("o/r/a"), Path::new("o/r/b"), Path::new("o/s/c")]);
        let skipped: Vec<_> = scan.skipped.iter().map(|skipped| (skipped.path.clone(), skipped.kind)).collect();
        assert_eq!(
            skipped,
            [
                (world.path().join("o/r/file"), SkipKind::NotADirectory),
                (world.path().join("o/r/link"), SkipKind::Symlink),
                (world.path().join("stray"), SkipKind::NotADirectory),
            ]
        );
        assert_eq!(scan.bares, [world.path().join("o/r/.bare")]);
        assert_eq!(scan.directories.len(), 4);
    }

    #[test]
    fn an_owner_or_a_repository_behind_a_symlink_is_not_entered() {
        let world = world(&["real/r/a", "o"]);
        std::os::unix::fs::symlink("real", world.path().join("link")).unwrap();
        std::os::unix::fs::symlink("../real/r", world.path().join("o/r")).unwrap();
        let scan = scan(world.path()).unwrap();
        assert_eq!(below(&scan), [Path::new("real/r/a")]);
        let kinds: Vec<_> = scan.skipped.iter().map(|skipped| skipped.kind).collect();
        assert_eq!(kinds, [SkipKind::Symlink, SkipKind::Symlink]);
    }

    #[test]
    fn names_of_any_bytes_are_candidates() {
        let world = tempfile::tempdir().expect("because a temporary directory can be made");
        for name in [&b"a\nb"[..], b"bad-\xff", b"-rf", b" "] {
            std::fs::create_dir_all(world.path().join("o/r").join(OsStr::from_bytes(name))).unwrap();
        }
        let scan = scan(world.path()).unwrap();
        let names: Vec<_> = scan.found.iter().map(|found| found.candidate.name.as_bytes().to_vec()).collect();
        assert_eq!(names, [&b" "[..], b"-rf", b"a\nb", b"bad-\xff"]);
        assert_eq!(scan.found.last().expect("because there are four").leaf(), None);
    }

    #[test]
    fn a_clone_is_opened_again_without_following_anything() {
        let world = world(&["o/r/a"]);
        let scan = scan(world.path()).unwrap();
        let opened = open(scan.root.as_fd(), Path::new("o/r/a")).unwrap();
        assert_eq!(seen::of(&opened).unwrap().inode(), scan.found[0].inode());
        std::fs::rename(world.path().join("o/r"), world.path().join("o/moved")).unwrap();
        std::os::unix::fs::symlink("moved", world.path().join("o/r")).unwrap();
        assert!(open(scan.root.as_fd(), Path::new("o/r/a")).is_err());
    }
}
