//! The four doors through which a sweep reaches the world. The real ones are in
//! `derelict-observe` and `derelict-reclaim`; the simulated ones in `derelict-testkit`.

use crate::evidence::{Candidate, Evidence};
use crate::ids::{IntentId, SourceId};
use crate::outcome::{Discarded, Outcome, Refusal, Release};
use crate::recheck::{Cleared, Fenced, RemovalPermit, Unsaved};
use crate::record::Intent;
use crate::rescue::{RescueEntry, Salvage};

/// An owner source that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot ask {source_id}: {why}")]
pub struct SourceLost {
    /// Which source.
    pub source_id: SourceId,
    /// Why, in its own words.
    pub why: String,
}

/// The journal cannot be written; nothing may be done that it does not know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot write the journal: {why}")]
pub struct JournalLost {
    /// Why, naming the file.
    pub why: String,
}

/// The creators' lock of a directory is held by somebody else.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{lock} is held by somebody else")]
pub struct LockBusy {
    /// Which lock.
    pub lock: String,
}

/// What opening a planned directory came to.
#[derive(Debug)]
pub enum Opened<H> {
    /// It is there, and it is the one that was planned.
    Same(H),
    /// Nothing is there any more.
    Vanished,
    /// Another directory lies there now, or it cannot be entered.
    Refused(Refusal),
}

/// What a discard came to.
#[derive(Debug)]
pub struct Discard {
    /// What was unlinked.
    pub discarded: Discarded,
    /// What would not go; empty when the tree is entirely gone.
    pub refusals: Vec<Refusal>,
}

/// Looks: asks the owners and reads the directory again.
pub trait Observe {
    /// The open directory, from the re-check to the last unlink.
    type Handle;

    /// Asks every owner source anew, once before the first removal.
    ///
    /// # Errors
    /// [`SourceLost`] ends the sweep before anything is done.
    fn refresh(&mut self) -> Result<(), SourceLost>;

    /// Reads every signal of one directory again, through its open descriptor.
    ///
    /// # Errors
    /// [`SourceLost`] ends the sweep; a fault of the directory itself is a blind spot in the evidence.
    fn look_again(&mut self, candidate: &Candidate, handle: &Self::Handle) -> Result<Evidence, SourceLost>;

    /// Looks a second time, at a directory that is fenced: who owns it and who uses it is read anew,
    /// and whether anything in it was written since `first`, the evidence of the re-check. What was
    /// not read again is taken from there.
    ///
    /// # Errors
    /// [`SourceLost`] ends the sweep, and the directory is put back.
    fn second_look(
        &mut self,
        candidate: &Candidate,
        handle: &Self::Handle,
        first: &Evidence,
    ) -> Result<Evidence, SourceLost>;

    /// Says what has to be carried out of a fenced directory so that nothing is lost with it.
    ///
    /// # Errors
    /// Why that cannot be said, in words; the directory is put back. It is the answer of whoever knows no better.
    fn salvage(&mut self, candidate: &Candidate, handle: &Self::Handle) -> Result<Box<dyn Salvage>, String> {
        let _ = (candidate, handle);
        Err("what it holds cannot be rescued here".to_owned())
    }
}

/// Locks: keeps a creator from filling the directory while it goes.
pub trait Lock {
    /// Released when dropped.
    type Guard;

    /// Takes the creators' locks of a directory, with one bounded wait.
    ///
    /// # Errors
    /// [`LockBusy`] names the lock somebody else holds, or that cannot be taken.
    fn acquire(&mut self, candidate: &Candidate) -> Result<Self::Guard, LockBusy>;
}

/// Acts: the only door that changes anything.
pub trait Reclaim {
    /// The open directory, from the re-check to the last unlink.
    type Handle;

    /// Opens a planned directory below the root and compares its identity with the plan's.
    fn open(&mut self, candidate: &Candidate) -> Opened<Self::Handle>;

    /// Renames it to a trash name beside it, so that no path leads to it any more.
    ///
    /// # Errors
    /// A [`Refusal`] when it cannot be renamed; then nothing has changed.
    fn fence<'lock>(
        &mut self,
        permit: RemovalPermit<'lock>,
        handle: &Self::Handle,
        intent: IntentId,
    ) -> Result<Fenced<'lock>, Refusal>;

    /// Renames a fenced directory back to its name, replacing nothing.
    ///
    /// # Errors
    /// A [`Refusal`] when its name was taken meanwhile, or it cannot be renamed: it stays whole under
    /// its trash name, and the refusal says where.
    fn put_back(&mut self, handle: &Self::Handle, intent: IntentId) -> Result<(), Refusal>;

    /// Carries what a fenced directory alone holds to where it stays, reads it back and compares every byte.
    ///
    /// # Errors
    /// A [`Refusal`] when anything of it could not be carried out or does not compare; nothing of it is believed then.
    /// It is the answer of whoever has no place for it.
    fn rescue(
        &mut self,
        unsaved: &Unsaved<'_>,
        handle: &Self::Handle,
        salvage: &dyn Salvage,
    ) -> Result<RescueEntry, Refusal> {
        let _ = (handle, salvage);
        let path = unsaved.candidate().path.clone();
        Err(Refusal { path, why: "there is no place to rescue it to".to_owned() })
    }

    /// Leaves a fenced directory where it is, for its grace, and makes that durable.
    ///
    /// # Errors
    /// A [`Refusal`] when that cannot be made durable: it was put back, or the refusal says where it is.
    fn set_aside(&mut self, cleared: Cleared<'_>, handle: &Self::Handle, intent: IntentId) -> Result<(), Refusal>;

    /// Unlinks everything below it and it.
    fn discard(&mut self, cleared: Cleared<'_>, handle: Self::Handle, intent: IntentId) -> Discard;

    /// Drops the owner's record of a directory that is entirely gone.
    fn release(&mut self, candidate: &Candidate) -> Release;
}

/// Records: every change on disk has a durable intent before it.
pub trait Journal {
    /// Writes down what is about to happen, durably.
    ///
    /// # Errors
    /// [`JournalLost`] stops the sweep before the deed.
    fn intend(&mut self, intent: &Intent) -> Result<IntentId, JournalLost>;

    /// Writes down how it ended.
    ///
    /// # Errors
    /// [`JournalLost`] stops the sweep after the deed; the outcome is still reported.
    fn settle(&mut self, intent: IntentId, outcome: &Outcome) -> Result<(), JournalLost>;
}
