//! The real door behind core's `Reclaim`: opens a planned directory and holds it from the re-check
//! to the last unlink, fences it, sets it aside or discards it, and has its record dropped. In which
//! order that happens, and whether, is core's sweep; what a crash left is `recover`'s, and what was set
//! aside `quarantine`'s.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use derelict_core::evidence::Candidate;
use derelict_core::ids::{FileIdentity, IntentId, escaped};
use derelict_core::outcome::{Discarded, Refusal, Release};
use derelict_core::ports::{Discard, Opened, Reclaim};
use derelict_core::recheck::{Cleared, Fenced, RemovalPermit, Unsaved};
use derelict_core::rescue::{RescueEntry, Salvage};
use derelict_core::size::Measured;
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::beneath::{NotEntered, Obstacle, Place, Root, find, open_confirmed};
use crate::fence::{JournalId, NotMoved, Stage, TrashName, make_durable, rename_exactly};
use crate::lock::CLONE_LEVELS;
use crate::mounts::Told;
use crate::pace::{Pace, Pacer};
use crate::release::DevlaunchRecords;
use crate::remove::{Tree, discard};
use crate::rescue::Rescues;
use crate::stat::words;
use crate::told::ToldName;
use crate::{mounts, stat};

/// A planned directory, open from the re-check to the last unlink, with a `flock` on it.
#[derive(Debug)]
pub struct OpenWorkspace {
    pub(crate) place: Place,
    pub(crate) dir: OwnedFd,
    pub(crate) identity: FileIdentity,
    pub(crate) pacer: Arc<Pacer>,
}

/// Removes directories below one root.
#[derive(Debug)]
pub struct Reclaimer {
    pub(crate) root: Root,
    records: Option<DevlaunchRecords>,
    rescues: Option<Rescues>,
    /// How many levels below the root the workspaces, and so the trash, lie.
    pub(crate) levels: usize,
    pub(crate) journal: JournalId,
    pub(crate) pacer: Arc<Pacer>,
}

/// Why a fenced tree was not discarded, or not entirely.
pub(crate) struct Discarding {
    pub(crate) discarded: Discarded,
    pub(crate) refusals: Vec<Refusal>,
}

impl OpenWorkspace {
    /// The directory itself, for whoever looks at it again.
    #[must_use]
    pub fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    fn path(&self) -> PathBuf {
        self.place.path_of(&self.place.name)
    }
}

impl Place {
    /// The path of a name in the same parent, for people.
    pub(crate) fn path_of(&self, name: &CStr) -> PathBuf {
        self.parent_path.join(OsStr::from_bytes(name.to_bytes()))
    }
}

impl Reclaimer {
    /// Removes clones of a devlaunch cache below its repositories `root`, drops from `records`, and
    /// marks its trash with the journal's name.
    #[must_use]
    pub fn new(root: Root, records: DevlaunchRecords, journal: JournalId) -> Self {
        let pacer = Arc::new(Pacer::new(Pace::POLITE));
        Self { root, records: Some(records), rescues: None, levels: CLONE_LEVELS, pacer, journal }
    }

    /// Removes workspaces that lie `levels` below `root` and of which nobody keeps a record that would
    /// have to be dropped.
    #[must_use]
    pub fn without_records(root: Root, levels: std::num::NonZeroUsize, journal: JournalId) -> Self {
        let pacer = Arc::new(Pacer::new(Pace::POLITE));
        Self { root, records: None, rescues: None, levels: levels.get(), pacer, journal }
    }

    /// Rescues to `rescues` what a directory alone holds.
    #[must_use]
    pub fn with_rescues(self, rescues: Option<Rescues>) -> Self {
        Self { rescues, ..self }
    }

    /// Works the file system as hard as `pace` says, instead of as hard as is polite.
    #[must_use]
    pub fn with_pace(self, pace: Pace) -> Self {
        Self { pacer: Arc::new(Pacer::new(pace)), ..self }
    }

    /// How many operations its mount proofs and discards have asked for: calls that name or list
    /// something in a tree, which is what a [`Pace`] bounds.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.pacer.operations()
    }

    pub(crate) fn trash(&self, intent: IntentId, stage: Stage) -> TrashName {
        TrashName { journal: self.journal.clone(), intent, stage }
    }

    /// The trash name of an open directory: an intent that stands in no journal stands in there.
    fn trash_of(&self, open: &OpenWorkspace, intent: IntentId, stage: Stage) -> CString {
        if intent == IntentId::IN_NAME {
            ToldName::of(&open.identity, &open.place.name, stage).to_c()
        } else {
            self.trash(intent, stage).to_c()
        }
    }

    pub(crate) fn release_record(&self, below_root: &Path) -> Release {
        self.records.as_ref().map_or(Release::NothingRecorded, |records| records.drop_records_of(below_root))
    }

    fn try_open(&self, candidate: &Candidate) -> Result<OpenWorkspace, Obstacle> {
        let place = find(&self.root, &candidate.below_root)?;
        let path = place.path_of(&place.name);
        let refused = |why| Obstacle { path: path.clone(), why };
        let (dir, found) = open_confirmed(&self.root, &candidate.below_root, &place).map_err(refused)?;
        Ok(OpenWorkspace { place, dir, identity: found.identity, pacer: Arc::clone(&self.pacer) })
    }
}

