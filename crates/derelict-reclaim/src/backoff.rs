//! Steps aside when a file system has more to do than us: watches how long calls of our own take,
//! against how long calls of that kind took while it was quiet. Pure: latencies come in as arguments.
//!
//! What it steers is a window: how many operations may be under way at a time. Below one, a window is
//! the part of the time that one operation may be under way. It grows by steps while next to nothing
//! is slower than usual (at the very start it doubles), and halves when most is. The queue of a busy server is seen by everybody in
//! it: what makes our calls wait is somebody else, or ourselves; in both cases less of us helps.

use std::time::Duration;

/// As many at a time as ever pay.
const MOST: f64 = 32.0;

/// The least of the time that is left to us; what that means in pauses is bounded by `LONGEST_PAUSE`.
const LEAST: f64 = 1.0 / 1024.0;

/// One more at a time, for each epoch in which nothing was slower…
const STEP: f64 = 1.0;

/// …and below one at a time, so much more of the time.
const SMALL_STEP: f64 = 1.0 / 16.0;

/// Operations that are judged together. Beside somebody else there are fewer, or it would take
/// minutes to notice that he has gone.
const EPOCH: usize = 16;
const SMALL_EPOCH: usize = 5;

/// How much slower than in quiet is no reason to step aside: this part of the quiet latency, and as
/// much at least as a scheduler may add.
const TOLERATED: f64 = 1.0 / 3.0;
const SCHEDULING: f64 = 200e-6;

/// By how much the quiet latency is taken to have risen with each operation. A file system may become
/// slower for good, and that must not count as somebody else's work for ever.
const DRIFT: f64 = 0.0002;

/// Nobody waits longer than this for another try.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// So many latencies of a kind of call tell how long it takes in quiet: the second lowest of them.
const LATELY: usize = 8;

/// What is asked of a file system. Only calls of one kind are compared with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    /// The status of a name.
    Look,
    /// The status of something open.
    Confirm,
    /// The opening of a directory.
    Open,
    /// A part of a listing.
    List,
    /// The unlink of something that is no directory.
    Unlink,
    /// The removal of an empty directory.
    RemoveDirectory,
}

/// How many kinds of calls there are.
const KINDS: usize = Call::RemoveDirectory as usize + 1;

/// The window, and what it is judged by. Latencies are in seconds.
#[derive(Debug)]
pub(crate) struct Backoff {
    window: f64,
    stage: Stage,
    quiet: [Quiet; KINDS],
    /// Calls of this epoch, and how many of them took longer than in quiet.
    calls: usize,
    slow: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing was slow so far.
    Opening,
    /// The window is about right.
    Steady,
}

/// How long a kind of call takes in quiet.
#[derive(Debug, Default)]
struct Quiet {
    latency: Option<f64>,
    lately: Vec<f64>,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Self { window: 1.0, stage: Stage::Opening, quiet: Default::default(), calls: 0, slow: 0 }
    }

    /// How many operations may be under way.
    pub(crate) fn at_a_time(&self) -> usize {
        self.window.max(1.0) as usize
    }

    /// How long to pause after an operation that took so long.
    pub(crate) fn pause_after(&self, latency: Duration) -> Duration {
        if self.window >= 1.0 {
            return Duration::ZERO;
        }
        latency.mul_f64(1.0 / self.window - 1.0).min(LONGEST_PAUSE)
    }

    /// Whether anything takes at least so long even in quiet. Listings are left out: a large one takes
    /// long everywhere.
    pub(crate) fn is_slower_than(&self, latency: Duration) -> bool {
        let kinds = [Call::Look, Call::Confirm, Call::Open, Call::Unlink, Call::RemoveDirectory];
        let quiet = |call: Call| self.quiet[call as usize].latency;
        kinds.into_iter().filter_map(quiet).any(|quiet| quiet >= latency.as_secs_f64())
    }

    /// Learns how long a call of ours took.
    pub(crate) fn took(&mut self, call: Call, latency: Duration) {
        let latency = latency.as_secs_f64();
        self.slow += usize::from(self.quiet[call as usize].is_exceeded_by(latency));
        self.calls += 1;
        let enough = if self.window < 1.0 { SMALL_EPOCH } else { EPOCH };
        if self.calls >= enough {
            self.judge();
            (self.calls, self.slow) = (0, 0);
        }
    }

    fn judge(&mut self) {
        if self.slow * 2 > self.calls {
            self.window = (self.window / 2.0).max(LEAST);
            self.stage = Stage::Steady;
        } else if self.slow * 4 <= self.calls {
            self.window = match self.stage {
                Stage::Opening => self.window * 2.0,
                Stage::Steady if self.window >= 1.0 => self.window + STEP,
                Stage::Steady => (self.window + SMALL_STEP).min(1.0),
            };
        }
        self.window = self.window.min(MOST);
    }
}

