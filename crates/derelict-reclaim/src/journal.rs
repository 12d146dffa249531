//! The journal: what is about to be removed is written here, durably, before anything is done. It
//! lies in the user's state directory, is open in one process at a time, and outlives every crash:
//! a line that was not finished is dropped, anything else that is not understood is refused, naming
//! the place. What the lines say is in `lines`, what they come to in `contents`; what is done about
//! unfinished ones, in `recover`.
//!
//! Some room behind the last line is reserved, so that the deletion that frees a full disk can be
//! written down on it. Where there is not even room for the journal itself, because the first run of
//! all meets a full disk, one intent at a time may stand in its trash name instead (`told`), and the
//! lines are written as soon as there is room.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use derelict_core::evidence::Candidate;
use derelict_core::ids::{IntentId, Timestamp, escaped};
use derelict_core::outcome::{Discarded, Outcome, Release};
use derelict_core::ports::{self, JournalLost};
use derelict_core::record::{Disposal, Intent, SetAside};
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;
use serde_json::Value;

use crate::contents::Contents;
pub use crate::contents::{OpenIntent, Phase, Untold};
use crate::fence::JournalId;
use crate::flock::{NotTaken, lock};
use crate::lines::{
    VERSION, closed_line, intent_line, is_finished, journal_line, late_line, late_recovery_line, promised,
    recorded_line, settled_line, sweep_line,
};

/// The journal's name in the state directory.
pub const JOURNAL_FILE: &str = "journal.ndjson";

/// How long a sweep of another process is waited for. It may take minutes: then this one gives up.
pub const JOURNAL_WAIT: Duration = Duration::from_secs(10);

/// How many bytes are reserved behind the last line; an intent takes about 600, and one with the proof of a checkout 2,500.
const RESERVE: u64 = 64 * 1024;

/// The reserve is renewed when less than this is left of it, in bytes.
const LOW_RESERVE: u64 = 16 * 1024;

/// The modes of the state directory and of the journal: for their owner only.
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// An open journal. It is locked until it is dropped.
#[derive(Debug)]
pub struct Journal {
    state_dir: PathBuf,
    path: PathBuf,
    /// `None` while there is no room to make it.
    file: Option<File>,
    contents: Contents,
    reserved: u64,
    /// Lines that wait for room. None of them is an intent.
    waiting: Vec<Value>,
    /// The intent that a trash name carries, because there was no room for a line.
    in_name: Option<Intent>,
    lost: Option<String>,
}

/// Why a line was not written.
enum Unwritten {
    /// There is no room. Nothing has changed, and it can be tried again.
    NoRoom(io::Error),
    /// What the disk holds is not known any more.
    Failed(io::Error),
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
    #[error("{}, line {line}: version {version} is newer than this program, which reads up to version {VERSION}", escaped(.path))]
    Newer {
        /// The journal.
        path: PathBuf,
        /// The line, counted from one.
        line: u64,
        /// The version it has.
        version: u64,
    },
}

/// Whether the journal and a directory lie on the same file system.
enum Shared {
    Yes,
    No,
}

