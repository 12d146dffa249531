//! One line on stderr for whatever takes longer than half a second; nothing at all when it does not, when stderr is
//! no terminal, or when it was asked away.

use std::io::{self, Write as _};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::text;

/// Faster than this nobody misses a sign of life.
const PATIENCE: Duration = Duration::from_millis(500);

/// Often enough to look alive, seldom enough to cost nothing.
const REFRESH: Duration = Duration::from_millis(100);

/// What fits into a line of any terminal, so that it can be wiped.
const LINE_COLUMNS: usize = 78;

/// Whether progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    /// On stderr.
    Line,
    /// Nowhere.
    Nothing,
}

/// A phase of work; the line goes when it is dropped.
pub(crate) struct Progress {
    shared: Arc<Shared>,
    ticker: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    text: String,
    ended: bool,
}

impl Progress {
    /// Starts a phase.
    pub(crate) fn start(show: Show, text: &str) -> Self {
        let state = Mutex::new(State { text: text.to_owned(), ended: false });
        let shared = Arc::new(Shared { state, changed: Condvar::new() });
        let ticker = match show {
            Show::Nothing => None,
            Show::Line => {
                let shared = Arc::clone(&shared);
                // Without the thread there is no progress line, and the work is the same.
                std::thread::Builder::new().name("progress".into()).spawn(move || tick(&shared)).ok()
            }
        };
        Self { shared, ticker }
    }

    /// Says what is being done now.
    pub(crate) fn now(&self, text: String) {
        self.shared.state().text = text;
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.shared.state().ended = true;
        self.shared.changed.notify_all();
        if let Some(ticker) = self.ticker.take() {
            // A ticker that panicked has printed why, and the work it accompanied is done all the same.
            drop(ticker.join());
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // The state is a text and a flag, which no panic leaves half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn tick(shared: &Shared) {
    let (mut wait, mut shown) = (PATIENCE, false);
    loop {
        let waited = shared.changed.wait_timeout_while(shared.state(), wait, |state| !state.ended);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let (ended, line) = (state.ended, text::sentence(&state.text));
        drop(state);
        if ended {
            break;
        }
        let line: String = line.chars().take(LINE_COLUMNS).collect();
        print(format_args!("\r{line}\x1b[K"));
        (wait, shown) = (REFRESH, true);
    }
    if shown {
        print(format_args!("\r\x1b[K"));
    }
}

fn print(line: std::fmt::Arguments<'_>) {
    let mut stderr = io::stderr().lock();
    // A progress line that cannot be shown is no loss.
    drop(stderr.write_fmt(line).and_then(|()| stderr.flush()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_ends_at_once_whether_or_not_it_is_shown() {
        for show in [Show::Nothing, Show::Line] {
            let started = std::time::Instant::now();
            let progress = Progress::start(show, "looking");
            progress.now("looking at a clone".into());
            drop(progress);
            assert!(started.elapsed() < PATIENCE);
        }
    }
}
