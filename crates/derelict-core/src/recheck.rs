//! The last word before a removal: what was planned against what is seen now, under the creators'
//! lock. Only [`recheck`] can make a [`RemovalPermit`], and no permit outlives the lock.

use std::marker::PhantomData;

use crate::evidence::{Candidate, Evidence};
use crate::ids::Digest;
use crate::plan::Removal;
use crate::verdict::{Verdict, losses_digest};

/// What the re-check came to.
#[derive(Debug)]
pub enum Recheck<'lock> {
    /// Still removable, for the same reason.
    Confirmed(RemovalPermit<'lock>),
    /// It is something else now; it stays.
    Changed(Verdict),
}

/// The right to remove one directory, while the creators' lock is held. Consumed by the fence.
#[derive(Debug)]
pub struct RemovalPermit<'lock> {
    candidate: Candidate,
    evidence: Digest,
    accepted_losses: Option<Digest>,
    lock: PhantomData<&'lock ()>,
}

/// A directory no path leads to any more. Consumed by the discard.
#[derive(Debug)]
pub struct Fenced<'lock> {
    permit: RemovalPermit<'lock>,
}

impl<'lock> RemovalPermit<'lock> {
    /// The directory it is for.
    #[must_use]
    pub fn candidate(&self) -> &Candidate {
        &self.candidate
    }

    /// The evidence of the re-check.
    #[must_use]
    pub fn evidence(&self) -> Digest {
        self.evidence
    }

    /// The losses that were accepted by force, if any.
    #[must_use]
    pub fn accepted_losses(&self) -> Option<Digest> {
        self.accepted_losses
    }

    /// Says that the directory has been renamed to its trash name.
    #[must_use]
    pub fn fenced(self) -> Fenced<'lock> {
        Fenced { permit: self }
    }
}

impl Fenced<'_> {
    /// The directory that was fenced.
    #[must_use]
    pub fn candidate(&self) -> &Candidate {
        &self.permit.candidate
    }
}

/// Compares what was planned with what is seen now. `lock` is the creators' lock that is held.
///
/// A clean orphan must still be one. One that force promoted must still lose exactly what the plan
/// showed: other losses are kept, and so is one that has become anything but unsaved. One whose
/// losses have all been saved meanwhile may go.
#[must_use]
pub fn recheck<'lock, L>(planned: &Removal, evidence: &Evidence, verdict: Verdict, lock: &'lock L) -> Recheck<'lock> {
    let _ = lock;
    let same_losses = match (verdict.losses(), planned.accepted_losses()) {
        (Some(now), Some(accepted)) => losses_digest(now) == accepted,
        (Some(_), None) | (None, _) => false,
    };
    if verdict.is_clean_orphan() || same_losses {
        Recheck::Confirmed(RemovalPermit {
            candidate: planned.judged().candidate.clone(),
            evidence: evidence.digest(),
            accepted_losses: if same_losses { planned.accepted_losses() } else { None },
            lock: PhantomData,
        })
    } else {
        Recheck::Changed(verdict)
    }
}
