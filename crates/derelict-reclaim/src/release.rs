//! The owners' records of what is gone: dropped from devlaunch's `metadata.json`, under its own
//! lock, once the directory is entirely gone. How the text is cut is `surgery`'s, how the file is
//! replaced is `state`'s.
//!
//! A file that cannot be read, parsed or understood stays exactly as it is, and nothing is written
//! when there is nothing to drop.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use derelict_core::ids::{FileIdentity, NonEmpty, escaped};
use derelict_core::outcome::Release;
use rustix::io::Errno;
use serde_json::{Map, Value};

use crate::beneath::{NotEntered, Obstacle, Root, find};
use crate::fence::{TrashName, is_trash_name};
use crate::flock::{NotTaken, take};
use crate::journal::Journal;
use crate::lock::{CLONE_LEVELS, LOCK_WAIT, REPOSITORIES, launch_runs, open_dir};
use crate::stat::{seen, seen_at, words};
use crate::state::write_atomically;
use crate::surgery::without;

/// The file of records, below the cache.
const RECORDS: &str = "metadata.json";

/// Its lock lies beside it, wherever the file itself may be linked to.
const RECORDS_LOCK: &std::ffi::CStr = c"metadata.json.lock";

/// The member that holds one record per clone.
const CLONES: &str = "worktrees";

/// The versions of the file that are understood. Older ones are edited, never migrated.
const VERSIONS: std::ops::RangeInclusive<u64> = 1..=3;

/// A file of records larger than this, in bytes, is not one: thousands of clones make a megabyte.
const MOST_BYTES: u64 = 64 * 1024 * 1024;

/// How many symbolic links in a row are followed from a record's path, as the kernel does.
const MOST_LINKS: usize = 40;

/// The records of one devlaunch cache.
#[derive(Debug)]
pub struct DevlaunchRecords {
    cache: PathBuf,
}

/// Where a record says its clone lies: a directory, and a name in it that need not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RecordedPlace {
    parent: PathBuf,
    name: OsString,
}

impl DevlaunchRecords {
    /// The records of the cache at this path. Nothing is opened yet.
    #[must_use]
    pub fn new(cache: &Path) -> Self {
        Self { cache: cache.to_owned() }
    }

    /// Drops the records of one directory that is gone. The creators' locks are held.
    pub(crate) fn drop_records_of(&self, below_root: &Path) -> Release {
        self.edit(|clones| {
            let Some((parent, name)) = self.gone(below_root)? else { return Ok(BTreeSet::new()) };
            let names_it = |record: &Value| {
                recorded_place(record).is_some_and(|place| place.name == name && leads_to(&place.parent, &parent))
            };
            Ok(clones.iter().filter(|(_, record)| names_it(record)).map(|(key, _)| key.clone()).collect())
        })
    }

    /// Drops records of directories that vanished earlier, in one rewrite. Under the lock, each is
    /// looked at again, and stays unless its directory is absent while its repository is there, no
    /// launch of it runs, and no unfinished removal in `journal` has it in hand.
    pub fn drop_vanished(&self, keys: &[String], journal: &Journal) -> Release {
        if keys.is_empty() {
            return Release::NothingRecorded;
        }
        self.edit(|clones| {
            let recorded = keys.iter().filter_map(|key| Some((key, clones.get(key)?)));
            let vanished = recorded.filter(|(_, record)| self.has_vanished(record, journal));
            Ok(vanished.map(|(key, _)| key.clone()).collect())
        })
    }

    fn edit(&self, choose: impl FnOnce(&Map<String, Value>) -> Result<BTreeSet<String>, String>) -> Release {
        match self.try_edit(choose) {
            Ok(dropped) => NonEmpty::from_vec(dropped).map_or(Release::NothingRecorded, Release::Dropped),
            Err(why) => Release::Failed(why),
        }
    }

