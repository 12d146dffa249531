//! The machine-readable twins of the reports, one object each, under one versioned schema.
//!
//! A path is a string when it is UTF-8 and `{"hex": "…"}` when it is not, so no byte is lost. Nothing is decided here.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use derelict_core::outcome::{Fate, Outcome, verdict_label};
use derelict_core::plan::{Acceptance, Judged, Removal};
use derelict_core::record::SetAside;
use derelict_core::rescue::RescueEntry;
use derelict_core::size::{Completeness, Freed};
use serde_json::{Value, json};

use crate::aftermath::Aftermath;
use crate::exit::Exit;
use crate::findings::{AlarmAnswer, Findings};
use crate::{proof, quarantine, words};

/// The version of every object printed here. It rises when a field changes its meaning or goes.
pub(crate) const SCHEMA_VERSION: u32 = 1;

/// The report of `prune`: the plan, and what came of it if anything was done.
pub(crate) fn prune(findings: &Findings, after: Option<&Aftermath>, exit: Exit) -> Value {
    json!({
        "schema_version": SCHEMA_VERSION,
        "command": "prune",
        "root": path(&findings.root),
        "plan": plan(findings),
        "skipped": findings.skipped.iter().map(|skipped| json!({
            "path": path(&skipped.path),
            "why": skipped.why,
        })).collect::<Vec<_>>(),
        "disclosures": disclosures(findings, after),
        "breakers": breakers(findings),
        "result": after.map(result),
        "exit_code": exit.code(),
    })
}

/// An error of any command.
pub(crate) fn error(command: &str, message: &str, exit: Exit) -> Value {
    json!({ "schema_version": SCHEMA_VERSION, "command": command, "error": message, "exit_code": exit.code() })
}

/// The report of `explain`; `evidence` is built by [`crate::explain`], which knows what it looked at.
pub(crate) fn explain(judged: &Judged, evidence: &Value, exit: Exit) -> Value {
    json!({
        "schema_version": SCHEMA_VERSION,
        "command": "explain",
        "path": path(&judged.candidate.path),
        "verdict": verdict_label(&judged.verdict),
        "rule": words::rule(&judged.verdict),
        "reasons": words::reasons(&judged.verdict),
        "remedy": words::remedy(&judged.verdict),
        "size": size(&judged.size.freed_alone()),
        "evidence": evidence,
        "exit_code": exit.code(),
    })
}

/// The list of `quarantine`.
pub(crate) fn quarantine(set_aside: &[SetAside], exit: Exit) -> Value {
    json!({
        "schema_version": SCHEMA_VERSION,
        "command": "quarantine",
        "set_aside": set_aside.iter().map(quarantine::value).collect::<Vec<_>>(),
        "exit_code": exit.code(),
    })
}

/// What was rescued.
pub(crate) fn rescued_entries(entries: &[Value], exit: Exit) -> Value {
    json!({ "schema_version": SCHEMA_VERSION, "command": "rescued", "rescued": entries, "exit_code": exit.code() })
}

/// A path without loss.
pub(crate) fn path(path: &Path) -> Value {
    bytes(path.as_os_str().as_encoded_bytes())
}

/// A path as [`path`] wrote it; `None` for anything else.
pub(crate) fn parse_path(value: &Value) -> Option<PathBuf> {
    if let Some(text) = value.as_str() {
        return Some(PathBuf::from(text));
    }
    let digits = value.get("hex")?.as_str()?.as_bytes().chunks(2);
    let bytes = digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    Some(PathBuf::from(OsString::from_vec(bytes.collect::<Option<Vec<u8>>>()?)))
}

/// Bytes that are text as a rule.
fn bytes(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => Value::from(text),
        Err(_) => {
            let hex = bytes.iter().fold(String::new(), |mut hex, byte| {
                write!(hex, "{byte:02x}").expect("because writing to a string cannot fail");
                hex
            });
            json!({ "hex": hex })
        }
    }
}

/// What is freed.
pub(crate) fn size(freed: &Freed) -> Value {
    let completeness = match &freed.completeness {
        Completeness::Exact => "exact",
        Completeness::AtLeast { .. } => "at_least",
    };
    json!({ "bytes": freed.bytes, "inodes": freed.inodes, "completeness": completeness })
}

fn plan(findings: &Findings) -> Value {
    let plan = &findings.plan;
    json!({
        "digest": plan.digest().to_string(),
        "removals": plan.removals().iter().map(removal).collect::<Vec<_>>(),
        "beyond_limit": plan.beyond_limit().iter().map(removal).collect::<Vec<_>>(),
        "kept": plan.kept().map(|judged| row(judged, Promotion::None)).collect::<Vec<_>>(),
        "frees": size(&plan.frees()),
        "stale_records": findings.stale_records,
        "grace_seconds": findings.grace.map(|grace| grace.as_secs()),
        "expired": findings.expired.iter().map(quarantine::value).collect::<Vec<_>>(),
        "waiting": findings.waiting.iter().map(quarantine::value).collect::<Vec<_>>(),
    })
}

/// What put a row with unsaved work among the removals.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Promotion {
    Forced,
    Rescued,
    None,
}

fn removal(removal: &Removal) -> Value {
    let promotion = match removal.acceptance() {
        Some(Acceptance::Lost) => Promotion::Forced,
        Some(Acceptance::Rescued) => Promotion::Rescued,
        None => Promotion::None,
    };
    row(removal.judged(), promotion)
}

