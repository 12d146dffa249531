//! Ignore rules: `.gitignore` of each directory, the repository's `info/exclude`, and the user's own file.
//!
//! An ignore file that the repository's own configuration names is not read. It could only turn "untracked" into
//! "ignored", and both keep, save for build output that the repository itself does not know as such.

use std::path::{Path, PathBuf};

use bstr::ByteSlice;
use gix_glob::pattern::Case;
use gix_ignore::Search;
use gix_ignore::search::{Ignore, pattern_matching_relative_path};

/// An ignore file larger than this is not read, and ignores nothing.
pub(crate) const IGNORE_BYTES: u64 = 4 * 1024 * 1024;

/// The rules in force where the walk stands, outermost first.
#[derive(Default)]
pub(crate) struct Rules {
    lists: Vec<Search>,
}

impl Rules {
    /// Adds the rules of one file; `base` is the directory they are relative to, from the top of the
    /// work tree, empty for the top itself.
    pub(crate) fn push(&mut self, text: &[u8], base: &[u8]) {
        use std::os::unix::ffi::OsStrExt;
        let mut list = Search::default();
        let source: PathBuf = Path::new(std::ffi::OsStr::from_bytes(base)).join(".gitignore");
        // A base that cannot be represented leaves the rules out, which ignores less and keeps more.
        let added = list.add_patterns_buffer(text, source, Some(Path::new("")), Ignore::default());
        if added.is_ok() {
            self.lists.push(list);
        }
    }

    pub(crate) fn depth(&self) -> usize {
        self.lists.len()
    }

    /// Forgets the rules of directories that were left.
    pub(crate) fn truncate(&mut self, depth: usize) {
        self.lists.truncate(depth);
    }

    /// Whether the last rule that matches a path ignores it. An ignored parent is the walk's business.
    pub(crate) fn ignores(&self, path: &[u8], is_dir: IsDir) -> bool {
        let is_dir = Some(matches!(is_dir, IsDir::Yes));
        let name_at = path.rfind_byte(b'/').map(|slash| slash + 1);
        let matched =
            self.lists.iter().rev().flat_map(|list| list.patterns.iter().rev()).find_map(|list| {
                pattern_matching_relative_path(list, path.as_bstr(), name_at, is_dir, Case::Sensitive)
            });
        matched.is_some_and(|matched| !matched.pattern.is_negative())
    }
}

/// Rules that end in a slash match directories only.
#[derive(Debug, Clone, Copy)]
pub(crate) enum IsDir {
    Yes,
    No,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_and_last_rule_decides() {
        let mut rules = Rules::default();
        rules.push(b"*.log\nbuild/\n/top\n", b"");
        rules.push(b"!keep.log\n", b"sub");
        assert!(rules.ignores(b"a.log", IsDir::No));
        assert!(rules.ignores(b"sub/a.log", IsDir::No));
        assert!(!rules.ignores(b"sub/keep.log", IsDir::No));
        assert!(rules.ignores(b"keep.log", IsDir::No));
        assert!(rules.ignores(b"x/build", IsDir::Yes));
        assert!(!rules.ignores(b"x/build", IsDir::No));
        assert!(rules.ignores(b"top", IsDir::No));
        assert!(!rules.ignores(b"sub/top", IsDir::No));
        rules.truncate(1);
        assert!(rules.ignores(b"sub/keep.log", IsDir::No));
    }
}
