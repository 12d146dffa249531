//! The record of sweeps: one file of lines in the state directory, appended to and synced by every sweep. It is what
//! every store can be rebuilt from.
//!
//! A sweep that was not written to its end, because the program or the machine died, is ignored while it is the last.
//! Damage further up is named with its line and skipped; nobody mends it by writing over it. Only forgetting old sweeps
//! replaces the file, as a whole, and takes everything else along byte by byte.

mod skim;

use std::fs::{DirBuilder, File, TryLockError};
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Seek as _, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use derelict_core::ids::Timestamp;
use derelict_reclaim::state::write_atomically_with;
use rustix::fs::OFlags;

use crate::ledger::lines::{self, Line, NotALine, VERSION};
use crate::ledger::{Fates, Head};
use crate::reaper::record::{DirectoryRecord, SweepRecord};
use crate::text;

/// The record's name in the state directory.
const FILE: &str = "sweeps.ndjson";

/// The file whose lock whoever changes the record holds: the record itself is replaced now and then.
const LOCK: &str = "sweeps.lock";

/// For its owner only: names of workspaces tell what people work on.
const FILE_MODE: u32 = 0o600;

/// The state directory, when it is made here.
const DIRECTORY_MODE: u32 = 0o700;

/// How long another derelict may take to write its sweep: one of 100,000 directories takes about a second.
const LOCK_WAIT: Duration = Duration::from_secs(30);

/// How often the lock is tried meanwhile.
const LOCK_POLL: Duration = Duration::from_millis(20);

/// How many damaged places are named one by one; the others are counted.
const MOST_TROUBLES: usize = 20;

/// The record of one state directory.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    state: PathBuf,
    path: PathBuf,
}

/// A sweep in the record, complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    /// Its head.
    pub(crate) head: Head,
    /// The line of its head, counted from one.
    line: u64,
    /// Where the line of its head begins.
    start: u64,
    /// Where its directories begin.
    body: u64,
    /// Where what follows it begins.
    end: u64,
}

/// What was not understood, one sentence each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Troubles {
    named: Vec<String>,
    more: u64,
}

impl Troubles {
    fn add(&mut self, trouble: String) {
        if self.named.len() < MOST_TROUBLES {
            self.named.push(trouble);
        } else {
            self.more += 1;
        }
    }

    /// The sentences.
    pub(crate) fn sentences(self) -> impl Iterator<Item = String> {
        let more = (self.more > 0).then(|| format!("{} more lines are not understood", text::number(self.more)));
        self.named.into_iter().chain(more)
    }
}

/// The record, open for reading. What is appended or forgotten meanwhile does not change what it shows.
#[derive(Debug)]
pub(crate) struct Contents {
    path: PathBuf,
    file: File,
    /// The sweeps, in the order in which they were written.
    pub(crate) spans: Vec<Span>,
    /// What lies between them and is not understood.
    pub(crate) troubles: Troubles,
}

impl Record {
    /// The record in the directory `state`, which need not exist yet.
    pub(crate) fn of(state: &Path) -> Self {
        Self { state: state.to_owned(), path: state.join(FILE) }
    }

    /// Appends a sweep durably. One that is there already is not written again.
    ///
    /// # Errors
    /// When the record, which is named, cannot be written, or when a newer program wrote it; it is as it was then.
    pub(crate) fn append(&self, sweep: &SweepRecord) -> anyhow::Result<()> {
        let place = || format!("cannot record the sweep {} in {}", sweep.id, text::path(&self.path));
        DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(&self.state).with_context(place)?;
        let _held = self.lock()?;
        let is_new = match self.open()? {
            Some(contents) if contents.spans.iter().any(|span| span.head.id == sweep.id) => return Ok(()),
            Some(_) => false,
            None => true,
        };
        let file = options().read(true).append(true).create(true).mode(FILE_MODE).open(&self.path);
        let file = file.and_then(regular).with_context(place)?;
        let before = file.metadata().with_context(place)?.len();
        if let Err(error) = write(&file, before, sweep).and_then(|()| file.sync_data()) {
            // What stays of it if this fails, too, is a sweep without an end, which every reader ignores.
            let _ = file.set_len(before);
            return Err(error).with_context(place);
        }
        if is_new {
            File::open(&self.state).and_then(|directory| directory.sync_all()).with_context(place)?;
        }
        Ok(())
    }

    /// Opens the record and finds its sweeps without reading their directories; `None` when there is no record.
    ///
    /// # Errors
    /// When the record, which is named, cannot be read, or when a newer program wrote it.
    pub(crate) fn open(&self) -> anyhow::Result<Option<Contents>> {
        let place = || format!("cannot read the record of sweeps {}", text::path(&self.path));
        let file = match options().read(true).open(&self.path).and_then(regular) {
            Ok(file) => file,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(error) => return Err(error).with_context(place),
        };
        let mut contents = Contents { path: self.path.clone(), file, spans: Vec::new(), troubles: Troubles::default() };
        skim::run(&mut contents).with_context(place)?;
        Ok(Some(contents))
    }

