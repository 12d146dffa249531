//! Carries what a directory alone holds to a place that stays: one entry a directory, written, read back and compared
//! before anything is believed of it. What has to be carried out is said by a [`Salvage`]; giving it back is `unpack`'s.
//!
//! An entry is a directory: `objects.bundle` (a git bundle), `files.tar.zst`, `entries.ndjson.zst` (one line for each entry
//! of the directory, with everything a tar has no room for) and `manifest.json`. It has the ending `.partial` until all of
//! it was compared. What is in it is only for its owner to read.

mod archive;
mod entry;
mod manifest;
mod unpack;

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use derelict_core::evidence::Candidate;
use derelict_core::ids::{Timestamp, escaped};
use derelict_core::outcome::Refusal;
use derelict_core::rescue::{RescueEntry, Salvage};
use rustix::fs::FlockOperation;

pub use manifest::{Manifest, Rescued, list};
pub use unpack::{NotUnpacked, Restored, restore};

/// The files of an entry.
pub(crate) const BUNDLE: &str = "objects.bundle";
pub(crate) const ARCHIVE: &str = "files.tar.zst";
pub(crate) const ENTRIES: &str = "entries.ndjson.zst";
/// The file by which an entry is known.
pub const MANIFEST: &str = "manifest.json";
pub(crate) const FILES: [&str; 4] = [BUNDLE, ARCHIVE, ENTRIES, MANIFEST];

/// The ending of an entry that was not compared to its end.
const PARTIAL: &str = ".partial";

/// Entries of one name and one second.
const MOST_OF_A_NAME: u32 = 1000;

/// Bytes read or written at a time.
const BUFFER: usize = 128 * 1024;

/// A place for rescue entries, held while it is written to.
#[derive(Debug)]
pub struct Rescues {
    dir: PathBuf,
    stamp: String,
    now: Timestamp,
    _held: File,
}

/// A place for rescue entries that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot {deed} {}: {source}", escaped(.path))]
pub struct RescuesError {
    deed: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl Rescues {
    /// Opens a place, making it when it is not there, and clears away what another run did not finish in it. `stamp`
    /// is the instant `now` as it is to stand in the names of entries.
    ///
    /// # Errors
    /// [`RescuesError`] when it cannot be made, or somebody else writes to it.
    pub fn open(dir: &Path, now: Timestamp, stamp: String) -> Result<Self, RescuesError> {
        let failed = |deed| move |source| RescuesError { deed, path: dir.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed("make"))?;
        let dir = std::fs::canonicalize(dir).map_err(failed("find"))?;
        let place = dir.as_path();
        let failed = |deed| move |source: io::Error| RescuesError { deed, path: place.to_owned(), source };
        let held = File::open(&dir).map_err(failed("open"))?;
        rustix::fs::flock(&held, FlockOperation::NonBlockingLockExclusive)
            .map_err(|errno| failed("lock")(errno.into()))?;
        for entry in std::fs::read_dir(&dir).map_err(failed("list"))? {
            let path = entry.map_err(failed("list"))?.path();
            if path.as_os_str().as_encoded_bytes().ends_with(PARTIAL.as_bytes()) {
                remove_entry(&path).map_err(failed("clear"))?;
            }
        }
        Ok(Self { dir, stamp, now, _held: held })
    }

    /// Where it is, resolved.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes an entry for the directory that is open, reads it back, compares it, and makes it durable.
    pub(crate) fn rescue(
        &self,
        candidate: &Candidate,
        dir: BorrowedFd<'_>,
        salvage: &dyn Salvage,
    ) -> Result<RescueEntry, Refusal> {
        let refused = |error: io::Error| Refusal {
            path: candidate.path.clone(),
            why: format!("not rescued to {}: {error}", escaped(&self.dir)),
        };
        let (name, partial) = self.begin(candidate).map_err(refused)?;
        let written = self.write(candidate, dir, salvage, &partial).and_then(|bytes| {
            let path = self.dir.join(&name);
            std::fs::rename(&partial, &path)?;
            File::open(&self.dir)?.sync_all()?;
            Ok(RescueEntry { name: name.to_string_lossy().into_owned(), path, bytes })
        });
        written.map_err(|error| {
            // What failed is told; what is left of it is cleared away by the next run, too.
            let _ = remove_entry(&partial);
            refused(error)
        })
    }

    fn begin(&self, candidate: &Candidate) -> io::Result<(OsString, PathBuf)> {
        let plain = |byte: &u8| if byte.is_ascii_alphanumeric() || b"-_.".contains(byte) { *byte } else { b'_' };
        let workspace: Vec<u8> = candidate.name.as_bytes().iter().map(plain).take(100).collect();
        let base = [self.stamp.as_bytes(), b"-", &workspace].concat();
        for number in 1..MOST_OF_A_NAME {
            let suffix = if number == 1 { String::new() } else { format!(".{number}") };
            let name = OsString::from_vec([base.as_slice(), suffix.as_bytes()].concat());
            let mut partial = name.clone();
            partial.push(PARTIAL);
            let partial = self.dir.join(partial);
            if self.dir.join(&name).symlink_metadata().is_ok() {
                continue;
            }
            match DirBuilder::new().mode(0o700).create(&partial) {
                Ok(()) => return Ok((name, partial)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    fn write(
        &self,
        candidate: &Candidate,
        dir: BorrowedFd<'_>,
        salvage: &dyn Salvage,
        partial: &Path,
    ) -> io::Result<u64> {
        let foundation = salvage.foundation();
        let mut files = Vec::new();
        if foundation.objects > 0 {
            let mut bundle = BufWriter::with_capacity(BUFFER, create(&partial.join(BUNDLE))?);
            salvage.write_bundle(&mut bundle)?;
            bundle.flush()?;
            bundle.get_ref().sync_all()?;
            let mut back = BufReader::with_capacity(BUFFER, File::open(partial.join(BUNDLE))?);
            salvage.check_bundle(&mut back).map_err(|error| at(BUNDLE, &error))?;
            files.push(BUNDLE);
        }
        let written = archive::write(dir, salvage, create(&partial.join(ARCHIVE))?, create(&partial.join(ENTRIES))?)?;
        archive::check(&partial.join(ARCHIVE), &partial.join(ENTRIES), &written)
            .map_err(|error| at(ARCHIVE, &error))?;
        files.extend([ARCHIVE, ENTRIES]);
        let manifest = Manifest::of(candidate, self.now, foundation, &written, partial, &files)?;
        let mut file = create(&partial.join(MANIFEST))?;
        file.write_all(manifest.to_json().to_string().as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()?;
        File::open(partial)?.sync_all()?;
        Ok(manifest.bytes())
    }
}

fn at(file: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{file}: {error}"))
}

/// A new file, for its owner only.
fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Removes an entry: its own files by their names, and then the directory, if nothing else is in it.
///
/// # Errors
/// In the system's words; whatever else somebody put there stays.
pub fn remove_entry(path: &Path) -> io::Result<()> {
    for file in FILES {
        match std::fs::remove_file(path.join(file)) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    std::fs::remove_dir(path)
}
