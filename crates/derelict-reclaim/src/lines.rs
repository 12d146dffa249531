//! The lines of the journal: how each is written, and how it is read back. Where they are kept, and
//! when, is `journal`'s.
//!
//! One JSON object a line, each with its version `v` and its `kind`:
//!
//! | kind | says |
//! |---|---|
//! | `journal` | the first line: the name of this journal in trash names |
//! | `sweep` | when the sweep that follows began, or that the record of the one before was kept |
//! | `intent` | what is about to be removed and why, before anything is done |
//! | `settled` | how it ended; gone or put back finishes the intent, and `quarantined` sets it aside |
//! | `closed` | what was done later about an intent that was not finished |
//! | `late` | an intent that a trash name had to carry, and how it ended, once there was room to write |
//!
//! A path is a string when it is UTF-8, else `{"hex": "…"}`.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use derelict_core::evidence::{Answer, Candidate, Observed, Proof};
use derelict_core::ids::{Digest, FileIdentity, IntentId, Timestamp, WorkspaceName};
use derelict_core::outcome::{Discarded, Fate, FateName, Outcome, Refusal, Release};
use derelict_core::recheck::Grace;
use derelict_core::record::{Disposal, Intent, SetAside};
use serde_json::{Value, json};

use crate::fence::{JournalId, Stage, TrashName};

/// The version this program writes. The second one sets directories aside, which the first would have
/// taken for interrupted and put back.
pub(crate) const VERSION: u64 = 2;

/// The oldest version it reads.
const OLDEST: u64 = 1;

/// What a line says, as far as recovery needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    Journal(JournalId),
    /// Something to read for people only.
    Remark,
    Intent(IntentId, Box<IntentLine>),
    /// The intent is finished; what was unlinked, if its directory is gone.
    Finished(IntentId, Option<Discarded>),
    /// Everything so far is in the record of sweeps.
    Recorded,
    /// The intent has an outcome, and something of it is still to be done or to be looked up.
    Unfinished(IntentId),
    /// Its directory was set aside.
    SetAside(IntentId),
}

/// What an intent says, as far as it is needed later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IntentLine {
    pub(crate) candidate: Candidate,
    /// What it becomes if it is set aside.
    pub(crate) set_aside: Option<SetAside>,
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

/// Says, at the end of a sweep, that its record was kept. A program that does not know it takes it for a remark.
pub(crate) fn recorded_line() -> Value {
    json!({"v": VERSION, "kind": "sweep", "recorded": true})
}

pub(crate) fn intent_line(id: IntentId, intent: &Intent, journal: &JournalId) -> Value {
    let trash = TrashName { journal: journal.clone(), intent: id, stage: Stage::Fenced };
    let mut line = intent_value("intent", intent);
    line["intent"] = json!(id.0);
    line["trash"] = json!(trash.to_string());
    line["proof"] = proof_value(&intent.proof);
    line
}

/// `[channel, what was examined, answer, fingerprint]` for each; losses are the answer where there are some.
fn proof_value(proof: &Observed<Proof>) -> Value {
    let Observed::Known(proof) = proof else { return Value::Null };
    let channel = proof.channels.iter().map(|report| {
        let answer = match &report.answer {
            Answer::Nothing => json!("nothing"),
            Answer::Losses(losses) => losses.iter().map(|loss| json!(loss.what)).collect(),
            Answer::Unknown(_) => json!("unknown"),
        };
        json!([report.channel.0, report.examined, answer, report.fingerprint.to_string()])
    });
    channel.collect()
}

/// An intent that stood in a trash name, and how it ended. No line before this one knows of it.
pub(crate) fn late_line(intent: &Intent, outcome: &Outcome) -> Value {
    let mut line = intent_value("late", intent);
    add_outcome(&mut line, outcome);
    line
}

/// A trash name that carried an intent, and what was done about it at a later start.
pub(crate) fn late_recovery_line(candidate: &Candidate, how: &str, discarded: Option<Discarded>) -> Value {
    let mut line = json!({"v": VERSION, "kind": "late", "how": how});
    add_candidate(&mut line, candidate);
    if let Some(discarded) = discarded {
        add_discarded(&mut line, discarded);
    }
    line
}

