//! Who uses a directory now: every process's working directory, root, executable, open and mapped
//! files, the mounts of every mount namespace, and what the system itself uses, by file identity, so
//! that a process in another mount namespace is seen too. One snapshot serves all directories of a
//! survey; each re-check takes its own.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use derelict_core::evidence::{Blind, Holder, Signal};
use derelict_core::ids::escaped;
use rustix::fs::{FileType, Mode, OFlags, RawDir};

use crate::probes::mounts::{self, Tie};
use crate::probes::{maps, system};
use crate::seen::{self, Inode};
use crate::survey::ProcessView;

/// Where the kernel shows processes.
const PROC: &str = "/proc";

/// How much of a process's one-line files is read.
const LINE_BYTES: usize = 1024;

/// Bytes for one listing of a directory of the kernel's: some hundred names.
const LISTING_BYTES: usize = 8 * 1024;

/// Links of the directory of threads that has one thread: its own two, and the thread's.
const LINKS_OF_ONE_THREAD: u64 = 3;

/// The flag of kernel threads in the ninth field of a process's `stat`: they hold no files.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// By what a process is inside a directory; the plainest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum By {
    WorkingDirectory,
    Root,
    Executable,
    File(u32),
    /// A file that is mapped into its memory.
    Mapping,
    /// A mount that its mount namespace has there.
    Mount,
    /// A mount that its mount namespace has elsewhere and that shows it.
    MountOfIt,
    /// An overlay of which it is a layer.
    Layer,
    /// Something that is not a process's.
    System,
}

/// Which files which processes used at one instant.
#[derive(Debug)]
pub(crate) struct Holders {
    /// In the order in which they were looked at.
    users: Vec<User>,
    /// The last use of each file; the others follow by `earlier`.
    by_file: HashMap<Inode, usize>,
    uses: Vec<Use>,
    /// Mount namespaces that were looked into; our own first.
    namespaces: HashSet<Inode>,
    /// Network namespaces that were looked into, each from one mount namespace.
    networks: HashSet<(Inode, Inode)>,
    pub(crate) view: ProcessView,
}

/// Who uses something.
#[derive(Debug)]
enum User {
    /// A process, by its number.
    Process(u32),
    /// The system, in words.
    System(String),
}

#[derive(Debug)]
struct Use {
    user: usize,
    by: By,
    earlier: Option<usize>,
}

/// What could be seen of one process.
enum Sight {
    /// All of it, or it ended meanwhile.
    Whole,
    /// Something of it may not be inspected.
    Barred,
}

impl Holders {
    /// Looks at every process that can be seen.
    pub(crate) fn snapshot() -> Result<Self, Blind> {
        let blind = |error: io::Error| Blind { signal: Signal::Use, why: format!("cannot read {PROC}: {error}") };
        let proc = open_proc().map_err(blind)?;
        let mut holders = Self {
            users: Vec::new(),
            by_file: HashMap::new(),
            uses: Vec::new(),
            namespaces: HashSet::new(),
            networks: HashSet::new(),
            view: ProcessView::Whole,
        };
        let mut unseen = match holders.surroundings(proc.as_fd()).map_err(blind)? {
            Sight::Whole => 0,
            Sight::Barred => 1,
        };
        let own = std::process::id();
        for pid in numbers(proc.as_fd()).map_err(blind)? {
            match holders.process(proc.as_fd(), pid, own) {
                Sight::Whole => {}
                Sight::Barred => unseen += 1,
            }
        }
        // The first process of a pid namespace always exists. Where it does not show, others do not either.
        let hidden = seen::at(proc.as_fd(), OsStr::new("1")).is_err();
        holders.view = match (hidden, unseen) {
            (true, _) => ProcessView::Hidden,
            (false, 0) => ProcessView::Whole,
            (false, unseen) => ProcessView::Partly { unseen },
        };
        Ok(holders)
    }

