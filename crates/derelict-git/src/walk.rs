//! The one walk that serves everything: size, age, holders, mounts, untracked, ignored and nested.
//!
//! By descriptors, depth first, with an explicit stack: a renamed parent cannot redirect it, depth
//! costs no recursion, and however deep a tree is, only a few descriptors are open at a time. It
//! never enters a mount and never follows a symlink. What an entry *means* is the visitor's business.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, RawDir};
use rustix::io::Errno;

use crate::stat::{Stat, open_dir_at, stat_at, stat_of};

/// Told of everything the walk sees, in no particular order within a directory.
pub trait Meter {
    /// An entry with its status. The path is relative to the directory that was walked; it is empty
    /// for that directory itself.
    fn seen(&mut self, path: &[u8], stat: &Stat);
    /// Something that could not be read, so that whatever lies below it was not seen.
    fn unreadable(&mut self, path: &[u8], error: &io::Error);
    /// A mount inside; it is not entered.
    fn mount(&mut self, path: &[u8]);
}

/// Measures nothing.
pub(crate) struct Unmetered;

impl Meter for Unmetered {
    fn seen(&mut self, _: &[u8], _: &Stat) {}
    fn unreadable(&mut self, _: &[u8], _: &io::Error) {}
    fn mount(&mut self, _: &[u8]) {}
}

/// Decides what an entry means and whether a directory is entered.
pub(crate) trait Visit {
    /// What is remembered of a directory while it is walked.
    type Frame;