    fn try_edit(
        &self,
        choose: impl FnOnce(&Map<String, Value>) -> Result<BTreeSet<String>, String>,
    ) -> Result<Vec<String>, String> {
        let path = self.cache.join(RECORDS);
        let about = |why: &dyn std::fmt::Display| format!("cannot read {}: {why}", escaped(&path));
        if matches!(std::fs::symlink_metadata(&path), Err(error) if error.kind() == io::ErrorKind::NotFound) {
            return Ok(Vec::new());
        }
        let lock = self.cache.join(std::str::from_utf8(RECORDS_LOCK.to_bytes()).expect("because the name is ASCII"));
        let cache =
            open_dir(&self.cache).map_err(|errno| format!("cannot open {}: {}", escaped(&self.cache), words(errno)))?;
        let _held = take(cache, RECORDS_LOCK.to_owned(), LOCK_WAIT).map_err(|why| match why {
            NotTaken::Busy => format!("{} is held by somebody else", escaped(&lock)),
            NotTaken::Failed(errno) => format!("cannot lock {}: {}", escaped(&lock), words(errno)),
        })?;
        let text = read(&path).map_err(|error| about(&error))?;
        let parsed: Value = serde_json::from_str(&text).map_err(|error| about(&error))?;
        let Some(clones) = clones_of(&parsed).map_err(|why| about(&why))? else { return Ok(Vec::new()) };
        let doomed = choose(clones)?;
        if doomed.is_empty() {
            return Ok(Vec::new());
        }
        let edited =
            without(&text, CLONES, &doomed).map_err(|error| format!("cannot edit {}: {error}", escaped(&path)))?;
        write_atomically(&path, edited.as_bytes()).map_err(|error| error.to_string())?;
        Ok(clones.keys().filter(|key| doomed.contains(*key)).cloned().collect())
    }

    /// The repository directory and the name a clone had there, once nothing is there any more.
    /// `None` when the whole repository is gone: then no record can be tied to it for certain.
    fn gone(&self, below_root: &Path) -> Result<Option<(FileIdentity, OsString)>, String> {
        let root = Root::open(&self.cache.join(REPOSITORIES)).map_err(|error| error.to_string())?;
        let place = match find(&root, below_root) {
            Ok(place) => place,
            Err(Obstacle { why: NotEntered::Gone, .. }) => return Ok(None),
            Err(Obstacle { path, why }) => return Err(format!("cannot open {}: {why}", escaped(&path))),
        };
        let shown = root.path().join(below_root);
        match seen_at(&place.parent, &place.name) {
            Err(Errno::NOENT) => {}
            Ok(_) => return Err(format!("something lies at {} again, so its record stays", escaped(&shown))),
            Err(errno) => return Err(format!("cannot look at {}: {}", escaped(&shown), words(errno))),
        }
        let parent =
            seen(&place.parent).map_err(|errno| format!("cannot look beside {}: {}", escaped(&shown), words(errno)))?;
        Ok(below_root.file_name().map(|name| (parent.identity, name.to_owned())))
    }

    fn has_vanished(&self, record: &Value, journal: &Journal) -> bool {
        let Some(place) = recorded_place(record) else { return false };
        let (Ok(repositories), Ok(parent)) =
            (std::fs::canonicalize(self.cache.join(REPOSITORIES)), std::fs::canonicalize(&place.parent))
        else {
            return false;
        };
        let Ok(repository) = parent.strip_prefix(&repositories) else { return false };
        let below_root = repository.join(&place.name);
        let absent = std::fs::symlink_metadata(parent.join(&place.name))
            .is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
        absent
            && is_whole_repository(&parent, journal)
            && below_root.iter().count() == CLONE_LEVELS
            && !journal.unfinished().any(|open| open.candidate.below_root == below_root)
            && launch_runs(&self.cache, &place.name) == Ok(false)
    }
}