    /// The users of this file, as numbers to be given to [`Holders::holder`].
    pub(crate) fn of(&self, inode: Inode) -> impl Iterator<Item = (usize, By)> {
        let mut next = self.by_file.get(&inode).copied();
        std::iter::from_fn(move || {
            let used = self.uses.get(next?)?;
            next = used.earlier;
            Some((used.user, used.by))
        })
    }

    /// One user, in core's words. A process's command is read now: few are ever told of.
    pub(crate) fn holder(&self, user: usize, by: By) -> Option<Holder> {
        let pid = match self.users.get(user)? {
            User::Process(pid) => *pid,
            User::System(what) => return Some(Holder::System(what.clone())),
        };
        let by = match by {
            By::WorkingDirectory => "cwd".to_owned(),
            By::Root => "root".to_owned(),
            By::Executable => "exe".to_owned(),
            By::File(number) => format!("fd {number}"),
            By::Mapping => "a mapped file".to_owned(),
            By::Mount => "a mount in its namespace".to_owned(),
            By::MountOfIt => "a mount of it in its namespace".to_owned(),
            By::Layer => "a layer of an overlay in its namespace".to_owned(),
            By::System => "the system".to_owned(),
        };
        Some(Holder::Process { pid, by, command: command_of(pid) })
    }

    fn process(&mut self, proc: BorrowedFd<'_>, pid: u32, own: u32) -> Sight {
        let Ok(dir) = seen::open_directory(proc, &name_of(pid)) else { return Sight::Whole };
        let process = self.users.len();
        self.users.push(User::Process(pid));
        let files = if pid == own { Files::Ours } else { Files::Theirs };
        let sight = match self.task(dir.as_fd(), process, files) {
            Task::Whole => {
                self.directories_of_threads(dir.as_fd(), process, pid);
                Sight::Whole
            }
            Task::Barred => Sight::Barred,
            Task::NoFiles => self.threads(dir.as_fd(), process, files),
        };
        match sight {
            Sight::Barred if is_kernel_thread(&line(dir.as_fd(), "stat")) => Sight::Whole,
            Sight::Barred | Sight::Whole => sight,
        }
    }

    /// A thread may have a working directory of its own. One that ends meanwhile uses nothing any more.
    fn directories_of_threads(&mut self, dir: BorrowedFd<'_>, process: usize, first: u32) {
        // The kernel counts the threads as links: one thread alone needs no listing.
        if seen::links(dir, OsStr::new("task")).is_ok_and(|links| links == LINKS_OF_ONE_THREAD) {
            return;
        }
        let Ok(tasks) = seen::open_directory(dir, OsStr::new("task")) else { return };
        let Ok(threads) = numbers(tasks.as_fd()) else { return };
        for thread in threads.into_iter().filter(|thread| *thread != first) {
            if let Ok(seen) = seen::followed(tasks.as_fd(), OsStr::new(&format!("{thread}/cwd"))) {
                self.note(process, By::WorkingDirectory, &seen);
            }
        }
    }

    /// A process whose first thread has ended shows nothing of its own, and its other threads still run.
    fn threads(&mut self, dir: BorrowedFd<'_>, process: usize, files: Files) -> Sight {
        let Ok(tasks) = seen::open_directory(dir, OsStr::new("task")) else { return Sight::Whole };
        let Ok(threads) = numbers(tasks.as_fd()) else { return Sight::Whole };
        for thread in threads {
            let Ok(dir) = seen::open_directory(tasks.as_fd(), &name_of(thread)) else { continue };
            match self.task(dir.as_fd(), process, files) {
                Task::Whole | Task::NoFiles => {}
                Task::Barred => return Sight::Barred,
            }
        }
        Sight::Whole
    }

