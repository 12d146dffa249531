//! What would not go, each named once by the outermost obstruction, in bounded memory. Why
//! something would not go is found out in `remove`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use derelict_core::outcome::Refusal;

/// How many obstructions are named; a tree with more than that is described by its number.
const MOST_NAMED: usize = 100;

/// A path longer than this, in bytes, is cut: no system call would take it, and no person read it.
const LONGEST_PATH: usize = 4096;

#[derive(Debug)]
pub(crate) struct Refusals {
    named: Vec<Refusal>,
    unnamed: u64,
}

impl Refusals {
    pub(crate) fn none() -> Self {
        Self { named: Vec::new(), unnamed: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    /// Names an obstruction, unless one that lies around it is named already. Those that lie inside
    /// it are forgotten: whoever mends it will be told of them, if they are left.
    pub(crate) fn add(&mut self, path: PathBuf, why: String) {
        let (path, why) = shortened(path, why);
        if self.named.iter().any(|known| path.starts_with(&known.path)) {
            return;
        }
        self.named.retain(|known| !known.path.starts_with(&path));
        if self.named.len() < MOST_NAMED {
            self.named.push(Refusal { path, why });
        } else {
            self.unnamed += 1;
        }
    }

    /// All of them, with one more for those that are not named.
    pub(crate) fn into_vec(mut self, tree: &Path) -> Vec<Refusal> {
        if self.unnamed > 0 {
            let why = format!("{} more entries in it would not go and are not named", self.unnamed);
            self.named.push(Refusal { path: tree.to_owned(), why });
        }
        self.named
    }
}

fn shortened(path: PathBuf, why: String) -> (PathBuf, String) {
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() <= LONGEST_PATH {
        return (path, why);
    }
    let end = bytes[..LONGEST_PATH].iter().rposition(|byte| *byte == b'/').unwrap_or(LONGEST_PATH);
    let levels = bytes[end..].iter().filter(|byte| **byte == b'/').count();
    (PathBuf::from(OsStr::from_bytes(&bytes[..end])), format!("{why} ({levels} levels below, too deep to name)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(refusals: Refusals) -> Vec<(String, String)> {
        let all = refusals.into_vec(Path::new("/t")).into_iter();
        all.map(|refusal| (refusal.path.display().to_string(), refusal.why)).collect()
    }

    #[test]
    fn an_obstruction_is_named_once_and_by_the_outermost() {
        let mut refusals = Refusals::none();
        for path in ["/t/a/b", "/t/a/c/d", "/t/ab", "/t/a", "/t/a/e", "/t/ab"] {
            refusals.add(path.into(), "stuck".into());
        }
        assert_eq!(named(refusals), [("/t/ab".into(), "stuck".into()), ("/t/a".into(), "stuck".into())]);
    }

    #[test]
    fn a_tree_full_of_obstructions_is_named_in_bounded_memory() {
        let mut refusals = Refusals::none();
        (0..MOST_NAMED + 7).for_each(|n| refusals.add(format!("/t/{n}").into(), "stuck".into()));
        let named = named(refusals);
        assert_eq!(named.len(), MOST_NAMED + 1);
        assert_eq!(named[MOST_NAMED], ("/t".into(), "7 more entries in it would not go and are not named".into()));
    }

    #[test]
    fn a_path_too_long_to_use_is_cut_at_a_component() {
        let mut refusals = Refusals::none();
        refusals.add(PathBuf::from("/t".to_owned() + &"/abcdefg".repeat(1000)), "stuck".into());
        let named = named(refusals);
        assert_eq!(named[0].0, "/t".to_owned() + &"/abcdefg".repeat(511));
        assert_eq!(named[0].1, "stuck (489 levels below, too deep to name)");
    }
}