impl Reclaim for Reclaimer {
    type Handle = OpenWorkspace;

    fn open(&mut self, candidate: &Candidate) -> Opened<OpenWorkspace> {
        let open = match self.try_open(candidate) {
            Ok(open) => open,
            Err(Obstacle { why: NotEntered::Gone, .. }) => return Opened::Vanished,
            Err(Obstacle { path, why }) => return Opened::Refused(Refusal { path, why: why.to_string() }),
        };
        let refused = |why: String| Opened::Refused(Refusal { path: open.path(), why });
        if open.identity != candidate.identity {
            return refused("another directory lies here than the one that was planned".to_owned());
        }
        match hold(open.dir.as_fd()) {
            Ok(()) => Opened::Same(open),
            Err(why) => refused(why),
        }
    }

    fn fence<'lock>(
        &mut self,
        permit: RemovalPermit<'lock>,
        handle: &OpenWorkspace,
        intent: IntentId,
    ) -> Result<Fenced<'lock>, Refusal> {
        let refusal = |why: String| Refusal { path: handle.path(), why };
        if permit.candidate().identity != handle.identity {
            return Err(refusal("the permit is for another directory".to_owned()));
        }
        match mounts::in_table(handle.dir()) {
            Told::Mounted(refusal) => return Err(refusal),
            Told::Nothing | Told::Unproved => {}
        }
        let trash = self.trash_of(handle, intent, Stage::Fenced);
        let Place { parent, name, .. } = &handle.place;
        match rename_exactly(parent.as_fd(), name, &trash, &handle.identity) {
            Ok(()) => Ok(permit.fenced()),
            Err(why) => Err(refusal(not_fenced(&why, &handle.place.path_of(&trash)))),
        }
    }

    fn put_back(&mut self, handle: &OpenWorkspace, intent: IntentId) -> Result<(), Refusal> {
        let whole = self.trash_of(handle, intent, Stage::Fenced);
        let trash = handle.place.path_of(&whole);
        rename_exactly(handle.place.parent.as_fd(), &whole, &handle.place.name, &handle.identity).map_err(|why| {
            let why = format!(
                "it became live again and was not put back: {}; it is whole: rename it to {}",
                not_put_back(&why),
                escaped(&handle.path())
            );
            Refusal { path: trash, why }
        })?;
        // Only what is durable may be written down as done: after a loss of power it would lie in the trash, unknown.
        make_durable(&handle.place.parent).map_err(|errno| {
            let why = format!("it was put back, and that cannot be made durable: {}", words(errno));
            Refusal { path: handle.path(), why }
        })
    }

    fn rescue(
        &mut self,
        unsaved: &Unsaved<'_>,
        handle: &OpenWorkspace,
        salvage: &dyn Salvage,
    ) -> Result<RescueEntry, Refusal> {
        let candidate = unsaved.candidate();
        let nowhere = || Refusal { path: candidate.path.clone(), why: "there is no place to rescue it to".to_owned() };
        self.rescues.as_ref().ok_or_else(nowhere)?.rescue(candidate, handle.dir(), salvage)
    }

    fn set_aside(&mut self, cleared: Cleared<'_>, handle: &OpenWorkspace, intent: IntentId) -> Result<(), Refusal> {
        drop(cleared);
        let Err(errno) = make_durable(&handle.place.parent) else { return Ok(()) };
        let whole = self.trash_of(handle, intent, Stage::Fenced);
        let why = format!("that it is set aside cannot be made durable: {}", words(errno));
        Err(put_back(handle, &whole, Refusal { path: handle.place.path_of(&whole), why }))
    }

    fn discard(&mut self, cleared: Cleared<'_>, handle: OpenWorkspace, intent: IntentId) -> Discard {
        let measured = cleared.measured();
        drop(cleared);
        let whole = self.trash_of(&handle, intent, Stage::Fenced);
        let begun = self.trash_of(&handle, intent, Stage::Discarding);
        let Discarding { discarded, refusals } = discard_fenced(handle, &whole, &begun, measured);
        Discard { discarded, refusals }
    }

    fn release(&mut self, candidate: &Candidate) -> Release {
        self.release_record(&candidate.below_root)
    }
}

/// Takes the lock by which others say that they use a directory, for as long as it is open.
pub(crate) fn hold(dir: BorrowedFd<'_>) -> Result<(), String> {
    match rustix::fs::flock(dir, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => Err("somebody holds a lock (flock) on it".to_owned()),
        Err(errno) => Err(format!("it cannot be locked (flock): {}", words(errno))),
    }
}

