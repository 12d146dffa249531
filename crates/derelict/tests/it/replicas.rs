//! Several sweepers of one root, and one that is asked to stop or is killed in the middle.

use derelict_testkit::postgres::{Database, Server};
use derelict_testkit::reaping::{NOBODY_ELSE, Reaping, SOMEBODY_WAITS, gate, id};
use derelict_testkit::run::Running;
use derelict_testkit::sessions::Held;
use serde_json::json;

use crate::reap_support::{GATED, Sweep, reap, swept};

/// A sweep of the standard tree that waits at a gate, and what it needs to go on.
fn waiting(number: u32, at_call: u32, lines: &str) -> (Reaping, Database, Held, Running) {
    let (world, database) = (Reaping::new(), Server::shared().database());
    world.tree(&database);
    let gate = gate(&database, &id(number), at_call);
    world.configure(&GATED.replace("armed = true\n", &format!("armed = true\n{lines}")));
    let sweep = reap(&world, &database).start();
    database.await_true(SOMEBODY_WAITS);
    (world, database, gate, sweep)
}

#[test]
fn of_two_sweepers_one_sweeps_the_other_says_so_and_the_limit_is_not_doubled() {
    let (world, database, gate, first) = waiting(0, 1, "limits.removals = 3\n");
    let second = reap(&world, &database).finish();
    second.expect_code(1);
    let busy = second.json()["sweeps"][0].clone();
    let leader = "another sweeper, which the owner source knows";
    assert_eq!(busy, json!({ "root": "ws", "busy": leader }));
    gate.release();
    let sweep = Sweep::of(first.finish(), 0);
    assert_eq!((sweep.stop().as_str(), sweep.named("removed")), ("limit removals", (0..3).map(id).collect()));
    assert_eq!(world.names(), (3..20).map(id).collect::<Vec<_>>());
}

#[test]
fn sweepers_that_reach_one_root_by_two_paths_know_each_other_by_the_root() {
    let (world, database, gate, first) = waiting(0, 1, "lock_key = \"first\"\n");
    let other = world.top().join("by-another-path");
    derelict_testkit::scratch::symlink(world.root(), &other);
    world.configure_whole(&format!(
        "state = {:?}\n[roots.ws]\npath = {other:?}\nlock_key = \"second\"\n{GATED}",
        world.top().join("another-state")
    ));
    let second = reap(&world, &database).finish();
    second.expect_code(1);
    let busy = second.json()["sweeps"][0]["busy"].as_str().expect("because it is busy").to_owned();
    assert!(busy.starts_with("another process, which holds the lock on"), "{busy}");
    gate.release();
    assert_eq!(Sweep::of(first.finish(), 0).tally()["removed"], 12);
}

#[test]
fn a_sweep_that_is_asked_to_stop_finishes_the_removal_in_hand_and_ends_in_order() {
    let (world, database, gate, sweep) = waiting(2, 3, "");
    sweep.terminate();
    gate.release();
    let sweep = Sweep::of(sweep.finish(), 0);
    assert_eq!((sweep.stop().as_str(), sweep.tally()["not_reached"]), ("cancelled", 9));
    assert_eq!(sweep.named("removed"), (0..3).map(id).collect::<Vec<_>>());
    assert_eq!(world.names(), (3..20).map(id).collect::<Vec<_>>());
    assert_eq!(sweep.removed_in_history(&world, &database), sweep.named("removed"));
    database.sql("delete from gates");
    assert_eq!(swept(reap(&world, &database), 0).tally()["removed"], 9);
}

#[test]
fn a_sweep_that_is_killed_behind_a_fence_is_recovered_by_the_next() {
    let (world, database, gate, sweep) = waiting(2, 3, "");
    sweep.kill();
    let names = world.names();
    assert!(names.iter().any(|name| name.starts_with(".derelict-trash-")) && !names.contains(&id(2)), "{names:?}");
    gate.release();
    database.await_true(NOBODY_ELSE);
    database.sql("delete from gates");
    let sweep = swept(reap(&world, &database), 0);
    // What went before the kill is told with the rest: no record of that sweep was kept.
    assert_eq!(sweep.named("removed"), (0..12).map(id).collect::<Vec<_>>(), "{}", sweep.finished);
    assert_eq!(world.names(), (12..20).map(id).collect::<Vec<_>>());
}

#[test]
fn a_workspace_that_was_resumed_after_the_sweep_was_killed_is_put_back_and_stays() {
    let (world, database, gate, sweep) = waiting(2, 3, "");
    sweep.kill();
    gate.release();
    database.await_true(NOBODY_ELSE);
    database.sql("delete from gates");
    database.sql(&format!("update execution_workspaces set last_used_at = now() where id = '{}'", id(4)));
    database.sql(&format!("insert into execution_workspaces (id) values ('{}')", id(2)));
    let sweep = swept(reap(&world, &database), 0);
    assert_eq!([2, 3, 4].map(|number| sweep.fate(&id(number))), ["referenced", "removed", "referenced"]);
    assert_eq!(world.names(), [[2, 4].map(id).to_vec(), (12..20).map(id).collect()].concat());
}
