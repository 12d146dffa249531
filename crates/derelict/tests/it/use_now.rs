//! Who or what uses a clone now keeps it, and force does not step over that.

use derelict_testkit::devlaunch::REPOSITORY;
use derelict_testkit::git::shell;
use derelict_testkit::guards::{Flock, Idle};
use derelict_testkit::scratch::write;
use derelict_testkit::{Cache, Snapshot};

use crate::support::{prune, prune_json};

/// Prunes with force a cache of clones `a`, which something uses, and `b`; gives why `a` is held.
#[track_caller]
fn why_held<G>(hold: impl FnOnce(&Cache) -> G) -> (String, G) {
    let mut cache = Cache::small();
    let clone = cache.clean("a");
    cache.clean("b");
    let guard = hold(&cache);
    let before = Snapshot::of(&clone);
    let report = prune_json(&cache, &["-y", "--force"], 0);
    assert_eq!((report.verdict("a").as_str(), report.fate("b").as_str()), ("held", "removed"), "{:#}", report.0);
    before.assert_unchanged();
    assert_eq!(cache.leaves(REPOSITORY), ["a"]);
    (report.reasons("a"), guard)
}

#[test]
fn a_process_in_the_clone_keeps_it() {
    let (why, idle) = why_held(|cache| Idle::in_directory(&cache.path_of("a").join("src")));
    assert!(why.contains(&idle.pid().to_string()) && why.contains("cat"), "{why}");
}

#[test]
fn a_file_that_a_process_has_open_keeps_the_clone() {
    let (why, idle) = why_held(|cache| Idle::with_open_file(&cache.path_of("a").join(".pixi/envs/env.bin")));
    assert!(why.contains(&idle.pid().to_string()), "{why}");
}

#[test]
fn a_library_that_a_process_has_loaded_keeps_the_clone() {
    let (why, idle) = why_held(|cache| {
        let library = cache.path_of("a").join(".pixi/envs/libused.so");
        shell(cache.path_of("a"), "cp \"$(ldd /bin/cat | grep -o '/[^ ]*libc.so.6')\" .pixi/envs/libused.so", &[]);
        Idle::with_loaded_library(&library)
    });
    assert!(why.contains(&idle.pid().to_string()) && why.contains("mapped"), "{why}");
}

#[test]
fn a_mount_in_somebody_elses_mount_namespace_keeps_the_clone() {
    let (why, idle) = why_held(|cache| Idle::with_private_mount(&cache.path_of("a").join(".pixi/envs")));
    assert!(why.contains(&idle.pid().to_string()) && why.contains("mount"), "{why}");
}

#[test]
fn a_lock_on_the_directory_keeps_it() {
    let (why, _lock) = why_held(|cache| Flock::directory(&cache.path_of("a")));
    assert!(why.contains("lock"), "{why}");
}

#[test]
fn a_keep_marker_keeps_the_clone_and_its_reason_is_shown() {
    let (why, ()) = why_held(|cache| write(cache.path_of("a").join(".derelict-keep"), "reason: the demo on Friday\n"));
    assert!(why.contains("the demo on Friday"), "{why}");
}

#[test]
fn a_git_lock_file_keeps_the_clone() {
    let (why, ()) = why_held(|cache| write(cache.path_of("a").join(".git/index.lock"), ""));
    assert!(why.contains("index.lock"), "{why}");
}

#[test]
fn a_time_in_the_future_keeps_the_clone_because_some_clock_is_wrong() {
    let (why, ()) = why_held(|cache| shell(cache.path_of("a"), "touch -d 2099-01-01T00:00:00Z .", &[]));
    assert!(why.contains("2099"), "{why}");
}

#[test]
fn a_clone_goes_once_nobody_uses_it_any_more() {
    let mut cache = Cache::small();
    let clone = cache.clean("a");
    let idle = Idle::in_directory(&clone);
    prune(&cache, &["-y"]).expect_code(0);
    assert_eq!(cache.leaves(REPOSITORY), ["a"]);
    drop(idle);
    prune(&cache, &["-y"]).expect_code(0);
    assert_eq!(cache.leaves(REPOSITORY), [""; 0]);
}

#[test]
fn the_person_who_prunes_from_inside_a_clone_keeps_it() {
    let mut cache = Cache::small();
    let clone = cache.clean("a");
    let run = crate::support::derelict(&cache, &["prune", "-y"]).current_dir(&clone);
    run.finish().expect_code(0);
    assert_eq!(cache.leaves(REPOSITORY), ["a"]);
}
