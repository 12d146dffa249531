//! The plan for people: what would go, biggest first, what stays and why, and what limits the evidence.

use derelict_core::outcome::verdict_label;
use derelict_core::plan::{Acceptance, Judged, Removal};
use derelict_core::size::Completeness;
use derelict_core::verdict::{Orphan, Verdict};

use super::Detail;
use crate::findings::{AlarmAnswer, Findings, Skipped, Weight, Work};
use crate::out::{Out, Paint};
use crate::{quarantine, text, words};

/// Room for `1023.9 MiB` and a sign.
const SIZE_COLUMNS: usize = 12;

/// Names longer than this push their reason to the right instead of pushing everybody's.
const NAME_COLUMNS: usize = 56;

/// Prints the whole plan.
pub(crate) fn plan(out: &mut Out, paint: Paint, findings: &Findings, detail: Detail) {
    out.line(format_args!("{}: {}", paint.heading(&text::path(&findings.root)), summary(findings)));
    for unfinished in &findings.unfinished {
        out.line(paint.attention(&text::sentence(&format!("Note: {}", words::unfinished(unfinished)))));
    }
    removals(out, paint, findings);
    set_aside(out, paint, findings);
    stale_records(out, paint, findings);
    kept(out, paint, &findings.plan.kept().collect::<Vec<_>>());
    remarks(out, paint, findings, detail);
    alarms(out, paint, findings);
}

/// `54 directories: 24 clean, 17 referenced, 13 unsaved`.
fn summary(findings: &Findings) -> String {
    let plan = &findings.plan;
    let removable = plan.removals().iter().chain(plan.beyond_limit()).map(Removal::judged);
    let all: Vec<&Judged> = removable.chain(plan.kept()).collect();
    let mut labels: Vec<(&str, u64)> = Vec::new();
    for label in all.iter().map(|judged| verdict_label(&judged.verdict)) {
        match labels.iter_mut().find(|(known, _)| *known == label) {
            Some((_, count)) => *count += 1,
            None => labels.push((label, 1)),
        }
    }
    labels.sort_by_key(|(label, count)| (std::cmp::Reverse(*count), *label));
    let parts: Vec<_> = labels.iter().map(|(label, count)| format!("{} {label}", text::number(*count))).collect();
    let total = text::count(all.len() as u64, text::DIRECTORY);
    if parts.is_empty() { total } else { format!("{total}: {}", parts.join(", ")) }
}

fn removals(out: &mut Out, paint: Paint, findings: &Findings) {
    let plan = &findings.plan;
    out.blank();
    if plan.removals().is_empty() {
        match (findings.work(), plan.beyond_limit().is_empty()) {
            (Work::None, true) => out.line("Nothing to prune."),
            (Work::None | Work::Some, false) => out.line("Nothing to prune within the limits."),
            (Work::Some, true) => out.line("No directory may go."),
        }
    } else {
        let frees = plan.frees();
        let count = text::count(plan.removals().len() as u64, text::DIRECTORY);
        let freed = text::freed(&frees);
        let heading = match findings.grace {
            None => format!("Would remove {count}, which frees {freed}"),
            Some(_) => format!("Would set aside {count}; discarding them later frees {freed}"),
        };
        out.line(format_args!("{} ({})", paint.heading(&heading), text::count(frees.inodes, text::INODE)));
        if let Completeness::AtLeast { why } = &frees.completeness {
            out.line(paint.aside(&format!("  not everything could be read: {}", text::sentence(why))));
        }
        removal_rows(out, paint, plan.removals());
    }
    if !plan.beyond_limit().is_empty() {
        out.blank();
        let count = text::count(plan.beyond_limit().len() as u64, text::DIRECTORY);
        out.line(paint.heading(&format!("Beyond the limit: {count} that may go in a later run")));
        removal_rows(out, paint, plan.beyond_limit());
    }
}

fn removal_rows(out: &mut Out, paint: Paint, removals: &[Removal]) {
    let names = name_columns(removals.iter().map(Removal::judged));
    for removal in removals {
        let judged = removal.judged();
        let allowed = words::allowed(&judged.evidence);
        let why = match allowed.as_slice() {
            [] => words::reason_line(&judged.verdict),
            some => format!("{}; ignored by policy: {}", words::reason_line(&judged.verdict), words::listed(some)),
        };
        let why = match removal.acceptance() {
            None => paint.aside(&text::sentence(&why)),
            Some(Acceptance::Lost) => paint.goes(&text::sentence(&format!("forced, loses {why}"))),
            Some(Acceptance::Rescued) => paint.aside(&text::sentence(&format!("after rescue of {why}"))),
        };
        row(out, judged, names, &why);
    }
}

