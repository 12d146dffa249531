//! devpod: who is alive, and where each says it lives. Two views are read, because each can miss a
//! live workspace: `devpod list` knows only the selected context and skips what it cannot parse, and a
//! workspace file can be met while it is being written. An owner in either is alive.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use derelict_core::ids::escaped;
use derelict_core::ports::SourceLost;
use serde_json::{Map, Value};

use crate::environment::Environment;
use crate::exec::{self, Inherits, Invocation};
use crate::files;
use crate::sources::{DEVPOD, id};

/// How long a listing may take. It asks no container runtime, so a minute is far beyond any real one.
const LIST_DEADLINE: Duration = Duration::from_secs(60);

/// How much a listing may print: some ten thousand workspaces.
const LIST_BYTES: usize = 16 << 20;

/// How long a workspace file may be; real ones have a few thousand bytes.
const FILE_BYTES: u64 = 1 << 20;

/// A live workspace and one place it names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    pub(crate) id: String,
    pub(crate) place: Place,
}

/// Where a workspace says its source is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// In a directory of this machine.
    Local(PathBuf),
    /// Nowhere on this machine: a repository behind a URL, an image, a container.
    Remote(String),
    /// It could not be told.
    Unknown { why: String, reach: Reach },
}

/// What a workspace of unknown place could be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Reach {
    /// Alive, and any directory could be its.
    Anything,
    /// Perhaps not even alive: only directories that go by its name could be its.
    Named,
}

fn lost(why: String) -> SourceLost {
    SourceLost { source_id: id(DEVPOD), why }
}

/// One `devpod list`.
pub(crate) fn list(environment: &Environment) -> Result<Vec<Owner>, SourceLost> {
    let program = environment.program("devpod").ok_or_else(|| lost("no program devpod on PATH".into()))?;
    let variables = [
        ("HOME", environment.home.as_deref().map(Path::as_os_str)),
        ("DEVPOD_HOME", environment.devpod_home.as_deref().map(Path::as_os_str)),
        ("PATH", environment.path.as_deref()),
    ];
    let printed = exec::run(&Invocation {
        program: &program,
        arguments: &["list", "--output", "json"],
        inherits: Inherits::Everything,
        variables: &variables,
        deadline: LIST_DEADLINE,
        output_bytes: LIST_BYTES,
    });
    parse_list(&printed.map_err(|error| lost(error.to_string()))?)
}

fn parse_list(printed: &[u8]) -> Result<Vec<Owner>, SourceLost> {
    let value: Value = serde_json::from_slice(printed)
        .map_err(|error| lost(format!("`devpod list --output json` printed no JSON: {error}")))?;
    let Value::Array(elements) = value else {
        return Err(lost(format!("`devpod list --output json` printed {} instead of an array", kind(&value))));
    };
    let mut owners = Vec::new();
    for (index, element) in elements.iter().enumerate() {
        let at = |what: &str| lost(format!("element {index} of `devpod list --output json` {what}"));
        let Value::Object(workspace) = element else { return Err(at(&format!("is {}, not an object", kind(element)))) };
        let id = match workspace.get("id") {
            Some(Value::String(id)) if !id.is_empty() => id,
            Some(_) => return Err(at("has an id that is no name")),
            None => return Err(at("has no id")),
        };
        owners.extend(owners_of(id, workspace, "its listing"));
    }
    Ok(owners)
}

/// The workspace files of all contexts.
pub(crate) fn files(environment: &Environment) -> Result<Vec<Owner>, SourceLost> {
    let home = environment
        .devpod_home()
        .ok_or_else(|| lost("neither DEVPOD_HOME nor HOME says where its files are".into()))?;
    let mut owners = Vec::new();
    leads_somewhere(&home)?;
    for context in children(&home.join("contexts"))? {
        leads_somewhere(&context)?;
        // What is no directory holds no workspaces.
        if context.is_file() {
            continue;
        }
        for workspace in children(&context.join("workspaces"))? {
            // What is no directory holds no workspace file, and devpod does not look at it either.
            if workspace.is_file() {
                continue;
            }
            owners.extend(file(&workspace));
        }
    }
    Ok(owners)
}

