//! Changes that an operator does not want to keep: patterns of tracked files, as in a `.gitignore`. Such a change
//! is no loss, and is told as one that was let go. What no commit has is not covered: neither an untracked file nor
//! one that was only just added.

use bstr::ByteSlice;
use gix_glob::Pattern;
use gix_glob::pattern::{Case, Mode};
use gix_glob::wildmatch;

/// Patterns longer than this are refused: no path that anybody means is.
const LONGEST: usize = 1_024;

/// The patterns; none ignores nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IgnoredChanges {
    patterns: Vec<(String, Pattern)>,
}

/// A pattern that cannot be meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the pattern {pattern:?} of ignored changes {why}")]
pub struct BadPattern {
    pattern: String,
    why: &'static str,
}

impl IgnoredChanges {
    /// No change is ignored.
    pub const NONE: Self = Self { patterns: Vec::new() };

    /// Reads patterns: a name matches at any depth, one with a slash in front or within it from the top of a work
    /// tree, and one with a slash at its end everything below such a directory.
    ///
    /// # Errors
    /// [`BadPattern`] names the first that is empty, that takes itself back, or that would ignore everything.
    pub fn parse<T: AsRef<str>>(patterns: &[T]) -> Result<Self, BadPattern> {
        let patterns = patterns.iter().map(|text| Ok((text.as_ref().to_owned(), parsed(text.as_ref())?)));
        Ok(Self { patterns: patterns.collect::<Result<_, _>>()? })
    }

    /// The patterns as they were written, in their order.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.patterns.iter().map(|(text, _)| text.as_str())
    }

    /// Whether a tracked file of this path below its work tree, or a directory above it, matches.
    pub(crate) fn matches(&self, path: &[u8]) -> bool {
        self.patterns.iter().any(|(_, pattern)| {
            let directories = path.find_iter("/").map(|slash| (&path[..slash], true));
            directories.chain([(path, false)]).any(|(path, is_dir)| {
                let name_at = path.rfind_byte(b'/').map(|slash| slash + 1);
                let mode = wildmatch::Mode::NO_MATCH_SLASH_LITERAL;
                pattern.matches_repo_relative_path(path.as_bstr(), name_at, Some(is_dir), Case::Sensitive, mode)
            })
        })
    }
}

fn parsed(text: &str) -> Result<Pattern, BadPattern> {
    let bad = |why| Err(BadPattern { pattern: text.to_owned(), why });
    if text.trim().is_empty() {
        return bad("is empty");
    }
    if text.trim() != text {
        return bad("has white space at an end");
    }
    if text.len() > LONGEST {
        return bad("is longer than any path");
    }
    if text.chars().any(char::is_control) {
        return bad("has a control character in it");
    }
    if text.starts_with('!') {
        return bad("would take back another one; write only what is to be ignored");
    }
    if text.starts_with('#') {
        return bad("is a comment; write `\\#` for a name that begins so");
    }
    if text.ends_with('\\') {
        return bad("ends in a backslash that protects nothing");
    }
    if text.bytes().all(|byte| matches!(byte, b'*' | b'/' | b'?')) {
        return bad("would ignore every change");
    }
    match Pattern::from_bytes(text.as_bytes()) {
        Some(pattern) if !pattern.mode.contains(Mode::NEGATIVE) => Ok(pattern),
        Some(_) | None => bad("is no pattern"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        IgnoredChanges::parse(&[pattern]).expect("because it is well-formed").matches(path.as_bytes())
    }

    #[test]
    fn a_pattern_matches_as_in_an_ignore_file() {
        for (pattern, path) in [
            ("pixi.lock", "pixi.lock"),
            ("pixi.lock", "deep/down/pixi.lock"),
            ("/pixi.lock", "pixi.lock"),
            ("*.lock", "a/b.lock"),
            ("generated/", "x/generated/deep/file"),
            ("docs/*.md", "docs/a.md"),
            ("docs/**/x", "docs/a/b/x"),
            ("\\#odd", "#odd"),
        ] {
            assert!(matches(pattern, path), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("pixi.lock", "pixi.lock.orig"),
            ("pixi.lock", "pixi.toml"),
            ("/pixi.lock", "deep/pixi.lock"),
            ("generated/", "x/generated"),
            ("docs/*.md", "docs/deep/a.md"),
            ("docs/*.md", "other/docs/a.md"),
            ("Pixi.lock", "pixi.lock"),
        ] {
            assert!(!matches(pattern, path), "{pattern} {path}");
        }
    }

    #[test]
    fn a_pattern_that_cannot_be_meant_is_refused_by_name() {
        let refused = |text: &str| IgnoredChanges::parse(&["fine", text]).map_err(|error| error.to_string());
        let expected =
            "the pattern \"!keep\" of ignored changes would take back another one; write only what is to be ignored";
        assert_eq!(refused("!keep"), Err(expected.to_owned()));
        for text in ["", " ", "a ", "# a", "a\\", "*", "**", "/", "**/*", "?*", "a\nb", &"a".repeat(1_025)] {
            assert!(refused(text).is_err(), "{text:?}");
        }
    }
}
