//! One lock file, held with `flock` as the tools that share it do: made if it is missing, taken
//! with one bounded wait, and certain to be the file its path leads to. Which files are locks, and
//! in which order they are taken, is up to `lock`, `release` and `journal`.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::stat::{seen, seen_at};

/// How often a lock that somebody else holds is tried while waiting for it.
const POLL: Duration = Duration::from_millis(20);

/// How often a lock file may be unlinked under us before we give up on it.
const MOST_REOPENS: u32 = 16;

/// How lock files are opened: never through a link, and never to wait for the other end of a pipe.
const OPENED: OFlags = OFlags::RDWR.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// A lock that is held until it is dropped. A file that was made for it goes with it.
#[derive(Debug)]
pub(crate) struct Held {
    dir: OwnedFd,
    name: CString,
    file: OwnedFd,
    made: Made,
}

/// Who made the lock file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Made {
    ByUs,
    ByOthers,
}

/// Why a lock was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotTaken {
    Busy,
    Failed(Errno),
}

/// Takes the lock file `name` in `dir`, waiting for it no longer than `wait`.
pub(crate) fn take(dir: OwnedFd, name: CString, wait: Duration) -> Result<Held, NotTaken> {
    let start = Instant::now();
    for _ in 0..MOST_REOPENS {
        let (file, made) = open_or_make(&dir, &name).map_err(NotTaken::Failed)?;
        lock(&file, start, wait)?;
        let locked = seen(&file).map_err(NotTaken::Failed)?;
        match seen_at(&dir, &name) {
            Ok(named) if named.identity == locked.identity => return Ok(Held { dir, name, file, made }),
            // The last holder unlinked it while we waited: what we hold is a lock on nothing.
            Ok(_) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(NotTaken::Failed(errno)),
        }
    }
    Err(NotTaken::Busy)
}

/// Whether somebody holds the lock file at this instant. Nothing is made and nothing stays locked.
pub(crate) fn is_held(dir: impl AsFd, name: &CStr) -> Result<bool, Errno> {
    let file = match rustix::fs::openat(dir, name, OPENED, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(false),
        Err(errno) => return Err(errno),
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(false),
        Err(Errno::WOULDBLOCK) => Ok(true),
        Err(errno) => Err(errno),
    }
}

/// Locks an open file, waiting for it no longer than `wait` from `start`.
pub(crate) fn lock(file: impl AsFd, start: Instant, wait: Duration) -> Result<(), NotTaken> {
    loop {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) if start.elapsed() < wait => std::thread::sleep(POLL),
            Err(Errno::WOULDBLOCK) => return Err(NotTaken::Busy),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(NotTaken::Failed(errno)),
        }
    }
}

fn open_or_make(dir: &OwnedFd, name: &CStr) -> Result<(OwnedFd, Made), Errno> {
    let owner_only = Mode::RUSR | Mode::WUSR;
    for _ in 0..MOST_REOPENS {
        match rustix::fs::openat(dir, name, OPENED, Mode::empty()) {
            Ok(file) if seen(&file)?.kind == FileType::RegularFile => return Ok((file, Made::ByOthers)),
            Ok(_) => return Err(Errno::INVAL),
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
        match rustix::fs::openat(dir, name, OPENED | OFlags::CREATE | OFlags::EXCL, owner_only) {
            Ok(file) => return Ok((file, Made::ByUs)),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::AGAIN)
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.made == Made::ByOthers {
            return;
        }
        let ours = seen(&self.file).and_then(|held| Ok(held.identity == seen_at(&self.dir, &self.name)?.identity));
        if ours == Ok(true) {
            // A lock file that stays behind is empty and harms nobody: the next holder takes it.
            let _ = rustix::fs::unlinkat(&self.dir, &self.name, AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn whoever_waited_for_a_lock_file_that_went_with_its_holder_holds_the_one_that_is_there() {
        let world = tempfile::tempdir().unwrap();
        let dir = || OwnedFd::from(File::open(world.path()).unwrap());
        let taken = |wait| take(dir(), c"lock".to_owned(), wait);
        let first = taken(Duration::ZERO).unwrap();
        assert!(matches!(taken(Duration::ZERO), Err(NotTaken::Busy)));
        assert_eq!(is_held(dir(), c"lock"), Ok(true));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| taken(Duration::from_secs(60)));
            drop(first);
            let second = waiting.join().unwrap().unwrap();
            let held = seen(&second.file).unwrap().identity;
            assert_eq!(seen_at(dir(), c"lock").map(|named| named.identity), Ok(held));
            assert!(matches!(taken(Duration::ZERO), Err(NotTaken::Busy)));
        });
        assert_eq!(is_held(dir(), c"lock"), Ok(false));
    }

    /// Waits until so many descriptors of this process are open on `path`.
    fn until_open(path: &std::path::Path, times: usize) {
        let count = || {
            let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten().map(|fd| std::fs::read_link(fd.path()));
            links.filter(|link| link.as_ref().is_ok_and(|link| link == path)).count()
        };
        while count() < times {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_lock_on_a_file_that_is_not_there_any_more_is_no_lock() {
        let world = tempfile::tempdir().unwrap();
        let path = world.path().canonicalize().unwrap().join("lock");
        let dir = || OwnedFd::from(File::open(world.path()).unwrap());
        let old = File::create(&path).unwrap();
        old.lock().unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| take(dir(), c"lock".to_owned(), Duration::from_secs(60)));
            until_open(&path, 2);
            std::fs::remove_file(&path).unwrap();
            File::create(&path).unwrap();
            drop(old);
            let held = waiting.join().unwrap().unwrap();
            assert_eq!(seen(&held.file).unwrap().identity, seen_at(dir(), c"lock").unwrap().identity);
        });
    }

    #[test]
    fn a_lock_file_that_was_replaced_under_us_is_not_unlinked() {
        let world = tempfile::tempdir().unwrap();
        let held = take(File::open(world.path()).unwrap().into(), c"lock".to_owned(), Duration::ZERO).unwrap();
        std::fs::rename(world.path().join("lock"), world.path().join("old")).unwrap();
        File::create(world.path().join("lock")).unwrap();
        drop(held);
        assert!(world.path().join("lock").exists() && world.path().join("old").exists());
    }
}
