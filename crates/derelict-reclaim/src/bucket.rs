//! A token bucket: so many operations a second and no more, however many hands ask. Pure: the time
//! comes in as an argument, and waiting is the caller's.

use std::num::NonZeroU32;
use std::time::Duration;

/// How far behind its rate work may be and still catch up. Sleeping is never exact: with this, being
/// late once costs nothing in the long run, and a pause saves up no more than this.
const CATCHES_UP: Duration = Duration::from_millis(100);

/// When the next operation is due.
#[derive(Debug)]
pub(crate) struct Bucket {
    /// Nanoseconds between two operations.
    apart: f64,
    /// Nanoseconds after the start; a fraction is kept, so that no rate is rounded.
    next: f64,
}

impl Bucket {
    /// Nothing is saved up at the start.
    pub(crate) fn new(per_second: NonZeroU32) -> Self {
        Self { apart: 1e9 / f64::from(per_second.get()), next: 0.0 }
    }

    /// Takes one token, and says how long to wait before it may be used.
    pub(crate) fn take(&mut self, now: Duration) -> Duration {
        let now = now.as_nanos() as f64;
        let due = self.next.max(now - CATCHES_UP.as_nanos() as f64);
        self.next = due + self.apart;
        Duration::from_nanos((due - now).max(0.0) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many operations get done in `seconds` by somebody who sleeps too long each time, and takes
    /// so long for an operation.
    fn done(per_second: u32, seconds: u64, oversleeps: Duration, takes: Duration) -> u32 {
        let mut bucket = Bucket::new(NonZeroU32::new(per_second).unwrap());
        let (mut now, mut done) = (Duration::ZERO, 0);
        loop {
            let wait = bucket.take(now);
            now += if wait.is_zero() { wait } else { wait + oversleeps } + takes;
            if now > Duration::from_secs(seconds) {
                return done;
            }
            done += 1;
        }
    }

    #[test]
    fn a_rate_is_held_within_two_percent_although_every_sleep_is_too_long() {
        for per_second in [7, 100, 145, 3_000] {
            let done = f64::from(done(per_second, 60, Duration::from_micros(200), Duration::from_micros(50)));
            let wanted = f64::from(per_second) * 60.0;
            assert!((done / wanted - 1.0).abs() < 0.02, "{done} of {wanted}");
        }
    }

    #[test]
    fn a_pause_saves_up_no_more_than_a_tenth_of_a_second() {
        let mut bucket = Bucket::new(NonZeroU32::new(100).unwrap());
        assert_eq!(bucket.take(Duration::ZERO), Duration::ZERO);
        let later = Duration::from_secs(3_600);
        let at_once = (0..1_000).take_while(|_| bucket.take(later).is_zero()).count();
        assert_eq!(at_once, 11);
    }

    #[test]
    fn who_cannot_keep_up_is_not_held_back() {
        assert_eq!(done(1_000, 10, Duration::ZERO, Duration::from_millis(10)), 1_000);
    }
}
