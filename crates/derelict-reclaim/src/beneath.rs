//! Opening directories below a root, component by component, so that no symbolic link is followed
//! and no mount is crossed on the way. Nothing is changed here, and nothing is opened by path but
//! the root itself, once.
//!
//! `openat2` is a second belt: where the kernel has it, it must lead to the same inode. Where it is
//! missing or forbidden, the walk alone carries the proof.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use derelict_core::ids::FileIdentity;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::pace::{Ask, AtOnce, Call};
use crate::stat::{Crossing, Seen, seen, seen_at, words};

/// How directories are opened: to be listed, never through a symbolic link.
const LISTED: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A root below which workspaces lie, held open from start to end.
#[derive(Debug)]
pub struct Root {
    path: PathBuf,
    dir: OwnedFd,
    seen: Seen,
}

/// A root that cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the root {}: {source}", derelict_core::ids::escaped(.path))]
pub struct RootError {
    /// The path that was given.
    pub path: PathBuf,
    /// Why, in the system's words.
    pub source: std::io::Error,
}

impl Root {
    /// Opens a root by its resolved path. This is the only time a path leads anywhere.
    ///
    /// # Errors
    /// [`RootError`] when it is missing, no directory, or a symbolic link.
    pub fn open(path: &Path) -> Result<Self, RootError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::open(path, flags, Mode::empty()).and_then(|dir| Ok((seen(&dir)?, dir)));
        let (seen, dir) = opened.map_err(|errno| RootError { path: path.to_owned(), source: errno.into() })?;
        Ok(Self { path: path.to_owned(), dir, seen })
    }

    /// The path it was opened by, for people.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What makes it that directory.
    #[must_use]
    pub fn identity(&self) -> FileIdentity {
        self.seen.identity
    }

    pub(crate) fn seen(&self) -> &Seen {
        &self.seen
    }

    pub(crate) fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

/// Where one directory lies below a root: its open parent and its name there.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) parent: OwnedFd,
    pub(crate) parent_path: PathBuf,
    pub(crate) name: CString,
}

/// Why a directory was not entered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotEntered {
    Gone,
    NotADirectory,
    Crossing(Crossing),
    Replaced,
    Failed(Errno),
}

impl std::fmt::Display for NotEntered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Gone => f.write_str("it is gone"),
            Self::NotADirectory => f.write_str("it is not a directory (any more)"),
            Self::Crossing(crossing) => crossing.fmt(f),
            Self::Replaced => f.write_str("it was replaced while it was being opened"),
            Self::Failed(errno) => f.write_str(&words(*errno)),
        }
    }
}

/// A directory that lies where it should not, or does not open: which one, and why.
#[derive(Debug)]
pub(crate) struct Obstacle {
    pub(crate) path: PathBuf,
    pub(crate) why: NotEntered,
}

/// Finds the parent of `below_root` below the root.
pub(crate) fn find(root: &Root, below_root: &Path) -> Result<Place, Obstacle> {
    let obstacle = |path: &Path, why| Obstacle { path: path.to_owned(), why };
    let mut names =
        names(below_root).ok_or_else(|| obstacle(&root.path.join(below_root), NotEntered::NotADirectory))?;
    let name = names.pop().ok_or_else(|| obstacle(&root.path, NotEntered::NotADirectory))?;
    let mut parent_path = root.path.clone();
    let reopened = rustix::fs::openat(&root.dir, c".", LISTED, Mode::empty());
    let mut parent = reopened.map_err(|errno| obstacle(&parent_path, NotEntered::Failed(errno)))?;
    for component in &names {
        parent_path.push(std::ffi::OsStr::from_bytes(component.to_bytes()));
        (parent, _) = enter(parent.as_fd(), &root.seen, component).map_err(|why| obstacle(&parent_path, why))?;
    }
    Ok(Place { parent, parent_path, name })
}

/// Opens an entry of a directory as a directory of the same tree. `top` is any directory of the
/// tree: what is on another mount or device than it is not entered.
pub(crate) fn enter(parent: BorrowedFd<'_>, top: &Seen, name: &CStr) -> Result<(OwnedFd, Seen), NotEntered> {
    enter_by(&mut AtOnce, parent, top, name)
}

