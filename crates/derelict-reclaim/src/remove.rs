//! Discarding one fenced tree: descriptor-relative, without recursion, depth first. Symbolic links
//! are unlinked and never followed, no mount and no device is crossed, and a refusal never keeps
//! the rest from going. The proof that there is no mount at all comes before, in `mounts`; the
//! fence comes before that.
//!
//! Most of a tree goes without resistance, by several hands, in `strip`. What is here goes over all
//! that is left, one step after the other: it opens up what keeps us out, and it names what will not
//! go. Without `strip` it would do the same, only slower.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use derelict_core::ids::FileIdentity;
use derelict_core::outcome::{Discarded, Refusal};
use derelict_core::size::Measured;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, SeekFrom};
use rustix::io::Errno;

use crate::beneath::NotEntered;
use crate::descend::{Descent, Frame, Left, Lost, Reading, Tried, is_dot, read_buffer};
use crate::pace::{Ask, Call, Hand, Pacer};
use crate::refusals::Refusals;
use crate::stat::{Crossing, Pinned, Seen, seen, seen_at, words};
use crate::strip::strip;

/// What an owner needs on a directory to empty it.
const OWNERS_RIGHTS: u32 = 0o700;

/// The sticky bit: entries of others stay, even in a directory that is writable.
const STICKY: u32 = 0o1000;

/// How often a directory is read again because entries were left although none refused: listings of
/// some file systems skip entries while others are being removed. Each pass must remove something.
const MOST_PASSES: u32 = 1000;

/// The tree to discard: its open top, and where its name lies.
pub(crate) struct Tree<'t> {
    pub(crate) top: OwnedFd,
    pub(crate) identity: FileIdentity,
    pub(crate) parent: BorrowedFd<'t>,
    pub(crate) name: &'t CStr,
    pub(crate) path: &'t Path,
    /// What it was measured to hold; without, each entry is asked what it frees.
    pub(crate) measured: Option<Measured>,
}

/// What one call unlinked.
enum Unlinked {
    Gone { bytes: u64 },
    Absent,
    IsDirectory,
    Crosses(Crossing),
}

struct Remover<'t> {
    walk: Descent,
    buffer: Vec<MaybeUninit<u8>>,
    discarded: Discarded,
    refusals: Refusals,
    tree: &'t Path,
    hand: Hand<'t>,
}

/// Unlinks everything below the top, and the top by its name if that still leads to it.
pub(crate) fn discard(tree: Tree<'_>, pacer: &Pacer) -> (Discarded, Vec<Refusal>) {
    let nothing = Discarded { entries: 0, bytes: 0 };
    let stripped =
        strip(&tree.top, tree.measured, pacer).and_then(|discarded| Ok((discarded, Descent::new(tree.top)?)));
    let (discarded, walk) = match stripped {
        Ok(stripped) => stripped,
        Err(errno) => return (nothing, vec![Refusal { path: tree.path.to_owned(), why: words(errno) }]),
    };
    let (refusals, hand) = (Refusals::none(), Hand::new(pacer));
    let mut remover = Remover { walk, buffer: read_buffer(), discarded, refusals, tree: tree.path, hand };
    let emptied = remover.empty().and_then(|()| remover.remove_top(&tree.identity, tree.parent, tree.name));
    if let Err(Lost(why)) = emptied {
        remover.refusals.add(tree.path.to_owned(), why);
    }
    let mut discarded = remover.discarded;
    if let Some(measured) = tree.measured {
        discarded.bytes = measured.bytes_of(discarded.entries);
    }
    (discarded, remover.refusals.into_vec(tree.path))
}

