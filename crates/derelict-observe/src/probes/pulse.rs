//! Whether a process has run between two looks at it. One that has not still uses what it used: it
//! opened, closed, mapped and entered nothing, and nobody else does that for it. Whoever cannot be
//! shown to have slept counts as having run.

use std::ffi::OsStr;
use std::os::fd::{AsFd as _, BorrowedFd};

use crate::probes::kernel;
use crate::seen;

/// How many threads are asked. Of a process with more it is cheaper to look at what it uses.
const MOST_THREADS: u64 = 16;

/// What the scheduler counts of a process that slept when it was asked: equal at two instants means that
/// none of its threads was given a processor between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pulse(Vec<Beat>);

/// One sleeping thread.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Beat {
    thread: u32,
    /// Clock ticks from the start of the system to its own: with the number, its identity.
    started: String,
    /// Nanoseconds on a processor, nanoseconds waited for one, and how many times it got one.
    scheduled: String,
}

impl Pulse {
    /// Of a process whose `stat` was just read. None if it does not sleep, or the kernel does not count.
    pub(crate) fn of(proc: BorrowedFd<'_>, pid: u32, stat: &Stat) -> Option<Self> {
        if stat.threads == 1 {
            return Some(Self(vec![Beat::of(proc, pid, stat)?]));
        }
        if stat.threads > MOST_THREADS {
            return None;
        }
        let tasks = seen::open_directory(proc, OsStr::new(&format!("{pid}/task"))).ok()?;
        let threads = kernel::numbers(tasks.as_fd()).ok()?;
        let beat = |thread| Beat::of(tasks.as_fd(), thread, &Stat::of(tasks.as_fd(), thread)?);
        threads.into_iter().map(beat).collect::<Option<Vec<_>>>().map(Self)
    }
}

impl Beat {
    /// A thread that waits for a processor, or has one, is about to do something.
    fn of(among: BorrowedFd<'_>, thread: u32, stat: &Stat) -> Option<Self> {
        let scheduled = kernel::line(among, &format!("{thread}/schedstat"));
        let counts = scheduled.split(' ').next().is_some_and(|ran| !matches!(ran, "" | "0"));
        let sleeps = matches!(stat.state, 'S' | 'D' | 'T' | 't' | 'I');
        (counts && sleeps).then(|| Self { thread, started: stat.started.clone(), scheduled })
    }
}

/// What is wanted of the kernel's line about a process or a thread, as proc(5) has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) state: char,
    pub(crate) is_kernel_thread: bool,
    pub(crate) threads: u64,
    started: String,
}

/// The flag of kernel threads: they hold no files.
const KERNEL_THREAD: u64 = 0x0020_0000;

impl Stat {
    /// Of one of the processes or threads of a directory; none when it ended meanwhile.
    pub(crate) fn of(among: BorrowedFd<'_>, number: u32) -> Option<Self> {
        Self::parse(&kernel::line(among, &format!("{number}/stat")))
    }

    /// The command's name stands in parentheses and may hold any character, so fields are counted after
    /// the last: state is the third, flags the ninth, threads the twentieth, the start the one after next.
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.rsplit_once(')')?.1.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        let flags: u64 = fields.nth(5)?.parse().ok()?;
        let threads = fields.nth(10)?.parse().ok()?;
        let started = fields.nth(1)?.to_owned();
        Some(Self { state, is_kernel_thread: flags & KERNEL_THREAD != 0, threads, started })
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests start what is looked at")]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::process::{Child, Command, Stdio};

    #[test]
    fn the_line_of_a_process_is_read_whatever_its_command_is_called() {
        let line = "9 (a) R b) S 1 9 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 14 0 2100 51834880";
        let stat = Stat::parse(line).expect("because it is whole");
        let expected = Stat { state: 'S', is_kernel_thread: false, threads: 14, started: "2100".into() };
        assert_eq!(stat, expected);
        let thread = Stat::parse("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 3 0");
        assert!(thread.is_some_and(|stat| stat.is_kernel_thread));
        assert_eq!(Stat::parse("9 (a) S 1"), None);
        assert_eq!(Stat::parse(""), None);
    }

    /// A child that answers each byte and sleeps in between.
    struct Cat(Child);

    impl Cat {
        fn start() -> Self {
            let mut command = Command::new("cat");
            Self(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap())
        }

        fn is_asked(&mut self) {
            self.0.stdin.as_mut().unwrap().write_all(b"x").unwrap();
            self.0.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        }

        /// Its pulse, as soon as it sleeps.
        fn pulse(&self) -> Pulse {
            let proc = kernel::open_proc().unwrap();
            loop {
                let stat = Stat::of(proc.as_fd(), self.0.id()).expect("because it runs");
                if let Some(pulse) = Pulse::of(proc.as_fd(), self.0.id(), &stat) {
                    return pulse;
                }
            }
        }
    }

    impl Drop for Cat {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_process_that_ran_between_two_looks_has_another_pulse() {
        let mut cat = Cat::start();
        cat.is_asked();
        let mut before = cat.pulse();
        for _ in 0..50 {
            cat.is_asked();
            let after = cat.pulse();
            assert_ne!(before, after);
            before = after;
        }
    }

    #[test]
    fn a_process_that_sleeps_keeps_its_pulse_and_one_that_runs_has_none() {
        let mut cat = Cat::start();
        cat.is_asked();
        // Between its answer and its sleep it still runs.
        let mut last = cat.pulse();
        let sleeps = |pulse: Pulse| std::mem::replace(&mut last, pulse.clone()) == pulse;
        assert!(std::iter::repeat_with(|| cat.pulse()).any(sleeps));
        // This one runs, whatever its other threads do.
        let tasks = std::fs::File::open("/proc/thread-self/..").unwrap();
        let own = std::fs::read_link("/proc/thread-self").unwrap();
        let own = own.file_name().unwrap().to_str().unwrap().parse().unwrap();
        assert_eq!(Beat::of(tasks.as_fd(), own, &Stat::of(tasks.as_fd(), own).unwrap()), None);
    }
}
