//! File locks on a directory, as the kernel lists them. Our own are no news.

use derelict_core::evidence::{Blind, Signal};
use derelict_core::ids::escaped;

use crate::files;
use crate::seen::Inode;

use std::path::Path;

/// The kernel's list of locks, of all that our pid namespace can see.
const LOCKS: &str = "/proc/locks";

/// How long that list may be: some hundred thousand locks.
const BYTES: u64 = 16 << 20;

/// Major number of devices that stand for no disk. File systems of this kind may give `stat` another
/// device number than the kernel knows the lock by.
const ANONYMOUS: u32 = 0;

/// All locks at one instant.
#[derive(Debug)]
pub(crate) struct Locks {
    held: Vec<Lock>,
}

#[derive(Debug, PartialEq, Eq)]
struct Lock {
    pid: i64,
    major: u32,
    minor: u32,
    ino: u64,
}

impl Locks {
    /// Reads the list.
    pub(crate) fn snapshot() -> Result<Self, Blind> {
        let bytes = files::read(Path::new(LOCKS), BYTES).map_err(|error| Blind {
            signal: Signal::Use,
            why: format!("cannot read {}: {error}", escaped(Path::new(LOCKS))),
        })?;
        Ok(Self { held: bytes.split(|byte| *byte == b'\n').filter_map(parse).collect() })
    }

    /// Whether somebody else than `own` holds or waits for a lock on this file.
    pub(crate) fn is_locked(&self, inode: Inode, own: u32) -> bool {
        let (major, minor) = (rustix::fs::major(inode.dev), rustix::fs::minor(inode.dev));
        self.held.iter().any(|lock| {
            let same_device =
                (lock.major, lock.minor) == (major, minor) || major == ANONYMOUS || lock.major == ANONYMOUS;
            lock.ino == inode.ino && same_device && lock.pid != i64::from(own)
        })
    }
}

/// One line: `1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF`, or with `->` before the kind for one
/// that waits.
fn parse(line: &[u8]) -> Option<Lock> {
    let line = std::str::from_utf8(line).ok()?;
    let mut fields = line.split_ascii_whitespace().skip(1).skip_while(|field| *field == "->").skip(3);
    let pid = fields.next()?.parse().ok()?;
    let mut file = fields.next()?.split(':');
    let major = u32::from_str_radix(file.next()?, 16).ok()?;
    let minor = u32::from_str_radix(file.next()?, 16).ok()?;
    let ino = file.next()?.parse().ok()?;
    Some(Lock { pid, major, minor, ino })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &[u8] =
        b"1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 99 fe:00:5678 0 EOF\n\
        2: OFDLCK ADVISORY  READ  -1 00:2a:77 0 EOF\n3: POSIX  ADVISORY  WRITE 7 nonsense\n\n";

    fn locks() -> Locks {
        Locks { held: LIST.split(|byte| *byte == b'\n').filter_map(parse).collect() }
    }

    fn inode(major: u32, minor: u32, ino: u64) -> Inode {
        Inode { dev: rustix::fs::makedev(major, minor), ino }
    }

    #[test]
    fn held_and_awaited_locks_are_read_and_ours_are_no_news() {
        let locks = locks();
        assert_eq!(locks.held.len(), 3);
        assert!(locks.is_locked(inode(0xfe, 0, 5678), 1));
        assert!(locks.is_locked(inode(0xfe, 0, 5678), 1234));
        assert!(!locks.is_locked(inode(0xfe, 0, 5679), 1));
        assert!(!locks.is_locked(inode(0xfe, 1, 5678), 1));
        let own = Locks { held: vec![Lock { pid: 5, major: 8, minor: 1, ino: 9 }] };
        assert!(!own.is_locked(inode(8, 1, 9), 5));
    }

    #[test]
    fn where_device_numbers_cannot_be_compared_the_inode_number_decides() {
        assert!(locks().is_locked(inode(0, 0x2b, 77), 1));
        assert!(!locks().is_locked(inode(0, 0x2b, 78), 1));
    }

    #[test]
    fn the_kernels_own_list_is_readable_here() {
        assert!(Locks::snapshot().is_ok());
    }
}
