//! Nothing goes without consent to the plan that was shown, and what changes while the question is open
//! is seen.

use derelict_testkit::devlaunch::{REPOSITORY, commit};
use derelict_testkit::git::which;
use derelict_testkit::guards::Idle;
use derelict_testkit::scratch::{exists, mkdir, read, rename, write};
use derelict_testkit::{Cache, Finished, Session, Snapshot};
use serde_json::json;

use crate::support::{QUESTION, derelict, everything, prune, prune_json};

/// Two clones that may go, `a` and `b`.
fn two() -> Cache {
    let mut cache = Cache::small();
    cache.clean("a");
    cache.clean("b");
    cache
}

/// Asks, does something while the question is open, and answers yes.
fn meanwhile(cache: &Cache, arguments: &[&str], deed: impl FnOnce()) -> Finished {
    let mut session = ask(cache, arguments);
    deed();
    session.answer("y");
    session.finish()
}

fn ask(cache: &Cache, arguments: &[&str]) -> Session {
    let mut session = derelict(cache, &[&["prune"], arguments].concat()).on_terminal();
    session.wait_for("[y/N]");
    session
}

#[test]
fn yes_on_a_terminal_removes_what_was_shown() {
    for yes in ["y", "yes"] {
        let cache = two();
        let mut session = ask(&cache, &[]);
        session.answer(yes);
        let finished = session.finish();
        finished.expect_code(0).expect_stderr("Remove 2 directories (");
        assert_eq!(cache.leaves(REPOSITORY), [""; 0]);
        assert_eq!(cache.devpod_calls().len(), 2);
    }
}

#[test]
fn one_directory_is_not_called_directories() {
    let mut cache = Cache::small();
    cache.clean("a");
    let mut session = ask(&cache, &[]);
    session.answer("n");
    session.finish().expect_code(0).expect_stderr("Remove 1 directory (");
}

#[test]
fn everything_but_yes_is_no_and_leaves_every_byte_as_it_was() {
    let cache = two();
    let before = everything(&cache);
    for no in ["n", "", "no", "yeah", " ", "\u{7f}", "ja"] {
        let mut session = ask(&cache, &[]);
        session.answer(no);
        session.finish().expect_code(0).expect_stdout("Nothing was removed.");
        before.assert_same(&everything(&cache));
    }
    let mut session = ask(&cache, &[]);
    session.end_input();
    session.finish().expect_code(0).expect_stdout("Nothing was removed.");
    before.assert_same(&everything(&cache));
}

#[test]
fn without_a_terminal_and_without_yes_nothing_changes_and_the_exit_code_says_so() {
    let cache = two();
    let before = everything(&cache);
    let finished = prune(&cache, &[]);
    finished.expect_code(1).expect_stderr("-y").expect_stdout("acme/w/a");
    assert!(!finished.stderr.contains(QUESTION), "{finished}");
    before.assert_same(&everything(&cache));
}

#[test]
fn without_a_terminal_and_with_nothing_to_remove_all_is_well() {
    let mut cache = Cache::small();
    cache.live("l");
    prune(&cache, &[]).expect_code(0).expect_stdout("Nothing to prune.");
}

#[test]
fn json_never_asks_not_even_on_a_terminal() {
    let cache = two();
    let before = everything(&cache);
    let finished = derelict(&cache, &["prune", "--json"]).on_terminal().finish();
    finished.expect_code(1);
    assert_eq!(finished.json()["result"], json!(null));
    before.assert_same(&everything(&cache));
}

#[test]
fn a_dry_run_shows_the_plan_that_a_live_run_executes_and_writes_nothing_anywhere() {
    let cache = two();
    let before = everything(&cache);
    let dry = prune_json(&cache, &["-n"], 0);
    assert_eq!(dry.0["result"], json!(null));
    prune(&cache, &["-n"]).expect_code(0).expect_stdout("acme/w/a").expect_stdout("acme/w/b");
    before.assert_same(&everything(&cache));
    let live = prune_json(&cache, &["-y"], 0);
    assert_eq!((live.removals(), live.0["plan"]["digest"].clone()), (dry.removals(), dry.0["plan"]["digest"].clone()));
    assert_eq!(cache.leaves(REPOSITORY), [""; 0]);
}

#[test]
fn work_written_while_the_question_is_open_is_kept() {
    let cache = two();
    let finished = meanwhile(&cache, &[], || write(cache.path_of("a").join("thought"), "of just now"));
    finished.expect_code(0);
    assert_eq!(cache.leaves(REPOSITORY), ["a"]);
    assert_eq!(read(cache.path_of("a").join("thought")), b"of just now");
    assert_eq!(derelict_testkit::records::keys(&cache.metadata()), ["acme/w/b/a"]);
}