impl Journal {
    /// Opens the journal in a state directory, makes it if there is none, and locks it. Where the disk
    /// is so full that it cannot be made, it is made as soon as there is room; see
    /// [`IntentId::IN_NAME`] for what carries the intent until then.
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
        let file = make_and_lock(state_dir, wait)?;
        let mut contents = match &file {
            Some(file) => read_and_mend(file, &path)?,
            None => Contents::empty(),
        };
        let mut waiting = Vec::new();
        if contents.id.is_none() {
            let id =
                draw_id().map_err(|source| JournalError::Io { deed: "draw a name for", path: path.clone(), source })?;
            waiting.push(journal_line(&id));
            contents.id = Some(id);
        }
        let (reserved, state_dir) = (contents.end, state_dir.to_owned());
        let mut journal = Self { state_dir, path, file, contents, reserved, waiting, in_name: None, lost: None };
        match journal.write_waiting() {
            Ok(()) | Err(Unwritten::NoRoom(_)) => {}
            Err(Unwritten::Failed(source)) => {
                return Err(JournalError::Io { deed: "write", path: journal.path, source });
            }
        }
        journal.reserve();
        Ok(journal)
    }

    /// The journal's name within trash names.
    #[must_use]
    pub fn id(&self) -> &JournalId {
        self.contents.id.as_ref().expect("because a journal without an id gets one when it is opened")
    }

    /// The intents that are not known to be finished, oldest first; those that were set aside are among
    /// them.
    pub fn unfinished(&self) -> impl Iterator<Item = &OpenIntent> {
        self.contents.open.values()
    }

    /// The directories that were set aside and wait out their grace, oldest first.
    pub fn set_aside(&self) -> impl Iterator<Item = &SetAside> {
        self.unfinished().filter_map(OpenIntent::set_aside)
    }

    /// Writes down when the sweep that follows began; the journal itself reads no clock.
    ///
    /// # Errors
    /// [`JournalLost`] names the file.
    pub fn note_sweep(&mut self, began: Timestamp) -> Result<(), JournalLost> {
        self.remark(sweep_line(began))
    }

    /// What went and is in no record of sweeps, as far as it was read when the journal was opened: its sweep was
    /// killed before it could tell.
    #[must_use]
    pub fn untold(&self) -> &[Untold] {
        &self.contents.untold
    }

    /// Writes down that the record of everything so far was kept.
    ///
    /// # Errors
    /// [`JournalLost`] names the file.
    pub fn note_recorded(&mut self) -> Result<(), JournalLost> {
        self.remark(recorded_line())?;
        self.contents.recorded();
        Ok(())
    }

    /// Writes down that nothing of an intent is left to do.
    pub(crate) fn close(
        &mut self,
        intent: IntentId,
        how: &str,
        discarded: Option<Discarded>,
        release: Option<&Release>,
    ) -> Result<(), JournalLost> {
        self.remark(closed_line(intent, how, discarded, release))?;
        self.contents.finish(intent);
        Ok(())
    }

    /// Writes down what was done about an intent that stood in its trash name.
    pub(crate) fn note_late(
        &mut self,
        candidate: &Candidate,
        how: &str,
        discarded: Option<Discarded>,
    ) -> Result<(), JournalLost> {
        self.remark(late_recovery_line(candidate, how, discarded))
    }

    /// Writes a line that can wait for room: what it says is found again on the disk.
    fn remark(&mut self, line: Value) -> Result<(), JournalLost> {
        match self.append(&line) {
            Ok(()) => Ok(()),
            Err(Unwritten::NoRoom(_)) => {
                self.waiting.push(line);
                Ok(())
            }
            Err(Unwritten::Failed(error)) => Err(self.lose(&error)),
        }
    }

    /// Appends one line, durably, after those that wait.
    fn append(&mut self, line: &Value) -> Result<(), Unwritten> {
        if let Some(why) = &self.lost {
            return Err(Unwritten::Failed(io::Error::other(why.clone())));
        }
        self.write_waiting()?;
        self.write(line)?;
        self.reserve();
        Ok(())
    }

    fn write_waiting(&mut self) -> Result<(), Unwritten> {
        while let Some(line) = self.waiting.first().cloned() {
            let was_empty = self.contents.end == 0;
            self.write(&line)?;
            self.waiting.remove(0);
            if was_empty {
                let dirs = [Some(self.state_dir.as_path()), self.state_dir.parent()];
                dirs.into_iter().flatten().try_for_each(sync_dir).map_err(Unwritten::Failed)?;
            }
        }
        Ok(())
    }

    fn write(&mut self, line: &Value) -> Result<(), Unwritten> {
        let text = format!("{line}\n");
        let end = self.contents.end;
        let file = self.made()?;
        match file.write_all_at(text.as_bytes(), end) {
            Ok(()) => {}
            Err(error) if is_no_room(&error) => {
                // What was written of the line goes again, so that the next one does not follow half of it.
                file.set_len(end).map_err(Unwritten::Failed)?;
                self.reserved = end;
                return Err(Unwritten::NoRoom(error));
            }
            Err(error) => return Err(Unwritten::Failed(error)),
        }
        // Part of a line that was written all the same is dropped at the next start.
        file.sync_data().map_err(Unwritten::Failed)?;
        self.contents.end = end + text.len() as u64;
        Ok(())
    }

    /// The file, which is made now if there was no room for it before.
    fn made(&mut self) -> Result<&File, Unwritten> {
        if self.file.is_none() {
            let no_room = || Unwritten::NoRoom(Errno::NOSPC.into());
            let made = make_and_lock(&self.state_dir, JOURNAL_WAIT);
            let file = made.map_err(|error| Unwritten::Failed(io::Error::other(error)))?.ok_or_else(no_room)?;
            if file.metadata().map_err(Unwritten::Failed)?.len() > 0 {
                let why = "another derelict began it meanwhile";
                return Err(Unwritten::Failed(io::Error::other(why)));
            }
            self.file = Some(file);
        }
        Ok(self.file.as_ref().expect("because it was made just now at the latest"))
    }

    /// After one failure nothing more is written: what the disk holds is not known any more.
    fn lose(&mut self, error: &io::Error) -> JournalLost {
        let why = self.lost.get_or_insert_with(|| format!("{}: {error}", escaped(&self.path))).clone();
        JournalLost { why }
    }

    /// Keeps room behind the last line. A file system that cannot reserve, or a disk that is full
    /// already, is no reason to stop: whether a line can be written shows when it is.
    fn reserve(&mut self) {
        let Some(file) = &self.file else { return };
        let end = self.contents.end;
        if self.reserved.saturating_sub(end) < LOW_RESERVE
            && rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, end, RESERVE).is_ok()
        {
            self.reserved = end + RESERVE;
        }
    }

    /// Lets the trash name carry an intent for which there is no room. One at a time, and only where
    /// its removal makes room: what is set aside frees nothing, nor does what lies on another disk.
    fn intend_in_name(&mut self, intent: &Intent, why: &io::Error) -> Result<IntentId, JournalLost> {
        match (intent.disposal, &self.in_name, self.shares_disk_with(&intent.candidate)) {
            (Disposal::Discard, None, Shared::Yes) => {
                self.in_name = Some(intent.clone());
                Ok(IntentId::IN_NAME)
            }
            (Disposal::Discard | Disposal::Quarantine { .. }, _, Shared::Yes | Shared::No) => {
                Err(JournalLost { why: format!("{}: {why}", escaped(&self.path)) })
            }
        }
    }

    fn shares_disk_with(&self, candidate: &Candidate) -> Shared {
        let mut existing = self.state_dir.ancestors().filter_map(|directory| std::fs::metadata(directory).ok());
        if existing.next().is_some_and(|found| found.dev() == candidate.identity.dev) {
            Shared::Yes
        } else {
            Shared::No
        }
    }

    fn settle_in_name(&mut self, outcome: &Outcome) -> Result<(), JournalLost> {
        let Some(intent) = self.in_name.take() else { return Ok(()) };
        let line = late_line(&intent, outcome);
        match self.append(&line) {
            Ok(()) => Ok(()),
            // Nothing went, so nothing is owed to anybody yet.
            Err(Unwritten::NoRoom(_)) if nothing_went(outcome) => {
                self.waiting.push(line);
                Ok(())
            }
            Err(Unwritten::NoRoom(error) | Unwritten::Failed(error)) => Err(self.lose(&error)),
        }
    }
}

