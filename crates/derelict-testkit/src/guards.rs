//! What a test takes hold of and must let go of however it ends: mounts, immutable files, locks,
//! processes. Each lets go when dropped. Not here: mounts for one program only, which [`crate::run`]
//! makes in a namespace of their own and which are to be preferred.

use std::ffi::CString;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};

use crate::git::tool;

/// Something mounted, seen by the whole machine until it is dropped.
#[derive(Debug)]
pub struct Mounted {
    at: PathBuf,
}

impl Mounted {
    /// Mounts a directory at another place too.
    ///
    /// # Panics
    /// When that fails, as it does for anybody but the superuser.
    #[must_use]
    pub fn bind(from: &Path, at: &Path) -> Self {
        mount_bind(from, at)
            .unwrap_or_else(|error| panic!("cannot bind {} to {}: {error}", from.display(), at.display()));
        Self { at: at.to_owned() }
    }

    /// Mounts one directory over another: what is read comes from `lower`, what is written goes to `upper`.
    ///
    /// # Panics
    /// When that fails, as it does for anybody but the superuser.
    #[must_use]
    pub fn overlay(lower: &Path, upper: &Path, work: &Path, at: &Path) -> Self {
        let (lower, upper, work) = (lower.display(), upper.display(), work.display());
        let options = CString::new(format!("lowerdir={lower},upperdir={upper},workdir={work}"));
        let options = options.expect("because a path has no NUL byte");
        mount("none", at, "overlay", MountFlags::empty(), options.as_c_str())
            .unwrap_or_else(|error| panic!("cannot mount an overlay at {}: {error}", at.display()));
        Self { at: at.to_owned() }
    }

    /// Mounts an empty file system in memory.
    ///
    /// # Panics
    /// When that fails, as it does for anybody but the superuser.
    #[must_use]
    pub fn tmpfs(at: &Path) -> Self {
        mount("none", at, "tmpfs", MountFlags::empty(), None)
            .unwrap_or_else(|error| panic!("cannot mount a tmpfs at {}: {error}", at.display()));
        Self { at: at.to_owned() }
    }

    /// Mounts an empty file system in memory that is full after so many bytes, in whole pages.
    ///
    /// # Panics
    /// When that fails, as it does for anybody but the superuser.
    #[must_use]
    pub fn small_tmpfs(at: &Path, bytes: u64) -> Self {
        let size = std::ffi::CString::new(format!("size={bytes}")).expect("because a number has no NUL byte in it");
        mount("none", at, "tmpfs", MountFlags::empty(), size.as_c_str())
            .unwrap_or_else(|error| panic!("cannot mount a tmpfs at {}: {error}", at.display()));
        Self { at: at.to_owned() }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // A test that is failing already must not be stopped by its cleaning up.
        if let Err(error) = unmount(&self.at, UnmountFlags::DETACH) {
            eprintln!("cannot unmount {}: {error}", self.at.display());
        }
    }
}

/// A file or directory that nobody can change or remove, not even the superuser, until it is dropped.
#[derive(Debug)]
pub struct Immutable {
    // By inode: it may have been moved when it is let go. Not by descriptor: that would be a use of it.
    identity: (u64, u64),
    within: PathBuf,
    flag: IFlags,
}

impl Immutable {
    /// Sets the flag on something that will still lie below `within` when it is let go.
    ///
    /// # Panics
    /// When the file system has no such flag, or for anybody but the superuser.
    #[must_use]
    pub fn set(path: &Path, within: &Path) -> Self {
        Self::flagged(path, within, IFlags::IMMUTABLE)
    }

    /// The same for one that can only be added to.
    ///
    /// # Panics
    /// As [`Immutable::set`].
    #[must_use]
    pub fn append_only(path: &Path, within: &Path) -> Self {
        Self::flagged(path, within, IFlags::APPEND)
    }

    fn flagged(path: &Path, within: &Path, flag: IFlags) -> Self {
        let meta = std::fs::symlink_metadata(path);
        let meta = meta.unwrap_or_else(|error| panic!("cannot stat {}: {error}", path.display()));
        change_flags(path, |flags| flags | flag)
            .unwrap_or_else(|error| panic!("cannot set {flag:?} on {}: {error}", path.display()));
        Self { identity: (meta.dev(), meta.ino()), within: within.to_owned(), flag }
    }
}

impl Drop for Immutable {
    fn drop(&mut self) {
        match find(&self.within, self.identity) {
            Some(path) => {
                if let Err(error) = change_flags(&path, |flags| flags - self.flag) {
                    eprintln!("cannot take {:?} from {}: {error}", self.flag, path.display());
                }
            }
            None => eprintln!("what was made immutable is not below {} any more", self.within.display()),
        }
    }
}

fn change_flags(path: &Path, change: impl FnOnce(IFlags) -> IFlags) -> std::io::Result<()> {
    let file = File::open(path)?;
    Ok(ioctl_setflags(&file, change(ioctl_getflags(&file)?))?)
}

