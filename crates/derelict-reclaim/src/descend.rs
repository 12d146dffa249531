//! A walk through a tree with an explicit stack, a handful of descriptors and little memory, at any
//! depth and width. It says where the walk stands; what is done there is up to `mounts` and
//! `remove`.
//!
//! Only the deepest few directories are held open. On the way back, one that was closed is opened
//! again as the parent of its child, and must be the very directory the walk came through: a tree
//! that is rearranged meanwhile cannot lead the walk anywhere else. Memory grows by a frame and a
//! name per level (60,000 levels of 40 bytes: 7 MiB), and by a bounded batch of names in all.

use std::collections::VecDeque;
use std::ffi::{CStr, CString, OsStr};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::beneath::{NotEntered, enter_by};
use crate::pace::Ask;
use crate::stat::{Seen, seen, words};

/// How many directories below the top are held open. Two would do: the rest saves reopening.
const WINDOW: usize = 8;

/// How many bytes of names one directory may hand over before they are dealt with.
const BATCH: usize = 64 * 1024;

/// How many bytes of names all levels together may have waiting; beyond that, one at a time.
const WAITING: usize = 4 * 1024 * 1024;

/// The size of the buffer that directories are read into.
const READ_BUFFER: usize = 32 * 1024;

/// Where a walk stands.
#[derive(Debug)]
pub(crate) struct Descent {
    top: Rc<OwnedFd>,
    top_seen: Seen,
    frames: Vec<Frame>,
    open: VecDeque<Rc<OwnedFd>>,
    path: Vec<u8>,
    waiting: Vec<u8>,
}

/// One directory on the way down.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) ino: u64,
    pub(crate) bytes: u64,
    pub(crate) cookie: u64,
    pub(crate) reading: Reading,
    pub(crate) tried: Tried,
    pub(crate) removed: u64,
    pub(crate) removed_before: u64,
    pub(crate) pass: u32,
    path_from: usize,
    waiting_from: usize,
}

/// How much of a directory has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    More,
    Done,
}

/// What has been met in a directory so far, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tried {
    /// Nothing that would not go.
    Freely,
    /// Something below would not go.
    InPart,
    /// It does not let any of its own entries go.
    InVain,
}

/// What a walk came back to.
#[derive(Debug)]
pub(crate) enum Left {
    /// The top: there is nothing above.
    Top,
    /// The parent of this one.
    Child { name: CString, frame: Frame },
}

/// The way back up is cut off: the tree was rearranged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lost(pub(crate) String);

impl Descent {
    /// Starts at the top of a tree.
    pub(crate) fn new(top: OwnedFd) -> Result<Self, Errno> {
        let top_seen = seen(&top)?;
        let mut descent = Self {
            top: Rc::new(top),
            top_seen,
            frames: Vec::new(),
            open: VecDeque::new(),
            path: Vec::new(),
            waiting: Vec::new(),
        };
        descent.push_frame(&top_seen, 0, 0);
        Ok(descent)
    }

    /// The directory the walk stands in.
    pub(crate) fn current(&self) -> Rc<OwnedFd> {
        Rc::clone(self.open.back().unwrap_or(&self.top))
    }

    pub(crate) fn top_seen(&self) -> &Seen {
        &self.top_seen
    }

    pub(crate) fn frame(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("because the top frame is never popped")
    }

    /// The path of the current directory or of an entry in it, for people.
    pub(crate) fn shown(&self, tree: &Path, entry: Option<&CStr>) -> PathBuf {
        let mut path = tree.to_owned();
        if !self.path.is_empty() {
            path.push(OsStr::from_bytes(&self.path));
        }
        if let Some(entry) = entry {
            path.push(OsStr::from_bytes(entry.to_bytes()));
        }
        path
    }

    /// Remembers a directory of the current one for later.
    pub(crate) fn wait(&mut self, name: &CStr) {
        self.waiting.extend_from_slice(name.to_bytes_with_nul());
    }

    /// Whether so many are waiting that reading on has to wait, too.
    pub(crate) fn has_enough_waiting(&mut self) -> bool {
        let all = self.waiting.len();
        let here = all - self.frame().waiting_from;
        here >= BATCH || (here > 0 && all >= WAITING)
    }

    /// The next directory of the current one that is waiting.
    pub(crate) fn next_waiting(&mut self) -> Option<CString> {
        let from = self.frame().waiting_from;
        let names = self.waiting.get(from..).filter(|names| !names.is_empty())?;
        let start = names[..names.len() - 1].iter().rposition(|byte| *byte == 0).map_or(0, |before| before + 1);
        let name = CString::from_vec_with_nul(names[start..].to_vec()).expect("because each name waits with its NUL");
        self.waiting.truncate(from + start);
        Some(name)
    }