impl Remover<'_> {
    /// Empties the top, as far as it goes.
    fn empty(&mut self) -> Result<(), Lost> {
        loop {
            if let Some(name) = self.walk.next_waiting() {
                self.descend(&name);
                continue;
            }
            match self.walk.frame().reading {
                Reading::More => self.read(),
                Reading::Done => match self.walk.leave()? {
                    Left::Top => return Ok(()),
                    Left::Child { name, frame } => self.remove_emptied(&name, &frame),
                },
            }
        }
    }

    /// The last unlink is by name, so the name must still lead to the tree that was emptied.
    fn remove_top(&mut self, identity: &FileIdentity, parent: BorrowedFd<'_>, name: &CStr) -> Result<(), Lost> {
        while self.refusals.is_empty() {
            match seen_at(parent, name) {
                Ok(found) if found.identity == *identity => {}
                Ok(_) | Err(Errno::NOENT) => {
                    return Err(Lost("another directory lies under its trash name".to_owned()));
                }
                Err(errno) => return Err(Lost(words(errno))),
            }
            let bytes = self.walk.frame().bytes;
            match rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
                Ok(()) => {
                    self.count(bytes);
                    return Ok(());
                }
                Err(Errno::NOTEMPTY | Errno::EXIST) if again(self.walk.frame()) => {
                    start_over(self.walk.frame());
                    self.empty()?;
                }
                Err(errno) => return Err(Lost(words(errno))),
            }
        }
        Ok(())
    }

    /// Reads on in the current directory: unlinks what is no directory, and lets directories wait.
    ///
    /// What was read before is gone, so reading starts at the front again; only where something was
    /// refused or nothing went does it go on from where it stopped.
    fn read(&mut self) {
        let dir = self.walk.current();
        let frame = self.walk.frame();
        let anew = frame.tried == Tried::Freely && frame.removed > frame.removed_before;
        let from = if anew { 0 } else { frame.cookie };
        frame.removed_before = frame.removed;
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut entries = RawDir::new(&*dir, &mut buffer);
        let mut fault = rustix::fs::seek(&*dir, SeekFrom::Start(from)).err();
        self.walk.frame().reading = Reading::Done;
        while fault.is_none() {
            let read = match entries.is_buffer_empty() {
                true => self.hand.call(Call::List, || entries.next()),
                false => entries.next(),
            };
            let Some(entry) = read else { break };
            match entry {
                Err(errno) => fault = Some(errno),
                Ok(entry) if is_dot(entry.file_name()) => {}
                Ok(entry) => {
                    self.take_up(entry.file_name(), entry.file_type());
                    if self.walk.has_enough_waiting() {
                        let frame = self.walk.frame();
                        (frame.reading, frame.cookie) = (Reading::More, entry.next_entry_cookie());
                        break;
                    }
                }
            }
        }
        self.buffer = buffer;
        if let Some(errno) = fault {
            self.refuse_here(Tried::InPart, words(errno));
        }
    }

    fn take_up(&mut self, name: &CStr, listed: FileType) {
        if listed == FileType::Directory {
            self.walk.wait(name);
        } else if self.walk.frame().tried != Tried::InVain {
            self.unlink(name);
        }
    }

    fn descend(&mut self, name: &CStr) {
        let entered = self.walk.enter(&mut self.hand, name);
        match entered.or_else(|why| self.enter_opened_up(name, why)) {
            Ok(()) | Err(NotEntered::Gone) => {}
            // Swapped for a link or a file since it was listed: unlinked, not followed.
            Err(NotEntered::NotADirectory) => self.unlink(name),
            // One that cannot be listed may be empty all the same.
            Err(NotEntered::Failed(Errno::ACCESS)) if self.remove_unread(name) => {}
            Err(why) => self.refuse_entry(name, why.to_string()),
        }
    }

    /// Gives ourselves the rights on directories of our own that keep us out, and tries once more.
    fn enter_opened_up(&mut self, name: &CStr, why: NotEntered) -> Result<(), NotEntered> {
        if why != NotEntered::Failed(Errno::ACCESS) {
            return Err(why);
        }
        if !self.open_up_current() && !open_up_entry(self.walk.current().as_fd(), self.walk.top_seen(), name) {
            return Err(why);
        }
        self.walk.enter(&mut self.hand, name)
    }

    fn remove_unread(&mut self, name: &CStr) -> bool {
        let dir = self.walk.current();
        let bytes = seen_at(&*dir, name).map_or(0, |found| found.bytes);
        let removed = rustix::fs::unlinkat(&*dir, name, AtFlags::REMOVEDIR).is_ok();
        if removed {
            self.went(bytes);
        }
        removed
    }

    /// Removes a directory the walk has just come back from.
    fn remove_emptied(&mut self, name: &CStr, emptied: &Frame) {
        if emptied.tried != Tried::Freely {
            self.walk.frame().tried = self.walk.frame().tried.max(Tried::InPart);
            return;
        }
        let dir = self.walk.current();
        let remove = || rustix::fs::unlinkat(&*dir, name, AtFlags::REMOVEDIR);
        match self.with_rights(Call::RemoveDirectory, remove) {
            Ok(()) => self.went(emptied.bytes),
            Err(Errno::NOENT) => {}
            Err(Errno::NOTEMPTY | Errno::EXIST) if again(emptied) => match self.walk.enter(&mut self.hand, name) {
                Ok(()) => self.walk.frame().pass = emptied.pass + 1,
                Err(why) => self.refuse_entry(name, why.to_string()),
            },
            Err(errno) => self.refuse(name, errno),
        }
    }

    fn unlink(&mut self, name: &CStr) {
        let dir = self.walk.current();
        let top = *self.walk.top_seen();
        match self.with_rights(Call::Unlink, || unlink_entry(dir.as_fd(), &top, name)) {
            Ok(Unlinked::Gone { bytes }) => self.went(bytes),
            Ok(Unlinked::Absent) => {}
            Ok(Unlinked::IsDirectory) => self.walk.wait(name),
            Ok(Unlinked::Crosses(crossing)) => self.refuse_entry(name, crossing.to_string()),
            Err(errno) => self.refuse(name, errno),
        }
    }

    /// Does something in the current directory; where it denies us although it is ours, gives
    /// ourselves the rights and does it again.
    fn with_rights<T>(&mut self, call: Call, mut deed: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
        match self.hand.call(call, &mut deed) {
            Err(Errno::ACCESS) if self.open_up_current() => deed(),
            told => told,
        }
    }

    fn open_up_current(&self) -> bool {
        let dir = self.walk.current();
        let Ok(found) = seen(&*dir) else { return false };
        is_ours_and_closed(&found) && rustix::fs::fchmod(&*dir, opened(&found)).is_ok()
    }

    /// Names what stands in the way: the entry, or the directory if none of its entries may go.
    fn refuse(&mut self, name: &CStr, errno: Errno) {
        let dir = self.walk.current();
        let why = words(errno);
        match errno {
            Errno::ACCESS | Errno::ROFS => self.refuse_here(Tried::InVain, why),
            Errno::PERM => match (seen_at(&*dir, name).ok(), seen(&*dir).ok()) {
                (Some(Seen { pinned: Pinned::Immutable, .. }), _) => {
                    self.refuse_entry(name, format!("{why}: it is immutable"))
                }
                (Some(Seen { pinned: Pinned::AppendOnly, .. }), _) => {
                    self.refuse_entry(name, format!("{why}: it is append-only"))
                }
                (_, Some(Seen { pinned: Pinned::Immutable, .. })) => {
                    self.refuse_here(Tried::InVain, format!("{why}: it is immutable"))
                }
                (_, Some(Seen { pinned: Pinned::AppendOnly, .. })) => {
                    self.refuse_here(Tried::InVain, format!("{why}: it is append-only"))
                }
                (_, Some(dir)) if dir.mode & STICKY != 0 => {
                    self.refuse_here(Tried::InPart, format!("{why}: it is sticky, and holds files of others"));
                }
                (_, Some(_) | None) => self.refuse_entry(name, why),
            },
            _ => self.refuse_entry(name, why),
        }
    }

    fn refuse_here(&mut self, tried: Tried, why: String) {
        let frame = self.walk.frame();
        frame.tried = frame.tried.max(tried);
        self.refusals.add(self.walk.shown(self.tree, None), why);
    }

    fn refuse_entry(&mut self, name: &CStr, why: String) {
        let frame = self.walk.frame();
        frame.tried = frame.tried.max(Tried::InPart);
        self.refusals.add(self.walk.shown(self.tree, Some(name)), why);
    }

    fn went(&mut self, bytes: u64) {
        self.walk.frame().removed += 1;
        self.count(bytes);
    }

    fn count(&mut self, bytes: u64) {
        self.discarded.entries += 1;
        self.discarded.bytes += bytes;
    }
}

