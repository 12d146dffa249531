//! A disk without a free byte: the deletion that frees it begins, is written down, and survives a crash,
//! on the first run of all too.

use std::path::{Path, PathBuf};

use derelict_core::ids::IntentId;
use derelict_core::outcome::{Fate, FateName, Outcome, StopReason};
use derelict_core::record::Disposal;
use derelict_reclaim::beneath::Root;
use derelict_reclaim::journal::JOURNAL_FILE;
use derelict_reclaim::recover::{Recovered, carried_by_names};
use derelict_testkit::disks::{Disk, FileSystem, fill};
use derelict_testkit::guards::{Flock, Immutable, Mounted};
use derelict_testkit::scratch::{Scratch, exists, mkdir, read, rename, write};
use derelict_testkit::tree::Snapshot;

use crate::kit::{NOW, World, identity, outcome};

/// What keeps a small file system mounted.
enum Medium {
    Disk { _disk: Disk },
    Memory { _mounted: Mounted },
}

/// A world on a file system of its own, with the clones `a` and `b`, and without a state directory.
struct Small {
    world: World,
    // The world's file system goes before the directory it is mounted in.
    _medium: Medium,
    _scratch: Scratch,
}

fn small(on: fn(&Path) -> Medium) -> Small {
    let scratch = Scratch::new();
    let base = scratch.path().join("small");
    mkdir(&base);
    let medium = on(&base);
    let world = World::at(&base);
    mkdir(world.repository().join(".bare"));
    mkdir(world.cache().join("launch-locks"));
    for id in ["a", "b"] {
        write(world.make_clone(id).join("ballast"), vec![1; 50_000]);
    }
    Small { world, _medium: medium, _scratch: scratch }
}

fn ext4(at: &Path) -> Medium {
    Medium::Disk { _disk: Disk::mounted(FileSystem::Ext4, at) }
}

fn memory(at: &Path) -> Medium {
    let mounted = Mounted::tmpfs(at);
    rustix::mount::mount_remount(at, rustix::mount::MountFlags::empty(), "size=2m").expect("because it is mounted");
    Medium::Memory { _mounted: mounted }
}

fn journal_text(world: &World) -> String {
    String::from_utf8(read(world.state().join(JOURNAL_FILE))).expect("because JSON is text")
}

/// The trash name that carries the intent for a clone.
fn told_name(world: &World, id: &str, stage: &str) -> PathBuf {
    let identity = identity(&world.clone(id));
    let birth = identity.birth.expect("because this file system keeps it");
    let (seconds, nanoseconds) = (birth.seconds(), birth.subsecond_nanoseconds());
    world.clone(format!(".derelict-trash-0-{:x}-{seconds:x}.{nanoseconds:x}-{stage}-{id}", identity.ino))
}

#[test]
fn the_first_run_of_all_frees_a_full_disk_and_writes_down_what_went() {
    for on in [ext4, memory] {
        let small = small(on);
        let world = &small.world;
        fill(world.base());
        let report = world.sweep(vec![world.candidate("a"), world.candidate("b")], |_| {});
        assert_eq!(report.stop, StopReason::Finished);
        assert_eq!(report.tally().of(FateName::Removed), 2);
        let intents: Vec<_> = report.settled.iter().map(|settled| settled.intent).collect();
        assert_eq!(intents, [Some(IntentId::IN_NAME), Some(IntentId(1))]);
        assert!(world.names().is_empty());
        let text = journal_text(world);
        let kinds: Vec<&str> =
            text.lines().map(|line| line.split('"').nth(5).expect("because it has a kind")).collect();
        assert_eq!(kinds, ["journal", "late", "intent", "settled"]);
        assert!(text.lines().nth(1).is_some_and(|line| line.contains("\"outcome\":\"removed\"")), "{text}");
        assert_eq!(world.recover().recovered, []);
    }
}

#[test]
fn where_there_is_a_journal_without_room_the_same_holds() {
    let small = small(ext4);
    let world = &small.world;
    drop(world.journal());
    // Without what was reserved when it was made, as after restoring a backup, and with its last block full.
    let journal = world.state().join(JOURNAL_FILE);
    let mut text = read(&journal);
    let sweep = b"{\"v\":1,\"kind\":\"sweep\"}\n";
    while text.len() + sweep.len() <= 4096 {
        text.extend(sweep);
    }
    derelict_testkit::scratch::remove(&journal);
    write(&journal, text);
    fill(world.base());
    assert!(matches!(world.remove("a"), Outcome::Removed { .. }));
    assert!(journal_text(world).lines().last().is_some_and(|line| line.contains("\"kind\":\"late\"")));
    assert_eq!(world.recover().recovered, []);
}

