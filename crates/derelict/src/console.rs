//! Everything a command says and asks goes through one of these: streams, colours, progress and the question.

use std::io::{self, BufRead as _, IsTerminal as _};

use crate::cli::{Appearance, Color};
use crate::host::ColorWish;
use crate::out::{Out, Paint, Talk};
use crate::progress::{Progress, Show};

/// The two streams with their looks.
pub(crate) struct Console {
    /// Data.
    pub(crate) out: Out,
    /// Talk.
    pub(crate) talk: Talk,
    /// Colours of the data.
    pub(crate) paint: Paint,
    show: Show,
}

/// What a person answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply {
    /// `y` or `yes`.
    Yes,
    /// Everything else, silence included.
    No,
}

impl Console {
    /// The console for these wishes.
    pub(crate) fn new(appearance: &Appearance, wish: ColorWish) -> Self {
        let coloured = match (appearance.color, wish) {
            (Color::Always, _) | (Color::Auto, ColorWish::Forced) => true,
            (Color::Never, _) | (Color::Auto, ColorWish::Declined) => false,
            (Color::Auto, ColorWish::Unsaid) => io::stdout().is_terminal(),
        };
        let paint = if coloured { Paint::Coloured } else { Paint::Plain };
        let show = if appearance.no_progress || !io::stderr().is_terminal() { Show::Nothing } else { Show::Line };
        Self { out: Out::stdout(), talk: Talk, paint, show }
    }

    /// The same without progress, for output that a program reads.
    pub(crate) fn quiet(self) -> Self {
        Self { show: Show::Nothing, paint: Paint::Plain, ..self }
    }

    /// Starts a phase that may take a while.
    pub(crate) fn phase(&mut self, text: &str) -> Progress {
        self.out.flush();
        Progress::start(self.show, text)
    }

    /// Asks a person, after all data has been shown. Half a line is no answer.
    pub(crate) fn ask(&mut self, question: &str) -> Reply {
        self.out.flush();
        // What was typed before the question was there is no answer to it. Without a terminal there is
        // nothing to forget.
        let _ = rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush);
        self.talk.question(question);
        let mut answer = String::new();
        // What cannot be read, or is not text, is no yes.
        match io::stdin().lock().read_line(&mut answer) {
            Ok(_) if answer.ends_with('\n') => reply(&answer),
            // The input ended: nobody pressed the key that would have ended the line of the question.
            Ok(_) | Err(_) => {
                self.talk.remark("");
                Reply::No
            }
        }
    }
}

/// Everything that `write` puts on a console without colours.
#[cfg(test)]
pub(crate) fn capture(write: impl FnOnce(&mut Console)) -> String {
    let (out, kept) = crate::out::Kept::stream();
    write(&mut Console { out, talk: Talk, paint: Paint::Plain, show: Show::Nothing });
    kept.text()
}

fn reply(answer: &str) -> Reply {
    let answer = answer.trim();
    if answer.eq_ignore_ascii_case("y") || answer.eq_ignore_ascii_case("yes") { Reply::Yes } else { Reply::No }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_yes_is_yes() {
        for yes in ["y\n", "Y\n", "yes\n", " yes \r\n", "YES\n"] {
            assert_eq!(reply(yes), Reply::Yes, "{yes:?}");
        }
        for no in ["", "\n", "n\n", "ye\n", "yes please\n", "j\n"] {
            assert_eq!(reply(no), Reply::No, "{no:?}");
        }
    }
}