/// Whether a repository's directory is the one that clones were made in, with nothing of theirs in the
/// trash: its bare cache is there. One that is not mounted at present looks empty, and in the trash of
/// a journal that is not ours may lie the very clone that seems to be gone.
fn is_whole_repository(directory: &Path, journal: &Journal) -> bool {
    let Ok(entries) = std::fs::read_dir(directory) else { return false };
    let names: io::Result<Vec<OsString>> = entries.map(|entry| entry.map(|entry| entry.file_name())).collect();
    names.is_ok_and(|names| {
        // What our own journal has in hand is known by name.
        let known = |name: &[u8]| TrashName::parse(name).is_some_and(|trash| trash.journal == *journal.id());
        let unknown = |name: &OsString| is_trash_name(name.as_encoded_bytes()) && !known(name.as_encoded_bytes());
        !names.iter().any(unknown) && names.iter().any(|name| name == ".bare")
    })
}

fn read(path: &Path) -> io::Result<String> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut text = String::new();
    std::fs::File::open(path)?.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST_BYTES {
        return Err(io::Error::other(format!("it is larger than {MOST_BYTES} bytes")));
    }
    Ok(text)
}

/// The records of clones in a file whose version is understood; `None` when it has no such section.
fn clones_of(parsed: &Value) -> Result<Option<&Map<String, Value>>, String> {
    match parsed.get("version") {
        Some(version) if version.as_u64().is_some_and(|number| VERSIONS.contains(&number)) => {}
        Some(version) => return Err(format!("its version is {version}, and only 1 to 3 are understood")),
        None => return Err("it has no version".to_owned()),
    }
    match parsed.get(CLONES) {
        Some(Value::Object(clones)) => Ok(Some(clones)),
        None => Ok(None),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            Err(format!("its `{CLONES}` is no object"))
        }
    }
}

/// Where a record's path leads, symbolic links at its end followed although nothing need be there.
/// A path that is missing, empty or relative names nothing.
fn recorded_place(record: &Value) -> Option<RecordedPlace> {
    let mut path = PathBuf::from(record.get("local_path")?.as_str()?);
    for _ in 0..MOST_LINKS {
        if !path.is_absolute() {
            return None;
        }
        let place = RecordedPlace { parent: path.parent()?.to_owned(), name: path.file_name()?.to_owned() };
        match std::fs::read_link(place.parent.join(&place.name)) {
            Ok(target) => path = place.parent.join(target),
            Err(_) => return Some(place),
        }
    }
    None
}

fn leads_to(dir: &Path, identity: &FileIdentity) -> bool {
    std::fs::metadata(dir).is_ok_and(|found| (found.dev(), found.ino()) == (identity.dev, identity.ino))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_that_is_missing_empty_relative_or_ends_above_names_nothing() {
        for odd in [json!({}), json!({"local_path": null}), json!({"local_path": ""}), json!({"local_path": "a/b"})] {
            assert_eq!(recorded_place(&odd), None, "{odd}");
        }
        assert_eq!(recorded_place(&json!({"local_path": "/a/.."})), None);
        let place = RecordedPlace { parent: "/absent/a".into(), name: "b".into() };
        assert_eq!(recorded_place(&json!({"local_path": "/absent/a/b/"})), Some(place));
    }

    #[test]
    fn only_versions_that_are_understood_are_edited() {
        for version in 1..=3 {
            assert_eq!(clones_of(&json!({"version": version, "worktrees": {}})), Ok(Some(&Map::new())));
        }
        assert_eq!(clones_of(&json!({"version": 3})), Ok(None));
        let refused = |file: Value| clones_of(&file).unwrap_err();
        assert_eq!(refused(json!({"version": 4})), "its version is 4, and only 1 to 3 are understood");
        assert_eq!(refused(json!({"version": "3"})), "its version is \"3\", and only 1 to 3 are understood");
        assert_eq!(refused(json!([])), "it has no version");
        assert_eq!(refused(json!({"version": 3, "worktrees": []})), "its `worktrees` is no object");
    }
}