/// Unlinks one entry that is no directory. Its bytes count when this was its last link.
fn unlink_entry(dir: BorrowedFd<'_>, top: &Seen, name: &CStr) -> Result<Unlinked, Errno> {
    let found = match seen_at(dir, name) {
        Ok(found) => found,
        Err(Errno::NOENT) => return Ok(Unlinked::Absent),
        Err(errno) => return Err(errno),
    };
    if found.kind == FileType::Directory {
        return Ok(Unlinked::IsDirectory);
    }
    if let Some(crossing) = top.crossing(&found) {
        return Ok(Unlinked::Crosses(crossing));
    }
    match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
        Ok(()) => Ok(Unlinked::Gone { bytes: if found.links <= 1 { found.bytes } else { 0 } }),
        Err(Errno::NOENT) => Ok(Unlinked::Absent),
        Err(Errno::ISDIR) => Ok(Unlinked::IsDirectory),
        Err(errno) => Err(errno),
    }
}

/// Gives ourselves the rights on a directory that cannot even be opened. It is held by a path
/// descriptor, which no rename can redirect, and changed through that descriptor.
pub(crate) fn open_up_entry(dir: BorrowedFd<'_>, top: &Seen, name: &CStr) -> bool {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(entry) = rustix::fs::openat(dir, name, flags, Mode::empty()) else { return false };
    let Ok(found) = seen(&entry) else { return false };
    let handle = format!("/proc/self/fd/{}", entry.as_raw_fd());
    is_ours_and_closed(&found) && top.crossing(&found).is_none() && rustix::fs::chmod(handle, opened(&found)).is_ok()
}

