//! Where what a sweep does becomes visible: its heartbeat, its metrics, its log and its record.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use derelict_core::ids::Timestamp;
use derelict_reclaim::journal::Journal;

use crate::ledger::book::{Book, Shelf};
use crate::reaper::daemon::Desk;
use crate::reaper::record::{Mode, SweepRecord};
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

/// Where the records of sweeps are kept, for all roots.
pub(crate) struct Keeper {
    book: Mutex<Book>,
    retention: Duration,
}

impl Keeper {
    /// Keeps sweeps in the record and on the shelf in `state`, for so long.
    pub(crate) fn new(state: &Path, shelf: Shelf, retention: Duration) -> Self {
        Self { book: Mutex::new(Book::new(state, shelf)), retention }
    }

    /// Brings the store up to the record, and says what is wrong with either.
    pub(crate) fn catch_up(&self) -> Vec<String> {
        self.book().catch_up()
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // A panic while it was written leaves a torn end, which every reader knows.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a record, and forgets what is too old. What cannot be kept is told, and never stops a sweep.
    fn keep(&self, record: &SweepRecord) -> Vec<String> {
        let mut book = self.book();
        let mut troubles = book.record(record);
        troubles.extend(book.forget_before(record.began.before(self.retention)));
        troubles
    }
}

/// The desk of one root.
pub(crate) struct RootDesk<'d> {
    assignment: &'d Assignment,
    telemetry: &'d Telemetry,
    keeper: &'d Keeper,
    pulse: Mutex<Option<Pulse>>,
}

impl<'d> RootDesk<'d> {
    /// A desk at which nothing runs.
    pub(crate) fn new(assignment: &'d Assignment, telemetry: &'d Telemetry, keeper: &'d Keeper) -> Self {
        Self { assignment, telemetry, keeper, pulse: Mutex::new(None) }
    }

    /// From here on the next sweep has nothing to tell of this one. A journal that cannot be written makes it tell twice.
    fn note_recorded(&self) {
        let noted = Journal::open(&self.assignment.state).map_err(|error| error.to_string());
        let noted = noted.and_then(|mut journal| journal.note_recorded().map_err(|lost| lost.to_string()));
        if let Err(why) = noted {
            self.tell(&format!("the next sweep may tell again what went in this one: {why}"));
        }
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

    fn unlinked(&self, each: Duration) {
        self.telemetry.metrics.unlink(&self.assignment.name, each);
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
        let troubles = self.keeper.keep(record);
        troubles.iter().for_each(|trouble| self.tell(trouble));
        // Where nothing was looked at no journal was opened either.
        if troubles.is_empty() && record.mode == Mode::Armed && !record.directories.is_empty() {
            self.note_recorded();
        }
        *self.pulse() = None;
    }

    fn skipped(&self, ticks: u64, ran: Duration) {
        log::skipped_tick(&self.assignment.name, ran);
        (0..ticks).for_each(|_| self.telemetry.metrics.skipped_tick(&self.assignment.name));
    }

    fn last_swept_by_anybody(&self) -> Option<Timestamp> {
        self.keeper.book().last_swept_by_anybody(&self.assignment.name)
    }

    fn standing_by(&self, leader: &str) {
        log::remark(&self.assignment.name, &format!("standing by: {leader} sweeps this root"));
    }
}
