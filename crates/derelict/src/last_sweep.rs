//! What the circuit breakers remember: for each root a small file in the state directory, replaced by every sweep that
//! acts.
//!
//! A file that is missing means that no sweep ever ran. One that cannot be read means nothing at all, and the sweep
//! stops: a breaker without its memory would not trip.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use derelict_core::ids::{Digest, FileIdentity, Timestamp};
use derelict_core::record::LastSweep;
use derelict_reclaim::state::write_atomically;
use serde_json::{Value, json};

use crate::{json, text};

/// The version of the file.
const VERSION: u64 = 1;

/// The state directory is for its owner only.
const STATE_MODE: u32 = 0o700;

/// As many digits of a root's digest as keep the names of its files apart.
const DIGITS: usize = 16;

/// The memory of one root.
#[derive(Debug, Clone)]
pub(crate) struct Remembered {
    root: PathBuf,
    file: PathBuf,
}

impl Remembered {
    /// The memory of `root` in the directory `state`, which need not exist yet.
    pub(crate) fn of(root: &Path, state: &Path) -> Self {
        let digest = Digest::of_bytes(root.as_os_str().as_encoded_bytes()).to_string();
        Self { root: root.to_path_buf(), file: state.join(format!("last-sweep-{}.json", &digest[..DIGITS])) }
    }

    /// The last sweep; `None` if there never was one. Reads only.
    ///
    /// # Errors
    /// When the file, which is named, cannot be read or understood.
    pub(crate) fn last(&self) -> anyhow::Result<Option<LastSweep>> {
        let place = || format!("cannot tell from {} what the last sweep saw", text::path(&self.file));
        // Anything else, a FIFO above all, could make the reader wait for ever.
        if std::fs::metadata(&self.file).is_ok_and(|metadata| !metadata.is_file()) {
            return Err(io::Error::other("it is not a regular file")).with_context(place);
        }
        let bytes = match std::fs::read(&self.file) {
            Ok(bytes) => bytes,
            // A file in the place of the state directory holds no memory either; the journal will refuse it.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(error) => return Err(error).with_context(place),
        };
        self.parse(&bytes).map(Some).with_context(place)
    }

    /// Remembers a sweep, durably, in place of the one before.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn remember(&self, sweep: &LastSweep) -> anyhow::Result<()> {
        if let Some(state) = self.file.parent() {
            let made = DirBuilder::new().recursive(true).mode(STATE_MODE).create(state);
            made.with_context(|| format!("cannot make {}", text::path(state)))?;
        }
        let content = format!("{}\n", self.render(sweep));
        Ok(write_atomically(&self.file, content.as_bytes())?)
    }

    fn render(&self, sweep: &LastSweep) -> Value {
        let time = |at: Timestamp| json!([at.seconds(), at.subsecond_nanoseconds()]);
        json!({
            "v": VERSION,
            "root": json::path(&self.root),
            "at": time(sweep.at),
            "dev": sweep.root.dev,
            "ino": sweep.root.ino,
            "birth": sweep.root.birth.map(time),
            "owners": sweep.owners,
            "referenced": sweep.referenced,
        })
    }

    fn parse(&self, bytes: &[u8]) -> anyhow::Result<LastSweep> {
        let value: Value = serde_json::from_slice(bytes)?;
        if value["v"].as_u64() != Some(VERSION) {
            bail!("it has version {}, and only {VERSION} is known", value["v"]);
        }
        if value["root"] != json::path(&self.root) {
            bail!("it is about another root, {}", value["root"]);
        }
        fields(&value).ok_or_else(|| anyhow!("it lacks a field, or has a wrong one"))
    }
}

fn fields(value: &Value) -> Option<LastSweep> {
    let birth = match &value["birth"] {
        Value::Null => None,
        birth @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_)) => {
            Some(instant(birth)?)
        }
    };
    Some(LastSweep {
        at: instant(&value["at"])?,
        root: FileIdentity { dev: value["dev"].as_u64()?, ino: value["ino"].as_u64()?, birth },
        owners: value["owners"].as_u64()?,
        referenced: value["referenced"].as_u64()?,
    })
}

fn instant(value: &Value) -> Option<Timestamp> {
    let nanoseconds = u32::try_from(value[1].as_u64()?).ok().filter(|n| *n < 1_000_000_000)?;
    Some(Timestamp::new(value[0].as_i64()?, nanoseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(owners: u64) -> LastSweep {
        let birth = Some(Timestamp::new(-5, 999_999_999));
        let root = FileIdentity { dev: u64::MAX, ino: 7, birth };
        LastSweep { at: Timestamp::new(1_700_000_000, 1), root, owners, referenced: 2 }
    }

    #[test]
    fn the_last_sweep_of_each_root_is_remembered_exactly() {
        let state = tempfile::tempdir().unwrap();
        let [a, b, c] = ["/a", "/b", "/c"].map(|root| Remembered::of(Path::new(root), state.path()));
        assert_eq!(a.last().unwrap(), None);
        for (remembered, owners) in [(&a, 1), (&b, 2), (&a, 3)] {
            remembered.remember(&sweep(owners)).unwrap();
        }
        assert_eq!(a.last().unwrap(), Some(sweep(3)));
        assert_eq!(b.last().unwrap(), Some(sweep(2)));
        assert_eq!(c.last().unwrap(), None);
    }

    #[test]
    fn a_memory_that_cannot_be_understood_is_refused_by_its_name() {
        let state = tempfile::tempdir().unwrap();
        let remembered = Remembered::of(Path::new("/a"), state.path());
        for content in ["", "nonsense", r#"{"v":2}"#, r#"{"v":1,"root":"/b"}"#, r#"{"v":1,"root":"/a","owners":-1}"#] {
            std::fs::write(&remembered.file, content).unwrap();
            let error = format!("{:#}", remembered.last().unwrap_err());
            assert!(error.starts_with("cannot tell from ") && error.contains("last-sweep-"), "{content:?}: {error}");
        }
    }
}