/// Where an inode lies now.
fn find(top: &Path, identity: (u64, u64)) -> Option<PathBuf> {
    let mut open = vec![top.to_owned()];
    while let Some(path) = open.pop() {
        let Ok(meta) = std::fs::symlink_metadata(&path) else { continue };
        if (meta.dev(), meta.ino()) == identity {
            return Some(path);
        }
        if meta.is_dir() {
            open.extend(std::fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        }
    }
    None
}

/// An exclusive `flock`, as a launcher or a person holds one.
#[derive(Debug)]
pub struct Flock {
    _file: File,
}

impl Flock {
    /// Takes the lock of a lock file, which is made if it is missing.
    ///
    /// # Panics
    /// When somebody else has it.
    #[must_use]
    pub fn file(path: &Path) -> Self {
        let parent = path.parent().expect("because a lock file lies in a directory");
        crate::scratch::mkdir(parent);
        let file = File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
        Self::lock(file.unwrap_or_else(|error| panic!("cannot open {}: {error}", path.display())))
    }

    /// Takes the lock on a directory itself.
    ///
    /// # Panics
    /// When somebody else has it.
    #[must_use]
    pub fn directory(path: &Path) -> Self {
        Self::lock(File::open(path).unwrap_or_else(|error| panic!("cannot open {}: {error}", path.display())))
    }

    fn lock(file: File) -> Self {
        file.try_lock().expect("because nobody else has the lock");
        Self { _file: file }
    }
}

/// A process that does nothing but be somewhere. It ends when dropped, and with the test process at
/// the latest, because its input ends then.
#[derive(Debug)]
pub struct Idle(Child);

impl Idle {
    /// One whose working directory is this.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn in_directory(directory: &Path) -> Self {
        let child = tool("cat").current_dir(directory).stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        Self(child.expect("because cat can be started"))
    }

    /// One that has this file open.
    ///
    /// # Panics
    /// When it cannot be started or the file cannot be opened.
    #[must_use]
    pub fn with_open_file(path: &Path) -> Self {
        let file = File::options().append(true).open(path);
        let file = file.unwrap_or_else(|error| panic!("cannot open {}: {error}", path.display()));
        let child = tool("cat").current_dir("/").stdin(Stdio::piped()).stdout(file).spawn();
        Self(child.expect("because cat can be started"))
    }

    /// One that has this shared library loaded, its descriptor long closed.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn with_loaded_library(library: &Path) -> Self {
        let mut command = tool("cat");
        command.env("LD_PRELOAD", library);
        Self::echoing(command)
    }

    /// One that has a file system of its own mounted here, in a mount namespace that nobody else sees.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn with_private_mount(at: &Path) -> Self {
        let mut command = tool("unshare");
        command.args(["-m", "sh", "-c", "mount -t tmpfs private \"$0\" && exec cat"]).arg(at);
        Self::echoing(command)
    }

    /// It is up once it has answered.
    fn echoing(mut command: Command) -> Self {
        let child = command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.expect("because the program can be started");
        let (input, output) = (child.stdin.as_mut(), child.stdout.as_mut());
        writeln!(input.expect("because it is a pipe"), "ready").expect("because it reads");
        let mut line = String::new();
        let read = BufReader::new(output.expect("because it is a pipe")).read_line(&mut line);
        let idle = Self(child);
        assert_eq!((read.ok(), line.as_str()), (Some(6), "ready\n"), "it did not come up");
        idle
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        // Both fail only when it has ended already, which is what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::{Scratch, exists, mkdir, write};

    #[test]
    fn an_immutable_file_stays_until_the_guard_lets_go() {
        let scratch = Scratch::new();
        let file = scratch.path().join("f");
        write(&file, "x");
        let guard = Immutable::set(&file, scratch.path());
        assert!(std::fs::remove_file(&file).is_err());
        mkdir(scratch.path().join("d/e"));
        let moved = Immutable::set(&scratch.path().join("d/e"), scratch.path());
        std::fs::rename(scratch.path().join("d"), scratch.path().join("moved")).expect("because its parent can move");
        drop((guard, moved));
        assert!(std::fs::remove_file(&file).is_ok());
        assert!(std::fs::remove_dir_all(scratch.path().join("moved")).is_ok());
    }

    #[test]
    fn a_mount_is_gone_after_a_panic() {
        let scratch = Scratch::new();
        let (from, at) = (scratch.path().join("from"), scratch.path().join("at"));
        write(from.join("f"), "x");
        mkdir(&at);
        let panicked = std::panic::catch_unwind(|| {
            let _mounts = (Mounted::tmpfs(&at), Mounted::bind(&from, &at));
            assert!(exists(at.join("f")));
            panic!("in the middle of a test");
        });
        assert!(panicked.is_err());
        assert_eq!((exists(at.join("f")), exists(from.join("f"))), (false, true));
    }

    #[test]
    fn a_lock_is_held_until_it_is_dropped() {
        let scratch = Scratch::new();
        let path = scratch.path().join("deep/.lock");
        let guard = Flock::file(&path);
        let other = File::open(&path).expect("because it was made");
        assert!(other.try_lock().is_err());
        drop(guard);
        // A child that another test starts may hold a copy of the descriptor, and the lock, for an instant.
        assert!(other.lock().is_ok());
        let directory = Flock::directory(scratch.path());
        assert!(File::open(scratch.path()).expect("because it is there").try_lock().is_err());
        drop(directory);
    }

    #[test]
    fn an_idle_process_is_where_it_was_put() {
        let scratch = Scratch::new();
        let idle = Idle::in_directory(scratch.path());
        let cwd = std::fs::read_link(format!("/proc/{}/cwd", idle.pid()));
        assert_eq!(cwd.expect("because it runs"), scratch.path());
        let file = scratch.path().join("f");
        write(&file, "");
        let open = Idle::with_open_file(&file);
        let stdout = std::fs::read_link(format!("/proc/{}/fd/1", open.pid()));
        assert_eq!(stdout.expect("because it runs"), file);
    }
}
