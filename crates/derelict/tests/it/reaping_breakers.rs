//! The circuit breakers of an unattended sweep: each trips before the first removal, says what it saw, and can be
//! acknowledged by name.

use derelict_testkit::Snapshot;
use derelict_testkit::postgres::{Database, Server};
use derelict_testkit::reaping::{Reaping, WORKSPACES, id, row};
use derelict_testkit::scratch::{read, remove, rename, write};

use crate::reap_support::{ARMED, PRESET, reap, swept, with};

/// Ten workspaces whose rows are in use today, and a sweep that saw them.
fn ten_in_use() -> (Reaping, Database) {
    let (world, database) = (Reaping::new(), Server::shared().database());
    database.sql(&(WORKSPACES.to_owned() + &(0..10).map(|number| row(&id(number), 0)).collect::<String>()));
    (0..10).for_each(|number| drop(world.workspace(&id(number), 60)));
    world.configure(ARMED);
    assert_eq!(swept(reap(&world, &database), 0).told(), "10 referenced");
    (world, database)
}

/// The sweep stops with this breaker, twice, and goes on when told to; then so many go.
#[track_caller]
fn assert_trips(world: &Reaping, database: &Database, breaker: &str, says: &str, then: u64) {
    let before = Snapshot::of(world.root());
    for _ in 0..2 {
        let sweep = swept(reap(world, database), 3);
        assert_eq!(sweep.stop(), format!("breaker {breaker}"));
        let why = sweep.value["stop"]["why"].as_str().expect("because a breaker says what it saw");
        assert!(why.contains(says), "{why}");
        assert_eq!(sweep.tally().get("removed"), None);
        before.assert_same(&Snapshot::of(world.root()));
    }
    let other = if breaker == "empty-source" { "clock-stepped" } else { "empty-source" };
    swept(with(world, database, &["reap", "--json", "--acknowledge", other]), 3);
    before.assert_same(&Snapshot::of(world.root()));
    let sweep = swept(with(world, database, &["reap", "--json", "--acknowledge", breaker]), 0);
    assert_eq!(
        (sweep.stop().as_str(), sweep.tally().get("removed").copied()),
        ("finished", Some(then).filter(|n| *n > 0))
    );
}

#[test]
fn an_empty_table_removes_nothing_even_at_the_first_sweep() {
    let (world, database) = (Reaping::new(), Server::shared().database());
    database.sql(WORKSPACES);
    (0..3).for_each(|number| drop(world.workspace(&id(number), 60)));
    world.configure(PRESET);
    assert_eq!(swept(reap(&world, &database), 3).stop(), "breaker empty-source");
    world.configure(ARMED);
    assert_trips(&world, &database, "empty-source", "3", 3);
}

#[test]
fn a_table_that_lost_most_of_its_rows_removes_nothing() {
    let (world, database) = ten_in_use();
    database.sql(&format!("delete from execution_workspaces where id <> '{}'", id(0)));
    let both = ["--acknowledge", "mass-orphaning"];
    let before = Snapshot::of(world.root());
    let sweep = swept(with(&world, &database, &[&["reap", "--json"], &both[..]].concat()), 3);
    assert_eq!(sweep.stop(), "breaker source-shrank", "whoever acknowledges one learns of the other");
    let sweep = swept(reap(&world, &database), 3);
    assert_eq!(sweep.stop(), "breaker source-shrank");
    before.assert_unchanged();
    world.configure(&format!("{ARMED}acknowledge = [\"mass-orphaning\"]\n"));
    assert_trips(&world, &database, "source-shrank", "10", 9);
    assert_eq!(world.names(), [id(0)]);
}

#[test]
fn most_owners_idle_at_once_remove_nothing() {
    let (world, database) = ten_in_use();
    database.sql("update execution_workspaces set last_used_at = now() - interval '60 days'");
    assert_trips(&world, &database, "mass-orphaning", "10", 10);
}

#[test]
fn a_clock_behind_that_of_the_last_sweep_removes_nothing() {
    let (world, database) = ten_in_use();
    world.workspace(&id(20), 60);
    let state = world.state().join("roots/ws");
    let memory =
        std::fs::read_dir(&state).expect("because there was a sweep").map(|entry| entry.expect("listed").path());
    let memory = { memory }.find(|path| path.to_string_lossy().contains("last-sweep-")).expect("because it is kept");
    let mut value: serde_json::Value = serde_json::from_slice(&read(&memory)).expect("because it is JSON");
    let seconds = value["at"][0].as_i64().expect("because an instant is a pair of numbers");
    value["at"][0] = (seconds + 86_400).into();
    write(&memory, value.to_string());
    assert_trips(&world, &database, "clock-stepped", "the last sweep ran", 1);
}

#[test]
fn another_directory_in_the_place_of_the_root_loses_nothing() {
    let (world, database) = ten_in_use();
    rename(world.root(), world.top().join("elsewhere"));
    (0..10).for_each(|number| drop(world.workspace(&id(number), 60)));
    world.workspace(&id(20), 60);
    assert_trips(&world, &database, "root-replaced", "another", 1);
    remove(world.root());
    let sweep = swept(reap(&world, &database), 3);
    assert_eq!((sweep.stop().as_str(), sweep.told().as_str()), ("root_absent", ""));
}

#[test]
fn a_server_whose_clock_is_wrong_removes_nothing() {
    let (world, database) = ten_in_use();
    world.workspace(&id(20), 60);
    // Found before the server's own function of that name; nothing but the question for the clock uses it.
    database.sql(
        "create schema wrong; create function wrong.clock_timestamp() returns timestamptz language sql \
         as $$ select pg_catalog.clock_timestamp() - interval '1 hour' $$;",
    );
    database.sql(&format!("alter database {} set search_path = wrong, pg_catalog, public", database.name()));
    assert_trips(&world, &database, "source-clock", "the owner source says", 1);
}
