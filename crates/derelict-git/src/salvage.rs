//! What has to be carried out of a repository so that it can be put together again: the objects that nothing which stays
//! is sure to hold, and for every file whether the archive or an object has it. Writing it down is somebody else's.
//!
//! More than was found to be lost is carried out, never less: every object of the repository's own store that is not
//! reachable from the refs of a repository that stays, and not there, whoever names it.

use std::collections::{HashMap, HashSet};
use std::io::{self, BufRead, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use bstr::ByteSlice;
use gix_hash::ObjectId;
use gix_object::{Kind, TagRefIter};
use rustix::fs::FileType;

use crate::bundle::{self, Header};
use crate::commits::{Stores, difference};
use crate::content::{bytes_of, object_of};
use crate::examine::head_commit;
use crate::git_dir::walk_git_dir;
use crate::history::History;
use crate::index::Index;
use crate::packs;
use crate::proof::Findings;
use crate::report::{Place, Report};
use crate::repository::{GIT_FILE_BYTES, Objects, Repository, git_file_target, open_store};
use crate::saved::{Saved, Standing};
use crate::stat::{open_dir_at, stat_at};
use crate::surroundings::Surroundings;
use crate::trees::list;
use crate::walk::Unmetered;

/// Commits that one walk may read.
const MOST_COMMITS: usize = 4_000_000;

/// Where synthetic names of commits go that no ref of the repository names.
const UNNAMED: &str = "refs/derelict/";

/// Everything that has to be carried out of one repository.
pub struct Salvaged {
    header: Header,
    /// Sorted.
    objects: Vec<ObjectId>,
    stores: Stores,
    checked_out: HashMap<Vec<u8>, ObjectId>,
    left_out: HashSet<Vec<u8>>,
    keepers: Vec<PathBuf>,
    remotes: Vec<String>,
}

/// How one entry is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// By whoever archives the rest.
    Archived,
    /// As this object, whose bytes it holds.
    Object(String),
    /// Not, with everything below it.
    Not,
}

impl std::fmt::Debug for Salvaged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Salvaged").field("objects", &self.objects.len()).finish_non_exhaustive()
    }
}

/// Says what has to be carried out of the repository whose work tree is `dir`, which lies at `shown`.
///
/// # Errors
/// Why that cannot be said, in words.
pub fn salvage(dir: BorrowedFd<'_>, shown: &Path, around: &Surroundings) -> Result<Salvaged, String> {
    let found = crate::examine(dir, shown, around, &mut Unmetered);
    let (repo, lies) = open(dir, shown, around)?;
    if repo.settings.partial {
        return Err("its objects are not all in it".to_owned());
    }
    let standing = Standing { around, top: shown, base: shown };
    let history = History::read(&repo, &standing);
    let own = match lies {
        Lies::Inside => own_objects(dir, &repo)?,
        Lies::Elsewhere => history.named(&repo),
    };
    let wanted = Wanted::of(&repo, &history, own)?;
    let head = head_commit(&repo, &history.refs).filter(|head| wanted.objects.contains(head));
    let named = history.refs.direct.iter().filter(|(_, id)| wanted.objects.contains(id)).cloned();
    let refs: Vec<(Vec<u8>, ObjectId)> = head.map(|head| (b"HEAD".to_vec(), head)).into_iter().chain(named).collect();
    let known: HashSet<ObjectId> = refs.iter().map(|(_, id)| *id).collect();
    let unnamed = wanted.tips.iter().filter(|id| !known.contains(*id));
    let unnamed = unnamed.map(|id| (format!("{UNNAMED}{id}").into_bytes(), *id));
    let header = Header {
        hash: repo.settings.hash,
        prerequisites: wanted.prerequisites.clone(),
        refs: refs.iter().cloned().chain(unnamed).collect(),
    };
    let checked_out = match lies {
        Lies::Inside => checked_out(dir, &repo, &wanted)?,
        // Whoever gets it back may have no repository to take files from.
        Lies::Elsewhere => HashMap::new(),
    };
    let keepers = match wanted.stands {
        Stands::Alone => Vec::new(),
        Stands::OnOthers => history.saved.object_stores().collect(),
    };
    let mut objects: Vec<ObjectId> = wanted.objects.into_iter().collect();
    objects.sort_unstable();
    Ok(Salvaged {
        header,
        objects,
        checked_out,
        left_out: found.rebuildable.into_iter().collect(),
        keepers,
        remotes: repo.settings.remotes.iter().flat_map(|remote| remote.url.iter().map(ToString::to_string)).collect(),
        stores: history.saved.stores,
    })
}

