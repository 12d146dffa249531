//! `derelict quarantine`: what was set aside and waits out its grace. And the words about it that other commands need:
//! the span of a grace, a row, and how the grace of one directory ended.
//!
//! Nothing is put back here, see [`crate::restore`]; what becomes of it when its grace is over is decided in the core.

use std::time::Duration;

use derelict_core::outcome::Release;
use derelict_core::record::SetAside;
use derelict_core::size::{Completeness, Freed};
use derelict_reclaim::quarantine::{self, End, Expired};
use serde_json::{Value, json};

use crate::console::Console;
use crate::exit::{Exit, Failure};
use crate::host::Host;
use crate::{cli, json, text, words};

/// Room for `1023.9 MiB`.
const SIZE_COLUMNS: usize = 10;

/// Days in the longest grace: longer ones are wishes to keep, and there is a marker for those.
const MOST_DAYS: u64 = 3650;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Runs the command.
///
/// # Errors
/// A [`Failure`] when the journal cannot be found or read.
pub(crate) fn run(flags: &cli::Quarantine, host: &Host, console: &mut Console) -> Result<Exit, Failure> {
    let state = flags.state.state(host)?;
    let set_aside = quarantine::list(&state).map_err(Failure::stopped)?;
    if flags.json {
        console.out.line(json::quarantine(&set_aside, Exit::Done));
        return Ok(Exit::Done);
    }
    if set_aside.is_empty() {
        console.out.line("Nothing is set aside.");
        return Ok(Exit::Done);
    }
    let bytes = set_aside.iter().map(|one| one.bytes).sum();
    let count = text::count(set_aside.len() as u64, text::DIRECTORY);
    let heading = format!("{count} set aside ({})", text::bytes(bytes));
    console.out.line(console.paint.heading(&heading));
    for one in &set_aside {
        console.out.line(row(one));
    }
    console.out.line(console.paint.aside("`derelict restore NUMBER` puts one back under its name."));
    Ok(Exit::Done)
}

/// `    7     1.5 KiB  2026-08-01 10:11:12 UTC  until 2026-08-08 10:11:12 UTC  /c/repos/o/r/a`.
pub(crate) fn row(one: &SetAside) -> String {
    let number = text::pad_left(&one.intent.to_string(), 5);
    let size = text::pad_left(&text::bytes(one.bytes), SIZE_COLUMNS);
    let (since, until) = (text::instant(one.since), text::instant(one.grace.until));
    format!("{number}  {size}  {since}  until {until}  {}", text::path(&one.candidate.path))
}

/// One directory that was set aside, for programs.
pub(crate) fn value(one: &SetAside) -> Value {
    let frees = Freed { bytes: one.bytes, inodes: one.inodes, completeness: Completeness::Exact };
    json!({
        "number": one.intent.0,
        "path": json::path(&one.candidate.path),
        "since": text::instant(one.since),
        "until": text::instant(one.grace.until),
        "size": json::size(&frees),
    })
}

/// How one directory ended whose grace is over, as a sentence that names it.
pub(crate) fn ended(expired: &Expired) -> String {
    let path = text::path(&expired.set_aside.candidate.path);
    let trash = text::path(&expired.trash);
    match &expired.end {
        End::Removed { discarded, release } => {
            let entries = text::count(discarded.entries, text::ENTRY);
            let kept = match release {
                Release::Dropped(_) | Release::NothingRecorded => String::new(),
                Release::Failed(why) => format!("; its record stays: {why}"),
            };
            format!("{path}: its grace was over, and it is gone now ({entries}){kept}")
        }
        End::Refused { discarded, refusals } => {
            let entries = text::count(discarded.entries, text::ENTRY);
            let why = refusals.iter().map(|refusal| format!("{}: {}", text::path(&refusal.path), refusal.why));
            let why = why.collect::<Vec<_>>().join("; ");
            format!("{path}: its grace was over, and it is partly removed ({entries}); the rest would not go: {why}")
        }
        End::PutBack(verdict) => {
            format!("{path}: put back when its grace was over: {}", words::reason_line(verdict))
        }
        End::Occupied(verdict) => {
            let why = words::reason_line(verdict);
            format!("{path}: its name is taken; what was set aside stays whole at {trash}: {why}")
        }
        End::Unseen(verdict) => format!("{path}: stays set aside at {trash}: {}", words::reason_line(verdict)),
        End::Left(why) => format!("{path}: stays set aside at {trash}: {why}"),
    }
}

/// The exit code that the end of a grace asks for.
pub(crate) fn exit_of(end: &End) -> Exit {
    match end {
        End::Removed { release: Release::Dropped(_) | Release::NothingRecorded, .. }
        | End::PutBack(_)
        | End::Occupied(_) => Exit::Done,
        End::Removed { release: Release::Failed(_), .. } | End::Refused { .. } | End::Unseen(_) | End::Left(_) => {
            Exit::Incomplete
        }
    }
}

