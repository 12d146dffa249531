//! The protocol as it is: no interleaving of anybody with anybody breaks a promise, whoever is
//! killed and whenever the power fails. Each test says how much it explored.

use std::collections::BTreeMap;

use derelict_core::ids::Timestamp;
use derelict_core::record::Disposal;

use crate::owner::Kind;
use crate::state::{CreatorsLock, Journals, Scenario};

/// Who has no lock to share comes with a row, in a shell, or to move things about.
const LOCKLESS: [Kind; 3] = [Kind::Resumer, Kind::Visitor, Kind::Mover];

/// Explores a scenario that must hold, says how much that was, and tells which steps were taken.
fn holds(name: &str, scenario: &Scenario) -> BTreeMap<&'static str, usize> {
    let began = std::time::Instant::now();
    match scenario.explore() {
        Err(found) => panic!("{name}: a promise is broken\n{found}"),
        Ok((explored, runs)) => {
            println!(
                "{name}: {} states, {} steps, {:.1e} interleavings, {} ends; {runs} runs of the sweep, {} ms",
                explored.states,
                explored.steps,
                explored.interleavings,
                explored.ends,
                began.elapsed().as_millis()
            );
            explored.taken
        }
    }
}

/// A model in which nothing happens proves nothing: these steps must have been taken.
fn took(taken: &BTreeMap<&'static str, usize>, steps: &[&str]) {
    for step in steps {
        assert!(taken.contains_key(step), "nobody ever {step}");
    }
}

fn everywhere() -> Vec<(String, Scenario)> {
    let mut scenarios = Vec::new();
    for lock in [CreatorsLock::Shared, CreatorsLock::None] {
        let launcher = (lock == CreatorsLock::Shared).then_some(Kind::Launcher);
        for kind in launcher.into_iter().chain(LOCKLESS) {
            let scenario = Scenario { owners: vec![kind], lock, ..Scenario::calm() };
            scenarios.push((format!("{kind:?}, creators' lock {lock:?}"), scenario));
        }
    }
    scenarios
}

#[test]
fn a_directory_nobody_comes_back_to_is_removed_with_its_record_and_settled() {
    let taken = holds("nobody", &Scenario::calm());
    took(&taken, &["unlinks an entry", "drops the record", "writes down how it ended", "reports"]);
    holds("nobody, two directories", &Scenario { dirs: 2, ..Scenario::calm() });
}

#[test]
fn whoever_comes_back_at_any_moment_loses_nothing_though_the_reaper_is_killed_twice_and_something_fails() {
    for (name, calm) in everywhere() {
        let taken = holds(&name, &Scenario { kills: 2, faults: 2, ..calm.clone() });
        took(&taken, &["unlinks an entry", "puts it back", "finds it fenced", "finds that its discarding had begun"]);
        took(&taken, &["is refused the rename", "meets an entry that will not go", "cannot write how it ended"]);
        if calm.owners != [Kind::Mover] && calm.owners != [Kind::Launcher] {
            took(&taken, &["puts the directory back, if its name is free", "makes that durable"]);
        }
    }
}

#[test]
fn a_loss_of_power_undoes_nothing_that_was_relied_on() {
    for (name, calm) in everywhere() {
        let taken = holds(&name, &Scenario { kills: 1, power_cuts: 1, faults: 1, ..calm.clone() });
        took(&taken, &["loses power", "is killed", "puts it back"]);
    }
}

#[test]
fn two_reapers_with_a_journal_each_never_take_from_each_other_or_from_the_owner() {
    for (name, calm) in everywhere() {
        let scenario = Scenario { reapers: 2, kills: 2, ..calm };
        holds(&format!("{name}, two reapers apart"), &scenario);
    }
}

#[test]
fn two_reapers_with_one_journal_take_turns() {
    for (name, calm) in everywhere() {
        let scenario = Scenario { reapers: 2, journals: Journals::Shared, kills: 1, faults: 1, ..calm };
        holds(&format!("{name}, two reapers with one journal"), &scenario);
    }
}

#[test]
fn two_owners_at_once_lose_nothing() {
    for (first, second) in
        [(Kind::Launcher, Kind::Visitor), (Kind::Launcher, Kind::Resumer), (Kind::Resumer, Kind::Visitor)]
    {
        let scenario = Scenario { owners: vec![first, second], kills: 2, faults: 1, ..Scenario::calm() };
        holds(&format!("{first:?} and {second:?}"), &scenario);
        let scenario = Scenario { reapers: 2, kills: 0, faults: 0, ..scenario };
        holds(&format!("{first:?} and {second:?}, two reapers"), &scenario);
    }
}

#[test]
fn force_takes_the_work_that_was_shown_and_no_other() {
    for kind in [Kind::Launcher, Kind::Resumer, Kind::Visitor] {
        let scenario = Scenario { owners: vec![kind], work: 1, kills: 1, faults: 1, ..Scenario::calm() };
        let taken = holds(&format!("{kind:?}, forced"), &scenario);
        took(&taken, &["unlinks an entry"]);
    }
}

#[test]
fn every_directory_of_a_sweep_has_one_fate_though_it_stops_in_the_middle() {
    let scenario = Scenario { dirs: 2, owners: vec![Kind::Resumer], kills: 1, faults: 1, ..Scenario::calm() };
    let taken = holds("two directories", &scenario);
    took(&taken, &["loses the source of owners", "cannot write its intent", "reports"]);
}

#[test]
fn what_is_set_aside_is_whole_and_known_to_its_journal_whoever_comes_and_whoever_is_killed() {
    for (name, calm) in everywhere() {
        let disposal = Disposal::Quarantine { until: Timestamp::new(2_000_000, 0) };
        let calm = Scenario { disposal, ..calm };
        let killed = holds(&format!("{name}, set aside"), &Scenario { kills: 2, faults: 2, ..calm.clone() });
        took(&killed, &["makes durable that it is set aside", "puts it back"]);
        holds(&format!("{name}, set aside, power"), &Scenario { kills: 1, power_cuts: 1, faults: 1, ..calm });
    }
}

/// With a grace that outlasts the delay of its recording, nothing of an owner on another host is lost.
#[test]
fn an_owner_on_another_host_loses_nothing_to_a_quarantine() {
    let disposal = Disposal::Quarantine { until: Timestamp::new(2_000_000, 0) };
    let remote = Scenario { disposal, owners: vec![Kind::Remote], lock: CreatorsLock::None, ..Scenario::calm() };
    holds("an owner on another host, set aside", &Scenario { kills: 1, ..remote });
}