    /// Goes down into a directory of the current one.
    pub(crate) fn enter(&mut self, asks: &mut impl Ask, name: &CStr) -> Result<(), NotEntered> {
        let (dir, found) = enter_by(asks, self.current().as_fd(), &self.top_seen, name)?;
        if self.open.len() == WINDOW {
            self.open.pop_front();
        }
        self.open.push_back(Rc::new(dir));
        let path_from = self.path.len();
        if path_from > 0 {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(name.to_bytes());
        self.push_frame(&found, path_from, self.waiting.len());
        Ok(())
    }

    /// Goes back up.
    pub(crate) fn leave(&mut self) -> Result<Left, Lost> {
        let [.., above, _] = self.frames.as_slice() else { return Ok(Left::Top) };
        let above = above.ino;
        if self.open.len() == 1 && self.frames.len() > 2 {
            let parent = self.parent(above)?;
            self.open.push_front(Rc::new(parent));
        }
        self.open.pop_back();
        let frame = self.frames.pop().expect("because there are two frames at least");
        let name = self.path.split_off(frame.path_from);
        let name = name.strip_prefix(b"/").unwrap_or(&name);
        let name = CString::new(name).expect("because it was a C string when the walk came in");
        self.waiting.truncate(frame.waiting_from);
        Ok(Left::Child { name, frame })
    }

    fn parent(&self, ino: u64) -> Result<OwnedFd, Lost> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let lost = |errno| Lost(format!("the way back up is barred: {}", words(errno)));
        let parent = rustix::fs::openat(&*self.current(), c"..", flags, Mode::empty()).map_err(lost)?;
        let found = seen(&parent).map_err(lost)?;
        if found.identity.ino != ino || self.top_seen.crossing(&found).is_some() {
            return Err(Lost("it was moved to another place meanwhile".to_owned()));
        }
        Ok(parent)
    }

    fn push_frame(&mut self, found: &Seen, path_from: usize, waiting_from: usize) {
        self.frames.push(Frame {
            ino: found.identity.ino,
            bytes: found.bytes,
            cookie: 0,
            reading: Reading::More,
            tried: Tried::Freely,
            removed: 0,
            removed_before: 0,
            pass: 0,
            path_from,
            waiting_from,
        });
    }
}

/// A buffer to read directories into.
pub(crate) fn read_buffer() -> Vec<MaybeUninit<u8>> {
    vec![MaybeUninit::uninit(); READ_BUFFER]
}

/// Whether a name is one of the two that every directory has.
pub(crate) fn is_dot(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

#[cfg(test)]
mod tests {
    use std::fs::{File, create_dir_all, rename};

    use super::*;
    use crate::pace::AtOnce;

    fn descent(path: &Path) -> Descent {
        Descent::new(File::open(path).unwrap().into()).unwrap()
    }

    #[test]
    fn names_wait_per_level_and_come_back_last_in_first_out() {
        let world = tempfile::tempdir().unwrap();
        create_dir_all(world.path().join("a/inner")).unwrap();
        let mut walk = descent(world.path());
        walk.wait(c"b");
        walk.wait(c"a");
        let name = walk.next_waiting().unwrap();
        assert_eq!(name.as_c_str(), c"a");
        walk.enter(&mut AtOnce, &name).unwrap();
        assert_eq!(walk.next_waiting(), None);
        walk.wait(c"inner");
        assert_eq!(walk.next_waiting().as_deref(), Some(c"inner"));
        assert!(matches!(walk.leave(), Ok(Left::Child { name, .. }) if name.as_c_str() == c"a"));
        assert_eq!(walk.next_waiting().as_deref(), Some(c"b"));
        assert_eq!(walk.next_waiting(), None);
        assert!(matches!(walk.leave(), Ok(Left::Top)));
    }

    #[test]
    fn the_way_back_leads_through_closed_directories_and_only_those_it_came_through() {
        let world = tempfile::tempdir().unwrap();
        let depth = 3 * WINDOW;
        create_dir_all(world.path().join("d/".repeat(depth))).unwrap();
        let mut walk = descent(world.path());
        (0..depth).for_each(|_| walk.enter(&mut AtOnce, c"d").unwrap());
        assert_eq!(walk.open.len(), WINDOW);
        for level in (0..depth).rev() {
            walk.leave().unwrap();
            assert_eq!(walk.shown(Path::new("t"), None), Path::new("t").join("d/".repeat(level)));
        }
        assert!(matches!(walk.leave(), Ok(Left::Top)));

        (0..depth).for_each(|_| walk.enter(&mut AtOnce, c"d").unwrap());
        let half = world.path().join("d/".repeat(depth / 2));
        rename(half, world.path().join("elsewhere")).unwrap();
        for _ in 0..depth / 2 {
            walk.leave().unwrap();
        }
        assert_eq!(walk.leave().unwrap_err(), Lost("it was moved to another place meanwhile".into()));
    }
}
