//! History as people read it. What is asked for, and of whom, is settled in the module above.

use derelict_core::ids::Timestamp;
use derelict_core::outcome::FateName;

use crate::console::Console;
use crate::exit::Exit;
use crate::history::{Answer, Asked, Older, rule, sightings};
use crate::ledger::{Fates, Head, Sighting};
use crate::out::{Out, Paint};
use crate::reaper::record::DirectoryRecord;
use crate::{proof, text};

/// Every fate, in the order of reports.
static ALL: [FateName; FateName::ALL.len()] = FateName::ALL;

/// Room for the name of a detail.
const LABEL_COLUMNS: usize = 10;

/// Prints the answer, with what could not be read at its end.
pub(super) fn print(mut answer: Answer<'_>, console: &mut Console) -> Exit {
    let Console { out, paint, .. } = console;
    match answer.asked.clone() {
        Asked::Sweeps => sweeps(&mut answer, out, *paint),
        Asked::Sweep(id) => sweep(&mut answer, &id, out, *paint),
        Asked::Paths(paths) => {
            let seen = sightings(&mut answer);
            if seen.is_empty() {
                let named = paths.first().map(|path| text::path(path));
                out.line(format_args!("No sweep that was asked for saw {}.", named.as_deref().unwrap_or("it")));
            }
            told(&seen, out, *paint);
        }
        Asked::Anywhere => {
            let seen = sightings(&mut answer);
            if seen.is_empty() {
                out.line("There was no near miss.");
            }
            told(&seen, out, *paint);
        }
    }
    for trouble in answer.reading.troubles() {
        out.line(paint.attention(&format!("Note: {}", text::sentence(trouble))));
    }
    answer.exit()
}

fn sweeps(answer: &mut Answer<'_>, out: &mut Out, paint: Paint) {
    let (heads, older) = answer.sweeps();
    if heads.is_empty() {
        out.line("No sweep that was asked for is recorded.");
    }
    for head in &heads {
        out.line(title(head, paint));
        out.line(format_args!("  {}; {}", counts(head), unlinked(head)));
        if let Some(why) = &head.stop.why {
            out.line(format_args!("  {}", paint.attention(&text::sentence(why))));
        }
    }
    match older {
        Older::NotShown => out.line(paint.aside("Older sweeps are not shown; --since says how far back.")),
        Older::None => {}
    }
}

/// When, which, where and how, in one line.
fn title(head: &Head, paint: Paint) -> String {
    let Head { id, root, mode, stop, .. } = head;
    let stop = match &stop.which {
        Some(which) => format!("{} ({})", text::sentence(&stop.name), text::sentence(which)),
        None => text::sentence(&stop.name),
    };
    let when = paint.heading(&text::instant(head.began));
    format!("{when}  {}  {}, {}: {stop}", text::sentence(id), text::sentence(root), mode.name())
}

/// The directories by their fates, in the order of reports.
fn counts(head: &Head) -> String {
    let counted = FateName::ALL.iter().filter_map(|fate| {
        let count = head.counts.get(fate)?;
        Some(format!("{} {}", text::number(*count), fate.as_str()))
    });
    let counted: Vec<String> = counted.collect();
    if counted.is_empty() { "no directory was looked at".into() } else { counted.join(", ") }
}

fn unlinked(head: &Head) -> String {
    let discarded = head.discarded;
    format!("{} and {} unlinked", text::bytes(discarded.bytes), text::count(discarded.entries, text::ENTRY))
}

fn sweep(answer: &mut Answer<'_>, id: &str, out: &mut Out, paint: Paint) {
    let Some(head) = answer.reading.sweep(id) else { return };
    out.line(title(&head, paint));
    item(out, "root", &text::path(&head.path));
    item(out, "ended", &text::instant(head.ended));
    item(out, "cutoff", &text::instant(head.cutoff));
    item(out, "plan", &head.plan.map_or("there was none".into(), |plan| plan.to_string()));
    if let Some(why) = &head.stop.why {
        item(out, "stop", why);
    }
    let backlog = head.backlog;
    let directories = text::count(backlog.directories, text::DIRECTORY);
    let entries = text::count(backlog.entries, text::ENTRY);
    item(out, "backlog", &format!("{directories}, {entries}, {}", text::bytes(backlog.bytes)));
    item(out, "result", &format!("{}; {}", counts(&head), unlinked(&head)));
    item(out, "measured", &measured(head.measured_bytes));
    for one in ALL.chunks(1) {
        of_fate(answer, &head, one, out, paint);
    }
}