fn is_ours_and_closed(found: &Seen) -> bool {
    found.kind == FileType::Directory
        && found.owner == rustix::process::geteuid().as_raw()
        && found.mode & OWNERS_RIGHTS != OWNERS_RIGHTS
}

fn opened(found: &Seen) -> Mode {
    Mode::from_raw_mode(found.permissions() | OWNERS_RIGHTS)
}

fn again(frame: &Frame) -> bool {
    frame.removed > 0 && frame.pass < MOST_PASSES
}

fn start_over(frame: &mut Frame) {
    (frame.reading, frame.cookie, frame.removed, frame.removed_before) = (Reading::More, 0, 0, 0);
    frame.pass += 1;
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use derelict_testkit::guards::Mounted;
    use derelict_testkit::scratch::{Scratch, exists, mkdir, symlink, write};

    use super::*;
    use crate::pace::Pace;

    fn discard_at(path: &Path) -> (Discarded, Vec<Refusal>) {
        let top = File::open(path).unwrap();
        let identity = seen(&top).unwrap().identity;
        let parent = File::open(path.parent().unwrap()).unwrap();
        let name = std::ffi::CString::new(path.file_name().unwrap().as_encoded_bytes()).unwrap();
        let tree = Tree { top: top.into(), identity, parent: parent.as_fd(), name: &name, path, measured: None };
        discard(tree, &Pacer::new(Pace::FULL))
    }

    #[test]
    fn without_any_proof_before_it_no_mount_is_entered_and_none_is_unlinked() {
        let scratch = Scratch::new();
        let tree = scratch.path().join("tree");
        write(scratch.path().join("outside/precious"), "only copy");
        write(tree.join("file"), "");
        write(tree.join("sibling"), "x");
        mkdir(tree.join("dir"));
        let mounted = (
            Mounted::bind(&scratch.path().join("outside"), &tree.join("dir")),
            Mounted::bind(&scratch.path().join("outside/precious"), &tree.join("file")),
        );
        let (discarded, mut refusals) = discard_at(&tree);
        refusals.sort_by(|a, b| a.path.cmp(&b.path));
        let refusal = |name: &str| Refusal { path: tree.join(name), why: "something is mounted here".to_owned() };
        assert_eq!((discarded.entries, refusals), (1, vec![refusal("dir"), refusal("file")]));
        drop(mounted);
        assert!(exists(scratch.path().join("outside/precious")));
        assert_eq!(discard_at(&tree).0.entries, 3);
    }

    #[test]
    fn a_directory_that_became_a_link_since_it_was_listed_is_unlinked_and_not_followed() {
        let scratch = Scratch::new();
        let tree = scratch.path().join("tree");
        write(scratch.path().join("outside/precious"), "only copy");
        mkdir(&tree);
        symlink(scratch.path().join("outside"), tree.join("dir"));
        let walk = Descent::new(File::open(&tree).unwrap().into()).unwrap();
        let discarded = Discarded { entries: 0, bytes: 0 };
        let refusals = Refusals::none();
        let pacer = Pacer::new(Pace::FULL);
        let hand = Hand::new(&pacer);
        let mut remover = Remover { walk, buffer: read_buffer(), discarded, refusals, tree: &tree, hand };
        remover.take_up(c"dir", FileType::Directory);
        remover.take_up(c"absent", FileType::Directory);
        assert_eq!(remover.empty(), Ok(()));
        assert!(remover.refusals.is_empty() && !exists(tree.join("dir")));
        assert!(exists(scratch.path().join("outside/precious")));
    }

    #[test]
    fn an_entry_that_was_not_listed_is_taken_up_by_another_pass() {
        let scratch = Scratch::new();
        let tree = scratch.path().join("tree");
        write(tree.join("file"), "x");
        let top = File::open(&tree).unwrap();
        let identity = seen(&top).unwrap().identity;
        let walk = Descent::new(top.into()).unwrap();
        let discarded = Discarded { entries: 0, bytes: 0 };
        let refusals = Refusals::none();
        let pacer = Pacer::new(Pace::FULL);
        let hand = Hand::new(&pacer);
        let mut remover = Remover { walk, buffer: read_buffer(), discarded, refusals, tree: &tree, hand };
        assert_eq!(remover.empty(), Ok(()));
        write(tree.join("late/file"), "x");
        let parent = File::open(scratch.path()).unwrap();
        assert_eq!(remover.remove_top(&identity, parent.as_fd(), c"tree"), Ok(()));
        assert_eq!((remover.discarded.entries, exists(&tree)), (4, false));
    }

    #[test]
    fn a_name_that_leads_elsewhere_at_the_end_is_not_removed() {
        let scratch = Scratch::new();
        let (tree, other) = (scratch.path().join("tree"), scratch.path().join("other"));
        write(tree.join("file"), "x");
        mkdir(&other);
        let top = File::open(&tree).unwrap();
        let identity = seen(&top).unwrap().identity;
        let parent = File::open(scratch.path()).unwrap();
        let pacer = Pacer::new(Pace::FULL);
        let (_, refusals) = discard(
            Tree { top: top.into(), identity, parent: parent.as_fd(), name: c"other", path: &tree, measured: None },
            &pacer,
        );
        let why = "another directory lies under its trash name".to_owned();
        assert_eq!(refusals, [Refusal { path: tree, why }]);
        assert!(exists(&other));
    }
}
