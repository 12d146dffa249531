//! Refs, pseudo refs and reflogs of a repository, read as they are, in whichever way they are stored.
//!
//! A ref that cannot be read is never left out: it is a reason why nothing can be told.

use std::io;
use std::path::{Path, PathBuf};

use bstr::ByteSlice;
use gix_hash::ObjectId;

use crate::reftable::{Stack, Value};
use crate::settings::{Settings, Storage};

/// A ref file holds one object name or one ref name; anything larger is not one.
const REF_BYTES: u64 = 4096;

/// `FETCH_HEAD` and `MERGE_HEAD` hold a line per head.
const PSEUDO_REF_BYTES: u64 = 16 * 1024 * 1024;

/// Packed refs and reflogs larger than this are not read: a hundred thousand lines are ten million bytes.
const LIST_BYTES: u64 = 1024 * 1024 * 1024;

/// All refs of one ref store.
#[derive(Debug, Default)]
pub(crate) struct Refs {
    /// Full name and object.
    pub(crate) direct: Vec<(Vec<u8>, ObjectId)>,
    /// Full name and the name it stands for.
    pub(crate) symbolic: Vec<(Vec<u8>, Vec<u8>)>,
    /// What could not be read.
    pub(crate) unreadable: Vec<String>,
}

/// Where HEAD stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Head {
    /// On a branch, named in full.
    Branch(Vec<u8>),
    /// On a commit.
    Detached(ObjectId),
}

impl Refs {
    /// All refs of one git directory.
    pub(crate) fn read(dir: &Path, settings: &Settings) -> Self {
        match settings.storage {
            Storage::Files => Self::read_files(dir, settings.hash),
            Storage::Reftable => Self::read_tables(dir, settings.hash),
        }
    }

    fn read_tables(dir: &Path, hash: gix_hash::Kind) -> Self {
        let mut refs = Self::default();
        match Stack::read(dir, hash) {
            Ok(stack) => {
                for (name, value) in stack.refs.into_iter().filter(|(name, _)| name.starts_with(b"refs/")) {
                    match value {
                        Value::Object(id) => refs.direct.push((name, id)),
                        Value::Symbolic(target) => refs.symbolic.push((name, target)),
                    }
                }
            }
            Err(why) => refs.unreadable.push(why),
        }
        refs
    }

    /// Loose refs below `dir/refs`, and the packed ones of `dir`.
    fn read_files(dir: &Path, hash: gix_hash::Kind) -> Self {
        let mut refs = Self::default();
        let mut names = Vec::new();
        list_files(&dir.join("refs"), b"refs", &mut names, &mut refs.unreadable);
        for (name, path) in names {
            refs.read_loose(name, &path, hash);
        }
        let loose: std::collections::HashSet<Vec<u8>> = refs
            .direct
            .iter()
            .map(|(name, _)| name)
            .chain(refs.symbolic.iter().map(|(name, _)| name))
            .cloned()
            .collect();
        refs.read_packed(&dir.join("packed-refs"), hash, &loose);
        refs
    }

    /// The object a ref stands for, through symbolic refs.
    pub(crate) fn find(&self, name: &[u8]) -> Option<ObjectId> {
        let mut name = name;
        // Git itself follows five levels.
        for _ in 0..5 {
            if let Some((_, id)) = self.direct.iter().find(|(known, _)| known == name) {
                return Some(*id);
            }
            name = &self.symbolic.iter().find(|(known, _)| known == name)?.1;
        }
        None
    }

    fn read_loose(&mut self, name: Vec<u8>, path: &Path, hash: gix_hash::Kind) {
        // A lock file is reported as such by the walk; it is not a ref.
        if name.ends_with(b".lock") {
            return;
        }
        match read_limited(path, REF_BYTES).map(|text| parse_ref(&text, hash)) {
            Ok(Some(Head::Detached(id))) => self.direct.push((name, id)),
            Ok(Some(Head::Branch(target))) => self.symbolic.push((name, target)),
            Ok(None) => self.unreadable.push(format!("ref {} holds no object name", name.escape_ascii())),
            Err(error) => self.unreadable.push(format!("cannot read ref {}: {error}", name.escape_ascii())),
        }
    }

    fn read_packed(&mut self, path: &Path, hash: gix_hash::Kind, loose: &std::collections::HashSet<Vec<u8>>) {
        let text = match read_limited(path, LIST_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => return self.unreadable.push(format!("cannot read packed-refs: {error}")),
        };
        self.parse_packed(&text, hash, loose);
    }

