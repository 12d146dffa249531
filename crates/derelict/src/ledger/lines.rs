//! The lines of the record of sweeps: how each is written, and how it is read back. Where they are kept is `file`'s.
//!
//! One JSON object a line, each with its version `v` and its `kind`:
//!
//! | kind | says |
//! |---|---|
//! | `sweep` | the head of a sweep; `bytes` is how much follows that belongs to it |
//! | `directory` | one directory of it |
//! | `end` | the sweep is complete, and had so many directories |
//!
//! A time is `[seconds, nanoseconds]` since 1970. A path is a string when it is UTF-8, else `{"hex": "…"}`.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use derelict_core::ids::{Digest, Timestamp};
use derelict_core::outcome::Discarded;
use serde_json::{Map, Value, json};

use crate::json;
use crate::ledger::{Counts, Head, fate_named, mode_named};
use crate::reaper::record::{Amount, DirectoryRecord, Stop};

/// The version this program writes, and the only one it reads.
pub(crate) const VERSION: u64 = 1;

/// What a line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    /// A sweep begins, and this many bytes after this line belong to it.
    Sweep(Box<Head>, u64),
    /// A directory of the sweep with this id.
    Directory(String, Box<DirectoryRecord>),
    /// The sweep with this id is complete.
    End(String),
}

/// Why a line is not understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotALine {
    /// It is damaged, in this way.
    Corrupt(String),
    /// A newer program wrote it.
    Newer(u64),
}

/// Writes the head of a sweep whose directories and end take `body` bytes.
pub(crate) fn write_head(sink: &mut impl Write, head: &Head, body: u64) -> io::Result<()> {
    let counts = head.counts.iter().map(|(fate, count)| (fate.as_str().to_owned(), json!(count)));
    let Amount { directories, entries, bytes } = head.backlog;
    let line = json!({
        "v": VERSION,
        "kind": "sweep",
        "id": head.id,
        "root": head.root,
        "path": json::path(&head.path),
        "mode": head.mode.name(),
        "began": time(head.began),
        "ended": time(head.ended),
        "cutoff": time(head.cutoff),
        "plan": head.plan.map(|plan| plan.to_string()),
        "stop": { "name": head.stop.name, "which": head.stop.which, "why": head.stop.why },
        "backlog": { "directories": directories, "entries": entries, "bytes": bytes },
        "discarded": { "entries": head.discarded.entries, "bytes": head.discarded.bytes },
        "measured_bytes": head.measured_bytes,
        "counts": Value::Object(counts.collect()),
        "bytes": body,
    });
    writeln!(sink, "{line}")
}

/// Writes one directory of the sweep `id`. There are many, so nothing is allocated for most of them.
pub(crate) fn write_directory(sink: &mut impl Write, id: &str, directory: &DirectoryRecord) -> io::Result<()> {
    write!(sink, "{{\"v\":{VERSION},\"kind\":\"directory\",\"sweep\":")?;
    text(sink, id)?;
    sink.write_all(b",\"path\":")?;
    match directory.path.to_str() {
        Some(path) => text(sink, path)?,
        None => write!(sink, "{}", json::path(&directory.path))?,
    }
    write!(sink, ",\"fate\":\"{}\",\"why\":", directory.fate.as_str())?;
    text(sink, &directory.why)?;
    sink.write_all(b",\"evidence\":\"")?;
    sink.write_all(&hex(directory.evidence.as_bytes()))?;
    sink.write_all(b"\",\"last_used\":")?;
    maybe_time(sink, directory.last_used)?;
    sink.write_all(b",\"touched\":")?;
    maybe_time(sink, directory.touched)?;
    write!(sink, ",\"entries\":{},\"bytes\":{},\"intent\":", directory.entries, directory.bytes)?;
    match directory.intent {
        Some(intent) => write!(sink, "{intent}")?,
        None => sink.write_all(b"null")?,
    }
    // It is JSON already.
    writeln!(sink, ",\"proof\":{}}}", directory.proof.as_deref().unwrap_or("null"))
}

/// The line that completes the sweep `id` of so many directories; the same bytes for the same sweep.
pub(crate) fn end(id: &str, directories: u64) -> Vec<u8> {
    let line = json!({ "v": VERSION, "kind": "end", "sweep": id, "directories": directories });
    format!("{line}\n").into_bytes()
}

fn text(sink: &mut impl Write, text: &str) -> io::Result<()> {
    Ok(serde_json::to_writer(sink, text)?)
}