/// Where the repository of a work tree lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lies {
    Inside,
    /// It is a linked work tree of one that stays: what goes is what this work tree alone names.
    Elsewhere,
}

fn open(dir: BorrowedFd<'_>, shown: &Path, around: &Surroundings) -> Result<(Repository, Lies), String> {
    let git = stat_at(dir, b".git").map_err(|error| format!("cannot read .git: {error}"))?;
    if git.kind() == FileType::Directory {
        // Through the descriptor, so that nobody can put another directory in its place.
        let repo = Repository::open(&PathBuf::from(format!("/proc/self/fd/{}/.git", dir.as_raw_fd())))?;
        return if repo.is_linked() {
            Err("its git directory names another one".to_owned())
        } else {
            Ok((repo, Lies::Inside))
        };
    }
    let text = bytes_of(dir, b".git", GIT_FILE_BYTES).map_err(|error| format!("cannot read .git: {error}"))?;
    let repo = Repository::open(&git_file_target(&text.unwrap_or_default(), shown)?)?;
    let stays = std::fs::canonicalize(&repo.common_dir).is_ok_and(|common| !around.goes(&common, shown));
    if !repo.is_linked() || !stays {
        return Err("its repository is neither in it nor one that stays".to_owned());
    }
    Ok((repo, Lies::Elsewhere))
}

impl Salvaged {
    /// How many objects have to be carried out.
    #[must_use]
    pub fn objects(&self) -> u64 {
        self.objects.len() as u64
    }

    /// `objects` directories of repositories that stay, and on which the bundle builds.
    #[must_use]
    pub fn keepers(&self) -> &[PathBuf] {
        &self.keepers
    }

    /// Commits of those on which the bundle builds, as hexadecimal digits.
    pub fn prerequisites(&self) -> impl Iterator<Item = String> {
        self.header.prerequisites.iter().map(ToString::to_string)
    }

    /// Addresses of the remotes.
    #[must_use]
    pub fn remotes(&self) -> &[String] {
        &self.remotes
    }

    /// How the entry at a path below the work tree is kept.
    #[must_use]
    pub fn kept(&self, path: &[u8]) -> Kept {
        if is_of_store(path) || self.left_out.contains(path) {
            return Kept::Not;
        }
        self.checked_out.get(path).map_or(Kept::Archived, |id| Kept::Object(id.to_string()))
    }

    /// Writes the bundle. Every object is compared with its name.
    ///
    /// # Errors
    /// An object that is missing or broken, or whatever `into` says.
    pub fn write_bundle(&self, into: &mut dyn Write) -> io::Result<()> {
        bundle::write(&self.header, &self.objects, &self.stores, into)
    }

    /// Reads a bundle back and compares it, object by object.
    ///
    /// # Errors
    /// The first difference.
    pub fn check_bundle(&self, from: &mut dyn BufRead) -> io::Result<()> {
        let read = bundle::read(from, &mut io::sink())?;
        let same = read.header == self.header && read.pack.objects().eq(self.objects.iter().copied());
        if same { Ok(()) } else { Err(io::Error::new(io::ErrorKind::InvalidData, "it holds other objects or names")) }
    }
}

/// What lies in the object store is in the bundle, but for the names of the stores it borrows from.
fn is_of_store(path: &[u8]) -> bool {
    path.strip_prefix(b".git/objects/").is_some_and(|below| !matches!(below, b"info" | b"info/alternates"))
}

/// The names of all objects in the repository's own store.
fn own_objects(dir: BorrowedFd<'_>, repo: &Repository) -> Result<Vec<ObjectId>, String> {
    let git_dir = open_dir_at(dir, b".git").map_err(|error| format!("cannot open .git: {error}"))?;
    let mut findings = Findings::default();
    let mut report = Report::new(&mut findings, Place::Top);
    let met = walk_git_dir(git_dir.as_fd(), b".git", &mut Unmetered, &mut report);
    if !met.readable {
        return Err("its git directory cannot be read".to_owned());
    }
    let mut own = met.loose;
    for (pack, _) in met.packs {
        own.extend(packs::objects_of(&repo.git_dir.join(pack.to_path_lossy()), repo.settings.hash)?);
    }
    Ok(own)
}

