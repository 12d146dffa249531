//! File systems of their own, in an image, mounted for one test and gone at its end. Not here: what is
//! put into them.

use std::path::{Path, PathBuf};

use crate::git::{shell, tool};
use crate::guards::Mounted;
use crate::scratch::{Scratch, mkdir};

/// A mounted image, unmounted and deleted when dropped.
#[derive(Debug)]
pub struct Image {
    at: PathBuf,
    // In this order, and after the image is unmounted.
    _memory: Option<Mounted>,
    _scratch: Scratch,
}

impl Image {
    /// Makes a file system of a kind (`ext4`, `xfs`, `btrfs`) and size, as its tools do by default,
    /// and mounts it.
    ///
    /// # Panics
    /// When that fails, as it does for anybody but the superuser and without the tools of the kind.
    #[must_use]
    pub fn new(kind: &str, mebibytes: u64) -> Self {
        Self::make(kind, mebibytes, Scratch::new(), None)
    }

    /// The same with the image in memory: for measurements that are not about a disk.
    ///
    /// # Panics
    /// When that fails.
    #[must_use]
    pub fn in_memory(kind: &str, mebibytes: u64) -> Self {
        let scratch = Scratch::new();
        let memory = Mounted::tmpfs(scratch.path());
        Self::make(kind, mebibytes, scratch, Some(memory))
    }

    fn make(kind: &str, mebibytes: u64, scratch: Scratch, memory: Option<Mounted>) -> Self {
        let at = scratch.path().join("mounted");
        mkdir(&at);
        let make = format!(
            "truncate -s {mebibytes}M image\nmkfs.{kind} -q image >mkfs.log 2>&1\nmount -o loop,noatime image mounted"
        );
        shell(scratch.path(), &make, &[]);
        Self { at, _memory: memory, _scratch: scratch }
    }

    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.at
    }

    /// How many bytes are free on it once everything is written. Some file systems free what was
    /// deleted in the background: they are asked until two answers are the same.
    ///
    /// # Panics
    /// When it cannot be asked.
    #[must_use]
    pub fn free(&self) -> u64 {
        let mut last = None;
        loop {
            let synced = tool("sync").arg("-f").arg(&self.at).status();
            assert!(synced.is_ok_and(|status| status.success()), "cannot sync {}", self.at.display());
            // A remount waits for what is being deleted in the background.
            let settled = tool("mount").args(["-o", "remount,ro"]).arg(&self.at).status();
            assert!(settled.is_ok_and(|status| status.success()), "cannot settle {}", self.at.display());
            let again = tool("mount").args(["-o", "remount,rw"]).arg(&self.at).status();
            assert!(again.is_ok_and(|status| status.success()), "cannot go on with {}", self.at.display());
            let told = rustix::fs::statvfs(&self.at).expect("because it is mounted");
            let free = told.f_bfree * told.f_frsize;
            if last == Some(free) {
                return free;
            }
            last = Some(free);
        }
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let unmounted = tool("umount").arg(&self.at).status();
        if !unmounted.is_ok_and(|status| status.success()) {
            // Lazily then, so that the image can be deleted and is freed with its last user.
            let _ = tool("umount").arg("-l").arg(&self.at).status();
        }
    }
}
