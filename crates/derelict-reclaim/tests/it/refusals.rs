//! What does not go: mounts, locked and immutable things. Each is named once, and the rest goes.

use std::path::{Path, PathBuf};

use derelict_core::ids::IntentId;
use derelict_core::outcome::{FateName, Outcome};
use derelict_core::ports::{Opened, Reclaim};
use derelict_core::recheck::{Recheck, SecondLook, recheck};
use derelict_core::verdict::judge;
use derelict_testkit::guards::{Flock, Immutable, Mounted};
use derelict_testkit::scratch::{exists, mkdir, write};
use derelict_testkit::tree::{Snapshot, deep};

use crate::kit::{NOW, World, approved, clean, outcome, policy, refusal, refused};

const MOUNTED: &str = "something is mounted here";

#[test]
fn a_bind_mount_inside_keeps_the_whole_clone() {
    let world = World::new();
    let clone = world.make_clone("a");
    write(world.base().join("outside/precious"), "only copy");
    mkdir(clone.join("dir/mnt"));
    let before = (Snapshot::of(&clone), Snapshot::of(world.base().join("outside")));
    let mounted = Mounted::bind(&world.base().join("outside"), &clone.join("dir/mnt"));
    let (refusals, discarded) = refused(world.remove("a"));
    assert_eq!(refusals, [refusal(clone.join("dir/mnt"), MOUNTED)]);
    assert_eq!(discarded.entries, 0);
    drop(mounted);
    before.0.assert_unchanged();
    before.1.assert_unchanged();
    assert_eq!(crate::kit::removed(world.remove("a")).entries, 6);
}

#[test]
fn a_mounted_file_and_a_mounted_tmpfs_keep_it_too() {
    let world = World::new();
    for (id, is_file) in [("file", true), ("tmpfs", false)] {
        let clone = world.make_clone(id);
        let at = if is_file { clone.join("dir/inner") } else { clone.join("dir") };
        write(world.base().join("precious"), "only copy");
        let _mounted = if is_file { Mounted::bind(&world.base().join("precious"), &at) } else { Mounted::tmpfs(&at) };
        let (refusals, _) = refused(world.remove(id));
        assert_eq!(refusals, [refusal(&at, MOUNTED)]);
        assert!(exists(clone.join("file")));
    }
}

#[test]
fn a_clone_that_is_a_mount_itself_is_not_entered() {
    let world = World::new();
    let clone = world.make_clone("a");
    write(world.base().join("outside/precious"), "only copy");
    let _mounted = Mounted::bind(&world.base().join("outside"), &clone);
    let (refusals, _) = refused(world.remove("a"));
    assert_eq!(refusals, [refusal(&clone, MOUNTED)]);
    assert!(exists(world.base().join("outside/precious")));
}

/// Steps 5 to 7 by hand, with something happening between the fence and the discard.
fn discard_after(world: &World, id: &str, between: impl FnOnce(&Path)) -> Vec<derelict_core::outcome::Refusal> {
    let journal = world.journal();
    let mut reclaimer = world.reclaimer(&journal);
    let approved = approved(vec![world.candidate(id)]);
    let removal = &approved.plan().removals()[0];
    let Opened::Same(handle) = reclaimer.open(&removal.judged().candidate) else { panic!("not opened") };
    let verdict = judge(&clean(), &policy(), NOW);
    let Recheck::Confirmed(permit) = recheck(removal, &clean(), verdict.clone(), &()) else { panic!("not confirmed") };
    let fenced = reclaimer.fence(permit, &handle, IntentId(9)).expect("because nothing is in the way");
    assert!(!exists(world.clone(id)));
    between(&world.clone(format!(".derelict-trash-{}-9", journal.id())));
    let SecondLook::Cleared(cleared) = fenced.second_look(removal, verdict) else { panic!("not cleared") };
    reclaimer.discard(cleared, handle, IntentId(9)).refusals
}

/// Something that was mounted in the trash, and moved with it to one of these places.
struct MountedAtOneOf([PathBuf; 3]);

