//! For the tests of this module: a clock that stands still until it is told to go on, and sweeps that never were.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use derelict_core::ids::{Digest, Timestamp};
use derelict_core::outcome::{Discarded, FateName};

use crate::reaper::record::{Amount, DirectoryRecord, Mode, Stop, SweepRecord};
use crate::telemetry::heartbeat::Heartbeat;

/// A clock whose time passes by command only.
pub(super) struct Clock(Arc<AtomicU64>);

impl Clock {
    pub(super) fn new() -> Self {
        Self(Arc::new(AtomicU64::new(0)))
    }

    pub(super) fn reader(&self) -> impl Fn() -> Duration + Send + Sync + 'static {
        let milliseconds = Arc::clone(&self.0);
        move || Duration::from_millis(milliseconds.load(Ordering::SeqCst))
    }

    pub(super) fn pass(&self, time: Duration) {
        let milliseconds = u64::try_from(time.as_millis()).expect("because tests do not take that long");
        self.0.fetch_add(milliseconds, Ordering::SeqCst);
    }
}

/// A heartbeat of which nothing is expected.
pub(super) fn still() -> Heartbeat {
    Heartbeat::new(Clock::new().reader())
}

/// 2026-12-01 02:46:07 UTC.
pub(super) const BEGAN: i64 = 1_796_093_167;

/// A sweep of `root` that ended for `stop` after 90 seconds, with one directory for each of `fates`.
pub(super) fn sweep(root: &str, mode: Mode, stop: &str, fates: &[FateName]) -> SweepRecord {
    SweepRecord {
        id: "20261201T024607Z-1a2b3c4d".into(),
        root: root.into(),
        path: PathBuf::from("/srv/workspaces"),
        mode,
        began: Timestamp::new(BEGAN, 0),
        ended: Timestamp::new(BEGAN + 90, 500_000_000),
        cutoff: Timestamp::new(BEGAN - 30 * 86_400, 0),
        plan: Some(Digest::of_bytes(b"plan")),
        stop: Stop { name: stop.into(), which: None, why: None },
        backlog: Amount { directories: 7, entries: 700, bytes: 7 << 30 },
        discarded: Discarded { entries: 40, bytes: 4096 },
        measured_bytes: Some(4096),
        directories: fates.iter().map(|fate| directory("/srv/workspaces/w", *fate)).collect(),
    }
}

/// A directory that ended as `fate`.
pub(super) fn directory(path: &str, fate: FateName) -> DirectoryRecord {
    DirectoryRecord {
        path: PathBuf::from(path),
        fate,
        why: "rows: w was last used 2026-10-01 00:00:00 UTC".into(),
        evidence: Digest::of_bytes(b"evidence"),
        last_used: Some(Timestamp::new(1_790_812_800, 0)),
        touched: Some(Timestamp::new(1_790_726_400, 0)),
        entries: 100,
        bytes: 1 << 20,
        intent: Some(7),
        proof: None,
    }
}
