//! The quick part of a discard: several hands unlink whatever goes without resistance. What does not
//! go, what leads elsewhere, and what there is no room for, is left behind without a word, with all
//! directories around it: `remove` goes over the tree afterwards, one step after the other, and it
//! alone says what stood in the way.
//!
//! The rules are the same: by descriptor, no symbolic link followed, no mount or device crossed.
//! An unlink acts on a name in a directory that was found to be of this tree; it cannot enter what
//! is mounted there.

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use derelict_core::outcome::Discarded;
use derelict_core::size::Measured;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, SeekFrom};
use rustix::io::Errno;

use crate::crew::{Member, Room, work_through};
use crate::descend::{is_dot, read_buffer};
use crate::names::Names;
use crate::pace::{Ask, Call, Pacer};
use crate::stat::{Seen, seen, seen_at};

/// So many names of one directory are unlinked in one go; more are split between hands.
const GO: usize = 1024;

/// So many bytes of names of one directory are held at a time.
const BATCH: usize = 4 * 1024 * 1024;

/// How often a directory is read again because entries were left although none refused.
const MOST_PASSES: u32 = 8;

/// A look at an entry before it is unlinked costs this at most, or only some are looked at.
const CHEAP_LOOK: Duration = Duration::from_micros(150);

/// So many looks tell what a look costs.
const FIRST_LOOKS: u64 = 16;

/// Where looks are dear, one entry in so many is looked at.
const LOOKED_AT: u64 = 16;

/// A directory that is being emptied.
struct Node {
    dir: OwnedFd,
    name: CString,
    above: Option<Arc<Node>>,
    bytes: u64,
    /// Jobs in it that are not done; the last one to be done removes it.
    pending: AtomicUsize,
    left_behind: AtomicBool,
    removed: AtomicU64,
    passes: AtomicU32,
    _room: Option<Room>,
}

enum Job {
    /// Open a directory, and read it.
    Enter(Arc<Node>, CString),
    /// Read on.
    Read(Arc<Node>),
    /// Unlink some of the names of a directory.
    Unlink(Arc<Node>, Arc<Names>, Range<usize>),
}

/// What is done, by all hands together.
struct Strip {
    top: Seen,
    entries: AtomicU64,
    bytes: AtomicU64,
    /// None where it is known what all of it frees.
    looks: Option<Looks>,
}

/// What it costs to look at an entry, and what was seen: where it is dear, some stand for all.
#[derive(Default)]
struct Looks {
    seen: AtomicU64,
    unseen: AtomicU64,
    bytes: AtomicU64,
    nanoseconds: AtomicU64,
}

/// Unlinks what goes below `top`, and leaves the top itself.
pub(crate) fn strip(top: &OwnedFd, measured: Option<Measured>, pacer: &Pacer) -> Result<Discarded, Errno> {
    let looks = measured.is_none().then(Looks::default);
    let strip = Strip { top: seen(top)?, entries: AtomicU64::new(0), bytes: AtomicU64::new(0), looks };
    let dir = rustix::io::fcntl_dupfd_cloexec(top, 0)?;
    rustix::fs::seek(&dir, SeekFrom::Start(0))?;
    let top = Node::new(dir, CString::default(), None, 0, None);
    work_through(pacer, Job::Read(Arc::new(top)), |job, member| strip.work(job, member));
    let bytes = strip.bytes.into_inner() + strip.looks.as_ref().map_or(0, Looks::all_bytes);
    Ok(Discarded { entries: strip.entries.into_inner(), bytes })
}

impl Node {
    fn new(dir: OwnedFd, name: CString, above: Option<Arc<Self>>, bytes: u64, room: Option<Room>) -> Self {
        Self {
            dir,
            name,
            above,
            bytes,
            pending: AtomicUsize::new(1),
            left_behind: AtomicBool::new(false),
            removed: AtomicU64::new(0),
            passes: AtomicU32::new(1),
            _room: room,
        }
    }

    fn leave_behind(&self) {
        self.left_behind.store(true, Ordering::Relaxed);
    }

    fn is_left_behind(&self) -> bool {
        self.left_behind.load(Ordering::Relaxed)
    }

