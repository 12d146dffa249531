//! devlaunch's records follow what is gone and nothing else of them changes; a file that cannot be
//! understood is left exactly as it is.

use std::os::unix::fs::MetadataExt as _;

use derelict_testkit::devlaunch::REPOSITORY;
use derelict_testkit::guards::Flock;
use derelict_testkit::records::{Record, keys, render};
use derelict_testkit::scratch::{exists, mkdir, read, remove, rename, set_mode, symlink, write};
use derelict_testkit::{Cache, Snapshot};
use serde_json::{Value, json};

use crate::support::{everything, prune, prune_json};

fn parsed(cache: &Cache) -> Value {
    serde_json::from_slice(&read(cache.metadata())).expect("because the record file is JSON")
}

#[test]
fn a_record_file_that_cannot_be_understood_is_left_and_its_clones_are_undetermined() {
    let texts = [
        "",
        "{",
        "[]",
        "null",
        "{\"version\": 99, \"worktrees\": {}}",
        "{\"version\": 3, \"worktrees\": []}",
        "\u{feff}\u{0}",
    ];
    for text in texts {
        let mut cache = Cache::small();
        cache.clean("a");
        write(cache.metadata(), text);
        let before = Snapshot::of(cache.dir());
        let report = prune_json(&cache, &["-y", "--force"], 1);
        assert_eq!(report.verdict("a"), "undetermined", "{text:?}");
        assert!(report.reasons("a").contains("metadata.json"), "{}", report.reasons("a"));
        prune(&cache, &["-n"]).expect_code(1);
        before.assert_unchanged();
    }
}

#[test]
fn a_record_file_that_is_nested_without_end_is_left() {
    let mut cache = Cache::small();
    cache.clean("a");
    write(cache.metadata(), format!("{{\"version\": 3, \"worktrees\": {}", "{\"a\":".repeat(100_000)));
    let before = Snapshot::of(cache.dir());
    assert_eq!(prune_json(&cache, &["-y"], 1).verdict("a"), "undetermined");
    before.assert_unchanged();
}

#[test]
fn a_record_file_that_is_no_file_is_left_and_its_clones_are_undetermined() {
    let mut cache = Cache::small();
    cache.clean("a");
    remove(cache.metadata());
    mkdir(cache.metadata());
    let before = Snapshot::of(cache.dir());
    assert_eq!(prune_json(&cache, &["-y"], 1).verdict("a"), "undetermined");
    before.assert_unchanged();
}

#[test]
fn without_a_record_file_there_are_no_records_and_none_is_made() {
    let mut cache = Cache::small();
    cache.clean("a");
    remove(cache.metadata());
    prune(&cache, &["-y"]).expect_code(0);
    assert_eq!((cache.leaves(REPOSITORY), exists(cache.metadata())), (Vec::new(), false));
}

#[test]
fn a_record_file_reached_through_a_symlink_is_replaced_where_it_really_is() {
    let mut cache = Cache::small();
    cache.clean("a");
    cache.live("l");
    let real = cache.elsewhere().join("records.json");
    rename(cache.metadata(), &real);
    set_mode(&real, 0o640);
    symlink("../../elsewhere/records.json", cache.metadata());
    prune(&cache, &["-y"]).expect_code(0);
    assert_eq!(keys(&real), ["acme/w/b/l"]);
    let link = std::fs::read_link(cache.metadata()).expect("because the link is still a link");
    assert_eq!(link.to_str(), Some("../../elsewhere/records.json"));
    assert_eq!(real.metadata().expect("because it is there").mode() & 0o7777, 0o640);
    let beside = std::fs::read_dir(cache.elsewhere()).expect("because it is there").count();
    assert_eq!(beside, 1, "no temporary file is left");
}

#[test]
fn survivors_and_everything_unknown_stay_byte_for_byte() {
    let mut cache = Cache::small();
    for id in ["first", "middle", "last"] {
        cache.clean(id);
    }
    cache.live("l");
    let records = cache.records();
    let strange = "{ \"version\" : 3,\r\n \"future\": [1, 2.50, \"\\u00e9\", {}],\n\"worktrees\": { ";
    let members = [
        format!("{},\n", records[0].text()),
        format!("\t{} ,", records[3].text().replace("\"repo\"", "\"un\\u006bnown\":  1e2, \"repo\"")),
        format!("{},\r\n\r\n", records[1].text()),
        records[2].text(),
    ];
    let tail = " },\n\"repositories\": {\"acme/w\": {\"worktrees\": [\"main\"], \"last_sweep\": null}} }";
    write(cache.metadata(), [strange, &members.concat(), tail].concat());
    set_mode(&cache.metadata(), 0o600);
    let mut expected = parsed(&cache);
    prune(&cache, &["-y"]).expect_code(0);

    let text = String::from_utf8(read(cache.metadata())).expect("because it was text");
    let survivor = members[1].trim().trim_end_matches([' ', ',']);
    assert!(text.contains(survivor), "{text}");
    assert!(text.starts_with(strange.trim_end()) && text.ends_with(tail.trim_start()), "{text}");
    let clones = expected["worktrees"].as_object_mut().expect("because it is an object");
    clones.retain(|key, _| key == "acme/w/b/l");
    assert_eq!(parsed(&cache), expected);
    assert_eq!(cache.metadata().metadata().expect("because it is there").mode() & 0o7777, 0o600);
}