/// What was set aside earlier: what goes now, and what waits.
fn set_aside(out: &mut Out, paint: Paint, findings: &Findings) {
    if !findings.expired.is_empty() {
        out.blank();
        let count = text::count(findings.expired.len() as u64, text::DIRECTORY);
        out.line(paint.heading(&format!("Would discard {count} that were set aside and whose grace is over")));
        findings.expired.iter().for_each(|one| out.line(quarantine::row(one)));
    }
    if !findings.waiting.is_empty() {
        out.blank();
        let bytes = text::bytes(findings.waiting.iter().map(|one| one.bytes).sum());
        let count = text::count(findings.waiting.len() as u64, text::DIRECTORY);
        out.line(paint.aside(&format!("Set aside earlier, and waiting: {count} ({bytes}); see `derelict quarantine`")));
    }
}

fn stale_records(out: &mut Out, paint: Paint, findings: &Findings) {
    if findings.stale_records.is_empty() {
        return;
    }
    out.blank();
    let count = text::count(findings.stale_records.len() as u64, text::RECORD);
    out.line(paint.heading(&format!("Would drop {count} of directories that are gone")));
    for key in &findings.stale_records {
        out.line(format_args!("{}{}", " ".repeat(SIZE_COLUMNS + 2), text::name(key.as_bytes())));
    }
}

/// The kept directories by verdict, those first that a person can do something about.
fn kept(out: &mut Out, paint: Paint, kept: &[&Judged]) {
    if kept.is_empty() {
        return;
    }
    out.blank();
    out.line(paint.heading(&format!("Kept {}", text::count(kept.len() as u64, text::DIRECTORY))));
    let names = name_columns(kept.iter().copied());
    for (label, meaning) in GROUPS {
        let group: Vec<_> = kept.iter().copied().filter(|judged| verdict_label(&judged.verdict) == label).collect();
        if group.is_empty() {
            continue;
        }
        out.line(format_args!("  {} {label}: {meaning}", text::number(group.len() as u64)));
        for judged in group {
            let reason = text::sentence(&words::reason_line(&judged.verdict));
            let remedy = words::remedy(&judged.verdict).map(|remedy| text::sentence(&remedy));
            let remedy = remedy.map_or_else(String::new, |remedy| paint.aside(&format!(" — {remedy}")));
            row(out, judged, names, &format!("{}{remedy}", reason_colour(paint, &judged.verdict, &reason)));
        }
    }
}

/// The groups of kept directories in their order, with what they mean.
const GROUPS: [(&str, &str); 6] = [
    ("disputed", "the records contradict each other"),
    ("undetermined", "something could not be seen"),
    ("unsaved", "nobody owns them, and they hold the only copy of something"),
    ("held", "nobody owns them, and something holds them for now"),
    ("referenced", "a living owner opens them"),
    ("clean", "nothing would be lost"),
];

fn reason_colour(paint: Paint, verdict: &Verdict, reason: &str) -> String {
    match verdict {
        Verdict::Referenced(_) | Verdict::Orphaned(Orphan::Held(_) | Orphan::Clean) => paint.stays(reason),
        Verdict::Disputed(_) | Verdict::Undetermined(_) | Verdict::Orphaned(Orphan::Unsaved(_)) => {
            paint.attention(reason)
        }
    }
}

fn row(out: &mut Out, judged: &Judged, names: usize, why: &str) {
    let size = text::pad_left(&text::row_size(&judged.size.freed_alone()), SIZE_COLUMNS);
    let name = text::pad(&text::path(&judged.candidate.below_root), names);
    out.line(format_args!("{size}  {name}  {why}"));
}

fn name_columns<'a>(judged: impl Iterator<Item = &'a Judged>) -> usize {
    let widths = judged.map(|judged| text::columns(&text::path(&judged.candidate.below_root)));
    widths.max().map_or(0, |widest| widest.min(NAME_COLUMNS))
}

fn remarks(out: &mut Out, paint: Paint, findings: &Findings, detail: Detail) {
    let told = |skipped: &&Skipped| match (skipped.weight, detail) {
        (Weight::Blind | Weight::Plain, _) | (Weight::Harmless, Detail::Verbose) => true,
        (Weight::Harmless, Detail::Usual) => false,
    };
    let skipped: Vec<_> = findings.skipped.iter().filter(told).collect();
    if !skipped.is_empty() || !findings.disclosures.is_empty() {
        out.blank();
    }
    for skipped in skipped {
        out.line(paint.aside(&format!(
            "Not looked at: {}: {}",
            text::path(&skipped.path),
            text::sentence(&skipped.why)
        )));
    }
    for disclosure in &findings.disclosures {
        out.line(paint.aside(&format!("Note: {}", text::sentence(disclosure))));
    }
}

