//! What the kernel says of one file: its identity, its kind, its times. Asked by descriptor or by
//! path; what it means is decided elsewhere.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use derelict_core::ids::{FileIdentity, Timestamp};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};

/// Device and inode number: what makes two paths lead to the same file at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Inode {
    /// Device number, packed as `stat` packs it.
    pub(crate) dev: u64,
    /// Inode number.
    pub(crate) ino: u64,
}

/// One file as the kernel described it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) identity: FileIdentity,
    pub(crate) kind: FileType,
    /// Last change of the content; for a directory, of its list of names.
    pub(crate) modified: Timestamp,
    mount: Option<u64>,
    mount_root: bool,
}

impl Seen {
    pub(crate) fn inode(&self) -> Inode {
        Inode { dev: self.identity.dev, ino: self.identity.ino }
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.kind == FileType::Directory
    }

    /// Whether something is mounted exactly here.
    pub(crate) fn is_mount_root(&self) -> bool {
        self.mount_root
    }

    /// Whether it lies on another mount than `parent`. A bind mount has its parent's device, so the
    /// mount is asked first; a kernel that does not tell leaves only the device.
    pub(crate) fn crosses_from(&self, parent: &Self) -> bool {
        self.mount_root || self.mount != parent.mount || self.identity.dev != parent.identity.dev
    }

    /// When it came to be or was last changed, whichever is later.
    pub(crate) fn touched(&self) -> Timestamp {
        self.identity.birth.map_or(self.modified, |birth| birth.max(self.modified))
    }
}

/// A name below an open directory, itself and not what a symlink leads to.
pub(crate) fn at(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<Seen> {
    look(dir, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// What a name below an open directory leads to, symlinks and the kernel's own links followed. What the
/// kernel has cached is good enough: a file server that hangs is not asked.
pub(crate) fn followed(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<Seen> {
    #[cfg(target_os = "linux")]
    let flags = AtFlags::STATX_DONT_SYNC;
    #[cfg(not(target_os = "linux"))]
    let flags = AtFlags::empty();
    look(dir, name, flags)
}

/// What an open descriptor is.
pub(crate) fn of(file: impl AsFd) -> io::Result<Seen> {
    look(file.as_fd(), OsStr::new(""), AtFlags::empty())
}

/// What a path leads to, symlinks followed.
pub(crate) fn through(path: &Path) -> io::Result<Seen> {
    look(rustix::fs::CWD, path.as_os_str(), AtFlags::empty())
}

/// What a path itself is, the last component not followed.
pub(crate) fn itself(path: &Path) -> io::Result<Seen> {
    look(rustix::fs::CWD, path.as_os_str(), AtFlags::SYMLINK_NOFOLLOW)
}

/// Opens a directory below an open directory for listing, without following a symlink.
pub(crate) fn open_directory(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(dir, name, flags, Mode::empty())?)
}

/// With an empty name it is the descriptor itself that is asked about.
#[cfg(target_os = "linux")]
fn look(dir: BorrowedFd<'_>, name: &OsStr, flags: AtFlags) -> io::Result<Seen> {
    use rustix::fs::{StatxAttributes, StatxFlags};

    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME | StatxFlags::MNT_ID;
    let itself = if name.is_empty() { AtFlags::EMPTY_PATH } else { AtFlags::empty() };
    let found = rustix::fs::statx(dir, name, flags | itself | AtFlags::NO_AUTOMOUNT, wanted)?;
    let has = |flag: StatxFlags| found.stx_mask & flag.bits() != 0;
    let instant = |time: rustix::fs::StatxTimestamp| Timestamp::new(time.tv_sec, time.tv_nsec);
    Ok(Seen {
        identity: FileIdentity {
            dev: rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor),
            ino: found.stx_ino,
            birth: has(StatxFlags::BTIME).then(|| instant(found.stx_btime)),
        },
        kind: FileType::from_raw_mode(u32::from(found.stx_mode)),
        modified: instant(found.stx_mtime),
        mount: has(StatxFlags::MNT_ID).then_some(found.stx_mnt_id),
        mount_root: found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT),
    })
}

/// Elsewhere than on Linux there is no `statx`: births and mounts stay unknown, and with them
/// whatever would have needed them to be proved.
#[cfg(not(target_os = "linux"))]
fn look(dir: BorrowedFd<'_>, name: &OsStr, flags: AtFlags) -> io::Result<Seen> {
    let found = if name.is_empty() { rustix::fs::fstat(dir)? } else { rustix::fs::statat(dir, name, flags)? };
    Ok(Seen {
        identity: FileIdentity { dev: found.st_dev as u64, ino: found.st_ino as u64, birth: None },
        kind: FileType::from_raw_mode(found.st_mode as _),
        modified: Timestamp::new(found.st_mtime as i64, found.st_mtime_nsec as u32),
        mount: None,
        mount_root: false,
    })
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests build what is looked at")]
mod tests {
    use super::*;

    #[test]
    fn a_symlink_is_seen_as_itself_or_through_as_asked() {
        let world = tempfile::tempdir().expect("because a temporary directory can be made");
        std::fs::create_dir(world.path().join("real")).unwrap();
        std::os::unix::fs::symlink("real", world.path().join("link")).unwrap();
        let real = itself(&world.path().join("real")).unwrap();
        assert!(real.is_directory() && !real.is_mount_root());
        assert_eq!(itself(&world.path().join("link")).unwrap().kind, FileType::Symlink);
        assert_eq!(through(&world.path().join("link")).unwrap().identity, real.identity);
    }

    #[test]
    fn a_descriptor_and_a_name_give_the_same_identity() {
        let world = tempfile::tempdir().expect("because a temporary directory can be made");
        std::fs::create_dir(world.path().join("d")).unwrap();
        let root = rustix::fs::open(world.path(), OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        let opened = open_directory(root.as_fd(), OsStr::new("d")).unwrap();
        let by_name = at(root.as_fd(), OsStr::new("d")).unwrap();
        assert_eq!(of(&opened).unwrap().identity, by_name.identity);
        assert!(by_name.identity.birth.is_some());
        assert!(by_name.touched() >= by_name.modified);
        assert!(!by_name.crosses_from(&of(&root).unwrap()));
    }
}
