//! `history` tells what past sweeps saw, did and kept, from the record as its format is documented, and changes nothing.

use derelict_testkit::scratch::{mkdir, write};
use derelict_testkit::{Cache, Finished};
use serde_json::{Value, json};

use crate::support::{derelict, everything};

/// Noon of a day, in seconds since 1970.
const NOON: i64 = 1_764_590_400;

/// An hour, in seconds.
const HOUR: i64 = 3_600;

const EVIDENCE: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const PLAN: &str = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";

/// The id of the sweep that began so many hours after noon.
fn id(hour: i64) -> String {
    format!("20251201T{:02}0000Z-0000000{hour}", 12 + hour)
}

/// One directory of a sweep, as a line says it.
fn directory(hour: i64, path: Value, fate: &str, why: &str) -> Value {
    json!({
        "v": 1, "kind": "directory", "sweep": id(hour), "path": path, "fate": fate, "why": why, "evidence": EVIDENCE,
        "last_used": [NOON - 40 * 24 * HOUR, 0], "touched": null, "entries": 12, "bytes": 4096, "intent": 7, "proof": null,
    })
}

/// The lines of one sweep of the root `root`.
fn sweep(hour: i64, root: &str, directories: &[Value]) -> String {
    let mut counts = serde_json::Map::new();
    for directory in directories {
        let fate = directory["fate"].as_str().expect("because each has one");
        let count = counts.get(fate).and_then(Value::as_u64).unwrap_or(0);
        counts.insert(fate.to_owned(), json!(count + 1));
    }
    let end = json!({ "v": 1, "kind": "end", "sweep": id(hour), "directories": directories.len() });
    let lines: Vec<String> = directories.iter().chain([&end]).map(|line| format!("{line}\n")).collect();
    let body = lines.concat();
    let head = json!({
        "v": 1, "kind": "sweep", "id": id(hour), "root": root, "path": format!("/srv/{root}"), "mode": "armed",
        "began": [NOON + hour * HOUR, 0], "ended": [NOON + hour * HOUR + 9, 0], "cutoff": [NOON - 30 * 24 * HOUR, 0],
        "plan": PLAN, "stop": { "name": "limit", "which": "removals", "why": "the limit of removals left some" },
        "backlog": { "directories": 2, "entries": 24, "bytes": 8192 }, "discarded": { "entries": 12, "bytes": 4096 },
        "measured_bytes": -4096, "counts": counts, "bytes": body.len(),
    });
    format!("{head}\n{body}")
}

/// Three sweeps: one that removed, one of another root, and one with a near miss in which what was removed is back.
fn swept() -> Cache {
    let cache = Cache::empty();
    mkdir(cache.state());
    let record = [
        sweep(
            0,
            "agents",
            &[
                directory(0, json!("/srv/agents/one"), "removed", "removed"),
                directory(0, json!("/srv/agents/two"), "referenced", "kept: agents-db: two opens it"),
                directory(0, json!({ "hex": "2f7372762f6167656e74732fff0a" }), "undetermined", "kept: \u{1b}[31mred"),
            ],
        ),
        sweep(1, "builds", &[]),
        sweep(
            2,
            "agents",
            &[
                directory(2, json!("/srv/agents/one"), "retained_fresh", "kept: touched 2025-12-01 13:30:00 UTC"),
                directory(2, json!("/srv/agents/two"), "retained_resurrected", "kept: it came into use since"),
            ],
        ),
    ];
    write(cache.state().join("sweeps.ndjson"), record.concat());
    cache
}

#[track_caller]
fn history(cache: &Cache, arguments: &[&str], code: i32) -> Finished {
    let finished = derelict(cache, &[&["history"], arguments].concat()).finish();
    finished.expect_code(code);
    finished
}

#[track_caller]
fn answer(cache: &Cache, arguments: &[&str], code: i32) -> Value {
    let answer = history(cache, &[arguments, &["--json"]].concat(), code).json();
    assert_eq!((&answer["schema_version"], &answer["command"]), (&json!(1), &json!("history")));
    assert_eq!(answer["exit_code"], code, "{answer:#}");
    answer
}

/// The named field of each element.
#[track_caller]
fn each(list: &Value, field: &str) -> Vec<Value> {
    list.as_array().unwrap_or_else(|| panic!("not a list: {list}")).iter().map(|one| one[field].clone()).collect()
}

