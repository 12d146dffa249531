//! Owners that a command prints: one JSON object a line, the whole list each time. It is started by its
//! argument vector and never through a shell, and gets nothing on its standard input.
//!
//! ```text
//! {"id": "run-7", "last_used_at": "2026-07-01T10:00:00Z"}
//! {"id": "run-8", "last_used_at": null, "held": true, "reason": "pinned"}
//! ```
//!
//! `id` and `last_used_at` have to be there; the latter is an RFC 3339 instant, or `null` when it is not
//! known, which keeps. `held` is `true`, `false`, or a text that says why; `reason` is a text. Any
//! other key is an error, and so is a key that comes twice.
//!
//! The command has to print every owner it knows: each re-check runs it again and looks for one id.

use std::path::{Path, PathBuf};
use std::time::Duration;

use derelict_core::ids::{SourceId, Timestamp};
use derelict_core::ports::{LockBusy, SourceLost};
use serde_json::{Map, Value};

use super::table::{Asked, IdScheme, Leadership, OwnerTable, Row, RowLock, Snapshot};
use crate::exec::{self, Inherits, Invocation};

/// What is said of an owner that is held without words.
const HELD: &str = "held";

/// How a command is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandSettings {
    /// The program: an absolute path, or a name that is looked for on `PATH`.
    pub program: PathBuf,
    /// Its arguments, without the program's own name.
    pub arguments: Vec<String>,
    /// How its ids are written.
    pub ids: IdScheme,
    /// How long it may run.
    pub timeout: Duration,
    /// How many bytes it may print.
    pub output_limit: usize,
}

