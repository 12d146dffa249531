//! Where things are is found by the rules that the owners of those places follow, and a terminal or a
//! setting that is missing is no excuse to guess.

use derelict_testkit::devlaunch::REPOSITORY;
use derelict_testkit::git::which;
use derelict_testkit::scratch::{exists, mkdir, rename, symlink, write};
use derelict_testkit::{Cache, Run, Snapshot};
use serde_json::json;

use crate::support::{derelict, everything};

fn one() -> Cache {
    let mut cache = Cache::small();
    cache.clean("a");
    cache
}

/// A cache whose place is the default one, below the home directory.
fn at_home() -> Cache {
    let cache = one();
    symlink("../cache", cache.root().join("home/.cache"));
    cache
}

#[test]
fn without_a_cache_home_the_cache_is_below_the_home_directory() {
    let unset = |run: Run| run.env_remove("XDG_CACHE_HOME");
    let empty = |run: Run| run.env("XDG_CACHE_HOME", "");
    let relative = |run: Run| run.env("XDG_CACHE_HOME", "some/where");
    for change in [&unset as &dyn Fn(Run) -> Run, &empty, &relative] {
        let cache = at_home();
        change(derelict(&cache, &["prune", "-y"])).finish().expect_code(0);
        assert_eq!(cache.leaves(REPOSITORY), [""; 0]);
    }
}

#[test]
fn without_a_state_home_the_journal_is_below_the_home_directory() {
    let unset = |run: Run| run.env_remove("XDG_STATE_HOME");
    let empty = |run: Run| run.env("XDG_STATE_HOME", "");
    let relative = |run: Run| run.env("XDG_STATE_HOME", "state");
    for change in [&unset as &dyn Fn(Run) -> Run, &empty, &relative] {
        let cache = one();
        change(derelict(&cache, &["prune", "-y"])).finish().expect_code(0);
        assert!(exists(cache.root().join("home/.local/state/derelict/journal.ndjson")));
        assert!(!exists(cache.state()));
    }
}

#[test]
fn without_a_devpod_home_its_files_are_below_the_home_directory() {
    let cache = one();
    cache.write_workspace_file("default", "a", &json!({ "localFolder": cache.path_of("a") }));
    rename(cache.root().join("devpod"), cache.root().join("home/.devpod"));
    mkdir(cache.root().join("devpod"));
    for run in [
        derelict(&cache, &["prune", "-y"]).env_remove("DEVPOD_HOME"),
        derelict(&cache, &["prune", "-y"]).env("DEVPOD_HOME", ""),
    ] {
        run.finish().expect_code(0).expect_stdout("Nothing to prune.");
        assert_eq!(cache.leaves(REPOSITORY), ["a"]);
    }
}

#[test]
fn without_any_home_nothing_is_guessed() {
    for cache_home in [None, Some(""), Some("relative")] {
        let cache = one();
        let before = everything(&cache);
        let run = derelict(&cache, &["prune", "-y"]).env_remove("HOME");
        let run = match cache_home {
            None => run.env_remove("XDG_CACHE_HOME"),
            Some(value) => run.env("XDG_CACHE_HOME", value),
        };
        let finished = run.finish();
        finished.expect_code(2).expect_stderr("error: ").expect_stderr("HOME");
        before.assert_same(&everything(&cache));
    }
}

#[test]
fn a_machine_without_a_cache_has_nothing_to_prune() {
    let cache = one();
    let before = everything(&cache);
    let finished = derelict(&cache, &["prune", "-y"]).env("XDG_CACHE_HOME", cache.elsewhere()).finish();
    finished.expect_code(0).expect_stdout("Nothing to prune.");
    before.assert_same(&everything(&cache));
}

#[test]
fn an_empty_cache_has_nothing_to_prune_even_when_nobody_lives() {
    let cache = Cache::empty();
    derelict(&cache, &["prune", "-y"]).finish().expect_code(0).expect_stdout("Nothing to prune.");
}

#[test]
fn settings_of_git_in_the_environment_change_no_answer() {
    let mut cache = Cache::small();
    cache.dirty("d");
    let other = cache.clean("a");
    let before = Snapshot::of(cache.path_of("d"));
    let run = derelict(&cache, &["prune", "-y"])
        .env("GIT_DIR", other.join(".git"))
        .env("GIT_WORK_TREE", &other)
        .env("GIT_INDEX_FILE", other.join(".git/index"))
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "status.showUntrackedFiles")
        .env("GIT_CONFIG_VALUE_0", "no");
    run.finish().expect_code(0);
    before.assert_unchanged();
    assert_eq!(cache.leaves(REPOSITORY), ["d"]);
}

#[test]
fn the_demo_builds_a_small_estate_prunes_it_and_touches_nothing_else() {
    let cache = Cache::small();
    mkdir(cache.root().join("tmp"));
    let before = everything(&cache).without(cache.root().join("tmp"));
    let bin = which("git");
    let path = bin.parent().expect("because a program lies in a directory");
    let path = format!("{}:/usr/bin:/bin", path.display());
    let run = derelict(&cache, &["demo"]).env("PATH", path).env("TMPDIR", cache.root().join("tmp"));
    let finished = run.finish();
    assert!(matches!(finished.code(), 0 | 1), "{finished}");
    for word in ["unsaved", "disputed", ".env", "docker system df"] {
        assert!(finished.stdout.to_lowercase().contains(word), "`{word}` is not told\n{finished}");
    }
    before.assert_same(&everything(&cache).without(cache.root().join("tmp")));
}

#[test]
fn a_file_in_the_current_directory_configures_nothing() {
    let cache = one();
    for name in ["derelict.toml", ".derelict.toml", "config.toml"] {
        write(cache.elsewhere().join(name), "force = true\nyes = true\n");
    }
    let before = Snapshot::of(cache.root().join("cache"));
    derelict(&cache, &["prune"]).current_dir(cache.elsewhere()).finish().expect_code(1);
    before.assert_unchanged();
}

#[test]
fn a_journal_inside_what_may_be_removed_is_refused() {
    let mut cache = derelict_testkit::Cache::small();
    let clone = cache.clean("c");
    let state = clone.join("node_modules/state");
    let before = derelict_testkit::Snapshot::of(cache.root());
    let run = cache.run(env!("CARGO_BIN_EXE_derelict"), &["prune", "-y"]).env("XDG_STATE_HOME", &state).finish();
    run.expect_code(2);
    before.assert_unchanged();
}

#[test]
fn owner_files_behind_a_symlink_that_leads_nowhere_are_not_nobody() {
    let mut cache = derelict_testkit::Cache::small();
    cache.clean("c");
    derelict_testkit::scratch::mkdir(cache.root().join("devpod"));
    derelict_testkit::scratch::symlink("/nowhere/at/all", cache.root().join("devpod/contexts"));
    let run = cache.run(env!("CARGO_BIN_EXE_derelict"), &["prune", "-y"]).finish();
    run.expect_code(3);
    assert_eq!(cache.leaves(derelict_testkit::devlaunch::REPOSITORY), ["c"]);
}
