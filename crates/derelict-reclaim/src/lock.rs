//! The creators' locks of a devlaunch cache: while they are held, no launch fills a clone. Order:
//! launch lock, then repository lock; the lock of the records comes last and is `release`'s.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use derelict_core::evidence::Candidate;
use derelict_core::ids::escaped;
use derelict_core::ports::{Lock, LockBusy};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::beneath::{NotEntered, Obstacle, Root, find, names};
use crate::flock::{Held, NotTaken, is_held, take};
use crate::stat::words;

/// How long a lock of a running launch is waited for. A launch can take minutes: it is not waited
/// out, only a moment's holder is.
pub const LOCK_WAIT: Duration = Duration::from_secs(2);

/// Where the launch locks lie below the cache.
const LAUNCH_LOCKS: &str = "launch-locks";

/// Where the repositories lie below the cache; the root handed to the reclaimer.
pub const REPOSITORIES: &str = "repos";

/// How many levels below the repositories the clones lie.
pub(crate) const CLONE_LEVELS: usize = 3;

/// The per-repository lock file.
const REPOSITORY_LOCK: &str = ".lock";

/// The creators' locks of one devlaunch cache.
#[derive(Debug)]
pub struct DevlaunchLocks {
    cache: PathBuf,
}

/// Both locks of one clone. A lock file that was made for it is unlinked again, while it is held;
/// one that was there stays.
#[derive(Debug)]
pub struct CloneLocks {
    // Dropped in this order: the last lock taken is the first one released.
    _repository: Option<Held>,
    _launch: Held,
}

impl DevlaunchLocks {
    /// The locks of the cache at this path. Nothing is opened yet.
    #[must_use]
    pub fn new(cache: &Path) -> Self {
        Self { cache: cache.to_owned() }
    }

    fn launch(&self, id: &OsStr) -> Result<Held, LockBusy> {
        let locks = self.cache.join(LAUNCH_LOCKS);
        let file = launch_lock_name(id);
        let shown = locks.join(OsStr::from_bytes(file.as_bytes()));
        match rustix::fs::mkdir(&locks, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(untakable(&locks, errno)),
        }
        let dir = open_dir(&locks).map_err(|errno| untakable(&locks, errno))?;
        take(dir, file, LOCK_WAIT).map_err(|why| not_taken(&shown, why))
    }

    /// A repository whose directory is gone has no clones that anybody could fill.
    fn repository(&self, clone: &Path) -> Result<Option<Held>, LockBusy> {
        let repositories = self.cache.join(REPOSITORIES);
        let untakable =
            |path: &Path, why: String| LockBusy { lock: format!("{} (cannot be taken: {why})", escaped(path)) };
        let root = Root::open(&repositories).map_err(|error| untakable(&repositories, error.source.to_string()))?;
        let place = match find(&root, clone) {
            Ok(place) => place,
            Err(Obstacle { why: NotEntered::Gone, .. }) => return Ok(None),
            Err(Obstacle { path, why }) => return Err(untakable(&path, why.to_string())),
        };
        let shown = place.parent_path.join(REPOSITORY_LOCK);
        let name = CString::new(REPOSITORY_LOCK).expect("because the name has no NUL byte");
        take(place.parent, name, LOCK_WAIT).map(Some).map_err(|why| not_taken(&shown, why))
    }
}

impl Lock for DevlaunchLocks {
    type Guard = CloneLocks;

    fn acquire(&mut self, candidate: &Candidate) -> Result<CloneLocks, LockBusy> {
        let id = workspace_id(&candidate.below_root)
            .ok_or_else(|| LockBusy { lock: format!("no lock is known for {}", escaped(&candidate.path)) })?;
        let launch = self.launch(id)?;
        let repository = self.repository(&candidate.below_root)?;
        Ok(CloneLocks { _repository: repository, _launch: launch })
    }
}

/// A clone lies at `<owner>/<repo>/<workspace id>` below the repositories; this is its id.
fn workspace_id(below_root: &Path) -> Option<&OsStr> {
    (names(below_root)?.len() == CLONE_LEVELS).then(|| below_root.file_name())?
}

/// Whether a launch of this workspace runs at this instant.
pub(crate) fn launch_runs(cache: &Path, id: &OsStr) -> Result<bool, Errno> {
    match open_dir(&cache.join(LAUNCH_LOCKS)) {
        Ok(dir) => is_held(dir.as_fd(), &launch_lock_name(id)),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

fn launch_lock_name(id: &OsStr) -> CString {
    CString::new([id.as_bytes(), b".lock"].concat()).expect("because a component of a path has no NUL byte")
}

pub(crate) fn open_dir(path: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

fn not_taken(lock: &Path, why: NotTaken) -> LockBusy {
    match why {
        NotTaken::Busy => LockBusy { lock: escaped(lock) },
        NotTaken::Failed(errno) => untakable(lock, errno),
    }
}

fn untakable(lock: &Path, errno: Errno) -> LockBusy {
    LockBusy { lock: format!("{} (cannot be taken: {})", escaped(lock), words(errno)) }
}
