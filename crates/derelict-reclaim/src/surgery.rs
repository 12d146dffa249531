//! Taking members out of one object of a JSON text without touching any other byte. Which ones go
//! is decided in `release`; reading and writing the file is done there, too.
//!
//! The text is cut, not printed anew: numbers, escapes, line ends, unknown fields and duplicate
//! keys of everything that stays are the owner's. A JSON parser judges the text before the cut and
//! compares the result after it, so that a mistake here cannot reach the file.

use std::collections::BTreeSet;
use std::ops::Range;

use serde_json::Value;

/// Why a text was not cut.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SurgeryError {
    /// It is no JSON.
    #[error("{0}")]
    NotJson(#[from] serde_json::Error),
    /// It has no such object, or several.
    #[error("there is not exactly one object `{0}` at the top")]
    NoObject(String),
    /// A key that is to go stands there more than once, and only one of them may be the dead one.
    #[error("the key `{0}` stands there more than once")]
    Twice(String),
    /// The cut would have changed something else.
    #[error("the edited text does not read as the old one without the dropped entries")]
    Mismatch,
}

/// One member of an object: where it is in the text, and its key in plain.
#[derive(Debug)]
struct Member {
    key: String,
    span: Range<usize>,
    value: Range<usize>,
}

/// The text without the members of the top-level object `section` whose key is among `doomed`.
pub(crate) fn without(text: &str, section: &str, doomed: &BTreeSet<String>) -> Result<String, SurgeryError> {
    let mut expected: Value = serde_json::from_str(text)?;
    let missing = || SurgeryError::NoObject(section.to_owned());
    let top = members(text, skip_blank(text, 0))?;
    let mut sections = top.iter().filter(|member| member.key == section);
    let (Some(one), None) = (sections.next(), sections.next()) else { return Err(missing()) };
    let entries = expected.get_mut(section).and_then(Value::as_object_mut).ok_or_else(missing)?;
    entries.retain(|key, _| !doomed.contains(key));
    let cut = cut(text, one.value.clone(), doomed)?;
    let found: Value = serde_json::from_str(&cut)?;
    if found == expected { Ok(cut) } else { Err(SurgeryError::Mismatch) }
}

fn cut(text: &str, object: Range<usize>, doomed: &BTreeSet<String>) -> Result<String, SurgeryError> {
    let members = members(text, object.start)?;
    let goes = |member: &Member| doomed.contains(&member.key);
    for key in doomed {
        if members.iter().filter(|member| member.key == *key).count() > 1 {
            return Err(SurgeryError::Twice(key.clone()));
        }
    }
    let mut kept = String::with_capacity(text.len());
    kept.push_str(&text[..object.start]);
    if members.iter().all(goes) {
        kept.push_str(if members.is_empty() { &text[object.clone()] } else { "{}" });
    } else {
        // What stands before a member goes with it, except before the first that stays, which takes
        // the place of the first of all: so no comma is left over, and blanks stay as they were.
        let first = members.first().map_or(object.end, |member| member.span.start);
        kept.push_str(&text[object.start..first]);
        let mut end_before = None;
        let mut end_of_last = first;
        for member in &members {
            if !goes(member) {
                if end_before.is_some() {
                    kept.push_str(&text[end_of_last..member.span.start]);
                }
                kept.push_str(&text[member.span.clone()]);
                end_before = Some(member.span.end);
            }
            end_of_last = member.span.end;
        }
        kept.push_str(&text[end_of_last..object.end]);
    }
    kept.push_str(&text[object.end..]);
    Ok(kept)
}

/// The members of the object that starts at `start` in a text that is known to be JSON.
fn members(text: &str, start: usize) -> Result<Vec<Member>, serde_json::Error> {
    let mut members = Vec::new();
    if text.as_bytes().get(start) != Some(&b'{') {
        return Ok(members);
    }
    let mut at = skip_blank(text, start + 1);
    while text.as_bytes().get(at) == Some(&b'"') {
        let key_end = skip_string(text, at);
        let key = serde_json::from_str(&text[at..key_end])?;
        // The colon is one byte.
        let value_start = skip_blank(text, skip_blank(text, key_end) + 1);
        let value_end = skip_value(text, value_start);
        members.push(Member { key, span: at..value_end, value: value_start..value_end });
        at = skip_blank(text, value_end);
        if text.as_bytes().get(at) == Some(&b',') {
            at = skip_blank(text, at + 1);
        }
    }
    Ok(members)
}

fn skip_blank(text: &str, from: usize) -> usize {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
    from + text.as_bytes()[from..].iter().take_while(|byte| blank(byte)).count()
}

