//! What will not go is named once, its siblings go, its record stays, and a later run finishes it. Mounts
//! are refused before anything of the clone is touched.

use derelict_testkit::devlaunch::REPOSITORY;
use derelict_testkit::guards::{Immutable, Mounted};
use derelict_testkit::records::keys;
use derelict_testkit::scratch::{give_to, mkdir, set_mode, write};
use derelict_testkit::{Cache, Mount, Snapshot};

use crate::support::{NOBODY, Report, as_nobody, derelict, everything, prune, prune_json};

#[test]
fn a_clone_with_a_bind_mount_inside_is_kept_and_what_is_mounted_is_untouched() {
    let mut cache = Cache::small();
    let clone = cache.clean("a");
    cache.clean("b");
    mkdir(clone.join(".pixi/mnt"));
    write(cache.elsewhere().join("precious/file"), "x");
    let (outside, inside) = (Snapshot::of(cache.elsewhere()), Snapshot::of(&clone));
    let mount = Mount::Bind { from: cache.elsewhere().join("precious"), at: clone.join(".pixi/mnt") };
    for arguments in [&["prune", "--json", "-y"][..], &["prune", "--json", "-y", "--force"]] {
        let finished = derelict(&cache, arguments).mounted(mount.clone()).finish();
        finished.expect_code(0);
        let report = Report(finished.json());
        assert_eq!(report.verdict("a"), "held");
        assert!(report.reasons("a").contains(".pixi/mnt"), "{}", report.reasons("a"));
    }
    outside.assert_unchanged();
    inside.assert_unchanged();
    assert_eq!(cache.leaves(REPOSITORY), ["a"]);
}

#[test]
fn a_clone_with_another_file_system_inside_is_kept() {
    let mut cache = Cache::small();
    let clone = cache.clean("a");
    mkdir(clone.join(".pixi/mnt"));
    let inside = Snapshot::of(&clone);
    let run = derelict(&cache, &["prune", "-y"]).mounted(Mount::Tmpfs { at: clone.join(".pixi/mnt") });
    run.finish().expect_code(0).expect_stdout(".pixi/mnt");
    inside.assert_unchanged();
}

#[test]
fn a_clone_that_is_itself_a_mount_point_is_kept() {
    let mut cache = Cache::small();
    let clone = cache.clean("a");
    let other = cache.add_clone(REPOSITORY, "other", "other");
    let mounted = cache.elsewhere().join("mounted");
    derelict_testkit::scratch::rename(&other, &mounted);
    let (outside, inside) = (Snapshot::of(&mounted), Snapshot::of(&clone));
    let run = derelict(&cache, &["prune", "-y"]).mounted(Mount::Bind { from: mounted.clone(), at: clone.clone() });
    let finished = run.finish();
    assert!(finished.code() <= 1, "{finished}");
    outside.assert_unchanged();
    inside.assert_unchanged();
}

#[test]
fn a_mount_made_while_the_question_is_open_keeps_the_clone() {
    let mut cache = Cache::small();
    let clone = cache.clean("a");
    mkdir(clone.join(".pixi/mnt"));
    write(cache.elsewhere().join("precious/file"), "x");
    let (outside, inside) = (Snapshot::of(cache.elsewhere()), Snapshot::of(&clone));
    let mut session = derelict(&cache, &["prune"]).on_terminal();
    session.wait_for("[y/N]");
    let mounted = Mounted::bind(&cache.elsewhere().join("precious"), &clone.join(".pixi/mnt"));
    session.answer("y");
    let finished = session.finish();
    drop(mounted);
    finished.expect_code(0);
    outside.assert_unchanged();
    inside.assert_unchanged();
}

#[test]
fn an_immutable_file_is_named_once_and_a_later_run_finishes_the_clone() {
    let mut cache = Cache::small();
    let clone = cache.clean("a");
    cache.clean("b");
    write(clone.join(".pixi/deep/er/stubborn"), "x");
    write(clone.join(".pixi/deep/er/sibling"), "x");
    let immutable = Immutable::set(&clone.join(".pixi/deep/er/stubborn"), cache.root());

    let finished = prune(&cache, &["-y"]);
    finished.expect_code(1);
    assert_eq!(
        finished.stdout.matches("stubborn").count() + finished.stderr.matches("stubborn").count(),
        1,
        "{finished}"
    );
    assert_eq!(keys(&cache.metadata()), ["acme/w/b/a"], "its record stays");
    let left =
        Snapshot::of(cache.repository(REPOSITORY)).without(cache.path_of(".bare")).without(cache.path_of(".lock"));
    // The repository's directory, the clone's, `.pixi`, `deep`, `er` and the file.
    assert_eq!(left.count(), 6, "everything else is gone: {left:?}");

    // It is not forgotten, and not mistaken for done.
    prune(&cache, &["-y"]).expect_code(1).expect_stdout("stubborn");
    assert_eq!(keys(&cache.metadata()), ["acme/w/b/a"]);

    drop(immutable);
    prune(&cache, &["-y"]).expect_code(0);
    assert_eq!(cache.all_leaves(REPOSITORY), [".bare", ".lock"]);
    assert_eq!(keys(&cache.metadata()), [""; 0]);
    prune(&cache, &["-y"]).expect_code(0).expect_stdout("Nothing to prune.");
}