#[test]
fn what_was_only_fenced_when_the_first_run_died_is_put_back() {
    let small = small(ext4);
    let world = &small.world;
    let before = Snapshot::of(world.clone("a"));
    let whole = told_name(world, "a", "whole");
    rename(world.clone("a"), &whole);
    fill(world.base());
    let root = Root::open(&world.cache().join("repos")).unwrap();
    let carried = carried_by_names(&root, std::num::NonZeroUsize::new(3).unwrap());
    assert_eq!(carried.iter().map(|candidate| candidate.path.clone()).collect::<Vec<_>>(), [world.clone("a")]);
    assert_eq!(world.recover().recovered, [Recovered::PutBack { path: world.clone("a") }]);
    before.assert_unchanged();
    assert_eq!(world.recover().recovered, []);
}

#[test]
fn what_was_being_discarded_when_the_first_run_died_is_finished() {
    let small = small(ext4);
    let world = &small.world;
    let begun = told_name(world, "a", "discard");
    rename(world.clone("a"), &begun);
    fill(world.base());
    let recovered = world.recover().recovered;
    assert!(
        matches!(&recovered[..], [Recovered::Finished { discarded, .. }] if discarded.entries == 6),
        "{recovered:?}"
    );
    assert_eq!(world.names(), ["b"]);
    assert!(journal_text(world).contains("\"how\":\"finished\""));
}

#[test]
fn a_name_that_tells_of_another_directory_is_not_believed() {
    let small = small(ext4);
    let world = &small.world;
    for stage in ["whole", "discard"] {
        let told = told_name(world, "a", stage);
        write(told.join("precious"), "only copy");
        let why = "it is not the directory its name tells of".to_owned();
        assert_eq!(world.recover().recovered, [Recovered::Undecided { path: told.clone(), why }]);
        assert!(exists(told.join("precious")));
        derelict_testkit::scratch::remove(told);
    }
}

#[test]
fn another_derelict_that_has_it_in_hand_is_not_disturbed() {
    let small = small(ext4);
    let world = &small.world;
    for (id, stage) in [("a", "whole"), ("b", "discard")] {
        let told = told_name(world, id, stage);
        rename(world.clone(id), &told);
        let held = Flock::directory(&told);
        let recovered = world.recover().recovered;
        assert!(
            matches!(&recovered[..], [Recovered::Undecided { .. } | Recovered::Unfinished { .. }]),
            "{recovered:?}"
        );
        assert!(recovered[0].to_string().contains("somebody holds a lock (flock) on it"));
        drop(held);
        rename(&told, world.clone(id));
        assert!(exists(world.clone(id).join("dir/inner")));
    }
}

#[test]
fn setting_aside_frees_nothing_and_so_does_not_begin_without_a_journal() {
    let small = small(ext4);
    let world = &small.world;
    fill(world.base());
    let before = Snapshot::of(world.clone("a"));
    let until = NOW.after(std::time::Duration::from_secs(60));
    let report = world.sweep_with(Disposal::Quarantine { until }, vec![world.candidate("a")], |_| {});
    assert!(matches!(&report.stop, StopReason::JournalLost(why) if why.contains("No space left")), "{:?}", report.stop);
    assert!(matches!(report.settled[0].fate, Fate::Settled(Outcome::Interrupted { .. })));
    before.assert_unchanged();
}

#[test]
fn a_journal_on_another_disk_that_is_full_lets_nothing_begin() {
    let world = World::new();
    world.make_clone("a");
    mkdir(world.state());
    let _full = memory(&world.state());
    fill(&world.state());
    let report = world.sweep(vec![world.candidate("a")], |_| {});
    assert!(matches!(report.stop, StopReason::JournalLost(_)));
    assert!(exists(world.clone("a/file")));
}

#[test]
fn something_stuck_in_the_first_removal_is_finished_by_a_later_run() {
    let small = small(ext4);
    let world = &small.world;
    let frozen = Immutable::set(&world.clone("a/dir/inner"), world.base());
    let begun = told_name(world, "a", "discard");
    fill(world.base());
    let stuck = outcome(world.sweep(vec![world.candidate("a")], |_| {}));
    assert!(matches!(&stuck, Outcome::Refused { refusals, .. } if refusals.first().path == begun.join("dir/inner")));
    assert!(matches!(world.recover().recovered[..], [Recovered::Unfinished { .. }]));
    drop(frozen);
    assert!(matches!(world.recover().recovered[..], [Recovered::Finished { .. }]));
    assert_eq!(world.names(), ["b"]);
    assert_eq!(world.recover().recovered, []);
}
