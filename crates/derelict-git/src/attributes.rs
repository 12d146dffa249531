//! The few attributes of a path that change what git makes of a file's bytes: which conversion stands
//! between a file and its object. Not here: the conversions.
//!
//! The user's and the machine's attributes files are the weakest; an attributes file that the repository's own
//! configuration names is not read, and a file that differs is told as changed then, which keeps.

use bstr::ByteSlice;
use gix_glob::Pattern;
use gix_glob::pattern::Case;
use gix_glob::wildmatch::Mode;

/// An attributes file larger than this is not read, and assigns nothing.
pub(crate) const ATTRIBUTES_BYTES: u64 = 4 * 1024 * 1024;

/// Lines of one file, and assignments on one line, that are read; what is beyond assigns nothing.
const MOST_LINES: usize = 50_000;
const MOST_ASSIGNMENTS: usize = 64;

/// Macros that are made of macros; git itself has no bound.
const MACRO_DEPTH: usize = 8;

/// What stands between a file and its object.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Conversion {
    /// The name of a filter.
    pub(crate) filter: Option<Vec<u8>>,
    /// The encoding of the file; the object is UTF-8.
    pub(crate) encoding: Option<Vec<u8>>,
    /// `$Id$` is filled in.
    pub(crate) ident: bool,
    /// Line endings may have been converted.
    pub(crate) line_endings: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Set,
    Unset,
    Value(Vec<u8>),
    Unspecified,
}

type Assignment = (Vec<u8>, State);

#[derive(Debug, Default)]
struct List {
    /// The directory the patterns are relative to, with a slash at its end.
    base: Vec<u8>,
    lines: Vec<(Pattern, Vec<Assignment>)>,
    mentions_lfs: bool,
}

/// The attributes in force where the walk stands.
#[derive(Debug, Default)]
pub(crate) struct Attributes {
    /// Outermost first.
    lists: Vec<List>,
    /// `info/attributes`, which overrides them all.
    info: List,
    macros: Vec<Macro>,
    macros_mention_lfs: bool,
}

/// A macro and what it stands for.
type Macro = (Vec<u8>, Vec<Assignment>);

impl Attributes {
    /// With the attributes that every repository has, weakest first, and the repository's own `info/attributes`.
    pub(crate) fn new(everywhere: &[Vec<u8>], info: Option<&[u8]>) -> Self {
        let mut attributes = Self::default();
        everywhere.iter().for_each(|text| attributes.push(text, b""));
        if let Some(text) = info {
            attributes.info = attributes.parsed(text, b"");
        }
        attributes
    }

    /// Adds an attributes file; `base` is the directory it lies in, empty for the top.
    pub(crate) fn push(&mut self, text: &[u8], base: &[u8]) {
        let list = self.parsed(text, base);
        self.lists.push(list);
    }

    pub(crate) fn depth(&self) -> usize {
        self.lists.len()
    }

    /// Forgets the attributes of directories that were left.
    pub(crate) fn truncate(&mut self, depth: usize) {
        self.lists.truncate(depth);
    }

    /// Whether any path may have git-lfs as its filter, so that each has to be asked for.
    pub(crate) fn mention_lfs(&self) -> bool {
        self.macros_mention_lfs || self.info.mentions_lfs || self.lists.iter().any(|list| list.mentions_lfs)
    }

    /// What stands between the file at this path and its object. `configured` says whether the configuration
    /// converts line endings of files that no attribute is about.
    pub(crate) fn of(&self, path: &[u8], configured: LineEndings) -> Conversion {
        let mut known: Vec<(Vec<u8>, State)> = Vec::new();
        for list in std::iter::once(&self.info).chain(self.lists.iter().rev()) {
            let Some(below) = path.strip_prefix(list.base.as_slice()) else { continue };
            let name_at = below.rfind_byte(b'/').map(|slash| slash + 1);
            for (pattern, assignments) in list.lines.iter().rev() {
                let mode = Mode::NO_MATCH_SLASH_LITERAL;
                if pattern.matches_repo_relative_path(below.as_bstr(), name_at, Some(false), Case::Sensitive, mode) {
                    self.assign(assignments, &mut known, 0);
                }
            }
        }
        let get = |name: &[u8]| known.iter().find(|(known, _)| known == name).map(|(_, state)| state);
        let value = |name: &[u8]| match get(name) {
            Some(State::Value(value)) => Some(value.clone()),
            Some(State::Set | State::Unset | State::Unspecified) | None => None,
        };
        let text = match get(b"text").or(get(b"crlf")) {
            Some(State::Unset) => false,
            Some(State::Set | State::Value(_)) => true,
            Some(State::Unspecified) | None => value(b"eol").is_some() || configured == LineEndings::Converted,
        };
        Conversion {
            filter: value(b"filter"),
            encoding: value(b"working-tree-encoding"),
            ident: get(b"ident") == Some(&State::Set),
            line_endings: text,
        }
    }

    /// What was assigned first, counted from the innermost and last, stays.
    fn assign(&self, assignments: &[Assignment], known: &mut Vec<Assignment>, depth: usize) {
        for (name, state) in assignments.iter().rev() {
            if known.iter().any(|(known, _)| known == name) {
                continue;
            }
            known.push((name.clone(), state.clone()));
            let expands = *state == State::Set && depth < MACRO_DEPTH;
            let made_of = self.macros.iter().rev().find(|(known, _)| known == name).filter(|_| expands);
            if let Some((_, made_of)) = made_of {
                self.assign(made_of, known, depth + 1);
            } else if name == b"binary" && expands {
                self.assign(&[(b"text".to_vec(), State::Unset)], known, depth + 1);
            }
        }
    }

