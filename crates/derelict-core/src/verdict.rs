//! The only definition of garbage: [`judge`].
//!
//! A directory is garbage if, and only if, every owner source was read and none claims it, nothing
//! uses it, it is old enough, its layout is the expected one, and nothing in it is the only copy of
//! anything. Every signal can only add a reason to keep; unknown is never empty.

use crate::evidence::{
    Answer, Blind, ChannelReport, Claim, ClaimedPath, Evidence, Holder, Layout, Lease, Loss, Observed, Proof, Signal,
};
use crate::ids::{Digest, NonEmpty, Timestamp};
use crate::policy::{Policy, Window};

/// What is to be done with a directory. Four arms because there are four decisions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// A living owner claims it: keep.
    Referenced(Claim),
    /// The sources contradict each other: mend the records. Never removed, not even by force.
    Disputed(NonEmpty<Claim>),
    /// Something could not be seen: mend the observer. Kept.
    Undetermined(NonEmpty<Blind>),
    /// Nobody owns it any more.
    Orphaned(Orphan),
}

/// What holds an orphan back, if anything.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Orphan {
    /// Something keeps it for now.
    Held(NonEmpty<Hold>),
    /// It holds the only copy of something.
    Unsaved(NonEmpty<Loss>),
    /// Deleting it loses nothing.
    Clean,
}

/// A reason to keep an orphan that is no loss.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Hold {
    /// Made or changed inside the window.
    Fresh {
        /// When it was last touched.
        touched: Timestamp,
        /// The instant before which it would have to have been.
        cutoff: Timestamp,
    },
    /// The top level is not the expected one.
    UnexpectedLayout(String),
    /// A checkout lies inside a directory that should hold none.
    NestedCheckout(std::path::PathBuf),
    /// Somebody or something uses it now.
    InUse(Holder),
    /// Its source holds it.
    Leased {
        /// The source's own words.
        reason: String,
    },
    /// Its times lie in the future.
    ClockSkew {
        /// The time that cannot be.
        touched: Timestamp,
        /// The time it was compared with.
        now: Timestamp,
    },
}

/// Decides what a directory is. Total: every combination of signals has exactly one verdict.
///
/// The order is the order of certainty. A living owner settles it. A contradiction comes next, for
/// it must not be mended by deleting. Then what could not be seen, so that force can never step
/// over it. Only then what was seen to hold it back, and last what would be lost.
#[must_use]
pub fn judge(evidence: &Evidence, policy: &Policy, now: Timestamp) -> Verdict {
    let claims = known_claims(evidence);
    if let Some(claim) = claims.iter().find(|claim| owns(claim, policy, now)) {
        return Verdict::Referenced((*claim).clone());
    }
    if let Some(elsewhere) =
        NonEmpty::from_vec(claims.iter().filter(|claim| disputes(claim)).map(|c| (*c).clone()).collect())
    {
        return Verdict::Disputed(elsewhere);
    }
    if let Some(blinds) = NonEmpty::from_vec(blinds(evidence)) {
        return Verdict::Undetermined(blinds);
    }
    if let Some(holds) = NonEmpty::from_vec(holds(evidence, &claims, policy, now)) {
        return Verdict::Orphaned(Orphan::Held(holds));
    }
    match NonEmpty::from_vec(losses(evidence)) {
        Some(losses) => Verdict::Orphaned(Orphan::Unsaved(losses)),
        None => Verdict::Orphaned(Orphan::Clean),
    }
}

impl Verdict {
    /// Whether the directory may go without force.
    #[must_use]
    pub fn is_clean_orphan(&self) -> bool {
        match self {
            Self::Orphaned(Orphan::Clean) => true,
            Self::Referenced(_) | Self::Disputed(_) | Self::Undetermined(_) | Self::Orphaned(_) => false,
        }
    }

    /// The losses, if unsaved work is all that keeps the directory.
    #[must_use]
    pub fn losses(&self) -> Option<&NonEmpty<Loss>> {
        match self {
            Self::Orphaned(Orphan::Unsaved(losses)) => Some(losses),
            Self::Referenced(_) | Self::Disputed(_) | Self::Undetermined(_) | Self::Orphaned(_) => None,
        }
    }
}

