//! Puts a rescued directory together again: files from the archive, objects from the bundle and from the repositories that
//! stay, and every file that was only noted from those objects. It is built beside its place and takes it last,
//! replacing nothing.

use std::ffi::{CString, OsStr};
use std::fs::{DirBuilder, File};
use std::io::{self, BufReader, BufWriter, Read, Seek as _, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};

use derelict_core::ids::escaped;
use derelict_core::rescue::{Blobs, Unbundle};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Timespec, Timestamps, Uid};
use rustix::io::Errno;

use super::entry::{Entry, What, set_xattrs, split};
use super::{ARCHIVE, BUFFER, BUNDLE, ENTRIES, Manifest, archive};
use crate::beneath::names;
use crate::fence::TRASH_PREFIX;

/// Stores that borrow from stores: git follows five.
const DEEPEST_BORROWING: usize = 5;

/// Runs of zeros of this length become holes.
const HOLE: usize = 4096;

/// What was put together again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    /// Where it lies now.
    pub path: PathBuf,
    /// What could not be made as it was, in words; its content is whole.
    pub notes: Vec<String>,
}

/// Why an entry was not given back. Nothing lies at its place then, and the entry is as it was.
#[derive(Debug, thiserror::Error)]
#[error("cannot restore {}: {why}", escaped(.path))]
pub struct NotUnpacked {
    path: PathBuf,
    why: String,
}

/// Gives an entry back at `target`, where nothing may lie, or at the place it came from.
///
/// # Errors
/// [`NotUnpacked`] says why; nothing has changed.
pub fn restore(entry: &Path, target: Option<&Path>, unbundle: &dyn Unbundle) -> Result<Restored, NotUnpacked> {
    let failed = |why: String| NotUnpacked { path: entry.to_owned(), why };
    let manifest = Manifest::read(entry).map_err(failed)?;
    manifest.verify(entry).map_err(failed)?;
    let target = target.unwrap_or(&manifest.candidate.path);
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = target.file_name().ok_or_else(|| failed(format!("{} is no place for it", escaped(target))))?;
    if target.symlink_metadata().is_ok() {
        return Err(failed(format!("{} is there; name another place with --to", escaped(target))));
    }
    let in_place = |error: io::Error| failed(format!("in {}: {error}", escaped(parent)));
    let parent_dir = File::open(parent).map_err(in_place)?;
    let staging = format!("{}restoring-{}", OsStr::from_bytes(TRASH_PREFIX).to_string_lossy(), std::process::id());
    let staged = parent.join(&staging);
    DirBuilder::new().mode(0o700).create(&staged).map_err(in_place)?;
    let built = build(entry, &manifest, &staged, unbundle).map_err(|error| failed(error.to_string()));
    let placed = built.and_then(|notes| {
        let rename =
            rustix::fs::renameat_with(&parent_dir, staging.as_str(), &parent_dir, name, RenameFlags::NOREPLACE);
        let synced = rename.and_then(|()| rustix::fs::fsync(&parent_dir));
        synced.map_err(|errno| failed(format!("{}: {}", escaped(target), io::Error::from(errno))))?;
        Ok(Restored { path: target.to_owned(), notes })
    });
    if placed.is_err() && staged.symlink_metadata().is_ok() {
        // It is ours alone, and what failed is told; what is left of it lies beside the place by its own name.
        let _ = std::fs::remove_dir_all(&staged);
    }
    placed
}

fn build(entry: &Path, manifest: &Manifest, staged: &Path, unbundle: &dyn Unbundle) -> io::Result<Vec<String>> {
    let mut builder =
        Builder { top: File::open(staged)?.into(), directories: Vec::new(), checkouts: Vec::new(), notes: Vec::new() };
    archive::read(&entry.join(ARCHIVE), &entry.join(ENTRIES), |entry, content| builder.make(entry, content))?;
    let objects = staged.join(".git/objects");
    if objects.is_dir() {
        restock(entry, manifest, &objects, unbundle)?;
        let store = unbundle.open(&objects)?;
        for checkout in std::mem::take(&mut builder.checkouts) {
            builder.check_out(&checkout, &*store)?;
        }
    }
    if !objects.is_dir() && manifest.has(BUNDLE) {
        let bundle = escaped(&entry.join(BUNDLE));
        builder.notes.push(format!("its repository lies elsewhere; `git fetch` what is unsaved there from {bundle}"));
    }
    if !builder.checkouts.is_empty() {
        return Err(io::Error::other("it has files of a repository that is not in it"));
    }
    builder.finish()?;
    rustix::fs::syncfs(&builder.top)?;
    Ok(builder.notes)
}