/// What becomes of an intent that is set aside.
pub(crate) fn promised(id: IntentId, intent: &Intent) -> Option<SetAside> {
    match intent.disposal {
        Disposal::Discard => None,
        Disposal::Quarantine { until } => Some(SetAside {
            intent: id,
            candidate: intent.candidate.clone(),
            since: intent.at,
            grace: Grace { until, accepted_losses: intent.accepted_losses },
            bytes: intent.frees.bytes,
            inodes: intent.frees.inodes,
        }),
    }
}

fn intent_value(kind: &str, intent: &Intent) -> Value {
    let mut line = json!({"v": VERSION, "kind": kind, "at": time(intent.at)});
    add_candidate(&mut line, &intent.candidate);
    line["plan"] = json!(intent.plan.to_string());
    line["evidence"] = json!(intent.evidence.to_string());
    line["accepted_losses"] = json!(intent.accepted_losses.map(|losses| losses.to_string()));
    line["until"] = match intent.disposal {
        Disposal::Discard => Value::Null,
        Disposal::Quarantine { until } => time(until),
    };
    line["frees"] = json!({"bytes": intent.frees.bytes, "inodes": intent.frees.inodes});
    line
}

fn add_candidate(line: &mut Value, candidate: &Candidate) {
    let Candidate { name: _, path, below_root, identity } = candidate;
    line["path"] = path_value(path);
    line["below_root"] = path_value(below_root);
    line["dev"] = json!(identity.dev);
    line["ino"] = json!(identity.ino);
    line["birth"] = json!(identity.birth.map(time));
}

pub(crate) fn settled_line(id: IntentId, outcome: &Outcome) -> Value {
    let mut line = json!({"v": VERSION, "kind": "settled", "intent": id.0});
    add_outcome(&mut line, outcome);
    line
}

fn add_outcome(line: &mut Value, outcome: &Outcome) {
    line["outcome"] = json!(Fate::Settled(outcome.clone()).name().as_str());
    line["finished"] = json!(is_finished(outcome));
    match outcome {
        Outcome::Removed { discarded, release, rescued } => {
            add_discarded(line, *discarded);
            add_release(line, release);
            if let Some(entry) = rescued {
                line["rescued"] = path_value(&entry.path);
            }
        }
        Outcome::Refused { refusals, discarded } => {
            add_discarded(line, *discarded);
            line["refusals"] = refusals.iter().map(refusal_value).collect();
        }
        Outcome::Busy { lock } => line["lock"] = json!(lock),
        Outcome::Interrupted { why } => line["why"] = json!(why),
        Outcome::Quarantined | Outcome::Vanished | Outcome::Resurrected(_) | Outcome::Changed(_) => {}
    }
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
        OLDEST..=VERSION => {}
        version if version > VERSION => return Err(NotALine::Newer(version)),
        version => return Err(NotALine::Corrupt(format!("there is no version {version}"))),
    }
    match text_of(&line, "kind")? {
        "journal" => JournalId::parse(text_of(&line, "id")?)
            .map(Line::Journal)
            .ok_or_else(|| corrupt("`id` is no name of a journal")),
        "sweep" if line.get("recorded") == Some(&Value::Bool(true)) => Ok(Line::Recorded),
        "sweep" | "late" => Ok(Line::Remark),
        "intent" => {
            let id = IntentId(number(&line, "intent")?);
            let candidate = candidate(&line)?;
            let set_aside = set_aside(&line, id, &candidate)?;
            Ok(Line::Intent(id, Box::new(IntentLine { candidate, set_aside })))
        }
        "settled" => {
            let id = IntentId(number(&line, "intent")?);
            let finished =
                line.get("finished").and_then(Value::as_bool).ok_or_else(|| corrupt("`finished` is missing"))?;
            let outcome = text_of(&line, "outcome")?;
            let set_aside = outcome == FateName::Quarantined.as_str();
            let gone = (outcome == FateName::Removed.as_str()).then(|| discarded(&line));
            Ok(match (finished, set_aside) {
                (true, _) => Line::Finished(id, gone),
                (false, true) => Line::SetAside(id),
                (false, false) => Line::Unfinished(id),
            })
        }
        "closed" => {
            let id = IntentId(number(&line, "intent")?);
            let gone = matches!(text_of(&line, "how")?, "finished" | "gone").then(|| discarded(&line));
            Ok(Line::Finished(id, gone))
        }
        kind => Err(NotALine::Corrupt(format!("there is no kind `{kind}`"))),
    }
}

