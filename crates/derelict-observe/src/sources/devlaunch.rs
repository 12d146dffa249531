//! devlaunch's record file: which clone was made for which workspace. Records lag behind, so they own
//! nothing; they tie a clone to a live owner that says it lives elsewhere, and the stale ones are
//! named. The file is only read here, whatever state it is in.

use std::path::{Path, PathBuf};

use derelict_core::evidence::{Blind, Observed, Signal};
use derelict_core::ids::escaped;
use serde_json::{Map, Value};

use crate::files;
use crate::sources::devpod::kind;

/// How long the record file may be: some hundred thousand records.
const FILE_BYTES: u64 = 64 << 20;

/// The versions that are understood.
const VERSIONS: std::ops::RangeInclusive<u64> = 1..=3;

/// One record. What it does not name readably it does not name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    /// The key in the file.
    pub(crate) key: String,
    /// Where the clone is said to be, if that is an absolute path.
    pub(crate) local_path: Option<PathBuf>,
    /// The launcher's and devpod's id of the workspace.
    pub(crate) ids: Vec<String>,
}

/// Reads the records. Without a file there are none; a file that cannot be read, parsed or understood
/// says nothing of any clone.
pub(crate) fn records(path: &Path) -> Observed<Vec<Record>> {
    let unknown = |why: String| Observed::Unknown(Blind { signal: Signal::Owner, why });
    let bytes = match files::read(path, FILE_BYTES) {
        Ok(bytes) => bytes,
        Err(error) if files::is_absent(&error) && is_really_absent(path) => return Observed::Known(Vec::new()),
        Err(error) => return unknown(format!("cannot read the records in {}: {error}", escaped(path))),
    };
    match parse(&bytes) {
        Ok(records) => Observed::Known(records),
        Err(why) => unknown(format!("cannot understand the records in {}: {why}", escaped(path))),
    }
}

/// A dangling symlink is a record file that went missing, not one that never was.
fn is_really_absent(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_err_and(|error| files::is_absent(&error))
}

fn parse(bytes: &[u8]) -> Result<Vec<Record>, String> {
    let value: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let Value::Object(file) = value else { return Err(format!("it holds {}, not an object", kind(&value))) };
    match file.get("version") {
        Some(version) if version.as_u64().is_some_and(|version| VERSIONS.contains(&version)) => {}
        Some(version) => return Err(format!("version {version} is not one of 1, 2 and 3")),
        None => return Err("it has no version".into()),
    }
    match file.get("worktrees") {
        Some(Value::Object(worktrees)) => worktrees.iter().map(|(key, value)| record(key, value)).collect(),
        Some(other) => Err(format!("worktrees is {}, not an object", kind(other))),
        None => Err("it has no worktrees".into()),
    }
}

/// The fields that name a record's owner.
const ID_FIELDS: [&str; 2] = ["workspace_id", "devpod_workspace_id"];

fn record(key: &str, value: &Value) -> Result<Record, String> {
    let Value::Object(fields) = value else {
        return Err(format!("the record {key:?} is {}, not an object", kind(value)));
    };
    if let Some(other) =
        ID_FIELDS.iter().filter_map(|name| fields.get(*name)).find(|value| !value.is_string() && !value.is_null())
    {
        return Err(format!("the record {key:?} has an id that is {}, not a text", kind(other)));
    }
    let local_path = text(fields, "local_path").map(PathBuf::from).filter(|path| path.is_absolute());
    let mut ids: Vec<String> = ID_FIELDS.into_iter().filter_map(|name| text(fields, name)).collect();
    ids.dedup();
    Ok(Record { key: key.to_owned(), local_path, ids })
}

fn text(fields: &Map<String, Value>, name: &str) -> Option<String> {
    fields.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests build what is looked at")]
mod tests {
    use super::*;

    fn read(content: &str) -> Observed<Vec<Record>> {
        let world = tempfile::tempdir().expect("because a temporary directory can be made");
        let path = world.path().join("metadata.json");
        std::fs::write(&path, content).unwrap();
        records(&path)
    }

    fn why(content: &str) -> String {
        match read(content) {
            Observed::Unknown(blind) => blind.why,
            Observed::Known(records) => panic!("{records:?}"),
        }
    }

    #[test]
    fn records_of_every_known_version_are_read() {
        for version in 1..=3 {
            let content = format!(
                r#"{{"version":{version},"worktrees":{{"o/r/b":{{"local_path":"/c/x","workspace_id":"x","devpod_workspace_id":"y","new":1}}}}}}"#
            );
            let expected =
                Record { key: "o/r/b".into(), local_path: Some("/c/x".into()), ids: vec!["x".into(), "y".into()] };
            assert_eq!(read(&content), Observed::Known(vec![expected]), "{version}");
        }
    }

    #[test]
    fn a_record_names_only_what_it_names_readably() {
        let content = r#"{"version":3,"worktrees":{"k":{"local_path":"relative","workspace_id":"","devpod_workspace_id":null},
            "l":{"local_path":5,"workspace_id":"x","devpod_workspace_id":"x"}}}"#;
        let expected = [("k", vec![]), ("l", vec!["x".to_owned()])].map(|(key, ids)| Record {
            key: key.into(),
            local_path: None,
            ids,
        });
        assert_eq!(read(content), Observed::Known(expected.into()));
    }

    #[test]
    fn a_file_that_is_not_understood_says_nothing_and_names_itself() {
        assert!(why("{").contains("metadata.json: EOF"), "{}", why("{"));
        for (content, expected) in [
            ("[]", "it holds an array, not an object"),
            ("{}", "it has no version"),
            (r#"{"version":4,"worktrees":{}}"#, "version 4 is not one of 1, 2 and 3"),
            (r#"{"version":"3","worktrees":{}}"#, "version \"3\" is not"),
            (r#"{"version":3}"#, "it has no worktrees"),
            (r#"{"version":3,"worktrees":[]}"#, "worktrees is an array"),
            (r#"{"version":3,"worktrees":{"k":1}}"#, "the record \"k\" is a number"),
        ] {
            assert!(why(content).contains(expected), "{content}: {}", why(content));
        }
    }

    #[test]
    fn no_file_is_no_record_and_a_dangling_one_is_unknown() {
        let world = tempfile::tempdir().expect("because a temporary directory can be made");
        let path = world.path().join("metadata.json");
        assert_eq!(records(&path), Observed::Known(Vec::new()));
        std::os::unix::fs::symlink("nowhere", &path).unwrap();
        assert!(matches!(records(&path), Observed::Unknown(_)));
    }
}