/// The end of the string whose opening quote is at `from`.
fn skip_string(text: &str, from: usize) -> usize {
    let bytes = text.as_bytes();
    let mut at = from + 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

/// The end of the value that starts at `from`: a string, or everything up to where brackets balance.
fn skip_value(text: &str, from: usize) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (from, 0_usize);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                at = skip_string(text, at);
                if depth == 0 {
                    return at;
                }
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return at,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            b',' | b' ' | b'\t' | b'\n' | b'\r' if depth == 0 => return at,
            _ => {}
        }
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(text: &str, doomed: &[&str]) -> String {
        without(text, "w", &doomed.iter().map(|key| (*key).to_owned()).collect()).unwrap()
    }

    const TEXT: &str = "{\r\n \"v\": 3, \"w\": {\r\n  \"a\\u002fb\": {\"x\": [1, {\"a/b\": 2}]},\r\n  \"q\\\"\": \"}\\\"\",\r\n  \"z\": 1e2\r\n }, \"a/b\": 7}\n";

    #[test]
    fn the_first_the_middle_the_last_and_the_only_one_go_without_a_trace() {
        let first = "{\r\n \"v\": 3, \"w\": {\r\n  \"q\\\"\": \"}\\\"\",\r\n  \"z\": 1e2\r\n }, \"a/b\": 7}\n";
        assert_eq!(cut(TEXT, &["a/b"]), first);
        let middle = "{\r\n \"v\": 3, \"w\": {\r\n  \"a\\u002fb\": {\"x\": [1, {\"a/b\": 2}]},\r\n  \"z\": 1e2\r\n }, \"a/b\": 7}\n";
        assert_eq!(cut(TEXT, &["q\""]), middle);
        let last = "{\r\n \"v\": 3, \"w\": {\r\n  \"a\\u002fb\": {\"x\": [1, {\"a/b\": 2}]},\r\n  \"q\\\"\": \"}\\\"\"\r\n }, \"a/b\": 7}\n";
        assert_eq!(cut(TEXT, &["z"]), last);
        assert_eq!(cut(TEXT, &["z", "a/b", "q\""]), "{\r\n \"v\": 3, \"w\": {}, \"a/b\": 7}\n");
        assert_eq!(cut(TEXT, &["absent"]), TEXT);
        assert_eq!(cut("{\"w\":{ \"a\":1 }}", &["a"]), "{\"w\":{}}");
        assert_eq!(cut("{\"w\":{ }}", &["a"]), "{\"w\":{ }}");
    }

    #[test]
    fn a_doomed_key_in_any_spelling_that_stands_there_twice_is_not_cut_and_other_duplicates_stay() {
        let text = r#"{"w":{"a":1,"b":2,"\u0061":3,"b":4}}"#;
        let told = without(text, "w", &BTreeSet::from(["a".to_owned()])).unwrap_err().to_string();
        assert_eq!(told, "the key `a` stands there more than once");
        let text = r#"{"w":{"\u0061":1,"b":2,"b":4}}"#;
        assert_eq!(cut(text, &["a"]), r#"{"w":{"b":2,"b":4}}"#);
    }

    #[test]
    fn what_is_not_exactly_one_object_is_not_cut() {
        let told = |text: &str| without(text, "w", &BTreeSet::new()).unwrap_err().to_string();
        assert_eq!(told("{\"w\":{},\n x"), "key must be a string at line 2 column 2");
        for odd in ["[]", "{}", "7", r#"{"w":[]}"#, r#"{"w":{},"w":{}}"#] {
            assert_eq!(told(odd), "there is not exactly one object `w` at the top", "{odd}");
        }
    }

    fn blank() -> impl Strategy<Value = String> {
        "[ \t\r\n]{0,3}"
    }

    fn json() -> impl Strategy<Value = String> {
        let text = r#""([a-z{}\[\],:]|\\"|\\\\|\\u00e9|é|\\n){0,6}""#;
        let leaf = prop_oneof![Just("null".to_owned()), "-?[1-9][0-9]{0,3}(\\.[0-9]{1,2})?([eE][+-]?[0-9])?", text];
        leaf.prop_recursive(3, 24, 4, move |inner| {
            let item = (blank(), inner, blank()).prop_map(|(before, value, after)| before + &value + &after);
            let items = prop::collection::vec(item, 0..4).boxed();
            let keyed = items.clone().prop_map(|items| {
                let members = items.iter().enumerate().map(|(n, item)| format!("\"k{n}\":{item}"));
                format!("{{{}}}", members.collect::<Vec<_>>().join(","))
            });
            prop_oneof![items.prop_map(|items| format!("[{}]", items.join(","))), keyed]
        })
    }

    type Entry = (String, String, String, bool);

    fn entries() -> impl Strategy<Value = Vec<Entry>> {
        prop::collection::vec((blank(), json(), blank(), any::<bool>()), 0..8)
    }

    proptest! {
        #[test]
        fn survivors_stay_byte_for_byte_and_in_order(entries in entries(), head in json(), tail in json()) {
            let member = |n: usize, (before, value, after, _): &Entry| format!("\"key/{n}\\t\"{before}:{after}{value}");
            let body: Vec<String> =
                entries.iter().enumerate().map(|(n, entry)| format!("{}{}{}", entry.0, member(n, entry), entry.2)).collect();
            let (start, end) = (format!("{{\"head\":{head},\"w\":{{"), format!("}},\"tail\":{tail}}}"));
            let doomed = entries.iter().enumerate().filter(|(_, entry)| entry.3).map(|(n, _)| format!("key/{n}\t")).collect();
            let text = format!("{start}{}{end}", body.join(","));
            let cut = without(&text, "w", &doomed).unwrap();
            let mut rest = cut.strip_prefix(&start).unwrap().strip_suffix(&end).unwrap();
            let survivors: Vec<String> =
                entries.iter().enumerate().filter(|(_, entry)| !entry.3).map(|(n, entry)| member(n, entry)).collect();
            for (n, survivor) in survivors.iter().enumerate() {
                rest = rest.trim_start();
                if n > 0 {
                    rest = rest.strip_prefix(',').unwrap().trim_start();
                }
                rest = rest.strip_prefix(survivor.as_str()).unwrap();
            }
            prop_assert_eq!(rest.trim_start(), "");
            if doomed.is_empty() {
                prop_assert_eq!(cut, text);
            }
        }
    }
}
