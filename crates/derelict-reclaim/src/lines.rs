//! The lines of the journal: how each is written, and how it is read back. Where they are kept, and
//! when, is `journal`'s.
//!
//! One JSON object a line, each with its version `v` and its `kind`:
//!
//! | kind | says |
//! |---|---|
//! | `journal` | the first line: the name of this journal in trash names |
//! | `sweep` | when the sweep that follows began |
//! | `intent` | what is about to be removed and why, before anything is done |
//! | `settled` | how it ended; gone or put back finishes the intent, nothing else does |
//! | `closed` | what recovery did about an intent that was not finished |
//!
//! A path is a string when it is UTF-8, else `{"hex": "…"}`.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use derelict_core::evidence::Candidate;
use derelict_core::ids::{FileIdentity, IntentId, Timestamp, WorkspaceName};
use derelict_core::outcome::{Discarded, Fate, Outcome, Refusal, Release};
use derelict_core::record::Intent;
use serde_json::{Value, json};

use crate::fence::{JournalId, Stage, TrashName};

/// The version this program writes, and the only one it reads.
pub(crate) const VERSION: u64 = 1;

/// What a line says, as far as recovery needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    Journal(JournalId),
    Sweep,
    Intent(IntentId, Box<Candidate>),
    /// The intent is finished.
    Finished(IntentId),
    /// The intent has an outcome, and something of it is still to be done or to be looked up.
    Unfinished(IntentId),
}

/// Why a line is not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotALine {
    Corrupt(String),
    Newer(u64),
}

pub(crate) fn journal_line(id: &JournalId) -> Value {
    json!({"v": VERSION, "kind": "journal", "id": id.to_string()})
}

pub(crate) fn sweep_line(began: Timestamp) -> Value {
    json!({"v": VERSION, "kind": "sweep", "began": time(began)})
}

pub(crate) fn intent_line(id: IntentId, intent: &Intent, journal: &JournalId) -> Value {
    let trash = TrashName { journal: journal.clone(), intent: id, stage: Stage::Fenced };
    let Candidate { name: _, path, below_root, identity } = &intent.candidate;
    json!({
        "v": VERSION,
        "kind": "intent",
        "intent": id.0,
        "path": path_value(path),
        "below_root": path_value(below_root),
        "dev": identity.dev,
        "ino": identity.ino,
        "birth": identity.birth.map(time),
        "plan": intent.plan.to_string(),
        "evidence": intent.evidence.to_string(),
        "accepted_losses": intent.accepted_losses.map(|losses| losses.to_string()),
        "trash": trash.to_string(),
    })
}

pub(crate) fn settled_line(id: IntentId, outcome: &Outcome) -> Value {
    let mut line = json!({
        "v": VERSION,
        "kind": "settled",
        "intent": id.0,
        "outcome": Fate::Settled(outcome.clone()).name().as_str(),
        "finished": is_finished(outcome),
    });
    match outcome {
        Outcome::Removed { discarded, release } => {
            add_discarded(&mut line, *discarded);
            add_release(&mut line, release);
        }
        Outcome::Refused { refusals, discarded } => {
            add_discarded(&mut line, *discarded);
            line["refusals"] = refusals.iter().map(refusal_value).collect();
        }
        Outcome::Busy { lock } => line["lock"] = json!(lock),
        Outcome::Interrupted { why } => line["why"] = json!(why),
        Outcome::Quarantined | Outcome::Vanished | Outcome::Resurrected(_) | Outcome::Changed(_) => {}
    }
    line
}

/// The line recovery writes when nothing of an intent is left to do.
pub(crate) fn closed_line(id: IntentId, how: &str, discarded: Option<Discarded>, release: Option<&Release>) -> Value {
    let mut line = json!({"v": VERSION, "kind": "closed", "intent": id.0, "how": how});
    if let Some(discarded) = discarded {
        add_discarded(&mut line, discarded);
    }
    if let Some(release) = release {
        add_release(&mut line, release);
    }
    line
}

/// Only what is entirely gone, or back under its name, is finished; everything else is looked up at
/// the next start.
pub(crate) fn is_finished(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Removed { .. } | Outcome::Vanished | Outcome::Resurrected(_) | Outcome::Changed(_) => true,
        Outcome::Quarantined | Outcome::Refused { .. } | Outcome::Busy { .. } | Outcome::Interrupted { .. } => false,
    }
}

