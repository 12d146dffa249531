//! Who owns a clone: a living workspace at, under or above it, wherever it is named, and by identity. What
//! contradicts itself or cannot be read keeps.

use derelict_testkit::devlaunch::REPOSITORY;
use derelict_testkit::git::which;
use derelict_testkit::records::Record;
use derelict_testkit::scratch::{mkdir, rename, symlink, write};
use derelict_testkit::{Cache, Snapshot};
use serde_json::{Value, json};

use crate::support::{Report, derelict, prune, prune_json};

/// A clone `a` that `source` is to own, and a clone `b` that nobody does; and the report of `prune -y`.
fn owned_by(source: impl FnOnce(&Cache) -> Value) -> (Cache, Report) {
    let mut cache = Cache::small();
    cache.clean("a");
    cache.clean("b");
    let source = source(&cache);
    cache.add_living("owner", &source);
    let report = prune_json(&cache, &["-y"], 0);
    (cache, report)
}

#[track_caller]
fn assert_only_b_went((cache, report): (Cache, Report), verdict: &str) {
    assert_eq!((report.verdict("a").as_str(), report.verdict("b").as_str()), (verdict, "clean"));
    assert_eq!(cache.leaves(REPOSITORY), ["a"]);
}

#[test]
fn a_source_below_a_clone_references_it() {
    let owned = owned_by(|cache| {
        mkdir(cache.path_of("a").join("src/deep"));
        json!({ "localFolder": cache.path_of("a").join("src/deep") })
    });
    assert_only_b_went(owned, "referenced");
}

#[test]
fn a_source_below_a_clone_that_is_not_there_any_more_keeps_it() {
    let mut cache = Cache::small();
    cache.clean("a");
    let sub = cache.path_of("a").join("removed/long/ago");
    cache.add_living("owner", &json!({ "localFolder": sub }));
    let report = Report(derelict(&cache, &["prune", "-y", "--json"]).finish().json());
    assert_ne!(report.verdict("a"), "clean");
    assert_eq!(cache.leaves(REPOSITORY), ["a"]);
}

#[test]
fn a_source_reached_through_a_symlink_references_the_clone() {
    let owned = owned_by(|cache| {
        symlink(cache.repository(REPOSITORY), cache.elsewhere().join("link"));
        json!({ "localFolder": cache.elsewhere().join("link/a") })
    });
    assert_only_b_went(owned, "referenced");
}

#[test]
fn a_source_spelt_with_dots_and_slashes_references_the_clone() {
    let owned =
        owned_by(|cache| json!({ "localFolder": format!("{}/../w//./a/", cache.repository(REPOSITORY).display()) }));
    assert_only_b_went(owned, "referenced");
}

#[test]
fn a_git_repository_that_is_a_local_path_references_the_clone() {
    assert_only_b_went(owned_by(|cache| json!({ "gitRepository": cache.path_of("a") })), "referenced");
}

#[test]
fn a_source_above_the_clones_keeps_all_of_them() {
    for above in ["", "repos", "repos/acme", "repos/acme/w"] {
        let mut cache = Cache::small();
        cache.clean("a");
        cache.clean("b");
        let source = cache.dir().join(above);
        cache.add_living("owner", &json!({ "localFolder": source }));
        let report = Report(derelict(&cache, &["prune", "-y", "--json"]).finish().json());
        assert_eq!(report.removals(), [""; 0], "{above}");
        assert_eq!(cache.leaves(REPOSITORY), ["a", "b"], "{above}");
    }
}

#[test]
fn a_workspace_in_another_context_only_references_the_clone() {
    let mut cache = Cache::small();
    cache.clean("a");
    cache.clean("b");
    let source = json!({ "localFolder": cache.path_of("a") });
    cache.write_workspace_file("second", "a", &source);
    let report = prune_json(&cache, &["-y"], 0);
    assert_only_b_went((cache, report), "referenced");
}

#[test]
fn a_workspace_file_that_cannot_be_parsed_makes_its_id_live() {
    for text in ["", "{", "[]", "null", "{\"id\":", "\u{0}"] {
        let mut cache = Cache::small();
        cache.clean("a");
        cache.clean("b");
        write(cache.workspace_file("default", "a"), text);
        let report = prune_json(&cache, &["-y"], 1);
        assert_eq!((report.verdict("a").as_str(), report.verdict("b").as_str()), ("undetermined", "clean"), "{text:?}");
        assert!(report.reasons("a").contains("workspace.json"), "{}", report.reasons("a"));
        assert_eq!(cache.leaves(REPOSITORY), ["a"], "{text:?}");
    }
}

#[test]
fn a_workspace_file_of_an_unknown_id_that_cannot_be_parsed_could_be_any_clone() {
    let mut cache = Cache::small();
    cache.clean("a");
    write(cache.workspace_file("default", "nobody-knows"), "{");
    let report = prune_json(&cache, &["-y"], 1);
    assert_eq!(report.verdict("a"), "undetermined");
    assert_eq!(cache.leaves(REPOSITORY), ["a"]);
}

#[test]
fn a_workspace_without_a_readable_source_could_be_the_clone_of_its_name() {
    for source in [json!({}), json!({ "localFolder": "" }), json!(null), json!({ "localFolder": 7 })] {
        let mut cache = Cache::small();
        cache.clean("a");
        cache.add_living("a", &source);
        let report = prune_json(&cache, &["-y", "--force"], 1);
        assert_eq!(report.verdict("a"), "undetermined", "{source}");
        assert_eq!(cache.leaves(REPOSITORY), ["a"], "{source}");
    }
}

