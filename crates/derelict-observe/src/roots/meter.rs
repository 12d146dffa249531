//! Fed by the one walk of a workspace: passes everything on to the gauge, and on the way remembers what
//! lies at the top level and whether a checkout lies anywhere below it.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use derelict_core::evidence::Layout;
use derelict_core::ids::escaped;
use derelict_git::{Meter, Stat};
use rustix::fs::FileType;

use crate::probes::gauge::Gauge;
use crate::roots::{EntryKind, Expected};

/// Names that make their directory a checkout of some version control system, whatever they are.
const CHECKOUTS: [&[u8]; 4] = [b".git", b".jj", b".hg", b".svn"];

/// Names that together make a bare repository.
const BARE: [&[u8]; 3] = [b"HEAD", b"objects", b"refs"];

/// Entries of the top level that are told by name; of more, the number is enough.
const TOLD: usize = 8;

/// The gauge and the layout.
pub(crate) struct LayoutMeter<'g, 'v> {
    pub(crate) gauge: &'g mut Gauge<'v>,
    homes: &'g [PathBuf],
    top: Vec<(Vec<u8>, FileType)>,
    nested: Option<PathBuf>,
    /// Which of the names of a bare repository were met in a directory.
    bare: HashMap<Vec<u8>, [bool; 3]>,
}

impl<'g, 'v> LayoutMeter<'g, 'v> {
    /// Passes on to `gauge`. `homes` are the ends of paths of directories that hold work trees.
    pub(crate) fn new(gauge: &'g mut Gauge<'v>, homes: &'g [PathBuf]) -> Self {
        Self { gauge, homes, top: Vec::new(), nested: None, bare: HashMap::new() }
    }

    /// What was met, measured against what was expected.
    pub(crate) fn layout(mut self, expected: &[Expected]) -> Layout {
        self.top.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let as_expected = |(name, kind): &(Vec<u8>, FileType)| {
            expected.iter().any(|entry| entry.name.as_bytes() == name.as_slice() && is(entry.kind, *kind))
        };
        if self.top.len() != expected.len() || !self.top.iter().all(as_expected) {
            return Layout::Unexpected(self.told());
        }
        self.nested.map_or(Layout::Expected, Layout::NestedCheckout)
    }

    fn told(&self) -> String {
        let mut names: Vec<String> = self.top.iter().take(TOLD).map(|(name, kind)| told(name, *kind)).collect();
        if let Some(more) = self.top.len().checked_sub(TOLD).filter(|more| *more > 0) {
            names.push(format!("and {more} more"));
        }
        if names.is_empty() { "nothing at all".to_owned() } else { names.join(", ") }
    }

    fn consider(&mut self, path: &[u8], kind: FileType) {
        let cut = path.iter().rposition(|byte| *byte == b'/');
        let (parent, name) = cut.map_or((&b""[..], path), |cut| (&path[..cut], &path[cut + 1..]));
        if parent.is_empty() {
            self.top.push((name.to_vec(), kind));
        }
        if self.nested.is_some() {
            return;
        }
        let in_home = self.homes.iter().any(|home| ends_with(parent, home.as_os_str().as_bytes()));
        if CHECKOUTS.contains(&name) || in_home || self.completes_bare(parent, name) {
            self.nested = Some(PathBuf::from(OsStr::from_bytes(parent)));
        }
    }

    fn completes_bare(&mut self, parent: &[u8], name: &[u8]) -> bool {
        let Some(which) = BARE.iter().position(|part| *part == name) else { return false };
        let met = self.bare.entry(parent.to_vec()).or_default();
        met[which] = true;
        met.iter().all(|part| *part)
    }
}

impl Meter for LayoutMeter<'_, '_> {
    fn seen(&mut self, path: &[u8], stat: &Stat) {
        self.gauge.seen(path, stat);
        if !path.is_empty() {
            self.consider(path, stat.kind());
        }
    }

    fn unreadable(&mut self, path: &[u8], error: &io::Error) {
        self.gauge.unreadable(path, error);
    }

    fn mount(&mut self, path: &[u8]) {
        self.gauge.mount(path);
    }
}

/// Whether a path ends in whole components of another.
fn ends_with(path: &[u8], end: &[u8]) -> bool {
    path.strip_suffix(end).is_some_and(|before| before.is_empty() || before.ends_with(b"/"))
}

