//! Setting aside: what may go leaves its name and nothing else, can be had back at any time, and goes for
//! good when its grace is over and nobody wants it.

use std::path::PathBuf;

use derelict_testkit::devlaunch::REPOSITORY;
use derelict_testkit::records::keys;
use derelict_testkit::scratch::{exists, mkdir, read, remove, rename, write};
use derelict_testkit::{Cache, Snapshot};
use serde_json::{Value, json};

use crate::support::{derelict, everything, prune, prune_json};

/// A cache with a clone `a` that was set aside and a clone `kept`, and what lay at `a`.
fn set_aside() -> (Cache, Snapshot) {
    let mut cache = Cache::small();
    cache.dirty("kept");
    let before = Snapshot::of(cache.clean("a"));
    let finished = prune(&cache, &["-y", "--quarantine"]);
    finished.expect_code(0).expect_stdout("Set aside 1 directory").expect_stdout("derelict restore");
    assert_eq!(cache.all_leaves(REPOSITORY).len(), 4, "the bare cache, its lock, what is kept, and the trash");
    assert_eq!(keys(&cache.metadata()), ["acme/w/b/kept", "acme/w/b/a"], "its record stays");
    (cache, before)
}

fn trash(cache: &Cache) -> PathBuf {
    let names = cache.all_leaves(REPOSITORY);
    let name = names.iter().find(|name| name.starts_with(".derelict-trash-")).expect("because it was set aside");
    cache.path_of(name)
}

fn listed(cache: &Cache) -> Vec<Value> {
    let list = derelict(cache, &["quarantine", "--json"]).finish();
    list.expect_code(0);
    let value = list.json();
    assert_eq!((&value["schema_version"], &value["command"]), (&json!(1), &json!("quarantine")));
    value["set_aside"].as_array().expect("because it is a list").clone()
}

/// Lets the grace of everything be over, as time would.
pub(crate) fn let_the_grace_pass(cache: &Cache) {
    let journal = cache.state().join("journal.ndjson");
    let text = String::from_utf8(read(&journal)).expect("because JSON is text");
    let lines = text.lines().map(|line| {
        let mut line: Value = serde_json::from_str(line).expect("because each line is JSON");
        if line["until"].is_array() {
            line["until"] = json!([1, 0]);
        }
        format!("{line}\n")
    });
    write(&journal, lines.collect::<String>());
}

#[test]
fn what_is_set_aside_is_listed_and_comes_back_as_it_was() {
    let (cache, before) = set_aside();
    let one = &listed(&cache)[0];
    assert_eq!((&one["number"], &one["path"]), (&json!(1), &json!(cache.path_of("a"))));
    assert!(one["size"]["bytes"].as_u64() > Some(0) && one["until"].as_str() > one["since"].as_str(), "{one}");
    let list = derelict(&cache, &["quarantine"]).finish();
    list.expect_code(0).expect_stdout("1 directory set aside").expect_stdout("acme/w/a");

    let path = cache.path_of("a").display().to_string();
    derelict(&cache, &["restore", &path])
        .finish()
        .expect_code(0)
        .expect_stdout("put back")
        .expect_stdout("derelict-keep");
    before.assert_unchanged();
    assert_eq!(listed(&cache), [] as [Value; 0]);
    derelict(&cache, &["quarantine"]).finish().expect_code(0).expect_stdout("Nothing is set aside.");
    let again = derelict(&cache, &["restore", &path]).finish();
    again.expect_code(2).expect_stderr("was not set aside");
    assert_eq!(prune_json(&cache, &["-n"], 0).removals(), ["a"], "it is judged like any other");
}

#[test]
fn a_number_names_it_too_and_nothing_is_replaced() {
    let (cache, _) = set_aside();
    mkdir(cache.path_of("a"));
    let taken = derelict(&cache, &["restore", "1"]).finish();
    taken.expect_code(1).expect_stderr("its name is taken").expect_stderr(&trash(&cache).display().to_string());
    assert!(exists(trash(&cache)));
    remove(cache.path_of("a"));
    derelict(&cache, &["restore", "7"]).finish().expect_code(2).expect_stderr("number 7");
    derelict(&cache, &["restore", "1"]).finish().expect_code(0);
    assert!(exists(cache.path_of("a").join(".git")));
}

