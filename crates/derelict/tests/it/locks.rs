//! A creator's lock is respected, and two prunes at once do what one would.

use derelict_testkit::Cache;
use derelict_testkit::Snapshot;
use derelict_testkit::devlaunch::REPOSITORY;
use derelict_testkit::guards::Flock;
use derelict_testkit::records::keys;
use derelict_testkit::scratch::{exists, mkdir};

use crate::support::{Report, derelict, prune, prune_json};

#[test]
fn a_launch_that_holds_its_lock_keeps_its_clone_busy() {
    let mut cache = Cache::small();
    let clone = cache.clean("a");
    cache.clean("b");
    let before = Snapshot::of(&clone);
    let launch = Flock::file(&cache.launch_lock("a"));
    let report = prune_json(&cache, &["-y"], 1);
    assert_eq!((report.fate("a"), report.fate("b")), ("busy".into(), "removed".into()));
    assert!(report.0["result"].to_string().contains("launch-locks/a.lock"), "{:#}", report.0);
    before.assert_unchanged();
    assert_eq!(keys(&cache.metadata()), ["acme/w/b/a"]);

    drop(launch);
    prune(&cache, &["-y"]).expect_code(0);
    assert_eq!(cache.leaves(REPOSITORY), [""; 0]);
    assert!(exists(cache.launch_lock("a")), "the lock file was devlaunch's");
}

#[test]
fn a_repository_that_is_locked_keeps_all_its_clones_busy() {
    let mut cache = Cache::small();
    cache.add_repository("acme/other", 1);
    cache.add_clone("acme/other", "o", "o");
    cache.clean("a");
    let held = Flock::file(&cache.repository(REPOSITORY).join(".lock"));
    let report = prune_json(&cache, &["-y"], 1);
    assert_eq!((report.fate("a"), report.fate("o")), ("busy".into(), "removed".into()));
    drop(held);
    prune(&cache, &["-y"]).expect_code(0);
    assert_eq!(cache.leaves(REPOSITORY), [""; 0]);
}

#[test]
fn no_lock_file_of_ours_is_left_behind() {
    let mut cache = Cache::small();
    cache.clean("a");
    mkdir(cache.dir().join("launch-locks"));
    prune(&cache, &["-y"]).expect_code(0);
    let locks = std::fs::read_dir(cache.dir().join("launch-locks")).expect("because it was there");
    assert_eq!(locks.count(), 0);
    assert!(exists(cache.repository(REPOSITORY).join(".lock")));
}

#[test]
fn a_busy_clone_does_not_starve_the_others() {
    let mut cache = Cache::small();
    for id in ["a", "b", "c"] {
        cache.clean(id);
    }
    let _launch = Flock::file(&cache.launch_lock("b"));
    prune(&cache, &["-y"]).expect_code(1);
    assert_eq!(cache.leaves(REPOSITORY), ["b"]);
}

#[test]
fn two_prunes_that_both_asked_before_either_acted_remove_each_clone_once() {
    let mut cache = Cache::small();
    let ids = ["a", "b", "c", "d", "e"];
    ids.iter().for_each(|id| drop(cache.clean(id)));
    let dirty = cache.dirty("dirty");
    let before = Snapshot::of(&dirty);
    let mut sessions = [1, 2].map(|_| derelict(&cache, &["prune"]).on_terminal());
    sessions.iter_mut().for_each(|session| session.wait_for("[y/N]"));
    sessions.iter_mut().for_each(|session| session.answer("y"));
    for session in sessions {
        let finished = session.finish();
        assert!(matches!(finished.code(), 0 | 1 | 3), "{finished}");
        assert!(!finished.stderr.contains("panicked"), "{finished}");
    }
    assert_eq!(cache.all_leaves(REPOSITORY), [".bare", ".lock", "dirty"]);
    assert_eq!(keys(&cache.metadata()), ["acme/w/b/dirty"]);
    before.assert_unchanged();
    prune(&cache, &["-y"]).expect_code(0).expect_stdout("Nothing to prune.");
}

#[test]
fn two_prunes_at_once_account_for_each_clone_once() {
    let mut cache = Cache::small();
    let ids = ["a", "b", "c", "d", "e"];
    ids.iter().for_each(|id| drop(cache.clean(id)));
    let both = [1, 2].map(|_| derelict(&cache, &["prune", "-y", "--json"]).start());
    let finished = both.map(derelict_testkit::run::Running::finish);
    let removed: usize = finished
        .iter()
        .filter(|finished| finished.json()["result"].is_object())
        .map(|finished| Report(finished.json()).fates().into_values().filter(|fate| fate == "removed").count())
        .sum();
    assert_eq!(removed, ids.len(), "{} {}", finished[0], finished[1]);
    assert_eq!(cache.all_leaves(REPOSITORY), [".bare", ".lock"]);
    assert_eq!(keys(&cache.metadata()), [""; 0]);
}
