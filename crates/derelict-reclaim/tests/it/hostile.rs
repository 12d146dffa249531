//! Trees that somebody works against us in, and trees of things that are no files: nothing outside is ever
//! touched, what stands in the way is named once, the rest goes, and a later run finishes.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use derelict_core::outcome::Outcome;
use derelict_reclaim::recover::Recovered;
use derelict_testkit::guards::{Immutable, Mounted};
use derelict_testkit::scratch::{exists, mkdir, rename, symlink, write};
use derelict_testkit::tree::Snapshot;
use rustix::fs::{CWD, FileType, Mode, RenameFlags, makedev, mknodat, renameat_with};

use crate::kit::{World, outcome, refusal, refused, removed};

/// Runs `sweep` while somebody does the same thing over and over again, as fast as it goes.
fn beside<T>(mischief: impl Fn() + Send + Sync, sweep: impl FnOnce() -> T) -> T {
    let (begun, over) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                mischief();
                begun.store(true, Ordering::Relaxed);
            }
        });
        while !begun.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        let swept = std::panic::catch_unwind(std::panic::AssertUnwindSafe(sweep));
        over.store(true, Ordering::Relaxed);
        swept.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Removes the clone `a` while somebody is at work in it, and then finishes it undisturbed.
fn remove_beside(world: &World, mischief: impl Fn() + Send + Sync) {
    let candidate = world.candidate("a");
    let ended = beside(mischief, || outcome(world.sweep(vec![candidate], |_| {})));
    assert!(matches!(ended, Outcome::Removed { .. } | Outcome::Refused { .. }), "{ended:?}");
    world.recover();
    if exists(world.clone("a")) {
        world.remove("a");
    }
    assert!(world.names().is_empty(), "{:?} after {ended:?}", world.names());
    assert_eq!(world.recover().recovered, []);
}

#[test]
fn links_that_are_swapped_for_directories_at_full_speed_lead_nowhere() {
    for _ in 0..3 {
        let world = World::new();
        let (clone, outside) = (world.make_clone("a"), world.base().join("outside"));
        for n in 0..100 {
            write(outside.join(format!("d{n}/precious")), "only copy");
        }
        for n in 0..20 {
            for inner in 0..20 {
                write(clone.join(format!("t{n}/d{inner}/f")), "x");
            }
            symlink(&outside, clone.join(format!("l{n}")));
        }
        let before = Snapshot::of(&outside);
        // By descriptor: no path leads to it any more once it is fenced.
        let top = std::fs::File::open(&clone).expect("because it was made");
        remove_beside(&world, || {
            for n in 0..20 {
                // Each fails once what it would swap is gone.
                let _ = renameat_with(&top, format!("t{n}"), &top, format!("l{n}"), RenameFlags::EXCHANGE);
            }
        });
        before.assert_unchanged();
    }
}

#[test]
fn directories_that_are_moved_out_and_in_take_nothing_else_with_them() {
    for _ in 0..3 {
        let world = World::new();
        let (clone, outside) = (world.make_clone("a"), world.base().join("outside"));
        write(outside.join("precious/file"), "only copy");
        for n in 0..10 {
            for inner in 0..20 {
                write(clone.join(format!("deep/er/m{n}/d{inner}/e/f")), "x");
            }
        }
        let before = Snapshot::of(outside.join("precious"));
        let inside = std::fs::File::open(clone.join("deep/er")).expect("because it was made");
        remove_beside(&world, || {
            for n in 0..10 {
                let (name, out) = (format!("m{n}"), outside.join(format!("m{n}")));
                // Each fails once what it would move, or where it would move it, is gone.
                let _ = renameat_with(&inside, &name, CWD, &out, RenameFlags::NOREPLACE);
                let _ = renameat_with(CWD, &out, &inside, &name, RenameFlags::NOREPLACE);
            }
        });
        before.assert_unchanged();
    }
}

