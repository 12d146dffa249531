//! The walk through a git directory: lock files, repositories of submodules, objects of git-lfs, and
//! anything that has no business there and could make a reader wait or stray.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::FileType;

use crate::proof::Channel;
use crate::report::{Report, shown};
use crate::stat::stat_at;
use crate::walk::{Entry, Meter, Visit, walk};

/// What was met in a git directory.
#[derive(Debug, Default)]
pub(crate) struct Met {
    /// Git directories inside, relative to this one: of submodules, or put there by somebody.
    pub(crate) repositories: Vec<Vec<u8>>,
    /// Files in the store of git-lfs.
    pub(crate) lfs_objects: u64,
    /// Whether the files are such that reading them cannot hang or lead astray.
    pub(crate) readable: bool,
}

/// Walks the git directory `dir`, which lies at `prefix` below the walked workspace.
pub(crate) fn walk_git_dir(dir: BorrowedFd<'_>, prefix: &[u8], meter: &mut dyn Meter, report: &mut Report<'_>) -> Met {
    let met = Met { readable: true, ..Met::default() };
    let mut visit = GitDir { prefix: prefix.len() + 1, meter, report, met };
    walk(dir, prefix, (), &mut visit);
    visit.met.repositories.sort();
    visit.met
}

struct GitDir<'v, 'f> {
    prefix: usize,
    meter: &'v mut dyn Meter,
    report: &'v mut Report<'f>,
    met: Met,
}

impl GitDir<'_, '_> {
    fn strange(&mut self, path: &[u8], what: &str) {
        self.met.readable = false;
        self.report.unknown(Channel::Repository, &format!("{} is {what}", shown(path)));
    }
}

/// Directories whose contents git never opens while it reads.
const NEVER_OPENED: [&[u8]; 2] = [b"hooks/", b"lfs/"];

impl Visit for GitDir<'_, '_> {
    type Frame = ();

    fn meter(&mut self) -> &mut dyn Meter {
        self.meter
    }

    fn enter(&mut self, _: BorrowedFd<'_>, _: &[u8], (): &mut ()) {}

    fn leaf(&mut self, at: &Entry<'_>, (): &mut ()) {
        let path = &at.path[self.prefix..];
        if NEVER_OPENED.iter().any(|never| path.starts_with(never)) {
            self.met.lfs_objects += u64::from(path.starts_with(b"lfs/objects/"));
            return;
        }
        match at.stat.kind() {
            FileType::RegularFile if at.name.ends_with(b".lock") => self.report.git_lock(at.path),
            FileType::RegularFile => {}
            // An old way to write HEAD; anything else behind a symlink is not this directory's.
            FileType::Symlink if at.name == b"HEAD" => {}
            FileType::Symlink => self.strange(at.path, "a symlink"),
            // The socket of git's own file system monitor; nothing opens it.
            FileType::Socket => {}
            FileType::Directory
            | FileType::Fifo
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => self.strange(at.path, "neither a file nor a directory"),
        }
    }

    fn directory(&mut self, at: &Entry<'_>, (): &mut ()) -> Option<()> {
        let path = &at.path[self.prefix..];
        // Half of all directories of a clone are the 256 that loose objects are spread over.
        if path.starts_with(b"objects/") {
            return Some(());
        }
        let has = |name: &[u8]| stat_at(at.dir, &[at.name, b"/", name].concat()).is_ok();
        // A linked work tree's directory has a HEAD and no objects.
        if has(b"HEAD") && has(b"objects") {
            self.met.repositories.push(path.to_vec());
        }
        Some(())
    }

    fn leave(&mut self, (): (), _: Option<&mut ()>) {}

    fn unreadable(&mut self, path: &[u8], error: io::Error) {
        self.meter.unreadable(path, &error);
        self.met.readable = false;
        self.report.unknown(Channel::Repository, &format!("cannot read {}: {error}", shown(path)));
    }
}
