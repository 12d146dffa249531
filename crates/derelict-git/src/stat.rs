//! What the kernel says of one directory entry, and how it is asked: relative to an open
//! descriptor, never following a symlink, never triggering an automount.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxAttributes, StatxFlags};
use rustix::io::Errno;

/// The parts of `statx` that a proof or a size needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Device number, packed by the kernel's convention.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// File type and permission bits.
    pub mode: u32,
    /// How many names the inode has.
    pub nlink: u64,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Length in bytes.
    pub size: u64,
    /// Blocks of 512 bytes on disk.
    pub blocks: u64,
    /// Last change of the content: seconds and nanoseconds since the epoch.
    pub mtime: (i64, u32),
    /// Last change of content or inode: seconds and nanoseconds since the epoch.
    pub ctime: (i64, u32),
    /// The mount it was reached through, where the kernel tells (Linux 5.8).
    pub(crate) mount: Option<u64>,
    /// Whether something is mounted right here.
    pub(crate) mount_root: bool,
}

impl Stat {
    /// The type of file.
    #[must_use]
    pub fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.mode)
    }

    pub(crate) fn same_inode(&self, other: &Self) -> bool {
        self.dev == other.dev && self.ino == other.ino
    }

    /// Whether the entry lies on another mount than its directory. A bind mount has the same device,
    /// so the mount is asked first; a kernel that does not know mounts leaves only the device.
    pub(crate) fn crosses_from(&self, parent: &Self) -> bool {
        self.mount_root || self.mount != parent.mount || self.dev != parent.dev
    }
}

/// `statx` of a name below a directory.
pub(crate) fn stat_at(dir: BorrowedFd<'_>, name: &[u8]) -> Result<Stat, Errno> {
    stat(dir, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT)
}

/// `statx` of an open descriptor.
pub(crate) fn stat_of(file: impl AsFd) -> Result<Stat, Errno> {
    stat(file.as_fd(), b"", AtFlags::EMPTY_PATH)
}

fn stat(dir: BorrowedFd<'_>, name: &[u8], flags: AtFlags) -> Result<Stat, Errno> {
    let found = rustix::fs::statx(dir, name, flags, StatxFlags::BASIC_STATS | StatxFlags::MNT_ID)?;
    let knows_mount = found.stx_mask & StatxFlags::MNT_ID.bits() != 0;
    Ok(Stat {
        dev: rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor),
        ino: found.stx_ino,
        mode: u32::from(found.stx_mode),
        nlink: u64::from(found.stx_nlink),
        uid: found.stx_uid,
        gid: found.stx_gid,
        size: found.stx_size,
        blocks: found.stx_blocks,
        mtime: (found.stx_mtime.tv_sec, found.stx_mtime.tv_nsec),
        ctime: (found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec),
        mount: knows_mount.then_some(found.stx_mnt_id),
        mount_root: found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT),
    })
}

/// Opens a directory below a directory, without following a symlink.
pub(crate) fn open_dir_at(dir: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(
        dir,
        name,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
    )
}

/// Opens a regular file below a directory for reading; never waits for a FIFO, never follows a symlink.
pub(crate) fn open_file_at(dir: BorrowedFd<'_>, name: &[u8]) -> Result<std::fs::File, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    rustix::fs::openat(dir, name, flags, Mode::empty()).map(std::fs::File::from)
}
