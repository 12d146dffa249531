//! Runs an external command: an argument vector and never a shell, with a deadline, a bound on what
//! it may print, nothing on its standard input. The only place in the project that starts a process.

use std::ffi::OsStr;
use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use derelict_core::ids::escaped;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

/// Bytes of standard error that are kept for the message; the rest is read and dropped, so that a
/// chatty child does not block on a full pipe.
const STDERR_BYTES: usize = 16 * 1024;

/// Bytes taken from a pipe at once: the default capacity of one.
const CHUNK_BYTES: usize = 64 * 1024;

/// Chunks that are dropped between two looks at the clock.
const CHUNKS_AT_ONCE: usize = 16;

/// How long a killed child is waited for. One that sits in an uninterruptible call is left behind
/// rather than hanging us too.
const REAP: Duration = Duration::from_secs(2);

/// What is to be run.
#[derive(Debug)]
pub(crate) struct Invocation<'a> {
    /// The program, by path.
    pub(crate) program: &'a Path,
    /// Its arguments, without the program's own name.
    pub(crate) arguments: &'a [&'a str],
    /// What the child has of our own environment and place.
    pub(crate) inherits: Inherits,
    /// Variables to set, or with `None` to unset.
    pub(crate) variables: &'a [(&'a str, Option<&'a OsStr>)],
    /// How long it may take.
    pub(crate) deadline: Duration,
    /// How many bytes it may print.
    pub(crate) output_bytes: usize,
}

/// What a child inherits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inherits {
    /// All variables, and the current directory.
    Everything,
    /// No variable but those that are set, and the root directory as its place.
    Nothing,
}

/// Why there is no output.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExecError {
    #[error("cannot start {}: {source}", escaped(.program))]
    NotStarted { program: PathBuf, source: io::Error },
    #[error("cannot read from {}: {source}", escaped(.program))]
    Unreadable { program: PathBuf, source: io::Error },
    #[error("{} did not finish within {} seconds and was ended", escaped(.program), .deadline.as_secs_f64())]
    TimedOut { program: PathBuf, deadline: Duration },
    #[error("{} printed more than {limit} bytes and was ended", escaped(.program))]
    TooMuch { program: PathBuf, limit: usize },
    #[error("{} failed with {status}{}", escaped(.program), said(.stderr))]
    Failed { program: PathBuf, status: ExitStatus, stderr: Vec<u8> },
}

/// Runs a command and returns what it printed.
///
/// The child has a process group of its own, which is killed as a whole when the deadline passes.
/// Grandchildren that outlive it and hold its pipes do not keep us: once the child itself has ended,
/// what is in the pipes is taken and nothing more is waited for.
pub(crate) fn run(invocation: &Invocation<'_>) -> Result<Vec<u8>, ExecError> {
    let program = || invocation.program.to_path_buf();
    let mut running =
        Running::start(invocation).map_err(|source| ExecError::NotStarted { program: program(), source })?;
    match running.attend(invocation) {
        Ok(Attended::Ended) => {}
        Ok(Attended::TimedOut) => {
            running.kill();
            return Err(ExecError::TimedOut { program: program(), deadline: invocation.deadline });
        }
        Ok(Attended::TooMuch) => {
            running.kill();
            return Err(ExecError::TooMuch { program: program(), limit: invocation.output_bytes });
        }
        Err(source) => {
            running.kill();
            return Err(ExecError::Unreadable { program: program(), source });
        }
    }
    let status = running.child.wait().map_err(|source| ExecError::Unreadable { program: program(), source })?;
    if status.success() {
        Ok(running.stdout.taken)
    } else {
        Err(ExecError::Failed { program: program(), status, stderr: running.stderr.taken })
    }
}

enum Attended {
    Ended,
    TimedOut,
    TooMuch,
}

struct Running {
    child: Child,
    /// Hangs up when the child has ended, before it is reaped.
    ended: PipeReader,
    stdout: Output,
    stderr: Output,
}

struct Output {
    /// `None` once the other side is closed.
    pipe: Option<Box<dyn Pipe>>,
    taken: Vec<u8>,
}

trait Pipe: Read + AsFd {}
impl<T: Read + AsFd> Pipe for T {}

