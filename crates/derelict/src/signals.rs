//! SIGINT and SIGTERM during a sweep: what is in hand is finished, then the sweep stops and reports.
//!
//! Before a sweep nothing has changed, so the signals keep their usual meaning until [`Stop::watch`] is called; and a
//! second signal ends the program at once, which recovery at the next start is made for.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::exit::Exit;

/// How soon a signal is noticed.
const ATTENTION: Duration = Duration::from_millis(200);

/// Whether somebody asked the sweep to stop.
#[derive(Debug, Clone)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// From here on the first signal asks and the second one kills.
    ///
    /// # Errors
    /// When a handler cannot be installed.
    pub(crate) fn watch() -> io::Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // The order matters: on the second signal the default action runs before the flag is set again.
            flag::register_conditional_default(signal, Arc::clone(&asked))?;
            flag::register(signal, Arc::clone(&asked))?;
        }
        Ok(Self(asked))
    }

    /// Sees to it that the program ends at the latest so long after a signal: what hangs in a file system or a
    /// database hears none. What was in hand stands in the journal. `last_words` are said before.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn ends_within(&self, bound: Duration, last_words: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let stop = self.clone();
        let watch = move || {
            while !stop.asked() {
                std::thread::sleep(ATTENTION);
            }
            std::thread::sleep(bound);
            last_words();
            std::process::exit(Exit::Incomplete.code().into());
        };
        std::thread::Builder::new().name("ending".into()).spawn(watch).map(drop)
    }

    /// Whether a signal has come.
    pub(crate) fn asked(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_asks_and_does_not_kill() {
        let stop = Stop::watch().expect("because handlers can be installed");
        assert!(!stop.asked());
        signal_hook::low_level::raise(SIGTERM).expect("because a process may signal itself");
        assert!(stop.asked());
    }
}
