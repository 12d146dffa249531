//! What the log says: one event per decision that an operator would ask about, each with the id of its sweep. What is
//! said of a decision is in its record, nothing is decided here, and how it is written is in
//! [`crate::telemetry::logger`].

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use derelict_core::ids::Timestamp;
use derelict_core::outcome::FateName;
use tracing::{debug, error, info, warn};

use crate::reaper::record::{DirectoryRecord, Mode, SweepRecord};
use crate::telemetry::logger::OURS;
use crate::telemetry::series::lasted;
use crate::text;

/// Which sweep an event belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sweep<'s> {
    /// Its id, which is in the record, too.
    pub(crate) id: &'s str,
    /// The root's name.
    pub(crate) root: &'s str,
    /// Whether anything can go.
    pub(crate) mode: Mode,
    /// The instant before which an owner must have been active last for its directory to go.
    pub(crate) cutoff: Timestamp,
}

impl<'s> From<&'s SweepRecord> for Sweep<'s> {
    fn from(sweep: &'s SweepRecord) -> Self {
        Self { id: &sweep.id, root: &sweep.root, mode: sweep.mode, cutoff: sweep.cutoff }
    }
}

/// The endpoints are up.
pub(crate) fn listening(address: SocketAddr) {
    info!(target: OURS, address = %address, "listening");
}

/// A sweep begins.
pub(crate) fn sweep_began(sweep: Sweep<'_>, path: &Path) {
    info!(
        target: OURS,
        sweep = sweep.id,
        root = %text::sentence(sweep.root),
        mode = sweep.mode.name(),
        path = %text::path(path),
        cutoff = %when(sweep.cutoff),
        "sweep began"
    );
}

/// Something that an operator should know before any root is swept.
pub(crate) fn trouble(what: &str) {
    warn!(target: OURS, "{}", text::sentence(what));
}

/// Something about a root that an operator should know and that is no fate of a directory.
pub(crate) fn remark(root: &str, what: &str) {
    info!(target: OURS, root = %text::sentence(root), "{}", text::sentence(what));
}

/// The program ends although a sweep has not.
pub(crate) fn ends_anyway(bound: Duration) {
    let bound_seconds = bound.as_secs_f64();
    error!(target: OURS, bound_seconds, "ends without the sweep in hand, which hangs: the next start settles it");
}

/// A sweep was due while the last one was still running.
pub(crate) fn skipped_tick(root: &str, running: Duration) {
    let running_seconds = running.as_secs_f64();
    warn!(target: OURS, root = %text::sentence(root), running_seconds, "skipped a sweep: the last one still runs");
}

/// Where one directory ended. What stays as a matter of routine is said to who debugs only.
pub(crate) fn directory(sweep: Sweep<'_>, directory: &DirectoryRecord) {
    let (weight, message) = headline(directory.fate);
    let why = text::sentence(&directory.why);
    // The record says it in its sentence; here it is a field of its own, to be searched for.
    let layout = (directory.fate == FateName::SkippedLayout).then_some(why.as_str());
    macro_rules! say {
        ($level:ident) => {
            $level!(
                target: OURS,
                sweep = sweep.id,
                root = %text::sentence(sweep.root),
                mode = sweep.mode.name(),
                path = %text::path(&directory.path),
                outcome = directory.fate.as_str(),
                why,
                layout,
                last_used = directory.last_used.map(when),
                touched = directory.touched.map(when),
                cutoff = %when(sweep.cutoff),
                entries = directory.entries,
                bytes = directory.bytes,
                intent = directory.intent,
                evidence = %directory.evidence,
                "{message}"
            )
        };
    }
    match weight {
        Weight::Routine => say!(debug),
        Weight::Told => say!(info),
        Weight::LookAt => say!(warn),
    }
}

/// How much an operator wants to know of a directory.
enum Weight {
    /// It stays for one of the usual reasons.
    Routine,
    /// Something was done, or was not although it could have been.
    Told,
    /// Somebody should look at it.
    LookAt,
}

