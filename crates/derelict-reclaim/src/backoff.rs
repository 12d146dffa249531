//! Steps aside when a file system has more to do than us: watches how long unlinks of our own take,
//! against how long they took while it was quiet. Pure: latencies come in as arguments.
//!
//! What it steers is a window: how many operations may be under way at a time. Below one, a window is
//! the part of the time that one operation may be under way. It grows by steps while nothing is
//! slower than usual, and halves when things are. The queue of a busy server is seen by everybody in
//! it: what makes our unlinks wait is somebody else, or ourselves; in both cases less of us helps.

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
const SMALL_EPOCH: usize = 2;

/// How much slower than in quiet is no reason to step aside: this part of the quiet latency, and as
/// much at least as a scheduler may add.
const TOLERATED: f64 = 1.0 / 3.0;
const SCHEDULING: f64 = 200e-6;

/// By how much the quiet latency is taken to have risen with each operation. A file system may become
/// slower for good, and that must not count as somebody else's work for ever.
const DRIFT: f64 = 0.0002;

/// Nobody waits longer than this for another try.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The window, and what it is judged by. Latencies are in seconds.
#[derive(Debug)]
pub(crate) struct Backoff {
    window: f64,
    quiet: Option<f64>,
    epoch: Vec<f64>,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Self { window: 1.0, quiet: None, epoch: Vec::with_capacity(EPOCH) }
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

    /// How long an unlink takes in quiet, once that is known.
    pub(crate) fn quiet(&self) -> Option<Duration> {
        self.quiet.map(Duration::from_secs_f64)
    }

    /// Learns how long an unlink of ours took.
    pub(crate) fn took(&mut self, latency: Duration) {
        self.epoch.push(latency.as_secs_f64());
        let enough = if self.window < 1.0 { SMALL_EPOCH } else { EPOCH };
        if self.epoch.len() >= enough {
            self.judge();
            self.epoch.clear();
        }
    }

    fn judge(&mut self) {
        self.epoch.sort_by(f64::total_cmp);
        let (low, middle) = (self.epoch[self.epoch.len() / 4], self.epoch[self.epoch.len() / 2]);
        let quiet = match self.quiet {
            Some(quiet) => low.min(quiet * (1.0 + DRIFT * self.epoch.len() as f64)),
            None => low,
        };
        self.quiet = Some(quiet);
        self.window = if middle > quiet + (quiet * TOLERATED).max(SCHEDULING) {
            (self.window / 2.0).max(LEAST)
        } else if self.window >= 1.0 {
            (self.window + STEP).min(MOST)
        } else {
            (self.window + SMALL_STEP).min(1.0)
        };
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
                    self.backoff.took(Duration::from_secs_f64(self.free - asked));
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
        (0..EPOCH * 40).for_each(|_| backoff.took(Duration::from_millis(7)));
        assert_eq!((backoff.at_a_time(), backoff.pause_after(Duration::from_millis(7))), (32, Duration::ZERO));
    }

    #[test]
    fn what_a_scheduler_does_is_not_taken_for_somebody_elses_work() {
        let mut backoff = Backoff::new();
        for n in 0..10_000 {
            backoff.took(Duration::from_micros(if n % 5 == 0 { 4_000 } else { 12 + n % 40 }));
        }
        assert_eq!(backoff.at_a_time(), 32);
    }

    #[test]
    fn a_file_system_that_became_slower_for_good_is_used_again() {
        let mut backoff = Backoff::new();
        (0..160).for_each(|_| backoff.took(Duration::from_millis(3)));
        (0..160).for_each(|_| backoff.took(Duration::from_millis(6)));
        assert!(backoff.pause_after(Duration::from_millis(6)) > Duration::from_millis(50));
        (0..8_000).for_each(|_| backoff.took(Duration::from_millis(6)));
        assert_eq!(backoff.pause_after(Duration::from_millis(6)), Duration::ZERO);
    }

    #[test]
    fn no_pause_is_longer_than_anybody_would_wait() {
        let mut backoff = Backoff::new();
        backoff.took(Duration::from_millis(1));
        (0..1_000).for_each(|n| backoff.took(Duration::from_millis(n)));
        assert_eq!(backoff.pause_after(Duration::from_secs(60)), LONGEST_PAUSE);
    }
}
