//! The walk through a git directory: lock files, repositories of submodules, objects of git-lfs, and
//! anything that has no business there and could make a reader wait or stray.

use std::io;
use std::os::fd::BorrowedFd;

use bstr::ByteSlice;
use gix_hash::ObjectId;
use rustix::fs::FileType;

use crate::lfs::{Pointer, parse_oid};
use crate::proof::Channel;
use crate::report::{Report, shown};
use crate::stat::stat_at;
use crate::walk::{Entry, Meter, Visit, walk};

/// What was met in a git directory.
#[derive(Debug, Default)]
pub(crate) struct Met {
    /// Git directories inside, relative to this one: of submodules, or put there by somebody.
    pub(crate) repositories: Vec<Vec<u8>>,
    /// What the store of git-lfs holds.
    pub(crate) lfs: Vec<Pointer>,
    /// Files in it that have no name of an object.
    pub(crate) lfs_strange: u64,
    /// Files in the store of git-annex.
    pub(crate) annex_objects: u64,
    /// Objects that lie loose here; some may be named by nothing.
    pub(crate) loose: Vec<ObjectId>,
    /// Indexes of packs, with the length of each.
    pub(crate) packs: Vec<(Vec<u8>, u64)>,
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
const NEVER_OPENED: [&[u8]; 3] = [b"hooks/", b"lfs/", b"annex/"];

/// A lock that git takes while it changes something, a running collection, or the lock by which a
/// person keeps a linked work tree.
fn is_lock(path: &[u8], name: &[u8]) -> bool {
    name.ends_with(b".lock") || path == b"gc.pid" || (path.starts_with(b"worktrees/") && name == b"locked")
}

/// `objects/12/3456…`: the object's name is spread over directory and file.
fn loose_object(path: &[u8]) -> Option<ObjectId> {
    let (fan, rest) = path.strip_prefix(b"objects/")?.split_once_str("/")?;
    ObjectId::from_hex(&[fan, rest].concat()).ok()
}

impl Visit for GitDir<'_, '_> {
    type Frame = ();

    fn meter(&mut self) -> &mut dyn Meter {
        self.meter
    }

    fn enter(&mut self, _: BorrowedFd<'_>, _: &[u8], (): &mut ()) {}

    fn leaf(&mut self, at: &Entry<'_>, (): &mut ()) {
        let path = &at.path[self.prefix..];
        if NEVER_OPENED.iter().any(|never| path.starts_with(never)) {
            if path.starts_with(b"lfs/objects/") {
                match parse_oid(at.name) {
                    Some(oid) => self.met.lfs.push(Pointer { oid, size: at.stat.size }),
                    None => self.met.lfs_strange += 1,
                }
            }
            self.met.annex_objects += u64::from(path.starts_with(b"annex/"));
            return;
        }
        if path.starts_with(b"git-crypt/keys/") {
            self.report.unknown(Channel::Repository, &format!("{} is a key of git-crypt", shown(at.path)));
        }
        match at.stat.kind() {
            FileType::RegularFile if is_lock(path, at.name) => self.report.git_lock(at.path),
            FileType::RegularFile => {
                self.met.loose.extend(loose_object(path));
                if path.starts_with(b"objects/pack/") && path.ends_with(b".idx") {
                    self.met.packs.push((path.to_vec(), at.stat.size));
                }
            }
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
        if has(b".git") {
            let why = format!("{} is a repository inside a git directory", shown(at.path));
            self.report.unknown(Channel::Nested, &why);
        }
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
