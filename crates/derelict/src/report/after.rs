//! The end of a sweep for people: every directory that is not simply gone, and the totals.

use derelict_core::outcome::{Fate, FateName, Outcome, Release};

use crate::aftermath::{Aftermath, Recovery};
use crate::exit::Exit;
use crate::out::{Out, Paint};
use crate::{quarantine, text, words};

/// Prints what an act came to.
pub(crate) fn aftermath(out: &mut Out, paint: Paint, after: &Aftermath) {
    out.blank();
    for recovered in &after.recovered {
        let line = text::sentence(&recovered.text);
        match recovered.settled {
            Recovery::PutBack | Recovery::Settled => out.line(line),
            Recovery::Left => out.line(paint.attention(&line)),
        }
    }
    for expired in &after.expired {
        let line = text::sentence(&quarantine::ended(expired));
        match quarantine::exit_of(&expired.end) {
            Exit::Done => out.line(line),
            Exit::Incomplete | Exit::Usage | Exit::Stopped => out.line(paint.attention(&line)),
        }
    }
    for settled in &after.report.settled {
        if worth_a_line(&settled.fate) {
            let path = text::path(&settled.candidate.path);
            out.line(paint.attention(&format!("{path}: {}", text::sentence(&words::fate(&settled.fate)))));
        }
    }
    for trouble in after.troubles() {
        out.line(paint.attention(&capitalised(&text::sentence(&trouble))));
    }
    totals(out, paint, after);
    if let Some(stop) = words::stop(&after.report.stop) {
        out.line(paint.attention(&capitalised(&text::sentence(&stop))));
    }
}

/// A removal that went well, and what the plan has shown already, need no line of their own.
fn worth_a_line(fate: &Fate) -> bool {
    match fate {
        Fate::Kept(_) | Fate::Removable | Fate::BeyondLimit => false,
        Fate::NotReached => true,
        Fate::Settled(outcome) => match outcome {
            Outcome::Removed { rescued: Some(_), .. } => true,
            Outcome::Removed { release, rescued: None, .. } => match release {
                Release::Dropped(_) | Release::NothingRecorded => false,
                Release::Failed(_) => true,
            },
            Outcome::Quarantined => false,
            Outcome::Vanished
            | Outcome::Resurrected(_)
            | Outcome::Changed(_)
            | Outcome::Refused { .. }
            | Outcome::Busy { .. }
            | Outcome::Interrupted { .. } => true,
        },
    }
}

fn totals(out: &mut Out, paint: Paint, after: &Aftermath) {
    let removed = after.report.tally().of(FateName::Removed);
    let discarded = after.report.discarded();
    let heading = format!("Removed {}", text::count(removed, text::DIRECTORY));
    let what = format!("{}, {}", text::count(discarded.entries, text::ENTRY), text::bytes(discarded.bytes));
    let measured = match after.measured {
        Some(change) if change < 0 => format!("free space shrank by {}", text::bytes(change.unsigned_abs())),
        Some(change) => format!("free space grew by {}", text::bytes(change.unsigned_abs())),
        None => "the change of free space could not be measured".into(),
    };
    let estimate = text::freed(&after.estimate);
    out.line(format_args!("{}: {what}; {measured}, the plan said {estimate}.", paint.heading(&heading)));
    let set_aside = after.report.tally().of(FateName::Quarantined);
    if set_aside > 0 {
        out.line(format_args!(
            "{}: `derelict quarantine` lists what was, `derelict restore` puts it back.",
            paint.heading(&format!("Set aside {}", text::count(set_aside, text::DIRECTORY)))
        ));
    }
    let dropped = after.records_dropped().len() as u64;
    if dropped > 0 {
        out.line(format_args!("Dropped {}.", text::count(dropped, text::RECORD)));
    }
}

fn capitalised(sentence: &str) -> String {
    let mut chars = sentence.chars();
    let first = chars.next().map_or_else(String::new, |first| first.to_uppercase().collect());
    format!("{first}{}.", chars.as_str())
}

#[cfg(test)]
mod tests {
    use derelict_core::ids::NonEmpty;
    use derelict_core::outcome::{Discarded, Refusal, StopReason};

    use super::*;
    use crate::aftermath::samples;
    use crate::out::capture;

    fn removed(entries: u64) -> Fate {
        let release = Release::Dropped(NonEmpty::of(format!("acme/api/{entries}")));
        Fate::Settled(Outcome::Removed {
            discarded: Discarded { entries, bytes: entries * 1024 },
            release,
            rescued: None,
        })
    }

    fn shown(fates: Vec<Fate>, stop: StopReason) -> String {
        let after = samples::aftermath(fates, stop);
        capture(|out| aftermath(out, Paint::Plain, &after))
    }

    #[test]
    fn a_smooth_sweep_is_two_lines() {
        let expected = "
Removed 2 directories: 5 entries, 5.0 KiB; free space grew by 2.0 KiB, the plan said up to 4.0 KiB.
Dropped 2 records.
";
        assert_eq!(shown(vec![removed(2), removed(3)], StopReason::Finished), expected);
    }

    #[test]
    fn every_other_ending_has_its_line_and_its_reason() {
        let refusals = NonEmpty::of(Refusal { path: "/c/repos/acme/api/c0/x".into(), why: "immutable".into() });
        let refused = Outcome::Refused { refusals, discarded: Discarded { entries: 7, bytes: 0 } };
        let shown = shown(vec![Fate::Settled(refused), Fate::NotReached], StopReason::Cancelled);
        let expected = "
/c/repos/acme/api/c0: partly removed (7 entries); the rest would not go: /c/repos/acme/api/c0/x: immutable
/c/repos/acme/api/c1: not reached: the sweep ended before its turn
Removed 0 directories: 7 entries, 0 B; free space grew by 2.0 KiB, the plan said up to 4.0 KiB.
Stopped on request; what was in hand was finished.
";
        assert_eq!(shown, expected);
    }
}
