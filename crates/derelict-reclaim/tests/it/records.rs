//! The owners' records: dropped for what is gone, for nothing else, and the rest stays as it is,
//! byte for byte.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use derelict_core::evidence::Candidate;
use derelict_core::ids::NonEmpty;
use derelict_core::outcome::{Outcome, Release};
use derelict_core::ports::{Journal as _, Reclaim};
use derelict_reclaim::release::DevlaunchRecords;
use derelict_testkit::guards::Flock;
use derelict_testkit::scratch::{exists, mkdir, read, rename, symlink, write};

use crate::kit::{World, names};

fn file(world: &World) -> PathBuf {
    world.cache().join("metadata.json")
}

fn text(path: &Path) -> String {
    String::from_utf8(read(path)).expect("because JSON is text")
}

fn record(world: &World, id: &str) -> String {
    format!(
        "\"o/r/{id}\": {{\r\n  \"local_path\": \"{}\", \"unknown\": [1e2, \"\\u00e9\"]\r\n}}",
        world.clone(id).display()
    )
}

/// A cache whose records of `ids` are written as their owner would not write them.
fn recorded(ids: &[&str]) -> World {
    let world = World::new();
    let records: Vec<String> = ids.iter().map(|id| record(&world, id)).collect();
    write(
        file(&world),
        format!("{{ \"version\": 3, \"worktrees\": {{\r\n{}}}, \"z\": 0.10 }}\r\n", records.join(",\r\n")),
    );
    world
}

/// Drops the records of a clone that is gone.
fn release(world: &World, id: &str) -> Release {
    let candidate = Candidate {
        name: derelict_core::ids::WorkspaceName::new(id.as_bytes()).expect("because it is a name"),
        path: world.clone(id),
        below_root: Path::new("o/r").join(id),
        identity: crate::kit::identity(&world.repository()),
    };
    world.reclaimer(&world.journal()).release(&candidate)
}

fn dropped(keys: &[&str]) -> Release {
    let keys = keys.iter().map(|key| (*key).to_owned()).collect();
    Release::Dropped(NonEmpty::from_vec(keys).expect("because a test names what is dropped"))
}