fn measured(bytes: Option<i64>) -> String {
    match bytes {
        None => "could not be told".into(),
        Some(grown) if grown >= 0 => format!("{} more free space", text::bytes(grown.unsigned_abs())),
        Some(shrunk) => format!("{} less free space", text::bytes(shrunk.unsigned_abs())),
    }
}

/// The directories of one fate. The history is asked once for each, so that none of them is kept in memory.
fn of_fate(answer: &mut Answer<'_>, head: &Head, one: &'static [FateName], out: &mut Out, paint: Paint) {
    let asked_for = |fate: &&FateName| head.counts.contains_key(fate) && answer.filter.fates.include(**fate);
    let Some(fate) = one.iter().find(asked_for) else { return };
    out.blank();
    out.line(format_args!("{}  {}", paint.heading(fate.as_str()), paint.aside(rule(*fate))));
    answer.reading.directories(&head.id, Fates::Of(one), &mut |directory| {
        out.line(format_args!("  {}", name(&directory, paint)));
        details(out, &directory);
    });
}

/// What goes, what stays and what needs a person look different.
fn name(directory: &DirectoryRecord, paint: Paint) -> String {
    let path = text::path(&directory.path);
    match directory.fate {
        FateName::Removed | FateName::Quarantined => paint.goes(&path),
        FateName::RetainedResurrected
        | FateName::RetainedChanged
        | FateName::Refused
        | FateName::Interrupted
        | FateName::Undetermined
        | FateName::Disputed => paint.attention(&path),
        FateName::Referenced
        | FateName::Unsaved
        | FateName::RetainedFresh
        | FateName::RetainedInUse
        | FateName::RetainedLeased
        | FateName::RetainedNestedCheckout
        | FateName::RetainedClockSkew
        | FateName::SkippedLayout
        | FateName::Removable
        | FateName::BeyondLimit
        | FateName::NotReached
        | FateName::Vanished
        | FateName::Busy => path,
    }
}

fn details(out: &mut Out, directory: &DirectoryRecord) {
    item(out, "why", &directory.why);
    let instant = |at: Option<Timestamp>| at.map_or("not told".into(), text::instant);
    item(out, "times", &format!("last used {}, touched {}", instant(directory.last_used), instant(directory.touched)));
    item(out, "size", &format!("{}, {}", text::bytes(directory.bytes), text::count(directory.entries, text::ENTRY)));
    item(out, "evidence", &directory.evidence.to_string());
    if let Some(intent) = directory.intent {
        item(out, "intent", &format!("{intent} in the journal"));
    }
    proof::lines(directory.proof.as_deref()).iter().for_each(|(channel, found)| item(out, channel, found));
}

/// Directories of several sweeps, each with its sweep.
fn told(seen: &[Sighting], out: &mut Out, paint: Paint) {
    for Sighting { head, directory } in seen {
        let when = paint.heading(&text::instant(head.began));
        out.line(format_args!("{when}  {}  {}", directory.fate.as_str(), name(directory, paint)));
        item(out, "rule", rule(directory.fate));
        details(out, directory);
        item(out, "cutoff", &text::instant(head.cutoff));
        item(out, "sweep", &format!("{} of {}, {}", head.id, head.root, head.mode.name()));
        item(out, "plan", &head.plan.map_or("there was none".into(), |plan| plan.to_string()));
    }
}

fn item(out: &mut Out, label: &str, value: &str) {
    out.line(format_args!("    {}{}", text::pad(label, LABEL_COLUMNS), text::sentence(value)));
}
