//! Finding the sweeps in the record without reading their directories. What is wrong with a line of a sweep is found when
//! the sweep is read.

use std::io::{self, BufRead as _, BufReader};
use std::os::unix::fs::FileExt as _;

use anyhow::Context as _;

use crate::ledger::Head;
use crate::ledger::file::{Contents, Span, newer};
use crate::ledger::lines::{self, Line, NotALine};

/// Finds the sweeps, and what lies between them and is not understood.
///
/// # Errors
/// When the record cannot be read, or when a newer program wrote it.
pub(super) fn run(contents: &mut Contents) -> anyhow::Result<()> {
    Skim { contents, line: 0, open: None }.run()
}

/// The search for sweeps: from head to head, trusting each for its length only if it ends where it says.
struct Skim<'c> {
    contents: &'c mut Contents,
    line: u64,
    /// A head whose sweep does not end where it says: it is read line by line.
    open: Option<Unended>,
}

struct Unended {
    head: Head,
    line: u64,
    start: u64,
    body: u64,
}

impl Skim<'_> {
    fn run(mut self) -> anyhow::Result<()> {
        let mut reader = BufReader::new(self.contents.file.try_clone()?);
        let (mut position, mut line) = (0, Vec::new());
        loop {
            line.clear();
            let read = reader.read_until(b'\n', &mut line)? as u64;
            if line.last() != Some(&b'\n') {
                // The end of the file, or a line that was never finished: with it ends what can be told.
                return Ok(());
            }
            let start = position;
            position += read;
            self.line += 1;
            let skip = self.take(&line, start, position)?;
            if skip > 0 {
                position += skip;
                reader.seek_relative(i64::try_from(skip).context("the record is too long")?)?;
            }
        }
    }

    /// Takes one line, and says how many bytes after it are known already.
    fn take(&mut self, line: &[u8], start: u64, end: u64) -> anyhow::Result<u64> {
        match lines::parse(line) {
            Ok(Line::Sweep(head, body)) => {
                self.give_up();
                let directories: u64 = head.counts.values().sum();
                if self.ends_as_it_says(&head.id, directories, end, body)? {
                    let span = Span { head: *head, line: self.line, start, body: end, end: end + body };
                    self.contents.spans.push(span);
                    // The lines of the directories, and the one of the end.
                    self.line += directories + 1;
                    return Ok(body);
                }
                self.open = Some(Unended { head: *head, line: self.line, start, body: end });
            }
            Ok(Line::End(id)) => match self.open.take() {
                Some(Unended { head, line, start, body }) if head.id == id => {
                    self.contents.spans.push(Span { head, line, start, body, end });
                }
                open => {
                    self.open = open;
                    self.stray("it ends a sweep that is not there");
                }
            },
            Ok(Line::Directory(id, _)) => match &self.open {
                Some(open) if open.head.id == id => {}
                Some(_) | None => self.stray("it is of a sweep that is not there"),
            },
            Err(NotALine::Newer(version)) => return Err(newer(self.line, version)),
            // Within a sweep it is named when the sweep is read.
            Err(NotALine::Corrupt(why)) => match &self.open {
                Some(_) => {}
                None => self.stray(&why),
            },
        }
        Ok(0)
    }

    /// Another sweep begins, and the one before has no end.
    fn give_up(&mut self) {
        if let Some(Unended { head, line, .. }) = self.open.take() {
            let why = format!("the sweep {} was not written to its end", head.id);
            self.contents.troubles.add(self.contents.trouble(line, &why));
        }
    }

    fn stray(&mut self, why: &str) {
        self.contents.troubles.add(self.contents.trouble(self.line, why));
    }

    fn ends_as_it_says(&self, id: &str, directories: u64, from: u64, body: u64) -> anyhow::Result<bool> {
        let expected = lines::end(id, directories);
        let Some(at) = from.checked_add(body).and_then(|end| end.checked_sub(expected.len() as u64)) else {
            return Ok(false);
        };
        let mut found = vec![0; expected.len()];
        match self.contents.file.read_exact_at(&mut found, at) {
            Ok(()) => Ok(at >= from && found == expected),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            // A number that is damaged can lead anywhere.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