impl ports::Journal for Journal {
    fn intend(&mut self, intent: &Intent) -> Result<IntentId, JournalLost> {
        let id = IntentId(self.contents.next);
        let line = intent_line(id, intent, self.id());
        match self.append(&line) {
            Ok(()) => {}
            Err(Unwritten::NoRoom(error)) => return self.intend_in_name(intent, &error),
            Err(Unwritten::Failed(error)) => return Err(self.lose(&error)),
        }
        self.contents.next += 1;
        self.contents.begin(id, intent.candidate.clone(), promised(id, intent));
        Ok(id)
    }

    fn settle(&mut self, intent: IntentId, outcome: &Outcome) -> Result<(), JournalLost> {
        if intent == IntentId::IN_NAME {
            return self.settle_in_name(outcome);
        }
        match self.append(&settled_line(intent, outcome)) {
            Ok(()) => {}
            Err(Unwritten::NoRoom(error) | Unwritten::Failed(error)) => return Err(self.lose(&error)),
        }
        match outcome {
            Outcome::Quarantined => self.contents.set_aside(intent),
            outcome if is_finished(outcome) => self.contents.finish(intent),
            Outcome::Removed { .. }
            | Outcome::Vanished
            | Outcome::Resurrected(_)
            | Outcome::Changed(_)
            | Outcome::Refused { .. }
            | Outcome::Busy { .. }
            | Outcome::Interrupted { .. } => {}
        }
        Ok(())
    }
}

