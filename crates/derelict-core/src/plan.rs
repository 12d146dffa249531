//! What would be removed, what stays and why. The plan that is shown is the plan that is executed:
//! a dry run and a live run build it here, with the same limits.

use std::cmp::Reverse;
use std::ffi::OsString;

use crate::evidence::{Candidate, Evidence};
use crate::ids::{Digest, NonEmpty};
use crate::policy::{Force, Limit, Limits, Selection};
use crate::size::{Freed, Size, freed_together};
use crate::verdict::{Verdict, losses_digest};

/// One directory with everything that was seen of it and what it was judged to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// Which directory.
    pub candidate: Candidate,
    /// What was seen.
    pub evidence: Evidence,
    /// What it occupies.
    pub size: Size,
    /// What it was judged to be.
    pub verdict: Verdict,
}

/// A directory the plan would remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removal {
    judged: Box<Judged>,
    promoted: Option<Promoted>,
}

/// Unsaved work that may go all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Promoted {
    losses: Digest,
    terms: Acceptance,
}

/// On which terms losses were accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Acceptance {
    /// They are lost.
    Lost,
    /// They are rescued first.
    Rescued,
}

impl Removal {
    /// What was seen and judged.
    #[must_use]
    pub fn judged(&self) -> &Judged {
        &self.judged
    }

    /// The digest of the losses that were accepted; `None` for a clean orphan.
    #[must_use]
    pub fn accepted_losses(&self) -> Option<Digest> {
        self.promoted.map(|promoted| promoted.losses)
    }

    /// On which terms they were accepted; `None` for a clean orphan.
    #[must_use]
    pub fn acceptance(&self) -> Option<Acceptance> {
        self.promoted.map(|promoted| promoted.terms)
    }
}

/// A directory that stays.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Kept(Box<Judged>);

/// What goes, what stays, and what is beyond the limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    removals: Vec<Removal>,
    beyond_limit: Vec<Removal>,
    kept: Vec<Kept>,
    limit: Option<Limit>,
    digest: Digest,
}

/// Who agreed to what. A dry run has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    /// A person saw the plan with this digest and said yes.
    Operator {
        /// The digest of the plan that was on the screen.
        seen: Digest,
    },
    /// A standing policy was armed in advance.
    Standing {
        /// The digest of that policy.
        policy: Digest,
    },
}

/// A plan together with the consent to carry it out; the only thing a sweep accepts.
#[derive(Debug)]
pub struct ApprovedPlan {
    plan: Plan,
    consent: Consent,
}

/// The consent was given to another plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("consent was given to plan {seen}, but this is plan {plan}")]
pub struct ConsentMismatch {
    seen: Digest,
    plan: Digest,
}

impl Plan {
    /// Selects what may go, biggest first and what was postponed last, as far as the limits reach.
    #[must_use]
    pub fn new(judged: Vec<Judged>, selection: &Selection) -> Self {
        let (mut candidates, mut kept) = (Vec::new(), Vec::new());
        // Each lies in one place from here on: a plan of a large root is sorted and split several times.
        for judged in judged.into_iter().map(Box::new) {
            match promotion(&judged.verdict, selection.force) {
                Promotion::Removable { promoted } => candidates.push(Removal { judged, promoted }),
                Promotion::Stays => kept.push(Kept(judged)),
            }
        }
        candidates.sort_by_cached_key(|removal| {
            let postponed = selection.postponed.contains(&removal.judged.candidate.below_root);
            (postponed, biggest_first(&removal.judged))
        });
        kept.sort_by_cached_key(|Kept(judged)| biggest_first(judged));
        let Selected { removals, beyond_limit, limit } = within(candidates, selection.limits);
        let digest = Digest::of(&(identify(&removals), identify(&beyond_limit), kept_digest(&kept)));
        Self { removals, beyond_limit, kept, limit, digest }
    }

    /// What would be removed, biggest first.
    #[must_use]
    pub fn removals(&self) -> &[Removal] {
        &self.removals
    }