/// A symlink that leads nowhere is not the same as nothing: what it led to is not mounted, perhaps.
fn leads_somewhere(path: &Path) -> Result<(), SourceLost> {
    match std::fs::metadata(path) {
        Err(_) if std::fs::symlink_metadata(path).is_ok() => {
            Err(lost(format!("{} is a symlink that leads nowhere", escaped(path))))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// The entries of a directory; none when it is absent, for then devpod has never written there.
fn children(path: &Path) -> Result<Vec<PathBuf>, SourceLost> {
    let unreadable = |error: io::Error| lost(format!("cannot list {}: {error}", escaped(path)));
    let listing = match std::fs::read_dir(path) {
        Ok(listing) => listing,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            leads_somewhere(path)?;
            return Ok(Vec::new());
        }
        Err(error) => return Err(unreadable(error)),
    };
    let mut found = Vec::new();
    for entry in listing {
        found.push(entry.map_err(unreadable)?.path());
    }
    found.sort();
    Ok(found)
}

/// What one workspace's directory says. A file that cannot be read or parsed leaves the workspace alive
/// and its place unknown. Without a file nothing says that it lives, and still a directory of that name is
/// not for us to take.
fn file(directory: &Path) -> Vec<Owner> {
    let path = directory.join("workspace.json");
    let name = directory.file_name().unwrap_or(OsStr::new("")).to_string_lossy().into_owned();
    let unknown = |why: String, reach| vec![Owner { id: name.clone(), place: Place::Unknown { why, reach } }];
    let bytes = match files::read(&path, FILE_BYTES) {
        Ok(bytes) => bytes,
        Err(error)
            if files::is_absent(&error) && leads_somewhere(directory).is_ok() && leads_somewhere(&path).is_ok() =>
        {
            return unknown(format!("{} is missing", escaped(&path)), Reach::Named);
        }
        Err(error) => return unknown(format!("cannot read {}: {error}", escaped(&path)), Reach::Anything),
    };
    let workspace = match serde_json::from_slice(&bytes) {
        Ok(Value::Object(workspace)) => workspace,
        Ok(other) => return unknown(format!("{} holds {}", escaped(&path), kind(&other)), Reach::Anything),
        Err(error) => return unknown(format!("cannot parse {}: {error}", escaped(&path)), Reach::Anything),
    };
    let told_by = escaped(&path);
    let mut owners = owners_of(&name, &workspace, &told_by);
    if let Some(Value::String(id)) = workspace.get("id")
        && *id != name
        && !id.is_empty()
    {
        owners.extend(owners_of(id, &workspace, &told_by));
    }
    owners
}

/// One workspace with every place it names; at least one.
fn owners_of(id: &str, workspace: &Map<String, Value>, told_by: &str) -> Vec<Owner> {
    let places = match workspace.get("source") {
        Some(Value::Object(source)) => places(source, told_by),
        Some(Value::Null) | None => vec![unplaced(format!("{told_by} names no source"))],
        Some(other) => vec![unplaced(format!("the source in {told_by} is {}", kind(other)))],
    };
    places.into_iter().map(|place| Owner { id: id.to_owned(), place }).collect()
}

fn unplaced(why: String) -> Place {
    Place::Unknown { why, reach: Reach::Anything }
}

fn places(source: &Map<String, Value>, told_by: &str) -> Vec<Place> {
    let mut found = Vec::new();
    for family in ["localFolder", "gitRepository", "image", "container"] {
        match source.get(family) {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) if text.is_empty() => {}
            Some(Value::String(text)) => found.push(place(family, text, told_by)),
            Some(other) => found.push(unplaced(format!("{family} in {told_by} is {}", kind(other)))),
        }
    }
    if found.is_empty() {
        found.push(unplaced(format!("the source in {told_by} is empty")));
    }
    found
}

fn place(family: &str, text: &str, told_by: &str) -> Place {
    match family {
        "image" | "container" => Place::Remote(format!("in the {family} {text}")),
        "localFolder" | "gitRepository" if text.starts_with('/') => Place::Local(text.into()),
        "gitRepository" if text.starts_with("file:///") => Place::Local(text.trim_start_matches("file://").into()),
        "gitRepository" if is_elsewhere(text) => Place::Remote(format!("in the repository {text}")),
        _ => unplaced(format!("{family} in {told_by} is neither an absolute path nor a URL: {}", text.escape_debug())),
    }
}

/// `scheme://…` or `user@host:…`.
fn is_elsewhere(text: &str) -> bool {
    let scheme = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    if let Some((before, _)) = text.split_once("://") {
        return !before.is_empty() && scheme(before) && before != "file";
    }
    let Some((before, _)) = text.split_once(':') else { return false };
    let Some((user, host)) = before.split_once('@') else { return false };
    !user.is_empty() && !host.is_empty() && !before.contains('/')
}

/// What a JSON value is, for messages.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests build what is looked at")]
mod tests {
    use super::*;

    fn environment(home: &Path) -> Environment {
        Environment {
            home: Some(home.into()),
            xdg_cache_home: None,
            devpod_home: None,
            xdg_config_home: None,
            ssh_auth_sock: None,
            path: None,
            uid: 0,
        }
    }

    fn workspace(home: &Path, context: &str, name: &str, content: &str) -> PathBuf {
        let directory = home.join(".devpod/contexts").join(context).join("workspaces").join(name);
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("workspace.json"), content).unwrap();
        directory.join("workspace.json")
    }

    fn placed(source: &str) -> Vec<Place> {
        let listing = format!(r#"[{{"id":"x","source":{source}}}]"#);
        parse_list(listing.as_bytes()).unwrap().into_iter().map(|owner| owner.place).collect()
    }

    #[test]
    fn every_source_family_is_placed_where_it_is() {
        let local = |path: &str| vec![Place::Local(path.into())];
        assert_eq!(placed(r#"{"localFolder":"/a/b"}"#), local("/a/b"));
        assert_eq!(placed(r#"{"gitRepository":"/a/b"}"#), local("/a/b"));
        assert_eq!(placed(r#"{"gitRepository":"file:///a"}"#), local("/a"));
        for remote in ["https://h/r", "ssh://git@h/r", "git@h:o/r", "git+ssh://h/r"] {
            let expected = vec![Place::Remote(format!("in the repository {remote}"))];
            assert_eq!(placed(&format!(r#"{{"gitRepository":"{remote}","localFolder":""}}"#)), expected, "{remote}");
        }
        assert_eq!(placed(r#"{"image":"ubuntu"}"#), [Place::Remote("in the image ubuntu".into())]);
        assert_eq!(placed(r#"{"container":"c"}"#), [Place::Remote("in the container c".into())]);
    }

    #[test]
    fn a_source_that_cannot_be_placed_is_alive_somewhere() {
        let sources = [
            "null",
            "{}",
            "5",
            r#"{"localFolder":""}"#,
            r#"{"localFolder":"relative"}"#,
            r#"{"localFolder":5}"#,
            r#"{"gitRepository":"host/o/r"}"#,
            r#"{"gitRepository":"a/b@c:d"}"#,
            r#"{"localFolder":"https://h/r"}"#,
            r#"{"gitRepository":"file://relative"}"#,
        ];
        for source in sources {
            let [Place::Unknown { reach: Reach::Anything, .. }] = placed(source)[..] else { panic!("{source}") };
        }
        let missing = parse_list(br#"[{"id":"x","unknown":[1]}]"#).unwrap();
        assert!(matches!(missing[..], [Owner { place: Place::Unknown { .. }, .. }]));
    }

    #[test]
    fn what_is_no_list_of_workspaces_is_a_lost_source_that_says_where() {
        let bad = [
            ("", "printed no JSON"),
            ("null", "printed null instead of an array"),
            ("{}", "printed an object instead of an array"),
            ("[] x", "printed no JSON"),
            (r#"[{"id":"a"},3]"#, "element 1 of `devpod list --output json` is a number, not an object"),
            (r#"[{}]"#, "element 0 of `devpod list --output json` has no id"),
            (r#"[{"id":""}]"#, "has an id that is no name"),
        ];
        for (printed, expected) in bad {
            let lost = parse_list(printed.as_bytes()).unwrap_err();
            assert!(lost.why.contains(expected), "{printed}: {}", lost.why);
            assert_eq!(lost.source_id, id(DEVPOD));
        }
        assert_eq!(parse_list(b" [ ]\n").unwrap(), []);
    }

    #[test]
    fn the_files_of_every_context_count() {
        let world = tempfile::tempdir().expect("because a temporary directory can be made");
        assert_eq!(files(&environment(world.path())).unwrap(), []);
        workspace(world.path(), "default", "a", r#"{"id":"a","source":{"localFolder":"/a"}}"#);
        workspace(world.path(), "work", "b", r#"{"id":"other","source":{"localFolder":"/b"}}"#);
        let expected = [("a", "/a"), ("b", "/b"), ("other", "/b")]
            .map(|(id, path)| Owner { id: id.into(), place: Place::Local(path.into()) });
        assert_eq!(files(&environment(world.path())).unwrap(), expected);
    }

    #[test]
    fn a_torn_file_leaves_its_workspace_alive_and_a_missing_one_keeps_its_name() {
        let world = tempfile::tempdir().expect("because a temporary directory can be made");
        let torn = workspace(world.path(), "default", "torn", r#"{"id":"torn","#);
        let empty = workspace(world.path(), "default", "empty", "");
        let gone = workspace(world.path(), "default", "gone", "");
        std::fs::remove_file(&gone).unwrap();
        let owners = files(&environment(world.path())).unwrap();
        let reaches: Vec<_> = owners
            .iter()
            .map(|owner| match &owner.place {
                Place::Unknown { why, reach } => (owner.id.as_str(), *reach, why.contains("workspace.json")),
                Place::Local(_) | Place::Remote(_) => panic!("{owner:?}"),
            })
            .collect();
        let expected =
            [("empty", Reach::Anything, true), ("gone", Reach::Named, true), ("torn", Reach::Anything, true)];
        assert_eq!(reaches, expected, "{torn:?} {empty:?}");
    }
}
