//! The report of an unattended sweep, for people and for programs: what went or could go, what stayed and why, and what
//! ended it. Everything in it is in the record too.

use std::collections::BTreeMap;

use derelict_core::ids::Timestamp;
use derelict_core::outcome::FateName;
use serde_json::{Value, json};

use crate::out::{Out, Paint};
use crate::reaper::record::{DirectoryRecord, Mode, SweepRecord};
use crate::{json, proof, text};

/// How much of a report is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// Of each group the first few.
    Short,
    /// All of it.
    Full,
}

/// Directories of one group that a short report names.
const FEW: usize = 10;

/// What people want to see by name: first what goes, then what went wrong, then what stays for a reason of its own.
/// What a living owner claims, and what is merely fresh, is counted.
const NAMED: [(FateName, &str); 16] = [
    (FateName::Removed, "removed"),
    (FateName::Quarantined, "set aside until their grace is over"),
    (FateName::Removable, "could go"),
    (FateName::BeyondLimit, "could go, beyond the limits"),
    (FateName::NotReached, "could go, not reached"),
    (FateName::RetainedResurrected, "came into use between the plan and their turn"),
    (FateName::RetainedChanged, "changed between the plan and their turn"),
    (FateName::Refused, "would not go"),
    (FateName::Busy, "busy"),
    (FateName::Interrupted, "interrupted"),
    (FateName::Vanished, "vanished"),
    (FateName::Undetermined, "could not be told"),
    (FateName::Disputed, "disputed"),
    (FateName::Unsaved, "hold the only copy of something"),
    (FateName::RetainedNestedCheckout, "hold a checkout"),
    (FateName::SkippedLayout, "do not have the expected layout"),
];

/// How many directories ended under each name.
pub(crate) fn tally(record: &SweepRecord) -> BTreeMap<FateName, u64> {
    record.directories.iter().fold(BTreeMap::new(), |mut counts, directory| {
        *counts.entry(directory.fate).or_insert(0) += 1;
        counts
    })
}

/// The report for people.
pub(crate) fn write(out: &mut Out, paint: Paint, record: &SweepRecord, detail: Detail) {
    let mode = match record.mode {
        Mode::Report => "report only, nothing is removed",
        Mode::Armed => "armed",
    };
    out.line(paint.heading(&format!("{}: {} ({mode})", record.root, text::path(&record.path))));
    let scanned = text::count(record.directories.len() as u64, text::DIRECTORY);
    let counts = tally(record).into_iter().map(|(fate, count)| format!("{} {}", text::number(count), fate.as_str()));
    let counts = counts.collect::<Vec<_>>().join(", ");
    out.line(format_args!("  {scanned} looked at{}{counts}", if counts.is_empty() { "" } else { ": " }));
    for (fate, meaning) in NAMED {
        group(out, record, fate, meaning, detail);
    }
    totals(out, paint, record);
}

fn group(out: &mut Out, record: &SweepRecord, fate: FateName, meaning: &str, detail: Detail) {
    let all: Vec<&DirectoryRecord> = record.directories.iter().filter(|directory| directory.fate == fate).collect();
    if all.is_empty() {
        return;
    }
    out.line(format_args!("  {} {meaning}:", text::number(all.len() as u64)));
    let shown = match detail {
        Detail::Short => FEW,
        Detail::Full => usize::MAX,
    };
    for directory in all.iter().take(shown) {
        let name = directory.path.strip_prefix(&record.path).unwrap_or(&directory.path);
        let size = text::pad_left(&text::bytes(directory.bytes), 10);
        out.line(format_args!("    {size}  {}  {}", text::path(name), text::sentence(&directory.why)));
    }
    if let Some(more) = all.len().checked_sub(shown).filter(|more| *more > 0) {
        out.line(format_args!("    and {} more; -v names them all", text::number(more as u64)));
    }
}

fn totals(out: &mut Out, paint: Paint, record: &SweepRecord) {
    let backlog = record.backlog;
    let could = format!(
        "{}, {}, {}",
        text::count(backlog.directories, text::DIRECTORY),
        text::count(backlog.entries, text::ENTRY),
        text::bytes(backlog.bytes)
    );
    out.line(format_args!("  Backlog when the sweep began: {could}"));
    if record.mode == Mode::Armed {
        let discarded = record.discarded;
        let gone = format!("{}, {}", text::count(discarded.entries, text::ENTRY), text::bytes(discarded.bytes));
        let measured = record.measured_bytes.map(|grown| match u64::try_from(grown) {
            Ok(grown) => format!("; {} more are free now", text::bytes(grown)),
            Err(_) => "; less is free now: others wrote meanwhile".to_owned(),
        });
        out.line(format_args!("  Removed: {gone}{}", measured.unwrap_or_default()));
    }
    if let Some(why) = &record.stop.why {
        out.line(paint.attention(&format!("  {}", text::sentence(why))));
    }
    out.line(format_args!("  Sweep {}", record.id));
}

/// The machine-readable twin of one sweep.
pub(crate) fn value(record: &SweepRecord) -> Value {
    let tally: serde_json::Map<String, Value> =
        tally(record).into_iter().map(|(fate, count)| (fate.as_str().to_owned(), Value::from(count))).collect();
    let directories: Vec<Value> = record.directories.iter().map(directory).collect();
    json!({
        "id": record.id,
        "root": record.root,
        "path": json::path(&record.path),
        "mode": record.mode.name(),
        "began": instant(record.began),
        "ended": instant(record.ended),
        "cutoff": instant(record.cutoff),
        "plan": record.plan.map(|plan| plan.to_string()),
        "stop": { "reason": record.stop.name, "which": record.stop.which, "why": record.stop.why },
        "scanned": record.directories.len(),
        "tally": tally,
        "backlog": {
            "directories": record.backlog.directories,
            "entries": record.backlog.entries,
            "bytes": record.backlog.bytes,
        },
        "discarded": { "entries": record.discarded.entries, "bytes": record.discarded.bytes },
        "measured_bytes": record.measured_bytes,
        "directories": directories,
    })
}

fn directory(directory: &DirectoryRecord) -> Value {
    json!({
        "path": json::path(&directory.path),
        "fate": directory.fate.as_str(),
        "why": directory.why,
        "evidence": directory.evidence.to_string(),
        "last_used": directory.last_used.map(instant),
        "touched": directory.touched.map(instant),
        "entries": directory.entries,
        "bytes": directory.bytes,
        "intent": directory.intent,
        "proof": proof::parsed(directory.proof.as_deref()),
    })
}

/// RFC 3339 in UTC, to the second.
fn instant(at: Timestamp) -> String {
    jiff::Timestamp::from_second(at.seconds()).map_or_else(|_| at.seconds().to_string(), |at| at.to_string())
}
