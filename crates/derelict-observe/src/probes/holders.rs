//! Who uses a directory now: every process, the mounts of every mount namespace, and what the system
//! itself uses, by file identity, so that a process in another mount namespace is seen too. One look
//! serves all directories of a survey; each second look behind a fence takes its own, which looks anew
//! at every process that has run since.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

use derelict_core::evidence::{Blind, Holder, Signal};
use derelict_core::ids::escaped;

use crate::probes::kernel::{self, PROC, name_of, numbers};
use crate::probes::mounts::{self, Tie};
use crate::probes::process::{self, Files, Process};
use crate::probes::system;
use crate::seen::{self, Inode};
use crate::survey::ProcessView;

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
    processes: Vec<Process>,
    /// What the system uses, in words.
    system: Vec<String>,
    /// The last use of each file; the others follow by `earlier`.
    by_file: HashMap<Inode, usize>,
    uses: Vec<Use>,
    pub(crate) view: ProcessView,
}

/// One use of a file. Users are numbered: first the processes, then what the system uses.
#[derive(Debug)]
struct Use {
    user: usize,
    by: By,
    earlier: Option<usize>,
}

impl Holders {
    /// Looks at every process that can be seen, and takes over what was seen `before` of those that have
    /// slept since.
    pub(crate) fn snapshot(before: Vec<Process>) -> Result<Self, Blind> {
        let blind = |error: io::Error| Blind { signal: Signal::Use, why: format!("cannot read {PROC}: {error}") };
        let proc = kernel::open_proc().map_err(blind)?;
        let mut known: HashMap<u32, Process> = before.into_iter().map(|process| (process.pid, process)).collect();
        let own = std::process::id();
        let pids = numbers(proc.as_fd()).map_err(blind)?;
        let processes: Vec<Process> = pids
            .into_iter()
            .filter_map(|pid| {
                let files = if pid == own { Files::Ours } else { Files::Theirs };
                Process::look(proc.as_fd(), pid, files, known.remove(&pid))
            })
            .collect();
        let mut holders = Self {
            by_file: HashMap::with_capacity(processes.iter().map(|process| process.uses.len()).sum()),
            processes,
            system: Vec::new(),
            uses: Vec::new(),
            view: ProcessView::Whole,
        };
        for user in 0..holders.processes.len() {
            for number in 0..holders.processes[user].uses.len() {
                let (inode, by) = holders.processes[user].uses[number];
                holders.note(user, by, inode);
            }
        }
        let unseen = holders.surroundings(proc.as_fd()).map_err(blind)?;
        // The first process of a pid namespace always exists. Where it does not show, others do not either.
        let hidden = seen::at(proc.as_fd(), OsStr::new("1")).is_err();
        let barred = holders.processes.iter().filter(|process| process.is_barred).count() as u64;
        holders.view = match (hidden, unseen + barred) {
            (true, _) => ProcessView::Hidden,
            (false, 0) => ProcessView::Whole,
            (false, unseen) => ProcessView::Partly { unseen },
        };
        Ok(holders)
    }

    /// What was seen of the processes, for the next look.
    pub(crate) fn take_processes(&mut self) -> Vec<Process> {
        std::mem::take(&mut self.processes)
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
        let Some(process) = self.processes.get(user) else {
            return self.system.get(user - self.processes.len()).cloned().map(Holder::System);
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
        Some(Holder::Process { pid: process.pid, by, command: process::command_of(process.pid) })
    }

    /// What no process shows of itself: devices, and the mounts and sockets of every namespace that some
    /// process is in. What is mounted in our own namespace inside a directory the walk meets by itself.
    /// Returns in how many namespaces something could not be looked at.
    fn surroundings(&mut self, proc: BorrowedFd<'_>) -> io::Result<u64> {
        let own = seen::open_directory(proc, &name_of(std::process::id()))?;
        let (namespace, network) = process::namespaces(own.as_fd())?;
        let (mut mounts, mut networks) = (HashSet::from([namespace]), HashSet::from([(namespace, network)]));
        let mut unseen = u64::from(self.own_mounts(own.as_fd())?);
        self.note_system(system::devices());
        self.note_system(system::sockets(own.as_fd()).unwrap_or_else(|_| Vec::new()));
        for user in 0..self.processes.len() {
            let Some((namespace, network)) = self.processes[user].namespaces else { continue };
            let (is_new, is_new_network) = (mounts.insert(namespace), networks.insert((namespace, network)));
            if !is_new && !is_new_network {
                continue;
            }
            let Ok(dir) = seen::open_directory(proc, &name_of(self.processes[user].pid)) else { continue };
            if is_new {
                unseen += u64::from(self.mounts_of(dir.as_fd(), user));
            }
            if is_new_network {
                // One that ended meanwhile is no loss: another process of its namespace is asked, or none is in it.
                self.note_system(system::sockets(dir.as_fd()).unwrap_or_else(|_| Vec::new()));
            }
        }
        Ok(unseen)
    }

    /// The mounts of the namespace of one process; whether some could not be looked at.
    fn mounts_of(&mut self, dir: BorrowedFd<'_>, user: usize) -> bool {
        let mounts = match mounts::of(dir, &[Tie::Parent, Tie::Source, Tie::Layer]) {
            Ok(mounts) => mounts,
            Err(error) => return process::is_barred(&error),
        };
        for mount in mounts.found {
            let by = match mount.tie {
                Tie::Parent => By::Mount,
                Tie::Source => By::MountOfIt,
                Tie::Layer => By::Layer,
            };
            self.note(user, by, mount.file.inode());
        }
        mounts.is_partial
    }

    /// The same of our own namespace.
    fn own_mounts(&mut self, own: BorrowedFd<'_>) -> io::Result<bool> {
        let mounts = mounts::of(own, &[Tie::Source, Tie::Layer])?;
        self.note_system(mounts.found.into_iter().filter_map(|mount| {
            let at = escaped(&mount.point);
            match mount.tie {
                Tie::Parent => None,
                Tie::Source => Some((mount.file.inode(), format!("something of it is mounted at {at}"))),
                Tie::Layer => Some((mount.file.inode(), format!("the overlay at {at} has a layer in it"))),
            }
        }));
        Ok(mounts.is_partial)
    }

    fn note_system(&mut self, used: impl IntoIterator<Item = system::Used>) {
        for (inode, what) in used {
            // One socket shows in every mount namespace that shares its network.
            let is_known =
                self.of(inode).any(|(user, by)| by == By::System && self.system[user - self.processes.len()] == what);
            if !is_known {
                let user = self.processes.len() + self.system.len();
                self.system.push(what);
                self.note(user, By::System, inode);
            }
        }
    }

    fn note(&mut self, user: usize, by: By, inode: Inode) {
        let earlier = self.by_file.insert(inode, self.uses.len());
        self.uses.push(Use { user, by, earlier });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_working_directory_counts_and_our_own_descriptors_do_not() {
        let world = tempfile::tempdir().expect("because a temporary directory can be made");
        let open = std::fs::File::open(world.path()).unwrap();
        let holders = Holders::snapshot(Vec::new()).unwrap();
        assert_eq!(holders.of(seen::of(&open).unwrap().inode()).count(), 0);
        let here = seen::through(&std::env::current_dir().unwrap()).unwrap().inode();
        let own = std::process::id();
        let found: Vec<_> = holders.of(here).filter_map(|(process, by)| holders.holder(process, by)).collect();
        assert!(
            found.iter().any(|holder| matches!(holder, Holder::Process { pid, by, .. } if *pid == own && by == "cwd"))
        );
    }
}
