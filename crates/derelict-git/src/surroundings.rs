//! What lies around a candidate: what goes in the same sweep, what stays, and who borrows.
//!
//! Repositories that stay are read once and shared by all candidates and threads.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bstr::ByteSlice;
use gix_hash::ObjectId;

use crate::asked::ListRemote;
use crate::commits::{Peeled, Stores};
use crate::ignored_changes::IgnoredChanges;
use crate::rebuildable::Rebuildable;
use crate::refs::{Refs, read_limited};
use crate::repository::{Objects, open_store};
use crate::settings::{CONFIG_BYTES, Settings};
use crate::terms::Terms;
use crate::trees::list;
use crate::users::Users;

/// A repository elsewhere that needs files of another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Borrower {
    /// The repository that borrows.
    pub repository: PathBuf,
    /// The canonical directory it needs: an `objects` directory or a git directory.
    pub borrows_from: PathBuf,
}

/// Built once per survey and shared by all candidates and threads.
#[derive(Debug)]
pub struct Surroundings {
    swept_root: PathBuf,
    keepers: Vec<PathBuf>,
    borrowers: Vec<Borrower>,
    users: Users,
    ignored_changes: IgnoredChanges,
    rebuildable: Rebuildable,
    asker: Option<Arc<dyn ListRemote>>,
    read: Mutex<HashMap<PathBuf, Option<Arc<Keeper>>>>,
}

/// A repository that stays, and everything its refs save.
pub(crate) struct Keeper {
    /// The objects its refs name, tags unpeeled.
    pub(crate) tips: HashSet<ObjectId>,
    pub(crate) git_dir: PathBuf,
    store: Arc<gix_odb::Store>,
    hash: gix_hash::Kind,
    /// Trees found whole, and tips with the answer for each.
    checked: Mutex<(HashSet<ObjectId>, HashMap<ObjectId, bool>)>,
    /// Objects that are no commits. A name stands for the same object everywhere, so whoever has looked at one
    /// has looked at it for all clones.
    no_commits: Mutex<HashSet<ObjectId>>,
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keeper").field("tips", &self.tips.len()).finish_non_exhaustive()
    }
}

impl Surroundings {
    /// All paths canonical. `swept_root` is the directory whose children may be removed: a local
    /// repository inside it saves nothing, unless it is one of the `keepers`, which stay.
    #[must_use]
    pub fn new(swept_root: PathBuf, keepers: Vec<PathBuf>, borrowers: Vec<Borrower>) -> Self {
        Self {
            swept_root,
            keepers,
            borrowers,
            users: Users::default(),
            ignored_changes: IgnoredChanges::NONE,
            rebuildable: Rebuildable::NONE.with_table(),
            asker: None,
            read: Mutex::default(),
        }
    }

    /// Under what is said outside of the repositories.
    #[must_use]
    pub fn under(mut self, terms: &Terms) -> Self {
        self.users = Users::read(&terms.git);
        self.ignored_changes = terms.ignored_changes.clone();
        self.rebuildable = terms.rebuildable.with_table();
        self
    }

    /// With somebody who asks remotes whether they still have what remote-tracking refs say.
    #[must_use]
    pub fn asking(mut self, asker: Option<Arc<dyn ListRemote>>) -> Self {
        self.asker = asker;
        self
    }

    pub(crate) fn asker(&self) -> Option<&dyn ListRemote> {
        self.asker.as_deref()
    }

    /// Configuration of the user or the machine that could not be read, and why: then no address is certain, and
    /// no forge saves anything.
    #[must_use]
    pub fn unread(&self) -> &[String] {
        &self.users.unread
    }

    /// What the user's and the machine's configuration of git says.
    pub(crate) fn users(&self) -> &Users {
        &self.users
    }

    /// Changes that are no losses.
    pub(crate) fn ignored_changes(&self) -> &IgnoredChanges {
        &self.ignored_changes
    }

