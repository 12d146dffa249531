//! What is known of each root, to be exported: folded from the records of its sweeps and from measured latencies.
//! Under which names it is exported is in [`crate::telemetry::metrics`].

use std::collections::BTreeMap;
use std::time::Duration;

use derelict_core::ids::Timestamp;
use derelict_core::outcome::{Discarded, FateName, StopReason};
use prometheus_client::metrics::histogram::Histogram;

use crate::reaper::record::{Amount, Mode, SweepRecord};

/// Upper bounds in seconds: a dry run over a small root takes a tenth of a second, a sweep that deletes at the pace of
/// a busy metadata server takes hours.
const SWEEP_SECONDS: [f64; 11] = [0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 10_800.0, 21_600.0];

/// Upper bounds in seconds: a row from a local database takes fifty microseconds, and statement timeouts are seconds.
const REREAD_SECONDS: [f64; 12] = [5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 0.01, 0.05, 0.25, 1.0, 5.0, 30.0];

/// Upper bounds in seconds: the window in which somebody may come unseen, from the re-check to the fence.
const WINDOW_SECONDS: [f64; 9] = [1e-4, 2.5e-4, 1e-3, 5e-3, 0.025, 0.1, 0.5, 2.0, 10.0];

/// Upper bounds in seconds: an unlink takes microseconds in memory and tens of milliseconds on a network file system.
const UNLINK_SECONDS: [f64; 10] = [1e-5, 2.5e-5, 1e-4, 2.5e-4, 1e-3, 5e-3, 0.025, 0.1, 0.5, 5.0];

/// Everything that is exported of one root.
#[derive(Debug)]
pub(super) struct RootSeries {
    /// Whether it is armed, as it was last said.
    pub(super) mode: Option<Mode>,
    /// Ticks at which the last sweep was still running.
    pub(super) skipped_ticks: u64,
    /// How long it took to read an owner again.
    pub(super) reread: Histogram,
    /// How long it took from the re-check to the fence.
    pub(super) window: Histogram,
    /// How long it took to unlink one entry.
    pub(super) unlink: Histogram,
    /// By mode, since a dry run and a live one never mix. Empty until the first sweep has ended.
    pub(super) modes: BTreeMap<Mode, ModeSeries>,
}

impl RootSeries {
    /// Of a root of which nothing is known.
    pub(super) fn new() -> Self {
        Self {
            mode: None,
            skipped_ticks: 0,
            reread: Histogram::new(REREAD_SECONDS),
            window: Histogram::new(WINDOW_SECONDS),
            unlink: Histogram::new(UNLINK_SECONDS),
            modes: BTreeMap::new(),
        }
    }

    /// Whether a sweep of it has ended.
    pub(super) fn swept(&self) -> bool {
        !self.modes.is_empty()
    }

    /// Adds a sweep.
    pub(super) fn fold(&mut self, sweep: &SweepRecord) {
        self.mode = Some(sweep.mode);
        self.modes.entry(sweep.mode).or_insert_with(|| ModeSeries::new(sweep)).fold(sweep);
    }
}

/// Everything that is exported of one root in one mode.
#[derive(Debug)]
pub(super) struct ModeSeries {
    /// Sweeps by why they ended; every reason is there.
    pub(super) sweeps: BTreeMap<&'static str, u64>,
    /// Directories by where they ended, over all sweeps; every name is there.
    pub(super) directories: BTreeMap<FateName, u64>,
    /// What was unlinked in all.
    pub(super) removed: Discarded,
    /// How long the sweeps took.
    pub(super) duration: Histogram,
    /// When the last one ended that went through.
    pub(super) last_success: Option<Timestamp>,
    /// The last one, whatever became of it.
    pub(super) last: LastSweep,
}

/// What only the last sweep says.
#[derive(Debug)]
pub(super) struct LastSweep {
    /// When it ended.
    pub(super) at: Timestamp,
    /// Why it ended.
    pub(super) stop: String,
    /// What could have gone when it began.
    pub(super) backlog: Amount,
    /// Directories by where they ended; every name is there.
    pub(super) directories: BTreeMap<FateName, u64>,
}