#[test]
fn a_run_that_removes_nothing_does_not_touch_the_record_file() {
    let mut cache = Cache::small();
    cache.dirty("d");
    cache.live("l");
    let before = Snapshot::of(cache.dir());
    prune(&cache, &["-y"]).expect_code(0).expect_stdout("Nothing to prune.");
    before.assert_unchanged();
}

#[test]
fn records_of_clones_that_vanished_earlier_are_dropped() {
    let mut cache = Cache::small();
    cache.add_record(REPOSITORY, "gone", "gone", None);
    cache.live("l");
    let before = everything(&cache);
    let dry = prune_json(&cache, &["-n"], 0);
    assert_eq!(dry.0["plan"]["stale_records"], json!(["acme/w/gone"]));
    prune(&cache, &["-n"]).expect_code(0).expect_stdout("acme/w/gone");
    before.assert_same(&everything(&cache));

    let live = prune_json(&cache, &["-y"], 0);
    assert_eq!(live.0["result"]["records_dropped"], json!(["acme/w/gone"]));
    assert_eq!(keys(&cache.metadata()), ["acme/w/b/l"]);
    prune(&cache, &["-y"]).expect_code(0).expect_stdout("Nothing to prune.");
}

#[test]
fn a_record_whose_owner_lives_is_kept_though_its_clone_is_gone() {
    let mut cache = Cache::small();
    let clone = cache.live("l");
    remove(clone);
    let before = read(cache.metadata());
    prune(&cache, &["-y"]);
    assert_eq!(read(cache.metadata()), before);
}

#[test]
fn a_record_below_a_repository_that_is_not_there_is_kept() {
    let mut cache = Cache::small();
    cache.clean("a");
    cache.add_record("other/unmounted", "x", "x", None);
    prune(&cache, &["-y"]).expect_code(0);
    assert_eq!(keys(&cache.metadata()), ["other/unmounted/x"]);
}

#[test]
fn a_record_that_names_nothing_is_nobodys_and_stays() {
    for path in ["", "relative/path", "/", "."] {
        let mut cache = Cache::small();
        cache.clean("a");
        cache.file_record(Record {
            repository: REPOSITORY.into(),
            branch: "odd".into(),
            id: "odd".into(),
            local_path: path.into(),
            devpod: None,
        });
        prune(&cache, &["-y"]).expect_code(0);
        assert_eq!(keys(&cache.metadata()), ["acme/w/odd"], "{path:?}");
    }
}

#[test]
fn a_record_file_of_an_older_schema_keeps_its_schema() {
    for version in [1, 2] {
        let mut cache = Cache::small();
        cache.clean("a");
        cache.live("l");
        let text = render(cache.records()).replace("\"version\": 3", &format!("\"version\": {version}"));
        write(cache.metadata(), text);
        prune(&cache, &["-y"]).expect_code(0);
        assert_eq!(
            (parsed(&cache)["version"].clone(), keys(&cache.metadata())),
            (json!(version), vec!["acme/w/b/l".to_owned()])
        );
    }
}

#[test]
fn a_record_file_that_is_locked_keeps_the_record_for_a_later_run() {
    let mut cache = Cache::small();
    cache.clean("a");
    let lock = Flock::file(&cache.dir().join("metadata.json.lock"));
    prune(&cache, &["-y"]).expect_code(1);
    assert_eq!((cache.leaves(REPOSITORY), keys(&cache.metadata())), (Vec::new(), vec!["acme/w/b/a".to_owned()]));
    drop(lock);
    prune(&cache, &["-y"]).expect_code(0);
    assert_eq!(keys(&cache.metadata()), [""; 0]);
}

#[test]
fn a_key_that_stands_there_twice_is_not_dropped_for_the_other_one_lives() {
    let mut cache = Cache::small();
    let (gone, kept) = (cache.clean("c1"), cache.dirty("c2"));
    let record = |path: &std::path::Path, id: &str| {
        format!("\"k\": {{ \"local_path\": {path:?}, \"workspace_id\": \"{id}\", \"devpod_workspace_id\": null }}")
    };
    let text = format!(
        "{{ \"version\": 3, \"repositories\": {{}}, \"worktrees\": {{ {}, {} }} }}\n",
        record(&kept, "c2"),
        record(&gone, "c1")
    );
    derelict_testkit::scratch::write(cache.metadata(), &text);
    crate::support::prune(&cache, &["-y"]).expect_code(1);
    assert!(!gone.exists());
    assert_eq!(derelict_testkit::scratch::read(cache.metadata()), text.as_bytes());
}