    fn parsed(&mut self, text: &[u8], base: &[u8]) -> List {
        let mut list = List { base: base.to_vec(), ..List::default() };
        if !base.is_empty() {
            list.base.push(b'/');
        }
        for line in text.lines().take(MOST_LINES) {
            let line = line.trim_start();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            if let Some(rest) = line.strip_prefix(b"[attr]") {
                let mut words = rest.fields();
                // Macros count at the top only.
                if let Some(name) = words.next().filter(|_| base.is_empty() && self.macros.len() < MOST_ASSIGNMENTS) {
                    let made_of: Vec<Assignment> = words.take(MOST_ASSIGNMENTS).map(assignment).collect();
                    self.macros_mention_lfs |= made_of.iter().any(is_lfs);
                    self.macros.push((name.to_vec(), made_of));
                }
                continue;
            }
            let Some((pattern, rest)) = pattern(line) else { continue };
            if let Some(pattern) = Pattern::from_bytes_without_negation(&pattern).filter(|_| !pattern.starts_with(b"!"))
            {
                let assignments: Vec<Assignment> = rest.fields().take(MOST_ASSIGNMENTS).map(assignment).collect();
                list.mentions_lfs |= assignments.iter().any(is_lfs);
                list.lines.push((pattern, assignments));
            }
        }
        list
    }
}

/// Whether the configuration converts line endings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineEndings {
    Converted,
    Kept,
}

/// The pattern that a line begins with, without its quotes, and the rest.
fn pattern(line: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let Some(quoted) = line.strip_prefix(b"\"") else {
        let end = line.find_byteset(b" \t\r").unwrap_or(line.len());
        return Some((line[..end].to_vec(), &line[end..]));
    };
    let (mut pattern, mut at) = (Vec::new(), 0);
    loop {
        match *quoted.get(at)? {
            b'"' => return Some((pattern, &quoted[at + 1..])),
            b'\\' => {
                let (byte, length) = unescaped(&quoted[at + 1..])?;
                pattern.push(byte);
                at += 1 + length;
            }
            byte => {
                pattern.push(byte);
                at += 1;
            }
        }
    }
}

/// One character behind a backslash, as C has them, and how long it was.
fn unescaped(rest: &[u8]) -> Option<(u8, usize)> {
    let byte = *rest.first()?;
    let simple =
        [(b'a', 7), (b'b', 8), (b'f', 12), (b'n', 10), (b'r', 13), (b't', 9), (b'v', 11), (b'\\', 92), (b'"', 34)];
    if let Some((_, meant)) = simple.iter().find(|(letter, _)| *letter == byte) {
        return Some((*meant, 1));
    }
    let digits = rest.get(..3)?;
    let octal = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    u8::from_str_radix(octal?, 8).ok().map(|meant| (meant, 3))
}

fn is_lfs((name, state): &Assignment) -> bool {
    name == b"filter" && matches!(state, State::Value(value) if value == b"lfs")
}

fn assignment(word: &[u8]) -> Assignment {
    match (word.strip_prefix(b"-"), word.strip_prefix(b"!"), word.split_once_str("=")) {
        (Some(name), _, _) => (name.to_vec(), State::Unset),
        (None, Some(name), _) => (name.to_vec(), State::Unspecified),
        (None, None, Some((name, value))) => (name.to_vec(), State::Value(value.to_vec())),
        (None, None, None) => (word.to_vec(), State::Set),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conversion(info: &str, top: &str, deep: &str, path: &str) -> Conversion {
        let mut attributes = Attributes::new(&[], Some(info.as_bytes()));
        attributes.push(top.as_bytes(), b"");
        attributes.push(deep.as_bytes(), b"d");
        attributes.of(path.as_bytes(), LineEndings::Kept)
    }

    #[test]
    fn the_innermost_and_last_line_decides_and_the_repositorys_own_file_overrides() {
        assert!(conversion("", "*.x text", "", "a.x").line_endings);
        assert!(!conversion("", "*.x text\n*.x -text", "", "a.x").line_endings);
        assert!(!conversion("", "*.x text", "*.x -text", "d/a.x").line_endings);
        assert!(conversion("", "*.x text", "*.x -text", "e/a.x").line_endings);
        assert!(conversion("*.x text", "*.x text", "*.x -text", "d/a.x").line_endings);
        assert!(!conversion("", "*.x !text", "", "a.x").line_endings);
        assert!(!conversion("", "/a.x text", "", "d/a.x").line_endings);
        assert!(!conversion("", "dir/ text", "", "dir/a").line_endings);
    }

    #[test]
    fn filters_encodings_idents_and_macros_are_told() {
        let lfs = conversion("", "[attr]big filter=lfs diff=lfs -text\n*.bin big\n", "", "d/x.bin");
        assert_eq!(lfs.filter.as_deref(), Some(&b"lfs"[..]));
        assert!(!lfs.line_endings);
        assert_eq!(conversion("", "*.bin filter=lfs", "*.bin -filter", "d/x.bin").filter, None);
        assert_eq!(conversion("", "* text=auto\n*.bin binary", "", "x.bin"), Conversion::default());
        let both = conversion("", "\"a b\\t*\" ident working-tree-encoding=UTF-16LE", "", "a b\tc");
        assert!(both.ident && both.encoding.as_deref() == Some(b"UTF-16LE"));
        assert!(conversion("", "*.c eol=crlf", "", "x.c").line_endings);
    }
}