    /// Where sizes and the like go.
    fn meter(&mut self) -> &mut dyn Meter;
    /// A directory is about to be listed.
    fn enter(&mut self, dir: BorrowedFd<'_>, path: &[u8], frame: &mut Self::Frame);
    /// Anything that is not a directory.
    fn leaf(&mut self, at: &Entry<'_>, frame: &mut Self::Frame);
    /// A directory; `None` leaves it out, and whoever returns that has walked it or does not care.
    fn directory(&mut self, at: &Entry<'_>, frame: &mut Self::Frame) -> Option<Self::Frame>;
    /// A directory was left, everything below it done; `parent` is the frame it was entered from.
    fn leave(&mut self, frame: Self::Frame, parent: Option<&mut Self::Frame>);
    /// Something could not be read.
    fn unreadable(&mut self, path: &[u8], error: io::Error);
}

/// An entry of the directory being walked.
pub(crate) struct Entry<'a> {
    /// The open directory it lies in.
    pub(crate) dir: BorrowedFd<'a>,
    /// Its path from where the walk began.
    pub(crate) path: &'a [u8],
    /// Its own name.
    pub(crate) name: &'a [u8],
    /// Its status.
    pub(crate) stat: Stat,
}

/// Open descriptors of ancestors that are kept; those above are opened again through `..`.
const OPEN_ANCESTORS: usize = 8;

/// Bytes for one `getdents64` call: about a thousand names.
const LISTING_BYTES: usize = 32 * 1024;

struct Level<F> {
    dir: Option<OwnedFd>,
    stat: Stat,
    /// Length of the path of this directory.
    path_len: usize,
    frame: F,
    /// Subdirectories still to be entered.
    pending: Vec<(Vec<u8>, Stat, F)>,
}

/// Walks what is below `root`, which lies at `prefix`. The root itself is the caller's to report.
pub(crate) fn walk<V: Visit>(root: BorrowedFd<'_>, prefix: &[u8], frame: V::Frame, visit: &mut V) {
    let mut path = prefix.to_vec();
    let opened = stat_of(root).and_then(|stat| Ok((stat, open_dir_at(root, b".")?)));
    let (stat, dir) = match opened {
        Ok(opened) => opened,
        Err(error) => return visit.unreadable(&path, error.into()),
    };
    let mut listing = Vec::with_capacity(LISTING_BYTES);
    let mut stack = vec![list(dir, stat, frame, &mut path, &mut listing, visit)];
    while let Some(level) = stack.last_mut() {
        path.truncate(level.path_len);
        let Some((name, stat, frame)) = level.pending.pop() else {
            let done = stack.pop().expect("because the loop holds its last element");
            reopen_parent(&mut stack, &done, &path, visit);
            visit.leave(done.frame, stack.last_mut().map(|parent| &mut parent.frame));
            continue;
        };
        push(&mut path, &name);
        match enter(level, &name, &stat) {
            Ok(dir) => {
                let below = list(dir, stat, frame, &mut path, &mut listing, visit);
                stack.push(below);
                if let Some(far) = stack.len().checked_sub(OPEN_ANCESTORS + 1) {
                    stack[far].dir = None;
                }
            }
            Err(error) => {
                visit.unreadable(&path, error);
                visit.leave(frame, Some(&mut level.frame));
            }
        }
    }
}

fn enter<F>(level: &Level<F>, name: &[u8], seen: &Stat) -> io::Result<OwnedFd> {
    let parent = level.dir.as_ref().ok_or_else(moved)?;
    let dir = open_dir_at(parent.as_fd(), name)?;
    if stat_of(&dir)?.same_inode(seen) { Ok(dir) } else { Err(moved()) }
}

/// Going up: the parent's descriptor may have been given up for lack of room. `..` leads there, and
/// only there: its identity is compared.
fn reopen_parent<V: Visit>(stack: &mut [Level<V::Frame>], below: &Level<V::Frame>, path: &[u8], visit: &mut V) {
    let Some(parent) = stack.last_mut() else { return };
    if parent.dir.is_some() {
        return;
    }
    let reopened = below.dir.as_ref().ok_or(Errno::STALE).and_then(|dir| open_dir_at(dir.as_fd(), b".."));
    match reopened.and_then(|dir| Ok((stat_of(&dir)?, dir))) {
        Ok((stat, dir)) if stat.same_inode(&parent.stat) => parent.dir = Some(dir),
        // What is pending there fails one by one in `enter`; the message here names the cause once.
        Ok(_) => visit.unreadable(path, moved()),
        Err(error) => visit.unreadable(path, error.into()),
    }
}

fn moved() -> io::Error {
    io::Error::other("it was moved or replaced while being read")
}

/// Lists one directory, hands every entry to the visitor, and remembers the subdirectories.
fn list<V: Visit>(
    dir: OwnedFd,
    stat: Stat,
    mut frame: V::Frame,
    path: &mut Vec<u8>,
    buffer: &mut Vec<u8>,
    visit: &mut V,
) -> Level<V::Frame> {
    let path_len = path.len();
    visit.enter(dir.as_fd(), path, &mut frame);
    let mut pending = Vec::new();
    buffer.clear();
    let spare: &mut [MaybeUninit<u8>] = buffer.spare_capacity_mut();
    let mut entries = RawDir::new(&dir, spare);
    while let Some(entry) = entries.next() {
        let name = match &entry {
            Ok(entry) => entry.file_name().to_bytes(),
            Err(error) => {
                visit.unreadable(path, (*error).into());
                break;
            }
        };
        if name == b"." || name == b".." {
            continue;
        }
        push(path, name);
        consider(dir.as_fd(), &stat, name, path, &mut frame, &mut pending, visit);
        path.truncate(path_len);
    }
    Level { dir: Some(dir), stat, path_len, frame, pending }
}

fn consider<V: Visit>(
    dir: BorrowedFd<'_>,
    parent: &Stat,
    name: &[u8],
    path: &[u8],
    frame: &mut V::Frame,
    pending: &mut Vec<(Vec<u8>, Stat, V::Frame)>,
    visit: &mut V,
) {
    let stat = match stat_at(dir, name) {
        Ok(stat) => stat,
        // Gone between the listing and now: there is nothing left to account for.
        Err(Errno::NOENT) => return,
        Err(error) => return visit.unreadable(path, error.into()),
    };
    visit.meter().seen(path, &stat);
    if stat.crosses_from(parent) {
        return visit.meter().mount(path);
    }
    let entry = Entry { dir, path, name, stat };
    if stat.kind() == FileType::Directory {
        if let Some(below) = visit.directory(&entry, frame) {
            pending.push((name.to_vec(), stat, below));
        }
    } else {
        visit.leaf(&entry, frame);
    }
}

fn push(path: &mut Vec<u8>, name: &[u8]) {
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
}

/// Walks a directory for its meter alone: sizes, holders, mounts. The directory itself is seen first,
/// with an empty path.
pub fn measure(dir: BorrowedFd<'_>, meter: &mut dyn Meter) {
    match stat_of(dir) {
        Ok(stat) => meter.seen(b"", &stat),
        Err(error) => meter.unreadable(b"", &error.into()),
    }
    walk(dir, b"", (), &mut MeterOnly { meter });
}

/// Walks a subtree whose entries mean nothing by themselves.
pub(crate) fn measure_below(dir: BorrowedFd<'_>, prefix: &[u8], meter: &mut dyn Meter) {
    walk(dir, prefix, (), &mut MeterOnly { meter });
}

struct MeterOnly<'m> {
    meter: &'m mut dyn Meter,
}

impl Visit for MeterOnly<'_> {
    type Frame = ();

    fn meter(&mut self) -> &mut dyn Meter {
        self.meter
    }
    fn enter(&mut self, _: BorrowedFd<'_>, _: &[u8], (): &mut ()) {}
    fn leaf(&mut self, _: &Entry<'_>, (): &mut ()) {}
    fn directory(&mut self, _: &Entry<'_>, (): &mut ()) -> Option<()> {
        Some(())
    }
    fn leave(&mut self, (): (), _: Option<&mut ()>) {}
    fn unreadable(&mut self, path: &[u8], error: io::Error) {
        self.meter.unreadable(path, &error);
    }
}
