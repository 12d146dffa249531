//! A file system that fails in the middle: each failure is named once, the rest goes, nothing is claimed to be
//! gone that is not, and a later run finishes. One that hangs is waited for, and whoever waits can be killed.

use std::io::Error;

use derelict_core::outcome::FateName;
use derelict_reclaim::recover::Recovered;
use derelict_testkit::faulty::Faulty;
use derelict_testkit::scratch::{exists, mkdir, write};
use rustix::io::Errno;

use crate::kit::{World, names, refusal, refused, removed};

/// A world whose repositories lie on a file system that fails where a name says so.
fn on_faulty() -> (World, Faulty) {
    let world = World::new();
    let faulty = Faulty::mounted(&world.cache().join("repos"));
    mkdir(world.repository().join(".bare"));
    (world, faulty)
}

#[test]
fn each_failure_is_named_once_the_siblings_go_and_a_later_run_finishes() {
    let (world, faulty) = on_faulty();
    let clone = world.make_clone("a");
    for name in ["EBUSY-f", "EIO-f", "ESTALE-f", "sibling"] {
        write(clone.join("dir/deep").join(name), "x");
    }
    for name in ["EBUSY-d", "ENOTEMPTY-d", "LIST-EIO-d", "whole-d"] {
        write(clone.join(name).join("f"), "x");
    }
    let report = world.sweep(vec![world.candidate("a")], |_| {});
    assert_eq!(report.tally().of(FateName::Refused), 1);
    let (mut refusals, _) = refused(crate::kit::outcome(report));
    refusals.sort_by(|a, b| a.path.cmp(&b.path));
    let trash = world.clone(format!(".derelict-trash-{}-1-discard", world.journal().id()));
    let why = |errno: Errno| Error::from(errno).to_string();
    let expected = [
        ("EBUSY-d", Errno::BUSY),
        ("ENOTEMPTY-d", Errno::NOTEMPTY),
        ("LIST-EIO-d", Errno::IO),
        ("dir/deep/EBUSY-f", Errno::BUSY),
        ("dir/deep/EIO-f", Errno::IO),
        ("dir/deep/ESTALE-f", Errno::STALE),
    ];
    assert_eq!(refusals, expected.map(|(path, errno)| refusal(trash.join(path), &why(errno))));
    assert_eq!(names(&trash), ["EBUSY-d", "ENOTEMPTY-d", "LIST-EIO-d", "dir"]);
    assert_eq!(names(&trash.join("dir/deep")), ["EBUSY-f", "EIO-f", "ESTALE-f"]);
    assert!(matches!(world.recover().recovered[..], [Recovered::Unfinished { .. }]));
    faulty.heal();
    assert!(matches!(world.recover().recovered[..], [Recovered::Finished { .. }]));
    assert!(world.names().is_empty());
    assert_eq!(world.recover().recovered, []);
}

#[test]
fn one_that_fails_keeps_no_other() {
    let (world, _faulty) = on_faulty();
    write(world.make_clone("stuck").join("EIO"), "x");
    world.make_clone("goes");
    let tally = world.sweep(vec![world.candidate("stuck"), world.candidate("goes")], |_| {}).tally();
    assert_eq!((tally.of(FateName::Refused), tally.of(FateName::Removed)), (1, 1));
}

#[test]
fn one_that_hangs_is_waited_for() {
    let (world, faulty) = on_faulty();
    write(world.make_clone("a").join("HANG"), "x");
    let outcome = std::thread::scope(|threads| {
        let sweep = threads.spawn(|| world.remove("a"));
        while !faulty.hangs() {
            assert!(!sweep.is_finished(), "it did not come to what hangs");
            std::thread::yield_now();
        }
        assert!(!exists(world.clone("a")), "no path leads to it meanwhile");
        faulty.heal();
        sweep.join().expect("because a removal does not panic")
    });
    assert_eq!(removed(outcome).entries, 6);
}

#[test]
fn whoever_hangs_can_be_killed_and_the_next_start_finishes() {
    let (world, faulty) = on_faulty();
    write(world.make_clone("a").join("HANG"), "x");
    let program = std::env::current_exe().expect("because this program runs");
    let mut child = derelict_testkit::git::tool(program.to_str().expect("because its name is text"))
        .args(["--exact", "faults::in_a_process_that_is_killed", "--ignored"])
        .current_dir(world.base())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("because it can be started");
    while !faulty.hangs() {
        let ended = child.try_wait().expect("because a child can be asked for");
        assert!(ended.is_none(), "it did not come to what hangs: {ended:?}");
        std::thread::yield_now();
    }
    child.kill().expect("because it is ours to kill");
    child.wait().expect("because a child can be waited for");
    faulty.heal();
    assert!(matches!(world.recover().recovered[..], [Recovered::Finished { .. }]));
    assert!(world.names().iter().all(|name| name == ".lock"), "{:?}", world.names());
}

#[test]
#[ignore = "run by `whoever_hangs_can_be_killed_and_the_next_start_finishes` in a process of its own"]
fn in_a_process_that_is_killed() {
    crate::kit::world_of_this_process().remove("a");
}
