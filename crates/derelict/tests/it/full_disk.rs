//! The run that is needed most: on a disk that is full.

use derelict_testkit::devlaunch::REPOSITORY;
use derelict_testkit::disks::{Disk, FileSystem, fill};
use derelict_testkit::guards::Mounted;
use derelict_testkit::records::keys;
use derelict_testkit::scratch::{Scratch, exists, mkdir, write};
use derelict_testkit::{Cache, Snapshot};

use crate::support::{derelict, prune};

/// All of a cache and of what is around it, on a file system of its own that can be filled.
struct OnDisk {
    // Dropped in this order: what lies on top goes first.
    _seen_there: Mounted,
    _disk: Disk,
    _scratch: Scratch,
}

fn onto_a_disk(cache: &Cache) -> OnDisk {
    let scratch = Scratch::new();
    let at = scratch.path().join("disk");
    mkdir(&at);
    let disk = Disk::mounted(FileSystem::Ext4, &at);
    let copied = derelict_testkit::git::tool("cp").args(["-a", "--"]).arg(cache.root().join(".")).arg(&at).status();
    assert!(copied.is_ok_and(|status| status.success()), "cannot copy the cache");
    let seen_there = Mounted::bind(&at, cache.root());
    OnDisk { _seen_there: seen_there, _disk: disk, _scratch: scratch }
}

#[test]
fn the_first_run_of_all_frees_a_disk_that_has_not_one_free_block() {
    let mut cache = Cache::small();
    cache.dirty("dirty");
    for id in ["a", "b"] {
        cache.clean(id);
    }
    mkdir(cache.dir().join("launch-locks"));
    write(cache.root().join("devpod.log"), "");
    let _disk = onto_a_disk(&cache);
    fill(cache.root());
    let kept = Snapshot::of(cache.path_of("dirty"));
    assert!(!exists(cache.state()));
    prune(&cache, &["-n"]).expect_code(0);
    prune(&cache, &["-y"]).expect_code(0).expect_stdout("Removed 2 directories");
    kept.assert_unchanged();
    assert_eq!(cache.all_leaves(REPOSITORY), [".bare", ".lock", "dirty"]);
    assert_eq!(keys(&cache.metadata()), ["acme/w/b/dirty"]);
    assert!(exists(cache.state().join("journal.ndjson")));
    prune(&cache, &["-y"]).expect_code(0).expect_stdout("Nothing to prune.");
}

#[test]
fn setting_aside_on_a_full_disk_changes_nothing_and_says_why() {
    let mut cache = Cache::small();
    cache.clean("a");
    mkdir(cache.dir().join("launch-locks"));
    write(cache.root().join("devpod.log"), "");
    let _disk = onto_a_disk(&cache);
    fill(cache.root());
    let before = Snapshot::of(cache.path_of("a"));
    let finished = derelict(&cache, &["prune", "-y", "--quarantine"]).finish();
    finished.expect_code(3).expect_stdout("No space left on device");
    before.assert_unchanged();
}
