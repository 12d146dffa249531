//! Sweeps for the tests of the record and of the stores. Nothing here is part of the product.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use derelict_core::ids::{Digest, Timestamp};
use derelict_core::outcome::{Discarded, FateName};

use crate::reaper::record::{Amount, DirectoryRecord, Mode, Stop, SweepRecord};

/// The day on which the sample with number 0 began, in seconds since 1970.
pub(crate) const FIRST: i64 = 1_764_547_200;

/// Seconds between two samples.
pub(crate) const APART: i64 = 3_600;

/// When the sample with this number began.
pub(crate) fn began(number: i64) -> Timestamp {
    Timestamp::new(FIRST + number * APART, 500)
}

/// The id of the sample with this number.
pub(crate) fn id(number: i64) -> String {
    let at = jiff::Timestamp::from_second(FIRST + number * APART).expect("because samples lie in our century");
    format!("{}-{number:08x}", at.strftime("%Y%m%dT%H%M%SZ"))
}

/// A directory that ended so, with odd values where a store could lose something.
pub(crate) fn directory(name: &[u8], fate: FateName) -> DirectoryRecord {
    DirectoryRecord {
        path: PathBuf::from("/srv/ws").join(OsStr::from_bytes(name)),
        fate,
        why: format!("{}: \"quoted\"\n\u{1b}[31m 日本", fate.as_str()),
        evidence: Digest::of_bytes(name),
        last_used: Some(Timestamp::new(FIRST, 999_999_999)),
        touched: Some(Timestamp::new(-1, 1)),
        entries: 12,
        bytes: u64::MAX,
        intent: None,
        proof: None,
    }
}

/// An armed sweep of the root `agents` with these directories.
pub(crate) fn sweep(number: i64, directories: Vec<DirectoryRecord>) -> SweepRecord {
    SweepRecord {
        id: id(number),
        root: "agents".into(),
        path: "/srv/ws".into(),
        mode: Mode::Armed,
        began: began(number),
        ended: Timestamp::new(FIRST + number * APART + 7, 0),
        cutoff: Timestamp::new(FIRST - 30 * 86_400, 1),
        plan: Some(Digest::of_bytes(b"plan")),
        stop: Stop { name: "finished".into(), which: None, why: None },
        backlog: Amount { directories: 2, entries: 24, bytes: 4096 },
        discarded: Discarded { entries: 12, bytes: 2048 },
        measured_bytes: Some(-5),
        directories,
    }
}

/// Three sweeps in which everything there is occurs: every fate, another root, an early end, bytes that are no text.
pub(crate) fn three() -> [SweepRecord; 3] {
    let mut all: Vec<_> = FateName::ALL.into_iter().map(|fate| directory(fate.as_str().as_bytes(), fate)).collect();
    all[13].intent = Some(u64::MAX);
    let mut odd = directory(b"a\xff\n\"", FateName::Removed);
    (odd.last_used, odd.touched, odd.bytes) = (None, None, 0);
    odd.proof = Some(r#"[{"channel":"untracked","items":["new: \u0000\""]}]"#.into());
    let other = SweepRecord {
        root: "odd \"root\"".into(),
        path: PathBuf::from(OsStr::from_bytes(b"/srv/\xfe")),
        mode: Mode::Report,
        plan: None,
        stop: Stop { name: "breaker".into(), which: Some("empty-source".into()), why: Some("nobody\nat all".into()) },
        measured_bytes: None,
        ..sweep(1, Vec::new())
    };
    [sweep(0, vec![odd, directory(b"kept", FateName::Referenced)]), other, sweep(2, all)]
}

/// A sweep of so many directories.
pub(crate) fn many(number: i64, directories: usize) -> SweepRecord {
    let one = |n: usize| DirectoryRecord {
        path: PathBuf::from(format!("/srv/ws/3f2b6c1e-0000-4000-8000-{n:012x}")),
        why: "kept: agents-db: 3f2b6c1e opens it, last used 2026-11-30 10:11:12 UTC".into(),
        ..directory(b"x", if n.is_multiple_of(2) { FateName::Referenced } else { FateName::Removable })
    };
    sweep(number, (0..directories).map(one).collect())
}
