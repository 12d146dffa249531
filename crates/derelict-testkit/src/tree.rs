//! A whole tree as it was, to prove that not a byte, not a time and not a file of it differs, and
//! trees that are hard to walk. Not here: access times, which reading may change.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};

/// Everything below a directory, and the directory itself, at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    root: PathBuf,
    entries: BTreeMap<PathBuf, Entry>,
}

/// One entry of it. The number of links is left out: it changes with a sibling's removal.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    kind: Kind,
    mode: u32,
    owner: (u32, u32),
    size: u64,
    modified: (i64, i64),
    inode: (u64, u64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Directory,
    File { content: u64 },
    Link { target: PathBuf },
    Other(&'static str),
}

impl Snapshot {
    /// Reads the tree at `root`; mounts are entered.
    ///
    /// # Panics
    /// When something of it cannot be read.
    #[must_use]
    pub fn of(root: impl AsRef<Path>) -> Self {
        let root = root.as_ref().to_owned();
        let mut entries = BTreeMap::new();
        let mut open = vec![root.clone()];
        while let Some(path) = open.pop() {
            let entry = entry(&path);
            if entry.kind == Kind::Directory {
                open.extend(children(&path));
            }
            entries.insert(relative(&path, &root), entry);
        }
        Self { root, entries }
    }

    /// Leaves out everything at and below a path.
    #[must_use]
    pub fn without(mut self, path: impl AsRef<Path>) -> Self {
        let below = relative(path.as_ref(), &self.root);
        self.entries.retain(|entry, _| !entry.starts_with(&below));
        self
    }

    /// Leaves out one entry and keeps what is below it.
    #[must_use]
    pub fn without_entry(mut self, path: impl AsRef<Path>) -> Self {
        self.entries.remove(&relative(path.as_ref(), &self.root));
        self
    }

    /// How many entries there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// What differs between this and a later one, each with what became of it.
    #[must_use]
    pub fn differences(&self, later: &Self) -> Vec<String> {
        let gone = self.entries.keys().filter(|path| !later.entries.contains_key(*path));
        let mut found: Vec<String> = gone.map(|path| format!("gone: {}", path.display())).collect();
        for (path, now) in &later.entries {
            match self.entries.get(path) {
                None => found.push(format!("new: {}", path.display())),
                Some(before) if before != now => {
                    found.push(format!("differs: {}: {before:?} became {now:?}", path.display()));
                }
                Some(_) => {}
            }
        }
        found
    }

    /// Checks that the tree is still exactly this.
    ///
    /// # Panics
    /// When anything differs, naming all of it.
    #[track_caller]
    pub fn assert_unchanged(&self) {
        self.assert_same(&Self::of(&self.root));
    }

    /// Checks that a later snapshot is exactly this.
    ///
    /// # Panics
    /// When anything differs, naming all of it.
    #[track_caller]
    pub fn assert_same(&self, later: &Self) {
        let differences = self.differences(later);
        assert!(differences.is_empty(), "{} differs:\n{}", self.root.display(), differences.join("\n"));
    }
}

fn entry(path: &Path) -> Entry {
    let meta =
        std::fs::symlink_metadata(path).unwrap_or_else(|error| panic!("cannot stat {}: {error}", path.display()));
    let kind = if meta.is_dir() {
        Kind::Directory
    } else if meta.is_file() {
        Kind::File { content: digest(&crate::scratch::read(path)) }
    } else if meta.is_symlink() {
        let target = std::fs::read_link(path);
        Kind::Link { target: target.unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display())) }
    } else if meta.file_type().is_fifo() {
        Kind::Other("fifo")
    } else if meta.file_type().is_socket() {
        Kind::Other("socket")
    } else {
        Kind::Other("device")
    };
    Entry {
        kind,
        mode: meta.mode(),
        owner: (meta.uid(), meta.gid()),
        size: meta.size(),
        modified: (meta.mtime(), meta.mtime_nsec()),
        inode: (meta.dev(), meta.ino()),
    }
}

fn digest(content: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish()
}

fn children(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).unwrap_or_else(|error| panic!("cannot list {}: {error}", path.display()));
    entries.map(|entry| entry.expect("because the directory is being listed").path()).collect()
}

fn relative(path: &Path, root: &Path) -> PathBuf {
    path.strip_prefix(root).expect("because it lies below the root").to_owned()
}