    pub(crate) fn parse_packed(
        &mut self,
        text: &[u8],
        hash: gix_hash::Kind,
        loose: &std::collections::HashSet<Vec<u8>>,
    ) {
        for (number, line) in text.lines().enumerate() {
            if line.starts_with(b"#") || line.starts_with(b"^") || line.is_empty() {
                continue;
            }
            let entry = line.split_once_str(" ").and_then(|(hex, name)| Some((parse_id(hex, hash)?, name)));
            match entry {
                // A loose ref of the same name is newer.
                Some((_, name)) if loose.contains(name) => {}
                Some((id, name)) => self.direct.push((name.to_vec(), id)),
                None => self.unreadable.push(format!("packed-refs line {} is not a ref", number + 1)),
            }
        }
    }
}

/// Reads `HEAD` of a git directory; an old symlink to a ref counts as its name.
pub(crate) fn read_head(git_dir: &Path, settings: &Settings) -> Result<Head, String> {
    let hash = settings.hash;
    if settings.storage == Storage::Reftable {
        return match Stack::read(git_dir, hash)?.refs.remove(&b"HEAD"[..]) {
            Some(Value::Object(id)) => Ok(Head::Detached(id)),
            Some(Value::Symbolic(name)) => Ok(Head::Branch(name)),
            None => Err("there is no HEAD".into()),
        };
    }
    let path = git_dir.join("HEAD");
    if let Ok(target) = std::fs::read_link(&path) {
        let target = target.as_os_str().as_encoded_bytes().to_vec();
        return if target.starts_with(b"refs/") {
            Ok(Head::Branch(target))
        } else {
            Err("HEAD is a symlink out of the repository".into())
        };
    }
    let text = read_limited(&path, REF_BYTES).map_err(|error| format!("cannot read HEAD: {error}"))?;
    parse_ref(&text, hash).ok_or_else(|| "HEAD names neither a branch nor a commit".into())
}

/// The objects that `ORIG_HEAD`, `FETCH_HEAD`, `MERGE_HEAD` and the like name, with the file's name.
pub(crate) fn pseudo_refs(
    git_dir: &Path,
    settings: &Settings,
    unreadable: &mut Vec<String>,
) -> Vec<(String, ObjectId)> {
    let hash = settings.hash;
    let mut found = Vec::new();
    if settings.storage == Storage::Reftable {
        match Stack::read(git_dir, hash) {
            Ok(stack) => found.extend(stack.refs.into_iter().filter_map(|(name, value)| match value {
                Value::Object(id) if !name.starts_with(b"refs/") => Some((name.escape_ascii().to_string(), id)),
                Value::Object(_) | Value::Symbolic(_) => None,
            })),
            Err(why) => unreadable.push(why),
        }
    }
    let entries = match std::fs::read_dir(git_dir) {
        Ok(entries) => entries,
        Err(error) => {
            unreadable.push(format!("cannot list {}: {error}", git_dir.display()));
            return found;
        }
    };
    for entry in entries {
        let name = match entry {
            Ok(entry) => entry.file_name(),
            Err(error) => {
                unreadable.push(format!("cannot list {}: {error}", git_dir.display()));
                continue;
            }
        };
        let Some(name) = name.to_str().filter(|name| is_pseudo_ref(name)) else { continue };
        match read_limited(&git_dir.join(name), PSEUDO_REF_BYTES) {
            Ok(text) => found.extend(
                text.lines()
                    .filter_map(|line| parse_id(line.get(..hash.len_in_hex())?, hash))
                    .map(|id| (name.to_owned(), id)),
            ),
            Err(error) => unreadable.push(format!("cannot read {name}: {error}")),
        }
    }
    found
}

/// `ORIG_HEAD`, `MERGE_AUTOSTASH`, `NOTES_MERGE_PARTIAL`: capitals and at least one underscore. `HEAD`
/// itself is none; messages such as `MERGE_MSG` hold no object name and so name nothing.
fn is_pseudo_ref(name: &str) -> bool {
    name.contains('_') && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
}

/// One reflog: the ref it belongs to and every object it names, oldest first, each once.
#[derive(Debug)]
pub(crate) struct Reflog {
    pub(crate) name: Vec<u8>,
    pub(crate) objects: Vec<ObjectId>,
    /// The last line's new object and message.
    pub(crate) last: Option<(ObjectId, Vec<u8>)>,
}

