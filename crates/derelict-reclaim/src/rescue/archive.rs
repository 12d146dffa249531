//! Writes the files of a directory into an archive, with a line for each entry beside it, and reads both back.

use std::collections::{BTreeMap, HashMap};
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use derelict_core::ids::escaped;
use derelict_core::rescue::{Keeping, Salvage};
use rustix::fs::{FileType, RawDir};
use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType, Header};

use super::BUFFER;
use super::entry::{Entry, Status, What, open_file, status, target, xattrs};
use crate::descend::{Descent, Left, is_dot, read_buffer};
use crate::pace::AtOnce;

/// zstd's own default: half the size of the fastest level at half its speed.
const LEVEL: i32 = 3;

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Written {
    /// Entries in all.
    pub(crate) entries: u64,
    /// Entries whose content is in the archive.
    pub(crate) archived: u64,
    /// The digest of all lines.
    lines: Vec<u8>,
}

struct Archiver<'s> {
    salvage: &'s dyn Salvage,
    tar: Builder<zstd::Encoder<'static, BufWriter<File>>>,
    lines: Lines<zstd::Encoder<'static, BufWriter<File>>>,
    /// The first name of every inode that has several.
    linked: HashMap<(u64, u64), PathBuf>,
    archived: u64,
}

struct Lines<W> {
    into: W,
    digest: Sha256,
    count: u64,
}

impl<W: Write> Lines<W> {
    fn line(&mut self, entry: &Entry) -> io::Result<()> {
        let text = format!("{}\n", entry.to_json());
        self.digest.update(text.as_bytes());
        self.count += 1;
        self.into.write_all(text.as_bytes())
    }
}

/// Writes everything of the directory that is not kept in another way.
pub(crate) fn write(dir: BorrowedFd<'_>, salvage: &dyn Salvage, archive: File, entries: File) -> io::Result<Written> {
    let encoder = |file| zstd::Encoder::new(BufWriter::with_capacity(BUFFER, file), LEVEL);
    let lines = Lines { into: encoder(entries)?, digest: Sha256::new(), count: 0 };
    let mut archiver =
        Archiver { salvage, tar: Builder::new(encoder(archive)?), lines, linked: HashMap::new(), archived: 0 };
    archiver.tree(dir)?;
    let Archiver { tar, lines, archived, .. } = archiver;
    for encoder in [tar.into_inner()?, lines.into] {
        let mut file = encoder.finish()?;
        file.flush()?;
        file.get_ref().sync_all()?;
    }
    Ok(Written { entries: lines.count, archived, lines: lines.digest.finalize().to_vec() })
}