/// A span from the command line: a whole number, then `m`, `h`, `d` or `w`; days have 24 hours.
///
/// # Errors
/// A sentence saying what is wrong with it.
pub(crate) fn parse_span(given: &str) -> Result<Duration, String> {
    let split = given.find(|c: char| !c.is_ascii_digit()).unwrap_or(given.len());
    let (digits, unit) = given.split_at(split);
    let shown = text::sentence(given);
    let number: u64 = digits.parse().map_err(|_| format!("`{shown}` does not start with a whole number"))?;
    let seconds = match unit {
        "m" => 60,
        "h" => 60 * 60,
        "d" => 24 * 60 * 60,
        "w" => 7 * 24 * 60 * 60,
        _ => return Err(format!("`{shown}` does not end in m, h, d or w")),
    };
    let longest = DAY * MOST_DAYS as u32;
    let span = number.checked_mul(seconds).map(Duration::from_secs).filter(|span| *span <= longest);
    match span {
        Some(Duration::ZERO) => Err(format!("`{shown}` is no grace")),
        Some(span) => Ok(span),
        None => Err(format!("`{shown}` is more than {MOST_DAYS} days")),
    }
}

#[cfg(test)]
mod tests {
    use derelict_core::ids::{IntentId, NonEmpty, Timestamp};
    use derelict_core::outcome::{Discarded, Refusal};
    use derelict_core::recheck::Grace;

    use super::*;
    use crate::findings::samples::{CLEAN, judged, referenced};

    fn one() -> SetAside {
        SetAside {
            intent: IntentId(7),
            candidate: judged(b"a\x1b", 1, CLEAN).candidate,
            since: Timestamp::new(0, 0),
            grace: Grace { until: Timestamp::new(7 * 86_400, 0), accepted_losses: None },
            bytes: 1536,
            inodes: 3,
        }
    }

    fn expired(end: End) -> Expired {
        Expired { set_aside: one(), trash: "/c/trash".into(), end }
    }

    #[test]
    fn a_row_says_what_how_much_and_until_when() {
        let expected = "    7     1.5 KiB  1970-01-01 00:00:00 UTC  until 1970-01-08 00:00:00 UTC  \
                        /c/repos/acme/api/a\\x1b";
        assert_eq!(row(&one()), expected);
        let expected = json!({
            "number": 7, "path": "/c/repos/acme/api/a\u{1b}",
            "since": "1970-01-01 00:00:00 UTC", "until": "1970-01-08 00:00:00 UTC",
            "size": { "bytes": 1536, "inodes": 3, "completeness": "exact" },
        });
        assert_eq!(value(&one()), expected);
    }

    #[test]
    fn what_stays_because_nobody_could_tell_asks_for_a_person() {
        let discarded = Discarded { entries: 2, bytes: 0 };
        let refusals = NonEmpty::of(Refusal { path: "/c/x".into(), why: "immutable".into() });
        for (end, exit, ending) in [
            (End::Removed { discarded, release: Release::NothingRecorded }, Exit::Done, "gone now (2 entries)"),
            (End::Removed { discarded, release: Release::Failed("y".into()) }, Exit::Incomplete, "its record stays: y"),
            (End::Refused { discarded, refusals }, Exit::Incomplete, "the rest would not go: /c/x: immutable"),
            (End::PutBack(referenced()), Exit::Done, "devpod: api-live opens it"),
            (End::Occupied(referenced()), Exit::Done, "devpod: api-live opens it"),
            (End::Unseen(CLEAN), Exit::Incomplete, "the only copy"),
            (End::Left("busy".into()), Exit::Incomplete, "stays set aside at /c/trash: busy"),
        ] {
            assert_eq!(exit_of(&end), exit, "{end:?}");
            let told = ended(&expired(end));
            assert!(told.starts_with("/c/repos/acme/api/a\\x1b: ") && told.ends_with(ending), "{told}");
        }
    }

    #[test]
    fn a_span_has_a_unit_and_an_end() {
        let hours = |hours: u64| Ok(Duration::from_secs(hours * 3600));
        assert_eq!(parse_span("90m"), Ok(Duration::from_secs(5400)));
        assert_eq!([parse_span("12h"), parse_span("7d"), parse_span("2w")], [hours(12), hours(168), hours(336)]);
        assert_eq!(parse_span("3650d"), hours(3650 * 24));
        for bad in ["", "7", "d", "-1d", "7 d", "7D", "1.5d", "0d", "3651d", "99999999999999999999d"] {
            assert!(parse_span(bad).is_err(), "{bad}");
        }
    }
}
