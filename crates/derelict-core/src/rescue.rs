//! What is carried out of a directory before it goes: the words for it, and nothing else. Whoever reads repositories says
//! what has to be carried out and in which form; writing, verifying and giving back is the reclaimer's.

use std::fmt;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};

/// The name of a git object: 40 or 64 lower-case hexadecimal digits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName(String);

impl ObjectName {
    /// `None` for anything that cannot be the name of an object.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        (digits && matches!(text.len(), 40 | 64)).then(|| Self(text.to_owned()))
    }

    /// The digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How one entry of a directory is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keeping {
    /// In the archive: the entry itself, and what lies below it one by one.
    Archived,
    /// As an object of the repository, whose bytes it holds exactly; only its metadata are noted.
    CheckedOut(ObjectName),
    /// Not at all, with everything below it: it is made again by a tool, or it is in the bundle.
    LeftOut,
}

/// The repository at the top of a directory, as far as it has to be known to put it together again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foundation {
    /// Objects in the bundle.
    pub objects: u64,
    /// `objects` directories of repositories on this machine that stay, and that hold what the bundle builds upon.
    pub stores: Vec<PathBuf>,
    /// Commits in those that the bundle builds upon.
    pub prerequisites: Vec<ObjectName>,
    /// Addresses of its remotes, for a person.
    pub remotes: Vec<String>,
}

/// Everything that has to be carried out of one directory so that it can be put back as it was.
pub trait Salvage {
    /// The repository it is.
    fn foundation(&self) -> &Foundation;

    /// How the entry at a path below the directory is kept.
    fn keeping(&self, path: &[u8]) -> Keeping;

    /// Writes a bundle that stock git can read, of every object that no repository which stays is sure to hold.
    ///
    /// # Errors
    /// An object that cannot be read, or whatever `into` says.
    fn write_bundle(&self, into: &mut dyn Write) -> io::Result<()>;

    /// Reads a bundle back and compares every object of it with what was to be written.
    ///
    /// # Errors
    /// The first difference.
    fn check_bundle(&self, from: &mut dyn BufRead) -> io::Result<()>;
}

/// A pack as it lies in a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnpackedBundle {
    /// What git calls it, without an ending.
    pub name: String,
    /// The index that belongs beside it.
    pub index: Vec<u8>,
}

/// Reads what was rescued of a repository.
pub trait Unbundle {
    /// Copies the pack out of a bundle, and says what belongs beside it. Every object is compared with its name.
    ///
    /// # Errors
    /// What is wrong with the bundle, or whatever the two ends say.
    fn unpack(&self, bundle: &mut dyn BufRead, pack: &mut dyn Write) -> io::Result<UnpackedBundle>;

    /// Opens an `objects` directory for reading files of the work tree.
    ///
    /// # Errors
    /// When it cannot be opened.
    fn open(&self, objects: &Path) -> io::Result<Box<dyn Blobs>>;
}

/// Objects by their names.
pub trait Blobs {
    /// Puts the content of a file into `into`, replacing what was there.
    ///
    /// # Errors
    /// When it is missing, broken or no file.
    fn blob(&self, name: &ObjectName, into: &mut Vec<u8>) -> io::Result<()>;
}

/// What was rescued, where: written, read back and compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RescueEntry {
    /// The name by which it is given back.
    pub name: String,
    /// Where it lies.
    pub path: PathBuf,
    /// What it occupies, in bytes.
    pub bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_name_an_object_names_one() {
        for good in ["0a".repeat(20), "0a".repeat(32)] {
            assert_eq!(ObjectName::parse(&good).map(|name| name.to_string()), Some(good));
        }
        for bad in ["", "0a", &"0A".repeat(20), &"0g".repeat(20), &"é".repeat(20), &"0a".repeat(21)] {
            assert_eq!(ObjectName::parse(bad), None, "{bad}");
        }
    }
}