/// The size on disk of everything at and below a path whose last link lies there: what removing it
/// frees. Each inode counts once.
///
/// # Panics
/// When something of it cannot be read.
#[must_use]
pub fn bytes_freed_with(path: &Path) -> u64 {
    let mut inodes: BTreeMap<(u64, u64), (u64, u64, u64)> = BTreeMap::new();
    let mut open = vec![path.to_owned()];
    while let Some(path) = open.pop() {
        let meta = std::fs::symlink_metadata(&path);
        let meta = meta.unwrap_or_else(|error| panic!("cannot stat {}: {error}", path.display()));
        let links = if meta.is_dir() { 1 } else { meta.nlink() };
        inodes.entry((meta.dev(), meta.ino())).or_insert((links, 0, meta.blocks() * 512)).1 += 1;
        if meta.is_dir() {
            open.extend(children(&path));
        }
    }
    inodes.values().filter(|(links, seen, _)| links == seen).map(|(_, _, bytes)| bytes).sum()
}

/// Makes a chain of `levels` directories below `top`, each of this name, with one file at the bottom.
/// It may be deeper than any path can say.
///
/// # Panics
/// When that fails.
pub fn deep(top: &Path, name: &str, levels: usize) {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    let mut at = rustix::fs::open(top, flags, Mode::empty()).expect("because the top is there");
    for _ in 0..levels {
        rustix::fs::mkdirat(&at, name, Mode::RWXU).expect("because a directory can be made");
        at = rustix::fs::openat(&at, name, flags, Mode::empty()).expect("because it was just made");
    }
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::openat(&at, "bottom", flags, Mode::RUSR | Mode::WUSR).expect("because a file can be made");
    rustix::fs::statat(&at, "bottom", AtFlags::SYMLINK_NOFOLLOW).expect("because it was just made");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::{Scratch, mkdir, remove, symlink, write};

    fn differences(change: impl FnOnce(&Path)) -> Vec<String> {
        let scratch = Scratch::new();
        write(scratch.path().join("d/f"), "x");
        symlink("d", scratch.path().join("l"));
        let before = Snapshot::of(scratch.path());
        change(scratch.path());
        let differences = before.differences(&Snapshot::of(scratch.path()));
        differences.iter().map(|line| line.split(": ").take(2).collect::<Vec<_>>().join(": ")).collect()
    }

    #[test]
    fn reading_changes_nothing() {
        assert_eq!(differences(|root| drop(crate::scratch::read(root.join("l/f")))), [""; 0]);
    }

    #[test]
    fn every_kind_of_change_is_seen() {
        assert_eq!(differences(|root| write(root.join("d/f"), "y")), ["differs: d/f"]);
        assert_eq!(differences(|root| crate::scratch::set_mode(&root.join("d"), 0o700)), ["differs: d"]);
        assert_eq!(differences(|root| remove(root.join("d/f"))), ["gone: d/f", "differs: d"]);
        assert_eq!(differences(|root| mkdir(root.join("d/n"))), ["differs: d", "new: d/n"]);
        let relinked = differences(|root| {
            remove(root.join("l"));
            symlink("e", root.join("l"));
        });
        assert_eq!(relinked, ["differs: ", "differs: l"]);
    }

    #[test]
    fn parts_can_be_left_out() {
        let scratch = Scratch::new();
        write(scratch.path().join("d/f"), "x");
        let all = Snapshot::of(scratch.path());
        let without = all.clone().without(scratch.path().join("d"));
        let entry_only = all.clone().without_entry(scratch.path().join("d"));
        assert_eq!((all.count(), without.count(), entry_only.count()), (3, 1, 2));
    }

    #[test]
    fn a_linked_file_is_freed_only_with_its_last_link() {
        let scratch = Scratch::new();
        write(scratch.path().join("a/f"), vec![1; 10_000]);
        let alone = bytes_freed_with(&scratch.path().join("a"));
        std::fs::hard_link(scratch.path().join("a/f"), scratch.path().join("g")).expect("because it can be linked");
        assert_eq!(alone - bytes_freed_with(&scratch.path().join("a")), 12_288);
    }

    #[test]
    fn a_tree_can_be_deeper_than_a_path_can_say() {
        let scratch = Scratch::new();
        deep(scratch.path(), "a-name-of-some-length-to-make-it-long-fast", 300);
        assert!(std::fs::exists(scratch.path().join("a-name-of-some-length-to-make-it-long-fast")).is_ok());
    }
}
