//! What one process uses: its working directories, root, executable, open and mapped files, by file
//! identity. Which mounts its namespace has is read elsewhere: others than itself can change that.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::fs::FileType;

use crate::probes::holders::By;
use crate::probes::kernel::{self, name_of, numbers};
use crate::probes::maps;
use crate::probes::pulse::{Pulse, Stat};
use crate::seen::{self, Inode};

/// One process and what could be seen of it.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) uses: Vec<(Inode, By)>,
    /// Whether something of it may not be inspected.
    pub(crate) is_barred: bool,
    /// Its mount and its network namespace; none if it has ended or may not be inspected.
    pub(crate) namespaces: Option<(Inode, Inode)>,
    sort: Sort,
}

/// What spares another look at it.
#[derive(Debug)]
enum Sort {
    /// It uses nothing. Its directory in `/proc` has this inode as long as it lives.
    KernelThread(Inode),
    /// How it slept before it was looked at.
    User(Option<Pulse>),
}

/// Whose descriptors are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Files {
    /// Our own are how we look and lock.
    Ours,
    /// Another process's.
    Theirs,
}

impl Process {
    /// Looks at one, or takes over what was seen of it `before` if it has slept since. None when it has
    /// ended.
    pub(crate) fn look(proc: BorrowedFd<'_>, pid: u32, files: Files, before: Option<Self>) -> Option<Self> {
        let inode = seen::at(proc, &name_of(pid)).ok()?.inode();
        match before.as_ref().map(|before| &before.sort) {
            Some(Sort::KernelThread(known)) if *known == inode => return before,
            Some(Sort::KernelThread(_) | Sort::User(_)) | None => {}
        }
        let stat = Stat::of(proc, pid)?;
        let sort =
            if stat.is_kernel_thread { Sort::KernelThread(inode) } else { Sort::User(Pulse::of(proc, pid, &stat)) };
        match (&sort, before) {
            (Sort::User(Some(now)), Some(before)) if before.slept_as(now) => return Some(before),
            (Sort::User(_) | Sort::KernelThread(_), Some(_) | None) => {}
        }
        let mut process = Self { pid, uses: Vec::new(), is_barred: false, namespaces: None, sort };
        if stat.is_kernel_thread {
            return Some(process);
        }
        let dir = seen::open_directory(proc, &name_of(pid)).ok()?;
        let dir = dir.as_fd();
        process.is_barred = match process.task(dir, files) {
            Task::Barred => true,
            Task::NoFiles => process.threads(dir, files),
            Task::Whole => {
                if stat.threads > 1 {
                    process.directories_of_threads(dir);
                }
                false
            }
        };
        Some(process)
    }

    fn slept_as(&self, now: &Pulse) -> bool {
        match &self.sort {
            Sort::User(before) => before.as_ref() == Some(now),
            Sort::KernelThread(_) => false,
        }
    }

    /// A thread may have a working directory of its own. One that ends meanwhile uses nothing any more.
    fn directories_of_threads(&mut self, dir: BorrowedFd<'_>) {
        let Ok(tasks) = seen::open_directory(dir, OsStr::new("task")) else { return };
        let Ok(threads) = numbers(tasks.as_fd()) else { return };
        for thread in threads {
            if let Ok(seen) = seen::followed(tasks.as_fd(), OsStr::new(&format!("{thread}/cwd"))) {
                self.note(By::WorkingDirectory, &seen);
            }
        }
    }

    /// A process whose first thread has ended shows nothing of its own, and its other threads still run.
    fn threads(&mut self, dir: BorrowedFd<'_>, files: Files) -> bool {
        let Ok(tasks) = seen::open_directory(dir, OsStr::new("task")) else { return false };
        let Ok(threads) = numbers(tasks.as_fd()) else { return false };
        for thread in threads {
            let Ok(dir) = seen::open_directory(tasks.as_fd(), &name_of(thread)) else { continue };
            match self.task(dir.as_fd(), files) {
                Task::Whole | Task::NoFiles => {}
                Task::Barred => return true,
            }
        }
        false
    }

    fn task(&mut self, dir: BorrowedFd<'_>, files: Files) -> Task {
        for (link, by) in [("cwd", By::WorkingDirectory), ("exe", By::Executable), ("root", By::Root)] {
            match seen::followed(dir, OsStr::new(link)) {
                Ok(seen) => self.note(by, &seen),
                Err(error) if is_barred(&error) => return Task::Barred,
                Err(_) if by == By::WorkingDirectory => return Task::NoFiles,
                // An executable that was unlinked is in no directory.
                Err(_) => {}
            }
        }
        let looked = match files {
            Files::Ours => Ok(()),
            Files::Theirs => self.opened(dir).and_then(|()| self.mapped(dir)),
        };
        match looked.and_then(|()| self.enter(dir)) {
            Err(error) if is_barred(&error) => Task::Barred,
            // It ended meanwhile.
            Err(_) | Ok(()) => Task::Whole,
        }
    }

    fn opened(&mut self, dir: BorrowedFd<'_>) -> io::Result<()> {
        let open = seen::open_directory(dir, OsStr::new("fd"))?;
        for number in numbers(open.as_fd())? {
            // One that was closed meanwhile uses nothing any more.
            let Ok(seen) = seen::followed(open.as_fd(), &name_of(number)) else { continue };
            self.note(By::File(number), &seen);
        }
        Ok(())
    }

    fn mapped(&mut self, dir: BorrowedFd<'_>) -> io::Result<()> {
        self.uses.extend(maps::mapped(dir)?.into_iter().map(|inode| (inode, By::Mapping)));
        Ok(())
    }

    fn enter(&mut self, dir: BorrowedFd<'_>) -> io::Result<()> {
        self.namespaces = Some(namespaces(dir)?);
        Ok(())
    }

    /// Pipes, sockets and devices are in no directory.
    fn note(&mut self, by: By, seen: &seen::Seen) {
        if matches!(seen.kind, FileType::RegularFile | FileType::Directory) {
            self.uses.push((seen.inode(), by));
        }
    }
}

/// The mount and the network namespace of the process whose directory in `/proc` is `dir`.
pub(crate) fn namespaces(dir: BorrowedFd<'_>) -> io::Result<(Inode, Inode)> {
    let namespace = |name: &str| Ok::<_, io::Error>(seen::followed(dir, OsStr::new(name))?.inode());
    Ok((namespace("ns/mnt")?, namespace("ns/net")?))
}

/// A process's command name; empty when it ended meanwhile, which costs a name in a message.
pub(crate) fn command_of(pid: u32) -> String {
    let dir = kernel::open_proc().and_then(|proc| seen::open_directory(proc.as_fd(), &name_of(pid)));
    dir.map_or_else(|_| String::new(), |dir| kernel::line(dir.as_fd(), "comm"))
}

pub(crate) fn is_barred(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

enum Task {
    Whole,
    Barred,
    /// It has given its files up: a zombie, or a first thread that ended before the others.
    NoFiles,
}