    /// Promises as many jobs more.
    fn promise(&self, jobs: usize) {
        self.pending.fetch_add(jobs, Ordering::Relaxed);
    }
}

type Stripper<'c, 'p> = Member<'c, 'p, Job>;

impl Strip {
    fn work(&self, job: Job, member: &mut Stripper<'_, '_>) {
        let node = match job {
            Job::Enter(above, name) => match self.enter(&above, &name, member) {
                Some(node) => {
                    self.read(&node, member);
                    node
                }
                None => above,
            },
            Job::Read(node) => {
                self.read(&node, member);
                node
            }
            Job::Unlink(node, names, part) => {
                self.unlink_all(&node, &names, part, member);
                node
            }
        };
        self.finished(node, member);
    }

    /// Opens a directory. It is held by its descriptor from then on, and what counts is where that
    /// leads.
    fn enter(&self, above: &Arc<Node>, name: &CStr, member: &mut Stripper<'_, '_>) -> Option<Arc<Node>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let room = member.room();
        let opened = room.is_some().then(|| {
            let dir = member.call(Call::Open, || rustix::fs::openat(&above.dir, name, flags, Mode::empty()))?;
            let found = member.call(Call::Confirm, || seen(&dir))?;
            Ok((dir, found))
        });
        match opened {
            Some(Ok((dir, found))) if self.top.crossing(&found).is_none() => {
                let above = Some(Arc::clone(above));
                Some(Arc::new(Node::new(dir, name.to_owned(), above, found.bytes, room)))
            }
            Some(Err(Errno::NOENT)) => None,
            Some(Ok(_) | Err(_)) | None => {
                above.leave_behind();
                None
            }
        }
    }

    /// Reads a directory, or as much of it as fits; unlinks what is no directory, and puts the rest
    /// on the pile.
    fn read(&self, node: &Arc<Node>, member: &mut Stripper<'_, '_>) {
        let (mut names, mut below) = (Names::default(), Vec::new());
        let mut buffer: Vec<MaybeUninit<u8>> = read_buffer();
        let mut entries = RawDir::new(node.dir.as_fd(), &mut buffer);
        let mut more = false;
        loop {
            let emptied = entries.is_buffer_empty();
            if emptied && (names.bytes() >= BATCH || below.len() >= GO) {
                more = true;
                break;
            }
            let read = if emptied { member.call(Call::List, || entries.next()) } else { entries.next() };
            match read {
                None => break,
                Some(Err(_)) => {
                    node.leave_behind();
                    break;
                }
                Some(Ok(entry)) if is_dot(entry.file_name()) => {}
                Some(Ok(entry)) if entry.file_type() == FileType::Directory => below.push(entry.file_name().to_owned()),
                Some(Ok(entry)) => names.add(entry.ino(), entry.file_name()),
            }
        }
        if more {
            node.promise(1);
            member.put([Job::Read(Arc::clone(node))]);
        }
        if !below.is_empty() {
            node.promise(below.len());
            let count = below.len();
            let jobs = below.into_iter().map(|name| Job::Enter(Arc::clone(node), name)).collect();
            if !member.put_if_room(jobs) {
                // Done later, by one hand.
                node.leave_behind();
                node.pending.fetch_sub(count, Ordering::Relaxed);
            }
        }
        self.share_out(node, names, member);
    }

    fn share_out(&self, node: &Arc<Node>, mut names: Names, member: &mut Stripper<'_, '_>) {
        let count = names.len();
        if count <= 2 * GO {
            names.sort();
            return self.unlink_all(node, &names, 0..count, member);
        }
        names.sort();
        let names = Arc::new(names);
        let parts: Vec<_> = (0..count).step_by(GO).map(|from| from..count.min(from + GO)).collect();
        node.promise(parts.len());
        member.put(parts.into_iter().rev().map(|part| Job::Unlink(Arc::clone(node), Arc::clone(&names), part)));
    }

    fn unlink_all(&self, node: &Arc<Node>, names: &Names, part: Range<usize>, member: &mut Stripper<'_, '_>) {
        let (mut removed, mut bytes) = (0, 0);
        for name in names.range(part) {
            let looks = self.looks.as_ref();
            let looked = looks.filter(|looks| looks.wanted()).map(|looks| looks.at(node, name, member));
            match member.call(Call::Unlink, || rustix::fs::unlinkat(&node.dir, name, AtFlags::empty())) {
                Ok(()) => {
                    removed += 1;
                    match (looked, looks) {
                        (Some(found), _) => bytes += found,
                        (None, Some(looks)) => looks.pass(),
                        (None, None) => {}
                    }
                }
                Err(Errno::NOENT) => {}
                Err(Errno::ISDIR) => {
                    node.promise(1);
                    member.put([Job::Enter(Arc::clone(node), name.to_owned())]);
                }
                // Nothing in it will go; it is not tried a thousand times over.
                Err(Errno::ACCESS | Errno::ROFS) => {
                    node.leave_behind();
                    break;
                }
                Err(_) => node.leave_behind(),
            }
        }
        node.removed.fetch_add(removed, Ordering::Relaxed);
        self.entries.fetch_add(removed, Ordering::Relaxed);
        if let Some(looks) = &self.looks {
            looks.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// A job in a directory is done. The last one removes the directory, and that is a job done in
    /// the one above.
    fn finished(&self, mut node: Arc<Node>, member: &mut Stripper<'_, '_>) {
        while node.pending.fetch_sub(1, Ordering::AcqRel) == 1 {
            let Some(above) = node.above.clone() else { return };
            let left = node.is_left_behind();
            let mut removal = || {
                member.call(Call::RemoveDirectory, || rustix::fs::unlinkat(&above.dir, &node.name, AtFlags::REMOVEDIR))
            };
            match if left { Err(Errno::PERM) } else { removal() } {
                Ok(()) => {
                    above.removed.fetch_add(1, Ordering::Relaxed);
                    self.entries.fetch_add(1, Ordering::Relaxed);
                    self.bytes.fetch_add(node.bytes, Ordering::Relaxed);
                }
                Err(Errno::NOENT) => {}
                Err(Errno::NOTEMPTY | Errno::EXIST) if start_over(&node) => {
                    return member.put([Job::Read(node)]);
                }
                Err(_) => above.leave_behind(),
            }
            node = above;
        }
    }
}

/// Whether a directory that is not empty yet is read once more: something of it must have gone.
fn start_over(node: &Node) -> bool {
    let pays = node.removed.swap(0, Ordering::Relaxed) > 0
        && node.passes.fetch_add(1, Ordering::Relaxed) < MOST_PASSES
        && rustix::fs::seek(&node.dir, SeekFrom::Start(0)).is_ok();
    if pays {
        node.promise(1);
    }
    pays
}

impl Looks {
    /// The bytes that go with an entry: its own, if this is its last link.
    fn at(&self, node: &Node, name: &CStr, member: &mut Stripper<'_, '_>) -> u64 {
        let asked = self.is_timed().then(Instant::now);
        let found = member.call(Call::Look, || seen_at(&node.dir, name));
        self.took(asked.map(|asked| asked.elapsed()));
        found.map_or(0, |found| if found.links <= 1 { found.bytes } else { 0 })
    }

    fn is_timed(&self) -> bool {
        self.seen.load(Ordering::Relaxed) < FIRST_LOOKS
    }

    fn wanted(&self) -> bool {
        let seen = self.seen.load(Ordering::Relaxed);
        seen < FIRST_LOOKS
            || self.nanoseconds.load(Ordering::Relaxed) < FIRST_LOOKS * CHEAP_LOOK.as_nanos() as u64
            || self.unseen.load(Ordering::Relaxed) >= seen * (LOOKED_AT - 1)
    }

    fn took(&self, latency: Option<Duration>) {
        self.seen.fetch_add(1, Ordering::Relaxed);
        if let Some(latency) = latency {
            self.nanoseconds.fetch_add(latency.as_nanos() as u64, Ordering::Relaxed);
        }
    }

    fn pass(&self) {
        self.unseen.fetch_add(1, Ordering::Relaxed);
    }

    fn all_bytes(&self) -> u64 {
        let [seen, unseen, bytes] = [&self.seen, &self.unseen, &self.bytes].map(|n| n.load(Ordering::Relaxed));
        match seen {
            0 => 0,
            seen => bytes + (u128::from(bytes) * u128::from(unseen) / u128::from(seen)) as u64,
        }
    }
}
