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

/// A directory no path leads to any more. Consumed by the second look.
#[derive(Debug)]
pub struct Fenced<'lock> {
    permit: RemovalPermit<'lock>,
}

/// A fenced directory that was looked at a second time. Consumed by the discard.
#[derive(Debug)]
pub struct Cleared<'lock> {
    permit: RemovalPermit<'lock>,
}

/// What the second look came to.
#[derive(Debug)]
pub enum SecondLook<'lock> {
    /// Nobody came between the re-check and the fence.
    Cleared(Cleared<'lock>),
    /// Somebody did; it is put back.
    Changed(Verdict),
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

impl<'lock> Fenced<'lock> {
    /// The directory that was fenced.
    #[must_use]
    pub fn candidate(&self) -> &Candidate {
        &self.permit.candidate
    }

    /// Decides once more, now that nobody new can come: by the same rule as the re-check.
    #[must_use]
    pub fn second_look(self, planned: &Removal, verdict: Verdict) -> SecondLook<'lock> {
        match standing(planned, &verdict) {
            Standing::Removable { .. } => SecondLook::Cleared(Cleared { permit: self.permit }),
            Standing::Changed => SecondLook::Changed(verdict),
        }
    }
}

impl Cleared<'_> {
    /// The directory that may be discarded.
    #[must_use]
    pub fn candidate(&self) -> &Candidate {
        &self.permit.candidate
    }
}

/// Compares what was planned with what is seen now. `lock` is the creators' lock that is held.
#[must_use]
pub fn recheck<'lock, L>(planned: &Removal, evidence: &Evidence, verdict: Verdict, lock: &'lock L) -> Recheck<'lock> {
    let _ = lock;
    match standing(planned, &verdict) {
        Standing::Removable { accepted_losses } => Recheck::Confirmed(RemovalPermit {
            candidate: planned.judged().candidate.clone(),
            evidence: evidence.digest(),
            accepted_losses,
            lock: PhantomData,
        }),
        Standing::Changed => Recheck::Changed(verdict),
    }
}

enum Standing {
    Removable { accepted_losses: Option<Digest> },
    Changed,
}

/// A clean orphan must still be one. One that force promoted must still lose exactly what the plan
/// showed: other losses are kept, and so is one that has become anything but unsaved. One whose
/// losses have all been saved meanwhile may go.
fn standing(planned: &Removal, verdict: &Verdict) -> Standing {
    if verdict.is_clean_orphan() {
        return Standing::Removable { accepted_losses: None };
    }
    match (verdict.losses(), planned.accepted_losses()) {
        (Some(now), Some(accepted)) if losses_digest(now) == accepted => {
            Standing::Removable { accepted_losses: Some(accepted) }
        }
        (Some(_), Some(_) | None) | (None, _) => Standing::Changed,
    }
}