impl Archiver<'_> {
    fn tree(&mut self, dir: BorrowedFd<'_>) -> io::Result<()> {
        let top = status(dir, c"")?;
        self.directory(Path::new(""), dir, &top)?;
        let mut walk = Descent::new(rustix::fs::openat(
            dir,
            c".",
            rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC,
            rustix::fs::Mode::empty(),
        )?)?;
        self.list(&mut walk)?;
        loop {
            if let Some(name) = walk.next_waiting() {
                let path = walk.shown(Path::new(""), Some(&name));
                walk.enter(&mut AtOnce, &name).map_err(|why| told(&path, &why.to_string()))?;
                let here = walk.current();
                self.directory(&path, (*here).as_fd(), &status((*here).as_fd(), c"")?)?;
                self.list(&mut walk)?;
                continue;
            }
            match walk.leave().map_err(|lost| io::Error::other(lost.0))? {
                Left::Top => return Ok(()),
                Left::Child { .. } => {}
            }
        }
    }

    fn list(&mut self, walk: &mut Descent) -> io::Result<()> {
        let here = walk.current();
        let mut buffer = read_buffer();
        let mut entries = RawDir::new(&*here, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name();
            if is_dot(name) {
                continue;
            }
            let path = walk.shown(Path::new(""), Some(name));
            let keeping = self.salvage.keeping(path.as_os_str().as_bytes());
            let found = status((*here).as_fd(), name)?;
            match (keeping, found.kind) {
                (Keeping::LeftOut, _) => {}
                (Keeping::Archived | Keeping::CheckedOut(_), FileType::Directory) => walk.wait(name),
                (keeping, _) => {
                    self.leaf(&path, (*here).as_fd(), name, &found, keeping)
                        .map_err(|error| told(&path, &error.to_string()))?;
                }
            }
        }
        Ok(())
    }

    fn directory(&mut self, path: &Path, dir: BorrowedFd<'_>, found: &Status) -> io::Result<()> {
        let entry = Entry::new(path.to_owned(), What::Directory, found, xattrs(dir)?);
        self.lines.line(&entry)?;
        if path.as_os_str().is_empty() {
            return Ok(());
        }
        self.extend(&entry, None)?;
        let mut header = header(&entry, EntryType::Directory, 0);
        self.tar.append_data(&mut header, path, io::empty())
    }

    fn leaf(
        &mut self,
        path: &Path,
        dir: BorrowedFd<'_>,
        name: &CStr,
        found: &Status,
        keeping: Keeping,
    ) -> io::Result<()> {
        let of = |what, xattrs| Entry::new(path.to_owned(), what, found, xattrs);
        let none = BTreeMap::new;
        if found.links > 1
            && let Some(first) = self.linked.get(&found.inode)
        {
            let entry = of(What::HardLink { to: first.clone() }, none());
            self.lines.line(&entry)?;
            return self.link(&entry, EntryType::Link, first.as_os_str().as_bytes().to_vec());
        }
        if found.links > 1 {
            self.linked.insert(found.inode, path.to_owned());
        }
        let entry = match (found.kind, keeping) {
            (FileType::RegularFile, keeping) => return self.file(path, &mut open_file(dir, name)?, found, keeping),
            (FileType::Symlink, Keeping::CheckedOut(blob)) => of(What::SymlinkCheckout { blob }, none()),
            (FileType::Symlink, Keeping::Archived | Keeping::LeftOut) => {
                let target = target(dir, name)?;
                let entry = of(What::Symlink { target: target.clone() }, none());
                self.lines.line(&entry)?;
                return self.link(&entry, EntryType::Symlink, target.into_os_string().into_encoded_bytes());
            }
            (FileType::Fifo, _) => of(What::Fifo, none()),
            (FileType::Socket, _) => of(What::Socket, none()),
            (FileType::CharacterDevice, _) => of(What::Character { device: found.device }, none()),
            (FileType::BlockDevice, _) => of(What::Block { device: found.device }, none()),
            (FileType::Directory | FileType::Unknown, _) => return Err(io::Error::other("it became something else")),
        };
        self.lines.line(&entry)
    }

    fn file(&mut self, path: &Path, file: &mut File, found: &Status, keeping: Keeping) -> io::Result<()> {
        let now = status(file.as_fd(), c"")?;
        if now.inode != found.inode || now.kind != FileType::RegularFile {
            return Err(io::Error::other("it was replaced while it was being read"));
        }
        let xattrs = xattrs(&*file)?;
        if let Keeping::CheckedOut(blob) = keeping {
            return self.lines.line(&Entry::new(path.to_owned(), What::Checkout { blob }, &now, xattrs));
        }
        let size = now.size;
        let mut entry = Entry::new(path.to_owned(), What::File { size, sha256: Vec::new() }, &now, xattrs);
        self.extend(&entry, None)?;
        let mut content = Digesting { from: file.take(size), digest: Sha256::new(), read: 0 };
        self.tar.append_data(&mut header(&entry, EntryType::Regular, size), path, &mut content)?;
        if content.read != size || content.from.into_inner().read(&mut [0])? != 0 {
            return Err(io::Error::other("it changed while it was being read"));
        }
        entry.what = What::File { size, sha256: content.digest.finalize().to_vec() };
        self.archived += 1;
        self.lines.line(&entry)
    }

    /// A link of either kind. Where it leads is kept as it is, byte for byte.
    fn link(&mut self, entry: &Entry, kind: EntryType, target: Vec<u8>) -> io::Result<()> {
        let mut header = header(entry, kind, 0);
        let long = header.set_link_name_literal(&target).is_err();
        self.extend(entry, long.then_some(target.as_slice()))?;
        self.tar.append_data(&mut header, &entry.path, io::empty())
    }

    /// Writes what has no room in a header, and a target that has none.
    fn extend(&mut self, entry: &Entry, target: Option<&[u8]>) -> io::Result<()> {
        let own = extensions(entry);
        let own = own.iter().map(|(key, value)| (key.as_str(), value.as_slice()));
        self.tar.append_pax_extensions(own.chain(target.map(|target| ("linkpath", target))))
    }
}

