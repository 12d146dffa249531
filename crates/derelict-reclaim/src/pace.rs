//! How hard a removal works the file system: a ceiling in operations a second, and whether it steps
//! aside for others. Every call that asks something of a tree goes through a `Hand`. The rules are
//! `bucket`'s and `backoff`'s; here is the waiting.
//!
//! While calls are answered in microseconds and there is no ceiling, nobody is in anybody's way: the
//! hands go on freely, look at the clock now and then, and tell each other little.

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::backoff::Backoff;
pub(crate) use crate::backoff::Call;
use crate::bucket::Bucket;

/// A call that takes longer than this even in quiet waits for something that others may be waiting for, too.
const SLOW: Duration = Duration::from_micros(250);

/// The first calls of a hand are timed, and one in so many while the hands go on freely. It is no
/// round number, so that what comes in turns is met in turns.
const FIRST_TIMED: u64 = 24;
const TIMED: u64 = 17;

/// So many latencies are told at a time…
const TOLD: usize = 8;

/// …unless one took as long as this: then it is told at once.
const TOLD_AT_ONCE: Duration = Duration::from_millis(1);

/// How hard a removal may work the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// At most so many operations a second: calls that name or list something in the tree.
    pub operations_per_second: Option<NonZeroU32>,
    /// Whether it steps aside.
    pub courtesy: Courtesy,
}

/// Whether a removal steps aside for others who use the same file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Courtesy {
    /// It does less when its own unlinks take longer than they do in quiet.
    Yielding,
    /// It takes all it can get, up to the ceiling.
    Unyielding,
}

impl Pace {
    /// No ceiling, and out of everybody's way.
    pub const POLITE: Self = Self { operations_per_second: None, courtesy: Courtesy::Yielding };
    /// No ceiling, and all there is.
    pub const FULL: Self = Self { operations_per_second: None, courtesy: Courtesy::Unyielding };
}

/// What all hands share.
#[derive(Debug)]
pub(crate) struct Pacer {
    pace: Pace,
    begun: Instant,
    state: Mutex<State>,
    turned: Condvar,
    /// Whether each call has to be asked for.
    strict: AtomicBool,
    operations: AtomicU64,
    /// Asked once: it takes the system a dozen files to tell.
    cores: usize,
}

#[derive(Debug)]
struct State {
    bucket: Option<Bucket>,
    backoff: Backoff,
    under_way: usize,
    not_before: Duration,
}

/// Whoever asks something of a file system, each call when it is time for it.
pub(crate) trait Ask {
    fn call<T>(&mut self, call: Call, ask: impl FnOnce() -> T) -> T;
}

/// Asks at once: for the few calls around a removal.
pub(crate) struct AtOnce;

impl Ask for AtOnce {
    fn call<T>(&mut self, _: Call, ask: impl FnOnce() -> T) -> T {
        ask()
    }
}

/// One thread's share in it.
#[derive(Debug)]
pub(crate) struct Hand<'p> {
    pacer: &'p Pacer,
    operations: u64,
    latencies: Vec<(Call, Duration)>,
}

impl Pacer {
    pub(crate) fn new(pace: Pace) -> Self {
        let bucket = pace.operations_per_second.map(Bucket::new);
        let strict = AtomicBool::new(bucket.is_some());
        let state = State { bucket, backoff: Backoff::new(), under_way: 0, not_before: Duration::ZERO };
        Self {
            pace,
            begun: Instant::now(),
            state: Mutex::new(state),
            turned: Condvar::new(),
            strict,
            operations: AtomicU64::new(0),
            cores: std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
        }
    }

    /// The processors that this process may use.
    pub(crate) fn cores(&self) -> usize {
        self.cores
    }

    /// How many operations were asked for by hands that are at rest.
    pub(crate) fn operations(&self) -> u64 {
        self.operations.load(Ordering::Relaxed)
    }

    /// Whether it is not the number of hands that bounds what is under way.
    pub(crate) fn wants_every_hand(&self) -> bool {
        self.pace.courtesy == Courtesy::Yielding && self.strict.load(Ordering::Relaxed)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Whoever panicked with it left numbers behind, and numbers are never broken.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn.
    fn ask(&self) {
        let mut state = self.state();
        loop {
            let at_a_time = match self.pace.courtesy {
                Courtesy::Yielding => state.backoff.at_a_time(),
                Courtesy::Unyielding => usize::MAX,
            };
            let now = self.begun.elapsed();
            if state.under_way >= at_a_time {
                state = self.turned.wait(state).unwrap_or_else(PoisonError::into_inner);
            } else if now < state.not_before {
                let pause = state.not_before - now;
                (state, _) = self.turned.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner);
            } else {
                state.under_way += 1;
                let wait = state.bucket.as_mut().map_or(Duration::ZERO, |bucket| bucket.take(now));
                drop(state);
                if !wait.is_zero() {
                    std::thread::sleep(wait);
                }
                return;
            }
        }
    }

