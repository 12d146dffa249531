//! The creators' locks: whoever makes a clone keeps it from going, and our own locks leave nothing
//! behind.

use std::path::Path;

use derelict_core::outcome::Outcome;
use derelict_core::ports::Lock;
use derelict_reclaim::lock::DevlaunchLocks;
use derelict_testkit::guards::Flock;
use derelict_testkit::scratch::{exists, mkdir, rename, symlink, write};

use crate::kit::{World, names};

fn busy(world: &World, id: &str) -> String {
    match world.remove(id) {
        Outcome::Busy { lock } => lock,
        other => panic!("not busy: {other:?}"),
    }
}

#[test]
fn a_launch_that_holds_its_lock_keeps_its_clone_and_only_that() {
    let world = World::new();
    let lock = world.cache().join("launch-locks/launched.lock");
    world.make_clone("launched");
    world.make_clone("other");
    let held = Flock::file(&lock);
    assert_eq!(busy(&world, "launched"), lock.display().to_string());
    assert!(matches!(world.remove("other"), Outcome::Removed { .. }));
    drop(held);
    assert!(matches!(world.remove("launched"), Outcome::Removed { .. }));
    assert!(exists(&lock), "a lock file that was there stays");
}

#[test]
fn a_repository_that_is_locked_keeps_its_clones() {
    let world = World::new();
    let lock = world.repository().join(".lock");
    world.make_clone("a");
    let held = Flock::file(&lock);
    assert_eq!(busy(&world, "a"), lock.display().to_string());
    assert_eq!(names(&world.cache().join("launch-locks")), [""; 0]);
    drop(held);
    assert!(matches!(world.remove("a"), Outcome::Removed { .. }));
    assert_eq!(world.names(), [".lock"]);
}

#[test]
fn both_locks_are_held_while_it_goes_and_made_ones_are_gone_afterwards() {
    let world = World::new();
    world.make_clone("a");
    let locks = [world.cache().join("launch-locks/a.lock"), world.repository().join(".lock")];
    let mut held = None;
    world.sweep(vec![world.candidate("a")], |_| {
        held = Some(locks.each_ref().map(|lock| std::fs::File::open(lock).unwrap().try_lock().is_err()));
    });
    assert_eq!(held, Some([true, true]));
    assert_eq!(locks.each_ref().map(exists), [false, false]);
}

#[test]
fn what_is_no_lock_file_is_named_and_not_waited_for() {
    let world = World::new();
    world.make_clone("a");
    let lock = world.cache().join("launch-locks/a.lock");
    mkdir(lock.parent().unwrap());
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &lock, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert_eq!(busy(&world, "a"), format!("{} (cannot be taken: Invalid argument (os error 22))", lock.display()));
    derelict_testkit::scratch::remove(&lock);
    write(world.base().join("outside"), "");
    symlink(world.base().join("outside"), &lock);
    let loops = "Too many levels of symbolic links (os error 40)";
    assert_eq!(busy(&world, "a"), format!("{} (cannot be taken: {loops})", lock.display()));
    assert!(exists(world.clone("a/file")));
}

#[test]
fn a_lock_on_a_file_that_was_unlinked_is_not_taken_for_the_lock() {
    let world = World::new();
    world.make_clone("a");
    let lock = world.cache().join("launch-locks/a.lock");
    let first = Flock::file(&lock);
    rename(&lock, world.base().join("unlinked"));
    let second = Flock::file(&lock);
    drop(first);
    assert_eq!(busy(&world, "a"), lock.display().to_string());
    drop(second);
    assert!(matches!(world.remove("a"), Outcome::Removed { .. }));
}

#[test]
fn without_a_repository_there_is_only_the_launch_to_keep_out() {
    let world = World::new();
    world.make_clone("a");
    let candidate = world.candidate("a");
    derelict_testkit::scratch::remove(world.repository());
    let guard = DevlaunchLocks::new(&world.cache()).acquire(&candidate).unwrap();
    assert_eq!(names(&world.cache().join("launch-locks")), ["a.lock"]);
    drop(guard);
    assert_eq!(names(&world.cache().join("launch-locks")), [""; 0]);
}

#[test]
fn a_place_that_no_lock_is_known_for_is_not_touched() {
    let world = World::new();
    world.make_clone("a");
    let mut candidate = world.candidate("a");
    candidate.below_root = Path::new("o/r/a/dir").to_owned();
    let refused = DevlaunchLocks::new(&world.cache()).acquire(&candidate).unwrap_err();
    assert_eq!(refused.lock, format!("no lock is known for {}", candidate.path.display()));
}
