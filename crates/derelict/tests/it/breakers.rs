//! What looks like mass abandonment is more often a broken source: nothing is removed until an operator
//! says it is meant.

use derelict_testkit::devlaunch::REPOSITORY;
use derelict_testkit::{Cache, Snapshot};

use crate::support::{derelict, prune, prune_json};

/// A cache whose owners were all there at the last sweep that acted.
fn remembered() -> Cache {
    let mut cache = Cache::small();
    for id in ["l1", "l2", "l3", "l4"] {
        cache.live(id);
    }
    cache.clean("c1");
    prune(&cache, &["-y"]).expect_code(0);
    assert_eq!(cache.leaves(REPOSITORY), ["l1", "l2", "l3", "l4"]);
    cache
}

#[test]
fn an_empty_source_stops_the_sweep_and_can_be_acknowledged() {
    let mut cache = Cache::small();
    cache.clean("c");
    cache.remove_living("other");
    let before = Snapshot::of(cache.dir());
    let report = prune_json(&cache, &["-y"], 3);
    assert_eq!(report.0["breakers"][0]["name"], "empty-source");
    assert_eq!(report.0["breakers"][0]["acknowledged"], false);
    before.assert_unchanged();

    let report = prune_json(&cache, &["-y", "--acknowledge", "empty-source"], 0);
    assert_eq!((report.stop(), report.fate("c")), ("finished".into(), "removed".into()));
    assert_eq!(report.0["breakers"][0]["acknowledged"], true);
}

#[test]
fn a_source_that_lost_most_of_its_owners_stops_the_sweep() {
    let mut cache = remembered();
    for id in ["l1", "l2", "l3"] {
        cache.remove_living(id);
    }
    let before = Snapshot::of(cache.dir());
    let report = prune_json(&cache, &["-y"], 3);
    let breakers = report.0["breakers"].to_string();
    assert!(breakers.contains("source-shrank") && breakers.contains("mass-orphaning"), "{breakers}");
    let one_only = prune_json(&cache, &["-y", "--acknowledge", "source-shrank"], 3);
    assert_eq!(
        one_only.0["result"]["settled"].as_array().map(|settled| settled.iter().any(|s| s["fate"] == "removed")),
        Some(false)
    );
    before.assert_unchanged();

    let both = ["-y", "--acknowledge", "source-shrank", "--acknowledge", "mass-orphaning"];
    let report = prune_json(&cache, &both, 0);
    assert_eq!(report.removals().len(), 3);
    assert_eq!(cache.leaves(REPOSITORY), ["l4"]);
}

#[test]
fn a_run_that_only_looked_is_not_remembered() {
    let mut cache = Cache::small();
    for id in ["l1", "l2", "l3", "l4"] {
        cache.live(id);
    }
    prune(&cache, &["--dry-run"]).expect_code(0);
    for id in ["l1", "l2", "l3"] {
        cache.remove_living(id);
    }
    prune(&cache, &["-y"]).expect_code(0);
    assert_eq!(cache.leaves(REPOSITORY), ["l4"]);
}

#[test]
fn an_unknown_breaker_cannot_be_acknowledged() {
    let mut cache = Cache::small();
    cache.clean("c");
    let before = Snapshot::of(cache.root().join("cache"));
    derelict(&cache, &["prune", "-y", "--acknowledge", "everything"])
        .finish()
        .expect_code(2)
        .expect_stderr("everything");
    before.assert_unchanged();
}

#[test]
fn a_second_listing_that_lost_everybody_stops_the_sweep_before_its_first_removal() {
    let mut cache = Cache::small();
    cache.live("l");
    cache.clean("c");
    cache.on_listing("if [ \"$CALL\" -gt 1 ]; then echo '[]'; exit 0; fi");
    let before = Snapshot::of(cache.repos());
    let report = prune_json(&cache, &["-y"], 3);
    assert_eq!((report.stop().as_str(), report.fate("c").as_str()), ("source_lost", "not_reached"));
    before.assert_unchanged();
}
