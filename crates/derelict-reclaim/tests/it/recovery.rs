//! What a crash left is settled at the next start, for every state a crash can leave, and nothing
//! is guessed.

use derelict_core::ids::{IntentId, NonEmpty};
use derelict_core::outcome::Release;
use derelict_core::ports::Journal as _;
use derelict_reclaim::beneath::Root;
use derelict_reclaim::lock::DevlaunchLocks;
use derelict_reclaim::reclaimer::Reclaimer;
use derelict_reclaim::recover::{Recovered, recover};
use derelict_reclaim::release::DevlaunchRecords;
use derelict_testkit::guards::{Flock, Mounted};
use derelict_testkit::scratch::{exists, rename, symlink, write};
use derelict_testkit::tree::Snapshot;

use crate::kit::{World, intent};

/// A world whose process died after it had written its intent for the clone `a`.
struct Crashed {
    world: World,
    whole: std::path::PathBuf,
    begun: std::path::PathBuf,
}

fn crashed() -> Crashed {
    let world = World::new();
    let clone = world.make_clone("a");
    write(
        world.cache().join("metadata.json"),
        format!("{{\"version\":3,\"worktrees\":{{\"k\":{{\"local_path\":{clone:?}}}}}}}"),
    );
    let mut journal = world.journal();
    let intent = intent(world.candidate("a"), None);
    assert_eq!(journal.intend(&intent), Ok(IntentId(1)));
    let whole = world.clone(format!(".derelict-trash-{}-1", journal.id()));
    let begun = world.clone(format!(".derelict-trash-{}-1-discard", journal.id()));
    Crashed { world, whole, begun }
}

fn only(world: &World) -> Recovered {
    let recovery = world.recover();
    assert_eq!(recovery.lost, None);
    match <[Recovered; 1]>::try_from(recovery.recovered) {
        Ok([recovered]) => recovered,
        Err(other) => panic!("{other:?}"),
    }
}

fn dropped() -> Release {
    Release::Dropped(NonEmpty::of("k".to_owned()))
}

#[test]
fn before_the_fence_nothing_happened() {
    let Crashed { world, .. } = crashed();
    let before = Snapshot::of(world.clone("a"));
    assert_eq!(only(&world), Recovered::Untouched { path: world.clone("a") });
    before.assert_unchanged();
    assert_eq!(world.recover().recovered, []);
}

#[test]
fn after_the_fence_it_is_put_back() {
    let Crashed { world, whole, .. } = crashed();
    let before = Snapshot::of(world.clone("a"));
    rename(world.clone("a"), &whole);
    assert_eq!(only(&world), Recovered::PutBack { path: world.clone("a") });
    before.assert_unchanged();
    assert_eq!(world.names(), ["a"]);
    assert_eq!(world.recover().recovered, []);
}

#[test]
fn where_the_name_was_taken_meanwhile_both_stay() {
    let Crashed { world, whole, .. } = crashed();
    rename(world.clone("a"), &whole);
    world.make_clone("a");
    let before = (Snapshot::of(&whole), Snapshot::of(world.clone("a")));
    let occupied = Recovered::Occupied { trash: whole.clone(), path: world.clone("a") };
    assert_eq!(only(&world), occupied);
    assert_eq!(only(&world), occupied);
    before.0.assert_unchanged();
    before.1.assert_unchanged();
    let told = format!(
        "{}: its name is taken; what an earlier run fenced is whole at {}, move it where you want it",
        world.clone("a").display(),
        whole.display()
    );
    assert_eq!(occupied.to_string(), told);
    rename(world.clone("a"), world.base().join("aside"));
    assert_eq!(only(&world), Recovered::PutBack { path: world.clone("a") });
}

#[test]
fn what_was_being_discarded_is_finished_and_its_record_dropped() {
    let Crashed { world, begun, .. } = crashed();
    rename(world.clone("a"), &begun);
    derelict_testkit::scratch::remove(begun.join("file"));
    match only(&world) {
        Recovered::Finished { path, discarded, release } => {
            assert_eq!((path, discarded.entries, release), (world.clone("a"), 4, dropped()));
        }
        other => panic!("{other:?}"),
    }
    assert!(world.names().is_empty());
    assert_eq!(world.recover().recovered, []);
}