fn failed(release: Release) -> String {
    match release {
        Release::Failed(why) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_record_goes_and_the_others_stay_byte_for_byte() {
    let world = recorded(&["a", "b", "c"]);
    let before = text(&file(&world));
    assert_eq!(release(&world, "b"), dropped(&["o/r/b"]));
    assert_eq!(text(&file(&world)), before.replace(&format!("{},\r\n", record(&world, "b")), ""));
    assert_eq!(release(&world, "c"), dropped(&["o/r/c"]));
    assert_eq!(release(&world, "a"), dropped(&["o/r/a"]));
    assert_eq!(text(&file(&world)), "{ \"version\": 3, \"worktrees\": {}, \"z\": 0.10 }\r\n");
    assert_eq!(names(&world.cache()), ["metadata.json", "repos"]);
}

#[test]
fn nothing_is_written_when_there_is_nothing_to_drop() {
    let world = recorded(&["a"]);
    let before = std::fs::metadata(file(&world)).unwrap();
    assert_eq!(release(&world, "b"), Release::NothingRecorded);
    let after = std::fs::metadata(file(&world)).unwrap();
    assert_eq!((before.ino(), before.modified().unwrap()), (after.ino(), after.modified().unwrap()));
    derelict_testkit::scratch::remove(file(&world));
    assert_eq!(release(&world, "a"), Release::NothingRecorded);
    assert_eq!(names(&world.cache()), ["repos"]);
}

#[test]
fn a_file_that_is_not_understood_stays_as_it_is() {
    let world = World::new();
    let shown = file(&world).display().to_string();
    let cases = [
        ("{\"version\": 3,\n \"worktrees\": {", "EOF while parsing an object at line 2 column 15"),
        ("{\"version\": 4, \"worktrees\": {}}", "its version is 4, and only 1 to 3 are understood"),
        ("{\"worktrees\": {}}", "it has no version"),
        ("{\"version\": 3, \"worktrees\": []}", "its `worktrees` is no object"),
        ("", "EOF while parsing a value at line 1 column 0"),
    ];
    for (content, why) in cases {
        write(file(&world), content);
        let ino = std::fs::metadata(file(&world)).unwrap().ino();
        assert_eq!(failed(release(&world, "a")), format!("cannot read {shown}: {why}"));
        assert_eq!((text(&file(&world)).as_str(), std::fs::metadata(file(&world)).unwrap().ino()), (content, ino));
    }
    write(file(&world), b"{\"version\": 3, \"x\": \"\xff\"}");
    assert_eq!(failed(release(&world, "a")), format!("cannot read {shown}: stream did not contain valid UTF-8"));
}

#[test]
fn a_removal_is_done_although_its_record_cannot_be_dropped() {
    let world = World::new();
    world.make_clone("a");
    write(file(&world), "{");
    match world.remove("a") {
        Outcome::Removed { release: Release::Failed(why), .. } => assert!(why.contains("line 1 column 1"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(text(&file(&world)), "{");
    assert_eq!(world.recover().recovered, []);
}

#[test]
fn through_a_link_the_real_file_is_edited_and_the_link_stays() {
    let world = recorded(&["a", "b"]);
    let real = world.base().join("dotfiles/records");
    mkdir(world.base().join("dotfiles"));
    rename(file(&world), &real);
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).unwrap();
    symlink("../dotfiles/records", file(&world));
    assert_eq!(release(&world, "a"), dropped(&["o/r/a"]));
    assert!(file(&world).is_symlink());
    assert_eq!(std::fs::metadata(&real).unwrap().mode() & 0o7777, 0o640);
    assert!(!text(&real).contains("o/r/a") && text(&real).contains(&record(&world, "b")));
    assert_eq!(names(&world.base().join("dotfiles")), ["records"]);
}

#[test]
fn a_record_is_tied_to_its_directory_by_where_it_leads_and_not_by_its_spelling() {
    let world = World::new();
    symlink(world.cache(), world.base().join("alias"));
    symlink(world.clone("a"), world.base().join("shortcut"));
    let paths = [
        ("alias", world.base().join("alias/repos/o/r/a/")),
        ("dots", world.cache().join("repos/o/../o/r/./a")),
        ("shortcut", world.base().join("shortcut")),
        ("prefix", world.clone("ab")),
        ("parent", world.repository()),
        ("inside", world.clone("a/b")),
        ("elsewhere", world.base().join("a")),
    ];
    let records = paths.iter().map(|(key, path)| format!("\"{key}\":{{\"local_path\":{path:?}}}"));
    let odd = "\"relative\":{\"local_path\":\"a\"},\"empty\":{\"local_path\":\"\"},\"none\":{},\"odd\":7".to_owned();
    let records: Vec<String> = records.chain([odd]).collect();
    write(file(&world), format!("{{\"version\":1,\"worktrees\":{{{}}}}}", records.join(",")));
    assert_eq!(release(&world, "a"), dropped(&["alias", "dots", "shortcut"]));
    assert_eq!(text(&file(&world)), format!("{{\"version\":1,\"worktrees\":{{{}}}}}", records[3..].join(",")));
}

#[test]
fn a_record_whose_directory_is_there_again_stays() {
    let world = recorded(&["a"]);
    let before = text(&file(&world));
    world.make_clone("a");
    let why = failed(release(&world, "a"));
    assert_eq!(why, format!("something lies at {} again, so its record stays", world.clone("a").display()));
    assert_eq!(text(&file(&world)), before);
}

#[test]
fn records_that_their_owner_is_just_writing_are_left() {
    let world = recorded(&["a"]);
    let before = text(&file(&world));
    let lock = world.cache().join("metadata.json.lock");
    let held = Flock::file(&lock);
    assert_eq!(failed(release(&world, "a")), format!("{} is held by somebody else", lock.display()));
    assert_eq!(text(&file(&world)), before);
    drop(held);
    assert_eq!(release(&world, "a"), dropped(&["o/r/a"]));
    assert!(exists(lock), "a lock file that was there stays");
}

#[test]
fn records_of_what_vanished_go_in_one_rewrite_and_only_where_that_is_certain() {
    let world = recorded(&["gone", "also", "there", "launched", "fenced", "unasked"]);
    world.make_clone("there");
    world.make_clone("fenced");
    let _launch = Flock::file(&world.cache().join("launch-locks/launched.lock"));
    let mut journal = world.journal();
    let candidate = world.candidate("fenced");
    journal.intend(&crate::kit::intent(candidate, None)).unwrap();
    rename(world.clone("fenced"), world.clone(format!(".derelict-trash-{}-1-discard", journal.id())));
    let before = text(&file(&world));
    let records = DevlaunchRecords::new(&world.cache());
    let keys = ["there", "gone", "launched", "also", "fenced", "absent"].map(|id| format!("o/r/{id}"));
    assert_eq!(records.drop_vanished(&keys, &journal), dropped(&["o/r/gone", "o/r/also"]));
    let expected =
        ["gone", "also"].iter().fold(before, |text, id| text.replace(&format!("{},\r\n", record(&world, id)), ""));
    assert_eq!(text(&file(&world)), expected);
    assert_eq!(records.drop_vanished(&keys, &journal), Release::NothingRecorded);
}

#[test]
fn records_stay_when_their_whole_repository_is_absent() {
    let world = recorded(&["a"]);
    let before = text(&file(&world));
    let journal = world.journal();
    let records = DevlaunchRecords::new(&world.cache());
    rename(world.repository(), world.base().join("aside"));
    assert_eq!(records.drop_vanished(&["o/r/a".to_owned()], &journal), Release::NothingRecorded);
    assert_eq!(text(&file(&world)), before);
}

#[test]
fn records_of_places_where_no_clone_can_lie_stay() {
    let world = World::new();
    mkdir(world.base().join("elsewhere"));
    let records = format!(
        "{{\"version\":2,\"worktrees\":{{\"out\":{{\"local_path\":{:?}}},\"deep\":{{\"local_path\":{:?}}}}}}}",
        world.base().join("elsewhere/a"),
        world.cache().join("repos/o/a"),
    );
    write(file(&world), &records);
    let keys = ["out", "deep"].map(str::to_owned);
    let journal = world.journal();
    assert_eq!(DevlaunchRecords::new(&world.cache()).drop_vanished(&keys, &journal), Release::NothingRecorded);
    assert_eq!(text(&file(&world)), records);
}
