//! A workspace that somebody resumes while a sweep is on its way to it. Each meeting is at a lock, never at a time.

use derelict_testkit::Snapshot;
use derelict_testkit::postgres::Server;
use derelict_testkit::reaping::{Reaping, SOMEBODY_WAITS, WORKSPACES, gate, id, row};
use derelict_testkit::sessions::until;

use crate::reap_support::{ARMED, GATED, Sweep, reap, with};

/// Three workspaces of one size whose rows are idle, gone in the order of their ids.
fn three() -> (Reaping, derelict_testkit::postgres::Database) {
    let (world, database) = (Reaping::new(), Server::shared().database());
    database.sql(&(WORKSPACES.to_owned() + &(0..3).map(|number| row(&id(number), 60)).collect::<String>()));
    (0..3).for_each(|number| drop(world.workspace(&id(number), 60)));
    (world, database)
}

fn touch(id: &str) -> String {
    format!("update execution_workspaces set last_used_at = clock_timestamp() where id = '{id}';")
}

#[track_caller]
fn assert_a_near_miss(world: &Reaping, database: &derelict_testkit::postgres::Database, sweep: &Sweep) {
    assert_eq!((sweep.told().as_str(), sweep.stop().as_str()), ("2 removed, 1 retained_resurrected", "finished"));
    assert_eq!(sweep.named("retained_resurrected"), [id(1)]);
    let why = sweep.why(&id(1));
    let cutoff = sweep.value["cutoff"].as_str().expect("because it is a text").replace('T', " ").replace('Z', " UTC");
    let instant = |what: &str| {
        let query = format!("select to_char({what} at time zone 'utc', 'YYYY-MM-DD HH24:MI:SS') || ' UTC' ");
        database.sql(&(query + &format!("from execution_workspaces where id = '{}'", id(1))))
    };
    // Every row was made by one statement of its own a moment ago: what the plan saw is told by its day.
    let planned = database.sql("select to_char((now() - interval '60 days') at time zone 'utc', 'YYYY-MM-DD')");
    assert!(
        why.contains(&instant("last_used_at")) && why.contains(&format!("planned as last used {planned}")),
        "{why}"
    );
    assert!(why.contains(&format!("cutoff {cutoff}")), "{why}, and not {cutoff}");
    let log = sweep.finished.stderr.lines().find(|line| line.contains("near miss")).expect("because it is logged");
    assert!(log.contains("WARN") && log.contains(&id(1)) && log.contains("planned as last used"), "{log}");
    assert_eq!(world.names(), [id(1)]);
    let misses = with(world, database, &["history", "--near-misses", "--json"]).finish();
    misses.expect_code(0).expect_stdout(&id(1));
    assert!(!misses.stdout.contains(&id(0)), "{misses}");
}

#[test]
fn a_row_refreshed_between_the_snapshot_and_the_re_check_saves_the_workspace() {
    let (world, database) = three();
    world.configure(ARMED);
    let before = Snapshot::of(world.path(&id(1)));
    // As the owner's own program does it: under its lock, which the re-check waits for.
    let lock = format!("hashtextextended('execution_workspace_lifecycle:{}', 0)", id(1));
    let mut resuming = database.hold(&format!("begin; select pg_advisory_xact_lock({lock})"));
    resuming.send(&format!("{} {} commit;", until(SOMEBODY_WAITS), touch(&id(1))));
    let sweep = Sweep::of(reap(&world, &database).finish(), 0);
    resuming.release();
    assert_a_near_miss(&world, &database, &sweep);
    before.assert_unchanged();
}

