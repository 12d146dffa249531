//! What goes: whole trees of any shape, and nothing but them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

use derelict_core::ids::NonEmpty;
use derelict_core::outcome::{Outcome, Release, StopReason};
use derelict_testkit::guards::Mounted;
use derelict_testkit::scratch::{exists, mkdir, read, rename, symlink, write};
use derelict_testkit::tree::{Snapshot, deep};

use crate::kit::{World, in_own_process, outcome, refused, removed, world_of_this_process};

/// Directory entries that one process of 64 descriptors has to remove from one directory; `DERELICT_WIDE` says
/// another number, for example two million.
const WIDE: usize = 200_000;

/// Directory entries in one directory of a disk; that many links one file can have.
const FEWER: usize = 30_000;

/// What that process may need at most, in KiB, the test program itself included.
const MOST_MEMORY_KIB: u64 = 32 * 1024;

#[test]
fn a_clean_clone_goes_with_its_record_and_its_neighbours_stay() {
    let world = World::new();
    let clone = world.make_clone("gone");
    world.make_clone("stays");
    let records = format!(
        "{{\"version\": 3, \"worktrees\": {{\"o/r/a\": {{\"local_path\": {:?}}}, \"o/r/b\": {{\"local_path\": {:?}}}}}}}",
        clone,
        world.clone("stays")
    );
    write(world.cache().join("metadata.json"), &records);
    let stays = Snapshot::of(world.clone("stays"));
    let report = world.sweep(vec![world.candidate("gone")], |_| {});
    assert_eq!(report.stop, StopReason::Finished);
    match outcome(report) {
        Outcome::Removed { discarded, release, .. } => {
            assert_eq!(discarded.entries, 5);
            assert_eq!(release, Release::Dropped(NonEmpty::of("o/r/a".to_owned())));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(world.names(), ["stays"]);
    stays.assert_unchanged();
    assert_eq!(world.recover().recovered, []);
}

#[test]
fn bytes_count_when_the_last_link_goes() {
    let world = World::new();
    let clone = world.clone("a");
    write(clone.join("alone"), [7; 20_000]);
    write(clone.join("twice"), [7; 40_000]);
    std::fs::hard_link(clone.join("twice"), clone.join("again")).unwrap();
    write(world.base().join("outside"), [7; 80_000]);
    std::fs::hard_link(world.base().join("outside"), clone.join("shared")).unwrap();
    let bytes = |name: &str| std::fs::metadata(clone.join(name)).unwrap().blocks() * 512;
    let expected = bytes("alone") + bytes("twice") + bytes("");
    let discarded = removed(world.remove("a"));
    assert_eq!((discarded.entries, discarded.bytes), (5, expected));
    assert_eq!(std::fs::metadata(world.base().join("outside")).unwrap().nlink(), 1);
}

#[test]
fn links_are_unlinked_and_never_followed() {
    let world = World::new();
    write(world.base().join("outside/precious"), "only copy");
    let clone = world.make_clone("a");
    symlink(world.base().join("outside"), clone.join("absolute"));
    symlink("../../../../../outside", clone.join("dir/relative"));
    symlink("absolute", clone.join("chained"));
    let outside = Snapshot::of(world.base().join("outside"));
    assert_eq!(removed(world.remove("a")).entries, 8);
    outside.assert_unchanged();
}

#[test]
fn names_of_any_bytes_go() {
    let world = World::new();
    let names: [&[u8]; 8] = [b"-rf", b" ", b"a\nb", b"\xff\xfe", b"\x1b[31m", b"...", b"\"\\", &[b'n'; 255]];
    for id in names {
        let id = OsStr::from_bytes(id);
        for name in names {
            write(world.clone(id).join(OsStr::from_bytes(name)).join("f"), "x");
        }
        if id.len() < 200 {
            assert_eq!(removed(world.remove(id)).entries, 17, "{id:?}");
        }
    }
    // Its launch lock would be `<255 bytes>.lock`, which no file system takes.
    match world.remove(OsStr::from_bytes(names[7])) {
        Outcome::Busy { lock } => {
            assert!(lock.ends_with("(cannot be taken: File name too long (os error 36))"), "{lock}")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn sixty_thousand_levels_go() {
    let world = World::new();
    mkdir(world.clone("a"));
    deep(&world.clone("a"), "d", 60_000);
    assert_eq!(removed(world.remove("a")).entries, 60_002);
    assert!(world.names().is_empty());
}

#[test]
fn paths_far_beyond_the_longest_go() {
    let world = World::new();
    mkdir(world.clone("a"));
    deep(&world.clone("a"), &"n".repeat(40), 3_000);
    assert_eq!(removed(world.remove("a")).entries, 3_002);
    assert!(world.names().is_empty());
}

#[test]
fn a_wide_directory_goes_with_few_descriptors_and_little_memory() {
    let world = World::new();
    // In memory, because building it takes minutes on a disk.
    let _repositories = Mounted::tmpfs(&world.cache().join("repos"));
    mkdir(world.clone("a"));
    in_own_process(&world, &["prlimit", "--nofile=64"], "removal::in_a_process_of_64_descriptors");
    assert!(world.names().is_empty());
}

#[test]
fn a_wide_directory_goes_from_a_disk_too() {
    let world = World::new();
    let first = world.clone("a").join("f");
    write(&first, "x");
    (1..FEWER).for_each(|n| std::fs::hard_link(&first, world.clone("a").join(format!("f{n}"))).unwrap());
    let bytes =
        std::fs::metadata(&first).unwrap().blocks() * 512 + std::fs::metadata(world.clone("a")).unwrap().blocks() * 512;
    let discarded = removed(world.remove("a"));
    assert_eq!((discarded.entries, discarded.bytes), (FEWER as u64 + 1, bytes));
}

#[test]
#[ignore = "run by `a_wide_directory_goes_with_few_descriptors_and_little_memory` in a process of its own"]
fn in_a_process_of_64_descriptors() {
    let world = world_of_this_process();
    let clone = world.clone("a");
    let wide = crate::kit::wide().map_or(WIDE, |wide| wide.parse().expect("because it is a number"));
    (0..wide).for_each(|n| drop(std::fs::File::create(clone.join(format!("f{n}"))).unwrap()));
    (0..20_000).for_each(|n| mkdir(clone.join(format!("d{n}/inner"))));
    deep(&clone, "deep", 20_000);
    assert_eq!(removed(world.remove("a")).entries, wide as u64 + 40_000 + 20_001 + 1);
    let status = String::from_utf8(read("/proc/self/status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kibibytes: u64 = peak.trim().strip_suffix(" kB").unwrap().parse().unwrap();
    assert!(kibibytes < MOST_MEMORY_KIB, "{kibibytes} KiB");
}

#[test]
fn more_directories_than_one_batch_of_names_go() {
    let world = World::new();
    (0..2_000).for_each(|n| write(world.clone("a").join(format!("{n:0>60}/f")), "x"));
    assert_eq!(removed(world.remove("a")).entries, 4_001);
}

#[test]
fn a_directory_that_came_to_lie_there_since_the_plan_is_not_touched() {
    let world = World::new();
    world.make_clone("a");
    let planned = world.candidate("a");
    derelict_testkit::scratch::remove(world.clone("a"));
    let fresh = world.make_clone("a");
    let before = Snapshot::of(&fresh);
    let (refusals, discarded) = refused(outcome(world.sweep(vec![planned], |_| {})));
    assert_eq!(refusals, [crate::kit::refusal(&fresh, "another directory lies here than the one that was planned")]);
    assert_eq!((discarded.entries, discarded.bytes), (0, 0));
    before.assert_unchanged();
}

#[test]
fn the_same_inode_with_another_birth_is_another_directory() {
    let world = World::new();
    world.make_clone("a");
    let mut planned = world.candidate("a");
    planned.identity.birth = planned.identity.birth.map(|birth| birth.before(std::time::Duration::from_nanos(1)));
    let (refusals, _) = refused(outcome(world.sweep(vec![planned], |_| {})));
    assert_eq!(refusals[0].why, "another directory lies here than the one that was planned");
    assert!(exists(world.clone("a/file")));
}

#[test]
fn a_directory_replaced_after_the_second_look_is_not_fenced() {
    let world = World::new();
    let clone = world.make_clone("a");
    let moved = world.clone("moved");
    let report = world.sweep(vec![world.candidate("a")], |_| {
        rename(&clone, &moved);
        write(clone.join("fresh"), "only copy");
    });
    let (refusals, _) = refused(outcome(report));
    assert_eq!(refusals, [crate::kit::refusal(&clone, "another directory came to lie here")]);
    assert!(exists(clone.join("fresh")) && exists(moved.join("file")));
    assert_eq!(world.names(), ["a", "moved"]);
}

#[test]
fn a_link_that_took_its_place_is_not_followed() {
    let world = World::new();
    world.make_clone("a");
    let planned = world.candidate("a");
    rename(world.clone("a"), world.base().join("elsewhere"));
    symlink(world.base().join("elsewhere"), world.clone("a"));
    let (refusals, _) = refused(outcome(world.sweep(vec![planned.clone()], |_| {})));
    assert_eq!(refusals[0].why, "it is not a directory (any more)");

    rename(world.repository(), world.base().join("o-r"));
    symlink(world.base().join("o-r"), world.repository());
    match outcome(world.sweep(vec![planned], |_| {})) {
        Outcome::Busy { lock } => {
            assert!(lock.ends_with("/o/r (cannot be taken: it is not a directory (any more))"), "{lock}")
        }
        other => panic!("{other:?}"),
    }
    assert!(exists(world.base().join("elsewhere/file")));
}

#[test]
fn what_vanished_is_neither_a_failure_nor_a_removal() {
    let world = World::new();
    world.make_clone("a");
    let planned = world.candidate("a");
    derelict_testkit::scratch::remove(world.clone("a"));
    assert_eq!(outcome(world.sweep(vec![planned.clone()], |_| {})), Outcome::Vanished);
    derelict_testkit::scratch::remove(world.repository());
    assert_eq!(outcome(world.sweep(vec![planned], |_| {})), Outcome::Vanished);
}