/// What is carried out, and what it stands on.
struct Wanted {
    objects: HashSet<ObjectId>,
    /// Read from repositories that stay, where it is reachable: it need not be carried out.
    there: HashSet<ObjectId>,
    /// Commits among the objects that no other of them has for a parent.
    tips: Vec<ObjectId>,
    prerequisites: Vec<ObjectId>,
    stands: Stands,
}

/// Whether anything of the repository is to be had from elsewhere only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stands {
    Alone,
    OnOthers,
}

impl Wanted {
    fn of(repo: &Repository, history: &History, own: Vec<ObjectId>) -> Result<Self, String> {
        let saved = &history.saved;
        let mut commits = Vec::new();
        for id in &own {
            if saved.stores.kind(id)? == Some(Kind::Commit) {
                commits.push(*id);
            }
        }
        let unsaved = difference(&saved.stores, &commits, &saved.kept, MOST_COMMITS)?;
        let parents: HashSet<ObjectId> = unsaved.values().flat_map(|commit| commit.parents.iter().copied()).collect();
        let mut tips: Vec<ObjectId> = unsaved.keys().filter(|id| !parents.contains(*id)).copied().collect();
        tips.sort_unstable();
        let mut prerequisites: Vec<ObjectId> = parents.into_iter().filter(|id| !unsaved.contains_key(id)).collect();
        prerequisites.sort_unstable();
        let objects = own.iter().filter(|id| !saved.theirs.has(id)).chain(unsaved.keys()).copied().collect();
        let mut wanted = Self { objects, there: HashSet::new(), tips, prerequisites, stands: Stands::OnOthers };
        let head = head_commit(repo, &history.refs).filter(|head| !unsaved.contains_key(head));
        for id in wanted.prerequisites.clone().into_iter().chain(head) {
            if let Some(commit) = saved.theirs.commit(&id)? {
                wanted.found_there(&saved.theirs, commit.tree)?;
            }
        }
        for commit in unsaved.values() {
            wanted.add_tree(&saved.stores, commit.tree)?;
        }
        for (_, id) in &history.refs.direct {
            wanted.add_named(saved, *id)?;
        }
        let index = Index::read(&repo.git_dir.join("index"), repo.settings.hash)?;
        for entry in index.iter().flat_map(|index| (0..index.entries()).map(|entry| index.id(entry))) {
            wanted.add(&saved.stores, entry);
        }
        if wanted.prerequisites.is_empty() && own.iter().all(|id| wanted.objects.contains(id)) {
            wanted.stands = Stands::Alone;
        }
        Ok(wanted)
    }

    /// An object that is to be had afterwards; one that is nowhere now cannot be lost.
    fn add(&mut self, stores: &Stores, id: ObjectId) {
        if !self.there.contains(&id) && stores.has(&id) {
            self.objects.insert(id);
        }
    }

    fn has(&self, id: &ObjectId) -> bool {
        self.objects.contains(id) || self.there.contains(id)
    }