    fn task(&mut self, dir: BorrowedFd<'_>, process: usize, files: Files) -> Task {
        // The executable comes first: kernel threads have none, and on a quiet machine they are most of what runs.
        let links = [("exe", By::Executable), ("cwd", By::WorkingDirectory), ("root", By::Root)];
        for (link, by) in links {
            match seen::followed(dir, OsStr::new(link)) {
                Ok(seen) => self.note(process, by, &seen),
                Err(error) if is_barred(&error) => return Task::Barred,
                Err(_) if by == By::Executable && is_kernel_thread(&line(dir, "stat")) => return Task::Whole,
                Err(_) if by == By::WorkingDirectory => return Task::NoFiles,
                // An executable that was unlinked is in no directory.
                Err(_) => {}
            }
        }
        match files {
            // Our own descriptors are how we look and lock.
            Files::Ours => return Task::Whole,
            Files::Theirs => {}
        }
        let opened = seen::open_directory(dir, OsStr::new("fd"));
        let (descriptors, open) = match opened.and_then(|open| Ok((numbers(open.as_fd())?, open))) {
            Ok(listed) => listed,
            Err(error) if is_barred(&error) => return Task::Barred,
            // It ended meanwhile.
            Err(_) => return Task::Whole,
        };
        for number in descriptors {
            // One that was closed meanwhile uses nothing any more.
            let Ok(seen) = seen::followed(open.as_fd(), &name_of(number)) else { continue };
            self.note(process, By::File(number), &seen);
        }
        match self.without_descriptors(dir, process) {
            Err(error) if is_barred(&error) => Task::Barred,
            // It ended meanwhile.
            Err(_) | Ok(()) => Task::Whole,
        }
    }

    fn without_descriptors(&mut self, dir: BorrowedFd<'_>, process: usize) -> io::Result<()> {
        for inode in maps::mapped(dir)? {
            self.note_inode(process, By::Mapping, inode);
        }
        let namespace = seen::followed(dir, OsStr::new("ns/mnt"))?.inode();
        if self.namespaces.insert(namespace) {
            let mounts = mounts::of(dir, &[Tie::Parent, Tie::Source, Tie::Layer])?;
            if mounts.is_partial {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            for mount in mounts.found {
                let by = match mount.tie {
                    Tie::Parent => By::Mount,
                    Tie::Source => By::MountOfIt,
                    Tie::Layer => By::Layer,
                };
                self.note(process, by, &mount.file);
            }
        }
        if self.networks.insert((seen::followed(dir, OsStr::new("ns/net"))?.inode(), namespace)) {
            self.note_system(system::sockets(dir)?);
        }
        Ok(())
    }

    /// What belongs to no other process: devices, and the mounts and sockets of our own namespaces. What
    /// is mounted inside a directory the walk meets by itself. A system without these lists has none.
    fn surroundings(&mut self, proc: BorrowedFd<'_>) -> io::Result<Sight> {
        let own = seen::open_directory(proc, &name_of(std::process::id()))?;
        let own = own.as_fd();
        let namespace = seen::followed(own, OsStr::new("ns/mnt"))?.inode();
        self.namespaces.insert(namespace);
        self.networks.insert((seen::followed(own, OsStr::new("ns/net"))?.inode(), namespace));
        let mounts = mounts::of(own, &[Tie::Source, Tie::Layer])?;
        let sight = if mounts.is_partial { Sight::Barred } else { Sight::Whole };
        let mounts = mounts.found.into_iter().filter_map(|mount| {
            let at = escaped(&mount.point);
            match mount.tie {
                Tie::Parent => None,
                Tie::Source => Some((mount.file.inode(), format!("something of it is mounted at {at}"))),
                Tie::Layer => Some((mount.file.inode(), format!("the overlay at {at} has a layer in it"))),
            }
        });
        let sockets = system::sockets(own).unwrap_or_else(|_| Vec::new());
        self.note_system(mounts.chain(system::devices()).chain(sockets));
        Ok(sight)
    }

    fn note_system(&mut self, used: impl IntoIterator<Item = system::Used>) {
        for (inode, what) in used {
            // One socket shows in every mount namespace that shares its network.
            let is_known =
                self.of(inode).any(|(user, _)| matches!(&self.users[user], User::System(known) if *known == what));
            if !is_known {
                let user = self.users.len();
                self.users.push(User::System(what));
                self.note_inode(user, By::System, inode);
            }
        }
    }

    /// Pipes, sockets and devices are in no directory.
    fn note(&mut self, user: usize, by: By, seen: &seen::Seen) {
        if !matches!(seen.kind, FileType::RegularFile | FileType::Directory) {
            return;
        }
        self.note_inode(user, by, seen.inode());
    }

    fn note_inode(&mut self, user: usize, by: By, inode: Inode) {
        let earlier = self.by_file.insert(inode, self.uses.len());
        self.uses.push(Use { user, by, earlier });
    }
}

enum Task {
    Whole,
    Barred,
    /// It has given its files up: a zombie, or a first thread that ended before the others.
    NoFiles,
}

/// Whose descriptors are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Files {
    Ours,
    Theirs,
}