    /// Gives the turn back.
    fn answered(&self, call: Call, latency: Duration) {
        let mut state = self.state();
        state.under_way -= 1;
        if self.pace.courtesy == Courtesy::Yielding {
            self.learn(&mut state, &[(call, latency)]);
            state.not_before = self.begun.elapsed() + state.backoff.pause_after(latency);
        }
        drop(state);
        self.turned.notify_one();
    }

    fn learn(&self, state: &mut State, latencies: &[(Call, Duration)]) {
        latencies.iter().for_each(|(call, latency)| state.backoff.took(*call, *latency));
        let is_slow = self.pace.courtesy == Courtesy::Yielding && state.backoff.is_slower_than(SLOW);
        self.strict.store(state.bucket.is_some() || is_slow, Ordering::Relaxed);
    }
}

impl<'p> Hand<'p> {
    pub(crate) fn new(pacer: &'p Pacer) -> Self {
        Self { pacer, operations: 0, latencies: Vec::with_capacity(TOLD) }
    }

    /// How many operations it has asked for.
    pub(crate) fn operations(&self) -> u64 {
        self.operations
    }

    /// Tells what it has learned.
    fn tell(&mut self) {
        self.pacer.learn(&mut self.pacer.state(), &self.latencies);
        self.latencies.clear();
    }
}

impl Ask for Hand<'_> {
    fn call<T>(&mut self, call: Call, ask: impl FnOnce() -> T) -> T {
        self.operations += 1;
        if self.pacer.strict.load(Ordering::Relaxed) {
            self.pacer.ask();
            let asked = Instant::now();
            let answer = ask();
            self.pacer.answered(call, asked.elapsed());
            return answer;
        }
        let is_timed = self.operations <= FIRST_TIMED || self.operations.is_multiple_of(TIMED);
        if !is_timed || self.pacer.pace.courtesy == Courtesy::Unyielding {
            return ask();
        }
        let asked = Instant::now();
        let answer = ask();
        let latency = asked.elapsed();
        self.latencies.push((call, latency));
        if self.latencies.len() >= TOLD || latency >= TOLD_AT_ONCE {
            self.tell();
        }
        answer
    }
}

impl Drop for Hand<'_> {
    fn drop(&mut self) {
        self.tell();
        self.pacer.operations.fetch_add(self.operations, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(per_second: Option<u32>, courtesy: Courtesy) -> Pace {
        Pace { operations_per_second: per_second.and_then(NonZeroU32::new), courtesy }
    }

    #[test]
    fn without_a_ceiling_and_with_quick_answers_nobody_has_to_ask() {
        for pace in [Pace::POLITE, Pace::FULL] {
            let pacer = Pacer::new(pace);
            let mut hand = Hand::new(&pacer);
            (0..1_000).for_each(|_| hand.call(Call::Unlink, || ()));
            drop(hand);
            assert!(!pacer.strict.load(Ordering::Relaxed));
            assert_eq!((pacer.operations(), pacer.state().under_way), (1_000, 0));
        }
    }

    #[test]
    fn slow_answers_have_each_call_asked_for_and_only_where_others_matter() {
        for (courtesy, strict) in [(Courtesy::Yielding, true), (Courtesy::Unyielding, false)] {
            let pacer = Pacer::new(pace(None, courtesy));
            pacer.learn(&mut pacer.state(), &[(Call::Unlink, Duration::from_millis(3)); 16]);
            assert_eq!(pacer.wants_every_hand(), strict);
        }
    }

    #[test]
    fn a_turn_is_given_back_whoever_asked() {
        let pacer = Pacer::new(pace(Some(1_000_000), Courtesy::Yielding));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let mut hand = Hand::new(&pacer);
                    (0..200).for_each(|_| hand.call(Call::Unlink, || ()));
                });
            }
        });
        assert_eq!(pacer.state().under_way, 0);
    }
}
