//! The circuit breakers: each trips on what it is for, and not a step earlier.

use std::time::Duration;

use derelict_core::evidence::{ClaimedPath, Lease, Observed};
use derelict_core::ids::{FileIdentity, Timestamp};
use derelict_core::outcome::Breaker;
use derelict_core::plan::Judged;
use derelict_core::record::LastSweep;
use derelict_core::survey::{Sighting, breakers, judge_all, referenced, source_clock};

use crate::support::{NOW, POLICY, Parts, claim, clean, judged};

const ROOT: FileIdentity = FileIdentity { dev: 1, ino: 2, birth: None };

fn last() -> LastSweep {
    LastSweep { at: NOW, root: ROOT, owners: 10, referenced: 10 }
}

fn live(count: usize) -> Vec<Judged> {
    let parts = || Parts { claims: Observed::Known(vec![claim(ClaimedPath::Here, Lease::Standing)]), ..clean() };
    (0..count).map(|n| judged(&format!("live{n}"), 1, parts())).collect()
}

#[test]
fn an_owner_source_that_lists_nobody_trips() {
    let one = [judged("w", 1, clean())];
    assert_eq!(breakers(&one, Some(0), ROOT, None, NOW), [Breaker::EmptySource { candidates: 1 }]);
    assert_eq!(breakers(&one, Some(1), ROOT, None, NOW), []);
    assert_eq!(breakers(&[], Some(0), ROOT, None, NOW), [], "nobody lives here, and nothing is here");
    assert_eq!(breakers(&one, None, ROOT, Some(&last()), NOW), [Breaker::MassOrphaning { before: 10, now: 0 }]);
    let never_owned = LastSweep { owners: 0, referenced: 0, ..last() };
    assert_eq!(breakers(&one, None, ROOT, Some(&never_owned), NOW), [], "nobody is asked, as declared");
}

#[test]
fn a_source_that_lost_most_of_its_owners_trips_and_half_of_them_is_not_most() {
    let trips = |owners| breakers(&live(10), Some(owners), ROOT, Some(&last()), NOW);
    assert_eq!(trips(5), []);
    assert_eq!(trips(4), [Breaker::SourceShrank { before: 10, now: 4 }]);
    let of = |before, now| breakers(&live(10), Some(now), ROOT, Some(&LastSweep { owners: before, ..last() }), NOW);
    assert_eq!(of(3, 1), [], "three are too few to speak of most");
    assert_eq!(of(4, 1), [Breaker::SourceShrank { before: 4, now: 1 }]);
    assert_eq!(of(5, 2), [Breaker::SourceShrank { before: 5, now: 2 }], "two of five is less than half");
    assert_eq!(of(5, 3), []);
}

#[test]
fn directories_that_turned_orphan_all_at_once_trip() {
    assert_eq!(breakers(&live(5), Some(10), ROOT, Some(&last()), NOW), []);
    assert_eq!(breakers(&live(4), Some(10), ROOT, Some(&last()), NOW), [Breaker::MassOrphaning { before: 10, now: 4 }]);
    assert_eq!(referenced(&live(4)), 4);
    assert_eq!(referenced(&[judged("w", 1, clean())]), 0);
}

#[test]
fn a_last_sweep_in_the_future_trips_beyond_the_tolerance() {
    let at = |at: Timestamp| breakers(&live(10), Some(10), ROOT, Some(&LastSweep { at, ..last() }), NOW);
    let tolerated = NOW.after(Duration::from_secs(300));
    assert_eq!(at(tolerated), []);
    let beyond = tolerated.after(Duration::from_nanos(1));
    assert_eq!(at(beyond), [Breaker::ClockStepped { last: beyond, now: NOW }]);
}

#[test]
fn another_root_than_last_time_trips() {
    let other = FileIdentity { dev: 9, ..ROOT };
    assert_eq!(breakers(&live(10), Some(10), other, Some(&last()), NOW), [Breaker::RootReplaced]);
}

#[test]
fn every_breaker_has_the_name_it_is_acknowledged_by() {
    let all = [
        Breaker::EmptySource { candidates: 1 },
        Breaker::SourceShrank { before: 2, now: 1 },
        Breaker::MassOrphaning { before: 2, now: 1 },
        Breaker::ClockStepped { last: NOW, now: NOW },
        Breaker::RootReplaced,
    ];
    let names = all.map(|breaker| breaker.name());
    assert_eq!(names, ["empty-source", "source-shrank", "mass-orphaning", "clock-stepped", "root-replaced"]);
}

#[test]
fn every_sighting_is_judged_by_the_same_policy_at_the_same_instant() {
    let seen: Vec<Judged> = live(1).into_iter().chain([judged("w", 3, clean())]).collect();
    let sightings = seen.iter().map(|judged| Sighting {
        candidate: judged.candidate.clone(),
        evidence: judged.evidence.clone(),
        size: judged.size.clone(),
    });
    assert_eq!(judge_all(sightings.collect(), &POLICY, NOW), seen);
}

#[test]
fn a_source_whose_clock_is_minutes_away_trips() {
    let away = |seconds| Duration::from_secs(seconds);
    assert_eq!(source_clock(NOW.after(away(300)), NOW), None);
    assert_eq!(source_clock(NOW.before(away(300)), NOW), None);
    for source in [NOW.after(away(301)), NOW.before(away(301))] {
        assert_eq!(source_clock(source, NOW), Some(Breaker::SourceClock { source, here: NOW }));
    }
}
