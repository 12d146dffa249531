//! Whole file systems of a test's own: images on loop devices and small file systems in memory, mounted
//! where the test wants them until they are dropped. Not here: mounts of what exists already, which are
//! [`crate::guards`]'.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount_remount, unmount};

use crate::git::tool;
use crate::guards::Mounted;
use crate::scratch::Scratch;

/// Mebibytes of an image. It is sparse: this is what the file systems insist on, not what is written.
const IMAGE_MIB: [(FileSystem, u64); 3] = [(FileSystem::Ext4, 16), (FileSystem::Xfs, 320), (FileSystem::Btrfs, 128)];

/// The kinds of file systems that an image can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileSystem {
    /// Nothing of it is reserved for the superuser, so that full means full.
    Ext4,
    /// With reflinks.
    Xfs,
    /// With subvolumes and reflinks.
    Btrfs,
}

impl FileSystem {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Ext4, Self::Xfs, Self::Btrfs];

    fn make(self) -> &'static [&'static str] {
        match self {
            Self::Ext4 => &["mkfs.ext4", "-q", "-F", "-m", "0", "-e", "remount-ro"],
            Self::Xfs => &["mkfs.xfs", "-q", "-f"],
            Self::Btrfs => &["mkfs.btrfs", "-q", "-f"],
        }
    }
}

/// A file system in an image of its own, mounted until it is dropped.
#[derive(Debug)]
pub struct Disk {
    at: PathBuf,
    image: PathBuf,
    // These go last, in this order: the image lies in them.
    _memory: Option<Mounted>,
    _scratch: Scratch,
}

impl Disk {
    /// Makes one and mounts it.
    ///
    /// # Panics
    /// When that fails, as it does for anybody but the superuser, or without the tools of the file system.
    #[must_use]
    pub fn mounted(kind: FileSystem, at: &Path) -> Self {
        Self::of_image(kind, at, Scratch::new(), None)
    }

    /// The same with its image in memory, where nothing waits for a disk.
    ///
    /// # Panics
    /// As [`Disk::mounted`].
    #[must_use]
    pub fn in_memory(kind: FileSystem, at: &Path) -> Self {
        let scratch = Scratch::new();
        let memory = Mounted::tmpfs(scratch.path());
        Self::of_image(kind, at, scratch, Some(memory))
    }

    fn of_image(kind: FileSystem, at: &Path, scratch: Scratch, memory: Option<Mounted>) -> Self {
        let size = IMAGE_MIB.iter().find(|(known, _)| *known == kind).map(|(_, mebibytes)| mebibytes << 20);
        let image = scratch.path().join("image");
        let made = File::create(&image).and_then(|file| file.set_len(size.expect("because every kind has a size")));
        made.unwrap_or_else(|error| panic!("cannot make {}: {error}", image.display()));
        run(kind.make(), &[&image]);
        run(&["mount", "-o", "loop"], &[&image, at]);
        Self { at: at.to_owned(), image, _memory: memory, _scratch: scratch }
    }

    /// Lets an ext4 find an error in itself, upon which it is read-only at once, whoever writes to it.
    ///
    /// # Panics
    /// When the kernel cannot be told to.
    pub fn break_down(&self) {
        let found = std::fs::metadata(&self.at).expect("because it is mounted");
        let block = format!("/sys/dev/block/{}:{}", rustix::fs::major(found.dev()), rustix::fs::minor(found.dev()));
        let device = std::fs::read_link(&block).unwrap_or_else(|error| panic!("cannot read {block}: {error}"));
        let name = device.file_name().expect("because a device has a name").to_os_string();
        let trigger = Path::new("/sys/fs/ext4").join(name).join("trigger_fs_error");
        std::fs::write(&trigger, "1").unwrap_or_else(|error| panic!("cannot write {}: {error}", trigger.display()));
    }

    /// Mends it after that, and mounts it again at the same place.
    ///
    /// # Panics
    /// When somebody still uses it, or it cannot be mended.
    pub fn repair(&self) {
        run(&["umount"], &[&self.at]);
        // It says by its exit code that it has mended something.
        let mended = tool("e2fsck").args(["-f", "-y"]).arg(&self.image).output();
        assert!(mended.is_ok_and(|ended| ended.status.code() <= Some(1)), "cannot mend {}", self.image.display());
        run(&["mount", "-o", "loop"], &[&self.image, &self.at]);
    }

    /// Makes it read-only, or writable again, while nobody writes to it.
    ///
    /// # Panics
    /// When that fails; somebody who writes to it is a reason.
    pub fn remount(&self, access: Access) {
        let flags = match access {
            Access::ReadOnly => MountFlags::RDONLY,
            Access::Writable => MountFlags::empty(),
        };
        mount_remount(&self.at, flags, "")
            .unwrap_or_else(|error| panic!("cannot remount {}: {error}", self.at.display()));
    }
}

/// What may be done on a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Only reading.
    ReadOnly,
    /// Everything.
    Writable,
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A test that is failing already must not be stopped by its cleaning up. The loop device goes with its mount.
        if let Err(error) = unmount(&self.at, UnmountFlags::DETACH) {
            eprintln!("cannot unmount {}: {error}", self.at.display());
        }
    }
}

/// Fills the file system that a directory lies on to the last byte of its last block.
///
/// # Panics
/// When not even an empty file can be made.
pub fn fill(dir: &Path) {
    let ballast = dir.join("ballast");
    let mut file = File::create(&ballast).unwrap_or_else(|error| panic!("cannot make {}: {error}", ballast.display()));
    let mut chunk = vec![7; 1 << 20];
    while !chunk.is_empty() {
        if file.write_all(&chunk).and_then(|()| file.sync_data()).is_err() {
            chunk.truncate(chunk.len() / 2);
        }
    }
}

fn run(program: &[&str], paths: &[&Path]) {
    let (name, arguments) = program.split_first().expect("because a program has a name");
    let ended = tool(name).args(arguments).args(paths).output();
    let ended = ended.unwrap_or_else(|error| panic!("cannot run {name}: {error}"));
    assert!(ended.status.success(), "{name}: {}", String::from_utf8_lossy(&ended.stderr));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::{exists, mkdir, write};

    #[test]
    fn a_disk_of_each_kind_can_be_filled_made_read_only_and_is_gone_at_the_end() {
        for kind in FileSystem::ALL {
            let scratch = Scratch::new();
            let at = scratch.path().join("at");
            mkdir(&at);
            let disk = Disk::mounted(kind, &at);
            write(at.join("f"), "x");
            disk.remount(Access::ReadOnly);
            assert!(File::create(at.join("g")).is_err(), "{kind:?}");
            disk.remount(Access::Writable);
            if kind == FileSystem::Ext4 {
                fill(&at);
                assert!(std::fs::create_dir(at.join("d")).is_err(), "{kind:?}");
                assert!(std::fs::write(at.join("one"), "x").is_err(), "{kind:?}");
            }
            drop(disk);
            assert!(!exists(at.join("f")), "{kind:?}");
        }
    }
}