impl ModeSeries {
    /// Of a root of which this is the first sweep, not counted yet.
    fn new(first: &SweepRecord) -> Self {
        Self {
            sweeps: StopReason::NAMES.into_iter().map(|name| (name, 0)).collect(),
            directories: FateName::ALL.into_iter().map(|name| (name, 0)).collect(),
            removed: Discarded { entries: 0, bytes: 0 },
            duration: Histogram::new(SWEEP_SECONDS),
            last_success: None,
            last: LastSweep::of(first),
        }
    }

    fn fold(&mut self, sweep: &SweepRecord) {
        self.last = LastSweep::of(sweep);
        let reason = StopReason::NAMES.into_iter().find(|name| *name == sweep.stop.name);
        let reason = reason.expect("because a record is made with the name of a stop reason");
        *self.sweeps.get_mut(reason).expect("because every reason is there") += 1;
        for (name, count) in &self.last.directories {
            *self.directories.get_mut(name).expect("because every fate is there") += count;
        }
        self.removed.entries += sweep.discarded.entries;
        self.removed.bytes += sweep.discarded.bytes;
        self.duration.observe(lasted(sweep).as_secs_f64());
        if went_through(reason) {
            self.last_success = Some(sweep.ended);
        }
    }
}

impl LastSweep {
    fn of(sweep: &SweepRecord) -> Self {
        let mut directories: BTreeMap<FateName, u64> = FateName::ALL.into_iter().map(|name| (name, 0)).collect();
        for directory in &sweep.directories {
            *directories.get_mut(&directory.fate).expect("because every fate is there") += 1;
        }
        Self { at: sweep.ended, stop: sweep.stop.name.clone(), backlog: sweep.backlog, directories }
    }
}

/// How long a sweep took by the wall clock; nothing if that was set back meanwhile.
pub(super) fn lasted(sweep: &SweepRecord) -> Duration {
    let nanoseconds = |at: Timestamp| i128::from(at.seconds()) * 1_000_000_000 + i128::from(at.subsecond_nanoseconds());
    let lasted = nanoseconds(sweep.ended) - nanoseconds(sweep.began);
    u64::try_from(lasted).map_or(Duration::ZERO, Duration::from_nanos)
}

/// Whether a sweep did everything it was allowed to. One that ran out of time may have hung, and one that was
/// cancelled says nothing about the next.
fn went_through(reason: &str) -> bool {
    matches!(reason, "finished" | "limit")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::samples::{BEGAN, sweep};

    #[test]
    fn counts_add_up_over_sweeps_and_the_last_sweep_stands_for_itself() {
        let mut root = RootSeries::new();
        assert!(!root.swept());
        root.fold(&sweep("r", Mode::Armed, "limit", &[FateName::Removed, FateName::Removed, FateName::Undetermined]));
        root.fold(&sweep("r", Mode::Armed, "finished", &[FateName::Removed]));
        let armed = &root.modes[&Mode::Armed];
        assert_eq!((armed.sweeps["limit"], armed.sweeps["finished"], armed.sweeps["breaker"]), (1, 1, 0));
        assert_eq!(armed.directories[&FateName::Removed], 3);
        assert_eq!(armed.directories[&FateName::Undetermined], 1);
        assert_eq!(armed.last.directories[&FateName::Removed], 1);
        assert_eq!(armed.last.directories[&FateName::Undetermined], 0);
        assert_eq!(armed.removed, Discarded { entries: 80, bytes: 8192 });
    }

    #[test]
    fn only_a_sweep_that_went_through_is_a_success() {
        let expected = ["finished", "limit"];
        for reason in StopReason::NAMES {
            let mut root = RootSeries::new();
            root.fold(&sweep("r", Mode::Report, reason, &[]));
            let report = &root.modes[&Mode::Report];
            let at = Timestamp::new(BEGAN + 90, 500_000_000);
            assert_eq!(report.last_success, expected.contains(&reason).then_some(at), "{reason}");
            assert_eq!(report.last.at, at, "{reason}");
        }
    }

    #[test]
    fn a_clock_that_was_set_back_makes_no_negative_duration() {
        let mut back = sweep("r", Mode::Report, "finished", &[]);
        back.ended = Timestamp::new(BEGAN - 5, 0);
        assert_eq!(lasted(&back), Duration::ZERO);
    }
}
