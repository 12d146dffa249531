//! The proof that nothing is mounted inside a tree, before the first unlink in it. Nothing is
//! changed here; `remove` looks once more at each directory it enters and each entry it unlinks.
//!
//! Two witnesses: the table of mounts, which is cheap and knows mounted files too, and a walk over
//! every directory, which needs no table and knows what lies on another device without being mounted.
//! Where there is nothing of that kind, and the path that the table goes by leads to the very tree, the
//! table is proof enough.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use derelict_core::outcome::Refusal;
use rustix::fs::{FileType, RawDir, SeekFrom};
use rustix::io::Errno;

use crate::beneath::{NotEntered, enter_seen, look};
use crate::crew::{Member, Room, work_through};
use crate::descend::{Descent, Left, Lost, Reading, is_dot, read_buffer};
use crate::pace::{Ask, Call, Hand, Pacer};
use crate::stat::{Crossing, Seen, seen, seen_at, words};

/// The table of what is mounted where, as this process sees it.
const MOUNT_TABLE: &str = "/proc/self/mountinfo";

/// The links of a directory that holds no other: its name, and the dot in it.
const OWN_LINKS: u32 = 2;

/// So many directories of one directory are put up to be looked at before it is read on.
const LISTED_AT_A_TIME: usize = 1024;

/// File systems of which every inode lies on one device, and which mount nothing by themselves: a
/// subvolume of btrfs or a crossing of NFS is in no table. By the magic numbers of `statfs`: ext2 to
/// ext4, xfs, tmpfs.
const WHOLE: [u64; 3] = [0xef53, 0x5846_5342, 0x0102_1994];

/// What the table of mounts says of an open directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Told {
    /// Something is mounted at it or below.
    Mounted(Refusal),
    /// Nothing is, and that is proof enough.
    Nothing,
    /// No mount is known, which proves nothing: the walk has to.
    Unproved,
}

/// Looks into the table of mounts for one at or below an open directory.
pub(crate) fn in_table(dir: BorrowedFd<'_>) -> Told {
    let place = rustix::fs::readlink(format!("/proc/self/fd/{}", dir.as_raw_fd()), Vec::new());
    let (Ok(place), Ok(table)) = (place, std::fs::read(MOUNT_TABLE)) else { return Told::Unproved };
    match first_below(&table, Path::new(OsStr::from_bytes(place.to_bytes()))) {
        Some(path) => Told::Mounted(Refusal { path, why: Crossing::Mount.to_string() }),
        None if is_whole(dir) && leads_to(&place, dir) => Told::Nothing,
        None => Told::Unproved,
    }
}

fn is_whole(dir: BorrowedFd<'_>) -> bool {
    rustix::fs::fstatfs(dir).is_ok_and(|told| WHOLE.contains(&(told.f_type as u64 & 0xffff_ffff)))
}

/// Whether a path leads to an open directory, on the same mount of it.
fn leads_to(place: &CStr, dir: BorrowedFd<'_>) -> bool {
    match (seen(dir), seen_at(rustix::fs::CWD, place)) {
        (Ok(meant), Ok(found)) => meant.identity == found.identity && meant.crossing(&found).is_none(),
        (Ok(_) | Err(_), Ok(_) | Err(_)) => false,
    }
}

fn first_below(table: &[u8], dir: &Path) -> Option<PathBuf> {
    /// The field of a line that holds the mount point.
    const MOUNT_POINT: usize = 4;
    let points =
        table.split(|byte| *byte == b'\n').filter_map(|line| line.split(|byte| *byte == b' ').nth(MOUNT_POINT));
    let mut paths = points.map(|point| PathBuf::from(OsStr::from_bytes(&unescaped(point))));
    paths.find(|path| path.starts_with(dir))
}