/// The same, each call when it is time for it.
pub(crate) fn enter_by(
    asks: &mut impl Ask,
    parent: BorrowedFd<'_>,
    top: &Seen,
    name: &CStr,
) -> Result<(OwnedFd, Seen), NotEntered> {
    let expected = look(asks, parent, name)?;
    enter_seen(asks, parent, top, name, &expected)
}

/// Looks at an entry before it is entered.
pub(crate) fn look(asks: &mut impl Ask, parent: BorrowedFd<'_>, name: &CStr) -> Result<Seen, NotEntered> {
    asks.call(Call::Look, || seen_at(parent, name)).map_err(absent)
}

/// Opens an entry as a directory of the same tree, if it is still what was seen there.
pub(crate) fn enter_seen(
    asks: &mut impl Ask,
    parent: BorrowedFd<'_>,
    top: &Seen,
    name: &CStr,
    expected: &Seen,
) -> Result<(OwnedFd, Seen), NotEntered> {
    if expected.kind != FileType::Directory {
        return Err(NotEntered::NotADirectory);
    }
    if let Some(crossing) = top.crossing(expected) {
        return Err(NotEntered::Crossing(crossing));
    }
    let dir = asks.call(Call::Open, || rustix::fs::openat(parent, name, LISTED, Mode::empty())).map_err(absent)?;
    let found = asks.call(Call::Confirm, || seen(&dir)).map_err(NotEntered::Failed)?;
    if let Some(crossing) = top.crossing(&found) {
        return Err(NotEntered::Crossing(crossing));
    }
    if found.identity != expected.identity {
        return Err(NotEntered::Replaced);
    }
    Ok((dir, found))
}

/// The components of a path that has nothing but plain ones.
pub(crate) fn names(path: &Path) -> Option<Vec<CString>> {
    let plain = |component| match component {
        Component::Normal(name) => CString::new(name.as_bytes()).ok(),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => None,
    };
    path.components().map(plain).collect()
}

fn absent(errno: Errno) -> NotEntered {
    match errno {
        Errno::NOENT => NotEntered::Gone,
        Errno::NOTDIR | Errno::LOOP => NotEntered::NotADirectory,
        other => NotEntered::Failed(other),
    }
}

/// Opens the directory of a place, and has the kernel confirm it by one call that cannot be raced.
/// Some sandboxes lack that call or forbid it, and it gives up on a busy tree; then the walk stands
/// alone.
pub(crate) fn open_confirmed(root: &Root, below_root: &Path, place: &Place) -> Result<(OwnedFd, Seen), NotEntered> {
    let (dir, walked) = enter(place.parent.as_fd(), &root.seen, &place.name)?;
    confirm(root, below_root, &walked).map(|()| (dir, walked))
}

fn confirm(root: &Root, below_root: &Path, walked: &Seen) -> Result<(), NotEntered> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    match rustix::fs::openat2(&root.dir, below_root, flags, Mode::empty(), resolve) {
        Ok(direct) => match seen(&direct) {
            Ok(direct) if direct.identity == walked.identity => Ok(()),
            Ok(_) => Err(NotEntered::Replaced),
            Err(errno) => Err(NotEntered::Failed(errno)),
        },
        Err(Errno::XDEV) => Err(NotEntered::Crossing(Crossing::Mount)),
        Err(Errno::LOOP | Errno::NOTDIR) => Err(NotEntered::NotADirectory),
        Err(Errno::NOENT) => Err(NotEntered::Replaced),
        Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN | Errno::INVAL | Errno::TOOBIG) => Ok(()),
        Err(errno) => Err(NotEntered::Failed(errno)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_components_lead_below_a_root() {
        for bad in ["../x", "a/../b", "/a", "./a"] {
            assert_eq!(names(Path::new(bad)), None, "{bad}");
        }
        assert_eq!(names(Path::new("a/b/c")), Some(vec![c"a".into(), c"b".into(), c"c".into()]));
    }

    #[test]
    fn a_root_that_is_a_symbolic_link_is_refused() {
        let world = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/", world.path().join("root")).unwrap();
        let refused = Root::open(&world.path().join("root")).unwrap_err();
        assert_eq!(refused.source.raw_os_error(), Some(Errno::NOTDIR.raw_os_error()));
    }
}