pub(crate) fn parse(text: &[u8]) -> Result<Line, NotALine> {
    let line: Value = serde_json::from_slice(text).map_err(|error| NotALine::Corrupt(error.to_string()))?;
    match number(&line, "v")? {
        VERSION => {}
        version if version > VERSION => return Err(NotALine::Newer(version)),
        version => return Err(NotALine::Corrupt(format!("there is no version {version}"))),
    }
    match text_of(&line, "kind")? {
        "journal" => JournalId::parse(text_of(&line, "id")?)
            .map(Line::Journal)
            .ok_or_else(|| corrupt("`id` is no name of a journal")),
        "sweep" => Ok(Line::Sweep),
        "intent" => Ok(Line::Intent(IntentId(number(&line, "intent")?), Box::new(candidate(&line)?))),
        "settled" => {
            let id = IntentId(number(&line, "intent")?);
            let finished =
                line.get("finished").and_then(Value::as_bool).ok_or_else(|| corrupt("`finished` is missing"))?;
            Ok(if finished { Line::Finished(id) } else { Line::Unfinished(id) })
        }
        "closed" => Ok(Line::Finished(IntentId(number(&line, "intent")?))),
        kind => Err(NotALine::Corrupt(format!("there is no kind `{kind}`"))),
    }
}

fn candidate(line: &Value) -> Result<Candidate, NotALine> {
    let below_root = path_of(line, "below_root")?;
    let name = below_root.file_name().and_then(|name| WorkspaceName::new(name.as_bytes()).ok());
    let birth = match line.get("birth") {
        Some(Value::Null) => None,
        Some(birth) => Some(time_of(birth).ok_or_else(|| corrupt("`birth` is no time"))?),
        None => return Err(corrupt("`birth` is missing")),
    };
    Ok(Candidate {
        name: name.ok_or_else(|| corrupt("`below_root` ends in no name"))?,
        path: path_of(line, "path")?,
        below_root,
        identity: FileIdentity { dev: number(line, "dev")?, ino: number(line, "ino")?, birth },
    })
}

fn corrupt(why: &str) -> NotALine {
    NotALine::Corrupt(why.to_owned())
}

fn number(line: &Value, key: &str) -> Result<u64, NotALine> {
    line.get(key).and_then(Value::as_u64).ok_or_else(|| NotALine::Corrupt(format!("`{key}` is no number")))
}

fn text_of<'l>(line: &'l Value, key: &str) -> Result<&'l str, NotALine> {
    line.get(key).and_then(Value::as_str).ok_or_else(|| NotALine::Corrupt(format!("`{key}` is no text")))
}

fn time(at: Timestamp) -> Value {
    json!([at.seconds(), at.subsecond_nanoseconds()])
}

fn time_of(value: &Value) -> Option<Timestamp> {
    let [seconds, nanoseconds] = value.as_array()?.as_slice() else { return None };
    Some(Timestamp::new(seconds.as_i64()?, nanoseconds.as_u64()?.try_into().ok()?))
}

fn path_value(path: &Path) -> Value {
    match path.to_str() {
        Some(text) => json!(text),
        None => {
            let mut hex = String::new();
            for byte in path.as_os_str().as_bytes() {
                write!(hex, "{byte:02x}").expect("because writing to a string cannot fail");
            }
            json!({ "hex": hex })
        }
    }
}

fn path_of(line: &Value, key: &str) -> Result<PathBuf, NotALine> {
    let bytes = match line.get(key) {
        Some(Value::String(text)) => Some(text.clone().into_bytes()),
        Some(Value::Object(coded)) => coded.get("hex").and_then(Value::as_str).and_then(unhex),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_)) | None => None,
    };
    let bytes = bytes.ok_or_else(|| NotALine::Corrupt(format!("`{key}` is no path")))?;
    Ok(PathBuf::from(OsString::from_vec(bytes)))
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pair = |pair: &[u8]| match pair {
        [high, low] => u8::try_from(digit(*high)? * 16 + digit(*low)?).ok(),
        _ => None,
    };
    text.as_bytes().chunks(2).map(pair).collect()
}

