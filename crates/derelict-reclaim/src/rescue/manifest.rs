//! What a rescue entry says of itself: whose it is, what it stands on, and the digests of its files.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use derelict_core::evidence::Candidate;
use derelict_core::ids::{FileIdentity, Timestamp, WorkspaceName};
use derelict_core::rescue::{Foundation, ObjectName};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::archive::Written;
use super::{FILES, MANIFEST, PARTIAL};
use crate::lines::{hex, path_of, path_value, time, time_of};

/// The only version there is.
const VERSION: u64 = 1;

/// What an entry says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The directory that was rescued, as it was then.
    pub candidate: Candidate,
    /// When.
    pub at: Timestamp,
    /// What its repository stood on.
    pub foundation: Foundation,
    /// Entries in all.
    pub entries: u64,
    /// Entries whose content is in the archive.
    pub archived: u64,
    files: Vec<(String, u64, String)>,
}

/// One entry of a place for rescues.
#[derive(Debug)]
pub struct Rescued {
    /// The name by which it is given back.
    pub name: String,
    /// Where it lies.
    pub path: PathBuf,
    /// What it says of itself; or why it cannot be given back.
    pub manifest: Result<Manifest, String>,
}

impl Manifest {
    pub(crate) fn of(
        candidate: &Candidate,
        at: Timestamp,
        foundation: &Foundation,
        written: &Written,
        dir: &Path,
        files: &[&str],
    ) -> io::Result<Self> {
        let files =
            files.iter().map(|name| digest(&dir.join(name)).map(|(bytes, sha)| ((*name).to_owned(), bytes, sha)));
        Ok(Self {
            candidate: candidate.clone(),
            at,
            foundation: foundation.clone(),
            entries: written.entries,
            archived: written.archived,
            files: files.collect::<io::Result<_>>()?,
        })
    }

    /// What its files occupy, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, bytes, _)| bytes).sum()
    }

    /// Whether there are objects to be given back.
    pub(crate) fn has(&self, file: &str) -> bool {
        self.files.iter().any(|(name, _, _)| name == file)
    }

    pub(crate) fn to_json(&self) -> Value {
        let Candidate { path, below_root, identity, .. } = &self.candidate;
        let files =
            self.files.iter().map(|(name, bytes, sha256)| json!({"name": name, "bytes": bytes, "sha256": sha256}));
        json!({
            "v": VERSION,
            "path": path_value(path),
            "below_root": path_value(below_root),
            "identity": [identity.dev, identity.ino],
            "birth": identity.birth.map(time),
            "at": time(self.at),
            "entries": self.entries,
            "archived": self.archived,
            "objects": self.foundation.objects,
            "stores": self.foundation.stores.iter().map(|store| path_value(store)).collect::<Vec<_>>(),
            "prerequisites": self.foundation.prerequisites.iter().map(ObjectName::as_str).collect::<Vec<_>>(),
            "remotes": self.foundation.remotes,
            "files": files.collect::<Vec<_>>(),
        })
    }

    /// Reads an entry's manifest.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn read(dir: &Path) -> Result<Self, String> {
        let text = std::fs::read(dir.join(MANIFEST)).map_err(|error| format!("cannot read {MANIFEST}: {error}"))?;
        let value: Value =
            serde_json::from_slice(&text).map_err(|error| format!("cannot parse {MANIFEST}: {error}"))?;
        match value.get("v").and_then(Value::as_u64) {
            Some(VERSION) => {}
            Some(newer) if newer > VERSION => {
                return Err(format!("{MANIFEST} is of version {newer}; a newer derelict wrote it"));
            }
            Some(_) | None => return Err(format!("{MANIFEST} has no version")),
        }
        Self::parse(&value).ok_or_else(|| format!("{MANIFEST} lacks something, or has something odd"))
    }

    fn parse(value: &Value) -> Option<Self> {
        let number = |key: &str| value.get(key)?.as_u64();
        let all = |key: &str| value.get(key)?.as_array();
        let below_root = path_of(value, "below_root").ok()?;
        let name = WorkspaceName::new(below_root.file_name()?.as_encoded_bytes()).ok()?;
        let [dev, ino] = all("identity")?.as_slice() else { return None };
        let birth = value.get("birth")?;
        let birth = if birth.is_null() { None } else { Some(time_of(birth)?) };
        let identity = FileIdentity { dev: dev.as_u64()?, ino: ino.as_u64()?, birth };
        let candidate = Candidate { name, path: path_of(value, "path").ok()?, below_root, identity };
        let file = |file: &Value| {
            let name = file.get("name")?.as_str().filter(|name| FILES.contains(name))?;
            Some((name.to_owned(), file.get("bytes")?.as_u64()?, file.get("sha256")?.as_str()?.to_owned()))
        };
        let store = |store: &Value| path_of(&json!({ "store": store }), "store").ok();
        let foundation = Foundation {
            objects: number("objects")?,
            stores: all("stores")?.iter().map(store).collect::<Option<_>>()?,
            prerequisites: all("prerequisites")?
                .iter()
                .map(|id| ObjectName::parse(id.as_str()?))
                .collect::<Option<_>>()?,
            remotes: all("remotes")?.iter().map(|remote| Some(remote.as_str()?.to_owned())).collect::<Option<_>>()?,
        };
        Some(Self {
            candidate,
            at: time_of(value.get("at")?)?,
            foundation,
            entries: number("entries")?,
            archived: number("archived")?,
            files: all("files")?.iter().map(file).collect::<Option<_>>()?,
        })
    }

    /// Compares the files of an entry with what the manifest says of them.
    pub(crate) fn verify(&self, dir: &Path) -> Result<(), String> {
        for (name, bytes, sha256) in &self.files {
            match digest(&dir.join(name)) {
                Ok(found) if found == (*bytes, sha256.clone()) => {}
                Ok(_) => return Err(format!("{name} is not what was written")),
                Err(error) => return Err(format!("cannot read {name}: {error}")),
            }
        }
        Ok(())
    }
}

fn digest(path: &Path) -> io::Result<(u64, String)> {
    struct Digest(Sha256);
    impl io::Write for Digest {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.update(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut digest = Digest(Sha256::new());
    let bytes = io::copy(&mut File::open(path)?, &mut digest)?;
    Ok((bytes, hex(&digest.0.finalize())))
}

/// The entries of a place, oldest first; none when there is no such place.
///
/// # Errors
/// When it cannot be listed.
pub fn list(place: &Path) -> io::Result<Vec<Rescued>> {
    let entries = match std::fs::read_dir(place) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            continue;
        }
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let manifest = match name.ends_with(PARTIAL) {
            true => Err("a run that was interrupted did not finish it".to_owned()),
            false => Manifest::read(&path),
        };
        found.push(Rescued { name, path, manifest });
    }
    found.sort_by_key(|rescued| (rescued.manifest.as_ref().ok().map(|manifest| manifest.at), rescued.name.clone()));
    Ok(found)
}
