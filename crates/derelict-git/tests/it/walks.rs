//! The walk: everything once, nothing across a mount, and no depth or width that stops it.

use derelict_testkit::guards::Mounted;
use derelict_testkit::tree::deep;

use crate::support::World;

#[test]
fn every_entry_is_seen_once_with_the_git_directory() {
    let world = World::new();
    let clone = world.clone(
        "mkdir -p node_modules/p; echo 1 >node_modules/p/x; git submodule add -q \"$UP/sub.git\" sm; git init -q ign/n",
    );
    let found = world.examine(&clone);
    let listed = derelict_testkit::git::tool("find").arg(&clone).output().expect("because find is there");
    let listed = listed.stdout.iter().filter(|byte| **byte == b'\n').count() as u64;
    assert_eq!(found.counter.entries, listed);
}

#[test]
fn a_mount_inside_is_reported_and_not_entered() {
    let world = World::new();
    let clone = world.clone("mkdir -p node_modules/m; mkdir \"$ROOT/outside\"; echo 1 >\"$ROOT/outside/x\"");
    let mount = Mounted::bind(&world.root().join("outside"), &clone.join("node_modules/m"));
    let found = crate::support::probe(&clone, &world.around());
    drop(mount);
    assert_eq!(found.counter.mounts, ["node_modules/m"]);
    assert_eq!(found.findings(), Vec::<String>::new());
}

#[test]
fn a_tree_deeper_than_any_path_is_walked_with_few_descriptors() {
    let world = World::new();
    let clone = world.clone("mkdir target; printf '[package]\\n' >Cargo.toml; git add Cargo.toml; git commit -qm c; git push -q origin HEAD:refs/heads/c; git fetch -q");
    deep(&clone.join("target"), "level", 20_000);
    let found = crate::support::probe(&clone, &world.around());
    assert_eq!(found.counter.unreadable, Vec::<String>::new());
    assert!(found.counter.entries > 20_000, "{}", found.counter.entries);
}