    /// Everything of a reachable tree that really is in a repository that stays.
    fn found_there(&mut self, theirs: &Stores, tree: ObjectId) -> Result<(), String> {
        let mut pending = vec![tree];
        while let Some(tree) = pending.pop() {
            if !theirs.has(&tree) || !self.there.insert(tree) {
                continue;
            }
            for (mode, id) in list(theirs, &tree)?.into_values() {
                match mode {
                    0o040_000 => pending.push(id),
                    0o160_000 => {}
                    _ if theirs.has(&id) => {
                        self.there.insert(id);
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn add_tree(&mut self, stores: &Stores, tree: ObjectId) -> Result<(), String> {
        let (mut pending, mut seen) = (vec![tree], HashSet::new());
        while let Some(tree) = pending.pop() {
            if self.there.contains(&tree) || !seen.insert(tree) || !stores.has(&tree) {
                continue;
            }
            self.objects.insert(tree);
            for (mode, id) in list(stores, &tree)?.into_values() {
                match mode {
                    0o040_000 => pending.push(id),
                    0o160_000 => {}
                    _ => self.add(stores, id),
                }
            }
        }
        Ok(())
    }

    /// What a ref names that is no commit: tags with what they are about, trees, files.
    fn add_named(&mut self, saved: &Saved, id: ObjectId) -> Result<(), String> {
        let (mut id, mut buffer) = (id, Vec::new());
        while !self.has(&id) && !saved.kept.contains(&id) {
            let Some(data) = saved.stores.find(&id, &mut buffer)? else { return Ok(()) };
            match data.kind {
                Kind::Commit => return Ok(()),
                Kind::Tree => return self.add_tree(&saved.stores, id),
                Kind::Blob => {
                    self.objects.insert(id);
                    return Ok(());
                }
                Kind::Tag => {
                    let target = TagRefIter::from_bytes(data.data, id.kind()).target_id();
                    let target = target.map_err(|error| format!("cannot parse tag {id}: {error}"))?;
                    self.objects.insert(id);
                    id = target;
                }
            }
        }
        Ok(())
    }
}

/// The files of the work tree that are, byte for byte, an object which will be there.
fn checked_out(dir: BorrowedFd<'_>, repo: &Repository, wanted: &Wanted) -> Result<HashMap<Vec<u8>, ObjectId>, String> {
    let Some(index) = Index::read(&repo.git_dir.join("index"), repo.settings.hash)? else { return Ok(HashMap::new()) };
    let mut found = HashMap::new();
    for entry in (0..index.entries()).filter(|entry| !index.is_submodule(*entry)) {
        let (path, id) = (index.path(entry), index.id(entry));
        // One with another name would have to be tied to it again.
        let Ok(stat) = stat_at(dir, path) else { continue };
        if stat.nlink == 1 && wanted.has(&id) && object_of(dir, path, &stat, id.kind()).is_ok_and(|now| now == Some(id))
        {
            found.insert(path.to_vec(), id);
        }
    }
    Ok(found)
}

/// A pack as it lies in a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unpacked {
    /// What git calls it, without an ending.
    pub name: String,
    /// The index that belongs beside it.
    pub index: Vec<u8>,
}

/// Copies the pack out of a bundle. Every object is compared with its name.
///
/// # Errors
/// What is wrong with the bundle, or whatever the two ends say.
pub fn unpack(bundle: &mut dyn BufRead, pack: &mut dyn Write) -> io::Result<Unpacked> {
    let read = bundle::read(bundle, pack)?;
    Ok(Unpacked { name: read.pack.name(), index: read.pack.index()? })
}

/// Files out of an `objects` directory, by the names of their objects.
pub struct ObjectStore {
    stores: Vec<Objects>,
}

impl std::fmt::Debug for ObjectStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectStore").finish_non_exhaustive()
    }
}

impl ObjectStore {
    /// Opens it, whichever way it names objects.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(objects: &Path) -> io::Result<Self> {
        let open = |hash| open_store(objects, hash).map(|store| Objects::of(&store, hash)).map_err(io::Error::other);
        Ok(Self {
            stores: [gix_hash::Kind::Sha1, gix_hash::Kind::Sha256].map(open).into_iter().collect::<Result<_, _>>()?,
        })
    }

    /// Puts the content of a file into `into`, replacing what was there. It is compared with its name.
    ///
    /// # Errors
    /// When it is missing, broken or no file.
    pub fn blob(&self, name: &str, into: &mut Vec<u8>) -> io::Result<()> {
        let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("object {name} {what}"));
        let id = ObjectId::from_hex(name.as_bytes()).map_err(|_| wrong("has no possible name"))?;
        let store = self.stores.iter().find(|store| store.hash == id.kind());
        let store = store.ok_or_else(|| wrong("is of another kind"))?;
        let mut buffer = Vec::new();
        let data = store.find(&id, &mut buffer).map_err(io::Error::other)?.ok_or_else(|| wrong("is missing"))?;
        if data.kind != Kind::Blob || gix_object::compute_hash(id.kind(), data.kind, data.data).ok() != Some(id) {
            return Err(wrong("is broken or no file"));
        }
        into.clear();
        into.extend_from_slice(data.data);
        Ok(())
    }
}
