//! Reads what the kernel shows of processes: its lists are directories of numbers and files of one line.

use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{Mode, OFlags, RawDir};

/// Where the kernel shows processes.
pub(crate) const PROC: &str = "/proc";

/// How much of a one-line file is read.
const LINE_BYTES: usize = 1024;

/// Bytes for one listing: some hundred names.
const LISTING_BYTES: usize = 8 * 1024;

/// Elsewhere than on Linux nothing shows who uses a directory, and what cannot be seen keeps.
pub(crate) fn open_proc() -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let proc = rustix::fs::open(PROC, flags, Mode::empty())?;
    #[cfg(target_os = "linux")]
    if rustix::fs::fstatfs(&proc)?.f_type == rustix::fs::PROC_SUPER_MAGIC {
        return Ok(proc);
    }
    drop(proc);
    Err(io::Error::other("it is not the kernel's view of processes"))
}

pub(crate) fn name_of(number: u32) -> OsString {
    number.to_string().into()
}

/// The names in a directory that are numbers: processes, threads, descriptors. Others are no news.
pub(crate) fn numbers(dir: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let mut numbers = Vec::new();
    let mut buffer = [MaybeUninit::uninit(); LISTING_BYTES];
    let mut entries = RawDir::new(dir, &mut buffer);
    while let Some(entry) = entries.next() {
        numbers.extend(entry?.file_name().to_str().ok().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(numbers)
}

/// A one-line file; empty when it cannot be read, as of a process that ended meanwhile.
pub(crate) fn line(dir: BorrowedFd<'_>, name: &str) -> String {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut bytes = [0; LINE_BYTES];
    // The kernel hands such a file out in one piece.
    let read = rustix::fs::openat(dir, name, flags, Mode::empty()).and_then(|file| rustix::io::read(file, &mut bytes));
    let length = read.unwrap_or(0);
    OsStr::from_bytes(bytes[..length].trim_ascii_end()).to_string_lossy().into_owned()
}
