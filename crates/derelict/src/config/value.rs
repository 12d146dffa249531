//! Values as they were written, where that was, and what they mean: spans, sizes, numbers, words. Every complaint names
//! the place, the key, the value and the bound.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::config::keys::{DAY, HOUR, Kind, MINUTE};
use crate::text;

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// In a file, on a line counted from one.
    File {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
    },
    /// In the environment.
    Variable(String),
    /// Nowhere: it holds when nobody says anything.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line } => write!(f, "{}:{line}", text::path(path)),
            Self::Variable(name) => f.write_str(&text::sentence(name)),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A value as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Raw {
    /// A text; in the environment everything is one.
    Text(String),
    /// A number.
    Integer(i64),
    /// A flag.
    Flag(bool),
    /// A list of texts.
    Texts(Vec<String>),
}

impl fmt::Display for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "\"{}\"", text.escape_debug()),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Texts(texts) => {
                let texts: Vec<_> = texts.iter().map(|text| format!("\"{}\"", text.escape_debug())).collect();
                write!(f, "[{}]", texts.join(", "))
            }
        }
    }
}

/// A value and where it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) raw: Raw,
    pub(crate) origin: Origin,
}

/// Something wrong with one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem(pub(crate) String);

impl Problem {
    /// With one value.
    pub(super) fn of(path: &str, setting: &Setting, why: &str) -> Self {
        Self(format!("{}: {} = {}: {why}", setting.origin, text::sentence(path), shown(&setting.raw)))
    }

    /// With what is missing.
    pub(super) fn missing(path: &str, why: &str) -> Self {
        Self(format!("{}: {why}", text::sentence(path)))
    }
}

/// A value in a complaint. What looks like an address with a password in it may be one, wherever it was written.
fn shown(raw: &Raw) -> String {
    let text = raw.to_string();
    if text.contains("://") && text.contains('@') { "***".to_owned() } else { text }
}

/// Whether a value is one of its kind and within its bounds.
pub(super) fn check(kind: Kind, raw: &Raw) -> Result<(), String> {
    match kind {
        Kind::Text => match text_of(raw)? {
            text if text.is_empty() => Err("it is empty".into()),
            _ => Ok(()),
        },
        Kind::TextOrNothing => text_of(raw).map(drop),
        Kind::Path => path(raw).map(drop),
        Kind::Flag => flag(raw).map(drop),
        Kind::Choice(words) => choice(raw, words).map(drop),
        Kind::Span(least, most) => span(raw, least, most).map(drop),
        Kind::Count(least, most) => count(raw, least, most).map(drop),
        Kind::Size => size(raw).map(drop),
        Kind::Texts => texts(raw).map(drop),
        Kind::Choices(words) => choices(raw, words).map(drop),
    }
}

pub(super) fn text_of(raw: &Raw) -> Result<String, String> {
    match raw {
        Raw::Text(text) => Ok(text.clone()),
        Raw::Integer(_) | Raw::Flag(_) | Raw::Texts(_) => Err("it has to be a text".into()),
    }
}

pub(super) fn path(raw: &Raw) -> Result<PathBuf, String> {
    let path = PathBuf::from(text_of(raw)?);
    if path.is_absolute() { Ok(path) } else { Err("it has to be an absolute path".into()) }
}

pub(super) fn flag(raw: &Raw) -> Result<bool, String> {
    match raw {
        Raw::Flag(flag) => Ok(*flag),
        Raw::Text(text) if text == "true" => Ok(true),
        Raw::Text(text) if text == "false" => Ok(false),
        Raw::Text(_) | Raw::Integer(_) | Raw::Texts(_) => Err("it has to be true or false".into()),
    }
}

pub(super) fn choice(raw: &Raw, words: &'static [&'static str]) -> Result<&'static str, String> {
    let written = text_of(raw).map_err(|_| one_of(words))?;
    words.iter().copied().find(|word| *word == written).ok_or_else(|| one_of(words))
}

fn one_of(words: &[&str]) -> String {
    format!("it has to be one of {}", words.join(", "))
}

pub(super) fn count(raw: &Raw, least: u64, most: u64) -> Result<u64, String> {
    let why = || format!("it has to be a whole number from {least} to {most}");
    let number = match raw {
        Raw::Integer(number) => u64::try_from(*number).map_err(|_| why())?,
        Raw::Text(text) => text.parse().map_err(|_| why())?,
        Raw::Flag(_) | Raw::Texts(_) => return Err(why()),
    };
    if (least..=most).contains(&number) { Ok(number) } else { Err(why()) }
}

