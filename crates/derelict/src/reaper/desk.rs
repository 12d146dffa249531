//! Where what a sweep does becomes visible: its heartbeat, its metrics, its log and its record.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::reaper::daemon::Desk;
use crate::reaper::record::SweepRecord;
use crate::reaper::sweeping::{Assignment, Watcher};
use crate::signals::Stop;
use crate::telemetry::heartbeat::{Heartbeat, Pulse};
use crate::telemetry::log;
use crate::telemetry::metrics::Metrics;

/// What every root tells to.
#[derive(Debug, Clone)]
pub(crate) struct Telemetry {
    /// Which sweeps run, and whether they make progress.
    pub(crate) heartbeat: Heartbeat,
    /// The numbers.
    pub(crate) metrics: Metrics,
    /// Whether somebody asked to stop.
    pub(crate) stop: Stop,
}

/// Where the records of sweeps are kept.
pub(crate) struct Keeper {}

impl Keeper {
    pub(crate) fn new(_: &crate::config::Config, _: &std::path::Path) -> Self {
        Self {}
    }

    fn keep(&self, _: &SweepRecord) {}
}

/// The desk of one root.
pub(crate) struct RootDesk<'d> {
    assignment: &'d Assignment,
    telemetry: &'d Telemetry,
    keep: &'d Keeper,
    pulse: Mutex<Option<Pulse>>,
}

impl<'d> RootDesk<'d> {
    /// A desk at which nothing runs.
    pub(crate) fn new(assignment: &'d Assignment, telemetry: &'d Telemetry, keep: &'d Keeper) -> Self {
        Self { assignment, telemetry, keep, pulse: Mutex::new(None) }
    }

    fn pulse(&self) -> MutexGuard<'_, Option<Pulse>> {
        // It is there or it is not, whatever panicked.
        self.pulse.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watcher for RootDesk<'_> {
    fn tell(&self, text: &str) {
        log::remark(&self.assignment.name, text);
    }

    fn progress(&self) {
        if let Some(pulse) = self.pulse().as_ref() {
            pulse.progress();
        }
    }

    fn cancelled(&self) -> bool {
        self.telemetry.stop.asked()
    }

    fn reread(&self, took: Duration) {
        self.telemetry.metrics.reread(&self.assignment.name, took);
    }

    fn window(&self, took: Duration) {
        self.telemetry.metrics.recheck_to_fence(&self.assignment.name, took);
    }
}

impl Desk for RootDesk<'_> {
    fn began(&self) {
        *self.pulse() = Some(self.telemetry.heartbeat.begin(&self.assignment.name));
        self.telemetry.metrics.armed(&self.assignment.name, self.assignment.mode);
    }

    fn ended(&self, record: &SweepRecord) {
        log::sweep_began(record.into(), &record.path);
        for directory in &record.directories {
            log::directory(record.into(), directory);
        }
        log::sweep_ended(record);
        self.telemetry.metrics.record(record);
        self.keep.keep(record);
        *self.pulse() = None;
    }

    fn skipped(&self, ticks: u64, ran: Duration) {
        log::skipped_tick(&self.assignment.name, ran);
        (0..ticks).for_each(|_| self.telemetry.metrics.skipped_tick(&self.assignment.name));
    }

    fn standing_by(&self, leader: &str) {
        log::remark(&self.assignment.name, &format!("standing by: {leader} sweeps this root"));
    }
}
