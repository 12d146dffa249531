//! Text for people: names without terminal tricks, sizes, counts and times. Each has its one place here.
//!
//! What the words *say* is in [`crate::words`].

use std::fmt::Write as _;
use std::path::Path;

use derelict_core::ids::Timestamp;
use derelict_core::size::{Completeness, Freed};
use unicode_width::UnicodeWidthStr;

/// A name as it can safely be printed: what a terminal would act on, what hides or reorders text, and what is
/// no UTF-8 is escaped, and so is the backslash, which makes the result unambiguous.
pub(crate) fn name(bytes: &[u8]) -> String {
    escape(bytes, Backslash::Doubled)
}

/// A path as a [`name`].
pub(crate) fn path(path: &Path) -> String {
    name(path.as_os_str().as_encoded_bytes())
}

/// A sentence that may carry foreign names, which may be escaped already: as [`name`], but the backslash stays.
pub(crate) fn sentence(text: &str) -> String {
    escape(text.as_bytes(), Backslash::Kept)
}

#[derive(Clone, Copy)]
enum Backslash {
    Doubled,
    Kept,
}

fn escape(bytes: &[u8], backslash: Backslash) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match (c, backslash) {
                ('\\', Backslash::Doubled) => out.push_str("\\\\"),
                ('\n', _) => out.push_str("\\n"),
                ('\r', _) => out.push_str("\\r"),
                ('\t', _) => out.push_str("\\t"),
                (c, _) if c.is_ascii_control() => push(&mut out, format_args!("\\x{:02x}", u32::from(c))),
                (c, _) if c.is_control() || deceives(c) => push(&mut out, format_args!("\\u{{{:x}}}", u32::from(c))),
                (c, _) => out.push(c),
            }
        }
        for byte in chunk.invalid() {
            push(&mut out, format_args!("\\x{byte:02x}"));
        }
    }
    out
}

fn push(out: &mut String, escaped: std::fmt::Arguments<'_>) {
    out.write_fmt(escaped).expect("because writing to a string cannot fail");
}

/// Characters that are invisible, reorder their surroundings or break the line without being control characters.
fn deceives(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Fills `text` with spaces up to `columns`, as wide as a terminal shows it.
pub(crate) fn pad(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(text.width())))
}

/// Puts spaces before `text` so that it ends at `columns`.
pub(crate) fn pad_left(text: &str, columns: usize) -> String {
    format!("{}{text}", " ".repeat(columns.saturating_sub(text.width())))
}

/// How many columns a terminal needs for `text`.
pub(crate) fn columns(text: &str) -> usize {
    text.width()
}

const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// Bytes in binary units with one decimal: `0 B`, `1.5 KiB`, `406.7 GiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    for unit in UNITS {
        // What would round up to 1024.0 belongs to the next unit.
        if value < 1023.95 {
            return format!("{value:.1} {unit}");
        }
        value /= 1024.0;
    }
    unreachable!("because 2^64 bytes are 16 EiB")
}

/// What a removal frees: an upper bound, or a lower one where part of the tree could not be read.
pub(crate) fn freed(freed: &Freed) -> String {
    match &freed.completeness {
        Completeness::Exact => format!("up to {}", bytes(freed.bytes)),
        Completeness::AtLeast { .. } => format!("at least {}", bytes(freed.bytes)),
    }
}

/// The size of one row; `≥` where part of the tree could not be read.
pub(crate) fn row_size(freed: &Freed) -> String {
    match &freed.completeness {
        Completeness::Exact => bytes(freed.bytes),
        Completeness::AtLeast { .. } => format!("≥ {}", bytes(freed.bytes)),
    }
}

/// A size from the command line: digits, then `B`, `K`, `M`, `G`, `T` or the same with `iB`; binary units always.
///
/// # Errors
/// A sentence saying what is wrong with it.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let number: u64 = digits.parse().map_err(|_| format!("`{}` does not start with a whole number", sentence(text)))?;
    let unit = unit.trim_start().to_ascii_lowercase();
    let power = match unit.as_str() {
        "" | "b" => 0,
        "k" | "kib" => 1,
        "m" | "mib" => 2,
        "g" | "gib" => 3,
        "t" | "tib" => 4,
        other => return Err(format!("`{}` is not one of B, KiB, MiB, GiB, TiB", sentence(other))),
    };
    number.checked_mul(1 << (10 * power)).ok_or_else(|| format!("{number} {unit} is more than 16 EiB"))
}

