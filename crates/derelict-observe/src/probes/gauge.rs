//! Fed by the one walk of a directory: what it occupies, who uses something in it, what is mounted in
//! it, and whether a live source lies in it. It keeps nothing per entry but inodes with several links.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use derelict_core::evidence::Holder;
use derelict_core::ids::{Timestamp, escaped};
use derelict_core::size::{Completeness, LinkedInode, Size};
use derelict_git::{Meter, Stat};
use rustix::fs::FileType;

use crate::probes::accounting::Accounting;
use crate::probes::holders::{By, Holders};
use crate::probes::marker;
use crate::seen::Inode;

/// Collects while one directory is walked.
pub(crate) struct Gauge<'v> {
    shown: &'v Path,
    accounting: Accounting,
    holders: Option<&'v Holders>,
    is_watched: &'v dyn Fn(Inode) -> bool,
    sole_bytes: u64,
    entries: u64,
    linked: HashMap<Inode, LinkedInode>,
    unread: Option<String>,
    mounts: Vec<Holder>,
    users: BTreeMap<usize, By>,
    met: BTreeSet<Inode>,
    newest: (i64, u32),
    written: (i64, u32),
    is_marked: bool,
}

/// What was collected.
#[derive(Debug)]
pub(crate) struct Gauged {
    pub(crate) size: Size,
    /// Processes and mounts inside.
    pub(crate) uses: Vec<Holder>,
    /// Directories of live sources that were met inside.
    pub(crate) met: BTreeSet<Inode>,
    /// What tells whether anything inside was written since.
    pub(crate) trace: Trace,
    /// Whether a marker may lie in it: one was met, or not everything could be read.
    pub(crate) is_marked: bool,
}

/// How many entries lie inside, and when the newest of them was last changed. Whoever writes, makes,
/// renames or removes anything inside changes one or the other: the kernel sets the time of change,
/// and nobody can set it back. The directory itself is left out, since the fence renames it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Trace {
    entries: u64,
    newest: (i64, u32),
    /// When the content of anything was last changed, the directory's own list of names included.
    written: (i64, u32),
}

impl Trace {
    /// Whether something was written, made, renamed or removed in it after `since`. Told by times of content: the
    /// time of change moves too when another name of a file goes, in a directory that has nothing to do with it.
    /// Where the file system's clock is another machine's, the two differ by what those clocks differ.
    pub(crate) fn was_written_after(&self, since: Timestamp) -> bool {
        let (seconds, nanoseconds) = self.written;
        Timestamp::new(seconds, nanoseconds) > since
    }
}

impl<'v> Gauge<'v> {
    /// `shown` is the directory's path for messages. Without `holders` nobody is seen to use it.
    pub(crate) fn new(
        shown: &'v Path,
        accounting: Accounting,
        holders: Option<&'v Holders>,
        is_watched: &'v dyn Fn(Inode) -> bool,
    ) -> Self {
        Self {
            shown,
            accounting,
            holders,
            is_watched,
            sole_bytes: 0,
            entries: 0,
            linked: HashMap::new(),
            unread: None,
            mounts: Vec::new(),
            users: BTreeMap::new(),
            met: BTreeSet::new(),
            newest: (i64::MIN, 0),
            written: (i64::MIN, 0),
            is_marked: false,
        }
    }

    /// What the walk came to.
    pub(crate) fn finish(self) -> Gauged {
        let mut linked: Vec<LinkedInode> = self.linked.into_values().collect();
        linked.sort_by_key(|inode| (inode.dev, inode.ino));
        let is_marked = self.is_marked || self.unread.is_some();
        let completeness = match self.unread {
            None => Completeness::Exact,
            Some(why) => Completeness::AtLeast { why },
        };
        let holders = self.holders;
        let processes =
            self.users.into_iter().filter_map(|(process, by)| holders.and_then(|holders| holders.holder(process, by)));
        Gauged {
            size: Size { sole_bytes: self.sole_bytes, entries: self.entries, linked, completeness },
            uses: processes.chain(self.mounts).collect(),
            met: self.met,
            trace: Trace { entries: self.entries, newest: self.newest, written: self.written },
            is_marked,
        }
    }

    fn at(&self, path: &[u8]) -> PathBuf {
        if path.is_empty() { self.shown.to_path_buf() } else { self.shown.join(OsStr::from_bytes(path)) }
    }
}

