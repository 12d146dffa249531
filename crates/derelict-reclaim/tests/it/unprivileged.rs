//! What an ordinary user meets: directories that shut even their owner out, and files of others.
//! Each test runs in a process of that user.

use derelict_testkit::scratch::{exists, give_to, mkdir, set_mode, write};

use crate::kit::{World, in_own_process, names, refusal, refused, removed, world_of_this_process};

const NOBODY: u32 = 65_534;

const AS_NOBODY: &[&str] = &["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

fn denied(why: &str) -> String {
    format!("Permission denied (os error 13){why}")
}

/// A world that belongs to the user the test runs as.
fn theirs() -> World {
    let world = World::new();
    let clone = world.make_clone("a");
    for shut in ["read-only/f", "read-only/sub/f", "shut/sub/f", "blind/f", "empty/f"] {
        write(clone.join(shut), "x");
    }
    mkdir(world.state());
    give_to(world.base(), NOBODY);
    world
}

#[test]
fn directories_that_shut_their_owner_out_go() {
    let world = theirs();
    in_own_process(&world, AS_NOBODY, "unprivileged::as_nobody_with_directories_that_shut_out");
    assert!(world.names().is_empty());
}

#[test]
#[ignore = "run by `directories_that_shut_their_owner_out_go` as another user"]
fn as_nobody_with_directories_that_shut_out() {
    let world = world_of_this_process();
    let clone = world.clone("a");
    for (dir, mode) in [("read-only/sub", 0o500), ("read-only", 0o500), ("shut/sub", 0), ("shut", 0), ("blind", 0o600)]
    {
        set_mode(&clone.join(dir), mode);
    }
    set_mode(&clone, 0o500);
    assert_eq!(removed(world.remove("a")).entries, 16);
}

#[test]
fn files_of_others_are_named_by_the_directory_that_holds_them_and_the_rest_goes() {
    let world = theirs();
    let clone = world.clone("a");
    write(clone.join("foreign/f1"), "x");
    write(clone.join("foreign/f2"), "x");
    write(clone.join("private/f"), "x");
    mkdir(clone.join("foreign-and-empty"));
    write(clone.join("foreign-file"), "x");
    set_mode(&clone.join("private"), 0o700);
    set_mode(&clone.join("foreign-and-empty"), 0o700);
    in_own_process(&world, AS_NOBODY, "unprivileged::as_nobody_with_files_of_others");
}

#[test]
#[ignore = "run by `files_of_others_are_named_by_the_directory_that_holds_them_and_the_rest_goes` as another user"]
fn as_nobody_with_files_of_others() {
    let world = world_of_this_process();
    let (mut refusals, discarded) = refused(world.remove("a"));
    refusals.sort_by(|a, b| a.path.cmp(&b.path));
    let trash = world.clone(format!(".derelict-trash-{}-1-discard", world.journal().id()));
    let named = [refusal(trash.join("foreign"), &denied("")), refusal(trash.join("private"), &denied(""))];
    assert_eq!(refusals, named);
    assert_eq!(names(&trash), ["foreign", "private"]);
    assert_eq!(names(&trash.join("foreign")), ["f1", "f2"]);
    // The clone of `theirs`, less its top, with one empty directory and one file of others.
    assert_eq!(discarded.entries, 15 + 2);
}

#[test]
fn a_clone_in_a_repository_of_others_is_refused_and_stays_whole() {
    let world = theirs();
    // Their locks can be made, and the clone cannot be renamed.
    write(world.repository().join(".lock"), "");
    give_to(world.repository().join(".lock"), NOBODY);
    let owner = std::os::unix::fs::chown(world.repository(), Some(0), Some(0));
    owner.unwrap();
    in_own_process(&world, AS_NOBODY, "unprivileged::as_nobody_in_a_repository_of_others");
    assert!(exists(world.clone("a/file")));
}

#[test]
#[ignore = "run by `a_clone_in_a_repository_of_others_is_refused_and_stays_whole` as another user"]
fn as_nobody_in_a_repository_of_others() {
    let world = world_of_this_process();
    let (refusals, discarded) = refused(world.remove("a"));
    assert_eq!(refusals, [refusal(world.clone("a"), &denied(""))]);
    assert_eq!(discarded.entries, 0);
}

#[test]
fn a_sticky_directory_of_others_is_named_once() {
    let world = theirs();
    let shared = world.clone("a/shared");
    ["f1", "f2"].iter().for_each(|name| write(shared.join(name), "x"));
    write(shared.join("ours"), "x");
    give_to(shared.join("ours"), NOBODY);
    set_mode(&shared, 0o1777);
    in_own_process(&world, AS_NOBODY, "unprivileged::as_nobody_with_a_sticky_directory");
}

#[test]
#[ignore = "run by `a_sticky_directory_of_others_is_named_once` as another user"]
fn as_nobody_with_a_sticky_directory() {
    let world = world_of_this_process();
    let (refusals, _) = refused(world.remove("a"));
    let trash = world.clone(format!(".derelict-trash-{}-1-discard", world.journal().id()));
    let why = "Operation not permitted (os error 1): it is sticky, and holds files of others";
    assert_eq!(refusals, [refusal(trash.join("shared"), why)]);
    assert_eq!(names(&trash.join("shared")), ["f1", "f2"]);
}
