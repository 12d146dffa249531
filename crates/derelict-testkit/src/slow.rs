//! A mounted file system whose every answer takes time: `fuse/slow.c`, compiled when it is asked for.
//! Needs a C compiler, `pkg-config` and the headers of libfuse 3.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::mount::{UnmountFlags, unmount};

use crate::git::{shell, tool};
use crate::guards::Mounted;
use crate::scratch::{Scratch, mkdir, write};

/// The source of the file system.
const SOURCE: &str = include_str!("../fuse/slow.c");

/// How slow it is.
#[derive(Debug, Clone, Copy)]
pub struct Slowness {
    /// To the server and back: what waits for it waits together.
    pub travel: Duration,
    /// At the server: one after the other.
    pub service: Duration,
}

/// The mounted file system; unmounted, with all that is in it gone, when dropped.
#[derive(Debug)]
pub struct Slow {
    server: Child,
    at: PathBuf,
    // In this order: the memory it shows is unmounted before its place is deleted.
    backing: Mounted,
    scratch: Scratch,
}

impl Slow {
    /// Mounts it over memory, after `fill` has put something there at full speed.
    ///
    /// # Panics
    /// When it cannot be compiled or mounted.
    #[must_use]
    pub fn mount(slowness: Slowness, fill: impl FnOnce(&Path)) -> Self {
        let scratch = Scratch::new();
        let (memory, at) = (scratch.path().join("memory"), scratch.path().join("slow"));
        mkdir(&memory);
        mkdir(&at);
        write(scratch.path().join("slow.c"), SOURCE);
        let compile = "cc -O2 -o server slow.c $(pkg-config --cflags --libs fuse3) -lpthread";
        shell(scratch.path(), compile, &[]);
        let backing = Mounted::tmpfs(&memory);
        fill(&memory);
        let micros = |duration: Duration| duration.as_micros().to_string();
        let outside = std::fs::metadata(&at).expect("because it was just made").dev();
        let mut command = tool(scratch.path().join("server").to_str().expect("because temporary paths are text"));
        command.arg(&memory).arg(&at).args([micros(slowness.travel), micros(slowness.service)]);
        let server = command.stdout(Stdio::null()).spawn().expect("because it was just compiled");
        let mut slow = Self { server, at, backing, scratch };
        // Up as soon as another file system lies there; a server that ended instead has said why.
        while std::fs::metadata(&slow.at).map_or(true, |meta| meta.dev() == outside) {
            assert!(matches!(slow.server.try_wait(), Ok(None)), "the slow file system did not come up");
            std::thread::yield_now();
        }
        slow
    }

    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.at
    }

    /// A directory beside it that is not slow.
    #[must_use]
    pub fn beside(&self) -> &Path {
        self.scratch.path()
    }

    /// How many operations the server has served.
    ///
    /// # Panics
    /// When it does not tell.
    #[must_use]
    pub fn served(&self) -> u64 {
        let mut buffer = [0; 24];
        let length = rustix::fs::getxattr(&self.at, "user.served", &mut buffer[..]).expect("because it tells");
        let text = std::str::from_utf8(&buffer[..length]).expect("because it is a number");
        text.parse().expect("because it is a number")
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        if let Err(error) = unmount(&self.at, UnmountFlags::DETACH) {
            eprintln!("cannot unmount {}: {error}", self.at.display());
        }
        // It ends with its mount; one that hangs must not keep a test.
        let _ = self.server.kill();
        let _ = self.server.wait();
        let _ = &self.backing;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_shows_what_it_was_given_and_counts_what_it_serves() {
        let slowness = Slowness { travel: Duration::ZERO, service: Duration::ZERO };
        let slow = Slow::mount(slowness, |memory| write(memory.join("d/f"), "x"));
        let before = slow.served();
        assert_eq!(crate::scratch::read(slow.path().join("d/f")), b"x");
        crate::scratch::remove(slow.path().join("d"));
        assert!(!crate::scratch::exists(slow.path().join("d")) && slow.served() > before + 4);
    }
}
