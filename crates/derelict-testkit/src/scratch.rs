//! A directory of its own for one test, gone at the end whatever was built in it. Not here: what is
//! put into it.

use std::path::{Path, PathBuf};

use crate::git::tool;

use crate::git;

/// A fresh directory that is removed when dropped.
#[derive(Debug)]
pub struct Scratch {
    root: PathBuf,
}

impl Scratch {
    /// Makes one below the system's temporary directory, with its path resolved and open to other
    /// users, because some tests act as one.
    #[must_use]
    pub fn new() -> Self {
        let made =
            tempfile::Builder::new().prefix("derelict-test-").tempdir().expect("because a test needs a directory");
        let root = made.keep().canonicalize().expect("because it was just made");
        set_mode(&root, 0o755);
        Self { root }
    }

    /// Its resolved path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.root
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Coreutils' `rm` goes deeper than the standard library, which holds a descriptor per level.
        // A failure leaves a directory among the temporary ones and must not hide the test's own.
        let removed = git::tool("rm").args(["-rf", "--one-file-system", "--"]).arg(&self.root).status();
        if !std::thread::panicking() {
            assert!(removed.is_ok_and(|status| status.success()), "cannot remove {}", self.root.display());
        }
    }
}

/// Sets the permission bits of a file or directory.
///
/// # Panics
/// When that fails.
pub fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
        .unwrap_or_else(|error| panic!("cannot change the mode of {}: {error}", path.display()));
}

/// Writes a file, making the directories above it.
///
/// # Panics
/// When that fails.
pub fn write(path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
    let path = path.as_ref();
    let parent = path.parent().expect("because a file has a directory above it");
    std::fs::create_dir_all(parent).unwrap_or_else(|error| panic!("cannot make {}: {error}", parent.display()));
    std::fs::write(path, content).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
}

/// Writes a shell script that can be run.
///
/// # Panics
/// When that fails.
pub fn write_script(path: impl AsRef<Path>, body: &str) {
    let path = path.as_ref();
    let source = path.with_extension("source");
    write(&source, format!("#!/bin/sh\n{body}"));
    // A process of its own makes the copy that is run: what another thread of ours starts meanwhile
    // inherits our descriptors for an instant, and a file that is open for writing cannot be run.
    let copied = tool("cp").args([&source, path]).status();
    assert!(copied.is_ok_and(|status| status.success()), "cannot copy to {}", path.display());
    remove(&source);
    set_mode(path, 0o755);
}

/// Reads a whole file.
///
/// # Panics
/// When that fails.
#[must_use]
pub fn read(path: impl AsRef<Path>) -> Vec<u8> {
    let path = path.as_ref();
    std::fs::read(path).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}

/// Makes a directory and those above it.
///
/// # Panics
/// When that fails.
pub fn mkdir(path: impl AsRef<Path>) {
    let path = path.as_ref();
    std::fs::create_dir_all(path).unwrap_or_else(|error| panic!("cannot make {}: {error}", path.display()));
}

/// Makes a symbolic link at `link` that names `target`.
///
/// # Panics
/// When that fails.
pub fn symlink(target: impl AsRef<Path>, link: impl AsRef<Path>) {
    std::os::unix::fs::symlink(target, &link)
        .unwrap_or_else(|error| panic!("cannot link {}: {error}", link.as_ref().display()));
}

/// Moves a file or directory.
///
/// # Panics
/// When that fails.
pub fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    std::fs::rename(&from, to).unwrap_or_else(|error| panic!("cannot move {}: {error}", from.as_ref().display()));
}

/// Removes a file, or a whole tree.
///
/// # Panics
/// When that fails.
pub fn remove(path: impl AsRef<Path>) {
    let status = git::tool("rm").args(["-rf", "--one-file-system", "--"]).arg(path.as_ref()).status();
    assert!(status.is_ok_and(|status| status.success()), "cannot remove {}", path.as_ref().display());
}

/// Whether something is there, without following a symbolic link.
#[must_use]
pub fn exists(path: impl AsRef<Path>) -> bool {
    std::fs::symlink_metadata(path).is_ok()
}

/// Gives a whole tree to another user and group of the same number; symbolic links are not followed.
///
/// # Panics
/// When that fails, as it does for anybody but the superuser.
pub fn give_to(path: impl AsRef<Path>, user: u32) {
    let status = git::tool("chown").args(["-hR", &format!("{user}:{user}"), "--"]).arg(path.as_ref()).status();
    assert!(status.is_ok_and(|status| status.success()), "cannot give {} to {user}", path.as_ref().display());
}
