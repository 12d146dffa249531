//! The bounds of a sweep, what lies beyond them, what will not go, and what waits out its grace.

use std::os::unix::fs::MetadataExt as _;

use derelict_testkit::Snapshot;
use derelict_testkit::guards::Immutable;
use derelict_testkit::postgres::{Database, Server};
use derelict_testkit::reaping::{Reaping, id};
use derelict_testkit::scratch::{read, write};
use serde_json::Value;

use crate::reap_support::{ARMED, PRESET, Sweep, reap, swept, with};

fn tree() -> (Reaping, Database) {
    let (world, database) = (Reaping::new(), Server::shared().database());
    world.tree(&database);
    (world, database)
}

fn limited(world: &Reaping, database: &Database, limits: &str) -> Sweep {
    world.configure(&format!("{ARMED}{limits}\n"));
    swept(reap(world, database), 0)
}

#[test]
fn each_limit_bounds_a_sweep_and_names_itself_and_the_rest_goes_later() {
    let (world, database) = tree();
    world.configure(&format!("{PRESET}limits.removals = 5\n"));
    let report = swept(reap(&world, &database), 0);
    assert_eq!((report.tally()["removable"], report.tally()["beyond_limit"]), (5, 7), "the whole backlog is shown");
    assert_eq!(report.value["backlog"]["directories"], 12);
    let sweep = limited(&world, &database, "limits.removals = 5");
    assert_eq!(
        (sweep.stop().as_str(), sweep.tally()["removed"], sweep.tally()["beyond_limit"]),
        ("limit removals", 5, 7)
    );
    assert_eq!(sweep.named("removed"), report.named("removable"));

    // Each of them is one directory of eight entries.
    let sweep = limited(&world, &database, "limits.entries = 17");
    assert_eq!(
        (sweep.stop().as_str(), sweep.tally()["removed"], sweep.tally()["beyond_limit"]),
        ("limit entries", 2, 5)
    );
    let bytes = sweep.value["discarded"]["bytes"].as_u64().expect("because it is a number") / 2;
    let sweep = limited(&world, &database, &format!("limits.bytes = {}", 3 * bytes));
    assert_eq!((sweep.stop().as_str(), sweep.tally()["removed"], sweep.tally()["beyond_limit"]), ("limit bytes", 3, 2));
    let sweep = limited(&world, &database, "limits.removals = 2");
    assert_eq!((sweep.stop().as_str(), sweep.tally()["removed"]), ("finished", 2), "exactly the limit is no stop");
    assert_eq!(world.names(), (12..20).map(id).collect::<Vec<_>>());
}

#[test]
fn a_directory_that_will_not_go_is_told_until_it_does_and_does_not_starve_the_others() {
    let (world, database) = tree();
    let stuck = world.path(&id(0)).join("home/.config/settings");
    let immutable = Immutable::set(&stuck, world.top());
    world.configure(&format!("{ARMED}limits.removals = 2\n"));
    let sweep = swept(reap(&world, &database), 1);
    assert_eq!([sweep.named("refused"), sweep.named("removed")], [[id(0)], [id(1)]]);
    assert!(sweep.why(&id(0)).contains("settings"), "{}", sweep.why(&id(0)));
    for (first, second) in [(2, 3), (4, 5), (6, 7), (8, 9), (10, 11)] {
        let sweep = swept(reap(&world, &database), 1);
        assert_eq!(sweep.named("removed"), [id(first), id(second)], "{}", sweep.finished);
        assert_eq!(sweep.named("refused"), [id(0)]);
        assert!(sweep.why(&id(0)).contains("settings"), "{}", sweep.why(&id(0)));
    }
    drop(immutable);
    let names = world.names();
    assert!(!names.contains(&id(1)) && names.len() == 9, "{names:?}");
    assert_eq!(swept(reap(&world, &database), 0).named("removed"), [id(0)]);
    assert_eq!(world.names(), (12..20).map(id).collect::<Vec<_>>());
}