    /// What is made again.
    pub(crate) fn rebuildable(&self) -> &Rebuildable {
        &self.rebuildable
    }

    /// The keepers that lie beside a directory or beside one of its ancestors.
    pub(crate) fn keepers_of(&self, directory: &Path) -> Vec<Arc<Keeper>> {
        let beside =
            self.keepers.iter().filter(|keeper| keeper.parent().is_some_and(|parent| directory.starts_with(parent)));
        beside.filter_map(|path| self.keeper(path)).collect()
    }

    /// A repository that stays, read once. `None` for one that cannot be read: it saves nothing.
    pub(crate) fn keeper(&self, path: &Path) -> Option<Arc<Keeper>> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = read.get(path) {
            return known.clone();
        }
        let keeper = Keeper::open(path, |lender| self.lasts(lender)).map(Arc::new);
        read.insert(path.to_owned(), keeper.clone());
        keeper
    }

    /// Whether a canonical path goes together with the candidate at `top`: inside it, or inside the
    /// swept root without being something that stays.
    pub(crate) fn goes(&self, path: &Path, top: &Path) -> bool {
        let stays = self.keepers.iter().any(|keeper| path.starts_with(keeper));
        path.starts_with(top) || (path.starts_with(&self.swept_root) && !stays)
    }

    /// Whether a directory that a keeper borrows from stays as long as the keeper does.
    fn lasts(&self, lender: &Path) -> bool {
        std::fs::canonicalize(lender).is_ok_and(|lender| {
            !lender.starts_with(&self.swept_root) || self.keepers.iter().any(|keeper| lender.starts_with(keeper))
        })
    }

    /// Repositories outside `top` that need something inside it.
    pub(crate) fn borrowers_from<'a>(&'a self, top: &'a Path) -> impl Iterator<Item = &'a Borrower> {
        self.borrowers
            .iter()
            .filter(move |borrower| borrower.borrows_from.starts_with(top) && !borrower.repository.starts_with(top))
    }

    /// How many repositories are known to borrow from others.
    pub(crate) fn borrower_count(&self) -> u64 {
        self.borrowers.len() as u64
    }
}

impl Keeper {
    /// Opens a bare repository or a work tree's. One in a format that is not understood, one that lacks
    /// objects on purpose, or one whose objects are really somewhere else is no proof of anything.
    fn open(path: &Path, lasts: impl Fn(&Path) -> bool) -> Option<Self> {
        let git_dir = [path.to_owned(), path.join(".git")].into_iter().find(|dir| dir.join("objects").is_dir())?;
        let config = read_limited(&git_dir.join("config"), CONFIG_BYTES).ok()?;
        let settings = Settings::parse(&config, Path::new("config")).ok()?;
        let shallow = std::fs::metadata(git_dir.join("shallow")).is_ok_and(|metadata| metadata.len() > 0);
        if settings.partial || shallow || !is_own_store(&git_dir.join("objects"), &lasts) {
            return None;
        }
        let store = open_store(&git_dir.join("objects"), settings.hash).ok()?;
        let refs = Refs::read(&git_dir, &settings);
        let objects = Objects::of(&store, settings.hash);
        let tips = refs.direct.iter().map(|(_, id)| *id).filter(|id| objects.has(id)).collect();
        Some(Self {
            tips,
            git_dir,
            store,
            hash: settings.hash,
            checked: Mutex::default(),
            no_commits: Mutex::default(),
        })
    }

    /// Whether a tip is really here: its commits, as far back as is looked, and every file of them.
    /// Trees that were found whole before are not looked at again.
    pub(crate) fn holds(&self, tip: &ObjectId) -> bool {
        let mut checked = self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        let (trees, tips) = &mut *checked;
        if let Some(known) = tips.get(tip) {
            return *known;
        }
        let stores = Stores::new(vec![self.objects()], HashSet::new());
        let whole = is_whole(&stores, *tip, trees).unwrap_or(false);
        tips.insert(*tip, whole);
        whole
    }

