//! One look at one inode: everything the other modules ask of `statx`, and the question whether an
//! entry lies on another mount or device than its tree. Nothing is opened and nothing changed here.

use std::ffi::CStr;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};

use derelict_core::ids::{FileIdentity, Timestamp};
use rustix::fs::{AtFlags, FileType, Statx, StatxAttributes, StatxFlags};
use rustix::io::Errno;

/// `st_blocks` counts units of this many bytes, whatever the file system's block size.
const BLOCK_UNIT: u64 = 512;

/// What one `statx` told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) kind: FileType,
    pub(crate) identity: FileIdentity,
    pub(crate) links: u32,
    pub(crate) bytes: u64,
    pub(crate) mode: u32,
    pub(crate) owner: u32,
    pub(crate) pinned: Pinned,
    mount: Option<u64>,
    mount_root: Option<MountRoot>,
}

/// Whether the inode carries an attribute that keeps it from being unlinked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pinned {
    No,
    Immutable,
    AppendOnly,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MountRoot {
    Yes,
    No,
}

/// Why an entry is not part of the tree it lies in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Crossing {
    Mount,
    Device,
    Untold,
}

impl fmt::Display for Crossing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mount => "something is mounted here",
            Self::Device => "it lies on another device",
            Self::Untold => "this kernel does not tell on which mount it lies",
        })
    }
}

impl Seen {
    /// Whether `other`, found inside the tree that `self` is the top of, leads out of it.
    pub(crate) fn crossing(&self, other: &Self) -> Option<Crossing> {
        if other.mount_root == Some(MountRoot::Yes) {
            return Some(Crossing::Mount);
        }
        match (self.mount, other.mount) {
            (Some(mine), Some(its)) if mine != its => return Some(Crossing::Mount),
            (Some(_), Some(_)) => {}
            (None, _) | (_, None) if other.mount_root.is_none() => return Some(Crossing::Untold),
            (None, _) | (_, None) => {}
        }
        // Files of an overlay may report another device than its directories; directories never do.
        (other.kind == FileType::Directory && other.identity.dev != self.identity.dev).then_some(Crossing::Device)
    }

    /// The mode bits that `chmod` sets.
    pub(crate) fn permissions(&self) -> u32 {
        self.mode & 0o7777
    }
}

/// Looks at an entry of a directory, without following it.
pub(crate) fn seen_at(dir: impl AsFd, name: &CStr) -> Result<Seen, Errno> {
    look(dir.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT)
}

/// Looks at what a descriptor is open on.
pub(crate) fn seen(fd: impl AsFd) -> Result<Seen, Errno> {
    look(fd.as_fd(), c"", AtFlags::EMPTY_PATH)
}

fn look(fd: BorrowedFd<'_>, name: &CStr, flags: AtFlags) -> Result<Seen, Errno> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME | StatxFlags::MNT_ID;
    rustix::fs::statx(fd, name, flags, wanted).map(|told| from_statx(&told))
}

fn from_statx(told: &Statx) -> Seen {
    let has = |flag: StatxFlags| told.stx_mask & flag.bits() != 0;
    let mount_root = told.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT).then(|| {
        match told.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
            true => MountRoot::Yes,
            false => MountRoot::No,
        }
    });
    let pinned = if told.stx_attributes.contains(StatxAttributes::IMMUTABLE) {
        Pinned::Immutable
    } else if told.stx_attributes.contains(StatxAttributes::APPEND) {
        Pinned::AppendOnly
    } else {
        Pinned::No
    };
    Seen {
        kind: FileType::from_raw_mode(told.stx_mode.into()),
        identity: FileIdentity {
            dev: rustix::fs::makedev(told.stx_dev_major, told.stx_dev_minor),
            ino: told.stx_ino,
            birth: has(StatxFlags::BTIME).then(|| Timestamp::new(told.stx_btime.tv_sec, told.stx_btime.tv_nsec)),
        },
        links: told.stx_nlink,
        bytes: told.stx_blocks * BLOCK_UNIT,
        mode: told.stx_mode.into(),
        owner: told.stx_uid,
        pinned,
        mount: has(StatxFlags::MNT_ID).then_some(told.stx_mnt_id),
        mount_root,
    }
}

/// An error number in the system's words.
pub(crate) fn words(errno: Errno) -> String {
    std::io::Error::from(errno).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> Seen {
        seen(std::fs::File::open(".").expect("because a test has a directory")).expect("because it is open")
    }

    #[test]
    fn a_directory_of_the_same_mount_is_no_crossing() {
        assert_eq!(here().crossing(&here()), None);
    }

    #[test]
    fn a_bind_mount_of_the_same_device_is_a_crossing() {
        let top = here();
        assert_eq!(top.crossing(&Seen { mount_root: Some(MountRoot::Yes), ..top }), Some(Crossing::Mount));
        let below_one = Seen { mount: top.mount.map(|id| id + 1), mount_root: Some(MountRoot::No), ..top };
        assert_eq!(top.crossing(&below_one), Some(Crossing::Mount));
    }

    #[test]
    fn another_device_counts_for_directories_only() {
        let top = here();
        let identity = FileIdentity { dev: top.identity.dev + 1, ..top.identity };
        assert_eq!(top.crossing(&Seen { identity, ..top }), Some(Crossing::Device));
        assert_eq!(top.crossing(&Seen { identity, kind: FileType::RegularFile, ..top }), None);
    }

    #[test]
    fn a_kernel_that_tells_nothing_of_mounts_is_not_trusted() {
        let top = here();
        assert_eq!(top.crossing(&Seen { mount: None, mount_root: None, ..top }), Some(Crossing::Untold));
        assert_eq!(top.crossing(&Seen { mount: None, mount_root: Some(MountRoot::No), ..top }), None);
    }
}