fn hex(bytes: &[u8; 32]) -> [u8; 64] {
    let mut hex = [0; 64];
    for (pair, byte) in hex.chunks_mut(2).zip(bytes) {
        for (digit, value) in pair.iter_mut().zip([byte >> 4, byte & 15]) {
            *digit = b"0123456789abcdef"[usize::from(value)];
        }
    }
    hex
}

fn time(at: Timestamp) -> Value {
    json!([at.seconds(), at.subsecond_nanoseconds()])
}

fn maybe_time(sink: &mut impl Write, at: Option<Timestamp>) -> io::Result<()> {
    match at {
        Some(at) => write!(sink, "[{},{}]", at.seconds(), at.subsecond_nanoseconds()),
        None => sink.write_all(b"null"),
    }
}

/// Reads one line.
///
/// # Errors
/// [`NotALine`] says why it is not understood.
pub(crate) fn parse(line: &[u8]) -> Result<Line, NotALine> {
    let line: Value = serde_json::from_slice(line).map_err(|error| NotALine::Corrupt(error.to_string()))?;
    match line["v"].as_u64() {
        Some(VERSION) => {}
        Some(version) if version > VERSION => return Err(NotALine::Newer(version)),
        Some(version) => return Err(NotALine::Corrupt(format!("there is no version {version}"))),
        None => return Err(NotALine::Corrupt("`v` is no number".into())),
    }
    let fields = Fields(&line);
    match fields.text("kind")?.as_str() {
        "sweep" => Ok(Line::Sweep(Box::new(head(fields)?), fields.number("bytes")?)),
        "directory" => Ok(Line::Directory(fields.text("sweep")?, Box::new(directory(fields)?))),
        "end" => Ok(Line::End(fields.text("sweep")?)),
        kind => Err(NotALine::Corrupt(format!("there is no kind `{kind}`"))),
    }
}

fn head(line: Fields<'_>) -> Result<Head, NotALine> {
    let (stop, backlog, discarded) = (line.object("stop")?, line.object("backlog")?, line.object("discarded")?);
    Ok(Head {
        id: line.text("id")?,
        root: line.text("root")?,
        path: line.path("path")?,
        mode: mode_named(&line.text("mode")?).ok_or_else(|| wrong("mode"))?,
        began: line.time("began")?,
        ended: line.time("ended")?,
        cutoff: line.time("cutoff")?,
        plan: line.maybe("plan", |line| line.digest("plan"))?,
        stop: Stop {
            name: stop.text("name")?,
            which: stop.maybe("which", |stop| stop.text("which"))?,
            why: stop.maybe("why", |stop| stop.text("why"))?,
        },
        backlog: Amount {
            directories: backlog.number("directories")?,
            entries: backlog.number("entries")?,
            bytes: backlog.number("bytes")?,
        },
        discarded: Discarded { entries: discarded.number("entries")?, bytes: discarded.number("bytes")? },
        measured_bytes: line
            .maybe("measured_bytes", |line| line.0["measured_bytes"].as_i64().ok_or_else(|| wrong("measured_bytes")))?,
        counts: counts(line.object("counts")?)?,
    })
}

fn counts(object: Fields<'_>) -> Result<Counts, NotALine> {
    let counts: Option<&Map<String, Value>> = object.0.as_object();
    let counts = counts.into_iter().flatten().map(|(name, count)| Some((fate_named(name)?, count.as_u64()?)));
    counts.collect::<Option<Counts>>().ok_or_else(|| wrong("counts"))
}

fn directory(line: Fields<'_>) -> Result<DirectoryRecord, NotALine> {
    Ok(DirectoryRecord {
        path: line.path("path")?,
        fate: fate_named(&line.text("fate")?).ok_or_else(|| wrong("fate"))?,
        why: line.text("why")?,
        evidence: line.digest("evidence")?,
        last_used: line.maybe("last_used", |line| line.time("last_used"))?,
        touched: line.maybe("touched", |line| line.time("touched"))?,
        entries: line.number("entries")?,
        bytes: line.number("bytes")?,
        intent: line.maybe("intent", |line| line.number("intent"))?,
        proof: line.maybe("proof", |line| Ok(line.0["proof"].to_string()))?,
    })
}

fn wrong(key: &str) -> NotALine {
    NotALine::Corrupt(format!("`{key}` is missing or wrong"))
}

/// The fields of one object.
#[derive(Clone, Copy)]
struct Fields<'l>(&'l Value);

