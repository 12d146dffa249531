//! The last word before a removal: what was planned against what is seen now, under the creators'
//! lock. Only [`recheck`] can make a [`RemovalPermit`], and no permit outlives the lock. What was set
//! aside is decided on once more when its grace is over, by [`expire`].

use std::marker::PhantomData;

use crate::evidence::{Candidate, Evidence};
use crate::ids::{Digest, Timestamp};
use crate::plan::{Acceptance, Removal};
use crate::size::Measured;
use crate::verdict::{Orphan, Verdict, losses_digest};

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
    acceptance: Option<Acceptance>,
    measured: Option<Measured>,
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

/// A fenced directory that holds the only copy of something, which has to be rescued before it is [`Cleared`].
#[derive(Debug)]
pub struct Unsaved<'lock> {
    permit: RemovalPermit<'lock>,
}

/// What the second look came to.
#[derive(Debug)]
pub enum SecondLook<'lock> {
    /// Nobody came between the re-check and the fence.
    Cleared(Cleared<'lock>),
    /// Nobody came, and what it alone holds has to be rescued.
    ToRescue(Unsaved<'lock>),
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
            Standing::Removable { .. } => match self.permit.acceptance {
                None | Some(Acceptance::Lost) => SecondLook::Cleared(Cleared { permit: self.permit }),
                Some(Acceptance::Rescued) => SecondLook::ToRescue(Unsaved { permit: self.permit }),
            },
            Standing::Changed => SecondLook::Changed(verdict),
        }
    }
}

impl<'lock> Unsaved<'lock> {
    /// The directory that holds it.
    #[must_use]
    pub fn candidate(&self) -> &Candidate {
        &self.permit.candidate
    }

    /// Everything was rescued and compared. Decides by what is seen after that, for a rescue takes its time.
    ///
    /// # Errors
    /// The verdict, when it is something else now: it is put back.
    pub fn rescued(self, planned: &Removal, verdict: Verdict) -> Result<Cleared<'lock>, Verdict> {
        match standing(planned, &verdict) {
            Standing::Removable { .. } => Ok(Cleared { permit: self.permit }),
            Standing::Changed => Err(verdict),
        }
    }
}

impl Cleared<'_> {
    /// The directory that may be discarded.
    #[must_use]
    pub fn candidate(&self) -> &Candidate {
        &self.permit.candidate
    }

    /// What it was measured to hold, if that tells what its removal frees.
    #[must_use]
    pub fn measured(&self) -> Option<Measured> {
        self.permit.measured
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
            acceptance: accepted_losses.and(planned.acceptance()),
            measured: planned.judged().size.measured(),
            lock: PhantomData,
        }),
        Standing::Changed => Recheck::Changed(verdict),
    }
}

/// On which terms a directory was set aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Grace {
    /// When it is over.
    pub until: Timestamp,
    /// The losses that were accepted by force, if any.
    pub accepted_losses: Option<Digest>,
}

/// What a directory that was set aside comes to.
#[derive(Debug)]
pub enum Expiry<'lock> {
    /// Its grace is over and nobody asked for it: it may be discarded.
    Cleared(Cleared<'lock>),
    /// It is wanted again, or something was written in it: it is put back.
    Wanted(Verdict),
    /// Something could not be seen: it stays where it is.
    Unseen(Verdict),
    /// Its grace is not over.
    NotYet,
}

/// Decides on a directory that was set aside, by what is seen of it now. `lock` is the creators' lock
/// that is held.
#[must_use]
pub fn expire<'lock, L>(
    candidate: &Candidate,
    grace: &Grace,
    evidence: &Evidence,
    verdict: Verdict,
    now: Timestamp,
    lock: &'lock L,
) -> Expiry<'lock> {
    let _ = lock;
    if now < grace.until {
        return Expiry::NotYet;
    }
    match (still_removable(grace.accepted_losses, &verdict), &verdict) {
        (Standing::Removable { accepted_losses }, _) => Expiry::Cleared(Cleared {
            permit: RemovalPermit {
                candidate: candidate.clone(),
                evidence: evidence.digest(),
                accepted_losses,
                // What was to be rescued was, before it was set aside.
                acceptance: accepted_losses.map(|_| Acceptance::Lost),
                measured: None,
                lock: PhantomData,
            },
        }),
        (Standing::Changed, Verdict::Undetermined(_)) => Expiry::Unseen(verdict),
        (
            Standing::Changed,
            Verdict::Referenced(_)
            | Verdict::Disputed(_)
            | Verdict::Orphaned(Orphan::Held(_) | Orphan::Unsaved(_) | Orphan::Clean),
        ) => Expiry::Wanted(verdict),
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
    still_removable(planned.accepted_losses(), verdict)
}

fn still_removable(accepted_losses: Option<Digest>, verdict: &Verdict) -> Standing {
    if verdict.is_clean_orphan() {
        return Standing::Removable { accepted_losses: None };
    }
    match (verdict.losses(), accepted_losses) {
        (Some(now), Some(accepted)) if losses_digest(now) == accepted => {
            Standing::Removable { accepted_losses: Some(accepted) }
        }
        (Some(_), Some(_) | None) | (None, _) => Standing::Changed,
    }
}
