//! The journal: what is about to be removed is written here, durably, before anything is done. It
//! lies in the user's state directory, is open in one process at a time, and outlives every crash:
//! a line that was not finished is dropped, anything else that is not understood is refused, naming
//! the place. What the lines say is in `lines`; what is done about unfinished ones, in `recover`.
//!
//! Some room behind the last line is reserved, so that the deletion that frees a full disk can be
//! written down on it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use derelict_core::evidence::Candidate;
use derelict_core::ids::{IntentId, Timestamp, escaped};
use derelict_core::outcome::{Discarded, Outcome, Release};
use derelict_core::ports::{self, JournalLost};
use derelict_core::record::Intent;
use rustix::fs::{FallocateFlags, OFlags};
use serde_json::Value;

use crate::fence::JournalId;
use crate::flock::{NotTaken, lock};
use crate::lines::{
    Line, NotALine, VERSION, closed_line, intent_line, is_finished, journal_line, parse, settled_line, sweep_line,
};

/// The journal's name in the state directory.
pub const JOURNAL_FILE: &str = "journal.ndjson";

/// How long a sweep of another process is waited for. It may take minutes: then this one gives up.
pub const JOURNAL_WAIT: Duration = Duration::from_secs(10);

/// How many bytes are reserved behind the last line; an intent takes about 600.
const RESERVE: u64 = 64 * 1024;

/// The reserve is renewed when less than this is left of it, in bytes.
const LOW_RESERVE: u64 = 16 * 1024;

/// The modes of the state directory and of the journal: for their owner only.
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// An open journal. It is locked until it is dropped.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    contents: Contents,
    reserved: u64,
    lost: Option<String>,
}

/// An intent that is not known to be finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenIntent {
    /// Its number.
    pub intent: IntentId,
    /// The directory it was for.
    pub candidate: Candidate,
}

/// A journal that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// A system call failed.
    #[error("cannot {deed} {}: {source}", escaped(.path))]
    Io {
        /// What was tried.
        deed: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// Another process has it open.
    #[error("{} is in use by another derelict", escaped(.path))]
    Busy {
        /// The journal.
        path: PathBuf,
    },
    /// A line before the last is not understood.
    #[error("{}, line {line}: {why}; nothing is removed while the journal is not understood", escaped(.path))]
    Corrupt {
        /// The journal.
        path: PathBuf,
        /// The line, counted from one.
        line: u64,
        /// What is wrong with it.
        why: String,
    },
    /// A newer program wrote it.
    #[error("{}, line {line}: version {version} is newer than this program, which reads version {VERSION}", escaped(.path))]
    Newer {
        /// The journal.
        path: PathBuf,
        /// The line, counted from one.
        line: u64,
        /// The version it has.
        version: u64,
    },
}

/// What was read of a journal.
#[derive(Debug)]
struct Contents {
    id: Option<JournalId>,
    next: u64,
    open: BTreeMap<IntentId, OpenIntent>,
    /// Where the last complete line ends, in bytes.
    end: u64,
}

impl Journal {
    /// Opens the journal in a state directory, makes it if there is none, and locks it.
    ///
    /// # Errors
    /// [`JournalError::Busy`] after one bounded wait for another process; the other variants name
    /// the file, and the line where there is one.
    pub fn open(state_dir: &Path) -> Result<Self, JournalError> {
        Self::open_waiting(state_dir, JOURNAL_WAIT)
    }

    /// The same, with a wait of one's own for a sweep of another process.
    ///
    /// # Errors
    /// As [`Journal::open`].
    pub fn open_waiting(state_dir: &Path, wait: Duration) -> Result<Self, JournalError> {
        let path = state_dir.join(JOURNAL_FILE);
        let doing = |deed| move |source| JournalError::Io { deed, path: state_dir.join(JOURNAL_FILE), source };
        let made = std::fs::DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(state_dir);
        made.map_err(|source| JournalError::Io { deed: "create", path: state_dir.to_owned(), source })?;
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE).custom_flags(flags);
        let file = file.open(&path).and_then(regular).map_err(doing("open"))?;
        lock(&file, Instant::now(), wait).map_err(|why| match why {
            NotTaken::Busy => JournalError::Busy { path: path.clone() },
            NotTaken::Failed(errno) => doing("lock")(errno.into()),
        })?;
        let contents = read(&file, &path)?;
        // What stands behind the last complete line was never durable: nothing was done upon it.
        if file.metadata().map_err(doing("look at"))?.len() > contents.end {
            file.set_len(contents.end).map_err(doing("truncate"))?;
        }
        let mut journal = Self { file, path, reserved: contents.end, contents, lost: None };
        if journal.contents.id.is_none() {
            journal.begin().map_err(doing("write"))?;
            [Some(state_dir), state_dir.parent()]
                .into_iter()
                .flatten()
                .try_for_each(sync_dir)
                .map_err(doing("sync"))?;
        }
        journal.reserve();
        Ok(journal)
    }

    /// The journal's name within trash names.
    #[must_use]
    pub fn id(&self) -> &JournalId {
        self.contents.id.as_ref().expect("because a journal without an id gets one when it is opened")
    }

    /// The intents that are not known to be finished, oldest first.
    pub fn unfinished(&self) -> impl Iterator<Item = &OpenIntent> {
        self.contents.open.values()
    }

    /// Writes down when the sweep that follows began; the journal itself reads no clock.
    ///
    /// # Errors
    /// [`JournalLost`] names the file.
    pub fn note_sweep(&mut self, began: Timestamp) -> Result<(), JournalLost> {
        self.append(&sweep_line(began))
    }

    /// Writes down that nothing of an intent is left to do.
    pub(crate) fn close(
        &mut self,
        intent: IntentId,
        how: &str,
        discarded: Option<Discarded>,
        release: Option<&Release>,
    ) -> Result<(), JournalLost> {
        self.append(&closed_line(intent, how, discarded, release))?;
        self.contents.open.remove(&intent);
        Ok(())
    }

    fn begin(&mut self) -> io::Result<()> {
        let mut random = [0; 8];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let id = JournalId::from_random(random);
        self.append(&journal_line(&id)).map_err(|lost| io::Error::other(lost.why))?;
        self.contents.id = Some(id);
        Ok(())
    }

    /// Appends one line, durably. After one failure nothing more is written: what the disk holds
    /// is not known any more.
    fn append(&mut self, line: &Value) -> Result<(), JournalLost> {
        if let Some(why) = &self.lost {
            return Err(JournalLost { why: why.clone() });
        }
        let text = format!("{line}\n");
        let end = self.contents.end;
        let written = self.file.write_all_at(text.as_bytes(), end).and_then(|()| self.file.sync_data());
        // A part of a line that was written all the same is dropped at the next start.
        if let Err(error) = written {
            let why = format!("{}: {error}", escaped(&self.path));
            self.lost = Some(why.clone());
            return Err(JournalLost { why });
        }
        self.contents.end = end + text.len() as u64;
        self.reserve();
        Ok(())
    }

    /// Keeps room behind the last line. A file system that cannot reserve, or a disk that is full
    /// already, is no reason to stop: whether a line can be written shows when it is.
    fn reserve(&mut self) {
        let end = self.contents.end;
        if self.reserved.saturating_sub(end) < LOW_RESERVE
            && rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, end, RESERVE).is_ok()
        {
            self.reserved = end + RESERVE;
        }
    }
}

