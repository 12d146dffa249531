//! From what was seen to what was judged, and the circuit breakers that look at the whole before
//! any part of it is touched.

use std::time::Duration;

use crate::evidence::{Candidate, Evidence};
use crate::ids::{FileIdentity, Timestamp};
use crate::outcome::Breaker;
use crate::plan::Judged;
use crate::policy::Policy;
use crate::record::LastSweep;
use crate::size::Size;
use crate::verdict::{Verdict, judge};

/// One directory as it was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    /// Which directory.
    pub candidate: Candidate,
    /// What was seen.
    pub evidence: Evidence,
    /// What it occupies.
    pub size: Size,
}

/// A source that lists fewer owners than this is too small to speak of having lost most of them.
const FEW: u64 = 4;

/// A last sweep this far in the future is a clock that stepped, not two clocks that differ a little.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(300);

/// Judges every directory by the same policy at the same instant.
#[must_use]
pub fn judge_all(sightings: Vec<Sighting>, policy: &Policy, now: Timestamp) -> Vec<Judged> {
    let judged = sightings.into_iter().map(|Sighting { candidate, evidence, size }| {
        let verdict = judge(&evidence, policy, now);
        Judged { candidate, evidence, size, verdict }
    });
    judged.collect()
}

/// How many directories a living owner claims.
#[must_use]
pub fn referenced(judged: &[Judged]) -> u64 {
    judged.iter().filter(|judged| matches!(judged.verdict, Verdict::Referenced(_))).count() as u64
}

/// Looks at a survey as a whole, against what was remembered of the last sweep. `owners` is `None` where
/// the operator declared that nobody is asked.
///
/// Returns every breaker that trips, so that an operator who acknowledges one learns of the others.
#[must_use]
pub fn breakers(
    judged: &[Judged],
    owners: Option<u64>,
    root: FileIdentity,
    last: Option<&LastSweep>,
    now: Timestamp,
) -> Vec<Breaker> {
    let mut tripped = Vec::new();
    if owners == Some(0) && !judged.is_empty() {
        tripped.push(Breaker::EmptySource { candidates: judged.len() as u64 });
    }
    let Some(last) = last else { return tripped };
    if last.at > now.after(CLOCK_TOLERANCE) {
        tripped.push(Breaker::ClockStepped { last: last.at, now });
    }
    if last.root != root {
        tripped.push(Breaker::RootReplaced);
    }
    if let Some(now) = owners.filter(|owners| lost_most(last.owners, *owners)) {
        tripped.push(Breaker::SourceShrank { before: last.owners, now });
    }
    let referenced = referenced(judged);
    if lost_most(last.referenced, referenced) {
        tripped.push(Breaker::MassOrphaning { before: last.referenced, now: referenced });
    }
    tripped
}

/// Whether the clock of a source and the one here are so far apart that ages mean nothing.
#[must_use]
pub fn source_clock(source: Timestamp, here: Timestamp) -> Option<Breaker> {
    let apart = source > here.after(CLOCK_TOLERANCE) || source < here.before(CLOCK_TOLERANCE);
    apart.then_some(Breaker::SourceClock { source, here })
}

/// Whether a count fell to less than half, from more than a few.
#[must_use]
pub fn lost_most(before: u64, now: u64) -> bool {
    before >= FEW && now < before.div_ceil(2)
}