/// A number with thousands apart: `3,467,038`.
pub(crate) fn number(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// What is counted, in its singular and its plural.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Noun(&'static str, &'static str);

/// Directories.
pub(crate) const DIRECTORY: Noun = Noun("directory", "directories");
/// Records of an owner.
pub(crate) const RECORD: Noun = Noun("record", "records");
/// Directory entries.
pub(crate) const ENTRY: Noun = Noun("entry", "entries");
/// Inodes.
pub(crate) const INODE: Noun = Noun("inode", "inodes");
/// What would be lost.
pub(crate) const LOSS: Noun = Noun("loss", "losses");
/// Living owners.
pub(crate) const ROOT: Noun = Noun("root", "roots");
/// Owners.
pub(crate) const OWNER: Noun = Noun("owner", "owners");

/// `1 directory`, `24 directories`.
pub(crate) fn count(n: u64, noun: Noun) -> String {
    format!("{} {}", number(n), if n == 1 { noun.0 } else { noun.1 })
}

/// An instant in UTC, to the second: `2026-08-01 10:11:12 UTC`.
pub(crate) fn instant(at: Timestamp) -> String {
    match jiff::Timestamp::from_second(at.seconds()) {
        Ok(at) => at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        Err(_) => format!("{} seconds after 1970", at.seconds()),
    }
}

/// An instant as it stands in names: `20260801T101112Z`, in UTC.
pub(crate) fn stamp(at: Timestamp) -> String {
    match jiff::Timestamp::from_second(at.seconds()) {
        Ok(at) => at.strftime("%Y%m%dT%H%M%SZ").to_string(),
        Err(_) => at.seconds().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_a_terminal_would_act_on_survives_in_a_name() {
        assert_eq!(name(b"a\nb\x1b[31m\x07"), r"a\nb\x1b[31m\x07");
        assert_eq!(name("\u{9b}31m".as_bytes()), r"\u{9b}31m");
        assert_eq!(name(b"caf\xe9"), r"caf\xe9");
        assert_eq!(name("grüße 日本".as_bytes()), "grüße 日本");
    }

    #[test]
    fn nothing_that_hides_or_reorders_text_survives_in_a_name() {
        assert_eq!(name("evil\u{202e}txt\u{200b}".as_bytes()), r"evil\u{202e}txt\u{200b}");
        assert_eq!(name("a\u{2028}b\u{feff}\u{e0041}".as_bytes()), r"a\u{2028}b\u{feff}\u{e0041}");
    }

    #[test]
    fn an_escaped_name_can_not_be_mistaken_for_another() {
        assert_ne!(name(b"a\\nb"), name(b"a\nb"));
        assert_eq!(sentence(r"cannot read a\xffb"), r"cannot read a\xffb");
    }

    #[test]
    fn sizes_never_read_1024_of_a_unit() {
        let cases = [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (1_048_575, "1.0 MiB")];
        for (n, shown) in cases {
            assert_eq!(bytes(n), shown);
        }
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
    }

    #[test]
    fn sizes_from_the_command_line_are_binary_and_bounded() {
        assert_eq!(parse_bytes("10GiB"), Ok(10 << 30));
        assert_eq!(parse_bytes("10 k"), Ok(10_240));
        assert_eq!(parse_bytes("7"), Ok(7));
        assert_eq!(parse_bytes("x"), Err("`x` does not start with a whole number".into()));
        assert_eq!(parse_bytes("1.5G"), Err("`.5g` is not one of B, KiB, MiB, GiB, TiB".into()));
        assert!(parse_bytes("99999999999T").is_err());
    }

    #[test]
    fn counts_have_one_plural_and_thousands_apart() {
        assert_eq!(count(1, DIRECTORY), "1 directory");
        assert_eq!(count(0, ENTRY), "0 entries");
        assert_eq!(number(3_467_038), "3,467,038");
        assert_eq!(number(100), "100");
    }

    #[test]
    fn columns_are_counted_as_a_terminal_shows_them() {
        assert_eq!(pad("日本", 6), "日本  ");
        assert_eq!(pad_left("é", 3), "  é");
        assert_eq!(pad("long", 2), "long");
    }

    #[test]
    fn instants_are_in_utc() {
        assert_eq!(instant(Timestamp::new(0, 5)), "1970-01-01 00:00:00 UTC");
        assert_eq!(stamp(Timestamp::new(86_399, 5)), "19700101T235959Z");
    }
}
