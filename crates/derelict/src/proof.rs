//! The unsaved-work proof for programs: one entry for each channel, with what was examined, what came out, and a
//! fingerprint by which two looks are compared. How people are told is in [`crate::explain`].

use derelict_core::evidence::{Answer, Evidence, Observed, Proof};
use derelict_core::ids::Digest;
use serde_json::{Value, json};

/// As many digits of a fingerprint as people can compare.
const DIGITS: usize = 12;

/// Every channel of a proof.
pub(crate) fn channels(proof: &Proof) -> Value {
    let channel = proof.channels.iter().map(|report| {
        let (answer, items) = answer(&report.answer);
        json!({
            "channel": report.channel.0,
            "examined": report.examined,
            "answer": answer,
            "items": items,
            "fingerprint": report.fingerprint.to_string(),
        })
    });
    channel.collect()
}

/// The proof that is part of what was seen; `null` when nothing could be told.
pub(crate) fn of(evidence: &Evidence) -> Value {
    match &evidence.proof {
        Observed::Known(proof) => channels(proof),
        Observed::Unknown(_) => Value::Null,
    }
}

/// The proof about a checkout, as text. What the operator declared to be expendable needs none.
pub(crate) fn of_checkout(evidence: &Evidence) -> Option<String> {
    match &evidence.proof {
        Observed::Known(proof) if proof.channels.len() > 1 => Some(channels(proof).to_string()),
        Observed::Known(_) | Observed::Unknown(_) => None,
    }
}

/// A proof that was kept as text; `null` where none was, and the text itself where it is no JSON.
pub(crate) fn parsed(proof: Option<&str>) -> Value {
    proof.map_or(Value::Null, |text| serde_json::from_str(text).unwrap_or_else(|_| Value::from(text)))
}

/// A proof that was kept as text, a line for each channel: its name, and what was found.
pub(crate) fn lines(proof: Option<&str>) -> Vec<(String, String)> {
    let said = |channel: &Value, key: &str| channel[key].as_str().unwrap_or("?").to_owned();
    let line = |channel: &Value| {
        let print: String = said(channel, "fingerprint").chars().take(DIGITS).collect();
        let items = channel["items"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let found = format!("{}: {} ({print})", said(channel, "examined"), said(channel, "answer"));
        (said(channel, "channel"), [found].into_iter().chain(items.map(str::to_owned)).collect::<Vec<_>>().join("; "))
    };
    parsed(proof).as_array().into_iter().flatten().map(line).collect()
}

/// An answer's name and what it names.
pub(crate) fn answer(answer: &Answer) -> (&'static str, Vec<String>) {
    match answer {
        Answer::Nothing => ("nothing", Vec::new()),
        Answer::Losses(losses) => ("losses", losses.iter().map(|loss| loss.what.clone()).collect()),
        Answer::Unknown(reasons) => ("unknown", reasons.iter().cloned().collect()),
    }
}

/// A fingerprint for people.
pub(crate) fn short(fingerprint: &Digest) -> String {
    fingerprint.to_string().chars().take(DIGITS).collect()
}
