//! What is told: every directory, in the same order and numbers for people and programs, safe on a terminal,
//! and lost by no closed pipe.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use derelict_testkit::devlaunch::REPOSITORY;
use derelict_testkit::records::keys;
use derelict_testkit::scratch::{exists, rename, write};
use derelict_testkit::{Cache, Finished};
use serde_json::{Value, json};

use crate::support::{BOUNDARY, QUESTION, derelict, prune, prune_json};

#[track_caller]
fn assert_ends_with_the_boundary(finished: &Finished) {
    let last = finished.stdout.lines().last().unwrap_or_else(|| panic!("nothing printed\n{finished}"));
    assert!(BOUNDARY.iter().all(|words| last.contains(words)), "{finished}");
}

fn every_verdict() -> Cache {
    let mut cache = Cache::small();
    cache.clean("clean");
    cache.dirty("unsaved");
    cache.live("referenced");
    let held = cache.clean("held");
    write(held.join(".derelict-keep"), "reason: mine\n");
    let undetermined = cache.clean("undetermined");
    derelict_testkit::scratch::remove(undetermined.join(".git"));
    cache.add_clone(REPOSITORY, "disputed", "disputed");
    cache.add_record(REPOSITORY, "disputed", "disputed", Some("other"));
    cache
}

#[test]
fn every_report_ends_with_what_is_not_managed_here() {
    let cache = every_verdict();
    assert_ends_with_the_boundary(&prune(&cache, &["-n"]));
    assert_ends_with_the_boundary(&prune(&cache, &[]));
    let mut session = derelict(&cache, &["prune"]).on_terminal();
    session.wait_for(QUESTION);
    session.answer("n");
    assert_ends_with_the_boundary(&session.finish());
    assert_ends_with_the_boundary(&prune(&cache, &["-y"]));
    assert_ends_with_the_boundary(&prune(&cache, &["-y"]));
    assert_eq!(cache.started_programs(), [""; 0]);
}

#[test]
fn every_directory_has_a_verdict_a_reason_and_a_size() {
    let cache = every_verdict();
    let report = prune_json(&cache, &["-n"], 1);
    let verdicts = report.verdicts();
    assert_eq!(verdicts.len(), 6);
    for (leaf, verdict) in verdicts {
        assert_eq!(leaf, verdict);
        if verdict != "clean" {
            assert_ne!(report.reasons(&leaf), "", "{leaf}");
        }
    }
    for row in ["removals", "kept"]
        .iter()
        .flat_map(|rows| report.0["plan"][rows].as_array().cloned().expect("because it is a list"))
    {
        let size = &row["size"];
        assert!(size["bytes"].as_u64() > Some(0) && size["inodes"].as_u64() > Some(10), "{row}");
        assert!(matches!(size["completeness"].as_str(), Some("exact" | "at_least")), "{row}");
        assert!(row["remedy"].is_string() || row["verdict"] == "clean", "{row}");
    }
    let human = prune(&cache, &["-n"]);
    for leaf in ["clean", "unsaved", "referenced", "held", "undetermined", "disputed"] {
        human.expect_stdout(&format!("acme/w/{leaf}"));
    }
}

#[test]
fn the_json_report_has_the_documented_shape() {
    let cache = every_verdict();
    let report = prune_json(&cache, &["-y"], 1).0;
    let keys_of = |value: &Value| value.as_object().map(|object| object.keys().cloned().collect::<Vec<_>>());
    let expected = |keys: &[&str]| Some(keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>());
    let top =
        ["schema_version", "command", "root", "plan", "skipped", "disclosures", "breakers", "result", "exit_code"];
    assert_eq!(keys_of(&report), expected(&top));
    assert_eq!((&report["schema_version"], &report["command"]), (&json!(1), &json!("prune")));
    assert_eq!(report["root"].as_str().map(|root| root.starts_with(&*cache.dir().to_string_lossy())), Some(true));
    let plan =
        ["digest", "removals", "beyond_limit", "kept", "frees", "stale_records", "grace_seconds", "expired", "waiting"];
    assert_eq!(keys_of(&report["plan"]), expected(&plan));
    let row = ["path", "name", "verdict", "reasons", "remedy", "forced", "rescued_first", "allowed", "proof", "size"];
    assert_eq!(keys_of(&report["plan"]["removals"][0]), expected(&row));
    assert_eq!(keys_of(&report["plan"]["frees"]), expected(&["bytes", "inodes", "completeness"]));
    let result = ["stop", "tally", "settled", "expired", "discarded", "measured_bytes", "records_dropped"];
    assert_eq!(keys_of(&report["result"]), expected(&result));
    let tally = report["result"]["tally"].as_object().expect("because it is an object").clone();
    let sum: u64 = tally.values().filter_map(Value::as_u64).sum();
    assert_eq!((sum, &report["result"]["tally"]["removed"]), (6, &json!(1)));
    assert_eq!(report["result"]["records_dropped"], json!(["acme/w/b/clean"]));
    assert!(report["result"]["discarded"]["entries"].as_u64() > Some(10));
}

