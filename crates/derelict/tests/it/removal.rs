//! What goes, goes whole, whatever it is called and however deep it is; nothing else goes with it; and the
//! sizes told are the sizes freed.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use derelict_testkit::devlaunch::REPOSITORY;
use derelict_testkit::scratch::{exists, give_to, mkdir, rename, set_mode, symlink, write};
use derelict_testkit::tree::{bytes_freed_with, deep};
use derelict_testkit::{Cache, Snapshot};
use serde_json::json;

use crate::support::{NOBODY, as_nobody, prune, prune_json};

/// Adds a clone, and gives it a name that git would be asked to make only by accident.
fn clean_named(cache: &mut Cache, name: &[u8]) -> PathBuf {
    let clone = cache.add_clone(REPOSITORY, "odd", "plain");
    let odd = cache.repository(REPOSITORY).join(OsStr::from_bytes(name));
    rename(&clone, &odd);
    odd
}

#[test]
fn clones_of_any_name_go() {
    let names: [&[u8]; 8] =
        [b"-rf", b"*", b" ", b"new\nline", b"\xff\xfe", "a\u{202e}b".as_bytes(), b"\x1b[31mred", b"...hidden"];
    let mut cache = Cache::small();
    let clones: Vec<PathBuf> = names.iter().map(|name| clean_named(&mut cache, name)).collect();
    prune(&cache, &["-y"]).expect_code(0);
    assert_eq!(clones.iter().filter(|clone| exists(clone)).count(), 0);
    assert_eq!(cache.all_leaves(REPOSITORY), [".bare", ".lock"]);
}

#[test]
fn names_inside_a_clone_can_be_anything() {
    let mut cache = Cache::small();
    let clone = cache.clean("a");
    for name in [&b"-rf"[..], b"new\nline", b"\xff\xfe", b" ", b"..."] {
        write(clone.join("target").join(OsStr::from_bytes(name)), "x");
    }
    tag(&clone);
    prune(&cache, &["-y"]).expect_code(0);
    assert_eq!(cache.all_leaves(REPOSITORY), [".bare", ".lock"]);
}

/// Marks `target/` as what it is.
fn tag(clone: &std::path::Path) {
    write(clone.join("target/CACHEDIR.TAG"), "Signature: 8a477f597d28d172789f06886806bc55\n");
}

#[test]
fn a_rebuildable_tree_deeper_than_any_path_goes() {
    let mut cache = Cache::small();
    let clone = cache.clean("a");
    tag(&clone);
    deep(&clone.join("target"), "a-name-of-forty-characters-for-the-depth", 3_000);
    prune(&cache, &["-y"]).expect_code(0);
    assert_eq!(cache.all_leaves(REPOSITORY), [".bare", ".lock"]);
}

#[test]
fn what_a_symlink_in_a_clone_leads_to_is_left_alone() {
    let mut cache = Cache::small();
    let clone = cache.clean("a");
    tag(&clone);
    write(cache.elsewhere().join("precious"), "x");
    symlink(cache.elsewhere(), clone.join("target/out"));
    symlink(cache.elsewhere().join("precious"), clone.join("target/file"));
    symlink("..", clone.join("target/up"));
    let outside = Snapshot::of(cache.elsewhere());
    prune(&cache, &["-y"]).expect_code(0);
    assert_eq!(cache.leaves(REPOSITORY), [""; 0]);
    outside.assert_unchanged();
}

#[test]
fn read_only_directories_of_ones_own_go() {
    let mut cache = Cache::small();
    let clone = cache.clean("a");
    write(clone.join("node_modules/p/i.js"), "x");
    write(clone.join("package.json"), "{}");
    derelict_testkit::git::shell(&clone, "commit p; git push -q origin HEAD:refs/heads/p; git fetch -q", &[]);
    set_mode(&clone.join("node_modules/p"), 0o555);
    give_to(cache.root(), NOBODY);
    as_nobody(&cache, &["prune", "-y"]).expect_code(0);
    assert_eq!(cache.all_leaves(REPOSITORY), [".bare", ".lock"]);
}