    /// Those of the objects that are not yet known to be no commits.
    pub(crate) fn may_be_commits(&self, objects: &[ObjectId]) -> Vec<ObjectId> {
        let known = self.no_commits.lock().unwrap_or_else(PoisonError::into_inner);
        objects.iter().filter(|id| !known.contains(*id)).copied().collect()
    }

    /// Remembers objects that were looked at and are no commits.
    pub(crate) fn are_no_commits(&self, objects: Vec<ObjectId>) {
        let mut known = self.no_commits.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < MOST_REMEMBERED {
            known.extend(objects);
        }
    }

    /// A handle to its objects for the calling thread.
    pub(crate) fn objects(&self) -> Objects {
        Objects::of(&self.store, self.hash)
    }
}

/// Objects that are remembered to be no commits: thirty megabytes of names.
const MOST_REMEMBERED: usize = 1_000_000;

/// Commits that are looked at behind a tip; what lies further back is taken on trust.
const LOOK_BACK: usize = 200;

/// `objects/info/alternates` names a directory per line.
const ALTERNATES_BYTES: u64 = 1024 * 1024;

/// Whether an object store's files are its own: no symlink leads out of it, and whatever it borrows
/// from lasts.
fn is_own_store(objects: &Path, lasts: &impl Fn(&Path) -> bool) -> bool {
    let mut pending = vec![objects.to_owned()];
    if std::fs::symlink_metadata(objects).map_or(true, |metadata| !metadata.is_dir()) {
        return false;
    }
    while let Some(dir) = pending.pop() {
        let Ok(entries) = std::fs::read_dir(&dir) else { return false };
        for entry in entries {
            let Ok((kind, path)) = entry.and_then(|entry| Ok((entry.file_type()?, entry.path()))) else { return false };
            if kind.is_dir() {
                pending.push(path);
            } else if !kind.is_file() || path.extension().is_some_and(|extension| extension == "promisor") {
                return false;
            }
        }
    }
    match read_limited(&objects.join("info/alternates"), ALTERNATES_BYTES) {
        Ok(text) => text.lines().filter(|line| !line.is_empty() && !line.starts_with(b"#")).all(|line| {
            let lender = objects.join(line.to_path_lossy());
            lasts(&lender) && is_own_store(&lender, lasts)
        }),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

fn is_whole(stores: &Stores, tip: ObjectId, trees: &mut HashSet<ObjectId>) -> Result<bool, String> {
    let tip = match stores.peel(tip)? {
        Peeled::Commit(commit) => commit,
        Peeled::Other => return Ok(true),
        Peeled::Missing => return Ok(false),
    };
    let (mut pending, mut seen) = (vec![tip], HashSet::new());
    while let Some(id) = pending.pop() {
        if seen.len() >= LOOK_BACK || !seen.insert(id) {
            continue;
        }
        let Some(commit) = stores.commit(&id)? else { return Ok(false) };
        if !is_whole_tree(stores, commit.tree, trees)? {
            return Ok(false);
        }
        pending.extend(commit.parents);
    }
    Ok(true)
}

fn is_whole_tree(stores: &Stores, tree: ObjectId, whole: &mut HashSet<ObjectId>) -> Result<bool, String> {
    let (mut pending, mut seen) = (vec![tree], Vec::new());
    while let Some(tree) = pending.pop() {
        if whole.contains(&tree) {
            continue;
        }
        for (mode, id) in list(stores, &tree)?.into_values() {
            match mode {
                0o040_000 => pending.push(id),
                // A submodule's commit is in another repository.
                0o160_000 => {}
                _ if stores.kind(&id)? == Some(gix_object::Kind::Blob) => {}
                _ => return Ok(false),
            }
        }
        seen.push(tree);
    }
    whole.extend(seen);
    Ok(true)
}