fn headline(fate: FateName) -> (Weight, &'static str) {
    match fate {
        FateName::Referenced => (Weight::Routine, "kept: an owner claims it"),
        FateName::RetainedFresh => (Weight::Routine, "kept: it is fresh"),
        FateName::RetainedInUse => (Weight::Routine, "kept: it is in use"),
        FateName::RetainedLeased => (Weight::Routine, "kept: its source holds it"),
        FateName::BeyondLimit => (Weight::Routine, "left for later: a limit was reached"),
        FateName::NotReached => (Weight::Routine, "left for later: the sweep ended before its turn"),
        FateName::Removed => (Weight::Told, "removed"),
        FateName::Quarantined => (Weight::Told, "quarantined"),
        FateName::Removable => (Weight::Told, "would be removed"),
        FateName::Vanished => (Weight::Told, "gone before the sweep came to it"),
        FateName::Busy => (Weight::Told, "kept: its creator holds its lock"),
        FateName::Unsaved => (Weight::Told, "kept: it holds the only copy of something"),
        FateName::RetainedNestedCheckout => (Weight::Told, "kept: a checkout lies inside"),
        FateName::SkippedLayout => (Weight::Told, "skipped: its layout is not the expected one"),
        FateName::RetainedChanged => (Weight::Told, "kept: it is not what the plan showed any more"),
        FateName::RetainedResurrected => (Weight::LookAt, "near miss: it became live between plan and removal"),
        FateName::RetainedClockSkew => (Weight::LookAt, "kept: its times lie in the future"),
        FateName::Disputed => (Weight::LookAt, "kept: the sources contradict each other"),
        FateName::Undetermined => (Weight::LookAt, "kept: something could not be seen"),
        FateName::Refused => (Weight::LookAt, "not entirely removed: something would not go"),
        FateName::Interrupted => (Weight::LookAt, "interrupted: the next start settles it"),
    }
}

/// A sweep has ended, and how.
pub(crate) fn sweep_ended(sweep: &SweepRecord) {
    macro_rules! say {
        ($level:ident) => {
            $level!(
                target: OURS,
                sweep = sweep.id,
                root = %text::sentence(&sweep.root),
                mode = sweep.mode.name(),
                stop_reason = sweep.stop.name,
                which = sweep.stop.which.as_deref().map(text::sentence),
                why = sweep.stop.why.as_deref().map(text::sentence),
                duration_seconds = lasted(sweep).as_secs_f64(),
                directories = sweep.directories.len(),
                outcomes = %outcomes(&sweep.directories),
                backlog_directories = sweep.backlog.directories,
                backlog_bytes = sweep.backlog.bytes,
                removed_entries = sweep.discarded.entries,
                removed_bytes = sweep.discarded.bytes,
                measured_bytes = sweep.measured_bytes,
                "sweep ended"
            )
        };
    }
    match sweep.stop.name.as_str() {
        "finished" | "limit" | "cancelled" => say!(info),
        "deadline" => say!(warn),
        _ => say!(error),
    }
}

/// `removed=12 skipped_layout=1`, without those that nobody bears.
fn outcomes(directories: &[DirectoryRecord]) -> String {
    let mut counts: BTreeMap<FateName, u64> = BTreeMap::new();
    for directory in directories {
        *counts.entry(directory.fate).or_insert(0) += 1;
    }
    let each: Vec<String> = counts.iter().map(|(fate, count)| format!("{}={count}", fate.as_str())).collect();
    each.join(" ")
}

