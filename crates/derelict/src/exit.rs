//! How the program ends: the closed set of exit codes, and an error together with the one it asks for.

use std::process::ExitCode;

/// The exit codes, mildest first, so that the worst of several is their maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// Done, nothing to do, or answered no.
    Done,
    /// Something was refused, or could not be decided.
    Incomplete,
    /// The command line, the environment or a path is wrong.
    Usage,
    /// A breaker tripped, or a source, the journal or the breakers' memory was lost.
    Stopped,
}

impl Exit {
    /// The number the shell sees.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Incomplete => 1,
            Self::Usage => 2,
            Self::Stopped => 3,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Why a command could not do its work, and how the program ends for it.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) exit: Exit,
    /// What went wrong, with its sources.
    pub(crate) error: anyhow::Error,
}

impl Failure {
    /// Wrong usage, configuration or path.
    pub(crate) fn usage(error: impl Into<anyhow::Error>) -> Self {
        Self { exit: Exit::Usage, error: error.into() }
    }

    /// A source, the journal or the memory of the breakers is lost.
    pub(crate) fn stopped(error: impl Into<anyhow::Error>) -> Self {
        Self { exit: Exit::Stopped, error: error.into() }
    }

    /// Something else would not go on; nothing was lost.
    pub(crate) fn incomplete(error: impl Into<anyhow::Error>) -> Self {
        Self { exit: Exit::Incomplete, error: error.into() }
    }

    /// The message with its sources, in one line. Some errors name their source themselves: it is said once.
    pub(crate) fn message(&self) -> String {
        let mut message = self.error.to_string();
        for source in self.error.chain().skip(1).map(ToString::to_string) {
            if !message.contains(&source) {
                message = format!("{message}: {source}");
            }
        }
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_of_several_exits_is_their_maximum() {
        assert_eq!(Exit::Incomplete.max(Exit::Done), Exit::Incomplete);
        assert_eq!(Exit::Incomplete.max(Exit::Stopped), Exit::Stopped);
    }

    #[test]
    fn codes_are_those_that_are_documented() {
        let all = [Exit::Done, Exit::Incomplete, Exit::Usage, Exit::Stopped];
        assert_eq!(all.map(Exit::code), [0, 1, 2, 3]);
    }

    #[test]
    fn a_failure_names_its_sources_in_one_line() {
        let error = anyhow::anyhow!("no such file").context("cannot read /a");
        assert_eq!(Failure::usage(error).message(), "cannot read /a: no such file");
        let error = anyhow::anyhow!("no such file").context("cannot read /a: no such file");
        assert_eq!(Failure::usage(error).message(), "cannot read /a: no such file");
    }
}
