//! A program on a pseudo terminal: stdin and stderr are the terminal, stdout is a pipe of its own, so
//! that data and talk stay apart. The test sees a question appear, does what it wants while the
//! question is open, and answers. Not here: what the questions are.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, OptionalActions, OutputModes, tcgetattr, tcsetattr};

use crate::run::{Finished, Run, peak_memory, text};

/// How long a program may keep a test waiting before it counts as stuck. Only a failing test ever
/// waits this long.
const STUCK: Duration = Duration::from_secs(90);

/// The character that ends the input of a terminal.
const END_OF_INPUT: &[u8] = b"\x04";

/// A program that runs on a terminal.
#[derive(Debug)]
pub struct Session {
    child: Ended,
    terminal: File,
    shown: Receiver<Vec<u8>>,
    transcript: Vec<u8>,
    printed: JoinHandle<Vec<u8>>,
}

/// A child that does not outlive the test, which would leave it waiting for an answer for ever.
#[derive(Debug)]
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // Both fail only when it has ended already, which is what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Run {
    /// Starts it on a terminal of its own.
    ///
    /// # Panics
    /// When that cannot be done.
    #[must_use]
    pub fn on_terminal(self) -> Session {
        let (terminal, inside) = open_terminal();
        let again = inside.try_clone().expect("because a descriptor can be duplicated");
        let mut command = self.command();
        command.stdin(inside).stderr(again).stdout(Stdio::piped());
        let mut child = command.spawn().expect("because the program can be started");
        // The terminal ends for the reader when the last descriptor of its inside is closed, and the
        // command still owns two.
        drop(command);
        let mut stdout = child.stdout.take().expect("because stdout is a pipe");
        let printed = std::thread::spawn(move || {
            let mut printed = Vec::new();
            stdout.read_to_end(&mut printed).expect("because a pipe can be read");
            printed
        });
        let shown = read_terminal(terminal.try_clone().expect("because a descriptor can be duplicated"));
        Session { child: Ended(child), terminal, shown, transcript: Vec::new(), printed }
    }
}

impl Session {
    /// Waits until the terminal shows this text.
    ///
    /// # Panics
    /// When the program ends or gets stuck before.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) {
        while !contains(&self.transcript, text.as_bytes()) {
            match self.shown.recv_timeout(STUCK) {
                Ok(bytes) => self.transcript.extend(bytes),
                Err(RecvTimeoutError::Timeout) => {
                    panic!("stuck, `{text}` did not appear\n{}", String::from_utf8_lossy(&self.transcript));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("ended, `{text}` did not appear\n{}", String::from_utf8_lossy(&self.transcript));
                }
            }
        }
    }

    /// Types a line.
    ///
    /// # Panics
    /// When nobody is there to read it.
    pub fn answer(&mut self, line: &str) {
        self.terminal.write_all(format!("{line}\n").as_bytes()).expect("because the terminal takes input");
    }

    /// Ends the input, as Ctrl-D does.
    ///
    /// # Panics
    /// When nobody is there to read it.
    pub fn end_input(&mut self) {
        self.terminal.write_all(END_OF_INPUT).expect("because the terminal takes input");
    }

    /// The greatest resident size so far, in bytes.
    ///
    /// # Panics
    /// When it has ended.
    #[must_use]
    pub fn peak_memory(&self) -> u64 {
        peak_memory(self.child.0.id())
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it gets stuck, or printed what is not UTF-8.
    #[must_use]
    pub fn finish(mut self) -> Finished {
        loop {
            match self.shown.recv_timeout(STUCK) {
                Ok(bytes) => self.transcript.extend(bytes),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    panic!("stuck\n{}", String::from_utf8_lossy(&self.transcript));
                }
            }
        }
        let status = self.child.0.wait().expect("because a child can be waited for");
        let stdout = self.printed.join().expect("because the reader does not panic");
        Finished { stdout: text(stdout), stderr: text(self.transcript), status }
    }
}

/// Both ends of a terminal that neither echoes what is typed nor rewrites what is shown.
fn open_terminal() -> (File, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let outside = openpt(flags).expect("because the system has pseudo terminals");
    grantpt(&outside).expect("because the terminal is ours");
    unlockpt(&outside).expect("because the terminal is ours");
    let name = ptsname(&outside, Vec::new()).expect("because the terminal has a name");
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY | rustix::fs::OFlags::CLOEXEC;
    let inside = rustix::fs::open(name, flags, rustix::fs::Mode::empty()).expect("because the terminal is unlocked");
    let mut settings = tcgetattr(&inside).expect("because it is a terminal");
    settings.local_modes.remove(LocalModes::ECHO);
    settings.output_modes.remove(OutputModes::OPOST);
    tcsetattr(&inside, OptionalActions::Now, &settings).expect("because it is a terminal");
    (outside.into(), inside)
}

/// Reads until the inside is closed, which a terminal reports as an error.
fn read_terminal(mut terminal: File) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = terminal.read(&mut buffer) {
            if sender.send(buffer[..count].to_vec()).is_err() {
                break;
            }
        }
    });
    receiver
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::which;

    #[test]
    fn a_question_is_seen_and_answered_and_data_and_talk_stay_apart() {
        let script = "test -t 0 && test -t 2 || exit 9; echo data; printf 'sure? ' >&2; read a; echo got $a; exit 3";
        let mut session = Run::new(which("sh")).args(["-c", script]).on_terminal();
        session.wait_for("sure? ");
        assert!(session.peak_memory() > 0);
        session.answer("yes");
        let finished = session.finish();
        assert_eq!(
            (finished.stdout.as_str(), finished.stderr.as_str(), finished.code()),
            ("data\ngot yes\n", "sure? ", 3)
        );
    }

    #[test]
    fn input_can_end() {
        let mut session = Run::new(which("sh")).args(["-c", "read a || exit 4"]).on_terminal();
        session.end_input();
        assert_eq!(session.finish().code(), 4);
    }
}