/// An instant for programs, as exact as it is known: `2026-12-01T02:46:07.5Z`.
fn when(at: Timestamp) -> String {
    let nanoseconds = i32::try_from(at.subsecond_nanoseconds()).expect("because a second has 10^9 of them");
    jiff::Timestamp::new(at.seconds(), nanoseconds).map_or_else(|_| text::instant(at), |at| at.to_string())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::PathBuf;

    use serde_json::Value;

    use super::*;
    use crate::telemetry::logger::tests::{capture, json};
    use crate::telemetry::logger::{Format, Threshold};
    use crate::telemetry::samples;

    fn said_of(fate: FateName, from: Threshold) -> Vec<Value> {
        let record = samples::sweep("agents", Mode::Armed, "finished", &[fate]);
        json(from, || directory(Sweep::from(&record), &record.directories[0]))
    }

    #[test]
    fn a_directory_is_told_with_its_sweep_its_outcome_and_its_evidence() {
        let told = said_of(FateName::Removed, Threshold::Info);
        let [event] = told.as_slice() else { panic!("{told:?}") };
        let evidence = derelict_core::ids::Digest::of_bytes(b"evidence").to_string();
        for (field, expected) in [
            ("level", Value::from("INFO")),
            ("message", "removed".into()),
            ("sweep", "20261201T024607Z-1a2b3c4d".into()),
            ("root", "agents".into()),
            ("mode", "armed".into()),
            ("path", "/srv/workspaces/w".into()),
            ("outcome", "removed".into()),
            ("why", "rows: w was last used 2026-10-01 00:00:00 UTC".into()),
            ("entries", 100.into()),
            ("bytes", (1 << 20).into()),
            ("intent", 7.into()),
            ("evidence", evidence.into()),
            ("layout", Value::Null),
        ] {
            assert_eq!(event[field], expected, "{field} of {event}");
        }
    }

    #[test]
    fn a_near_miss_is_a_warning_with_both_times_and_the_cutoff() {
        let told = said_of(FateName::RetainedResurrected, Threshold::Warn);
        let [event] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!(event["level"], "WARN");
        assert_eq!(event["message"], "near miss: it became live between plan and removal");
        assert_eq!(event["last_used"], "2026-10-01T00:00:00Z");
        assert_eq!(event["touched"], "2026-09-30T00:00:00Z");
        assert_eq!(event["cutoff"], "2026-11-01T02:46:07Z");
    }

    #[test]
    fn a_skipped_directory_is_told_with_its_layout() {
        let told = said_of(FateName::SkippedLayout, Threshold::Info);
        let [event] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!(event["layout"], event["why"]);
        assert_eq!(event["layout"], "rows: w was last used 2026-10-01 00:00:00 UTC");
    }

    #[test]
    fn every_outcome_is_told_once_and_routine_only_to_who_debugs() {
        let routine = [
            FateName::Referenced,
            FateName::RetainedFresh,
            FateName::RetainedInUse,
            FateName::RetainedLeased,
            FateName::BeyondLimit,
            FateName::NotReached,
        ];
        for fate in FateName::ALL {
            assert_eq!(said_of(fate, Threshold::Debug).len(), 1, "{fate:?}");
            assert_eq!(said_of(fate, Threshold::Info).len(), usize::from(!routine.contains(&fate)), "{fate:?}");
        }
    }

    #[test]
    fn a_sweep_is_told_from_beginning_to_end() {
        let mut record = samples::sweep("agents", Mode::Armed, "breaker", &[FateName::Removed, FateName::Removed]);
        record.stop.which = Some("source-shrank".into());
        record.stop.why = Some("the source lists 3 owners\nand listed 700".into());
        let told = json(Threshold::Info, || {
            sweep_began(Sweep::from(&record), &record.path);
            sweep_ended(&record);
        });
        let [began, ended] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!((&began["message"], &began["path"]), (&"sweep began".into(), &"/srv/workspaces".into()));
        for (field, expected) in [
            ("level", Value::from("ERROR")),
            ("message", "sweep ended".into()),
            ("sweep", "20261201T024607Z-1a2b3c4d".into()),
            ("stop_reason", "breaker".into()),
            ("which", "source-shrank".into()),
            ("why", "the source lists 3 owners\\nand listed 700".into()),
            ("duration_seconds", 90.5.into()),
            ("directories", 2.into()),
            ("outcomes", "removed=2".into()),
            ("removed_bytes", 4096.into()),
            ("measured_bytes", 4096.into()),
        ] {
            assert_eq!(ended[field], expected, "{field} of {ended}");
        }
    }

    #[test]
    fn a_sweep_that_did_what_it_may_is_no_error() {
        let level = |stop: &str| {
            let record = samples::sweep("agents", Mode::Armed, stop, &[]);
            json(Threshold::Info, || sweep_ended(&record))[0]["level"].as_str().unwrap().to_owned()
        };
        let levels = derelict_core::outcome::StopReason::NAMES.map(|stop| (stop, level(stop)));
        let quiet: Vec<&str> = levels.iter().filter(|(_, level)| level == "INFO").map(|(stop, _)| *stop).collect();
        assert_eq!(quiet, ["finished", "limit", "cancelled"]);
        let warned: Vec<&str> = levels.iter().filter(|(_, level)| level == "WARN").map(|(stop, _)| *stop).collect();
        assert_eq!(warned, ["deadline"]);
    }

    #[test]
    fn a_name_cannot_write_a_line_of_the_log() {
        let mut record = samples::sweep("agents", Mode::Armed, "finished", &[FateName::Removed]);
        record.directories[0].path = PathBuf::from(OsStr::from_bytes(b"/srv/a\n\x1b[31mERROR \xff"));
        let told = capture(Format::Human, Threshold::Info, || {
            directory(Sweep::from(&record), &record.directories[0]);
        });
        let [line] = told.as_slice() else { panic!("{told:?}") };
        assert!(line.contains(r"path=/srv/a\n\x1b[31mERROR \xff "), "{line}");
        assert!(line.contains(" INFO removed "), "{line}");
    }

    #[test]
    fn skipped_ticks_and_the_address_are_told() {
        let told = json(Threshold::Info, || {
            skipped_tick("agents", Duration::from_secs(90));
            listening(SocketAddr::from(([127, 0, 0, 1], 9000)));
        });
        assert_eq!((&told[0]["root"], &told[0]["running_seconds"]), (&"agents".into(), &90.0.into()));
        assert_eq!((&told[1]["message"], &told[1]["address"]), (&"listening".into(), &"127.0.0.1:9000".into()));
    }
}
