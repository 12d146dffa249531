//! `explain` shows the evidence and the rule that decided, for each verdict, and agrees with `prune`.

use derelict_testkit::Cache;
use derelict_testkit::devlaunch::REPOSITORY;
use derelict_testkit::scratch::{mkdir, remove, write};
use serde_json::Value;

use crate::support::{derelict, everything, explain_json, prune_json};

fn every_verdict() -> Cache {
    let mut cache = Cache::small();
    cache.clean("clean");
    cache.dirty("unsaved");
    cache.live("referenced");
    let held = cache.clean("held");
    write(held.join(".derelict-keep"), "reason: the demo on Friday\n");
    let undetermined = cache.clean("undetermined");
    remove(undetermined.join(".git"));
    cache.add_clone(REPOSITORY, "disputed", "disputed");
    cache.add_record(REPOSITORY, "disputed", "disputed", Some("other"));
    cache
}

#[test]
fn explain_agrees_with_prune_on_every_verdict_and_changes_nothing() {
    let cache = every_verdict();
    let before = everything(&cache);
    let plan = prune_json(&cache, &["-n"], 1);
    for verdict in ["clean", "unsaved", "referenced", "held", "undetermined", "disputed"] {
        let explained = explain_json(&cache, &cache.path_of(verdict));
        assert_eq!(
            (explained["verdict"].as_str(), plan.verdict(verdict).as_str()),
            (Some(verdict), verdict),
            "{explained:#}"
        );
        assert_eq!((explained["schema_version"].as_u64(), explained["command"].as_str()), (Some(1), Some("explain")));
        assert_eq!(explained["path"].as_str(), cache.path_of(verdict).to_str());
        assert!(explained["rule"].as_str().is_some_and(|rule| !rule.is_empty()), "{explained:#}");
        assert!(explained["size"]["bytes"].as_u64() > Some(0), "{explained:#}");
        let sources = explained["evidence"]["sources"].as_array().expect("because somebody was asked");
        assert!(sources.iter().any(|source| source["source"] == "devpod"), "{explained:#}");
    }
    before.assert_same(&everything(&cache));
}

fn channel<'a>(explained: &'a Value, loss: &str) -> Option<&'a Value> {
    let channels = explained["evidence"]["channels"].as_array()?;
    channels.iter().find(|channel| channel["answer"] == "losses" && channel["items"].to_string().contains(loss))
}

#[test]
fn a_loss_is_named_with_the_channel_it_was_found_in_and_all_channels_are_shown() {
    let cache = every_verdict();
    let unsaved = explain_json(&cache, &cache.path_of("unsaved"));
    let found = channel(&unsaved, "pixi.lock").unwrap_or_else(|| panic!("{unsaved:#}"));
    assert!(found["examined"].as_str().is_some_and(|examined| !examined.is_empty()), "{found}");
    assert!(unsaved["evidence"]["channels"].as_array().map(Vec::len) > Some(5), "{unsaved:#}");
    let clean = explain_json(&cache, &cache.path_of("clean"));
    let channels = clean["evidence"]["channels"].as_array().expect("because it is a list");
    assert!(channels.iter().all(|channel| channel["answer"] == "nothing"), "{clean:#}");
}

#[test]
fn who_claims_a_clone_and_where_it_says_it_lives_is_shown() {
    let cache = every_verdict();
    let referenced = explain_json(&cache, &cache.path_of("referenced"));
    let claims = referenced["evidence"]["sources"][0]["claims"].to_string();
    assert!(claims.contains("\"referenced\"") && claims.contains("\"here\""), "{referenced:#}");
    let disputed = explain_json(&cache, &cache.path_of("disputed"));
    let sources = disputed["evidence"]["sources"].to_string();
    assert!(
        sources.contains("\"elsewhere\"") && sources.contains(&*cache.elsewhere().to_string_lossy()),
        "{disputed:#}"
    );
}

#[test]
fn people_get_the_verdict_the_reason_and_what_would_change_it() {
    let cache = every_verdict();
    let words = [
        ("unsaved", "pixi.lock"),
        ("held", "the demo on Friday"),
        ("undetermined", "repository"),
        ("referenced", "devpod"),
        ("disputed", "other"),
        ("clean", "devpod"),
    ];
    for (leaf, word) in words {
        let path = cache.path_of(leaf).display().to_string();
        derelict(&cache, &["explain", &path]).finish().expect_code(0).expect_stdout(leaf).expect_stdout(word);
    }
}

#[test]
fn only_a_clone_of_a_cache_can_be_explained() {
    let cache = every_verdict();
    mkdir(cache.elsewhere().join("dir"));
    for path in [cache.elsewhere().join("dir"), cache.path_of("missing"), cache.path_of(".bare"), cache.metadata()] {
        let path = path.display().to_string();
        let finished = derelict(&cache, &["explain", &path]).finish();
        finished.expect_code(2).expect_stderr("error: ").expect_stderr(&path);
        assert_eq!(finished.stderr.trim_end().lines().count(), 1, "{finished}");
    }
}

#[test]
fn a_lost_source_is_said_and_not_guessed_around() {
    let cache = every_verdict();
    cache.set_listing("nonsense");
    let path = cache.path_of("clean").display().to_string();
    derelict(&cache, &["explain", &path]).finish().expect_code(3).expect_stderr("devpod");
}