fn row(judged: &Judged, promotion: Promotion) -> Value {
    json!({
        "path": path(&judged.candidate.path),
        "name": bytes(judged.candidate.name.as_bytes()),
        "verdict": verdict_label(&judged.verdict),
        "reasons": words::reasons(&judged.verdict),
        "remedy": words::remedy(&judged.verdict),
        "forced": promotion == Promotion::Forced,
        "rescued_first": promotion == Promotion::Rescued,
        "allowed": words::allowed(&judged.evidence),
        "proof": proof::of(&judged.evidence),
        "size": size(&judged.size.freed_alone()),
    })
}

/// Everything that a person is told beside the plan and the fates.
fn disclosures(findings: &Findings, after: Option<&Aftermath>) -> Vec<String> {
    let unfinished = findings.unfinished.iter().map(words::unfinished);
    let recovered = after.iter().flat_map(|after| after.recovered.iter().map(|recovered| recovered.text.clone()));
    let troubles = after.iter().flat_map(|after| after.troubles());
    let stop = after.and_then(|after| words::stop(&after.report.stop));
    findings.disclosures.iter().cloned().chain(unfinished).chain(recovered).chain(troubles).chain(stop).collect()
}

fn breakers(findings: &Findings) -> Value {
    let alarms = findings.alarms.iter().map(|alarm| {
        json!({
            "name": alarm.breaker.name(),
            "text": words::breaker(&alarm.breaker),
            "acknowledged": match alarm.answer {
                AlarmAnswer::Acknowledged => true,
                AlarmAnswer::Open => false,
            },
        })
    });
    alarms.collect()
}

fn result(after: &Aftermath) -> Value {
    let report = &after.report;
    // What was kept is in the plan already, with its reasons.
    let settled = report.settled.iter().filter(|settled| match &settled.fate {
        Fate::Settled(_) | Fate::NotReached | Fate::Removable | Fate::BeyondLimit => true,
        Fate::Kept(_) => false,
    });
    let discarded = report.discarded();
    json!({
        "stop": report.stop.name(),
        "tally": report.tally().iter().map(|(label, count)| (label.as_str().to_owned(), Value::from(count)))
            .collect::<serde_json::Map<_, _>>(),
        "settled": settled.map(|settled| json!({
            "path": path(&settled.candidate.path),
            "fate": settled.fate.name().as_str(),
            "text": words::fate(&settled.fate),
            "rescued": rescued(&settled.fate).map(|entry| path(&entry.path)),
        })).collect::<Vec<_>>(),
        "expired": after.expired.iter().map(|expired| json!({
            "path": path(&expired.set_aside.candidate.path),
            "trash": path(&expired.trash),
            "text": quarantine::ended(expired),
        })).collect::<Vec<_>>(),
        "discarded": { "entries": discarded.entries, "bytes": discarded.bytes },
        "measured_bytes": after.measured,
        "records_dropped": after.records_dropped(),
    })
}

/// Where what a directory alone held was rescued to.
fn rescued(fate: &Fate) -> Option<&RescueEntry> {
    match fate {
        Fate::Settled(Outcome::Removed { rescued, .. }) => rescued.as_ref(),
        Fate::Settled(_) | Fate::Kept(_) | Fate::Removable | Fate::BeyondLimit | Fate::NotReached => None,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use derelict_core::outcome::StopReason;
    use derelict_core::policy::Force;

    use super::*;
    use crate::aftermath::samples::aftermath;
    use crate::findings::samples::{CLEAN, findings, judged, unsaved};

    #[test]
    fn a_path_that_is_not_text_keeps_its_bytes() {
        assert_eq!(path(Path::new("/a/ü")), json!("/a/ü"));
        assert_eq!(path(Path::new(std::ffi::OsStr::from_bytes(b"/a\xff"))), json!({ "hex": "2f61ff" }));
    }

    #[test]
    fn the_plan_has_a_row_for_every_directory() {
        let found = findings(vec![judged(b"a", 10, CLEAN), judged(b"b\xff", 20, unsaved())], Force::No);
        let value = prune(&found, None, Exit::Incomplete);
        let removal = json!({
            "path": "/c/repos/acme/api/a", "name": "a", "verdict": "clean", "forced": false,
                "rescued_first": false, "allowed": [],
                "proof": [], "remedy": null,
            "reasons": ["nobody owns or uses it, and nothing in it is the only copy"],
            "size": { "bytes": 10, "inodes": 3, "completeness": "exact" },
        });
        assert_eq!(value["plan"]["removals"], json!([removal]));
        assert_eq!(value["plan"]["kept"][0]["name"], json!({ "hex": "62ff" }));
        assert_eq!(value["plan"]["kept"][0]["reasons"], json!(["changed: pixi.lock"]));
        assert_eq!((&value["result"], &value["exit_code"]), (&Value::Null, &json!(1)));
    }

    #[test]
    fn the_result_tallies_every_directory_and_names_those_that_were_to_go() {
        let fates = vec![Fate::Settled(Outcome::Vanished), Fate::NotReached, Fate::BeyondLimit];
        let after = aftermath(fates, StopReason::Cancelled);
        let value = prune(&findings(Vec::new(), Force::No), Some(&after), Exit::Incomplete);
        assert_eq!(value["result"]["stop"], "cancelled");
        assert_eq!(value["result"]["tally"], json!({ "beyond_limit": 1, "not_reached": 1, "vanished": 1 }));
        let settled = value["result"]["settled"].as_array().map(Vec::len);
        assert_eq!(settled, Some(3));
    }
}