#[test]
fn a_new_clone_under_the_name_of_one_being_discarded_keeps_its_record() {
    let Crashed { world, begun, .. } = crashed();
    rename(world.clone("a"), &begun);
    world.make_clone("a");
    match only(&world) {
        Recovered::Finished { release: Release::Failed(why), .. } => {
            assert_eq!(why, format!("something lies at {} again, so its record stays", world.clone("a").display()));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(world.names(), ["a"]);
}

#[test]
fn a_removal_whose_end_was_not_written_down_has_its_record_dropped() {
    let Crashed { world, .. } = crashed();
    derelict_testkit::scratch::remove(world.clone("a"));
    assert_eq!(only(&world), Recovered::Gone { path: world.clone("a"), release: dropped() });
    assert_eq!(world.recover().recovered, []);
}

#[test]
fn another_directory_under_the_trash_name_is_left_and_told_every_time() {
    let Crashed { world, whole, begun } = crashed();
    for trash in [&whole, &begun] {
        write(trash.join("precious"), "only copy");
        let before = Snapshot::of(trash);
        let why = "it is not the directory the journal names".to_owned();
        for _ in 0..2 {
            assert_eq!(only(&world), Recovered::Undecided { path: trash.clone(), why: why.clone() });
        }
        before.assert_unchanged();
        rename(trash, world.base().join(trash.file_name().unwrap()));
    }
    assert!(exists(world.clone("a/file")));
}

#[test]
fn a_repository_that_is_gone_decides_nothing() {
    let Crashed { world, whole, .. } = crashed();
    rename(world.clone("a"), &whole);
    rename(world.repository(), world.base().join("aside"));
    let undecided = Recovered::Undecided { path: world.repository(), why: "it is gone".to_owned() };
    assert_eq!(only(&world), undecided);
    rename(world.base().join("aside"), world.repository());
    assert_eq!(only(&world), Recovered::PutBack { path: world.clone("a") });
}

#[test]
fn a_launch_in_progress_is_not_disturbed() {
    let Crashed { world, whole, .. } = crashed();
    rename(world.clone("a"), &whole);
    let lock = world.cache().join("launch-locks/a.lock");
    let held = Flock::file(&lock);
    assert_eq!(only(&world), Recovered::Busy { path: world.clone("a"), lock: lock.display().to_string() });
    drop(held);
    assert_eq!(only(&world), Recovered::PutBack { path: world.clone("a") });
}

#[test]
fn a_mount_in_what_was_being_discarded_is_not_emptied() {
    let Crashed { world, begun, .. } = crashed();
    rename(world.clone("a"), &begun);
    write(world.base().join("outside/precious"), "only copy");
    let mounted = Mounted::bind(&world.base().join("outside"), &begun.join("dir"));
    match only(&world) {
        Recovered::Unfinished { discarded, refusals, .. } => {
            assert_eq!(discarded.entries, 0);
            assert_eq!(refusals, [crate::kit::refusal(begun.join("dir"), "something is mounted here")]);
        }
        other => panic!("{other:?}"),
    }
    drop(mounted);
    assert!(matches!(only(&world), Recovered::Finished { .. }));
    assert!(exists(world.base().join("outside/precious")));
}

#[test]
fn trash_that_the_journal_does_not_know_is_told_and_never_removed() {
    let world = World::new();
    drop(world.journal());
    let strange = [".derelict-trash-0123456789abcdef-1-discard", ".derelict-trash-x"].map(|name| world.clone(name));
    strange.iter().for_each(|trash| write(trash.join("f"), "x"));
    let mut told = world.recover().recovered;
    told.sort_by_key(ToString::to_string);
    assert_eq!(told, strange.clone().map(|path| Recovered::UnknownTrash { path }));
    assert!(strange.iter().all(|trash| exists(trash.join("f"))));
}

#[test]
fn an_intent_of_another_root_is_left_to_that_root() {
    let Crashed { world, whole, .. } = crashed();
    rename(world.clone("a"), &whole);
    let other = World::at(&world.base().join("other"));
    derelict_testkit::scratch::mkdir(other.repository());
    let mut journal = world.journal();
    let reclaimer = other.reclaimer(&journal);
    let recovery = recover(&mut journal, &reclaimer, &mut DevlaunchLocks::new(&other.cache()));
    assert_eq!((recovery.recovered, journal.unfinished().count()), (Vec::new(), 1));
}

#[test]
fn a_root_that_is_reached_by_another_spelling_is_the_same_root() {
    let Crashed { world, whole, .. } = crashed();
    rename(world.clone("a"), &whole);
    symlink(world.cache(), world.base().join("alias"));
    let mut journal = world.journal();
    let root = Root::open(&world.base().join("alias/repos")).unwrap();
    let reclaimer = Reclaimer::new(root, DevlaunchRecords::new(&world.cache()), journal.id().clone());
    let recovery = recover(&mut journal, &reclaimer, &mut DevlaunchLocks::new(&world.cache()));
    assert_eq!(recovery.recovered, [Recovered::PutBack { path: world.clone("a") }]);
}