impl Quiet {
    /// Whether a call took longer than it does in quiet; and learns from it how long that is.
    fn is_exceeded_by(&mut self, latency: f64) -> bool {
        self.lately.push(latency);
        if self.lately.len() == LATELY {
            self.lately.sort_by(f64::total_cmp);
            let low = self.lately[1];
            self.latency = Some(match self.latency {
                Some(quiet) => low.min(quiet * (1.0 + DRIFT * LATELY as f64)),
                None => low,
            });
            self.lately.clear();
        }
        self.latency.is_some_and(|quiet| latency > quiet + (quiet * TOLERATED).max(SCHEDULING))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVICE: f64 = 0.003;

    /// A server that does one thing after the other, seen by us and by somebody who asks for
    /// something every `every` seconds, between two moments. Tells how many operations of ours were
    /// done, and how many of his met one of ours.
    struct Queue {
        backoff: Backoff,
        now: f64,
        his_next: f64,
        free: f64,
        ours: u32,
        his: u32,
        met: u32,
    }

    impl Queue {
        fn new() -> Self {
            Self { backoff: Backoff::new(), now: 0.0, his_next: f64::MAX, free: 0.0, ours: 0, his: 0, met: 0 }
        }

        /// Lets time pass, in which he asks for something every so many seconds.
        fn run(&mut self, seconds: f64, every: f64) {
            let end = self.now + seconds;
            self.his_next = self.now;
            (self.ours, self.his, self.met) = (0, 0, 0);
            while self.now < end {
                // All that may be under way is asked for at once, and the server answers in turn.
                let asked = self.now;
                let ours = self.backoff.at_a_time();
                for _ in 0..ours {
                    self.let_him(asked, every);
                    self.free = self.free.max(asked) + SERVICE;
                    self.ours += 1;
                    self.let_him_meet(every);
                    self.backoff.took(Call::Unlink, Duration::from_secs_f64(self.free - asked));
                }
                let latency = self.free - asked;
                self.now = self.free + self.backoff.pause_after(Duration::from_secs_f64(latency)).as_secs_f64();
            }
        }

        /// What he asked for before we did is done before.
        fn let_him(&mut self, until: f64, every: f64) {
            while self.his_next <= until {
                self.free = self.free.max(self.his_next) + SERVICE;
                self.his += 1;
                self.his_next += every;
            }
        }

        /// What he asks for while ours is under way waits for it.
        fn let_him_meet(&mut self, every: f64) {
            let until = self.free;
            while self.his_next <= until {
                self.free += SERVICE;
                self.his += 1;
                self.met += 1;
                self.his_next += every;
            }
        }
    }

    #[test]
    fn an_idle_server_is_used_fully() {
        let mut queue = Queue::new();
        queue.run(60.0, f64::MAX);
        let ceiling = 60.0 / SERVICE;
        assert!(f64::from(queue.ours) > ceiling * 0.97, "{} of {ceiling}", queue.ours);
    }

    #[test]
    fn beside_somebody_else_less_than_one_in_a_hundred_of_his_operations_meets_ours() {
        let mut queue = Queue::new();
        queue.run(10.0, f64::MAX);
        // He keeps the server busy for three quarters of the time.
        queue.run(5.0, SERVICE / 0.75);
        queue.run(60.0, SERVICE / 0.75);
        assert!(queue.met * 100 < queue.his, "{} of {}", queue.met, queue.his);
        assert!(queue.ours > 0);
        // When he has gone, the server is ours again.
        queue.run(60.0, f64::MAX);
        queue.run(10.0, f64::MAX);
        assert!(f64::from(queue.ours) > 10.0 / SERVICE * 0.97, "{}", queue.ours);
    }

    #[test]
    fn where_operations_do_not_wait_for_each_other_all_that_pay_are_under_way() {
        let mut backoff = Backoff::new();
        (0..EPOCH * 40).for_each(|_| backoff.took(Call::Unlink, Duration::from_millis(7)));
        assert_eq!((backoff.at_a_time(), backoff.pause_after(Duration::from_millis(7))), (32, Duration::ZERO));
    }

    #[test]
    fn what_a_scheduler_does_is_not_taken_for_somebody_elses_work() {
        let mut backoff = Backoff::new();
        for n in 0..10_000 {
            backoff.took(Call::Unlink, Duration::from_micros(if n % 5 == 0 { 4_000 } else { 12 + n % 40 }));
        }
        assert_eq!(backoff.at_a_time(), 32);
    }

    #[test]
    fn a_file_system_that_became_slower_for_good_is_used_again() {
        let mut backoff = Backoff::new();
        (0..160).for_each(|_| backoff.took(Call::Unlink, Duration::from_millis(3)));
        (0..160).for_each(|_| backoff.took(Call::Unlink, Duration::from_millis(6)));
        assert!(backoff.pause_after(Duration::from_millis(6)) > Duration::from_millis(50));
        (0..8_000).for_each(|_| backoff.took(Call::Unlink, Duration::from_millis(6)));
        assert_eq!(backoff.pause_after(Duration::from_millis(6)), Duration::ZERO);
    }

    #[test]
    fn no_pause_is_longer_than_anybody_would_wait() {
        let mut backoff = Backoff::new();
        backoff.took(Call::Unlink, Duration::from_millis(1));
        (0..1_000).for_each(|n| backoff.took(Call::Unlink, Duration::from_millis(n)));
        assert_eq!(backoff.pause_after(Duration::from_secs(60)), LONGEST_PAUSE);
    }
}