impl MountedAtOneOf {
    fn new(mounted: Mounted, inside: &str, trash: &Path, clone: &Path) -> Self {
        // It knows only the place it was made at.
        std::mem::forget(mounted);
        let mut begun = trash.to_owned().into_os_string();
        begun.push("-discard");
        Self([trash.to_owned(), clone.to_owned(), begun.into()].map(|tree| tree.join(inside)))
    }
}

impl Drop for MountedAtOneOf {
    fn drop(&mut self) {
        for place in &self.0 {
            // It is at one of them; the others are no mount.
            let _ = rustix::mount::unmount(place, rustix::mount::UnmountFlags::DETACH);
        }
    }
}

fn mount_in(trash: &Path, clone: &Path) -> MountedAtOneOf {
    MountedAtOneOf::new(Mounted::tmpfs(&trash.join("dir")), "dir", trash, clone)
}

#[test]
fn a_mount_that_comes_after_the_fence_puts_the_clone_back_whole() {
    let world = World::new();
    let clone = world.make_clone("a");
    let before = Snapshot::of(&clone);
    let mut mounted = None;
    let refusals = discard_after(&world, "a", |trash| mounted = Some(mount_in(trash, &clone)));
    assert_eq!(refusals, [refusal(clone.join("dir"), MOUNTED)]);
    drop(mounted);
    before.assert_unchanged();
    assert_eq!(world.names(), ["a"]);
}

#[test]
fn a_file_that_is_mounted_after_the_fence_puts_the_clone_back_whole() {
    let world = World::new();
    let clone = world.make_clone("a");
    write(world.base().join("precious"), "only copy");
    let mut mounted = None;
    let refusals = discard_after(&world, "a", |trash| {
        let bound = Mounted::bind(&world.base().join("precious"), &trash.join("file"));
        mounted = Some(MountedAtOneOf::new(bound, "file", trash, &clone));
    });
    assert_eq!(refusals, [refusal(clone.join("file"), MOUNTED)]);
    assert!(exists(clone.join("dir/inner")));
    drop(mounted);
}

#[test]
fn a_clone_that_cannot_go_back_stays_whole_in_the_trash_and_is_told() {
    let world = World::new();
    let clone = world.make_clone("a");
    let mut mounted = None;
    let refusals = discard_after(&world, "a", |trash| {
        mounted = Some(mount_in(trash, &clone));
        write(clone.join("fresh"), "only copy");
    });
    let trash = world.clone(format!(".derelict-trash-{}-9", world.journal().id()));
    let why = format!("{MOUNTED}; it stays whole at {} and was not put back: its name is taken", trash.display());
    assert_eq!(refusals, [refusal(trash.join("dir"), &why)]);
    assert!(exists(clone.join("fresh")) && exists(trash.join("file")));
}

#[test]
fn somebody_elses_lock_on_the_directory_keeps_it() {
    let world = World::new();
    let clone = world.make_clone("a");
    let held = Flock::directory(&clone);
    let (refusals, _) = refused(world.remove("a"));
    assert_eq!(refusals, [refusal(&clone, "somebody holds a lock (flock) on it")]);
    drop(held);
    assert!(matches!(world.remove("a"), Outcome::Removed { .. }));
}

#[test]
fn our_own_lock_is_held_while_it_is_looked_at_again() {
    let world = World::new();
    let clone = world.make_clone("a");
    let mut tried = None;
    world.sweep(vec![world.candidate("a")], |_| tried = Some(std::fs::File::open(&clone).unwrap().try_lock().is_err()));
    assert_eq!(tried, Some(true));
}

