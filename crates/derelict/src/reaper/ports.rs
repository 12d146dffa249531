//! The doors of an unattended sweep: the observer of a root, timed, and the locks of its owner table.

use std::sync::PoisonError;
use std::time::Instant;

use derelict_core::evidence::{Candidate, Evidence};
use derelict_core::ports::{Lock, LockBusy, Observe, SourceLost};
use derelict_observe::roots::{Owners, RootObserver};
use derelict_observe::table::RowLock;
use derelict_reclaim::reclaimer::OpenWorkspace;

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
