//! Runs a program the way a person or a scheduler does: with a given environment and nothing else,
//! and gives back what it said and how it ended. Not here: terminals, which have their own file.

use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::git::which;

/// Mounts what its arguments name, then becomes the program. It runs in a mount namespace of its
/// own, so that nothing of it outlives the program, however that ends.
const MOUNT_AND_BECOME: &str = r#"
mount=$1; shift
while [ "$1" != -- ]; do
    case $1 in
        bind) "$mount" --bind "$2" "$3" || exit 125 ;;
        tmpfs) "$mount" -t tmpfs "$2" "$3" || exit 125 ;;
    esac
    shift 3
done
shift
exec "$@"
"#;

/// Something mounted for one program only.
#[derive(Debug, Clone)]
pub enum Mount {
    /// One directory seen at another place too; the device stays the same.
    Bind {
        /// What is seen.
        from: PathBuf,
        /// Where.
        at: PathBuf,
    },
    /// An empty file system in memory.
    Tmpfs {
        /// Where.
        at: PathBuf,
    },
}

/// A program about to be run.
#[derive(Debug)]
pub struct Run {
    program: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
    directory: PathBuf,
    user: Option<u32>,
    mounts: Vec<Mount>,
}

/// A program that has ended.
#[derive(Debug)]
pub struct Finished {
    /// What it printed.
    pub stdout: String,
    /// What it said beside that; on a terminal, all that the terminal showed of it.
    pub stderr: String,
    /// How it ended.
    pub status: ExitStatus,
}

/// A program that runs while the test does something else; killed if the test fails meanwhile.
#[derive(Debug)]
pub struct Running {
    /// Taken when its end is waited for.
    child: Option<Child>,
    /// What was read of its stderr while it ran.
    said: String,
}

impl Run {
    /// A program with an empty environment, in the root directory.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            directory: PathBuf::from("/"),
            user: None,
            mounts: Vec::new(),
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Sets a variable, in place of an earlier value.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self = self.env_remove(name.as_ref());
        self.environment.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Takes a variable away.
    #[must_use]
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Self {
        self.environment.retain(|(known, _)| known != name.as_ref());
        self
    }

    /// Runs it in this directory.
    #[must_use]
    pub fn current_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = directory.into();
        self
    }

    /// Runs it as another user, with the group of the same number and no others.
    #[must_use]
    pub fn user(mut self, user: u32) -> Self {
        self.user = Some(user);
        self
    }

    /// Mounts something that only this program sees.
    #[must_use]
    pub fn mounted(mut self, mount: Mount) -> Self {
        self.mounts.push(mount);
        self
    }

    /// Runs it to its end, without a terminal.
    ///
    /// # Panics
    /// When it cannot be started, or printed what is not UTF-8.
    #[must_use]
    pub fn finish(self) -> Finished {
        self.start().finish()
    }

    /// Runs it to its end with nobody reading what it prints: every write to stdout fails.
    ///
    /// # Panics
    /// When it cannot be started, or said what is not UTF-8.
    #[must_use]
    pub fn finish_into_a_closed_pipe(self) -> Finished {
        let (reader, writer) = std::io::pipe().expect("because a pipe can be made");
        drop(reader);
        let mut command = self.command();
        command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped());
        Running::of(command.spawn().expect("because the program can be started")).finish()
    }

    /// Starts it, without a terminal.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn start(self) -> Running {
        let mut command = self.command();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running::of(command.spawn().unwrap_or_else(|error| panic!("cannot run {}: {error}", self.program.display())))
    }

    /// The command, without its three streams.
    pub(crate) fn command(&self) -> Command {
        let mut command = if self.mounts.is_empty() {
            Command::new(&self.program)
        } else {
            let mut command = Command::new(which("unshare"));
            command.args(["--mount", "--propagation", "private", "--"]).arg(which("sh"));
            command.args(["-c", MOUNT_AND_BECOME, "sh"]).arg(which("mount"));
            self.mounts.iter().for_each(|mount| mount.push_onto(&mut command));
            command.arg("--").arg(&self.program);
            command
        };
        command.args(&self.arguments).env_clear().envs(self.environment.iter().cloned()).current_dir(&self.directory);
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
    }
}

impl Mount {
    fn push_onto(&self, command: &mut Command) {
        match self {
            Self::Bind { from, at } => command.arg("bind").arg(from).arg(at),
            Self::Tmpfs { at } => command.arg("tmpfs").arg("none").arg(at),
        };
    }
}

impl Running {
    fn of(child: Child) -> Self {
        Self { child: Some(child), said: String::new() }
    }

    fn child(&mut self) -> &mut Child {
        self.child.as_mut().expect("because it is taken at the end only")
    }