#[test]
fn the_last_sweeps_are_told_newest_first_with_how_they_ended() {
    let cache = swept();
    let before = everything(&cache);
    let expected = format!(
        "2025-12-01 14:00:00 UTC  {}  agents, armed: limit (removals)
  1 retained_fresh, 1 retained_resurrected; 4.0 KiB and 12 entries unlinked
  the limit of removals left some
2025-12-01 13:00:00 UTC  {}  builds, armed: limit (removals)
  no directory was looked at; 4.0 KiB and 12 entries unlinked
  the limit of removals left some
2025-12-01 12:00:00 UTC  {}  agents, armed: limit (removals)
  1 referenced, 1 undetermined, 1 removed; 4.0 KiB and 12 entries unlinked
  the limit of removals left some
",
        id(2),
        id(1),
        id(0)
    );
    assert_eq!(history(&cache, &[], 0).stdout, expected);
    let told = answer(&cache, &[], 0);
    assert_eq!(each(&told["sweeps"], "id"), [id(2), id(1), id(0)]);
    assert_eq!(told["sweeps"][2]["tally"], json!({ "referenced": 1, "undetermined": 1, "removed": 1 }));
    assert_eq!((&told["directories"], &told["notes"]), (&json!([]), &json!([])));
    before.assert_same(&everything(&cache));
}

#[test]
fn sweeps_can_be_chosen_by_root_by_what_went_and_by_age() {
    let cache = swept();
    assert_eq!(each(&answer(&cache, &["--root", "builds"], 0)["sweeps"], "id"), [id(1)]);
    assert_eq!(each(&answer(&cache, &["--removed"], 0)["sweeps"], "id"), [id(0)]);
    assert_eq!(answer(&cache, &["--since", "1s"], 0)["sweeps"], json!([]));
    assert_eq!(each(&answer(&cache, &["--since", "36500d"], 0)["sweeps"], "id").len(), 3);
    history(&cache, &["--since", "1s"], 0).expect_stdout("No sweep that was asked for is recorded.");
    history(&cache, &["--since", "1 month"], 2).expect_stderr("is no span such as 12h or 30d");
    history(&cache, &["--near-misses", "--removed"], 2);
}

#[test]
fn a_sweep_is_told_with_every_fate_its_rule_its_reason_and_its_evidence() {
    let cache = swept();
    let told = answer(&cache, &[&id(0)], 0);
    assert_eq!(each(&told["sweeps"], "id"), [id(0)]);
    assert_eq!((&told["sweeps"][0]["plan"], &told["sweeps"][0]["measured_bytes"]), (&json!(PLAN), &json!(-4096)));
    let removed = json!({
        "sweep": id(0), "path": "/srv/agents/one", "fate": "removed", "why": "removed",
        "rule": "6 of 6: nobody owns it, nothing holds it, and nothing would be lost", "evidence": EVIDENCE,
        "last_used": "2025-10-22 12:00:00 UTC", "touched": null, "entries": 12, "bytes": 4096, "intent": 7, "proof": null,
    });
    assert_eq!(told["directories"][0], removed);
    assert_eq!(each(&told["directories"], "fate"), ["removed", "referenced", "undetermined"]);
    assert_eq!(told["directories"][2]["path"], json!({ "hex": "2f7372762f6167656e74732fff0a" }));
    let shown = history(&cache, &[&id(0)], 0);
    for text in [PLAN, EVIDENCE, "4.0 KiB less free space", "2 directories, 24 entries, 8.0 KiB", "7 in the journal"] {
        shown.expect_stdout(text);
    }
    shown.expect_stdout(r"/srv/agents/\xff\n").expect_stdout(r"kept: \x1b[31mred");
    assert_eq!(each(&answer(&cache, &[&id(0), "--removed"], 0)["directories"], "fate"), ["removed"]);
    let missing = id(5);
    history(&cache, &[&missing], 2).expect_stderr(&format!("error: no sweep {missing} is recorded"));
}