impl Meter for Gauge<'_> {
    fn seen(&mut self, path: &[u8], stat: &Stat) {
        // One that lies after its own change was set by somebody, and says nothing.
        if stat.mtime <= stat.ctime {
            self.written = self.written.max(stat.mtime);
        }
        if !path.is_empty() {
            self.newest = self.newest.max(stat.ctime);
            self.is_marked |= path == marker::NAME.as_bytes();
        }
        let inode = Inode { dev: stat.dev, ino: stat.ino };
        let bytes = self.accounting.bytes(stat);
        let is_directory = stat.kind() == FileType::Directory;
        self.entries += 1;
        // A directory's links are its subdirectories' way back, and go with it.
        if is_directory || stat.nlink <= 1 {
            self.sole_bytes += bytes;
        } else {
            let first = LinkedInode { dev: stat.dev, ino: stat.ino, links: stat.nlink, seen: 0, bytes };
            self.linked.entry(inode).or_insert(first).seen += 1;
        }
        if is_directory && (self.is_watched)(inode) {
            self.met.insert(inode);
        }
        for (process, by) in self.holders.into_iter().flat_map(|holders| holders.of(inode)) {
            let known = self.users.entry(process).or_insert(by);
            *known = by.min(*known);
        }
    }

    fn unreadable(&mut self, path: &[u8], error: &io::Error) {
        if self.unread.is_none() {
            self.unread = Some(format!("cannot read {}: {error}", escaped(&self.at(path))));
        }
    }

    fn mount(&mut self, path: &[u8]) {
        self.mounts.push(Holder::Mount(self.at(path)));
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests build what is looked at")]
mod tests {
    use super::*;
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::MetadataExt as _;

    fn gauged(path: &Path, is_watched: &dyn Fn(Inode) -> bool) -> Gauged {
        let top = std::fs::File::open(path).unwrap();
        let mut gauge = Gauge::new(path, Accounting::of(top.as_fd()), None, is_watched);
        derelict_git::measure(top.as_fd(), &mut gauge);
        gauge.finish()
    }

    #[test]
    fn a_size_counts_each_inode_once_and_says_which_have_links() {
        let world = tempfile::tempdir().expect("because a temporary directory can be made");
        let root = world.path().join("clone");
        std::fs::create_dir_all(root.join("d")).unwrap();
        std::fs::write(root.join("sole"), vec![1; 10_000]).unwrap();
        std::fs::write(root.join("linked"), vec![1; 5_000]).unwrap();
        std::fs::hard_link(root.join("linked"), root.join("d/again")).unwrap();
        std::fs::hard_link(root.join("linked"), world.path().join("outside")).unwrap();
        let blocks = |path: &Path| std::fs::symlink_metadata(path).unwrap().blocks() * 512;
        let size = gauged(&root, &|_| false).size;
        let sole: u64 = [root.clone(), root.join("d"), root.join("sole")].iter().map(|path| blocks(path)).sum();
        assert_eq!((size.sole_bytes, size.entries), (sole, 5));
        let linked = std::fs::metadata(root.join("linked")).unwrap();
        let expected =
            LinkedInode { dev: linked.dev(), ino: linked.ino(), links: 3, seen: 2, bytes: linked.blocks() * 512 };
        assert_eq!((size.linked, size.completeness), (vec![expected], Completeness::Exact));
    }

    /// A workspace of a few thousand files: sources, packages, links, and some large ones.
    fn fill(workspace: &Path) {
        let sizes = [130, 700, 1_900, 2_500, 4_096, 9_000, 14_000, 40_000, 90_000];
        for n in 0..4_000_usize {
            let dir = workspace.join(format!("packages/p{}/src", n / 20));
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(dir.join(format!("module-{n}.js")), vec![b'x'; sizes[n % sizes.len()]]).unwrap();
        }
        for n in 0..20 {
            std::fs::write(workspace.join(format!("pack-{n}")), vec![b'y'; 3_000_000]).unwrap();
            std::fs::hard_link(workspace.join(format!("pack-{n}")), workspace.join(format!("again-{n}"))).unwrap();
        }
    }

    #[test]
    fn what_is_said_to_be_freed_is_freed_within_one_percent() {
        for kind in ["ext4", "xfs", "btrfs"] {
            let image = derelict_testkit::image::Image::new(kind, 700);
            let workspace = image.path().join("workspace");
            std::fs::create_dir(&workspace).unwrap();
            fill(&workspace);
            let before = image.free();
            let told = gauged(&workspace, &|_| false).size.freed_alone();
            derelict_testkit::scratch::remove(&workspace);
            let freed = image.free() - before;
            let ratio = told.bytes as f64 / freed as f64;
            assert!((ratio - 1.0).abs() < 0.01, "{kind}: told {} and freed {freed}: {ratio:.4}", told.bytes);
            // The workspace, its directories, and each file once however many names it has.
            assert_eq!((told.inodes, told.completeness), (1 + 1 + 2 * 200 + 4_000 + 20, Completeness::Exact));
        }
    }

    #[test]
    fn a_total_is_that_of_du_to_the_byte() {
        let image = derelict_testkit::image::Image::new("ext4", 300);
        let workspace = image.path().join("workspace");
        std::fs::create_dir(&workspace).unwrap();
        fill(&workspace);
        let mut du = derelict_testkit::git::tool("du");
        let told = String::from_utf8(du.args(["-s", "-B1"]).arg(&workspace).output().unwrap().stdout).unwrap();
        let told: u64 = told.split_whitespace().next().unwrap().parse().unwrap();
        assert_eq!(gauged(&workspace, &|_| false).size.freed_alone().bytes, told);
    }

    #[test]
    fn shared_extents_make_the_number_an_upper_bound() {
        let image = derelict_testkit::image::Image::new("btrfs", 300);
        let (kept, workspace) = (image.path().join("kept"), image.path().join("workspace"));
        std::fs::create_dir(&workspace).unwrap();
        std::fs::write(&kept, vec![b'z'; 8_000_000]).unwrap();
        let mut clone = derelict_testkit::git::tool("cp");
        assert!(clone.arg("--reflink=always").arg(&kept).arg(workspace.join("f")).status().unwrap().success());
        let before = image.free();
        let told = gauged(&workspace, &|_| false).size.freed_alone().bytes;
        derelict_testkit::scratch::remove(&workspace);
        let freed = image.free() - before;
        assert!(freed < 1_000_000 && told >= 8_000_000, "told {told} and freed {freed}");
    }

    #[test]
    fn a_trace_knows_whether_something_inside_was_changed_since() {
        let trace = Trace { entries: 2, newest: (100, 7), written: (100, 5) };
        assert!(trace.was_written_after(Timestamp::new(100, 4)) && !trace.was_written_after(Timestamp::new(100, 5)));
        assert!(!Trace::default().was_written_after(Timestamp::new(0, 0)));
        // Another name of one of its files goes.
        let world = tempfile::tempdir().expect("because a temporary directory can be made");
        let (inside, outside) = (world.path().join("clone/f"), world.path().join("outside"));
        std::fs::create_dir(world.path().join("clone")).unwrap();
        std::fs::write(&inside, "").unwrap();
        std::fs::hard_link(&inside, &outside).unwrap();
        let before = gauged(&world.path().join("clone"), &|_| false).trace;
        let since = Timestamp::new(before.written.0, before.written.1);
        std::fs::remove_file(&outside).unwrap();
        let after = gauged(&world.path().join("clone"), &|_| false).trace;
        assert!(after.newest >= before.newest && !after.was_written_after(since));
    }

    #[test]
    fn a_watched_directory_that_is_met_is_told() {
        let world = tempfile::tempdir().expect("because a temporary directory can be made");
        std::fs::create_dir_all(world.path().join("a/b")).unwrap();
        let inode = crate::seen::through(&world.path().join("a/b")).unwrap().inode();
        assert_eq!(gauged(world.path(), &|seen| seen == inode).met, BTreeSet::from([inode]));
    }

    #[test]
    fn what_cannot_be_read_makes_a_lower_bound_that_names_the_first() {
        let mut gauge = Gauge::new(Path::new("/c"), Accounting::Content, None, &|_| false);
        gauge.unreadable(b"a/b", &io::Error::from(io::ErrorKind::PermissionDenied));
        gauge.unreadable(b"z", &io::Error::from(io::ErrorKind::NotFound));
        let expected = Completeness::AtLeast { why: "cannot read /c/a/b: permission denied".into() };
        assert_eq!(gauge.finish().size.completeness, expected);
    }
}
