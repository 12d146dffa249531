//! Which directories an argument names, and what becomes of one that names none: a one-line error, the exit
//! code of a usage error, nothing changed.

use derelict_testkit::devlaunch::REPOSITORY;
use derelict_testkit::scratch::{symlink, write};
use derelict_testkit::{Cache, Snapshot};

use crate::support::{derelict, everything, prune};

fn two() -> Cache {
    let mut cache = Cache::small();
    cache.clean("a");
    cache.clean("b");
    cache
}

#[test]
fn the_path_of_a_cache_names_all_of_it() {
    for below in ["", "repos"] {
        let cache = two();
        let path = cache.dir().join(below).display().to_string();
        let run = derelict(&cache, &["prune", "-y", &path]).env("XDG_CACHE_HOME", "/nonexistent");
        run.finish().expect_code(0);
        assert_eq!(cache.leaves(REPOSITORY), [""; 0]);
    }
}

#[test]
fn the_path_of_a_cache_may_be_relative_or_a_symlink() {
    let cache = two();
    symlink(cache.dir(), cache.elsewhere().join("link"));
    let run = derelict(&cache, &["prune", "-n", "elsewhere/../cache/devlaunch"]).current_dir(cache.root());
    run.finish().expect_code(0).expect_stdout("acme/w/a");
    let run = derelict(&cache, &["prune", "-y", "link"]).current_dir(cache.elsewhere());
    run.finish().expect_code(0);
    assert_eq!(cache.leaves(REPOSITORY), [""; 0]);
}

#[test]
fn the_path_of_a_clone_names_that_clone_only() {
    let cache = two();
    let path = cache.path_of("a").display().to_string();
    prune(&cache, &["-y", &path]).expect_code(0);
    assert_eq!(cache.leaves(REPOSITORY), ["b"]);
}

#[test]
fn the_name_of_a_workspace_names_its_clone_only() {
    let cache = two();
    prune(&cache, &["-y", "b"]).expect_code(0);
    assert_eq!(cache.leaves(REPOSITORY), ["a"]);
}

#[test]
fn a_named_clone_that_may_not_go_stays() {
    let mut cache = two();
    cache.dirty("d");
    cache.live("l");
    for name in ["d", "l"] {
        prune(&cache, &["-y", name]).expect_code(0).expect_stdout("Nothing to prune.");
    }
    assert_eq!(cache.leaves(REPOSITORY), ["a", "b", "d", "l"]);
}

#[test]
fn an_argument_that_names_nothing_is_an_error_of_one_line() {
    let cache = two();
    write(cache.elsewhere().join("file"), "x");
    let before = everything(&cache);
    let elsewhere = cache.elsewhere().display().to_string();
    let file = cache.elsewhere().join("file").display().to_string();
    let bare = cache.path_of(".bare").display().to_string();
    for argument in ["/no/such/place", "no-such-name", &elsewhere, &file, &bare, "/"] {
        let finished = prune(&cache, &["-y", argument]);
        finished.expect_code(2).expect_stderr("error: ").expect_stderr(argument);
        assert_eq!(finished.stderr.trim_end().lines().count(), 1, "{finished}");
        let json = prune(&cache, &["-y", "--json", argument]);
        assert_eq!(
            (json.expect_code(2).json()["exit_code"].as_i64(), json.json()["error"].is_string()),
            (Some(2), true)
        );
    }
    before.assert_same(&everything(&cache));
}

#[test]
fn wrong_usage_changes_nothing() {
    let cache = two();
    let before = everything(&cache);
    let usages: [&[&str]; 9] = [
        &["prune", "-y", ""],
        &["prune", "--frobnicate"],
        &["prune", "-y", "--max-removals", "many"],
        &["prune", "-y", "--max-removals", "-1"],
        &["prune", "-y", "--max-bytes", "lots"],
        &["prune", "-y", "--color", "sometimes"],
        &["prune", "-y", "a", "b"],
        &["frobnicate"],
        &[],
    ];
    for usage in usages {
        let finished = derelict(&cache, usage).finish();
        finished.expect_code(2);
        assert_ne!(finished.stderr, "", "{usage:?}");
    }
    before.assert_same(&everything(&cache));
    assert_eq!(cache.devpod_calls(), [""; 0]);
}

#[test]
fn yes_and_dry_run_together_remove_nothing() {
    let cache = two();
    let before = Snapshot::of(cache.root().join("cache"));
    let finished = prune(&cache, &["-y", "-n"]);
    assert!(matches!(finished.code(), 0 | 2), "{finished}");
    before.assert_unchanged();
}

#[test]
fn help_and_version_are_printed() {
    let cache = two();
    for usage in [&["--help"][..], &["prune", "--help"], &["explain", "--help"], &["demo", "--help"], &["--version"]] {
        derelict(&cache, usage).finish().expect_code(0).expect_stdout("derelict");
    }
    assert_eq!(cache.devpod_calls(), [""; 0]);
}