fn told(path: &Path, why: &str) -> io::Error {
    io::Error::other(format!("{}: {why}", escaped(path)))
}

fn header(entry: &Entry, kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(entry.mode);
    header.set_uid(entry.uid.into());
    header.set_gid(entry.gid.into());
    header.set_size(size);
    header.set_mtime(entry.modified.0.max(0).unsigned_abs());
    header
}

/// What has no room in a header. Values with a line break are in the entry's own line only: not every reader of such
/// archives takes them.
fn extensions(entry: &Entry) -> Vec<(String, Vec<u8>)> {
    let (seconds, nanoseconds) = entry.modified;
    let mtime = (seconds >= 0).then(|| ("mtime".to_owned(), format!("{seconds}.{nanoseconds:09}").into_bytes()));
    let xattrs =
        entry.xattrs.iter().filter(|(_, value)| !value.contains(&b'\n')).filter_map(|(name, value)| {
            Some((format!("SCHILY.xattr.{}", std::str::from_utf8(name).ok()?), value.clone()))
        });
    mtime.into_iter().chain(xattrs).collect()
}

struct Digesting<R> {
    from: R,
    digest: Sha256,
    read: u64,
}

impl<R: Read> Read for Digesting<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = self.from.read(into)?;
        self.digest.update(&into[..length]);
        self.read += length as u64;
        Ok(length)
    }
}

/// Reads archive and lines back, and compares every byte of every file.
pub(crate) fn check(archive: &Path, entries: &Path, written: &Written) -> io::Result<()> {
    let found = read(archive, entries, |_, content| io::copy(content, &mut io::sink()).map(|_| ()))?;
    if found == *written { Ok(()) } else { Err(io::Error::other("it does not hold what was written")) }
}

/// Reads an archive and its lines in step: each entry in its order, with the content of those that have it there. What
/// is not read of a content is read all the same, and compared.
pub(crate) fn read(
    archive: &Path,
    entries: &Path,
    mut each: impl FnMut(&Entry, &mut dyn Read) -> io::Result<()>,
) -> io::Result<Written> {
    let decoder = |path: &Path| zstd::Decoder::new(BufReader::with_capacity(BUFFER, File::open(path)?));
    let mut archive = tar::Archive::new(decoder(archive)?);
    let mut contents = archive
        .entries()?
        .filter(|entry| entry.as_ref().map_or(true, |entry| entry.header().entry_type() == EntryType::Regular));
    let mut lines = BufReader::with_capacity(BUFFER, decoder(entries)?);
    let (mut digest, mut text) = (Sha256::new(), Vec::new());
    let mut written = Written { entries: 0, archived: 0, lines: Vec::new() };
    loop {
        text.clear();
        if lines.read_until(b'\n', &mut text)? == 0 {
            break;
        }
        digest.update(&text);
        written.entries += 1;
        let entry = Entry::parse(&text).ok_or_else(|| io::Error::other("a line of its entries is broken"))?;
        let What::File { size, sha256 } = &entry.what else {
            each(&entry, &mut io::empty())?;
            continue;
        };
        let there = contents.next().ok_or_else(|| io::Error::other("the archive ends too early"))??;
        let mut content = Digesting { from: there, digest: Sha256::new(), read: 0 };
        each(&entry, &mut content)?;
        io::copy(&mut content, &mut io::sink())?;
        if content.read != *size || content.digest.finalize().as_slice() != sha256.as_slice() {
            return Err(told(&entry.path, "its content is not what was written"));
        }
        written.archived += 1;
    }
    if contents.next().is_some() {
        return Err(io::Error::other("the archive holds more than its lines say"));
    }
    written.lines = digest.finalize().to_vec();
    Ok(written)
}