/// All reflogs of a git directory.
pub(crate) fn reflogs(git_dir: &Path, settings: &Settings, unreadable: &mut Vec<String>) -> Vec<Reflog> {
    let hash = settings.hash;
    if settings.storage == Storage::Reftable {
        return match Stack::read(git_dir, hash) {
            Ok(stack) => from_tables(stack),
            Err(why) => {
                unreadable.push(why);
                Vec::new()
            }
        };
    }
    let mut files = Vec::new();
    list_files(&git_dir.join("logs"), b"", &mut files, unreadable);
    let mut logs = Vec::new();
    for (name, path) in files {
        if name.ends_with(b".lock") {
            continue;
        }
        match read_limited(&path, LIST_BYTES) {
            Ok(text) => logs.push(parse_reflog(name, &text, hash, unreadable)),
            Err(error) => unreadable.push(format!("cannot read reflog of {}: {error}", name.escape_ascii())),
        }
    }
    logs
}

fn from_tables(stack: Stack) -> Vec<Reflog> {
    let mut logs: Vec<Reflog> = Vec::new();
    for ((name, _), entry) in stack.logs {
        if logs.last().is_none_or(|log| log.name != name) {
            logs.push(Reflog { name, objects: Vec::new(), last: None });
        }
        let log = logs.last_mut().expect("because one was just put there");
        log.objects.extend([entry.old, entry.new].into_iter().filter(|id| !id.is_null()));
        log.last = Some((entry.new, entry.message));
    }
    let mut seen = std::collections::HashSet::new();
    for log in &mut logs {
        seen.clear();
        log.objects.retain(|id| seen.insert(*id));
    }
    logs
}

pub(crate) fn parse_reflog(name: Vec<u8>, text: &[u8], hash: gix_hash::Kind, unreadable: &mut Vec<String>) -> Reflog {
    let mut seen = std::collections::HashSet::new();
    let (mut objects, mut last) = (Vec::new(), None);
    let hex = hash.len_in_hex();
    for (number, line) in text.lines().enumerate() {
        let ids = line
            .get(..hex)
            .and_then(|old| parse_id(old, hash))
            .zip(line.get(hex + 1..2 * hex + 1).and_then(|new| parse_id(new, hash)));
        let Some((old, new)) = ids else {
            unreadable.push(format!("reflog of {} line {} names no objects", name.escape_ascii(), number + 1));
            continue;
        };
        objects.extend([old, new].into_iter().filter(|id| !id.is_null() && seen.insert(*id)));
        last = Some((new, line.split_once_str("\t").map(|(_, message)| message.to_vec()).unwrap_or_else(Vec::new)));
    }
    Reflog { name, objects, last }
}

pub(crate) fn parse_ref(text: &[u8], hash: gix_hash::Kind) -> Option<Head> {
    let text = text.trim();
    match text.strip_prefix(b"ref:") {
        Some(target) => Some(Head::Branch(target.trim().to_vec())).filter(|_| target.trim().starts_with(b"refs/")),
        None => parse_id(text.get(..hash.len_in_hex())?, hash).map(Head::Detached),
    }
}

/// An object name in full; a shorter or longer one, or one of another hash, is none.
pub(crate) fn parse_id(hex: &[u8], hash: gix_hash::Kind) -> Option<ObjectId> {
    if hex.len() != hash.len_in_hex() { None } else { ObjectId::from_hex(hex).ok() }
}

/// Reads a file whole, unless it is larger than `limit` bytes or no regular file.
pub(crate) fn read_limited(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    use std::io::Read;
    let file = crate::stat::open_file_at(rustix::fs::CWD, path.as_os_str().as_encoded_bytes())?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    if metadata.len() > limit {
        return Err(io::Error::other(format!("it is larger than {limit} bytes")));
    }
    let mut text = Vec::with_capacity(metadata.len() as usize);
    file.take(limit).read_to_end(&mut text)?;
    Ok(text)
}

/// Every file below `dir`, with its name below `prefix`. What is missing altogether has no files.
fn list_files(dir: &Path, prefix: &[u8], files: &mut Vec<(Vec<u8>, PathBuf)>, unreadable: &mut Vec<String>) {
    let mut pending = vec![(prefix.to_vec(), dir.to_owned())];
    while let Some((prefix, dir)) = pending.pop() {
        let entries = match std::fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                unreadable.push(format!("cannot list {}: {error}", prefix.escape_ascii()));
                continue;
            }
        };
        for entry in entries {
            let kind = entry.and_then(|entry| Ok((entry.file_type()?, entry)));
            let (kind, entry) = match kind {
                Ok(found) => found,
                Err(error) => {
                    unreadable.push(format!("cannot list {}: {error}", prefix.escape_ascii()));
                    continue;
                }
            };
            let mut name = prefix.clone();
            if !name.is_empty() {
                name.push(b'/');
            }
            name.extend_from_slice(entry.file_name().as_encoded_bytes());
            if kind.is_dir() {
                pending.push((name, entry.path()));
            } else {
                files.push((name, entry.path()));
            }
        }
    }
}