#[test]
fn an_immutable_clone_is_left_whole_and_named() {
    let mut cache = Cache::small();
    let clone = cache.clean("a");
    let before = Snapshot::of(&clone);
    let immutable = Immutable::set(&clone, cache.root());
    let finished = prune(&cache, &["-y"]);
    let leaves = cache.leaves(REPOSITORY);
    drop(immutable);
    finished.expect_code(1);
    assert_eq!((finished.stdout.matches("acme/w/a").count() > 0, leaves), (true, vec!["a".to_owned()]));
    before.assert_unchanged();
}

#[test]
fn files_of_another_user_are_named_once_and_a_run_that_owns_them_finishes() {
    let mut cache = Cache::small();
    let clone = cache.clean("a");
    cache.clean("b");
    write(clone.join(".pixi/docker/made/this"), "x");
    write(clone.join(".pixi/docker/made/that"), "x");
    give_to(cache.root(), NOBODY);
    give_to(clone.join(".pixi/docker"), 0);

    let finished = as_nobody(&cache, &["prune", "-y"]);
    finished.expect_code(1);
    assert_eq!(finished.stdout.matches(".pixi/docker").count(), 1, "named by the outermost obstruction\n{finished}");
    assert_eq!(keys(&cache.metadata()), ["acme/w/b/a"]);
    let names: Vec<String> = cache.all_leaves(REPOSITORY);
    assert!(!names.contains(&"b".to_owned()), "{names:?}");

    give_to(cache.root(), NOBODY);
    as_nobody(&cache, &["prune", "-y"]).expect_code(0);
    assert_eq!(cache.all_leaves(REPOSITORY), [".bare", ".lock"]);
    assert_eq!(keys(&cache.metadata()), [""; 0]);
}

#[test]
fn the_cache_of_another_user_is_not_pruned_by_ones_own_list() {
    let mut cache = Cache::small();
    cache.clean("a");
    give_to(cache.root(), NOBODY);
    let before = everything(&cache);
    prune(&cache, &["-y"]).expect_code(2).expect_stderr("error: ").expect_stderr("65534");
    before.assert_same(&everything(&cache));
}

#[test]
fn a_directory_that_may_not_be_read_leaves_the_clone_undetermined() {
    let mut cache = Cache::small();
    let clone = cache.clean("a");
    cache.clean("b");
    write(clone.join(".pixi/private/file"), "x");
    set_mode(&clone.join(".pixi/private"), 0o700);
    give_to(cache.root(), NOBODY);
    give_to(clone.join(".pixi/private"), 0);
    let inside = Snapshot::of(&clone);
    let finished = as_nobody(&cache, &["prune", "-y", "--json", "--force"]);
    finished.expect_code(1);
    let report = Report(finished.json());
    assert_eq!((report.verdict("a").as_str(), report.fate("b").as_str()), ("undetermined", "removed"));
    assert!(report.reasons("a").contains(".pixi/private"), "{}", report.reasons("a"));
    inside.assert_unchanged();
}

#[test]
fn a_repository_of_another_user_is_read_and_not_obeyed() {
    let mut cache = Cache::small();
    let clone = cache.clean("a");
    cache.dirty("d");
    give_to(clone, NOBODY);
    let report = prune_json(&cache, &["-y"], 0);
    assert_eq!((report.fate("a"), report.verdict("d")), ("removed".into(), "unsaved".into()));
}

#[test]
fn a_state_directory_that_cannot_be_written_stops_before_the_first_removal() {
    let mut cache = Cache::small();
    cache.clean("a");
    write(cache.state(), "a file where the directory would be");
    let before = everything(&cache);
    for arguments in [["-n"], ["-y"]] {
        // What was remembered of the last sweep cannot be read, which is not the same as nothing.
        let finished = prune(&cache, &arguments);
        finished.expect_code(3).expect_stderr("error: ").expect_stderr(&cache.state().display().to_string());
        before.assert_same(&everything(&cache));
    }
}
