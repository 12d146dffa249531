//! The two streams: [`Out`] is data on stdout, [`Talk`] is everything said beside it on stderr.
//!
//! A reader that goes away (`| head -1`) ends the report, never the work: later lines are dropped in silence and the
//! exit code is what it would have been.

use std::fmt;
use std::io::{self, BufWriter, Write};

use crate::text;

/// Data on stdout.
pub(crate) struct Out {
    sink: Box<dyn Write>,
    state: State,
}

enum State {
    Open,
    /// The reader went away, which is its right.
    Closed,
    /// The report could not be written, which somebody has to know.
    Failed(io::Error),
}

impl Out {
    /// Standard output, buffered: flushed before each question and at the end.
    pub(crate) fn stdout() -> Self {
        Self::to(BufWriter::new(io::stdout()))
    }

    /// Any other place.
    pub(crate) fn to(sink: impl Write + 'static) -> Self {
        Self { sink: Box::new(sink), state: State::Open }
    }

    /// Writes one line.
    pub(crate) fn line(&mut self, line: impl fmt::Display) {
        match self.state {
            State::Open => {
                let written = writeln!(self.sink, "{line}");
                self.note(written);
            }
            State::Closed | State::Failed(_) => {}
        }
    }

    /// Writes an empty line.
    pub(crate) fn blank(&mut self) {
        self.line("");
    }

    /// Hands on what is buffered.
    pub(crate) fn flush(&mut self) {
        match self.state {
            State::Open => {
                let flushed = self.sink.flush();
                self.note(flushed);
            }
            State::Closed | State::Failed(_) => {}
        }
    }

    /// Hands on the rest.
    ///
    /// # Errors
    /// The first error of the stream that was not a reader's going away.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.flush();
        match self.state {
            State::Open | State::Closed => Ok(()),
            State::Failed(error) => Err(error),
        }
    }

    fn note(&mut self, result: io::Result<()>) {
        match result {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => self.state = State::Closed,
            Err(error) => self.state = State::Failed(error),
        }
    }
}

/// What is said on stderr.
pub(crate) struct Talk;

impl Talk {
    /// The one line that says why the program failed.
    pub(crate) fn error(&self, message: &str) {
        self.say(format_args!("error: {}\n", text::sentence(message)));
    }

    /// What is wrong with the command line, in the lines of the parser.
    pub(crate) fn usage(&self, message: &str) {
        for line in message.trim_end().lines() {
            self.say(format_args!("{}\n", text::sentence(line)));
        }
    }

    /// A plain remark.
    pub(crate) fn remark(&self, message: &str) {
        self.say(format_args!("{}\n", text::sentence(message)));
    }

    /// A question; the answer goes on the same line.
    pub(crate) fn question(&self, question: &str) {
        self.say(format_args!("{} ", text::sentence(question)));
    }

    fn say(&self, line: fmt::Arguments<'_>) {
        // Nobody is left to be told that stderr cannot be written, and the exit code says how the work ended.
        drop(io::stderr().lock().write_fmt(line));
    }
}

/// Colours, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    /// Escape codes around what is painted.
    Coloured,
    /// The text as it is.
    Plain,
}

impl Paint {
    /// A heading.
    pub(crate) fn heading(self, text: &str) -> String {
        self.wrap("1", text)
    }

    /// What goes.
    pub(crate) fn goes(self, text: &str) -> String {
        self.wrap("31", text)
    }

    /// What stays.
    pub(crate) fn stays(self, text: &str) -> String {
        self.wrap("32", text)
    }

    /// What needs a person.
    pub(crate) fn attention(self, text: &str) -> String {
        self.wrap("33", text)
    }

    /// What is beside the point.
    pub(crate) fn aside(self, text: &str) -> String {
        self.wrap("2", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        match self {
            Self::Coloured => format!("\x1b[{code}m{text}\x1b[0m"),
            Self::Plain => text.to_owned(),
        }
    }
}

/// What was written to an [`Out`], for tests.
#[cfg(test)]
#[derive(Clone)]
pub(crate) struct Kept(std::rc::Rc<std::cell::RefCell<Vec<u8>>>);

#[cfg(test)]
impl Kept {
    /// A stream, and what will have been written to it.
    pub(crate) fn stream() -> (Out, Self) {
        let kept = Self(std::rc::Rc::default());
        (Out::to(kept.clone()), kept)
    }

    /// All of it.
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.borrow().clone()).expect("because a report is UTF-8")
    }
}

#[cfg(test)]
impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Everything that `write` writes.
#[cfg(test)]
pub(crate) fn capture(write: impl FnOnce(&mut Out)) -> String {
    let (mut out, kept) = Kept::stream();
    write(&mut out);
    kept.text()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Takes `room` bytes, then fails with `kind`.
    struct Narrow {
        taken: Arc<Mutex<Vec<u8>>>,
        room: usize,
        kind: io::ErrorKind,
    }

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut taken = self.taken.lock().expect("because no test panics while it holds it");
            if taken.len() + bytes.len() > self.room {
                return Err(self.kind.into());
            }
            taken.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn narrow(room: usize, kind: io::ErrorKind) -> (Out, Arc<Mutex<Vec<u8>>>) {
        let taken = Arc::new(Mutex::new(Vec::new()));
        (Out::to(Narrow { taken: Arc::clone(&taken), room, kind }), taken)
    }

    #[test]
    fn a_reader_that_goes_away_is_no_error_and_gets_nothing_more() {
        let (mut out, taken) = narrow(4, io::ErrorKind::BrokenPipe);
        for line in ["one", "two", "three"] {
            out.line(line);
        }
        assert!(out.finish().is_ok());
        assert_eq!(*taken.lock().expect("because nobody else holds it"), b"one\n");
    }

    #[test]
    fn a_report_that_cannot_be_written_is_told() {
        let (mut out, _) = narrow(0, io::ErrorKind::StorageFull);
        out.line("one");
        out.line("two");
        assert_eq!(out.finish().map_err(|error| error.kind()), Err(io::ErrorKind::StorageFull));
    }

    #[test]
    fn nothing_depends_on_colour() {
        assert_eq!(Paint::Plain.goes("api"), "api");
        assert_eq!(Paint::Coloured.goes("api"), "\x1b[31mapi\x1b[0m");
    }
}