fn alarms(out: &mut Out, paint: Paint, findings: &Findings) {
    if !findings.alarms.is_empty() {
        out.blank();
    }
    for alarm in &findings.alarms {
        let name = alarm.breaker.name();
        let saw = words::breaker(&alarm.breaker);
        match alarm.answer {
            AlarmAnswer::Acknowledged => out.line(format_args!("Breaker {name} (acknowledged): {saw}")),
            AlarmAnswer::Open => out.line(paint.attention(&format!(
                "Breaker {name} tripped: {saw}. Nothing is removed; if that is right, pass --acknowledge {name}"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use derelict_core::outcome::Breaker;
    use derelict_core::policy::Force;

    use super::*;
    use crate::findings::Alarm;
    use crate::findings::samples::{CLEAN, findings, judged, referenced, unsaved};
    use crate::out::capture;

    fn shown(findings: &Findings, detail: Detail) -> String {
        capture(|out| plan(out, Paint::Plain, findings, detail))
    }

    #[test]
    fn the_plan_shows_what_goes_biggest_first_and_why_the_rest_stays() {
        let all = vec![
            judged(b"small", 1024, CLEAN),
            judged(b"big", 4096, CLEAN),
            judged(b"dirty", 2048, unsaved()),
            judged(b"live", 10, referenced()),
        ];
        let expected = "\
/c: 4 directories: 2 clean, 1 referenced, 1 unsaved

Would remove 2 directories, which frees up to 5.0 KiB (6 inodes)
     4.0 KiB  acme/api/big    nobody owns or uses it, and nothing in it is the only copy
     1.0 KiB  acme/api/small  nobody owns or uses it, and nothing in it is the only copy

Kept 2 directories
  1 unsaved: nobody owns them, and they hold the only copy of something
     2.0 KiB  acme/api/dirty  changed: pixi.lock — save that elsewhere, or let it go with --rescue or --force
  1 referenced: a living owner opens them
        10 B  acme/api/live   devpod: api-live opens it — stays until devpod no longer lists api-live
";
        assert_eq!(shown(&findings(all, Force::No), Detail::Usual), expected);
    }

    #[test]
    fn what_is_beyond_the_limit_is_shown_as_such() {
        let all = (1..=3).map(|n| judged(format!("c{n}").as_bytes(), n, CLEAN)).collect();
        let shown = shown(&findings(all, Force::No), Detail::Usual);
        assert!(shown.contains("Would remove 2 directories"), "{shown}");
        assert!(shown.contains("Beyond the limit: 1 directory that may go in a later run"), "{shown}");
    }

    #[test]
    fn a_forced_row_says_what_it_loses() {
        let shown = shown(&findings(vec![judged(b"dirty", 1, unsaved())], Force::UnsavedAsShown), Detail::Usual);
        assert!(shown.contains("acme/api/dirty  forced, loses changed: pixi.lock"), "{shown}");
    }

    #[test]
    fn a_name_cannot_write_to_the_terminal() {
        let shown = shown(&findings(vec![judged(b"a\nb\x1b[2J", 1, CLEAN)], Force::No), Detail::Usual);
        assert!(shown.contains(r"acme/api/a\nb\x1b[2J"), "{shown}");
        assert!(!shown.contains('\x1b'));
    }

    #[test]
    fn an_empty_plan_says_so_and_names_what_was_skipped_only_when_asked() {
        let mut found = findings(Vec::new(), Force::No);
        let (path, why) = ("/c/repos/a/b/link".into(), "a symbolic link".into());
        found.skipped.push(Skipped { path, why, weight: Weight::Harmless });
        found.disclosures.push("3 processes could not be inspected".into());
        let usual = "/c: 0 directories\n\nNothing to prune.\n\nNote: 3 processes could not be inspected\n";
        assert_eq!(shown(&found, Detail::Usual), usual);
        assert!(shown(&found, Detail::Verbose).contains("Not looked at: /c/repos/a/b/link: a symbolic link"));
    }

    #[test]
    fn a_tripped_breaker_says_what_it_saw_and_how_to_go_on() {
        let mut found = findings(vec![judged(b"a", 1, CLEAN)], Force::No);
        found.alarms.push(Alarm { breaker: Breaker::EmptySource { candidates: 41 }, answer: AlarmAnswer::Open });
        let shown = shown(&found, Detail::Usual);
        assert!(shown.contains("Breaker empty-source tripped: no living owner at all is listed"), "{shown}");
        assert!(shown.contains("--acknowledge empty-source"), "{shown}");
    }
}
