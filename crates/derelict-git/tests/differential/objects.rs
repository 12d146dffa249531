//! Objects as stock git prints them: `rev-list` says which, `cat-file --batch` says what is in them.
//! Nothing of the product's own reading is used here, and nothing is decided.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;

use derelict_testkit::git::tool;

/// An object's name in hexadecimal digits.
pub(crate) type Id = String;

/// A tree with all trees below it: path to mode and object.
pub(crate) type Flat = BTreeMap<Vec<u8>, (u32, Id)>;

pub(crate) const TREE_MODE: u32 = 0o40_000;

#[derive(Debug)]
pub(crate) enum Object {
    Commit { tree: Id, parents: Vec<Id> },
    Tree(Vec<(u32, Vec<u8>, Id)>),
    Blob(Vec<u8>),
    Tag(Id),
}

/// The contents of all objects that anybody here has named.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    objects: HashMap<Id, Object>,
    flat: HashMap<Id, Rc<Flat>>,
}

/// `git` in a repository, which is not looked for. Any directory does as its work tree: that of a
/// submodule may be gone, and git then refuses even to list its refs.
pub(crate) fn git(git_dir: &Path) -> Command {
    let mut command = tool("git");
    command.env("GIT_NO_REPLACE_OBJECTS", "1").env("GIT_WORK_TREE", "/").arg("--git-dir").arg(git_dir);
    command
}

/// Runs it with this on its standard input. `Err` is what it said.
pub(crate) fn run(mut command: Command, input: &[u8]) -> Result<Vec<u8>, String> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("because git can be started");
    let mut stdin = child.stdin.take().expect("because it is piped");
    let output = std::thread::scope(|scope| {
        // A git that fails early closes its end; what it says then is the answer.
        scope.spawn(move || stdin.write_all(input).is_ok());
        child.wait_with_output().expect("because git was started")
    });
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)))
    }
}

/// Lines of text as names of objects.
pub(crate) fn ids(text: &[u8]) -> HashSet<Id> {
    String::from_utf8_lossy(text).lines().map(str::to_owned).collect()
}

impl Objects {
    /// Reads these from a repository and from stores beside it.
    pub(crate) fn read(git_dir: &Path, stores: &[&Path], wanted: &HashSet<Id>) -> Result<Self, String> {
        let beside: Vec<String> = stores.iter().map(|store| store.join("objects").display().to_string()).collect();
        let mut command = git(git_dir);
        command.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", beside.join(":")).args(["cat-file", "--batch"]);
        let input: String = wanted.iter().map(|id| format!("{id}\n")).collect();
        let text = run(command, input.as_bytes())?;
        let mut objects = HashMap::new();
        let mut rest = text.as_slice();
        while !rest.is_empty() {
            let end = position(rest, b'\n');
            let header = String::from_utf8_lossy(&rest[..end]).into_owned();
            rest = &rest[end + 1..];
            let [id, kind, size] = header.split(' ').collect::<Vec<_>>()[..] else {
                return Err(format!("not in any store: {header}"));
            };
            let size: usize = size.parse().expect("because git prints a number");
            objects.insert(id.to_owned(), parse(kind, &rest[..size], id.len() / 2));
            rest = &rest[size + 1..];
        }
        Ok(Self { objects, flat: HashMap::new() })
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Object> {
        self.objects.get(id)
    }

    pub(crate) fn commit(&self, id: &str) -> Option<(&Id, &[Id])> {
        match self.get(id) {
            Some(Object::Commit { tree, parents }) => Some((tree, parents)),
            Some(Object::Tree(_) | Object::Blob(_) | Object::Tag(_)) | None => None,
        }
    }

    pub(crate) fn blob(&self, id: &str) -> Option<&[u8]> {
        match self.get(id) {
            Some(Object::Blob(content)) => Some(content),
            Some(Object::Commit { .. } | Object::Tree(_) | Object::Tag(_)) | None => None,
        }
    }

    /// The commit a name leads to, through tags.
    pub(crate) fn peel(&self, id: &str) -> Option<Id> {
        match self.get(id)? {
            Object::Commit { .. } => Some(id.to_owned()),
            Object::Tag(target) => self.peel(target),
            Object::Tree(_) | Object::Blob(_) => None,
        }
    }

    /// All that a commit's tree holds; nothing for no commit.
    pub(crate) fn flat(&mut self, commit: Option<&Id>) -> Rc<Flat> {
        let Some(tree) = commit.and_then(|commit| self.commit(commit)).map(|(tree, _)| tree.clone()) else {
            return Rc::default();
        };
        if let Some(known) = self.flat.get(&tree) {
            return known.clone();
        }
        let mut flat = Flat::new();
        self.flatten(&tree, b"", &mut flat);
        let flat = Rc::new(flat);
        self.flat.insert(tree, flat.clone());
        flat
    }

    fn flatten(&self, tree: &Id, prefix: &[u8], into: &mut Flat) {
        let Some(Object::Tree(entries)) = self.get(tree) else { return };
        for (mode, name, id) in entries {
            let path = [prefix, name].concat();
            if *mode == TREE_MODE {
                self.flatten(id, &[path.as_slice(), b"/"].concat(), into);
            } else {
                into.insert(path, (*mode, id.clone()));
            }
        }
    }

    /// Commits reachable from these, and they themselves.
    pub(crate) fn ancestry(&self, from: impl IntoIterator<Item = Id>) -> HashSet<Id> {
        let (mut pending, mut seen): (Vec<Id>, _) = (from.into_iter().collect(), HashSet::new());
        while let Some(id) = pending.pop() {
            let Some((_, parents)) = self.commit(&id) else { continue };
            if seen.insert(id) {
                pending.extend(parents.iter().cloned());
            }
        }
        seen
    }
}

fn parse(kind: &str, data: &[u8], hash_length: usize) -> Object {
    match kind {
        "blob" => Object::Blob(data.to_vec()),
        "tree" => Object::Tree(tree_entries(data, hash_length)),
        other => {
            let text = String::from_utf8_lossy(data);
            let header: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).collect();
            let values = |key: &str| {
                header.iter().filter_map(|line| line.strip_prefix(key)).map(str::to_owned).collect::<Vec<_>>()
            };
            let first = |key| values(key).into_iter().next().expect("because git wrote the object");
            if other == "tag" {
                Object::Tag(first("object "))
            } else {
                Object::Commit { tree: first("tree "), parents: values("parent ") }
            }
        }
    }
}

fn tree_entries(mut data: &[u8], hash_length: usize) -> Vec<(u32, Vec<u8>, Id)> {
    let mut entries = Vec::new();
    while !data.is_empty() {
        let (space, end) = (position(data, b' '), position(data, 0));
        let mode = std::str::from_utf8(&data[..space]).ok().and_then(|mode| u32::from_str_radix(mode, 8).ok());
        let id = data[end + 1..end + 1 + hash_length].iter().map(|byte| format!("{byte:02x}")).collect();
        entries.push((mode.expect("because git wrote the tree"), data[space + 1..end].to_vec(), id));
        data = &data[end + 1 + hash_length..];
    }
    entries
}

fn position(data: &[u8], byte: u8) -> usize {
    data.iter().position(|other| *other == byte).expect("because git prints what it documents")
}