/// Owners that a command prints.
#[derive(Debug)]
pub struct CommandOwners {
    source: SourceId,
    settings: CommandSettings,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum BadLine {
    #[error("is no JSON: {0}")]
    NoJson(String),
    #[error("is no JSON object")]
    NoObject,
    #[error("has a key twice")]
    Twice,
    #[error("has a key `{0}`, which is none of id, last_used_at, held, reason")]
    Unknown(String),
    #[error("has no `{0}`")]
    Missing(&'static str),
    #[error("has a `{0}` that is not {1}")]
    Value(&'static str, &'static str),
    #[error("has a `reason` without `held`, which it would explain")]
    ReasonAlone,
}

impl CommandOwners {
    /// Owners that nobody was asked for yet.
    #[must_use]
    pub fn new(source: SourceId, settings: CommandSettings) -> Self {
        Self { source, settings }
    }

    fn lost(&self, why: String) -> SourceLost {
        SourceLost { source_id: self.source.clone(), why }
    }

    fn rows_of(&self, ids: &[String]) -> Result<Vec<Row>, SourceLost> {
        let CommandSettings { program, arguments, ids: scheme, timeout, output_limit } = &self.settings;
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let invocation = Invocation {
            program,
            arguments: &arguments,
            inherits: Inherits::Everything,
            variables: &[],
            deadline: *timeout,
            output_bytes: *output_limit,
        };
        let printed = exec::run(&invocation).map_err(|error| self.lost(error.to_string()))?;
        let rows = parse(&printed, *scheme).map_err(|(line, what)| {
            self.lost(format!("line {line} of what {} printed {what}", derelict_core::ids::escaped(program)))
        })?;
        Ok(Asked::of(ids).fold(rows, Vec::new()))
    }
}

impl OwnerTable for CommandOwners {
    fn ids(&self) -> IdScheme {
        self.settings.ids
    }

    fn connect(&mut self) -> Result<(), SourceLost> {
        // A path that depends on where we were started is a way in for whoever can write there.
        if is_relative_path(&self.settings.program) {
            let program = derelict_core::ids::escaped(&self.settings.program);
            return Err(self.lost(format!("{program} is neither an absolute path nor a name without a slash")));
        }
        Ok(())
    }

    fn lead(&mut self, _: &str) -> Result<Leadership, SourceLost> {
        Ok(Leadership::NoneOfItsBusiness)
    }

    fn rows(&mut self, ids: &[String]) -> Result<Snapshot, SourceLost> {
        Ok(Snapshot { rows: self.rows_of(ids)?, clock: None })
    }

    fn row(&mut self, id: &str) -> Result<Vec<Row>, SourceLost> {
        self.rows_of(&[id.to_owned()])
    }

    fn lock(&mut self, _: &str) -> Result<Option<Box<dyn RowLock>>, LockBusy> {
        Ok(None)
    }
}

fn is_relative_path(program: &Path) -> bool {
    !program.is_absolute() && program.as_os_str().as_encoded_bytes().contains(&b'/')
}

/// The rows of a listing; an error says in which line, counted from one.
fn parse(printed: &[u8], scheme: IdScheme) -> Result<Vec<Row>, (usize, BadLine)> {
    let whole = printed.strip_suffix(b"\n").unwrap_or(printed);
    if whole.is_empty() {
        return Ok(Vec::new());
    }
    let mut rows = Vec::new();
    for (index, line) in whole.split(|byte| *byte == b'\n').enumerate() {
        rows.extend(row(line, scheme).map_err(|error| (index + 1, error))?);
    }
    Ok(rows)
}

/// One line; `None` when its id cannot be one of ours.
fn row(line: &[u8], scheme: IdScheme) -> Result<Option<Row>, BadLine> {
    let no_json = |error: serde_json::Error| BadLine::NoJson(format!("{} at column {}", kind(&error), error.column()));
    let value: Value = serde_json::from_slice(line).map_err(no_json)?;
    let Value::Object(object) = value else { return Err(BadLine::NoObject) };
    if keys_at_the_top(line) != object.len() {
        return Err(BadLine::Twice);
    }
    if let Some(unknown) = object.keys().find(|key| !["id", "last_used_at", "held", "reason"].contains(&key.as_str())) {
        return Err(BadLine::Unknown(unknown.escape_debug().to_string()));
    }
    let id = match object.get("id") {
        Some(Value::String(id)) if !id.is_empty() => id,
        Some(_) => return Err(BadLine::Value("id", "a text with something in it")),
        None => return Err(BadLine::Missing("id")),
    };
    let last_used_at = last_use(&object)?;
    let held = held(&object)?;
    Ok(scheme.canonical(id.as_bytes()).map(|id| Row { id, last_used_at, held }))
}

/// What is wrong with JSON, without the text itself.
fn kind(error: &serde_json::Error) -> &'static str {
    match error.classify() {
        serde_json::error::Category::Eof => "it ends too early",
        serde_json::error::Category::Syntax | serde_json::error::Category::Data => "a syntax error",
        serde_json::error::Category::Io => "it cannot be read",
    }
}

fn last_use(object: &Map<String, Value>) -> Result<Option<Timestamp>, BadLine> {
    let refused = || BadLine::Value("last_used_at", "an RFC 3339 instant or null");
    match object.get("last_used_at") {
        None => Err(BadLine::Missing("last_used_at")),
        Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => {
            let at = text.parse::<jiff::Timestamp>().map_err(|_| refused())?.as_nanosecond();
            let seconds = i64::try_from(at.div_euclid(1_000_000_000)).map_err(|_| refused())?;
            let nanoseconds = u32::try_from(at.rem_euclid(1_000_000_000)).map_err(|_| refused())?;
            Ok(Some(Timestamp::new(seconds, nanoseconds)))
        }
        Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => Err(refused()),
    }
}

fn held(object: &Map<String, Value>) -> Result<Option<String>, BadLine> {
    let reason = match object.get("reason") {
        None | Some(Value::Null) => None,
        Some(Value::String(reason)) => Some(reason).filter(|reason| !reason.is_empty()),
        Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            return Err(BadLine::Value("reason", "a text or null"));
        }
    };
    let worded = |words: Option<&String>| Some(words.map_or_else(|| HELD.to_owned(), Clone::clone));
    match object.get("held") {
        None if object.contains_key("reason") => Err(BadLine::ReasonAlone),
        None | Some(Value::Null | Value::Bool(false)) => Ok(None),
        Some(Value::Bool(true)) => Ok(worded(reason)),
        Some(Value::String(held)) => Ok(worded(Some(held).filter(|held| !held.is_empty()).or(reason))),
        Some(Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            Err(BadLine::Value("held", "true, false, a text or null"))
        }
    }
}

