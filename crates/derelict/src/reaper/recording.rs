//! From a plan and its report to the record of the sweep: every directory with its fate, the reason in words and the
//! digest of what was seen.

use std::collections::HashMap;
use std::path::Path;

use derelict_core::evidence::{Evidence, Observed};
use derelict_core::ids::{Digest, Timestamp};
use derelict_core::outcome::{Fate, Outcome, StopReason};
use derelict_core::plan::{Judged, Plan};
use derelict_core::record::{Settled, SweepReport};
use derelict_core::verdict::Verdict;

use crate::reaper::record::{Amount, DirectoryRecord, Stop, SweepRecord};
use crate::reaper::sweeping::Assignment;
use crate::{text, words};

/// As many digits of a digest as tell sweeps of one second apart.
const ID_DIGITS: usize = 8;

/// What is known of a sweep beside its plan and report.
pub(crate) struct Head<'h> {
    pub(crate) assignment: &'h Assignment,
    pub(crate) began: Timestamp,
    pub(crate) ended: Timestamp,
    pub(crate) cutoff: Timestamp,
    pub(crate) measured: Option<i64>,
}

/// Puts the record together. Without a plan nothing was looked at.
pub(crate) fn record(head: &Head<'_>, plan: Option<&Plan>, report: &SweepReport) -> SweepRecord {
    let judged: HashMap<&Path, &Judged> =
        plan.into_iter().flat_map(all).map(|judged| (judged.candidate.below_root.as_path(), judged)).collect();
    let directories = report.settled.iter().filter_map(|settled| {
        let judged = judged.get(settled.candidate.below_root.as_path())?;
        Some(directory(judged, settled, head.cutoff))
    });
    SweepRecord {
        id: id(head),
        root: head.assignment.name.clone(),
        path: head.assignment.path.clone(),
        mode: head.assignment.mode,
        began: head.began,
        ended: head.ended,
        cutoff: head.cutoff,
        plan: plan.map(Plan::digest),
        stop: stop(&report.stop),
        backlog: backlog(plan),
        discarded: report.discarded(),
        measured_bytes: head.measured,
        directories: directories.collect(),
    }
}

fn all(plan: &Plan) -> impl Iterator<Item = &Judged> {
    let removable = plan.removals().iter().chain(plan.beyond_limit()).map(|removal| removal.judged());
    removable.chain(plan.kept())
}

fn id(head: &Head<'_>) -> String {
    let digest = Digest::of(&(&head.assignment.name, head.began, std::process::id())).to_string();
    let at = jiff::Timestamp::from_second(head.began.seconds()).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    format!("{}-{}", at.strftime("%Y%m%dT%H%M%SZ"), &digest[..ID_DIGITS])
}

fn stop(stop: &StopReason) -> Stop {
    let which = match stop {
        StopReason::LimitReached(limit) => Some(limit.name().to_owned()),
        StopReason::BreakerTripped(breaker) => Some(breaker.name().to_owned()),
        StopReason::SourceLost { source, .. } => Some(source.to_string()),
        StopReason::Finished
        | StopReason::JournalLost(_)
        | StopReason::RootAbsent(_)
        | StopReason::Cancelled
        | StopReason::Deadline => None,
    };
    Stop { name: stop.name().to_owned(), which, why: words::stop(stop) }
}

/// What could go, within the limits and beyond them.
fn backlog(plan: Option<&Plan>) -> Amount {
    let nothing = Amount { directories: 0, entries: 0, bytes: 0 };
    let removable = plan.into_iter().flat_map(|plan| plan.removals().iter().chain(plan.beyond_limit()));
    removable.fold(nothing, |sum, removal| {
        let size = &removal.judged().size;
        Amount {
            directories: sum.directories + 1,
            entries: sum.entries + size.entries,
            bytes: sum.bytes + size.freed_alone().bytes,
        }
    })
}

fn directory(judged: &Judged, settled: &Settled, cutoff: Timestamp) -> DirectoryRecord {
    let last_used = last_used(&judged.evidence);
    let touched = match &judged.evidence.touched {
        Observed::Known(at) => Some(*at),
        Observed::Unknown(_) => None,
    };
    let (entries, bytes) = match &settled.fate {
        Fate::Settled(Outcome::Removed { discarded, .. } | Outcome::Refused { discarded, .. }) => {
            (discarded.entries, discarded.bytes)
        }
        Fate::Settled(_) | Fate::Kept(_) | Fate::Removable | Fate::BeyondLimit | Fate::NotReached => {
            (judged.size.entries, judged.size.freed_alone().bytes)
        }
    };
    DirectoryRecord {
        path: settled.candidate.path.clone(),
        fate: settled.fate.name(),
        why: why(&settled.fate, last_used, cutoff),
        evidence: judged.evidence.digest(),
        last_used,
        touched,
        entries,
        bytes,
        intent: settled.intent.map(|intent| intent.0),
    }
}

fn last_used(evidence: &Evidence) -> Option<Timestamp> {
    evidence.sources().iter().filter_map(derelict_core::evidence::SourceReport::last_used).max()
}

/// The fate in words. A near miss names what was believed when the plan was made, and the cutoff.
fn why(fate: &Fate, planned: Option<Timestamp>, cutoff: Timestamp) -> String {
    let told = words::fate(fate);
    match fate {
        Fate::Settled(Outcome::Resurrected(Verdict::Referenced(_))) => {
            let planned =
                planned.map_or("without an owner".to_owned(), |at| format!("last used {}", text::instant(at)));
            format!("{told}; planned as {planned}, cutoff {}", text::instant(cutoff))
        }
        Fate::Settled(_) | Fate::Kept(_) | Fate::Removable | Fate::BeyondLimit | Fate::NotReached => told,
    }
}