/// The table writes blanks, line ends and backslashes as three octal digits.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|digits| *first == b'\\' && digits.iter().all(|d| (b'0'..=b'7').contains(d)));
        match octal {
            Some(digits) => {
                bytes.push(digits.iter().fold(0_u8, |value, digit| value.wrapping_mul(8).wrapping_add(digit - b'0')));
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

/// Looks at every directory of a tree and refuses it when one lies on another mount or device.
///
/// A directory that cannot be opened or listed is passed over: nothing below it can be unlinked
/// either, and one that is ours and is opened up later is looked at again when it is entered.
pub(crate) fn prove_absent(top: OwnedFd, tree: &Path, pacer: &Pacer) -> Result<(), Refusal> {
    let refuse = |errno| Refusal { path: tree.to_owned(), why: words(errno) };
    let top_seen = seen(&top).map_err(refuse)?;
    rustix::fs::seek(&top, SeekFrom::Start(0)).map_err(refuse)?;
    let proof = Proof {
        top: top_seen,
        refusal: Mutex::new(None),
        incomplete: AtomicBool::new(false),
        counts_links: AtomicBool::new(false),
    };
    let again = rustix::io::fcntl_dupfd_cloexec(&top, 0).map_err(refuse)?;
    let node = Arc::new(Node {
        dir: top,
        name: CString::default(),
        above: None,
        links: top_seen.links,
        listed: AtomicU32::new(0),
        _room: None,
    });
    work_through(pacer, Job::List(node), |job, member| proof.work(job, tree, member));
    match proof.refusal.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(refusal) => Err(refusal),
        None if proof.incomplete.into_inner() => prove_one_by_one(again, tree, pacer),
        None => Ok(()),
    }
}

/// What the hands that look have found together.
struct Proof {
    top: Seen,
    refusal: Mutex<Option<Refusal>>,
    /// Something was passed over for lack of room.
    incomplete: AtomicBool,
    /// A directory was met that has a link for each directory it holds, as the dots in them are: on
    /// such a file system one with two links holds none.
    counts_links: AtomicBool,
}

/// A directory that is open for as long as one below it waits to be looked at.
struct Node {
    dir: OwnedFd,
    name: CString,
    above: Option<Arc<Node>>,
    links: u32,
    /// How many directories it was found to hold.
    listed: AtomicU32,
    _room: Option<Room>,
}

enum Job {
    Enter(Arc<Node>, CString),
    List(Arc<Node>),
}

impl Proof {
    fn work(&self, job: Job, tree: &Path, member: &mut Member<'_, '_, Job>) {
        if self.refusal().is_some() || self.incomplete.load(Ordering::Relaxed) {
            return;
        }
        let node = match job {
            Job::List(node) => node,
            Job::Enter(above, name) => {
                let Some(room) = member.room() else { return self.incomplete.store(true, Ordering::Relaxed) };
                match self.enter(&above, &name, member) {
                    Ok(Some((dir, links))) => {
                        let above = Some(above);
                        Arc::new(Node { dir, name, above, links, listed: AtomicU32::new(0), _room: Some(room) })
                    }
                    Ok(None) => return,
                    Err(NotEntered::Failed(Errno::MFILE | Errno::NFILE)) => {
                        return self.incomplete.store(true, Ordering::Relaxed);
                    }
                    Err(NotEntered::Gone | NotEntered::NotADirectory | NotEntered::Failed(_)) => return,
                    Err(why @ (NotEntered::Crossing(_) | NotEntered::Replaced)) => {
                        let path = above.path(tree).join(OsStr::from_bytes(name.to_bytes()));
                        *self.refusal() = Some(Refusal { path, why: why.to_string() });
                        return;
                    }
                }
            }
        };
        self.list(&node, member);
    }

    /// Opens a directory that may hold others, and says how many links it has.
    ///
    /// One that holds none has been looked at, and that is all there is to it: nothing can be mounted
    /// on a directory that is not there. Some file systems tell two links of every directory, so what
    /// is told is believed only where links were found to be counted.
    fn enter(
        &self,
        above: &Node,
        name: &CStr,
        member: &mut Member<'_, '_, Job>,
    ) -> Result<Option<(OwnedFd, u32)>, NotEntered> {
        let found = look(member, above.dir.as_fd(), name)?;
        let holds_none = found.links == OWN_LINKS && self.counts_links.load(Ordering::Relaxed);
        if holds_none && found.kind == FileType::Directory && self.top.crossing(&found).is_none() {
            return Ok(None);
        }
        let (dir, found) = enter_seen(member, above.dir.as_fd(), &self.top, name, &found)?;
        Ok(Some((dir, found.links)))
    }

    fn refusal(&self) -> std::sync::MutexGuard<'_, Option<Refusal>> {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn list(&self, node: &Arc<Node>, member: &mut Member<'_, '_, Job>) {
        let (mut buffer, mut below) = (read_buffer(), Vec::new());
        let mut entries = RawDir::new(node.dir.as_fd(), &mut buffer);
        let before = node.listed.load(Ordering::Relaxed);
        let mut rest = None;
        loop {
            let emptied = entries.is_buffer_empty();
            if emptied && below.len() >= LISTED_AT_A_TIME {
                rest = Some(Job::List(Arc::clone(node)));
                break;
            }
            let read = if emptied { member.call(Call::List, || entries.next()) } else { entries.next() };
            let entry = match read {
                Some(Ok(entry)) => entry,
                Some(Err(_)) => break,
                None => {
                    let holds = before + below.len() as u32;
                    if holds > 0 && node.links == OWN_LINKS.saturating_add(holds) {
                        self.counts_links.store(true, Ordering::Relaxed);
                    }
                    break;
                }
            };
            let name = entry.file_name();
            if !is_dot(name) && is_directory(node.dir.as_fd(), name, entry.file_type()) {
                below.push(Job::Enter(Arc::clone(node), name.to_owned()));
            }
        }
        node.listed.store(before + below.len() as u32, Ordering::Relaxed);
        member.put(rest);
        if !below.is_empty() && !member.put_if_room(below) {
            self.incomplete.store(true, Ordering::Relaxed);
        }
    }
}