impl ports::Journal for Journal {
    fn intend(&mut self, intent: &Intent) -> Result<IntentId, JournalLost> {
        let id = IntentId(self.contents.next);
        let line = intent_line(id, intent, self.id());
        self.append(&line)?;
        self.contents.next += 1;
        self.contents.open.insert(id, OpenIntent { intent: id, candidate: intent.candidate.clone() });
        Ok(id)
    }

    fn settle(&mut self, intent: IntentId, outcome: &Outcome) -> Result<(), JournalLost> {
        self.append(&settled_line(intent, outcome))?;
        if is_finished(outcome) {
            self.contents.open.remove(&intent);
        }
        Ok(())
    }
}

/// Reads which intents are unfinished, without locking, writing or making anything. What another
/// process is just removing is among them.
///
/// # Errors
/// [`JournalError`] names the file, and the line where there is one.
pub fn unfinished(state_dir: &Path) -> Result<Vec<OpenIntent>, JournalError> {
    let path = state_dir.join(JOURNAL_FILE);
    let opened = File::options().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(&path);
    match opened.and_then(regular) {
        Ok(file) => Ok(read(&file, &path)?.open.into_values().collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(source) => Err(JournalError::Io { deed: "open", path, source }),
    }
}

/// Anything but a regular file, a FIFO above all, could make the reader wait for ever.
fn regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

fn read(file: &File, path: &Path) -> Result<Contents, JournalError> {
    let mut contents = Contents { id: None, next: 1, open: BTreeMap::new(), end: 0 };
    let mut lines = BufReader::new(file);
    let mut text = Vec::new();
    for line in 1.. {
        text.clear();
        let failed = |source| JournalError::Io { deed: "read", path: path.to_owned(), source };
        lines.read_until(b'\n', &mut text).map_err(failed)?;
        let Some(complete) = text.strip_suffix(b"\n") else { break };
        // A crash can leave a hole in the last line, even though its end was written.
        if complete.contains(&0) && lines.fill_buf().map_err(failed)?.is_empty() {
            break;
        }
        let understood = parse(complete).and_then(|said| contents.take_in(said));
        understood.map_err(|error| match error {
            NotALine::Corrupt(why) => JournalError::Corrupt { path: path.to_owned(), line, why },
            NotALine::Newer(version) => JournalError::Newer { path: path.to_owned(), line, version },
        })?;
        contents.end += text.len() as u64;
    }
    Ok(contents)
}

impl Contents {
    fn take_in(&mut self, said: Line) -> Result<(), NotALine> {
        let corrupt = |why: String| Err(NotALine::Corrupt(why));
        match (said, &self.id) {
            (Line::Journal(id), None) => self.id = Some(id),
            (Line::Journal(_), Some(_)) => return corrupt("a second journal begins here".to_owned()),
            (_, None) => return corrupt("the journal's first line is missing".to_owned()),
            (Line::Sweep, Some(_)) => {}
            (Line::Intent(intent, _), Some(_)) if intent.0 < self.next => {
                return corrupt(format!("intent {intent} comes a second time, or out of order"));
            }
            (Line::Intent(intent, candidate), Some(_)) => {
                let Some(next) = intent.0.checked_add(1) else {
                    return corrupt(format!("there is no intent after {intent}"));
                };
                self.next = next;
                self.open.insert(intent, OpenIntent { intent, candidate: *candidate });
            }
            (Line::Unfinished(intent) | Line::Finished(intent), Some(_)) if intent.0 >= self.next => {
                return corrupt(format!("there is no intent {intent} before this line"));
            }
            (Line::Unfinished(_), Some(_)) => {}
            (Line::Finished(intent), Some(_)) => {
                self.open.remove(&intent);
            }
        }
        Ok(())
    }
}

fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