#[test]
fn a_commit_made_while_the_question_is_open_is_kept() {
    let cache = two();
    let (a, mut before) = (cache.path_of("a"), None);
    let finished = meanwhile(&cache, &[], || {
        write(a.join("work"), "w");
        commit(&a, "work");
        before = Some(Snapshot::of(&a));
    });
    finished.expect_code(0);
    before.expect("because the question was open").assert_unchanged();
    assert_eq!(cache.leaves(REPOSITORY), ["a"]);
}

#[test]
fn a_workspace_that_devpod_lists_only_after_the_plan_is_kept() {
    let mut cache = two();
    let mut session = ask(&cache, &[]);
    let a = cache.path_of("a");
    cache.add_living("a", &json!({ "localFolder": a }));
    session.answer("y");
    session.finish().expect_code(0);
    assert_eq!(cache.leaves(REPOSITORY), ["a"]);
}

#[test]
fn a_workspace_that_only_its_own_file_names_after_the_plan_is_kept() {
    let cache = two();
    let source = json!({ "localFolder": cache.path_of("a") });
    meanwhile(&cache, &[], || drop(cache.write_workspace_file("other", "a", &source))).expect_code(0);
    assert_eq!(cache.leaves(REPOSITORY), ["a"]);
}

#[test]
fn a_process_that_enters_after_the_plan_keeps_the_clone() {
    let (cache, mut inside) = (two(), None);
    meanwhile(&cache, &[], || inside = Some(Idle::in_directory(&cache.path_of("a")))).expect_code(0);
    assert_eq!(cache.leaves(REPOSITORY), ["a"]);
}

#[test]
fn a_clone_that_vanishes_while_the_question_is_open_is_neither_failure_nor_removal() {
    let cache = two();
    // The second listing comes after the plan and before the first removal.
    let (from, to, mv) = (cache.path_of("a"), cache.root().join("gone"), which("mv"));
    cache.on_listing(&format!("[ $CALL = 1 ] || {} '{}' '{}'", mv.display(), from.display(), to.display()));
    let report = prune_json(&cache, &["-y"], 0);
    assert_eq!((report.fate("a"), report.fate("b")), ("vanished".into(), "removed".into()));
    assert!(exists(cache.root().join("gone/pixi.toml")));
}

#[test]
fn another_directory_under_the_same_name_is_not_the_one_that_was_planned() {
    let mut cache = two();
    let other = cache.add_clone(REPOSITORY, "other", "other");
    let hidden = cache.root().join("hidden");
    rename(&other, &hidden);
    let before = Snapshot::of(&hidden);
    let finished = meanwhile(&cache, &[], || {
        rename(cache.path_of("a"), cache.root().join("moved"));
        rename(&hidden, cache.path_of("a"));
    });
    finished.expect_code(1).expect_stdout("a");
    before.assert_same(&Snapshot::of(cache.path_of("a")));
    assert!(exists(cache.root().join("moved/pixi.toml")));
    assert_eq!(cache.leaves(REPOSITORY), ["a"]);
}

#[test]
fn a_symlink_in_place_of_the_clone_is_not_followed() {
    let cache = two();
    let moved = cache.root().join("moved");
    let finished = meanwhile(&cache, &[], || {
        rename(cache.path_of("a"), &moved);
        derelict_testkit::scratch::symlink(&moved, cache.path_of("a"));
    });
    finished.expect_code(1);
    assert!(exists(moved.join("pixi.toml")) && exists(moved.join(".git/HEAD")));
    assert!(exists(cache.path_of("a")), "the link is not ours to remove");
}

#[test]
fn a_source_that_is_lost_after_the_plan_ends_the_sweep_before_the_first_removal() {
    let cache = two();
    cache.on_listing("[ $CALL = 1 ] || { echo 'daemon is gone' >&2; exit 1; }");
    let before = Snapshot::of(cache.dir());
    let report = prune_json(&cache, &["-y"], 3);
    assert_eq!(report.stop(), "source_lost");
    assert_eq!((report.fate("a"), report.fate("b")), ("not_reached".into(), "not_reached".into()));
    // The directory of the launch locks may be made; everything that was there is as it was.
    assert_eq!(before.differences(&Snapshot::of(cache.dir())).iter().filter(|line| line.contains("repos")).count(), 0);
}

#[test]
fn an_orderly_stop_ends_the_sweep_before_the_next_removal() {
    let cache = two();
    cache.on_listing("[ $CALL = 1 ] || kill -TERM $PPID");
    let finished = derelict(&cache, &["prune", "-y", "--json"]).finish();
    let report = crate::support::Report(finished.json());
    assert_eq!((report.stop(), report.fate("a")), ("cancelled".into(), "not_reached".into()), "{finished}");
    assert_eq!(cache.leaves(REPOSITORY), ["a", "b"]);
}

#[test]
fn a_new_directory_made_while_the_question_is_open_is_not_part_of_the_plan() {
    let cache = two();
    meanwhile(&cache, &[], || mkdir(cache.path_of("new"))).expect_code(0);
    assert_eq!(cache.leaves(REPOSITORY), ["new"]);
}