impl Node {
    fn path(&self, tree: &Path) -> PathBuf {
        let mut names = Vec::new();
        let mut node = self;
        while let Some(above) = &node.above {
            names.push(OsStr::from_bytes(node.name.to_bytes()));
            node = above;
        }
        names.into_iter().rev().fold(tree.to_owned(), |path, name| path.join(name))
    }
}

/// The same by one hand, which comes back up through closed directories: for trees so deep or so wide
/// that not all on the way fits.
fn prove_one_by_one(top: OwnedFd, tree: &Path, pacer: &Pacer) -> Result<(), Refusal> {
    let mut hand = Hand::new(pacer);
    let refuse = |why: String| Refusal { path: tree.to_owned(), why };
    let mut walk = Descent::new(top).map_err(|errno| refuse(words(errno)))?;
    let mut buffer = read_buffer();
    loop {
        if let Some(name) = walk.next_waiting() {
            match walk.enter(&mut hand, &name) {
                Ok(()) | Err(NotEntered::Gone | NotEntered::NotADirectory | NotEntered::Failed(_)) => {}
                Err(why @ (NotEntered::Crossing(_) | NotEntered::Replaced)) => {
                    return Err(Refusal { path: walk.shown(tree, Some(&name)), why: why.to_string() });
                }
            }
            continue;
        }
        match walk.frame().reading {
            Reading::More => hand.call(Call::List, || collect(&mut walk, &mut buffer)),
            Reading::Done => match walk.leave() {
                Ok(Left::Top) => return Ok(()),
                Ok(Left::Child { .. }) => {}
                Err(Lost(why)) => return Err(Refusal { path: walk.shown(tree, None), why }),
            },
        }
    }
}

/// Reads on in the current directory until enough of its directories wait to be entered.
fn collect(walk: &mut Descent, buffer: &mut [std::mem::MaybeUninit<u8>]) {
    let dir = walk.current();
    let cookie = walk.frame().cookie;
    walk.frame().reading = Reading::Done;
    if rustix::fs::seek(&*dir, SeekFrom::Start(cookie)).is_err() {
        return;
    }
    let mut entries = RawDir::new(&*dir, buffer);
    while let Some(Ok(entry)) = entries.next() {
        let name = entry.file_name();
        if !is_dot(name) && is_directory(dir.as_fd(), name, entry.file_type()) {
            walk.wait(name);
            if walk.has_enough_waiting() {
                let frame = walk.frame();
                (frame.reading, frame.cookie) = (Reading::More, entry.next_entry_cookie());
                return;
            }
        }
    }
}