#[test]
fn until_its_grace_is_over_no_run_touches_it_and_each_tells_of_it() {
    let (cache, _) = set_aside();
    let before = Snapshot::of(trash(&cache));
    let dry = prune(&cache, &["-n"]);
    dry.expect_code(0).expect_stdout("Nothing to prune.").expect_stdout("Set aside earlier, and waiting: 1 directory");
    let live = prune_json(&cache, &["-y"], 0);
    assert_eq!(live.0["plan"]["waiting"].as_array().map(Vec::len), Some(1));
    assert_eq!(live.0["plan"]["expired"], json!([]));
    before.assert_unchanged();
    assert_eq!(keys(&cache.metadata()), ["acme/w/b/kept", "acme/w/b/a"]);
}

#[test]
fn when_its_grace_is_over_a_dry_run_says_so_and_a_live_one_discards_it() {
    let (cache, _) = set_aside();
    let_the_grace_pass(&cache);
    let before = everything(&cache);
    prune(&cache, &["-n"]).expect_code(0).expect_stdout("Would discard 1 directory that were set aside");
    prune(&cache, &[]).expect_code(1).expect_stderr("Nothing was changed");
    before.assert_same(&everything(&cache));
    let report = prune_json(&cache, &["-y"], 0);
    let ended = &report.0["result"]["expired"][0];
    assert_eq!(ended["path"], json!(cache.path_of("a")));
    assert_eq!(report.0["result"]["records_dropped"], json!(["acme/w/b/a"]));
    assert_eq!(cache.all_leaves(REPOSITORY), [".bare", ".lock", "kept"]);
    assert_eq!(keys(&cache.metadata()), ["acme/w/b/kept"]);
    assert_eq!(listed(&cache), [] as [Value; 0]);
    prune(&cache, &["-y"]).expect_code(0).expect_stdout("Nothing to prune.");
}

#[test]
fn an_owner_that_came_back_gets_it_back_instead() {
    let (mut cache, before) = set_aside();
    let_the_grace_pass(&cache);
    let place = json!({ "localFolder": cache.path_of("a") });
    cache.add_living("a", &place);
    prune(&cache, &["-y"]).expect_code(0).expect_stdout("put back when its grace was over");
    before.assert_unchanged();
    assert_eq!(listed(&cache), [] as [Value; 0]);
    assert_eq!(prune_json(&cache, &["-n"], 0).verdict("a"), "referenced");
}

#[test]
fn what_somebody_wrote_into_it_meanwhile_is_not_lost() {
    let (cache, _) = set_aside();
    write(trash(&cache).join("notes.txt"), "only copy");
    let_the_grace_pass(&cache);
    prune(&cache, &["-y"]).expect_code(0).expect_stdout("something in it was written after it was set aside");
    assert_eq!(read(cache.path_of("a").join("notes.txt")), b"only copy");
}

#[test]
fn a_source_that_is_lost_keeps_it_and_stops_the_run() {
    let (cache, _) = set_aside();
    let_the_grace_pass(&cache);
    remove(cache.bin().join("devpod"));
    prune(&cache, &["-y"]).expect_code(3);
    assert!(exists(trash(&cache)));
    assert_eq!(listed(&cache).len(), 1);
}

#[test]
fn asking_for_one_clone_lets_no_other_go() {
    let (mut cache, _) = set_aside();
    cache.clean("b");
    let_the_grace_pass(&cache);
    let path = cache.path_of("b").display().to_string();
    prune(&cache, &["-y", &path]).expect_code(0);
    assert!(exists(trash(&cache)) && !exists(cache.path_of("b")));
}

#[test]
fn the_question_says_that_it_is_only_set_aside() {
    let mut cache = Cache::small();
    cache.clean("a");
    let mut session = derelict(&cache, &["prune", "--quarantine=12h"]).on_terminal();
    session.wait_for("Set aside 1 directory");
    session.answer("y");
    session.finish().expect_code(0);
    assert_eq!(listed(&cache).len(), 1);
}

#[test]
fn a_journal_elsewhere_can_be_named() {
    let (cache, _) = set_aside();
    let moved = cache.root().join("moved");
    rename(cache.state(), &moved);
    assert_eq!(listed(&cache), [] as [Value; 0]);
    let state = moved.display().to_string();
    derelict(&cache, &["restore", "1", "--state", &state]).finish().expect_code(0);
    assert!(exists(cache.path_of("a").join(".git")));
}