#[test]
fn a_row_refreshed_between_the_re_check_and_the_fence_brings_the_workspace_back_under_its_name() {
    let (world, database) = three();
    let gate = gate(&database, &id(1), 3);
    world.configure(GATED);
    let before = Snapshot::of(world.path(&id(1)));
    let sweep = reap(&world, &database).start();
    database.await_true(SOMEBODY_WAITS);
    let fenced = world.names();
    assert_eq!(fenced.len(), 2, "the first is gone, and this one lies behind its fence: {fenced:?}");
    assert!(fenced.iter().any(|name| name.starts_with(".derelict-trash-")) && !fenced.contains(&id(1)), "{fenced:?}");
    database.sql(&touch(&id(1)));
    gate.release();
    let sweep = Sweep::of(sweep.finish(), 0);
    assert_a_near_miss(&world, &database, &sweep);
    before.assert_unchanged();
}

#[test]
fn a_workspace_that_vanishes_before_its_turn_is_told_apart_from_one_that_was_replaced() {
    let (world, database) = three();
    let gate = gate(&database, &id(0), 2);
    world.configure(GATED);
    let sweep = reap(&world, &database).start();
    database.await_true(SOMEBODY_WAITS);
    derelict_testkit::scratch::remove(world.path(&id(1)));
    derelict_testkit::scratch::rename(world.path(&id(2)), world.top().join("elsewhere"));
    let replaced = Snapshot::of(world.workspace(&id(2), 60));
    gate.release();
    let sweep = Sweep::of(sweep.finish(), 1);
    assert_eq!([0, 1, 2].map(|number| sweep.fate(&id(number))), ["removed", "vanished", "refused"]);
    assert!(sweep.why(&id(2)).contains("another directory lies here than the one that was planned"));
    replaced.assert_unchanged();
    assert_eq!(world.names(), [id(2)]);
}

#[test]
fn a_workspace_whose_owner_holds_its_lock_is_busy_and_the_others_go() {
    let (world, database) = three();
    world.configure(ARMED);
    let before = Snapshot::of(world.path(&id(1)));
    let lock = format!("hashtextextended('execution_workspace_lifecycle:{}', 0)", id(1));
    let held = database.hold(&format!("select pg_advisory_lock({lock})"));
    let sweep = Sweep::of(reap(&world, &database).finish(), 1);
    assert_eq!([0, 1, 2].map(|number| sweep.fate(&id(number))), ["removed", "busy", "removed"]);
    before.assert_unchanged();
    held.release();
    let sweep = Sweep::of(reap(&world, &database).finish(), 0);
    assert_eq!((sweep.told().as_str(), world.names()), ("1 removed", Vec::new()));
}

#[test]
fn whoever_comes_behind_the_fence_finds_nothing_starts_cold_and_keeps_what_it_makes() {
    let (world, database) = three();
    let gate = gate(&database, &id(1), 3);
    world.configure(GATED);
    let sweep = reap(&world, &database).start();
    database.await_true(SOMEBODY_WAITS);
    let cold = Snapshot::of(world.workspace(&id(1), 60));
    gate.release();
    let sweep = Sweep::of(sweep.finish(), 0);
    assert_eq!((sweep.told().as_str(), sweep.stop().as_str()), ("3 removed", "finished"));
    cold.assert_unchanged();
    assert_eq!(world.names(), [id(1)]);
}

#[test]
fn a_workspace_that_is_wanted_back_while_its_name_is_taken_stays_whole_and_is_named() {
    let (world, database) = three();
    let gate = gate(&database, &id(1), 3);
    world.configure(GATED);
    let sweep = reap(&world, &database).start();
    database.await_true(SOMEBODY_WAITS);
    let trash = world.names().into_iter().find(|name| name.starts_with(".derelict-trash-"));
    let trash = world.path(&trash.expect("because it lies behind its fence"));
    let kept = [Snapshot::of(&trash), Snapshot::of(world.workspace(&id(1), 60))];
    database.sql(&touch(&id(1)));
    gate.release();
    let sweep = Sweep::of(sweep.finish(), 1);
    assert!(sweep.why(&id(1)).contains(&trash.display().to_string()), "{}", sweep.why(&id(1)));
    kept.iter().for_each(Snapshot::assert_unchanged);
    assert_eq!((sweep.fate(&id(1)).as_str(), sweep.tally()["removed"]), ("refused", 2), "{}", sweep.finished);
}