pub(super) fn size(raw: &Raw) -> Result<u64, String> {
    let bytes = match raw {
        Raw::Integer(number) => u64::try_from(*number).map_err(|_| "it has to be a size such as 100GiB".to_owned())?,
        Raw::Text(text) => text::parse_bytes(text)?,
        Raw::Flag(_) | Raw::Texts(_) => return Err("it has to be a size such as 100GiB".into()),
    };
    if bytes == 0 { Err("it has to be at least one byte".into()) } else { Ok(bytes) }
}

/// In the environment a list is separated by commas.
pub(super) fn texts(raw: &Raw) -> Result<Vec<String>, String> {
    match raw {
        Raw::Texts(texts) => Ok(texts.clone()),
        Raw::Text(text) if text.is_empty() => Ok(Vec::new()),
        Raw::Text(text) => Ok(text.split(',').map(|part| part.trim().to_owned()).collect()),
        Raw::Integer(_) | Raw::Flag(_) => Err("it has to be a list of texts".into()),
    }
}

pub(super) fn choices(raw: &Raw, words: &'static [&'static str]) -> Result<Vec<String>, String> {
    let texts = texts(raw)?;
    match texts.iter().find(|text| !words.contains(&text.as_str())) {
        Some(_) => Err(format!("each has to be one of {}", words.join(", "))),
        None => Ok(texts),
    }
}

/// A span of time within bounds, both in seconds. A day has 24 hours.
pub(super) fn span(raw: &Raw, least: u64, most: u64) -> Result<Duration, String> {
    let span = seconds(&text_of(raw).map_err(|_| not_a_span())?)?;
    if span < least {
        return Err(format!("it has to be at least {}", shown_span(least)));
    }
    if span > most {
        return Err(format!("it has to be at most {}", shown_span(most)));
    }
    Ok(Duration::from_secs(span))
}

fn not_a_span() -> String {
    "it has to be a span of time such as 30d, 12h, 15m or 90s".to_owned()
}

fn seconds(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "s" => 1,
        "m" => MINUTE,
        "h" => HOUR,
        "d" => DAY,
        "w" => 7 * DAY,
        _ => return Err(not_a_span()),
    };
    let number: u64 = digits.parse().map_err(|_| not_a_span())?;
    number.checked_mul(unit).ok_or_else(not_a_span)
}

/// A span in the largest unit that divides it.
pub(super) fn shown_span(seconds: u64) -> String {
    let units = [(DAY, "d"), (HOUR, "h"), (MINUTE, "m")];
    match units.into_iter().find(|(unit, _)| seconds >= *unit && seconds.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", seconds / unit),
        None => format!("{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Raw {
        Raw::Text(text.to_owned())
    }

    #[test]
    fn spans_have_units_and_bounds_and_are_shown_as_they_are_written() {
        assert_eq!(span(&text("30d"), 0, u64::MAX), Ok(Duration::from_secs(30 * DAY)));
        assert_eq!(span(&text("6d"), 7 * DAY, u64::MAX), Err("it has to be at least 7d".into()));
        assert_eq!(span(&text("31d"), 0, 30 * DAY), Err("it has to be at most 30d".into()));
        for odd in ["", "30", "d", "-1d", "1.5h", "1d2h", "99999999999999999999d", "30 days"] {
            assert_eq!(span(&text(odd), 0, u64::MAX), Err(not_a_span()), "{odd}");
        }
        assert_eq!([DAY, 90, 7 * HOUR, 0].map(shown_span), ["1d", "90s", "7h", "0s"]);
    }

    #[test]
    fn numbers_sizes_and_lists_come_from_files_and_from_the_environment() {
        assert_eq!(count(&Raw::Integer(5), 1, 10), count(&text("5"), 1, 10));
        assert_eq!(count(&text("11"), 1, 10), Err("it has to be a whole number from 1 to 10".into()));
        assert!(count(&Raw::Integer(-1), 0, 10).is_err() && count(&text("1e2"), 0, 1000).is_err());
        assert_eq!(size(&text("1KiB")), Ok(1024));
        assert!(size(&Raw::Integer(0)).is_err());
        assert_eq!(texts(&text("home, session")), Ok(vec!["home".into(), "session".into()]));
        assert!(choices(&text("empty-source,x"), &["empty-source"]).is_err());
        assert!(flag(&text("TRUE")).is_err() && flag(&Raw::Integer(1)).is_err());
        assert!(path(&text("relative")).is_err());
    }
}