#[test]
fn a_path_is_told_with_every_sweep_that_saw_it_however_it_is_named() {
    let cache = swept();
    let fates = ["retained_fresh", "removed"];
    for named in ["/srv/agents/one", "/srv/agents/one/", "/srv/agents/one/home/notes", "one"] {
        let told = answer(&cache, &[named], 0);
        assert_eq!(each(&told["directories"], "fate"), fates, "{named}");
        assert_eq!(each(&told["directories"], "sweep"), [id(2), id(0)], "{named}");
        assert_eq!(each(&told["sweeps"], "id"), [id(2), id(0)], "{named}");
    }
    assert_eq!(each(&answer(&cache, &["one", "--removed"], 0)["directories"], "fate"), ["removed"]);
    let expected = format!(
        "2025-12-01 12:00:00 UTC  removed  /srv/agents/one
    rule      6 of 6: nobody owns it, nothing holds it, and nothing would be lost
    why       removed
    times     last used 2025-10-22 12:00:00 UTC, touched not told
    size      4.0 KiB, 12 entries
    evidence  {EVIDENCE}
    intent    7 in the journal
    cutoff    2025-11-01 12:00:00 UTC
    sweep     {} of agents, armed
    plan      {PLAN}
",
        id(0)
    );
    assert_eq!(history(&cache, &["/srv/agents/one", "--removed"], 0).stdout, expected);
    history(&cache, &["/srv/agents/three"], 0).expect_stdout("No sweep that was asked for saw /srv/agents/three.");
}

#[test]
fn near_misses_have_their_own_view_with_the_times() {
    let cache = swept();
    let told = answer(&cache, &["--near-misses"], 0);
    assert_eq!(each(&told["directories"], "path"), ["/srv/agents/two"]);
    let shown = history(&cache, &["--near-misses"], 0);
    for text in
        ["retained_resurrected  /srv/agents/two", "last used 2025-10-22 12:00:00 UTC", "2025-11-01 12:00:00 UTC"]
    {
        shown.expect_stdout(text);
    }
    history(&cache, &["--near-misses", "--root", "builds"], 0).expect_stdout("There was no near miss.");
}

#[test]
fn where_nothing_was_ever_swept_nothing_is_told_and_nothing_is_made() {
    let cache = Cache::empty();
    let before = everything(&cache);
    history(&cache, &[], 0).expect_stdout("No sweep that was asked for is recorded.");
    assert_eq!(answer(&cache, &["--near-misses"], 0)["sweeps"], json!([]));
    before.assert_same(&everything(&cache));
}

#[test]
fn what_of_the_record_is_damaged_is_named_with_its_line_and_makes_the_answer_incomplete() {
    let cache = swept();
    let path = cache.state().join("sweeps.ndjson");
    let text = std::fs::read_to_string(&path).expect("because it was written");
    write(&path, text.replacen("\"fate\":\"removed\"", "\"fate\":\"remived\"", 1));
    let note = format!("{}, line 2, is skipped: `fate` is missing or wrong", path.display());
    let told = answer(&cache, &[&id(0)], 1);
    assert_eq!(each(&told["directories"], "fate"), ["referenced", "undetermined"]);
    assert_eq!(told["notes"], json!([note]));
    history(&cache, &[&id(0)], 1).expect_stdout(&format!("Note: {note}"));
    assert_eq!(each(&answer(&cache, &[], 0)["sweeps"], "id").len(), 3);
}

#[test]
fn a_ledger_that_cannot_be_read_is_told_and_the_record_answers() {
    let cache = swept();
    write(cache.state().join("ledger.sqlite"), "no database at all\n".repeat(100));
    let told = answer(&cache, &["one"], 1);
    assert_eq!(each(&told["directories"], "fate"), ["retained_fresh", "removed"]);
    let note = told["notes"][0].as_str().expect("because something is wrong");
    assert!(note.starts_with("answered from the record alone: cannot open the ledger "), "{note}");
    write(cache.state().join("sweeps.ndjson"), "{\"v\":2,\"kind\":\"sweep\"}\n");
    let told = history(&cache, &["--json"], 3).json();
    let error = told["error"].as_str().expect("because nothing can be told");
    assert!(error.contains("version 2 is newer than this program"), "{error}");
}

#[test]
fn a_closed_pipe_ends_the_report_in_silence() {
    let cache = swept();
    let finished = derelict(&cache, &["history"]).finish_into_a_closed_pipe();
    finished.expect_code(0);
    assert_eq!(finished.stderr, "");
}
