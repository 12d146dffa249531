//! File systems with ways of their own: reflinks, subvolumes, and one that becomes read-only in the middle.

use std::path::Path;

use derelict_core::ids::NonEmpty;
use derelict_core::outcome::{Outcome, Refusal};
use derelict_reclaim::recover::Recovered;
use derelict_testkit::disks::{Access, Disk, FileSystem};
use derelict_testkit::git::tool;
use derelict_testkit::scratch::{exists, mkdir, write};
use derelict_testkit::tree::Snapshot;

use crate::kit::{World, outcome, refusal, refused, removed};

/// A world whose repositories lie on a disk of their own.
fn on_disk(kind: FileSystem) -> (World, Disk) {
    let world = World::new();
    let repos = world.cache().join("repos");
    let disk = Disk::mounted(kind, &repos);
    mkdir(world.repository().join(".bare"));
    (world, disk)
}

fn run(program: &str, arguments: &[&str], paths: &[&Path]) {
    let status = tool(program).args(arguments).args(paths).stdout(std::process::Stdio::null()).status();
    assert!(status.is_ok_and(|status| status.success()), "{program} {arguments:?} {paths:?}");
}

#[test]
fn what_shares_its_blocks_with_a_clone_stays_as_it_is() {
    for kind in [FileSystem::Xfs, FileSystem::Btrfs] {
        let (world, _disk) = on_disk(kind);
        let clone = world.make_clone("a");
        let outside = world.cache().join("repos/outside");
        write(outside.join("original"), vec![7; 300_000]);
        run("cp", &["--reflink=always", "--"], &[&outside.join("original"), &clone.join("copy")]);
        run("cp", &["--reflink=always", "--"], &[&clone.join("copy"), &outside.join("again")]);
        let before = Snapshot::of(&outside);
        assert_eq!(removed(world.remove("a")).entries, 6, "{kind:?}");
        before.assert_unchanged();
        assert_eq!(derelict_testkit::scratch::read(outside.join("again")), vec![7; 300_000]);
    }
}

#[test]
fn every_kind_of_disk_gives_back_what_a_clone_took() {
    for kind in FileSystem::ALL {
        let (world, _disk) = on_disk(kind);
        for n in 0..500 {
            write(world.clone("a").join(format!("d{}/f{n}", n % 7)), vec![1; 100]);
        }
        world.make_clone("stays");
        assert_eq!(removed(world.remove("a")).entries, 508, "{kind:?}");
        assert_eq!(world.names(), ["stays"]);
    }
}

#[test]
fn a_subvolume_inside_keeps_the_whole_clone_and_a_later_run_goes_on_without_it() {
    let (world, _disk) = on_disk(FileSystem::Btrfs);
    let clone = world.make_clone("a");
    world.make_clone("sibling");
    let subvolume = clone.join("dir/volume");
    run("btrfs", &["subvolume", "create"], &[&subvolume]);
    write(subvolume.join("precious"), "only copy");
    let (refusals, discarded) = refused(world.remove("a"));
    assert_eq!(refusals, [refusal(&subvolume, "it lies on another device")]);
    assert_eq!(discarded.entries, 0);
    assert!(exists(subvolume.join("precious")) && exists(clone.join("file")));
    removed(world.remove("sibling"));
    run("btrfs", &["subvolume", "delete"], &[&subvolume]);
    assert!(matches!(world.recover().recovered[..], [Recovered::Untouched { .. }]));
    removed(world.remove("a"));
    assert!(world.names().is_empty());
}

#[test]
fn a_clone_that_is_a_subvolume_itself_is_not_entered() {
    let (world, _disk) = on_disk(FileSystem::Btrfs);
    run("btrfs", &["subvolume", "create"], &[&world.clone("a")]);
    write(world.clone("a/precious"), "only copy");
    let (refusals, _) = refused(world.remove("a"));
    assert_eq!(refusals, [refusal(world.clone("a"), "it lies on another device")]);
    assert!(exists(world.clone("a/precious")));
}

#[test]
fn a_disk_that_becomes_read_only_in_the_middle_is_named_once_and_a_later_run_finishes() {
    const FILES: usize = 20_000;
    let (world, disk) = on_disk(FileSystem::Ext4);
    let clone = world.make_clone("a");
    let first = clone.join("file");
    write(&first, "x");
    for n in 1..FILES {
        std::fs::hard_link(&first, clone.join(format!("f{n}"))).unwrap();
    }
    let inside = std::fs::File::open(&clone).unwrap();
    let stuck = std::thread::scope(|threads| {
        let sweep = threads.spawn(|| world.remove("a"));
        let links =
            || rustix::fs::statat(&inside, "file", rustix::fs::AtFlags::empty()).map_or(0, |told| told.st_nlink);
        while links() == FILES as u64 {
            std::thread::yield_now();
        }
        disk.break_down();
        sweep.join().unwrap()
    });
    drop(inside);
    match stuck {
        Outcome::Refused { refusals, discarded } => {
            let trash = world.clone(format!(".derelict-trash-{}-1-discard", world.journal().id()));
            let why = "Read-only file system (os error 30)".to_owned();
            assert_eq!(refusals, NonEmpty::of(Refusal { path: trash, why }));
            assert!(discarded.entries > 0 && discarded.entries < FILES as u64, "{discarded:?}");
        }
        other => panic!("it was not in the middle: {other:?}"),
    }
    assert!(matches!(world.recover().recovered[..], [Recovered::Busy { .. } | Recovered::Unfinished { .. }]));
    disk.repair();
    assert!(matches!(world.recover().recovered[..], [Recovered::Finished { .. }]));
    // The lock of the repository could not be taken away on a disk that is read-only; it harms nobody.
    assert_eq!(world.names(), [".lock"]);
}

#[test]
fn on_a_disk_that_is_read_only_nothing_begins() {
    let (world, disk) = on_disk(FileSystem::Ext4);
    let clone = world.make_clone("a");
    let candidate = world.candidate("a");
    // The lock of the repository would have to be made.
    write(world.repository().join(".lock"), "");
    let before = Snapshot::of(&clone);
    disk.remount(Access::ReadOnly);
    let ended = outcome(world.sweep(vec![candidate], |_| {}));
    assert!(matches!(ended, Outcome::Refused { .. } | Outcome::Busy { .. }), "{ended:?}");
    disk.remount(Access::Writable);
    before.assert_unchanged();
}
