//! From a plan and its report to the record of the sweep: every directory with its fate, the reason in words and the
//! digest of what was seen.

use std::collections::HashMap;
use std::path::Path;

use derelict_core::evidence::{Evidence, Observed};
use derelict_core::ids::{Digest, Timestamp};
use derelict_core::outcome::{Discarded, Fate, FateName, Outcome, StopReason};
use derelict_core::plan::{Judged, Plan};
use derelict_core::record::Settled;
use derelict_core::verdict::Verdict;
use derelict_reclaim::journal::Untold;
use derelict_reclaim::quarantine::{End, Expired};
use derelict_reclaim::recover::Recovered;

use crate::reaper::record::{Amount, DirectoryRecord, Stop, SweepRecord};
use crate::reaper::sweeping::{Assignment, Leftovers, Swept};
use crate::{proof, text, words};

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

/// Puts the record together. What was settled goes over into it, since there may be very much of it.
pub(crate) fn record(head: &Head<'_>, swept: Swept) -> SweepRecord {
    let Swept { plan, report, expired, left: Leftovers { recovered, untold } } = swept;
    let plan = plan.as_ref();
    let unlinked = report.discarded();
    let judged: HashMap<&Path, &Judged> =
        plan.into_iter().flat_map(all).map(|judged| (judged.candidate.below_root.as_path(), judged)).collect();
    let directories = report.settled.into_iter().filter_map(|settled| {
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
        discarded: expired
            .iter()
            .map(|expired| discarded(&expired.end))
            .chain(recovered.iter().map(finished))
            .fold(unlinked, |sum, one| Discarded { entries: sum.entries + one.entries, bytes: sum.bytes + one.bytes }),
        measured_bytes: head.measured,
        directories: untold
            .iter()
            .map(untold_directory)
            .chain(recovered.iter().filter_map(recovered_directory))
            .chain(expired.iter().map(expired_directory))
            .chain(directories)
            .collect(),
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

fn directory(judged: &Judged, settled: Settled, cutoff: Timestamp) -> DirectoryRecord {
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
        path: settled.candidate.path,
        fate: settled.fate.name(),
        why: why(&settled.fate, last_used, cutoff),
        evidence: judged.evidence.digest(),
        last_used,
        touched,
        entries,
        bytes,
        intent: settled.intent.map(|intent| intent.0),
        proof: proof::of_checkout(&judged.evidence),
    }
}

/// What an expiry unlinked.
fn discarded(end: &End) -> Discarded {
    match end {
        End::Removed { discarded, .. } | End::Refused { discarded, .. } => *discarded,
        End::PutBack(_) | End::Occupied(_) | End::Unseen(_) | End::Left(_) => Discarded { entries: 0, bytes: 0 },
    }
}

/// A directory that was set aside by an earlier sweep.
fn expired_directory(expired: &Expired) -> DirectoryRecord {
    let trash = text::path(&expired.trash);
    let (fate, why) = match &expired.end {
        End::Removed { .. } => (FateName::Removed, "removed: its grace is over, and nobody wants it".to_owned()),
        End::Refused { refusals, .. } => {
            let first = refusals.first();
            let why = format!("its grace is over; the rest would not go: {}: {}", text::path(&first.path), first.why);
            (FateName::Refused, why)
        }
        End::PutBack(verdict) => {
            let why = format!("put back: it came into use during its grace: {}", words::reason_line(verdict));
            (FateName::RetainedResurrected, why)
        }
        End::Occupied(verdict) => {
            let wanted = words::reason_line(verdict);
            (
                FateName::RetainedResurrected,
                format!("wanted again ({wanted}) and its name is taken; it is whole at {trash}"),
            )
        }
        End::Unseen(verdict) => {
            (FateName::Undetermined, format!("stays set aside at {trash}: {}", words::reason_line(verdict)))
        }
        End::Left(why) => (FateName::Busy, format!("stays set aside at {trash}: {why}")),
    };
    let Discarded { entries, bytes } = discarded(&expired.end);
    DirectoryRecord {
        path: expired.set_aside.candidate.path.clone(),
        fate,
        why,
        evidence: Digest::of(&expired.set_aside),
        last_used: None,
        touched: None,
        entries,
        bytes,
        intent: Some(expired.set_aside.intent.0),
        proof: None,
    }
}

/// What went in a sweep that was killed before it could tell, by the journal. It is told late, and not counted again
/// as unlinked now.
fn untold_directory(untold: &Untold) -> DirectoryRecord {
    DirectoryRecord {
        path: untold.path.clone(),
        fate: FateName::Removed,
        why: "removed by an earlier sweep that was killed before its record was kept".to_owned(),
        evidence: Digest::of(&(&untold.path, untold.intent)),
        last_used: None,
        touched: None,
        entries: untold.discarded.entries,
        bytes: untold.discarded.bytes,
        intent: Some(untold.intent.0),
        proof: None,
    }
}

/// What was unlinked now of what an earlier sweep had begun to discard.
fn finished(recovered: &Recovered) -> Discarded {
    match recovered {
        Recovered::Finished { discarded, .. } | Recovered::Unfinished { discarded, .. } => *discarded,
        Recovered::Untouched { .. }
        | Recovered::PutBack { .. }
        | Recovered::Occupied { .. }
        | Recovered::Gone { .. }
        | Recovered::Busy { .. }
        | Recovered::Undecided { .. }
        | Recovered::UnknownTrash { .. } => Discarded { entries: 0, bytes: 0 },
    }
}

/// What an earlier sweep left, until nothing of it is left; what is under its name is judged with the rest.
fn recovered_directory(recovered: &Recovered) -> Option<DirectoryRecord> {
    let (path, fate, why) = match recovered {
        Recovered::Untouched { .. } | Recovered::PutBack { .. } => return None,
        Recovered::Finished { path, .. } => {
            (path, FateName::Removed, "removed: an earlier sweep was stopped while it discarded it".to_owned())
        }
        Recovered::Gone { path, .. } => {
            (path, FateName::Removed, "removed by an earlier sweep that was stopped before it said so".to_owned())
        }
        Recovered::Unfinished { path, refusals, .. } => {
            let all = refusals.iter().map(|refusal| format!("{}: {}", text::path(&refusal.path), refusal.why));
            let all = all.collect::<Vec<_>>().join("; ");
            (path, FateName::Refused, format!("an earlier sweep began to discard it; the rest would not go: {all}"))
        }
        Recovered::Occupied { trash, path } => {
            let trash = text::path(trash);
            let why = format!("an earlier sweep had only fenced it, and its name is taken; it is whole at {trash}");
            (path, FateName::RetainedResurrected, why)
        }
        Recovered::Busy { path, lock } => (
            path,
            FateName::Busy,
            format!("what an earlier sweep left is not settled: {lock} is held by somebody else"),
        ),
        Recovered::Undecided { path, why } => {
            (path, FateName::Undetermined, format!("what an earlier sweep left is not what it said: {why}"))
        }
        Recovered::UnknownTrash { path } => {
            (path, FateName::Undetermined, "trash that no journal here knows: look at it by hand".to_owned())
        }
    };
    let Discarded { entries, bytes } = finished(recovered);
    Some(DirectoryRecord {
        path: path.clone(),
        fate,
        evidence: Digest::of(&(path, &why)),
        why,
        last_used: None,
        touched: None,
        entries,
        bytes,
        intent: None,
        proof: None,
    })
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
