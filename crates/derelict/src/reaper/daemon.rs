//! The daemon: every root in a thread of its own, swept at its interval by whichever process leads it, until somebody
//! asks to stop. What one sweep does is in `sweeping`; what becomes of its record, in `keeping`.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use derelict_core::ids::Timestamp;
use derelict_observe::roots::Owners;

use crate::host;
use crate::last_sweep::Remembered;
use crate::reaper::lead::{Led, lead};
use crate::reaper::record::SweepRecord;
use crate::reaper::sweeping::{Assignment, Watcher, not_begun, sweep_root};

/// How often somebody who does not lead asks whether the leader is gone.
const STANDBY: Duration = Duration::from_secs(30);

/// What the daemon tells about one root, beside what a sweep tells while it runs.
pub(crate) trait Desk: Watcher {
    /// A sweep begins.
    fn began(&self);
    /// It ended.
    fn ended(&self, record: &SweepRecord);
    /// So many ticks passed while a sweep was running, which took this long.
    fn skipped(&self, ticks: u64, ran: Duration);
    /// Somebody else sweeps this root.
    fn standing_by(&self, leader: &str);
    /// When the root was last swept by anybody, if that is known of others, too.
    fn last_swept_by_anybody(&self) -> Option<Timestamp>;
}

/// Set once, seen by everybody who waits.
#[derive(Debug, Default, Clone)]
pub(crate) struct Ending(Arc<(Mutex<bool>, Condvar)>);

impl Ending {
    /// Wakes everybody up.
    pub(crate) fn begin(&self) {
        let (ended, changed) = &*self.0;
        *ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
    }

    /// Waits for it, no longer than this. True when it has begun.
    pub(crate) fn wait(&self, no_longer: Duration) -> bool {
        let (ended, changed) = &*self.0;
        let guard = ended.lock().unwrap_or_else(PoisonError::into_inner);
        let (guard, _) =
            changed.wait_timeout_while(guard, no_longer, |ended| !*ended).unwrap_or_else(PoisonError::into_inner);
        *guard
    }
}

/// How this process came to lead a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arrival {
    /// Nobody else was seen to lead it since the start.
    First,
    /// Somebody else led it, and may have ended in the middle of a sweep.
    TookOver,
}

/// Sweeps one root at its interval until the ending begins.
///
/// # Errors
/// When the clock cannot be read.
pub(crate) fn run(assignment: &Assignment, owners: &Owners, desk: &dyn Desk, ending: &Ending) -> anyhow::Result<()> {
    let (mut held, mut arrival, mut settled_in) = (None, Arrival::First, false);
    let mut wait = Duration::ZERO;
    while !ending.wait(wait) {
        wait = match lead(assignment, owners, held.take()) {
            Led::Theirs(leader) => {
                (arrival, settled_in) = (Arrival::TookOver, false);
                desk.standing_by(&leader);
                STANDBY.min(assignment.interval)
            }
            Led::Stopped(stop) => {
                // A sweep that could not begin is a sweep all the same: it is recorded and counted.
                desk.began();
                desk.ended(&not_begun(assignment, stop)?);
                assignment.interval
            }
            Led::Ours(ours) => {
                held = Some(ours);
                let first = if settled_in { Duration::ZERO } else { settling_in(assignment, arrival, desk)? };
                settled_in = true;
                if first.is_zero() { tick(assignment, owners, desk)? } else { first }
            }
        };
    }
    Ok(())
}

/// One sweep; how long it is to the next.
fn tick(assignment: &Assignment, owners: &Owners, desk: &dyn Desk) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    desk.began();
    desk.ended(&sweep_root(assignment, owners, desk)?);
    let ran = begun.elapsed();
    let (skipped, wait) = next(ran, assignment.interval);
    if skipped > 0 {
        desk.skipped(skipped, ran);
    }
    Ok(wait)
}

/// How long to wait for the first sweep after coming to lead.
fn settling_in(assignment: &Assignment, arrival: Arrival, desk: &dyn Desk) -> anyhow::Result<Duration> {
    // A memory that cannot be read is the sweep's to complain of.
    let ours = Remembered::of(&assignment.path, &assignment.state).last().ok().flatten().map(|last| last.at);
    Ok(first_wait(assignment.interval, arrival, ours, desk.last_swept_by_anybody(), host::now()?))
}

/// An interval from the last sweep. Who took over from somebody else believes only what others tell, too: without that,
/// or when a sweep was due since, the other one may have removed up to the limits a moment ago.
fn first_wait(
    interval: Duration,
    arrival: Arrival,
    ours: Option<Timestamp>,
    anybodys: Option<Timestamp>,
    now: Timestamp,
) -> Duration {
    let left = |last: Timestamp| {
        let passed = u64::try_from(now.seconds().saturating_sub(last.seconds())).unwrap_or(0);
        interval.saturating_sub(Duration::from_secs(passed))
    };
    match (arrival, anybodys) {
        (Arrival::First, _) => ours.max(anybodys).map_or(Duration::ZERO, left),
        (Arrival::TookOver, Some(last)) if !left(last).is_zero() => left(last),
        (Arrival::TookOver, Some(_) | None) => interval,
    }
}

/// How many ticks passed while a sweep ran, and how long it is to the next. A sweep that outruns its interval is never
/// made up for.
fn next(ran: Duration, interval: Duration) -> (u64, Duration) {
    let interval_nanos = interval.as_nanos().max(1);
    let skipped = ran.as_nanos() / interval_nanos;
    let into = ran.as_nanos() % interval_nanos;
    let wait = u64::try_from(interval_nanos - into).map_or(interval, Duration::from_nanos);
    (u64::try_from(skipped).unwrap_or(u64::MAX), wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn a_sweep_that_outruns_its_interval_skips_ticks_and_is_not_made_up_for() {
        let minutes = |n: u64| Duration::from_secs(60 * n);
        assert_eq!(next(minutes(10), HOUR), (0, minutes(50)));
        assert_eq!(next(minutes(60), HOUR), (1, HOUR));
        assert_eq!(next(minutes(150), HOUR), (2, minutes(30)));
    }

    #[test]
    fn the_first_sweep_comes_an_interval_after_the_last_one_of_anybody() {
        let at = |minutes: i64| Timestamp::new(minutes * 60, 0);
        let wait = |arrival, ours: Option<i64>, anybodys: Option<i64>| {
            first_wait(HOUR, arrival, ours.map(at), anybodys.map(at), at(100)).as_secs() / 60
        };
        assert_eq!(wait(Arrival::First, None, None), 0, "nobody ever swept");
        assert_eq!(wait(Arrival::First, Some(30), None), 0);
        assert_eq!(wait(Arrival::First, Some(60), None), 20);
        assert_eq!(wait(Arrival::First, Some(30), Some(90)), 50, "somebody else swept since");
        assert_eq!(wait(Arrival::First, None, Some(90)), 50);
        assert_eq!(wait(Arrival::TookOver, Some(99), None), 60, "nobody tells when the other one swept");
        assert_eq!(wait(Arrival::TookOver, Some(30), Some(90)), 50);
        assert_eq!(wait(Arrival::TookOver, Some(30), Some(30)), 60, "one was due since, and may have been cut off");
    }

    #[test]
    fn whoever_waits_is_woken_by_the_ending() {
        let ending = Ending::default();
        assert!(!ending.wait(Duration::ZERO));
        let waiting = ending.clone();
        let waiter = std::thread::spawn(move || waiting.wait(24 * HOUR));
        ending.begin();
        assert!(waiter.join().expect("because it only waits"));
    }
}