fn not_fenced(why: &NotMoved, trash: &Path) -> String {
    match why {
        NotMoved::Another => "another directory came to lie here".to_owned(),
        NotMoved::Taken => format!("{} exists already", escaped(trash)),
        NotMoved::Failed(errno) => words(*errno),
        NotMoved::Astray(errno) => {
            format!(
                "another directory came to lie here; it is at {} now and cannot be put back: {}",
                escaped(trash),
                words(*errno)
            )
        }
    }
}

/// Proves that nothing is mounted inside, marks the tree, and only then unlinks. A tree that is
/// refused before the first unlink goes back to its name.
fn discard_fenced(open: OpenWorkspace, whole: &CStr, begun: &CStr, measured: Option<Measured>) -> Discarding {
    if let Err(refusal) = mark(&open, whole, begun) {
        let nothing = Discarded { entries: 0, bytes: 0 };
        return Discarding { discarded: nothing, refusals: vec![put_back(&open, whole, refusal)] };
    }
    discard_marked(open, begun, measured)
}

/// Proves that nothing is mounted inside a whole tree, and marks that its discarding begins.
pub(crate) fn mark(open: &OpenWorkspace, whole: &CStr, begun: &CStr) -> Result<(), Refusal> {
    let trash = open.place.path_of(whole);
    prove_unmounted(open.dir.as_fd(), &trash, &open.pacer)?;
    rename_exactly(open.place.parent.as_fd(), whole, begun, &open.identity)
        .map_err(|why| Refusal { path: trash, why: not_fenced(&why, &open.place.path_of(begun)) })
}

/// Finishes a tree whose discarding has begun.
pub(crate) fn discard_marked(open: OpenWorkspace, begun: &CStr, measured: Option<Measured>) -> Discarding {
    let path = open.place.path_of(begun);
    let parent = open.place.parent.as_fd();
    let nothing = Discarded { entries: 0, bytes: 0 };
    if let Err(errno) = make_durable(parent) {
        let why = format!("its mark cannot be made durable: {}", words(errno));
        return Discarding { discarded: nothing, refusals: vec![Refusal { path, why }] };
    }
    let tree = Tree { top: open.dir, identity: open.identity, parent, name: begun, path: &path, measured };
    let (discarded, mut refusals) = discard(tree, &open.pacer);
    if let (true, Err(errno)) = (refusals.is_empty(), make_durable(parent)) {
        let why = format!("it is gone, and that cannot be made durable: {}", words(errno));
        refusals.push(Refusal { path, why });
    }
    Discarding { discarded, refusals }
}

/// Both witnesses against a mount inside a tree; the second where the first is not enough.
pub(crate) fn prove_unmounted(dir: BorrowedFd<'_>, path: &Path, pacer: &Pacer) -> Result<(), Refusal> {
    match mounts::in_table(dir) {
        Told::Mounted(refusal) => return Err(refusal),
        Told::Nothing => return Ok(()),
        Told::Unproved => {}
    }
    let walked = dir.try_clone_to_owned().map_err(|error| Refusal { path: path.to_owned(), why: error.to_string() })?;
    mounts::prove_absent(walked, path, pacer)
}

/// Puts a whole tree back under its name. The refusal then names it there.
fn put_back(open: &OpenWorkspace, whole: &CStr, refusal: Refusal) -> Refusal {
    let name = &open.place.name;
    let (trash, home) = (open.place.path_of(whole), open.path());
    match rename_exactly(open.place.parent.as_fd(), whole, name, &open.identity) {
        Ok(()) => {
            let path = match refusal.path.strip_prefix(&trash) {
                Ok(inside) if inside.as_os_str().is_empty() => home,
                Ok(inside) => home.join(inside),
                Err(_) => refusal.path,
            };
            Refusal { path, why: refusal.why }
        }
        Err(why) => {
            let kept = format!(
                "{}; it stays whole at {} and was not put back: {}",
                refusal.why,
                escaped(&trash),
                not_put_back(&why)
            );
            Refusal { path: refusal.path, why: kept }
        }
    }
}

/// Why a tree stays in the trash.
pub(crate) fn not_put_back(why: &NotMoved) -> String {
    match why {
        NotMoved::Another => "its trash name leads elsewhere".to_owned(),
        NotMoved::Taken => "its name is taken".to_owned(),
        NotMoved::Failed(errno) | NotMoved::Astray(errno) => words(*errno),
    }
}

/// Whether what lies under a trash name is the tree an intent was written for. Device numbers may
/// change over a restart of the machine; a birth time does not.
pub(crate) fn is_same_tree(recorded: &FileIdentity, found: &stat::Seen) -> bool {
    let found = found.identity;
    recorded.ino == found.ino
        && recorded.birth == found.birth
        && (recorded.dev == found.dev || recorded.birth.is_some())
}