fn add_discarded(line: &mut Value, discarded: Discarded) {
    line["entries"] = json!(discarded.entries);
    line["bytes"] = json!(discarded.bytes);
}

fn add_release(line: &mut Value, release: &Release) {
    match release {
        Release::Dropped(records) => line["records_dropped"] = json!(records.as_slice()),
        Release::NothingRecorded => {}
        Release::Failed(why) => line["record_kept"] = json!(why),
    }
}

fn refusal_value(refusal: &Refusal) -> Value {
    json!({"path": path_value(&refusal.path), "why": refusal.why})
}

#[cfg(test)]
mod tests {
    use derelict_core::ids::Digest;

    use derelict_core::verdict::{Orphan, Verdict};

    use super::*;

    fn intent(below_root: &[u8], birth: Option<Timestamp>) -> Intent {
        let below_root = PathBuf::from(OsString::from_vec(below_root.to_vec()));
        let name = WorkspaceName::new(below_root.file_name().unwrap().as_bytes()).unwrap();
        let path = Path::new("/cache/repos").join(&below_root);
        let identity = FileIdentity { dev: u64::MAX, ino: 7, birth };
        let digest = Digest::of_bytes(b"x");
        let candidate = Candidate { name, path, below_root, identity };
        Intent { candidate, plan: digest, evidence: digest, accepted_losses: None }
    }

    #[test]
    fn an_intent_comes_back_as_it_was_whatever_bytes_its_name_has() {
        let journal = JournalId::parse("0123456789abcdef").unwrap();
        for name in [&b"o/r/plain"[..], b"o/r/\xff\xfe\n", b"o/r/\"\\\x7f", "o/r/é".as_bytes()] {
            for birth in [None, Some(Timestamp::new(-3, 999_999_999)), Some(Timestamp::new(i64::MAX, 0))] {
                let intent = intent(name, birth);
                let text = intent_line(IntentId(5), &intent, &journal).to_string();
                assert!(!text.contains('\n'));
                assert_eq!(parse(text.as_bytes()), Ok(Line::Intent(IntentId(5), Box::new(intent.candidate))));
            }
        }
    }

    #[test]
    fn only_what_is_gone_or_put_back_is_finished() {
        let nothing = Discarded { entries: 0, bytes: 0 };
        let gone = Outcome::Removed { discarded: nothing, release: Release::Failed("disk full".into()) };
        let text = settled_line(IntentId(1), &gone).to_string();
        assert_eq!(parse(text.as_bytes()), Ok(Line::Finished(IntentId(1))));
        let back = Outcome::Changed(Verdict::Orphaned(Orphan::Clean));
        assert_eq!(parse(settled_line(IntentId(1), &back).to_string().as_bytes()), Ok(Line::Finished(IntentId(1))));
        let refusal = Refusal { path: "/x".into(), why: "stuck".into() };
        let stuck = Outcome::Refused { refusals: derelict_core::ids::NonEmpty::of(refusal), discarded: nothing };
        let text = settled_line(IntentId(1), &stuck).to_string();
        assert_eq!(parse(text.as_bytes()), Ok(Line::Unfinished(IntentId(1))));
    }

    #[test]
    fn a_line_that_is_not_understood_says_why() {
        let why = |text: &str| parse(text.as_bytes()).unwrap_err();
        assert_eq!(why(r#"{"v":2,"kind":"journal"}"#), NotALine::Newer(2));
        assert_eq!(why(r#"{"v":0}"#), corrupt("there is no version 0"));
        assert_eq!(why(r#"{"kind":"journal"}"#), corrupt("`v` is no number"));
        assert_eq!(why(r#"{"v":1,"kind":"other"}"#), corrupt("there is no kind `other`"));
        assert_eq!(why(r#"{"v":1,"kind":"closed"}"#), corrupt("`intent` is no number"));
        assert_eq!(why(r#"{"v":1,"kind":"journal","id":"x"}"#), corrupt("`id` is no name of a journal"));
        assert_eq!(why("{"), corrupt("EOF while parsing an object at line 1 column 1"));
    }
}