#[test]
fn trash_that_no_journal_knows_is_told_at_every_sweep_and_left() {
    let (world, database) = tree();
    let unknown = ".derelict-trash-0123456789abcdef-7";
    write(world.path(unknown).join("home/f"), "whose?");
    world.configure(ARMED);
    for _ in 0..2 {
        let sweep = swept(reap(&world, &database), 1);
        assert_eq!(sweep.named("undetermined"), [unknown]);
        assert!(sweep.why(unknown).contains("no journal here knows"), "{}", sweep.why(unknown));
    }
    assert_eq!(read(world.path(unknown).join("home/f")), b"whose?");
}

fn set_aside(world: &Reaping, database: &Database) -> Vec<Value> {
    let state = world.state().join("roots/ws").display().to_string();
    let run = derelict_testkit::Run::new(crate::support::DERELICT).args(["quarantine", "--json", "--state", &state]);
    let list = run.env("HOME", world.top().join("home")).env("DATABASE_URL", database.url()).finish();
    list.expect_code(0);
    list.json()["set_aside"].as_array().expect("because it is a list").clone()
}

/// Lets the grace of everything be over, as time would.
fn let_the_grace_pass(world: &Reaping) {
    let journal = world.state().join("roots/ws/journal.ndjson");
    let text = String::from_utf8(read(&journal)).expect("because JSON is text");
    let lines = text.lines().map(|line| {
        let mut line: Value = serde_json::from_str(line).expect("because each line is JSON");
        if line["until"].is_array() {
            line["until"] = serde_json::json!([1, 0]);
        }
        format!("{line}\n")
    });
    write(&journal, lines.collect::<String>());
}

/// Where a directory lies meanwhile, by its identity.
fn trash_of(world: &Reaping, inode: u64) -> std::path::PathBuf {
    let entries = std::fs::read_dir(world.root()).expect("because the root is a directory");
    let found = entries.flatten().map(|entry| entry.path());
    found
        .into_iter()
        .find(|path| std::fs::metadata(path).is_ok_and(|seen| seen.ino() == inode))
        .expect("it is set aside")
}

#[test]
fn what_somebody_writes_in_during_its_grace_is_put_back() {
    let (world, database) = tree();
    let inode = std::fs::metadata(world.path(&id(5))).expect("because it exists").ino();
    world.configure(&format!("{ARMED}grace = \"7d\"\n"));
    assert_eq!(swept(reap(&world, &database), 0).named("quarantined"), Reaping::removable());
    // As somebody would who has the directory open.
    write(trash_of(&world, inode).join("home/late"), "still at it");
    let_the_grace_pass(&world);
    let last = swept(reap(&world, &database), 0);
    let gone: Vec<String> = Reaping::removable().into_iter().filter(|name| *name != id(5)).collect();
    assert_eq!((last.named("removed"), last.named("retained_resurrected")), (gone, vec![id(5)]));
    assert_eq!(read(world.path(&id(5)).join("home/late")), b"still at it");
}

#[test]
fn what_is_set_aside_is_asked_for_again_when_its_grace_is_over() {
    let (world, database) = tree();
    let resumed = Snapshot::of(world.path(&id(4)));
    world.configure(&format!("{ARMED}grace = \"7d\"\n"));
    let sweep = swept(reap(&world, &database), 0);
    assert_eq!((sweep.named("quarantined"), sweep.stop()), (Reaping::removable(), "finished".into()));
    assert_eq!(sweep.value["discarded"]["entries"], 0);
    assert_eq!(set_aside(&world, &database).len(), 12);

    let waiting = swept(reap(&world, &database), 0);
    assert_eq!(waiting.tally().get("removed"), None, "{}", waiting.finished);
    assert_eq!(set_aside(&world, &database).len(), 12);

    let_the_grace_pass(&world);
    database.sql(&format!("update execution_workspaces set last_used_at = now() where id = '{}'", id(4)));
    let report = swept(with(&world, &database, &["reap", "--json", "-n"]), 0);
    assert_eq!(report.tally().get("removed"), None, "{}", report.finished);
    let last = swept(reap(&world, &database), 0);
    let gone: Vec<String> = Reaping::removable().into_iter().filter(|name| *name != id(4)).collect();
    assert_eq!((last.named("removed"), last.named("retained_resurrected")), (gone, vec![id(4)]));
    resumed.assert_unchanged();
    assert_eq!(set_aside(&world, &database), [] as [Value; 0]);
    assert_eq!(world.names(), [vec![id(4)], (12..20).map(id).collect()].concat());
}