impl<'l> Fields<'l> {
    fn text(self, key: &str) -> Result<String, NotALine> {
        self.0[key].as_str().map(str::to_owned).ok_or_else(|| wrong(key))
    }

    fn number(self, key: &str) -> Result<u64, NotALine> {
        self.0[key].as_u64().ok_or_else(|| wrong(key))
    }

    fn object(self, key: &str) -> Result<Self, NotALine> {
        let value: &'l Value = &self.0[key];
        if value.is_object() { Ok(Self(value)) } else { Err(wrong(key)) }
    }

    fn digest(self, key: &str) -> Result<Digest, NotALine> {
        self.0[key].as_str().and_then(Digest::parse).ok_or_else(|| wrong(key))
    }

    fn time(self, key: &str) -> Result<Timestamp, NotALine> {
        let read = || {
            let [seconds, nanoseconds] = self.0[key].as_array()?.as_slice() else { return None };
            let nanoseconds = u32::try_from(nanoseconds.as_u64()?).ok().filter(|n| *n < 1_000_000_000)?;
            Some(Timestamp::new(seconds.as_i64()?, nanoseconds))
        };
        read().ok_or_else(|| wrong(key))
    }

    fn path(self, key: &str) -> Result<PathBuf, NotALine> {
        let value = &self.0[key];
        let bytes = value.as_str().map(|text| text.as_bytes().to_vec());
        let bytes = bytes.or_else(|| unhex(value.get("hex")?.as_str()?)).ok_or_else(|| wrong(key))?;
        Ok(PathBuf::from(OsString::from_vec(bytes)))
    }

    /// A field that may be `null`, but not missing: a line that lost a field is damaged.
    fn maybe<T>(self, key: &str, read: impl FnOnce(Self) -> Result<T, NotALine>) -> Result<Option<T>, NotALine> {
        match self.0.get(key) {
            Some(Value::Null) => Ok(None),
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_)) => {
                read(self).map(Some)
            }
            None => Err(wrong(key)),
        }
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = text.as_bytes().chunks(2).map(|pair| match pair {
        [high, low] => u8::try_from(digit(*high)? * 16 + digit(*low)?).ok(),
        _ => None,
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::samples::{id, three};

    #[test]
    fn a_sweep_comes_back_as_it_was_from_one_line_each() {
        for sweep in three() {
            let head = Head::of(&sweep);
            let mut line = Vec::new();
            write_head(&mut line, &head, 77).unwrap();
            assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
            assert_eq!(parse(&line), Ok(Line::Sweep(Box::new(head), 77)));
            for directory in sweep.directories {
                line.clear();
                write_directory(&mut line, &sweep.id, &directory).unwrap();
                assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
                assert_eq!(parse(&line), Ok(Line::Directory(sweep.id.clone(), Box::new(directory))));
            }
        }
        assert_eq!(parse(&end(&id(1), 3)), Ok(Line::End(id(1))));
    }

    #[test]
    fn a_line_that_is_not_understood_says_why() {
        let why = |text: &str| parse(text.as_bytes()).unwrap_err();
        let corrupt = |text: &str| NotALine::Corrupt(text.into());
        assert_eq!(why(r#"{"v":2,"kind":"sweep"}"#), NotALine::Newer(2));
        assert_eq!(why(r#"{"v":0}"#), corrupt("there is no version 0"));
        assert_eq!(why(r#"{"kind":"end"}"#), corrupt("`v` is no number"));
        assert_eq!(why(r#"{"v":1,"kind":"other"}"#), corrupt("there is no kind `other`"));
        assert_eq!(why(r#"{"v":1,"kind":"end"}"#), corrupt("`sweep` is missing or wrong"));
        assert_eq!(why("[]"), corrupt("`v` is no number"));
        assert_eq!(why("{"), corrupt("EOF while parsing an object at line 1 column 1"));
    }

    #[test]
    fn a_line_that_lost_a_field_is_damaged_even_where_the_field_may_be_empty() {
        let mut line = Vec::new();
        let [sweep, ..] = three();
        write_directory(&mut line, &sweep.id, &sweep.directories[0]).unwrap();
        let whole: Value = serde_json::from_slice(&line).unwrap();
        for key in whole.as_object().unwrap().keys() {
            let mut damaged = whole.clone();
            damaged.as_object_mut().unwrap().remove(key);
            assert!(parse(damaged.to_string().as_bytes()).is_err(), "{key}");
        }
    }
}
