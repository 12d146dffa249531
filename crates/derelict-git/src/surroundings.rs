//! What lies around a candidate: what goes in the same sweep, what stays, and who borrows.
//!
//! Repositories that stay are read once and shared by all candidates and threads.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use gix_hash::ObjectId;

use crate::refs::{Refs, read_limited};
use crate::repository::{Objects, open_store};
use crate::settings::{CONFIG_BYTES, Settings};

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
    read: Mutex<HashMap<PathBuf, Option<Arc<Keeper>>>>,
}

/// A repository that stays, and everything its refs save.
pub(crate) struct Keeper {
    /// The objects its refs name, tags unpeeled.
    pub(crate) tips: HashSet<ObjectId>,
    store: Arc<gix_odb::Store>,
    hash: gix_hash::Kind,
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
        Self { swept_root, keepers, borrowers, read: Mutex::default() }
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
        let keeper = Keeper::open(path).map(Arc::new);
        read.insert(path.to_owned(), keeper.clone());
        keeper
    }

    /// Whether a canonical path goes together with the candidate at `top`: inside it, or inside the
    /// swept root without being something that stays.
    pub(crate) fn goes(&self, path: &Path, top: &Path) -> bool {
        let stays = self.keepers.iter().any(|keeper| path.starts_with(keeper));
        path.starts_with(top) || (path.starts_with(&self.swept_root) && !stays)
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
    /// Opens a bare repository or a work tree's. One in a format that is not understood, or whose
    /// refs cannot all be read, is no proof of anything.
    fn open(path: &Path) -> Option<Self> {
        let git_dir = [path.to_owned(), path.join(".git")].into_iter().find(|dir| dir.join("objects").is_dir())?;
        let config = read_limited(&git_dir.join("config"), CONFIG_BYTES).ok()?;
        let settings = Settings::parse(&config, Path::new("config")).ok()?;
        let store = open_store(&git_dir.join("objects"), settings.hash).ok()?;
        let refs = Refs::read(&git_dir, settings.hash);
        let objects = Objects::of(&store, settings.hash);
        let tips = refs.direct.iter().map(|(_, id)| *id).filter(|id| objects.has(id)).collect();
        Some(Self { tips, store, hash: settings.hash })
    }

    /// A handle to its objects for the calling thread.
    pub(crate) fn objects(&self) -> Objects {
        Objects::of(&self.store, self.hash)
    }
}