    /// Forgets the sweeps that began before `instant`, and says how many those were.
    ///
    /// # Errors
    /// When the record, which is named, cannot be read or replaced; it is as it was then.
    pub(crate) fn forget_before(&self, instant: Timestamp) -> anyhow::Result<u64> {
        if !self.path.exists() {
            return Ok(0);
        }
        let _held = self.lock()?;
        let Some(contents) = self.open()? else { return Ok(0) };
        let old: Vec<&Span> = contents.spans.iter().filter(|span| span.head.began < instant).collect();
        if old.is_empty() {
            return Ok(0);
        }
        write_atomically_with(&self.path, |new| copy_without(&contents.file, new, &old))?;
        Ok(old.len() as u64)
    }

    /// Waits for whoever else changes the record, but not for ever.
    fn lock(&self) -> anyhow::Result<File> {
        let path = self.state.join(LOCK);
        let place = || format!("cannot lock {}", text::path(&path));
        let file = options().write(true).create(true).truncate(false).mode(FILE_MODE).open(&path);
        let file = file.and_then(regular).with_context(place)?;
        let start = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::WouldBlock) if start.elapsed() < LOCK_WAIT => std::thread::sleep(LOCK_POLL),
                Err(TryLockError::WouldBlock) => bail!("{} is held by another derelict", text::path(&path)),
                Err(TryLockError::Error(error)) => return Err(error).with_context(place),
            }
        }
    }
}

/// Never through a link, and never to wait for the other end of a pipe.
fn options() -> std::fs::OpenOptions {
    let mut options = File::options();
    options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
    options
}

fn regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

/// Writes the sweep behind what is there. What stands there without the end of its line stays a line of its own.
fn write(file: &File, before: u64, sweep: &SweepRecord) -> io::Result<()> {
    let mut last = [b'\n'];
    if before > 0 {
        file.read_exact_at(&mut last, before - 1)?;
    }
    let end = lines::end(&sweep.id, sweep.directories.len() as u64);
    // The head says how long the rest is, so the rest is written twice, once to nowhere: a copy of it in memory would
    // be as big as the sweep.
    let mut length = Length(end.len() as u64);
    sweep.directories.iter().try_for_each(|one| lines::write_directory(&mut length, &sweep.id, one))?;
    let mut sink = BufWriter::with_capacity(1 << 16, file);
    if last != [b'\n'] {
        sink.write_all(b"\n")?;
    }
    lines::write_head(&mut sink, &Head::of(sweep), length.0)?;
    sweep.directories.iter().try_for_each(|one| lines::write_directory(&mut sink, &sweep.id, one))?;
    sink.write_all(&end)?;
    sink.flush()
}

/// A place where bytes are only measured.
struct Length(u64);

impl Write for Length {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn copy_without(mut old: &File, new: &mut File, left_out: &[&Span]) -> io::Result<()> {
    let mut from = 0;
    for span in left_out {
        old.seek(SeekFrom::Start(from))?;
        io::copy(&mut old.take(span.start - from), new)?;
        from = span.end;
    }
    old.seek(SeekFrom::Start(from))?;
    io::copy(&mut old, new).map(drop)
}

impl Contents {
    /// Tells each directory of a sweep that ended so, and returns what of it is not understood.
    ///
    /// # Errors
    /// When the record, which is named, cannot be read.
    pub(crate) fn directories(
        &self,
        span: &Span,
        fates: Fates,
        each: &mut dyn FnMut(DirectoryRecord),
    ) -> anyhow::Result<Troubles> {
        let place = || format!("cannot read the record of sweeps {}", text::path(&self.path));
        let mut file = &self.file;
        file.seek(SeekFrom::Start(span.body)).with_context(place)?;
        let mut reader = BufReader::with_capacity(1 << 16, file.take(span.end - span.body));
        let (mut troubles, mut line, mut number) = (Troubles::default(), Vec::new(), span.line);
        loop {
            line.clear();
            number += 1;
            if reader.read_until(b'\n', &mut line).with_context(place)? == 0 {
                return Ok(troubles);
            }
            match lines::parse(&line) {
                Ok(Line::Directory(id, directory)) if id == span.head.id => {
                    if fates.include(directory.fate) {
                        each(*directory);
                    }
                }
                Ok(Line::End(_)) => {}
                Ok(Line::Directory(..) | Line::Sweep(..)) => {
                    troubles.add(self.trouble(number, &format!("it does not belong to the sweep {}", span.head.id)));
                }
                Err(NotALine::Corrupt(why)) => troubles.add(self.trouble(number, &why)),
                Err(NotALine::Newer(version)) => return Err(newer(number, version)).with_context(place),
            }
        }
    }

    /// A whole sweep, and what of it is not understood.
    ///
    /// # Errors
    /// When the record, which is named, cannot be read.
    pub(crate) fn sweep(&self, span: &Span) -> anyhow::Result<(SweepRecord, Troubles)> {
        let mut directories = Vec::new();
        let troubles = self.directories(span, Fates::Any, &mut |directory| directories.push(directory))?;
        Ok((span.head.clone().with(directories), troubles))
    }

    fn trouble(&self, line: u64, why: &str) -> String {
        format!("{}, line {line}, is skipped: {why}", text::path(&self.path))
    }
}

fn newer(line: u64, version: u64) -> anyhow::Error {
    anyhow!("line {line}: version {version} is newer than this program, which reads version {VERSION}")
}

#[cfg(test)]
mod tests;
