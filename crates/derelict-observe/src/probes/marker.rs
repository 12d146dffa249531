//! The `.derelict-keep` marker: a word by a person, in the directory itself, that it is to stay.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

use derelict_core::evidence::Holder;
use derelict_core::ids::Timestamp;

use crate::files::{self, Symlinks};

/// The marker's name.
pub(crate) const NAME: &str = ".derelict-keep";

/// How much of a marker is read: a reason and a date.
const BYTES: u64 = 4096;

/// A day is over everywhere on earth this many seconds after its midnight in UTC: one day, and the
/// twelve hours by which the last time zone lags behind.
const DAY_OVER_SECONDS: i64 = 36 * 3600;

/// The hold of a marker, if there is one that has not run out. A marker that cannot be read or
/// understood holds: somebody put it there.
pub(crate) fn hold(dir: BorrowedFd<'_>, now: Timestamp) -> Option<Holder> {
    match files::read_at(dir, Path::new(NAME), BYTES, Symlinks::Refuse) {
        Ok(content) => parse(&content, now).map(Holder::Marker),
        Err(error) if files::is_absent(&error) => None,
        Err(error) => Some(Holder::Marker(unreadable(&error))),
    }
}

fn unreadable(error: &io::Error) -> String {
    format!("{NAME} cannot be read: {error}")
}

fn parse(content: &[u8], now: Timestamp) -> Option<String> {
    let content = String::from_utf8_lossy(content);
    let (mut reason, mut dates, mut over) = (None, 0, 0);
    for line in content.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        match (key.trim(), value.trim()) {
            ("reason", text) if !text.is_empty() => reason = Some(text.to_owned()),
            ("until", date) => {
                dates += 1;
                over += u32::from(is_over(date, now));
            }
            (_, _) => {}
        }
    }
    // Of several dates the last one counts; one that cannot be read never passes.
    if dates > 0 && dates == over {
        return None;
    }
    Some(reason.unwrap_or_else(|| format!("{NAME} gives no reason")))
}

fn is_over(date: &str, now: Timestamp) -> bool {
    let midnight = date.parse().and_then(|date: jiff::civil::Date| date.to_zoned(jiff::tz::TimeZone::UTC));
    midnight.is_ok_and(|midnight| now.seconds() >= midnight.timestamp().as_second().saturating_add(DAY_OVER_SECONDS))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests build what is looked at")]
mod tests {
    use super::*;
    use std::os::fd::AsFd as _;

    /// 2026-08-02 at 12:00 UTC: the first of August has just ended everywhere.
    const NOW: Timestamp = Timestamp::new(1_785_672_000, 0);

    #[test]
    fn a_marker_holds_until_its_day_is_over_everywhere() {
        let held = |content: &str| parse(content.as_bytes(), NOW);
        assert_eq!(held("reason: demo on friday\n"), Some("demo on friday".into()));
        assert_eq!(held(""), Some(".derelict-keep gives no reason".into()));
        assert_eq!(held("reason: x\nuntil: 2026-08-01\n"), None);
        assert_eq!(held("until: 2026-08-02\nreason: x"), Some("x".into()));
        assert_eq!(parse(b"until: 2026-08-01", NOW.before(std::time::Duration::from_secs(1))), held(""));
    }

    #[test]
    fn a_marker_that_is_not_understood_holds() {
        for content in [&b"until: soon"[..], b"until: 2026-13-40", b"until:", b"\xff\xfe", b"UNTIL 2020-01-01"] {
            assert!(parse(content, NOW).is_some(), "{content:?}");
        }
    }

    #[test]
    fn a_marker_that_cannot_be_read_holds_and_none_does_not() {
        let world = tempfile::tempdir().expect("because a temporary directory can be made");
        let dir = std::fs::File::open(world.path()).unwrap();
        assert_eq!(hold(dir.as_fd(), NOW), None);
        std::os::unix::fs::symlink("nowhere", world.path().join(NAME)).unwrap();
        assert!(
            matches!(hold(dir.as_fd(), NOW), Some(Holder::Marker(why)) if why.starts_with(".derelict-keep cannot be read"))
        );
        std::fs::remove_file(world.path().join(NAME)).unwrap();
        std::fs::write(world.path().join(NAME), "reason: mine\n").unwrap();
        assert_eq!(hold(dir.as_fd(), NOW), Some(Holder::Marker("mine".into())));
    }
}