/// Until when an intent lets its directory stay, if it does; the first version knew of no grace.
fn set_aside(line: &Value, intent: IntentId, candidate: &Candidate) -> Result<Option<SetAside>, NotALine> {
    let until = match line.get("until") {
        None | Some(Value::Null) => return Ok(None),
        Some(until) => time_of(until).ok_or_else(|| corrupt("`until` is no time"))?,
    };
    let since = line.get("at").and_then(time_of).ok_or_else(|| corrupt("`at` is no time"))?;
    let accepted_losses = match line.get("accepted_losses") {
        None | Some(Value::Null) => None,
        Some(losses) => {
            Some(losses.as_str().and_then(Digest::parse).ok_or_else(|| corrupt("`accepted_losses` is no digest"))?)
        }
    };
    let frees = line.get("frees").ok_or_else(|| corrupt("`frees` is missing"))?;
    let grace = Grace { until, accepted_losses };
    let (bytes, inodes) = (number(frees, "bytes")?, number(frees, "inodes")?);
    Ok(Some(SetAside { intent, candidate: candidate.clone(), since, grace, bytes, inodes }))
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

/// What was unlinked, as far as a line says it.
fn discarded(line: &Value) -> Discarded {
    let said = |key| line.get(key).and_then(Value::as_u64).unwrap_or(0);
    Discarded { entries: said("entries"), bytes: said("bytes") }
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

pub(crate) fn time(at: Timestamp) -> Value {
    json!([at.seconds(), at.subsecond_nanoseconds()])
}

pub(crate) fn time_of(value: &Value) -> Option<Timestamp> {
    let [seconds, nanoseconds] = value.as_array()?.as_slice() else { return None };
    Some(Timestamp::new(seconds.as_i64()?, nanoseconds.as_u64()?.try_into().ok()?))
}

pub(crate) fn path_value(path: &Path) -> Value {
    match path.to_str() {
        Some(text) => json!(text),
        None => json!({ "hex": hex(path.as_os_str().as_bytes()) }),
    }
}

pub(crate) fn path_of(line: &Value, key: &str) -> Result<PathBuf, NotALine> {
    let bytes = match line.get(key) {
        Some(Value::String(text)) => Some(text.clone().into_bytes()),
        Some(Value::Object(coded)) => coded.get("hex").and_then(Value::as_str).and_then(unhex),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_)) | None => None,
    };
    let bytes = bytes.ok_or_else(|| NotALine::Corrupt(format!("`{key}` is no path")))?;
    Ok(PathBuf::from(OsString::from_vec(bytes)))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut hex = String::new();
    for byte in bytes {
        write!(hex, "{byte:02x}").expect("because writing to a string cannot fail");
    }
    hex
}

pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
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
    use derelict_core::size::freed_together;
    use derelict_core::verdict::{Orphan, Verdict};

    use super::*;

    fn intent(below_root: &[u8], birth: Option<Timestamp>) -> Intent {
        let below_root = PathBuf::from(OsString::from_vec(below_root.to_vec()));
        let name = WorkspaceName::new(below_root.file_name().unwrap().as_bytes()).unwrap();
        let path = Path::new("/cache/repos").join(&below_root);
        let identity = FileIdentity { dev: u64::MAX, ino: 7, birth };
        let digest = Digest::of_bytes(b"x");
        let candidate = Candidate { name, path, below_root, identity };
        let (at, frees) = (Timestamp::new(9, 9), freed_together([]));
        let disposal = Disposal::Discard;
        let proof = Observed::Known(Proof::of(Vec::new()));
        Intent { candidate, plan: digest, evidence: digest, proof, accepted_losses: None, at, disposal, frees }
    }

    fn read_back(intent: &Intent) -> IntentLine {
        let journal = JournalId::parse("0123456789abcdef").unwrap();
        let text = intent_line(IntentId(5), intent, &journal).to_string();
        assert!(!text.contains('\n'));
        match parse(text.as_bytes()) {
            Ok(Line::Intent(IntentId(5), line)) => *line,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_intent_comes_back_as_it_was_whatever_bytes_its_name_has() {
        for name in [&b"o/r/plain"[..], b"o/r/\xff\xfe\n", b"o/r/\"\\\x7f", "o/r/é".as_bytes()] {
            for birth in [None, Some(Timestamp::new(-3, 999_999_999)), Some(Timestamp::new(i64::MAX, 0))] {
                let intent = intent(name, birth);
                let expected = IntentLine { candidate: intent.candidate.clone(), set_aside: None };
                assert_eq!(read_back(&intent), expected);
            }
        }
    }

    #[test]
    fn an_intent_to_set_aside_comes_back_with_its_grace() {
        let mut intent = intent(b"o/r/a", None);
        intent.disposal = Disposal::Quarantine { until: Timestamp::new(i64::MAX, 1) };
        for accepted_losses in [None, Some(Digest::of_bytes(b"y"))] {
            intent.accepted_losses = accepted_losses;
            let promised = promised(IntentId(5), &intent);
            assert_eq!(promised.as_ref().map(|set_aside| set_aside.since), Some(Timestamp::new(9, 9)));
            assert_eq!(read_back(&intent).set_aside, promised);
        }
    }

    #[test]
    fn what_the_first_version_wrote_is_still_read() {
        let text = br#"{"v":1,"kind":"intent","intent":3,"path":"/c/o/r/a","below_root":"o/r/a","dev":1,"ino":2,"birth":null}"#;
        assert!(matches!(parse(text), Ok(Line::Intent(IntentId(3), line)) if line.set_aside.is_none()));
        let text = br#"{"v":1,"kind":"settled","intent":3,"outcome":"refused","finished":false}"#;
        assert_eq!(parse(text), Ok(Line::Unfinished(IntentId(3))));
    }

    #[test]
    fn only_what_is_gone_or_put_back_is_finished() {
        let nothing = Discarded { entries: 0, bytes: 0 };
        let gone = Outcome::Removed { discarded: nothing, release: Release::Failed("disk full".into()), rescued: None };
        let text = settled_line(IntentId(1), &gone).to_string();
        assert_eq!(parse(text.as_bytes()), Ok(Line::Finished(IntentId(1), Some(nothing))));
        let back = Outcome::Changed(Verdict::Orphaned(Orphan::Clean));
        assert_eq!(
            parse(settled_line(IntentId(1), &back).to_string().as_bytes()),
            Ok(Line::Finished(IntentId(1), None))
        );
        let refusal = Refusal { path: "/x".into(), why: "stuck".into() };
        let stuck = Outcome::Refused { refusals: derelict_core::ids::NonEmpty::of(refusal), discarded: nothing };
        let text = settled_line(IntentId(1), &stuck).to_string();
        assert_eq!(parse(text.as_bytes()), Ok(Line::Unfinished(IntentId(1))));
        let text = settled_line(IntentId(1), &Outcome::Quarantined).to_string();
        assert_eq!(parse(text.as_bytes()), Ok(Line::SetAside(IntentId(1))));
    }

    #[test]
    fn a_record_that_was_kept_is_told_and_older_programs_take_it_for_a_remark() {
        assert_eq!(parse(recorded_line().to_string().as_bytes()), Ok(Line::Recorded));
        assert_eq!(recorded_line()["kind"], "sweep");
        assert_eq!(parse(sweep_line(Timestamp::new(1, 0)).to_string().as_bytes()), Ok(Line::Remark));
        let closed =
            |how| parse(format!(r#"{{"v":2,"kind":"closed","intent":1,"how":"{how}","entries":2}}"#).as_bytes());
        let gone = Some(Discarded { entries: 2, bytes: 0 });
        assert_eq!(
            (closed("finished"), closed("gone")),
            (Ok(Line::Finished(IntentId(1), gone)), Ok(Line::Finished(IntentId(1), gone)))
        );
        assert_eq!(closed("put back"), Ok(Line::Finished(IntentId(1), None)));
    }

    #[test]
    fn a_line_that_is_not_understood_says_why() {
        let why = |text: &str| parse(text.as_bytes()).unwrap_err();
        assert_eq!(why(r#"{"v":3,"kind":"journal"}"#), NotALine::Newer(3));
        assert_eq!(why(r#"{"v":0}"#), corrupt("there is no version 0"));
        assert_eq!(why(r#"{"kind":"journal"}"#), corrupt("`v` is no number"));
        assert_eq!(why(r#"{"v":1,"kind":"other"}"#), corrupt("there is no kind `other`"));
        assert_eq!(why(r#"{"v":1,"kind":"closed"}"#), corrupt("`intent` is no number"));
        assert_eq!(why(r#"{"v":1,"kind":"journal","id":"x"}"#), corrupt("`id` is no name of a journal"));
        assert_eq!(why("{"), corrupt("EOF while parsing an object at line 1 column 1"));
    }
}
