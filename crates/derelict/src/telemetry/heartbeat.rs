//! Whether a running sweep still makes progress, as a few numbers that anybody may read at any time.
//!
//! A file system call that hangs cannot report itself; that nothing was reported since is what can be seen. No sweep
//! is watched, stopped or waited for here.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A clock that only goes forward: the time since an instant of its own choosing.
type Monotonic = dyn Fn() -> Duration + Send + Sync;

/// The sweeps that run now. Cheap to clone; all clones are the same.
#[derive(Clone)]
pub(crate) struct Heartbeat(Arc<Shared>);

struct Shared {
    clock: Box<Monotonic>,
    /// By root, for a root is swept by one sweep at a time. Held for a look or a change, never over a system call.
    running: Mutex<BTreeMap<String, Arc<Beat>>>,
}

/// One running sweep, in microseconds of the clock.
struct Beat {
    began: u64,
    progress: AtomicU64,
}

/// A sweep that runs now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Running {
    /// The root's name.
    pub(crate) root: String,
    /// For how long it has been running.
    pub(crate) for_: Duration,
    /// How long ago it made progress last.
    pub(crate) since_progress: Duration,
}

impl Heartbeat {
    /// No sweep runs yet. The clock is asked at every beat and at every look.
    pub(crate) fn new(clock: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(Shared { clock: Box::new(clock), running: Mutex::new(BTreeMap::new()) }))
    }

    /// A sweep of a root begins; it runs until the pulse is dropped.
    pub(crate) fn begin(&self, root: &str) -> Pulse {
        let now = self.now();
        let beat = Arc::new(Beat { began: now, progress: AtomicU64::new(now) });
        self.running().insert(root.to_owned(), Arc::clone(&beat));
        Pulse { root: root.to_owned(), progress: Progress { heartbeat: self.clone(), beat } }
    }

    /// Every sweep that runs now, in the order of the roots' names.
    pub(crate) fn look(&self) -> Vec<Running> {
        let now = self.now();
        let since = |then: u64| Duration::from_micros(now.saturating_sub(then));
        let running = self.running();
        let look = running.iter().map(|(root, beat)| Running {
            root: root.clone(),
            for_: since(beat.began),
            since_progress: since(beat.progress.load(Ordering::Relaxed)),
        });
        look.collect()
    }

    /// The sweeps that made no progress for `after` or longer.
    pub(crate) fn stalled(&self, after: Duration) -> Vec<Running> {
        let mut running = self.look();
        running.retain(|sweep| sweep.since_progress >= after);
        running
    }

    fn now(&self) -> u64 {
        u64::try_from((self.0.clock)().as_micros()).unwrap_or(u64::MAX)
    }

    /// The map stays whole whatever happens to a thread that holds it: every change is one call.
    fn running(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Beat>>> {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Heartbeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Heartbeat").field(&self.look()).finish()
    }
}

/// A running sweep. Dropping it ends the sweep, so that no way out of one is forgotten.
#[derive(Debug)]
#[must_use = "a sweep whose pulse is dropped has ended"]
pub(crate) struct Pulse {
    root: String,
    progress: Progress,
}

impl Pulse {
    /// Something was done: a directory was looked at, an entry was unlinked.
    pub(crate) fn progress(&self) {
        self.progress.made();
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        let mut running = self.progress.heartbeat.running();
        if running.get(&self.root).is_some_and(|beat| Arc::ptr_eq(beat, &self.progress.beat)) {
            running.remove(&self.root);
        }
    }
}

/// Says that a sweep made progress. After its end it says so to nobody.
#[derive(Clone)]
pub(crate) struct Progress {
    heartbeat: Heartbeat,
    beat: Arc<Beat>,
}

impl Progress {
    /// Something was done.
    pub(crate) fn made(&self) {
        // The latest of two threads wins, whichever comes last.
        self.beat.progress.fetch_max(self.heartbeat.now(), Ordering::Relaxed);
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::samples::Clock;

    const STALLED: Duration = Duration::from_secs(60);

    fn running(root: &str, for_: u64, since_progress: u64) -> Running {
        let seconds = Duration::from_secs;
        Running { root: root.into(), for_: seconds(for_), since_progress: seconds(since_progress) }
    }

    #[test]
    fn a_sweep_that_makes_no_progress_is_stalled_and_one_that_does_is_not() {
        let clock = Clock::new();
        let heartbeat = Heartbeat::new(clock.reader());
        let pulse = heartbeat.begin("a");
        clock.pass(Duration::from_secs(59));
        assert_eq!(heartbeat.stalled(STALLED), []);
        clock.pass(Duration::from_secs(1));
        assert_eq!(heartbeat.stalled(STALLED), [running("a", 60, 60)]);
        pulse.progress();
        assert_eq!(heartbeat.stalled(STALLED), []);
        clock.pass(Duration::from_secs(60));
        assert_eq!(heartbeat.stalled(STALLED), [running("a", 120, 60)]);
        pulse.progress.clone().made();
        assert_eq!(heartbeat.look(), [running("a", 120, 0)]);
    }

    #[test]
    fn a_sweep_that_ended_is_never_stalled() {
        let clock = Clock::new();
        let heartbeat = Heartbeat::new(clock.reader());
        let pulse = heartbeat.begin("a");
        let late = pulse.progress.clone();
        drop(pulse);
        clock.pass(STALLED * 2);
        late.made();
        assert_eq!((heartbeat.look(), heartbeat.stalled(STALLED)), (vec![], vec![]));
    }

    #[test]
    fn the_sweep_of_one_root_does_not_hide_the_stall_of_another() {
        let clock = Clock::new();
        let heartbeat = Heartbeat::new(clock.reader());
        let (hung, moving) = (heartbeat.begin("hung"), heartbeat.begin("moving"));
        clock.pass(STALLED);
        moving.progress();
        assert_eq!(heartbeat.stalled(STALLED), [running("hung", 60, 60)]);
        drop(hung);
        assert_eq!(heartbeat.look(), [running("moving", 60, 0)]);
    }

    #[test]
    fn the_end_of_an_earlier_sweep_does_not_end_the_next_one() {
        let heartbeat = Heartbeat::new(Clock::new().reader());
        let first = heartbeat.begin("a");
        let second = heartbeat.begin("a");
        drop(first);
        assert_eq!(heartbeat.look(), [running("a", 0, 0)]);
        drop(second);
        assert_eq!(heartbeat.look(), []);
    }
}