/// Fills an object store: by links to the files of stores that stay, and with the pack of the bundle.
fn restock(entry: &Path, manifest: &Manifest, objects: &Path, unbundle: &dyn Unbundle) -> io::Result<()> {
    for part in ["pack", "info"] {
        DirBuilder::new().recursive(true).create(objects.join(part))?;
    }
    for store in &manifest.foundation.stores {
        link_store(store, objects, DEEPEST_BORROWING).map_err(|error| {
            let (store, bundle) = (escaped(store), escaped(&entry.join(BUNDLE)));
            let why = format!(
                "it needs {store}: {error}; without it, fetch its remote into a new clone and `git fetch` {bundle} there"
            );
            io::Error::other(why)
        })?;
    }
    if !manifest.has(BUNDLE) {
        return Ok(());
    }
    let mut bundle = BufReader::with_capacity(BUFFER, File::open(entry.join(BUNDLE))?);
    let unnamed = objects.join("pack/tmp_derelict");
    let mut pack = BufWriter::with_capacity(BUFFER, File::create_new(&unnamed)?);
    let unpacked = unbundle.unpack(&mut bundle, &mut pack)?;
    pack.flush()?;
    File::create_new(objects.join(format!("pack/{}.idx", unpacked.name)))?.write_all(&unpacked.index)?;
    std::fs::rename(&unnamed, objects.join(format!("pack/{}.pack", unpacked.name)))
}

/// Links every file of a store, and of those it borrows from, into another; copies them where it lies elsewhere.
fn link_store(store: &Path, into: &Path, deep: usize) -> io::Result<()> {
    let mut pending = vec![PathBuf::new()];
    while let Some(below) = pending.pop() {
        DirBuilder::new().recursive(true).create(into.join(&below))?;
        for entry in std::fs::read_dir(store.join(&below))? {
            let entry = entry?;
            let below = below.join(entry.file_name());
            let kind = entry.file_type()?;
            if kind.is_dir() {
                pending.push(below);
            } else if kind.is_file() && !below.starts_with("info") {
                link(&entry.path(), &into.join(below))?;
            }
        }
    }
    let borrowed = match std::fs::read(store.join("info/alternates")) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let lenders = borrowed.split(|byte| *byte == b'\n').filter(|line| !line.is_empty() && !line.starts_with(b"#"));
    for lender in lenders {
        let deep = deep.checked_sub(1).ok_or_else(|| io::Error::other("stores borrow from stores too deeply"))?;
        link_store(&store.join(OsStr::from_bytes(lender)), into, deep)?;
    }
    Ok(())
}

fn link(from: &Path, to: &Path) -> io::Result<()> {
    match std::fs::hard_link(from, to) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        // Another file system, or one on which this user may not link: a copy is as good.
        Err(_) => std::fs::copy(from, to).map(|_| ()),
        Ok(()) => Ok(()),
    }
}

struct Builder {
    top: OwnedFd,
    /// Whose mode and times come last, for making what is in them changes both.
    directories: Vec<Entry>,
    checkouts: Vec<Entry>,
    notes: Vec<String>,
}

impl Builder {
    fn make(&mut self, entry: &Entry, content: &mut dyn Read) -> io::Result<()> {
        let told = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", escaped(&entry.path)));
        match &entry.what {
            What::Directory if entry.path.as_os_str().is_empty() => {
                self.directories.push(entry.clone());
                Ok(())
            }
            What::Checkout { .. } | What::SymlinkCheckout { .. } => {
                self.checkouts.push(entry.clone());
                Ok(())
            }
            What::Directory
            | What::File { .. }
            | What::Symlink { .. }
            | What::HardLink { .. }
            | What::Fifo
            | What::Socket
            | What::Character { .. }
            | What::Block { .. } => self.make_in(entry, content).map_err(told),
        }
    }

    fn make_in(&mut self, entry: &Entry, content: &mut dyn Read) -> io::Result<()> {
        let (parent, name) = self.place(&entry.path)?;
        let parent = parent.as_fd();
        let node = |kind, (major, minor)| {
            let device = rustix::fs::makedev(major, minor);
            rustix::fs::mknodat(parent, &name, kind, Mode::from_raw_mode(0o600), device).map_err(io::Error::from)
        };
        match &entry.what {
            What::Directory => {
                rustix::fs::mkdirat(parent, &name, Mode::from_raw_mode(0o700))?;
                self.directories.push(entry.clone());
                return Ok(());
            }
            What::File { .. } => return self.write(parent, &name, entry, content),
            What::Symlink { target } => rustix::fs::symlinkat(target, parent, &name)?,
            What::HardLink { to } => {
                let (first, first_name) = self.place(to)?;
                rustix::fs::linkat(&first, &first_name, parent, &name, AtFlags::empty())?;
                return Ok(());
            }
            What::Fifo => node(FileType::Fifo, (0, 0))?,
            What::Socket => node(FileType::Socket, (0, 0))?,
            What::Character { device } => node(FileType::CharacterDevice, *device)?,
            What::Block { device } => node(FileType::BlockDevice, *device)?,
            What::Checkout { .. } | What::SymlinkCheckout { .. } => {}
        }
        self.dress_at(parent, &name, entry)
    }