fn name_of(number: u32) -> OsString {
    number.to_string().into()
}

/// The names in a directory that are numbers: processes, threads, descriptors. Others are no news.
fn numbers(dir: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    let mut numbers = Vec::new();
    let mut buffer = [MaybeUninit::uninit(); LISTING_BYTES];
    let mut entries = RawDir::new(dir, &mut buffer);
    while let Some(entry) = entries.next() {
        numbers.extend(entry?.file_name().to_str().ok().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(numbers)
}

/// A process's command name; empty when it ended meanwhile, which costs a name in a message.
fn command_of(pid: u32) -> String {
    let dir = open_proc().and_then(|proc| seen::open_directory(proc.as_fd(), &name_of(pid)));
    dir.map_or_else(|_| String::new(), |dir| line(dir.as_fd(), "comm"))
}

fn is_barred(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

/// Elsewhere than on Linux nothing shows who uses a directory, and what cannot be seen keeps.
fn open_proc() -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let proc = rustix::fs::open(PROC, flags, Mode::empty())?;
    #[cfg(target_os = "linux")]
    if rustix::fs::fstatfs(&proc)?.f_type == rustix::fs::PROC_SUPER_MAGIC {
        return Ok(proc);
    }
    drop(proc);
    Err(io::Error::other("it is not the kernel's view of processes"))
}

/// A one-line file of a process; empty when it cannot be read, which costs a name in a message.
fn line(dir: BorrowedFd<'_>, name: &str) -> String {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut bytes = [0; LINE_BYTES];
    // The kernel hands such a file out in one piece.
    let read = rustix::fs::openat(dir, name, flags, Mode::empty()).and_then(|file| rustix::io::read(file, &mut bytes));
    let length = read.unwrap_or(0);
    OsStr::from_bytes(bytes[..length].trim_ascii_end()).to_string_lossy().into_owned()
}

/// The command's name stands in parentheses and may hold any character, so fields are counted after the last.
fn is_kernel_thread(stat: &str) -> bool {
    let Some((_, fields)) = stat.rsplit_once(')') else { return false };
    let flags = fields.split_ascii_whitespace().nth(6).and_then(|flags| flags.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & KERNEL_THREAD != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_threads_are_told_by_their_flags() {
        assert!(is_kernel_thread("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0"));
        assert!(!is_kernel_thread("9 (a) b) S 1 9 9 0 -1 4194560 0 0"));
        assert!(!is_kernel_thread(""));
    }

    #[test]
    fn our_own_working_directory_counts_and_our_own_descriptors_do_not() {
        let world = tempfile::tempdir().expect("because a temporary directory can be made");
        let open = std::fs::File::open(world.path()).unwrap();
        let holders = Holders::snapshot().unwrap();
        assert_eq!(holders.of(seen::of(&open).unwrap().inode()).count(), 0);
        let here = seen::through(&std::env::current_dir().unwrap()).unwrap().inode();
        let own = std::process::id();
        let found: Vec<_> = holders.of(here).filter_map(|(process, by)| holders.holder(process, by)).collect();
        assert!(
            found.iter().any(|holder| matches!(holder, Holder::Process { pid, by, .. } if *pid == own && by == "cwd"))
        );
    }
}
