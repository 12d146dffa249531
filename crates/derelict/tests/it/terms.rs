//! What is said outside of the clones: git's configuration of the user, and the operator's own words.

use derelict_testkit::Cache;
use derelict_testkit::devlaunch::REPOSITORY;
use derelict_testkit::git::shell;
use derelict_testkit::scratch::write;

use crate::support::{derelict, explain_json, prune_json};

/// A clone with a commit that only the forge has, as far as the clone itself tells.
fn at_the_forge(cache: &mut Cache, id: &str) {
    let clone = cache.clean(id);
    let script = "git remote set-url origin https://forge.example/acme/api.git; echo 1 >n; commit n
        git update-ref refs/remotes/origin/n HEAD; rm -rf .git/logs/refs/remotes";
    shell(&clone, script, &[]);
}

#[test]
fn a_forge_that_the_users_git_leads_to_a_directory_saves_nothing() {
    let mut cache = Cache::small();
    at_the_forge(&mut cache, "f");
    let rule = format!("[url \"{}/\"]\n\tinsteadOf = https://forge.example/\n", cache.root().display());
    write(cache.root().join("other"), &rule);
    for place in ["home/.gitconfig", "config/git/config"] {
        write(cache.root().join(place), &rule);
        let report = prune_json(&cache, &["-y"], 0);
        assert!(report.reasons("f").contains("on branch"), "{place}: {}", report.reasons("f"));
        assert_eq!(explain_json(&cache, &cache.path_of("f"))["verdict"], "unsaved", "{place}");
        derelict_testkit::scratch::rename(cache.root().join(place), cache.root().join("aside"));
    }
    // The variables by which git is told of other files are not asked.
    for variable in ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"] {
        let run = derelict(&cache, &["prune", "-n", "--json"]).env(variable, cache.root().join("other"));
        assert_eq!(crate::support::Report(run.finish().json()).verdict("f"), "clean", "{variable}");
    }
    prune_json(&cache, &["-y"], 0);
    assert_eq!(cache.leaves(REPOSITORY), [""; 0]);
}

#[test]
fn a_configuration_of_git_that_cannot_be_read_keeps_and_is_told() {
    let mut cache = Cache::small();
    at_the_forge(&mut cache, "f");
    write(cache.root().join("home/.gitconfig"), "[url \"x\n");
    let told = derelict(&cache, &["prune", "-y"]).finish();
    told.expect_stdout("no forge saves anything").expect_stdout(".gitconfig");
    assert_eq!(cache.leaves(REPOSITORY), ["f"]);
}

#[test]
fn ignored_changes_go_and_are_told_by_the_plan_explain_and_the_json() {
    let mut cache = Cache::small();
    cache.dirty("d");
    let both = cache.dirty("u");
    write(both.join("new"), "n");
    let words = ["--ignore-changes", "pixi.lock"];
    let plan = derelict(&cache, &[&["prune", "-n"], &words[..]].concat()).finish();
    plan.expect_stdout("; ignored by policy: changed: pixi.lock")
        .expect_stdout("Note: changes to pixi.lock are ignored by policy");
    let place = cache.path_of("d").display().to_string();
    let explained = derelict(&cache, &[&["explain", &place], &words[..]].concat()).finish();
    explained.expect_stdout("changed: pixi.lock, by policy");
    let report = prune_json(&cache, &[&["-y"], &words[..]].concat(), 0);
    let row = &report.0["plan"]["removals"][0];
    assert_eq!((&row["verdict"], &row["allowed"]), (&"clean".into(), &serde_json::json!(["changed: pixi.lock"])));
    assert_eq!(report.reasons("u"), "new: new");
    assert_eq!(cache.leaves(REPOSITORY), ["u"]);
    // Nobody said anything of it this time.
    assert!(prune_json(&cache, &["-n"], 0).reasons("u").contains("changed: pixi.lock"));
}

#[test]
fn a_word_that_cannot_be_meant_is_a_usage_error_that_names_it() {
    let cache = Cache::small();
    for (flag, word, why) in [
        ("--ignore-changes", "!x", "the pattern \"!x\" of ignored changes would take back another one"),
        ("--rebuildable", "out", "the entry \"out\" of rebuildable directories has no witness"),
    ] {
        derelict(&cache, &["prune", "-n", flag, word]).finish().expect_code(2).expect_stderr(why);
    }
}

#[test]
fn a_directory_that_the_operator_knows_to_be_made_again_goes() {
    let mut cache = Cache::small();
    let clone = cache.clean("a");
    shell(&clone, "echo out/ >>.git/info/exclude; mkdir out; echo x >out/x", &[]);
    let witness = ["--rebuildable", "out=pixi.toml"];
    prune_json(&cache, &["-y", "--rebuildable", "out=nothing"], 0);
    assert_eq!(cache.leaves(REPOSITORY), ["a"]);
    prune_json(&cache, &[&["-y"], &witness[..]].concat(), 0);
    assert_eq!(cache.leaves(REPOSITORY), [""; 0]);
}