    /// Waits until it says a line on stderr that has this text in it, and gives back that line.
    ///
    /// # Panics
    /// When it ends without saying so.
    #[track_caller]
    pub fn await_stderr(&mut self, text: &str) -> String {
        let child = self.child.as_mut().expect("because it is taken at the end only");
        let stderr = child.stderr.as_mut().expect("because it is a pipe");
        let begin = self.said.len();
        let mut line = Vec::new();
        loop {
            let mut byte = [0];
            let ended = stderr.read(&mut byte).expect("because a pipe can be read") == 0;
            line.extend_from_slice(if ended { &[] } else { &byte });
            if ended || byte == *b"\n" {
                let whole = String::from_utf8(std::mem::take(&mut line)).expect("because a log is text");
                self.said.push_str(&whole);
                if whole.contains(text) {
                    return whole;
                }
                assert!(!ended, "it ended without saying `{text}`:\n{}", &self.said[begin..]);
            }
        }
    }

    /// Asks it to end, as a service manager does.
    ///
    /// # Panics
    /// When it cannot be asked.
    pub fn terminate(&self) {
        let child = self.child.as_ref().expect("because it is taken at the end only");
        let pid = rustix::process::Pid::from_child(child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("because it is ours to ask");
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("because it is taken at the end only").id()
    }

    /// Kills it, and waits until it is gone.
    ///
    /// # Panics
    /// When that cannot be done.
    pub fn kill(mut self) {
        self.child().kill().expect("because it is ours to kill");
        self.child().wait().expect("because a child can be waited for");
    }

    /// Whether it has ended.
    ///
    /// # Panics
    /// When that cannot be found out.
    #[must_use]
    pub fn has_ended(&mut self) -> bool {
        self.child().try_wait().expect("because a child can be asked for").is_some()
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it printed what is not UTF-8.
    #[must_use]
    pub fn finish(mut self) -> Finished {
        let child = self.child.take().expect("because it is taken here only");
        let output = child.wait_with_output().expect("because a child can be waited for");
        let stderr = std::mem::take(&mut self.said) + &text(output.stderr);
        Finished { stdout: text(output.stdout), stderr, status: output.status }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended, and a failing test must not fail a second time here.
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Finished {
    /// The exit code.
    ///
    /// # Panics
    /// When a signal ended it.
    #[must_use]
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| panic!("{}\n{self}", self.status))
    }

    /// What it printed, as one JSON value on lines of its own.
    ///
    /// # Panics
    /// When that is not one JSON value ended by a newline.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        assert!(self.stdout.ends_with('\n'), "not ended by a newline\n{self}");
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("not JSON: {error}\n{self}"))
    }

    /// Checks the exit code, showing everything when it is another.
    ///
    /// # Panics
    /// When it is another.
    #[track_caller]
    pub fn expect_code(&self, code: i32) -> &Self {
        assert_eq!(self.status.code(), Some(code), "another exit code than expected\n{self}");
        self
    }

    /// Checks that stdout has this text in it.
    ///
    /// # Panics
    /// When it has not.
    #[track_caller]
    pub fn expect_stdout(&self, text: &str) -> &Self {
        assert!(self.stdout.contains(text), "`{text}` is not on stdout\n{self}");
        self
    }

    /// Checks that stderr has this text in it.
    ///
    /// # Panics
    /// When it has not.
    #[track_caller]
    pub fn expect_stderr(&self, text: &str) -> &Self {
        assert!(self.stderr.contains(text), "`{text}` is not on stderr\n{self}");
        self
    }
}

impl std::fmt::Display for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "--- {}\n--- stdout\n{}\n--- stderr\n{}\n---", self.status, self.stdout, self.stderr)
    }
}

/// The greatest resident size so far of a program that still runs, in bytes.
///
/// # Panics
/// When it does not run any more.
#[must_use]
pub fn peak_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("status"));
    let status = status.unwrap_or_else(|error| panic!("process {pid} is not to be asked: {error}"));
    let line =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("because a running process has a size");
    let kibibytes = line.trim().trim_end_matches(" kB").trim().parse::<u64>();
    kibibytes.expect("because the kernel prints a number of kB") * 1024
}

pub(crate) fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| panic!("the output is not UTF-8: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::{Scratch, exists, mkdir, write};

    #[test]
    fn a_mount_is_seen_by_the_program_and_by_nobody_else() {
        let scratch = Scratch::new();
        let (from, at) = (scratch.path().join("from"), scratch.path().join("at"));
        write(from.join("seen"), "x");
        mkdir(&at);
        mkdir(scratch.path().join("empty"));
        let seen = Run::new(which("ls"))
            .args([&at])
            .mounted(Mount::Tmpfs { at: scratch.path().join("empty") })
            .mounted(Mount::Bind { from, at: at.clone() })
            .finish();
        assert_eq!((seen.expect_code(0).stdout.as_str(), exists(at.join("seen"))), ("seen\n", false));
    }

    #[test]
    fn nobody_reads_a_closed_pipe() {
        let run = Run::new(which("sh")).args(["-c", "trap '' PIPE; echo x || exit 7"]);
        assert_eq!(run.finish_into_a_closed_pipe().code(), 7);
    }

    #[test]
    fn a_program_gets_the_environment_it_was_given_and_nothing_else() {
        let run = Run::new(which("env")).env("A", "1").env("B", "2").env("A", "3").env_remove("B");
        assert_eq!(run.finish().stdout, "A=3\n");
    }
}
