//! A file system that fails where the name of an entry says so (`EBUSY…`, `EIO…`, `ESTALE…`, `ENOTEMPTY…`,
//! `LIST-EIO…`, `HANG…`), until it is healed. What it does exactly stands in its own source.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use rustix::mount::{UnmountFlags, unmount};

use crate::git::tool;
use crate::native::FAULTY;
use crate::scratch::{Scratch, exists, write};

/// One such file system, mounted until it is dropped.
#[derive(Debug)]
pub struct Faulty {
    at: PathBuf,
    server: Child,
    backing: Scratch,
}

impl Faulty {
    /// Mounts an empty one.
    ///
    /// # Panics
    /// When it cannot be compiled or mounted.
    #[must_use]
    pub fn mounted(at: &Path) -> Self {
        let device = |path: &Path| std::fs::metadata(path).expect("because it is a directory").dev();
        let (backing, before) = (Scratch::new(), device(at));
        let mut server = tool(FAULTY.path().to_str().expect("because its name is text"));
        server.env("FAULTY_BACKING", backing.path()).args(["-f", "-o", "allow_other"]).arg(at);
        server.stdin(Stdio::null()).stderr(Stdio::null());
        let server = server.spawn().expect("because it was compiled");
        let mut faulty = Self { at: at.to_owned(), server, backing };
        while device(at) == before {
            let ended = faulty.server.try_wait().expect("because a child can be asked for");
            assert!(ended.is_none(), "the faulty file system did not come up: {ended:?}");
            std::thread::yield_now();
        }
        faulty
    }

    /// From now on nothing fails and nothing hangs.
    pub fn heal(&self) {
        write(self.backing.path().join(".healed"), "");
    }

    /// Whether somebody waits for it at this moment.
    #[must_use]
    pub fn hangs(&self) -> bool {
        exists(self.backing.path().join(".hanging"))
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        self.heal();
        // A test that is failing already must not be stopped by its cleaning up.
        if let Err(error) = unmount(&self.at, UnmountFlags::DETACH) {
            eprintln!("cannot unmount {}: {error}", self.at.display());
        }
        // Both fail only when it has ended already, which is what is wanted.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
