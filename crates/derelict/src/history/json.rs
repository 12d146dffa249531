//! History as programs read it: one object, printed line by line, for a sweep can have very many directories.
//!
//! Every answer has the same form: the sweeps it is about, the directories it is about, each with the id of its sweep,
//! and what could not be read.

use derelict_core::ids::Timestamp;
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::history::{Answer, Asked, Older, rule, sightings};
use crate::json::{SCHEMA_VERSION, path};
use crate::ledger::Head;
use crate::out::Out;
use crate::reaper::record::DirectoryRecord;
use crate::{proof, text};

/// Prints the answer.
pub(super) fn print(mut answer: Answer<'_>, out: &mut Out) -> Exit {
    let mut older = Older::None;
    out.line(format_args!("{{\"schema_version\":{SCHEMA_VERSION},\"command\":\"history\",\"sweeps\":["));
    match answer.asked.clone() {
        Asked::Sweeps => {
            let (heads, more) = answer.sweeps();
            older = more;
            list(out, heads.iter().map(head));
            out.line("],\"directories\":[");
        }
        Asked::Sweep(id) => {
            let told = answer.reading.sweep(&id);
            list(out, told.iter().map(head));
            out.line("],\"directories\":[");
            let mut separator = "";
            answer.reading.directories(&id, answer.filter.fates, &mut |one| {
                out.line(format_args!("{separator}{}", directory(&id, &one)));
                separator = ",";
            });
        }
        Asked::Paths(_) | Asked::Anywhere => {
            let seen = sightings(&mut answer);
            let mut heads: Vec<&Head> = seen.iter().map(|sighting| &sighting.head).collect();
            heads.dedup_by_key(|head| &head.id);
            list(out, heads.into_iter().map(head));
            out.line("],\"directories\":[");
            list(out, seen.iter().map(|sighting| directory(&sighting.head.id, &sighting.directory)));
        }
    }
    let exit = answer.exit();
    let older = match older {
        Older::NotShown => true,
        Older::None => false,
    };
    let notes = json!(answer.reading.troubles());
    out.line(format_args!("],\"older_not_shown\":{older},\"notes\":{notes},\"exit_code\":{}}}", exit.code()));
    exit
}

fn list(out: &mut Out, values: impl Iterator<Item = Value>) {
    let mut separator = "";
    for value in values {
        out.line(format_args!("{separator}{value}"));
        separator = ",";
    }
}

fn head(head: &Head) -> Value {
    let counts = head.counts.iter().map(|(fate, count)| (fate.as_str().to_owned(), Value::from(*count)));
    json!({
        "id": head.id,
        "root": head.root,
        "path": path(&head.path),
        "mode": head.mode.name(),
        "began": text::instant(head.began),
        "ended": text::instant(head.ended),
        "cutoff": text::instant(head.cutoff),
        "plan": head.plan.map(|plan| plan.to_string()),
        "stop": { "name": head.stop.name, "which": head.stop.which, "why": head.stop.why },
        "backlog": {
            "directories": head.backlog.directories,
            "entries": head.backlog.entries,
            "bytes": head.backlog.bytes,
        },
        "discarded": { "entries": head.discarded.entries, "bytes": head.discarded.bytes },
        "measured_bytes": head.measured_bytes,
        "tally": Value::Object(counts.collect()),
    })
}

fn directory(sweep: &str, directory: &DirectoryRecord) -> Value {
    let instant = |at: Option<Timestamp>| at.map(text::instant);
    json!({
        "sweep": sweep,
        "path": path(&directory.path),
        "fate": directory.fate.as_str(),
        "rule": rule(directory.fate),
        "why": directory.why,
        "evidence": directory.evidence.to_string(),
        "last_used": instant(directory.last_used),
        "touched": instant(directory.touched),
        "entries": directory.entries,
        "bytes": directory.bytes,
        "intent": directory.intent,
        "proof": proof::parsed(directory.proof.as_deref()),
    })
}