/// How many keys the object of a line has, repeated ones counted: the parser keeps the last of them.
fn keys_at_the_top(line: &[u8]) -> usize {
    let (mut depth, mut keys, mut in_text, mut escaped) = (0_usize, 0, false, false);
    for byte in line {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b':' if depth == 1 => keys += 1,
            _ => {}
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Vec<Row> {
        parse(text.as_bytes(), IdScheme::Text).unwrap()
    }

    fn error(text: &str) -> String {
        let (line, what) = parse(text.as_bytes(), IdScheme::Text).unwrap_err();
        format!("line {line} {what}")
    }

    #[test]
    fn lines_become_rows() {
        let row = |id: &str, at: Option<i64>, held: Option<&str>| Row {
            id: id.into(),
            last_used_at: at.map(|seconds| Timestamp::new(seconds, 0)),
            held: held.map(Into::into),
        };
        assert_eq!(rows(""), []);
        let text = "{\"id\":\"a\",\"last_used_at\":\"2023-11-14T22:13:20Z\"}\n\
                    {\"id\":\"b\",\"last_used_at\":null,\"held\":true,\"reason\":\"pinned: {\\\"x\\\":1}\"}\n\
                    {\"id\":\"c\",\"last_used_at\":\"2023-11-14T23:13:20+01:00\",\"held\":false,\"reason\":null}\n\
                    {\"id\":\"c\",\"last_used_at\":null,\"held\":\"\"}\n\
                    {\"id\":\"d\",\"last_used_at\":null,\"held\":\"in review\",\"reason\":\"x\"}";
        let expected = [
            row("a", Some(1_700_000_000), None),
            row("b", None, Some("pinned: {\"x\":1}")),
            row("c", Some(1_700_000_000), None),
            row("c", None, Some("held")),
            row("d", None, Some("in review")),
        ];
        assert_eq!(rows(text), expected);
    }

    #[test]
    fn a_bad_line_is_named_by_its_number_and_what_is_wrong() {
        let good = "{\"id\":\"a\",\"last_used_at\":null}";
        let cases = [
            ("", "is no JSON: it ends too early at column 0"),
            ("{\"id\":\"secret\"", "is no JSON: it ends too early at column 14"),
            ("[]", "is no JSON object"),
            ("{\"last_used_at\":null}", "has no `id`"),
            ("{\"id\":\"a\"}", "has no `last_used_at`"),
            ("{\"id\":7,\"last_used_at\":null}", "has a `id` that is not a text with something in it"),
            ("{\"id\":\"a\",\"last_used_at\":0}", "has a `last_used_at` that is not an RFC 3339 instant or null"),
            (
                "{\"id\":\"a\",\"last_used_at\":\"2023-11-14 22:13:20\"}",
                "has a `last_used_at` that is not an RFC 3339 instant or null",
            ),
            (
                "{\"id\":\"a\",\"last_used_at\":null,\"hold\":true}",
                "has a key `hold`, which is none of id, last_used_at, held, reason",
            ),
            ("{\"id\":\"a\",\"last_used_at\":null,\"held\":1}", "has a `held` that is not true, false, a text or null"),
            ("{\"id\":\"a\",\"last_used_at\":null,\"held\":true,\"held\":false}", "has a key twice"),
            (
                "{\"id\":\"a\",\"last_used_at\":null,\"reason\":\"x\"}",
                "has a `reason` without `held`, which it would explain",
            ),
        ];
        for (line, what) in cases {
            assert_eq!(error(&format!("{good}\n{line}\n{good}\n")), format!("line 2 {what}"), "{line}");
        }
    }

    #[test]
    fn a_program_that_depends_on_where_we_were_started_is_refused() {
        assert!(is_relative_path(Path::new("./list")) && is_relative_path(Path::new("bin/list")));
        assert!(!is_relative_path(Path::new("/bin/list")) && !is_relative_path(Path::new("list")));
    }
}