fn is(expected: EntryKind, kind: FileType) -> bool {
    match expected {
        EntryKind::Directory => kind == FileType::Directory,
        EntryKind::File => kind == FileType::RegularFile,
    }
}

fn told(name: &[u8], kind: FileType) -> String {
    let name = escaped(Path::new(OsStr::from_bytes(name)));
    match kind {
        FileType::Directory => format!("{name}/"),
        FileType::RegularFile => name,
        FileType::Symlink => format!("{name} (a symlink)"),
        FileType::Fifo | FileType::Socket | FileType::CharacterDevice | FileType::BlockDevice | FileType::Unknown => {
            format!("{name} (a special file)")
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests build what is looked at")]
mod tests {
    use super::*;
    use crate::probes::accounting::Accounting;
    use std::os::fd::AsFd as _;

    fn layout(make: impl FnOnce(&Path)) -> Layout {
        let world = tempfile::tempdir().expect("because a temporary directory can be made");
        for side in ["home", "session"] {
            std::fs::create_dir(world.path().join(side)).unwrap();
        }
        make(world.path());
        let mut gauge = Gauge::new(world.path(), Accounting::Content, None, &|_| false);
        let homes = [PathBuf::from(".paperclip/worktrees"), PathBuf::from(".paperclip-worktrees")];
        let mut meter = LayoutMeter::new(&mut gauge, &homes);
        derelict_git::measure(std::fs::File::open(world.path()).unwrap().as_fd(), &mut meter);
        let expected = ["home", "session"].map(|name| Expected { name: name.into(), kind: EntryKind::Directory });
        meter.layout(&expected)
    }

    fn dir(below: &'static str) -> impl FnOnce(&Path) {
        move |root| std::fs::create_dir_all(root.join(below)).unwrap()
    }

    #[test]
    fn exactly_the_expected_entries_of_the_expected_kinds_are_the_layout() {
        assert_eq!(layout(|_| {}), Layout::Expected);
        assert_eq!(layout(dir("wt-7")), Layout::Unexpected("home/, session/, wt-7/".into()));
        assert_eq!(layout(dir(".git")), Layout::Unexpected(".git/, home/, session/".into()));
        let other_kind = |root: &Path| {
            std::fs::remove_dir(root.join("session")).unwrap();
            std::os::unix::fs::symlink("home", root.join("session")).unwrap();
        };
        assert_eq!(layout(other_kind), Layout::Unexpected("home/, session (a symlink)".into()));
        let missing = |root: &Path| std::fs::remove_dir(root.join("session")).unwrap();
        assert_eq!(layout(missing), Layout::Unexpected("home/".into()));
        let empty = |root: &Path| ["home", "session"].iter().for_each(|s| std::fs::remove_dir(root.join(s)).unwrap());
        assert_eq!(layout(empty), Layout::Unexpected("nothing at all".into()));
    }

    #[test]
    fn a_checkout_at_any_depth_is_found_whatever_made_it() {
        for (below, at) in [
            ("home/src/repo/.git", "home/src/repo"),
            ("session/.git", "session"),
            ("home/a/b/c/d/e/f/.jj", "home/a/b/c/d/e/f"),
            ("home/x/.hg", "home/x"),
            ("session/.paperclip/worktrees/one", "session/.paperclip/worktrees"),
            ("home/.paperclip-worktrees/one", "home/.paperclip-worktrees"),
        ] {
            assert_eq!(layout(dir(below)), Layout::NestedCheckout(at.into()), "{below}");
        }
        let git_file = |root: &Path| std::fs::write(root.join("home/.git"), "gitdir: /elsewhere\n").unwrap();
        assert_eq!(layout(git_file), Layout::NestedCheckout("home".into()));
        let bare = |root: &Path| {
            dir("home/mirror/objects")(root);
            dir("home/mirror/refs")(root);
            std::fs::write(root.join("home/mirror/HEAD"), "ref: refs/heads/main\n").unwrap();
        };
        assert_eq!(layout(bare), Layout::NestedCheckout("home/mirror".into()));
    }

    #[test]
    fn what_only_looks_like_a_checkout_is_none() {
        assert_eq!(layout(dir("home/.paperclip/worktrees")), Layout::Expected);
        assert_eq!(layout(dir("home/.paperclip-worktrees")), Layout::Expected);
        assert_eq!(layout(dir("home/objects")), Layout::Expected);
        assert_eq!(layout(dir("home/.github")), Layout::Expected);
    }
}