#[test]
fn only_real_directories_two_levels_below_are_candidates() {
    let mut cache = Cache::small();
    let clone = cache.clean("a");
    write(cache.repository(REPOSITORY).join("a-file"), "x");
    symlink(&clone, cache.repository(REPOSITORY).join("a-link"));
    write(cache.repos().join("a-file"), "x");
    symlink("w", cache.repos().join("acme/linked"));
    symlink("acme", cache.repos().join("linked"));
    write(cache.repos().join("acme/a-file"), "x");
    mkdir(cache.dir().join("workspace-copies/acme/w/copy"));
    mkdir(cache.dir().join("pixi/deep/er"));
    let verbose = prune(&cache, &["-n", "-v"]);
    verbose.expect_code(0).expect_stdout("a-link").expect_stdout("a-file");
    let plain = prune(&cache, &["-n"]);
    assert!(!plain.stdout.contains("a-link") && !plain.stdout.contains("a-file"), "{plain}");
    let report = prune_json(&cache, &["-y"], 0);
    assert_eq!(report.removals(), ["a"]);
    assert!(report.0["skipped"].to_string().contains("a-link"));
    assert_eq!(cache.leaves(REPOSITORY), ["a-file", "a-link"]);
    for kept in [
        "repos/a-file",
        "repos/linked",
        "repos/acme/linked",
        "repos/acme/a-file",
        "workspace-copies/acme/w/copy",
        "pixi/deep/er",
    ] {
        assert!(exists(cache.dir().join(kept)), "{kept}");
    }
}

#[test]
fn trash_that_nobody_knows_is_never_removed() {
    let mut cache = Cache::small();
    cache.clean("a");
    let trash = clean_named(&mut cache, b".derelict-trash-foreign-7");
    let before = Snapshot::of(&trash);
    prune(&cache, &["-y"]);
    before.assert_unchanged();
    assert_eq!(cache.leaves(REPOSITORY), [""; 0]);
}

#[test]
fn the_bytes_told_are_the_bytes_freed() {
    let mut cache = Cache::small();
    let clone = cache.clean("a");
    let freed = bytes_freed_with(&clone);
    let report = prune_json(&cache, &["-y"], 0);
    let frees = &report.0["plan"]["frees"];
    assert_eq!((frees["bytes"].as_u64(), frees["completeness"].as_str()), (Some(freed), Some("exact")));
    assert_eq!(report.0["result"]["discarded"]["bytes"].as_u64(), Some(freed));
}

#[test]
fn a_file_linked_from_outside_frees_nothing_and_one_shared_by_two_removals_counts_once() {
    let mut cache = Cache::small();
    let (a, b) = (cache.clean("a"), cache.clean("b"));
    write(a.join(".pixi/shared"), vec![7; 1_000_000]);
    std::fs::hard_link(a.join(".pixi/shared"), b.join(".pixi/shared")).expect("because it can be linked");
    write(cache.elsewhere().join("kept"), vec![7; 2_000_000]);
    std::fs::hard_link(cache.elsewhere().join("kept"), a.join(".pixi/kept")).expect("because it can be linked");
    let alone = bytes_freed_with(&a) + bytes_freed_with(&b);
    let shared =
        512 * std::os::unix::fs::MetadataExt::blocks(&a.join(".pixi/shared").metadata().expect("because it is there"));
    let report = prune_json(&cache, &["-y"], 0);
    assert_eq!(report.0["plan"]["frees"]["bytes"].as_u64(), Some(alone + shared));
    assert_eq!(report.0["result"]["discarded"]["bytes"].as_u64(), Some(alone + shared));
}

#[test]
fn limits_take_the_biggest_first_and_the_rest_is_shown_as_beyond() {
    let mut cache = Cache::small();
    for (id, size) in [("small", 1_000), ("big", 3_000_000), ("middle", 1_000_000)] {
        let clone = cache.clean(id);
        write(clone.join(".pixi/ballast"), vec![1; size]);
    }
    let dry = prune_json(&cache, &["-n", "--max-removals", "1"], 0);
    let live = prune_json(&cache, &["-y", "--max-removals", "1"], 0);
    for report in [&dry, &live] {
        assert_eq!(report.removals(), ["big"]);
        assert_eq!(report.0["plan"]["beyond_limit"].as_array().map(Vec::len), Some(2));
    }
    assert_eq!((live.stop(), live.fate("big")), ("limit".into(), "removed".into()));
    assert_eq!(live.0["result"]["tally"], json!({ "removed": 1, "beyond_limit": 2 }));
    assert_eq!(cache.leaves(REPOSITORY), ["middle", "small"]);

    let live = prune_json(&cache, &["-y", "--max-bytes", "500KiB"], 0);
    assert_eq!(live.removals(), ["small"]);
    assert_eq!(cache.leaves(REPOSITORY), ["middle"]);
    let live = prune_json(&cache, &["-y", "--max-removals", "1"], 0);
    assert_eq!(live.stop(), "finished", "a pass that reached everything is not limited");
}