#[test]
fn an_immutable_file_is_named_once_and_the_next_start_finishes() {
    let world = World::new();
    let clone = world.make_clone("a");
    write(clone.join("dir/deep/frozen"), "x");
    write(clone.join("dir/deep/sibling"), "x");
    write(
        world.cache().join("metadata.json"),
        format!("{{\"version\":3,\"worktrees\":{{\"k\":{{\"local_path\":{clone:?}}}}}}}"),
    );
    let frozen = Immutable::set(&clone.join("dir/deep/frozen"), world.base());
    let (refusals, discarded) = refused(world.remove("a"));
    let trash = world.clone(format!(".derelict-trash-{}-1-discard", world.journal().id()));
    let why = "Operation not permitted (os error 1): it is immutable";
    assert_eq!(refusals, [refusal(trash.join("dir/deep/frozen"), why)]);
    assert_eq!(discarded.entries, 4);
    assert!(exists(trash.join("dir/deep/frozen")) && !exists(trash.join("dir/deep/sibling")));
    assert!(
        String::from_utf8(derelict_testkit::scratch::read(world.cache().join("metadata.json")))
            .unwrap()
            .contains("local_path")
    );

    let still = world.recover().recovered;
    assert!(
        matches!(&still[..], [derelict_reclaim::recover::Recovered::Unfinished { refusals: again, .. }] if *again == refusals)
    );
    drop(frozen);
    match &world.recover().recovered[..] {
        [derelict_reclaim::recover::Recovered::Finished { path, discarded, release }] => {
            assert_eq!((path, discarded.entries), (&clone, 4));
            assert_eq!(
                *release,
                derelict_core::outcome::Release::Dropped(derelict_core::ids::NonEmpty::of("k".into()))
            );
        }
        other => panic!("{other:?}"),
    }
    assert!(world.names().is_empty());
    assert_eq!(world.recover().recovered, []);
}

#[test]
fn an_immutable_directory_is_named_instead_of_what_it_holds() {
    let world = World::new();
    let clone = world.make_clone("a");
    for name in ["f1", "f2", "sub/f3", "sub/sub/f4"] {
        write(clone.join("dir").join(name), "x");
    }
    let _frozen =
        (Immutable::set(&clone.join("dir"), world.base()), Immutable::set(&clone.join("dir/sub/f3"), world.base()));
    let (refusals, _) = refused(world.remove("a"));
    let trash = world.clone(format!(".derelict-trash-{}-1-discard", world.journal().id()));
    assert_eq!(refusals, [refusal(trash.join("dir"), "Operation not permitted (os error 1): it is immutable")]);
    assert_eq!(crate::kit::names(&trash), ["dir"]);
    assert_eq!(crate::kit::names(&trash.join("dir/sub")), ["f3"]);
}

#[test]
fn something_stuck_at_the_bottom_of_a_deep_tree_is_named_by_a_path_that_can_be_used() {
    let world = World::new();
    let clone = world.make_clone("a");
    deep(&clone, "d", 1_000);
    let bottom = clone.join("d/".repeat(1_000));
    write(bottom.join("frozen"), "x");
    let _frozen = Immutable::set(&bottom.join("frozen"), world.base());
    let (refusals, _) = refused(world.remove("a"));
    assert_eq!(refusals.len(), 1);
    assert!(exists(&refusals[0].path) && refusals[0].path.ends_with("d/frozen"));
}

#[test]
fn one_that_is_stuck_does_not_keep_the_others() {
    let world = World::new();
    let stuck = world.make_clone("stuck");
    world.make_clone("goes");
    let _frozen = Immutable::set(&stuck.join("file"), world.base());
    let report = world.sweep(vec![world.candidate("stuck"), world.candidate("goes")], |_| {});
    let tally = report.tally();
    assert_eq!((tally.of(FateName::Refused), tally.of(FateName::Removed), tally.scanned()), (1, 1, 2));
}

#[test]
fn a_name_that_is_taken_in_the_trash_refuses_and_changes_nothing() {
    let world = World::new();
    let clone = world.make_clone("a");
    let trash = world.clone(format!(".derelict-trash-{}-1", world.journal().id()));
    write(trash.join("f"), "x");
    let before = Snapshot::of(&clone);
    let (refusals, _) = refused(outcome(world.sweep(vec![world.candidate("a")], |_| {})));
    assert_eq!(refusals, [refusal(&clone, &format!("{} exists already", trash.display()))]);
    before.assert_unchanged();
    assert!(exists(trash.join("f")));
}