#[test]
fn an_overlay_mounted_inside_keeps_the_clone_and_both_its_layers() {
    let world = World::new();
    let clone = world.make_clone("a");
    for (layer, file) in [("lower", "below"), ("upper", "above")] {
        write(world.base().join("layers").join(layer).join(file), "only copy");
    }
    let layers = world.base().join("layers");
    mkdir(layers.join("work"));
    let before = Snapshot::of(&clone);
    let at = clone.join("dir");
    let overlay = Mounted::overlay(&layers.join("lower"), &layers.join("upper"), &layers.join("work"), &at);
    let (refusals, _) = refused(world.remove("a"));
    assert_eq!(refusals, [refusal(&at, "something is mounted here")]);
    drop(overlay);
    before.assert_unchanged();
    assert!(exists(layers.join("lower/below")) && exists(layers.join("upper/above")));
    removed(world.remove("a"));
}

#[test]
fn clones_made_on_an_overlay_go_and_those_of_its_lower_layer_cannot_be_fenced_and_stay() {
    let world = World::new();
    let layers = world.base().join("layers");
    for dir in ["upper", "work"] {
        mkdir(layers.join(dir));
    }
    world.make_clone("a");
    let lower = layers.join("lower");
    rename(world.cache().join("repos"), &lower);
    mkdir(world.cache().join("repos"));
    let _overlay = Mounted::overlay(&lower, &layers.join("upper"), &layers.join("work"), &world.cache().join("repos"));
    world.make_clone("made");
    assert_eq!(removed(world.remove("made")).entries, 5);
    // The kernel renames no directory of a lower layer, so nothing of it is discarded either.
    let (refusals, discarded) = refused(world.remove("a"));
    assert_eq!(refusals, [refusal(world.clone("a"), "Invalid cross-device link (os error 18)")]);
    assert_eq!((discarded.entries, world.names()), (0, vec!["a".to_owned()]));
    assert!(exists(world.clone("a/dir/inner")) && exists(lower.join("o/r/a/dir/inner")));
}

#[test]
fn append_only_files_and_directories_are_named_once_and_a_later_run_finishes() {
    let world = World::new();
    let clone = world.make_clone("a");
    write(clone.join("log/lines"), "x");
    write(clone.join("log/sibling"), "x");
    write(clone.join("kept/one"), "x");
    write(clone.join("kept/two"), "x");
    let flagged = [clone.join("log/lines"), clone.join("kept")].map(|path| Immutable::append_only(&path, world.base()));
    let (mut refusals, discarded) = refused(world.remove("a"));
    let trash = world.clone(format!(".derelict-trash-{}-1-discard", world.journal().id()));
    let why = "Operation not permitted (os error 1): it is append-only";
    refusals.sort_by(|a, b| a.path.cmp(&b.path));
    assert_eq!(refusals, [refusal(trash.join("kept"), why), refusal(trash.join("log/lines"), why)]);
    assert_eq!(discarded.entries, 5);
    drop(flagged);
    assert!(matches!(world.recover().recovered[..], [Recovered::Finished { .. }]));
    assert!(world.names().is_empty());
}

#[test]
fn sockets_pipes_and_devices_go_and_none_is_opened() {
    let world = World::new();
    let clone = world.make_clone("a");
    let node = |name: &str, kind, device| {
        let made = mknodat(CWD, clone.join("dir").join(name), kind, Mode::RUSR, device);
        made.unwrap_or_else(|errno| panic!("cannot make {name}: {errno}"));
    };
    // Whoever opens the pipe waits for ever; whoever opens a device that is not there fails.
    node("pipe", FileType::Fifo, 0);
    node("character", FileType::CharacterDevice, makedev(250, 250));
    node("block", FileType::BlockDevice, makedev(250, 250));
    let _socket = std::os::unix::net::UnixListener::bind(clone.join("dir/socket")).expect("because its name is short");
    symlink("pipe", clone.join("dir/to-pipe"));
    assert_eq!(removed(world.remove("a")).entries, 10);
    assert!(world.names().is_empty());
}

#[test]
fn a_name_that_is_remade_as_fast_as_it_goes_does_not_keep_us_for_ever() {
    let world = World::new();
    let clone = world.make_clone("a");
    let dir = std::fs::File::open(clone.join("dir")).expect("because it was made");
    let remake = |name: &Path| {
        // It fails once the directory itself is gone.
        let _ = rustix::fs::mkdirat(&dir, name, Mode::RWXU);
    };
    remove_beside(&world, || ["x", "y", "z"].iter().for_each(|name| remake(Path::new(name))));
}
