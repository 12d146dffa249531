//! Finds what is named like trash where workspaces lie. Nothing is decided and nothing changed here.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use derelict_core::ids::FileIdentity;
use rustix::fs::{Mode, OFlags, RawDir};

use crate::beneath::{Root, enter};
use crate::descend::{is_dot, read_buffer};
use crate::fence::is_trash_name;
use crate::reclaimer::is_same_tree;
use crate::stat::{Seen, seen_at};

/// Something that is named like trash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trash {
    /// The directory it lies in, below the root.
    pub(crate) parent: PathBuf,
    /// Its name there.
    pub(crate) name: CString,
}

impl Trash {
    /// Its path, for people.
    pub(crate) fn path(&self, root: &Root) -> PathBuf {
        root.path().join(&self.parent).join(OsStr::from_bytes(self.name.to_bytes()))
    }
}

/// Everything that is named like trash `levels` below a root.
pub(crate) fn all(root: &Root, levels: usize) -> Vec<Trash> {
    let mut trash = Vec::new();
    collect(root.dir(), Path::new(""), root.seen(), levels, &mut trash);
    trash
}

/// `levels` is how far down workspaces lie, so this calls itself no deeper than that. What cannot be
/// listed is told by the scan, which lists the same directories.
fn collect(dir: BorrowedFd<'_>, parent: &Path, top: &Seen, levels: usize, trash: &mut Vec<Trash>) {
    if levels == 1 {
        let names = names_in(dir, |name| is_trash_name(name.to_bytes()));
        trash.extend(names.into_iter().map(|name| Trash { parent: parent.to_owned(), name }));
        return;
    }
    for name in names_in(dir, |name| !is_dot(name)) {
        if let Ok((inner, _)) = enter(dir, top, &name) {
            collect(inner.as_fd(), &parent.join(OsStr::from_bytes(name.to_bytes())), top, levels - 1, trash);
        }
    }
}

/// The trash in one directory that is the tree with this identity, whoever put it there.
pub(crate) fn holding(parent: impl AsFd, identity: &FileIdentity) -> Option<CString> {
    let parent = parent.as_fd();
    let names = names_in(parent, |name| is_trash_name(name.to_bytes()));
    names.into_iter().find(|name| seen_at(parent, name).is_ok_and(|found| is_same_tree(identity, &found)))
}

fn names_in(dir: BorrowedFd<'_>, wanted: impl Fn(&CStr) -> bool) -> Vec<CString> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(listed) = rustix::fs::openat(dir, c".", flags, Mode::empty()) else { return Vec::new() };
    let mut buffer = read_buffer();
    let mut entries = RawDir::new(listed, &mut buffer);
    let mut names = Vec::new();
    while let Some(Ok(entry)) = entries.next() {
        if wanted(entry.file_name()) {
            names.push(entry.file_name().to_owned());
        }
    }
    names
}
