//! What the file system itself asks for where workspaces lie directly below a root: bare system calls on two threads,
//! with nothing remembered and nothing decided.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, bail};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, StatxFlags, openat, statx};

/// As many as the machine has that the targets were measured on.
const THREADS: usize = 2;

/// What one listing asks the kernel for at once.
const LISTING_BYTES: usize = 32 * 1024;

/// How far a workspace is looked into.
#[derive(Debug, Clone, Copy)]
enum Depth {
    /// Its top level: the kinds of the entries, as the listing tells them.
    Layout,
    /// All of it, with one `statx` for every entry.
    Whole,
}

/// Does it for a root, in this process, and prints how much that was.
pub(crate) fn run(depth: &str, root: &Path) -> anyhow::Result<()> {
    let depth = match depth {
        "layout" => Depth::Layout,
        "whole" => Depth::Whole,
        other => bail!("a floor goes `layout` or `whole`, not {other}"),
    };
    let root = rustix::fs::open(root, flags(), Mode::empty()).with_context(|| format!("cannot open {root:?}"))?;
    let mut names = Vec::new();
    list(root.as_fd(), &mut |name, _| {
        names.push(name.to_owned());
        Ok(())
    })?;
    let next = AtomicUsize::new(0);
    let work = || -> anyhow::Result<u64> {
        let mut entries = 0;
        while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
            entries += workspace(root.as_fd(), name, depth)?;
        }
        Ok(entries)
    };
    let entries = std::thread::scope(|threads| {
        let others: Vec<_> = (1..THREADS).map(|_| threads.spawn(work)).collect();
        let own = work()?;
        others.into_iter().try_fold(own, |sum, other| {
            let other = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            other.map(|entries| sum + entries)
        })
    })?;
    println!("{} directories, {entries} entries in them", names.len());
    Ok(())
}

fn flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

fn look(dir: BorrowedFd<'_>, name: &CStr) -> anyhow::Result<()> {
    let asked = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    statx(dir, name, AtFlags::SYMLINK_NOFOLLOW, asked).with_context(|| format!("cannot look at {name:?}"))?;
    Ok(())
}

fn workspace(root: BorrowedFd<'_>, name: &CStr, depth: Depth) -> anyhow::Result<u64> {
    look(root, name)?;
    let dir = open(root, name)?;
    match depth {
        Depth::Whole => whole(dir.as_fd()),
        Depth::Layout => {
            let mut entries = 0;
            list(dir.as_fd(), &mut |_, _| {
                entries += 1;
                Ok(())
            })?;
            Ok(entries)
        }
    }
}

fn whole(dir: BorrowedFd<'_>) -> anyhow::Result<u64> {
    let mut entries = 0;
    list(dir, &mut |name, kind| {
        look(dir, name)?;
        entries += 1;
        if kind == FileType::Directory {
            entries += whole(open(dir, name)?.as_fd())?;
        }
        Ok(())
    })?;
    Ok(entries)
}

fn open(dir: BorrowedFd<'_>, name: &CStr) -> anyhow::Result<OwnedFd> {
    openat(dir, name, flags(), Mode::empty()).with_context(|| format!("cannot open {name:?}"))
}

fn list(dir: BorrowedFd<'_>, each: &mut dyn FnMut(&CStr, FileType) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let mut buffer = [MaybeUninit::uninit(); LISTING_BYTES];
    let mut listing = RawDir::new(dir, &mut buffer);
    while let Some(entry) = listing.next() {
        let entry = entry.context("cannot list a directory")?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            each(entry.file_name(), entry.file_type())?;
        }
    }
    Ok(())
}