/// Some file systems do not tell the type in a listing. What cannot be looked at counts as a
/// directory, so that entering it says why.
fn is_directory(dir: BorrowedFd<'_>, name: &std::ffi::CStr, listed: FileType) -> bool {
    match listed {
        FileType::Directory => true,
        FileType::Unknown => seen_at(dir, name).map_or(true, |found| found.kind == FileType::Directory),
        FileType::RegularFile
        | FileType::Symlink
        | FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice => false,
    }
}

#[cfg(test)]
mod tests {
    use derelict_testkit::guards::Mounted;
    use derelict_testkit::scratch::{Scratch, mkdir, write};

    use super::*;
    use crate::pace::Pace;

    #[test]
    fn the_table_is_read_by_components_and_unescaped() {
        let table = b"22 1 8:1 / / rw - ext4 /dev/a rw\n\
            23 22 0:5 / /cache/a\\040b/inner rw shared:2 - tmpfs none rw\n\
            24 22 0:6 / /cache/a\\134 rw - tmpfs none rw\n";
        assert_eq!(first_below(table, Path::new("/cache/a b")), Some("/cache/a b/inner".into()));
        assert_eq!(first_below(table, Path::new("/cache/a b/inner")), Some("/cache/a b/inner".into()));
        assert_eq!(first_below(table, Path::new("/cache/a\\")), Some("/cache/a\\".into()));
        assert_eq!(first_below(table, Path::new("/cache/a")), None);
        assert_eq!(first_below(table, Path::new("/cache/a b/inner/deeper")), None);
    }

    fn proof(tree: &Path) -> Result<(), Refusal> {
        prove_absent(std::fs::File::open(tree).unwrap().into(), tree, &Pacer::new(Pace::FULL))
    }

    #[test]
    fn each_witness_finds_a_mount_without_the_other() {
        let scratch = Scratch::new();
        let tree = scratch.path().join("tree");
        write(scratch.path().join("outside/precious"), "only copy");
        mkdir(tree.join("a/b/mnt"));
        (0..2_000).for_each(|n| mkdir(tree.join(format!("a/{n:0>60}"))));
        let top = std::fs::File::open(&tree).unwrap();
        let refusal = Refusal { path: tree.join("a/b/mnt"), why: "something is mounted here".to_owned() };
        assert_eq!(proof(&tree), Ok(()));
        assert_ne!(in_table(top.as_fd()), Told::Mounted(refusal.clone()));
        let bound = Mounted::bind(&scratch.path().join("outside"), &tree.join("a/b/mnt"));
        assert_eq!((proof(&tree), in_table(top.as_fd())), (Err(refusal.clone()), Told::Mounted(refusal.clone())));
        drop(bound);
        let _memory = Mounted::tmpfs(&tree.join("a/b/mnt"));
        assert_eq!((proof(&tree), in_table(top.as_fd())), (Err(refusal.clone()), Told::Mounted(refusal)));
    }

    #[test]
    fn the_table_alone_is_proof_only_of_the_tree_that_its_path_leads_to() {
        let scratch = Scratch::new();
        let memory = scratch.path().join("memory");
        mkdir(&memory);
        let mounted = Mounted::tmpfs(&memory);
        let tree = memory.join("tree");
        mkdir(&tree);
        let top = std::fs::File::open(&tree).unwrap();
        assert_eq!(in_table(top.as_fd()), Told::Nothing);
        // Another mount over it hides it: its path leads elsewhere.
        let over = Mounted::tmpfs(&memory);
        mkdir(&tree);
        assert_eq!(in_table(top.as_fd()), Told::Unproved);
        drop(over);
        assert_eq!(in_table(top.as_fd()), Told::Nothing);
        std::fs::remove_dir(&tree).unwrap();
        assert_eq!(in_table(top.as_fd()), Told::Unproved);
        drop((top, mounted));
    }
}