#[test]
fn a_record_whose_owner_lives_elsewhere_is_disputed_and_never_removed() {
    let sources = [
        json!({ "localFolder": "ELSEWHERE" }),
        json!({ "gitRepository": "https://example.org/x.git" }),
        json!({ "gitRepository": "git@example.org:x.git" }),
        json!({ "image": "debian" }),
    ];
    for source in sources {
        let mut cache = Cache::small();
        cache.add_clone(REPOSITORY, "a", "a");
        cache.add_record(REPOSITORY, "a", "a", Some("alive"));
        cache.clean("b");
        let source = match source["localFolder"].as_str() {
            Some(_) => json!({ "localFolder": cache.elsewhere() }),
            None => source,
        };
        cache.add_living("alive", &source);
        let report = prune_json(&cache, &["-y", "--force"], 0);
        assert_eq!((report.verdict("a").as_str(), report.verdict("b").as_str()), ("disputed", "clean"), "{source}");
        assert!(report.reasons("a").contains("alive"), "{}", report.reasons("a"));
        assert_eq!(cache.leaves(REPOSITORY), ["a"], "{source}");
        prune(&cache, &["-y"]).expect_code(0).expect_stdout("metadata.json");
    }
}

#[test]
fn a_record_under_another_id_ties_its_clone_to_a_living_owner_by_its_path() {
    let mut cache = Cache::small();
    let clone = cache.add_clone(REPOSITORY, "a", "a");
    symlink(&clone, cache.elsewhere().join("link"));
    cache.file_record(Record {
        repository: REPOSITORY.into(),
        branch: "a".into(),
        id: "unlike-the-leaf".into(),
        local_path: cache.elsewhere().join("link"),
        devpod: Some("alive".into()),
    });
    let elsewhere = cache.elsewhere();
    cache.add_living("alive", &json!({ "localFolder": elsewhere }));
    let report = prune_json(&cache, &["-y"], 0);
    assert_eq!(report.verdict("a"), "disputed");
    assert_eq!(cache.leaves(REPOSITORY), ["a"]);
}

#[test]
fn a_listing_that_is_nested_without_end_is_not_understood() {
    let mut cache = Cache::small();
    cache.clean("a");
    cache.set_listing(&"[".repeat(200_000));
    prune(&cache, &["-y"]).expect_code(3).expect_stderr("devpod");
    assert_eq!(cache.leaves(REPOSITORY), ["a"]);
}

#[test]
fn a_listing_that_cannot_be_understood_removes_nothing_and_says_so() {
    for listing in
        ["", "not json", "{}", "null", "[1]", "[{}]", "[{\"source\":{}}]", "[]]", "{\"a\":[]}", "[{\"id\":\"x\"}"]
    {
        let mut cache = Cache::small();
        cache.clean("a");
        cache.set_listing(listing);
        let before = Snapshot::of(cache.root().join("cache"));
        for arguments in [&["-y"][..], &["-n"], &["-y", "--force"]] {
            let finished = prune(&cache, arguments);
            finished.expect_code(3).expect_stderr("error: ").expect_stderr("devpod");
        }
        let finished = prune(&cache, &["-y", "--json"]);
        finished.expect_code(3);
        assert_eq!(
            (&finished.json()["exit_code"], finished.json()["error"].is_string()),
            (&json!(3), true),
            "{finished}"
        );
        before.assert_unchanged();
    }
}

#[test]
fn a_devpod_that_fails_removes_nothing_and_its_own_words_are_shown() {
    let mut cache = Cache::small();
    cache.clean("a");
    cache.fail_devpod(7, "cannot reach the daemon");
    let before = Snapshot::of(cache.root().join("cache"));
    prune(&cache, &["-y"]).expect_code(3).expect_stderr("devpod").expect_stderr("cannot reach the daemon");
    before.assert_unchanged();
}

#[test]
fn a_devpod_that_is_missing_removes_nothing_and_is_named() {
    let mut cache = Cache::small();
    cache.clean("a");
    cache.uninstall_devpod();
    let before = Snapshot::of(cache.root().join("cache"));
    let finished = prune(&cache, &["-y"]);
    finished.expect_code(3).expect_stderr("error: ").expect_stderr("devpod");
    assert_eq!(finished.stderr.trim_end().lines().count(), 1, "{finished}");
    before.assert_unchanged();
}

#[test]
fn warnings_of_a_devpod_that_succeeds_are_no_failure() {
    let mut cache = Cache::small();
    cache.clean("a");
    cache.on_listing("echo 'warning: skipped a workspace' >&2");
    prune(&cache, &["-y"]).expect_code(0);
    assert_eq!(cache.leaves(REPOSITORY), [""; 0]);
}

#[test]
fn a_workspace_that_becomes_live_before_its_removal_is_resurrected() {
    let mut cache = Cache::small();
    cache.clean("a");
    cache.clean("b");
    cache.write_workspace_file("later", "a", &json!({ "localFolder": cache.path_of("a") }));
    let (contexts, hidden) = (cache.root().join("devpod/contexts"), cache.root().join("hidden"));
    rename(&contexts, &hidden);
    let mv = which("mv");
    cache.on_listing(&format!("[ $CALL = 1 ] || {} '{}' '{}'", mv.display(), hidden.display(), contexts.display()));
    let report = prune_json(&cache, &["-y"], 0);
    assert_eq!((report.fate("a"), report.fate("b")), ("retained_resurrected".into(), "removed".into()));
    assert_eq!(cache.leaves(REPOSITORY), ["a"]);
}