    /// What could go too, but is beyond the limits.
    #[must_use]
    pub fn beyond_limit(&self) -> &[Removal] {
        &self.beyond_limit
    }

    /// The first limit that left something for later.
    #[must_use]
    pub fn limit(&self) -> Option<Limit> {
        self.limit
    }

    /// What stays, biggest first.
    #[must_use]
    pub fn kept(&self) -> impl ExactSizeIterator<Item = &Judged> {
        self.kept.iter().map(|Kept(judged)| &**judged)
    }

    /// What a person agrees to: directories by identity, their evidence, accepted losses, order.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// What the removals free together.
    #[must_use]
    pub fn frees(&self) -> Freed {
        freed_together(self.removals.iter().map(|removal| &removal.judged.size))
    }

    /// Binds the plan to a consent.
    ///
    /// # Errors
    /// [`ConsentMismatch`] when a person agreed to another plan than this one.
    pub fn approve(self, consent: Consent) -> Result<ApprovedPlan, ConsentMismatch> {
        match consent {
            Consent::Operator { seen } if seen != self.digest => Err(ConsentMismatch { seen, plan: self.digest }),
            Consent::Operator { .. } | Consent::Standing { .. } => Ok(ApprovedPlan { plan: self, consent }),
        }
    }
}

impl ApprovedPlan {
    /// The plan that was agreed to.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The plan again, when it has been carried out.
    #[must_use]
    pub fn into_plan(self) -> Plan {
        self.plan
    }

    /// Who agreed.
    #[must_use]
    pub fn consent(&self) -> Consent {
        self.consent
    }
}

enum Promotion {
    Removable { promoted: Option<Promoted> },
    Stays,
}

/// Force reaches unsaved work and nothing else.
fn promotion(verdict: &Verdict, force: Force) -> Promotion {
    if verdict.is_clean_orphan() {
        return Promotion::Removable { promoted: None };
    }
    let terms = match force {
        Force::No => return Promotion::Stays,
        Force::UnsavedAsShown => Acceptance::Lost,
        Force::UnsavedOnceRescued => Acceptance::Rescued,
    };
    match verdict.losses() {
        Some(losses) => Promotion::Removable { promoted: Some(Promoted { losses: losses_digest(losses), terms }) },
        None => Promotion::Stays,
    }
}

/// Places are compared as bytes: by components it would be most of the time that a large plan takes.
fn biggest_first(judged: &Judged) -> (Reverse<u64>, OsString) {
    (Reverse(judged.size.freed_alone().bytes), judged.candidate.below_root.clone().into_os_string())
}

struct Selected {
    removals: Vec<Removal>,
    beyond_limit: Vec<Removal>,
    limit: Option<Limit>,
}

/// Takes in order whatever still fits. A directory too big for what is left does not starve those
/// after it.
fn within(candidates: Vec<Removal>, limits: Limits) -> Selected {
    let mut selected = Selected { removals: Vec::new(), beyond_limit: Vec::new(), limit: None };
    let left = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
    let mut left = [left(limits.removals), left(limits.entries), left(limits.bytes)];
    for removal in candidates {
        let size = &removal.judged.size;
        let needs = [1, size.entries, size.freed_alone().bytes];
        match Limit::ALL.into_iter().zip(left.iter().zip(needs)).find(|(_, (left, needs))| needs > *left) {
            None => {
                left.iter_mut().zip(needs).for_each(|(left, needs)| *left -= needs);
                selected.removals.push(removal);
            }
            Some((limit, _)) => {
                selected.limit.get_or_insert(limit);
                selected.beyond_limit.push(removal);
            }
        }
    }
    selected
}

fn identify(removals: &[Removal]) -> Vec<(&Candidate, Digest, Option<Promoted>)> {
    removals
        .iter()
        .map(|removal| (&removal.judged.candidate, removal.judged.evidence.digest(), removal.promoted))
        .collect()
}

fn kept_digest(kept: &[Kept]) -> Option<NonEmpty<(&Candidate, &Verdict)>> {
    NonEmpty::from_vec(kept.iter().map(|Kept(judged)| (&judged.candidate, &judged.verdict)).collect())
}