#[test]
fn the_biggest_comes_first() {
    let mut cache = Cache::small();
    for (id, size) in [("a", 1_000), ("b", 3_000_000), ("c", 1_000_000)] {
        write(cache.clean(id).join(".pixi/ballast"), vec![1; size]);
    }
    assert_eq!(prune_json(&cache, &["-n"], 0).removals(), ["b", "c", "a"]);
    let human = prune(&cache, &["-n"]).stdout;
    let place = |leaf: &str| human.find(&format!("acme/w/{leaf}")).unwrap_or_else(|| panic!("{human}"));
    assert!(place("b") < place("c") && place("c") < place("a"), "{human}");
}

#[test]
fn names_cannot_write_to_the_terminal() {
    let mut cache = Cache::small();
    for name in [&b"\x1b[31mred"[..], b"new\nline", b"\r\x08over", "a\u{202e}b\u{200b}".as_bytes(), b"\xff"] {
        let clone = cache.add_clone(REPOSITORY, "odd", "plain");
        let odd = cache.repository(REPOSITORY).join(OsStr::from_bytes(name));
        rename(&clone, &odd);
        write(odd.join(OsStr::from_bytes(b"loss\x1b[2J\n")), "x");
    }
    for arguments in [&["-n"][..], &["-n", "-v", "--color", "never"], &["-y"]] {
        let finished = prune(&cache, arguments);
        let loud = finished.stdout.chars().chain(finished.stderr.chars());
        let bad: Vec<char> =
            loud.filter(|c| (c.is_control() && *c != '\n') || matches!(c, '\u{202e}' | '\u{200b}')).collect();
        assert_eq!(bad, [' '; 0], "{finished}");
        assert!(!finished.stdout.lines().any(|line| line.starts_with("line")), "{finished}");
    }
    let report = prune_json(&cache, &["-n"], 0);
    let verdicts = report.verdicts();
    assert!(
        verdicts.contains_key("hex:ff") || verdicts.keys().any(|leaf| leaf.starts_with("hex:") && leaf.ends_with("ff")),
        "{verdicts:?}"
    );
    assert!(verdicts.contains_key("\u{1b}[31mred"), "{verdicts:?}");
}

#[test]
fn a_closed_pipe_loses_no_removal_and_no_exit_code() {
    let mut cache = Cache::small();
    for id in ["a", "b", "c"] {
        cache.clean(id);
    }
    let finished = derelict(&cache, &["prune", "-y"]).finish_into_a_closed_pipe();
    finished.expect_code(0);
    assert!(!finished.stderr.contains("panicked"), "{finished}");
    assert_eq!(cache.all_leaves(REPOSITORY), [".bare", ".lock"]);
    assert_eq!(keys(&cache.metadata()), [""; 0]);
}

#[test]
fn a_closed_pipe_keeps_the_exit_code_of_what_could_not_be_decided() {
    let cache = every_verdict();
    derelict(&cache, &["prune", "-n"]).finish_into_a_closed_pipe().expect_code(1);
    derelict(&cache, &["prune", "-y", "--json"]).finish_into_a_closed_pipe().expect_code(1);
    assert!(!exists(cache.path_of("clean")));
}

#[test]
fn colour_is_where_it_is_wanted_and_nowhere_else() {
    let mut cache = Cache::small();
    cache.clean("a");
    let has_colour = |finished: &Finished| finished.stdout.contains('\u{1b}') || finished.stderr.contains('\u{1b}');
    assert!(!has_colour(&prune(&cache, &["-n"])));
    assert!(has_colour(&prune(&cache, &["-n", "--color", "always"])));
    assert!(has_colour(&derelict(&cache, &["prune", "-n"]).env("CLICOLOR_FORCE", "1").finish()));
    assert!(!has_colour(&derelict(&cache, &["prune", "-n", "--color", "never"]).env("CLICOLOR_FORCE", "1").finish()));
    assert!(!has_colour(&derelict(&cache, &["prune", "-n"]).env("NO_COLOR", "1").on_terminal().finish()));
    assert!(!has_colour(&prune(&cache, &["-n", "--json", "--color", "always"])));
}

#[test]
fn nothing_is_said_beside_a_report_that_went_well() {
    let mut cache = Cache::small();
    cache.clean("a");
    assert_eq!(prune(&cache, &["-n"]).stderr, "");
    assert_eq!(prune(&cache, &["-y"]).stderr, "");
    assert_eq!(prune(&cache, &["-y", "--json"]).stderr, "");
}

#[test]
fn the_measured_change_is_shown_beside_the_estimate() {
    let mut cache = Cache::small();
    write(cache.clean("a").join(".pixi/ballast"), vec![1; 5_000_000]);
    let report = prune_json(&cache, &["-y"], 0);
    assert!(report.0["result"]["measured_bytes"].is_i64(), "{:#}", report.0["result"]);
    assert!(report.0["result"]["discarded"]["bytes"].as_u64() > Some(5_000_000));
}