impl Running {
    #[expect(clippy::disallowed_methods, reason = "this is the module that may start processes")]
    fn start(invocation: &Invocation<'_>) -> io::Result<Self> {
        let mut command = Command::new(invocation.program);
        command.args(invocation.arguments).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        match invocation.inherits {
            Inherits::Everything => {}
            Inherits::Nothing => {
                command.env_clear().current_dir("/");
            }
        }
        for (name, value) in invocation.variables {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let mut child = command.spawn()?;
        let stdout = Output::of(child.stdout.take().expect("because stdout was asked to be a pipe"))?;
        let stderr = Output::of(child.stderr.take().expect("because stderr was asked to be a pipe"))?;
        match watch(pid_of(&child)) {
            Ok(ended) => Ok(Self { child, ended, stdout, stderr }),
            Err(error) => {
                // Nobody could tell when it ends, so it does not begin; the error is what is reported.
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    fn attend(&mut self, invocation: &Invocation<'_>) -> io::Result<Attended> {
        let started = Instant::now();
        loop {
            let Some(left) = invocation.deadline.checked_sub(started.elapsed()) else { return Ok(Attended::TimedOut) };
            let ended = self.wait(left)?;
            let printed = self.stdout.take(invocation.output_bytes.saturating_add(1), Beyond::Leave)?;
            self.stderr.take(STDERR_BYTES, if ended { Beyond::Leave } else { Beyond::Drop })?;
            if printed > invocation.output_bytes {
                return Ok(Attended::TooMuch);
            }
            if ended {
                return Ok(Attended::Ended);
            }
        }
    }

    /// Waits until something is to be read or the child has ended; says whether it has.
    fn wait(&self, left: Duration) -> io::Result<bool> {
        let mut watched = vec![PollFd::new(&self.ended, PollFlags::IN)];
        watched.extend([&self.stdout, &self.stderr].into_iter().filter_map(Output::watched));
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(&mut watched, Some(&timeout)) {
            Ok(_) => Ok(watched.first().is_some_and(|ended| !ended.revents().is_empty())),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends the child with everything it started. It has not been reaped, so its number is still its own.
    fn kill(&mut self) {
        // Nobody left to kill is what was wanted, and anything else leaves a child we cannot end.
        let _ = rustix::process::kill_process_group(pid_of(&self.child), Signal::KILL);
        if let Ok(true) = self.wait_for_end() {
            // It was told apart above why there is no output; the status of a killed child adds nothing.
            let _ = self.child.wait();
        }
    }

    fn wait_for_end(&self) -> io::Result<bool> {
        let timeout = Timespec::try_from(REAP).map_err(io::Error::other)?;
        Ok(poll(&mut [PollFd::new(&self.ended, PollFlags::IN)], Some(&timeout))? > 0)
    }
}

/// What becomes of bytes beyond the limit.
#[derive(Clone, Copy)]
enum Beyond {
    Leave,
    Drop,
}

impl Output {
    fn of(pipe: impl Pipe + 'static) -> io::Result<Self> {
        let flags = rustix::fs::fcntl_getfl(&pipe)?;
        rustix::fs::fcntl_setfl(&pipe, flags | OFlags::NONBLOCK)?;
        Ok(Self { pipe: Some(Box::new(pipe)), taken: Vec::new() })
    }

    fn watched(&self) -> Option<PollFd<'_>> {
        self.pipe.as_ref().map(|pipe| PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN))
    }

    /// Takes what is there without waiting, up to `limit` bytes in all; returns how many were taken so far.
    fn take(&mut self, limit: usize, beyond: Beyond) -> io::Result<usize> {
        let mut chunk = vec![0; CHUNK_BYTES];
        // Bounded, so that a child that prints without end cannot keep us from looking at the clock.
        for _ in 0..CHUNKS_AT_ONCE.max(limit / CHUNK_BYTES) {
            let Some(pipe) = &mut self.pipe else { break };
            let room = limit.saturating_sub(self.taken.len());
            match beyond {
                Beyond::Leave if room == 0 => break,
                Beyond::Leave | Beyond::Drop => {}
            }
            match pipe.read(&mut chunk) {
                Ok(0) => self.pipe = None,
                Ok(count) => self.taken.extend_from_slice(&chunk[..count.min(room)]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.taken.len())
    }
}

/// A pipe that hangs up when the process ends. The process stays a zombie until the caller reaps it,
/// so that its number cannot pass to another one in between.
fn watch(pid: Pid) -> io::Result<PipeReader> {
    let (reader, writer) = io::pipe()?;
    let writer = OwnedFd::from(writer);
    std::thread::Builder::new().name("child".into()).spawn(move || {
        while let Err(rustix::io::Errno::INTR) =
            rustix::process::waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
        {}
        drop(writer);
    })?;
    Ok(reader)
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// The last line that was said on standard error, for the end of a message.
fn said(stderr: &[u8]) -> String {
    let last = stderr.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).rfind(|line| !line.is_empty());
    last.map_or_else(String::new, |line| format!(": {}", String::from_utf8_lossy(line)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell<'a>(arguments: &'a [&'a str], deadline: Duration) -> Invocation<'a> {
        Invocation {
            program: Path::new("/bin/sh"),
            arguments,
            inherits: Inherits::Everything,
            variables: &[],
            deadline,
            output_bytes: 1 << 20,
        }
    }

    const SOON: Duration = Duration::from_secs(20);

    #[test]
    fn what_was_printed_comes_back_whole() {
        let printed = run(&shell(&["-c", "printf a; echo noise >&2; printf b"], SOON)).unwrap();
        assert_eq!(printed, b"ab");
        let long = run(&shell(&["-c", "head -c 1048576 /dev/zero"], SOON)).unwrap();
        assert_eq!(long.len(), 1 << 20);
    }

    #[test]
    fn a_failure_says_its_status_and_the_last_line_of_its_errors() {
        let error = run(&shell(&["-c", "echo one >&2; echo two >&2; exit 3"], SOON)).unwrap_err();
        assert_eq!(error.to_string(), "/bin/sh failed with exit status: 3: two");
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let invocation = Invocation { program: Path::new("/nowhere/x"), ..shell(&[], SOON) };
        let text = run(&invocation).unwrap_err().to_string();
        assert!(text.starts_with("cannot start /nowhere/x: "), "{text}");
    }

    #[test]
    fn a_hung_command_is_ended_with_everything_it_started() {
        let started = Instant::now();
        let deadline = Duration::from_millis(200);
        let error = run(&shell(&["-c", "sleep 600 & sleep 600"], deadline)).unwrap_err();
        assert_eq!(error.to_string(), "/bin/sh did not finish within 0.2 seconds and was ended");
        assert!(started.elapsed() < SOON);
    }

    #[test]
    fn a_grandchild_that_keeps_the_pipe_does_not_keep_us() {
        let started = Instant::now();
        let printed = run(&shell(&["-c", "sleep 30 & echo done"], Duration::from_secs(25))).unwrap();
        assert_eq!(printed, b"done\n");
        assert!(started.elapsed() < SOON);
    }

    #[test]
    fn more_than_the_bound_is_refused_and_ended() {
        let invocation = Invocation { output_bytes: 10, ..shell(&["-c", "yes"], SOON) };
        assert_eq!(run(&invocation).unwrap_err().to_string(), "/bin/sh printed more than 10 bytes and was ended");
    }

    #[test]
    fn errors_without_end_neither_block_nor_fill_the_memory() {
        let printed = run(&shell(&["-c", "head -c 4000000 /dev/zero >&2; echo done"], SOON)).unwrap();
        assert_eq!(printed, b"done\n");
        let error = run(&shell(&["-c", "yes >&2"], Duration::from_millis(200))).unwrap_err();
        assert_eq!(error.to_string(), "/bin/sh did not finish within 0.2 seconds and was ended");
    }

    #[test]
    fn variables_are_set_and_unset_for_the_child_alone() {
        let variables = [("SET", Some(OsStr::new("1"))), ("HOME", None)];
        let script = ["-c", "echo \"$SET${HOME-none}\""];
        let invocation = Invocation { variables: &variables, ..shell(&script, SOON) };
        assert_eq!(run(&invocation).unwrap(), b"1none\n");
        let script = ["-c", "echo \"$SET${PATH_TO_NOTHING-none}${HOME-none}\"; pwd"];
        let set = [("SET", Some(OsStr::new("1")))];
        let invocation = Invocation { variables: &set, inherits: Inherits::Nothing, ..shell(&script, SOON) };
        assert_eq!(run(&invocation).unwrap(), b"1nonenone\n/\n");
    }
}