/// The digest of a set of losses: two are equal only if every loss and its content are.
#[must_use]
pub fn losses_digest(losses: &NonEmpty<Loss>) -> Digest {
    Digest::of(losses)
}

fn known_claims(evidence: &Evidence) -> Vec<&Claim> {
    let known = evidence.sources().iter().filter_map(|report| match &report.claims {
        Observed::Known(claims) => Some(claims),
        Observed::Unknown(_) => None,
    });
    known.flatten().collect()
}

/// A claim on this very place by an owner that is alive. A held lease is a hold, not an owner.
fn owns(claim: &Claim, policy: &Policy, now: Timestamp) -> bool {
    let here = match &claim.at {
        ClaimedPath::Here | ClaimedPath::Within | ClaimedPath::Above => true,
        ClaimedPath::Elsewhere(_) => false,
    };
    here && match &claim.lease {
        Lease::Standing => true,
        Lease::LastUsed(at) => match policy.window {
            Window::Standing => true,
            Window::Idle(span) => *at >= now.before(span),
        },
        Lease::Held { .. } => false,
    }
}

fn disputes(claim: &Claim) -> bool {
    match &claim.at {
        ClaimedPath::Elsewhere(_) => true,
        ClaimedPath::Here | ClaimedPath::Within | ClaimedPath::Above => false,
    }
}

fn blinds(evidence: &Evidence) -> Vec<Blind> {
    let mut blinds: Vec<Blind> = Vec::new();
    blinds.extend(evidence.sources().iter().filter_map(|report| blind_of(&report.claims)));
    blinds.extend(blind_of(&evidence.touched));
    blinds.extend(blind_of(&evidence.layout));
    blinds.extend(blind_of(&evidence.uses));
    match &evidence.proof {
        Observed::Unknown(blind) => blinds.push(blind.clone()),
        Observed::Known(proof) => blinds.extend(unknown_channels(proof)),
    }
    blinds
}

fn blind_of<T>(signal: &Observed<T>) -> Option<Blind> {
    match signal {
        Observed::Known(_) => None,
        Observed::Unknown(blind) => Some(blind.clone()),
    }
}

fn unknown_channels(proof: &Proof) -> impl Iterator<Item = Blind> {
    proof.channels.iter().flat_map(|report| match &report.answer {
        Answer::Nothing | Answer::Losses(_) => Vec::new(),
        Answer::Unknown(reasons) => {
            reasons.iter().map(|why| Blind { signal: Signal::Unsaved, why: why.clone() }).collect()
        }
    })
}

fn holds(evidence: &Evidence, claims: &[&Claim], policy: &Policy, now: Timestamp) -> Vec<Hold> {
    let mut holds = Vec::new();
    if let Observed::Known(uses) = &evidence.uses {
        holds.extend(uses.iter().cloned().map(Hold::InUse));
    }
    holds.extend(claims.iter().filter_map(|claim| match &claim.lease {
        Lease::Held { reason } => Some(Hold::Leased { reason: reason.clone() }),
        Lease::Standing | Lease::LastUsed(_) => None,
    }));
    if let Observed::Known(layout) = &evidence.layout {
        match layout {
            Layout::Any | Layout::Expected => {}
            Layout::Unexpected(found) => holds.push(Hold::UnexpectedLayout(found.clone())),
            Layout::NestedCheckout(path) => holds.push(Hold::NestedCheckout(path.clone())),
        }
    }
    if let Observed::Known(touched) = evidence.touched {
        let cutoff = now.before(policy.minimum_age);
        if touched > now.after(policy.clock_tolerance) {
            holds.push(Hold::ClockSkew { touched, now });
        } else if !policy.minimum_age.is_zero() && touched >= cutoff {
            holds.push(Hold::Fresh { touched, cutoff });
        }
    }
    holds
}

fn losses(evidence: &Evidence) -> Vec<Loss> {
    let Observed::Known(proof) = &evidence.proof else { return Vec::new() };
    let found = proof.channels.iter().filter_map(|ChannelReport { answer, .. }| match answer {
        Answer::Losses(losses) => Some(losses),
        Answer::Nothing | Answer::Unknown(_) => None,
    });
    found.flat_map(|losses| losses.iter().cloned()).collect()
}