    fn check_out(&mut self, entry: &Entry, store: &dyn Blobs) -> io::Result<()> {
        let told = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", escaped(&entry.path)));
        let mut content = Vec::new();
        let (parent, name) = self.place(&entry.path).map_err(told)?;
        match &entry.what {
            What::Checkout { blob } => {
                store.blob(blob, &mut content).map_err(told)?;
                self.write(parent.as_fd(), &name, entry, &mut content.as_slice()).map_err(told)
            }
            What::SymlinkCheckout { blob } => {
                store.blob(blob, &mut content).map_err(told)?;
                rustix::fs::symlinkat(OsStr::from_bytes(&content), &parent, &name)?;
                self.dress_at(parent.as_fd(), &name, entry).map_err(told)
            }
            What::Directory
            | What::File { .. }
            | What::Symlink { .. }
            | What::HardLink { .. }
            | What::Fifo
            | What::Socket
            | What::Character { .. }
            | What::Block { .. } => Ok(()),
        }
    }

    /// The directory of an entry, walked to without following anything, and its name there.
    fn place(&self, path: &Path) -> io::Result<(OwnedFd, CString)> {
        let odd = || io::Error::new(io::ErrorKind::InvalidData, "it is no path below a directory");
        let (parent, name) = split(path).ok_or_else(odd)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut dir = rustix::fs::openat(&self.top, c".", flags, Mode::empty())?;
        for component in names(parent).ok_or_else(odd)? {
            dir = rustix::fs::openat(&dir, &component, flags, Mode::empty())?;
        }
        Ok((dir, name))
    }

    fn write(
        &mut self,
        parent: BorrowedFd<'_>,
        name: &CString,
        entry: &Entry,
        content: &mut dyn Read,
    ) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(rustix::fs::openat(parent, name, flags, Mode::from_raw_mode(0o600))?);
        fill(&mut file, content)?;
        self.dress(file.as_fd(), entry)
    }

    /// Owner, attributes, mode and times of what is open; a change of owner clears bits of the mode, so it is first.
    fn dress(&mut self, file: BorrowedFd<'_>, entry: &Entry) -> io::Result<()> {
        let owned = rustix::fs::fchown(file, Some(Uid::from_raw(entry.uid)), Some(Gid::from_raw(entry.gid)));
        self.may_refuse(entry, "its owner", owned)?;
        if let Err(error) = set_xattrs(file, &entry.xattrs) {
            self.notes.push(format!("{}: its attributes: {error}", escaped(&entry.path)));
        }
        rustix::fs::fchmod(file, Mode::from_raw_mode(entry.mode))?;
        rustix::fs::futimens(file, &times(entry))?;
        Ok(())
    }

    /// The same for what cannot be opened: links, pipes, sockets and devices.
    fn dress_at(&mut self, parent: BorrowedFd<'_>, name: &CString, entry: &Entry) -> io::Result<()> {
        let (uid, gid) = (Uid::from_raw(entry.uid), Gid::from_raw(entry.gid));
        let owned = rustix::fs::chownat(parent, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW);
        self.may_refuse(entry, "its owner", owned)?;
        let is_link = matches!(entry.what, What::Symlink { .. } | What::SymlinkCheckout { .. });
        if !is_link {
            rustix::fs::chmodat(parent, name, Mode::from_raw_mode(entry.mode), AtFlags::empty())?;
        }
        rustix::fs::utimensat(parent, name, &times(entry), AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(())
    }

    /// Only root gives files away; everybody else gets his own.
    fn may_refuse(&mut self, entry: &Entry, what: &str, done: Result<(), Errno>) -> io::Result<()> {
        match done {
            Err(Errno::PERM) => {
                self.notes.push(format!("{}: {what}: {}", escaped(&entry.path), io::Error::from(Errno::PERM)));
                Ok(())
            }
            other => other.map_err(io::Error::from),
        }
    }

    /// Gives directories their mode and times, the deepest first.
    fn finish(&mut self) -> io::Result<()> {
        for entry in std::mem::take(&mut self.directories).iter().rev() {
            let dir = if entry.path.as_os_str().is_empty() {
                rustix::io::dup(&self.top)?
            } else {
                let (parent, name) = self.place(&entry.path)?;
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                rustix::fs::openat(&parent, &name, flags, Mode::empty())?
            };
            self.dress(dir.as_fd(), entry)?;
        }
        Ok(())
    }
}

fn times(entry: &Entry) -> Timestamps {
    let (seconds, nanoseconds) = entry.modified;
    let modified = Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() };
    Timestamps { last_access: modified, last_modification: modified }
}

/// Writes a content, leaving holes where it is nothing but zeros.
fn fill(file: &mut File, content: &mut dyn Read) -> io::Result<()> {
    let (mut chunk, mut length) = (vec![0; BUFFER], 0_u64);
    loop {
        let mut filled = 0;
        while filled < chunk.len() {
            match content.read(&mut chunk[filled..])? {
                0 => break,
                more => filled += more,
            }
        }
        for part in chunk[..filled].chunks(HOLE) {
            if part.iter().any(|byte| *byte != 0) {
                file.write_all_at(part, length)?;
            }
            length += part.len() as u64;
        }
        if filled < chunk.len() {
            file.set_len(length)?;
            file.seek(SeekFrom::End(0))?;
            return Ok(());
        }
    }
}