fn nothing_went(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Removed { discarded, .. } | Outcome::Refused { discarded, .. } => discarded.entries == 0,
        Outcome::Quarantined
        | Outcome::Vanished
        | Outcome::Resurrected(_)
        | Outcome::Changed(_)
        | Outcome::Busy { .. }
        | Outcome::Interrupted { .. } => true,
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
        Ok(file) => Ok(Contents::read(&file, &path)?.open.into_values().collect()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(source) => Err(JournalError::Io { deed: "open", path, source }),
    }
}

/// Anything but a regular file, a FIFO above all, could make the reader wait for ever.
fn regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

/// Makes the state directory and the journal in it where they are missing. `None` where there is no
/// room for them.
fn make_and_lock(state_dir: &Path, wait: Duration) -> Result<Option<File>, JournalError> {
    let path = state_dir.join(JOURNAL_FILE);
    match std::fs::DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(state_dir) {
        Ok(()) => {}
        Err(error) if is_no_room(&error) => return Ok(None),
        Err(source) => return Err(JournalError::Io { deed: "create", path: state_dir.to_owned(), source }),
    }
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let mut options = File::options();
    let file = options.read(true).write(true).create(true).truncate(false).mode(FILE_MODE).custom_flags(flags);
    let file = match file.open(&path).and_then(regular) {
        Ok(file) => file,
        Err(error) if is_no_room(&error) => return Ok(None),
        Err(source) => return Err(JournalError::Io { deed: "open", path, source }),
    };
    match lock(&file, Instant::now(), wait) {
        Ok(()) => Ok(Some(file)),
        Err(NotTaken::Busy) => Err(JournalError::Busy { path }),
        Err(NotTaken::Failed(errno)) => Err(JournalError::Io { deed: "lock", path, source: errno.into() }),
    }
}

fn read_and_mend(file: &File, path: &Path) -> Result<Contents, JournalError> {
    let doing = |deed| move |source| JournalError::Io { deed, path: path.to_owned(), source };
    let contents = Contents::read(file, path)?;
    // What stands behind the last complete line was never durable: nothing was done upon it.
    if file.metadata().map_err(doing("look at"))?.len() > contents.end {
        file.set_len(contents.end).map_err(doing("truncate"))?;
    }
    Ok(contents)
}

fn draw_id() -> io::Result<JournalId> {
    let mut random = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(JournalId::from_random(random))
}

/// No block, no inode, or no more of the user's quota.
fn is_no_room(error: &io::Error) -> bool {
    [Errno::NOSPC, Errno::DQUOT].iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
