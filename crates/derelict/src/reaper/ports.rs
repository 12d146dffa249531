//! The doors of an unattended sweep: the observer of a root, timed, and the locks of its owner table.

use std::sync::PoisonError;
use std::time::Instant;

use derelict_core::evidence::{Candidate, Evidence};
use derelict_core::ids::IntentId;
use derelict_core::outcome::{Refusal, Release};
use derelict_core::ports::{Discard, Lock, LockBusy, Observe, Opened, Reclaim, SourceLost};
use derelict_core::recheck::{Cleared, Fenced, RemovalPermit};
use derelict_observe::roots::{Owners, RootObserver};
use derelict_observe::table::RowLock;
use derelict_reclaim::reclaimer::{OpenWorkspace, Reclaimer};

use crate::reaper::sweeping::Watcher;

/// Looks through the descriptor that the reclaimer holds, and tells how long that took.
pub(crate) struct Looker<'w> {
    observer: RootObserver,
    watcher: &'w dyn Watcher,
    rechecked: Option<Instant>,
}

impl<'w> Looker<'w> {
    /// Over the observer that made the survey.
    pub(crate) fn new(observer: RootObserver, watcher: &'w dyn Watcher) -> Self {
        Self { observer, watcher, rechecked: None }
    }
}

impl Observe for Looker<'_> {
    type Handle = OpenWorkspace;

    /// The survey asked a moment ago, and every re-check reads its own row: nothing is to be asked in between.
    fn refresh(&mut self) -> Result<(), SourceLost> {
        Ok(())
    }

    fn look_again(&mut self, candidate: &Candidate, handle: &OpenWorkspace) -> Result<Evidence, SourceLost> {
        let begun = Instant::now();
        let evidence = self.observer.look_again(candidate, handle.dir());
        self.watcher.reread(begun.elapsed());
        self.rechecked = Some(Instant::now());
        evidence
    }

    fn second_look(
        &mut self,
        candidate: &Candidate,
        handle: &OpenWorkspace,
        first: &Evidence,
    ) -> Result<Evidence, SourceLost> {
        if let Some(rechecked) = self.rechecked.take() {
            self.watcher.window(rechecked.elapsed());
        }
        self.watcher.progress();
        self.observer.second_look(candidate, handle.dir(), first)
    }
}

/// Acts, and tells how long the file system takes.
pub(crate) struct Hand<'w> {
    reclaimer: Reclaimer,
    watcher: &'w dyn Watcher,
}

impl<'w> Hand<'w> {
    /// Over the real door.
    pub(crate) fn new(reclaimer: Reclaimer, watcher: &'w dyn Watcher) -> Self {
        Self { reclaimer, watcher }
    }
}

impl Reclaim for Hand<'_> {
    type Handle = OpenWorkspace;

    fn open(&mut self, candidate: &Candidate) -> Opened<OpenWorkspace> {
        self.reclaimer.open(candidate)
    }

    fn fence<'lock>(
        &mut self,
        permit: RemovalPermit<'lock>,
        handle: &OpenWorkspace,
        intent: IntentId,
    ) -> Result<Fenced<'lock>, Refusal> {
        self.reclaimer.fence(permit, handle, intent)
    }

    fn put_back(&mut self, handle: &OpenWorkspace, intent: IntentId) -> Result<(), Refusal> {
        self.reclaimer.put_back(handle, intent)
    }

    fn set_aside(&mut self, cleared: Cleared<'_>, handle: &OpenWorkspace, intent: IntentId) -> Result<(), Refusal> {
        self.reclaimer.set_aside(cleared, handle, intent)
    }

    fn discard(&mut self, cleared: Cleared<'_>, handle: OpenWorkspace, intent: IntentId) -> Discard {
        let begun = Instant::now();
        let discard = self.reclaimer.discard(cleared, handle, intent);
        let entries = u32::try_from(discard.discarded.entries).unwrap_or(u32::MAX);
        if let Some(each) = begun.elapsed().checked_div(entries) {
            self.watcher.unlinked(each);
        }
        discard
    }

    fn release(&mut self, candidate: &Candidate) -> Release {
        self.reclaimer.release(candidate)
    }
}

/// The locks under which an owner's own program changes its life.
#[derive(Debug)]
pub(crate) struct OwnerLocks {
    owners: Owners,
}

/// The lock of one owner, if its source has any.
#[derive(Debug)]
pub(crate) struct OwnerLock {
    _row: Option<Box<dyn RowLock>>,
}

impl OwnerLocks {
    /// The locks of these owners.
    pub(crate) fn new(owners: &Owners) -> Self {
        Self { owners: owners.clone() }
    }
}

impl Lock for OwnerLocks {
    type Guard = OwnerLock;

    fn acquire(&mut self, candidate: &Candidate) -> Result<OwnerLock, LockBusy> {
        let Owners::Table(table) = &self.owners else { return Ok(OwnerLock { _row: None }) };
        // A panic while it was asked leaves a session that fails by itself.
        let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(id) = table.ids().canonical(candidate.name.as_bytes()) else { return Ok(OwnerLock { _row: None }) };
        Ok(OwnerLock { _row: table.lock(&id)? })
    }
}
