//! A sweep whose owner source dies under it, or tells what cannot be true: it stops, keeps, and says so.

use derelict_testkit::Snapshot;
use derelict_testkit::postgres::{Database, Server};
use derelict_testkit::reaping::{Reaping, SOMEBODY_WAITS, gate, id};

use crate::reap_support::{ARMED, GATED, Sweep, reap, swept};

/// The standard tree on a server of its own.
fn tree() -> (Reaping, Server, Database) {
    let (world, server) = (Reaping::new(), Server::start());
    let database = server.database();
    world.tree(&database);
    (world, server, database)
}

/// Kills the server while the sweep waits at a gate: the call with that number about the workspace with that number.
fn killed_at(number: u32, at_call: u32) -> (Reaping, Server, Database, Sweep) {
    let (world, mut server, database) = tree();
    let gate = gate(&database, &id(number), at_call);
    world.configure(GATED);
    let sweep = reap(&world, &database).start();
    database.await_true(SOMEBODY_WAITS);
    server.kill();
    drop(gate);
    let sweep = Sweep::of(sweep.finish(), 3);
    assert_eq!(sweep.stop(), "source_lost postgres");
    assert!(sweep.finished.stderr.contains("ERROR"), "{}", sweep.finished);
    (world, server, database, sweep)
}

/// The next sweep, with the server back, does the rest.
#[track_caller]
fn assert_the_next_finishes(world: &Reaping, server: &mut Server, database: &Database, rest: u64) {
    server.restart();
    database.sql("delete from gates");
    let sweep = swept(reap(world, database), 0);
    assert_eq!((sweep.stop().as_str(), sweep.tally().get("removed")), ("finished", Some(&rest)), "{}", sweep.finished);
    assert_eq!(world.names(), (12..20).map(id).collect::<Vec<_>>());
}

#[test]
fn what_went_in_a_sweep_that_was_killed_is_told_by_the_next_and_only_by_that() {
    let (world, _server, database) = tree();
    let gate = gate(&database, &id(5), 2);
    world.configure(GATED);
    let sweep = reap(&world, &database).start();
    database.await_true(SOMEBODY_WAITS);
    sweep.kill();
    drop(gate);
    database.sql("delete from gates");
    assert_eq!(world.names(), (5..20).map(id).collect::<Vec<_>>());
    let next = swept(reap(&world, &database), 0);
    assert_eq!(next.named("removed"), (0..12).map(id).collect::<Vec<_>>());
    for (number, killed) in [(0, true), (4, true), (5, false), (11, false)] {
        assert_eq!(next.why(&id(number)).contains("killed before its record"), killed, "{}", next.why(&id(number)));
    }
    assert_eq!(next.removed_in_history(&world, &database), next.named("removed"));
    assert_eq!(swept(reap(&world, &database), 0).tally().get("removed"), None);
}

#[test]
fn a_server_that_is_dead_before_the_snapshot_leaves_everything() {
    let (world, mut server, database) = tree();
    world.configure(ARMED);
    server.kill();
    let before = Snapshot::of(world.root());
    let sweep = swept(reap(&world, &database), 3);
    assert_eq!((sweep.stop().as_str(), sweep.told().as_str()), ("source_lost postgres", ""));
    before.assert_unchanged();
    server.restart();
    let sweep = swept(reap(&world, &database), 0);
    assert_eq!(sweep.tally()["removed"], 12);
}

#[test]
fn a_server_that_dies_during_the_snapshot_leaves_everything() {
    let (world, mut server, database, sweep) = killed_at(5, 1);
    assert_eq!(sweep.told(), "");
    assert_eq!(world.names().len(), 20);
    assert_the_next_finishes(&world, &mut server, &database, 12);
}

#[test]
fn a_server_that_dies_between_two_re_reads_ends_the_sweep_and_what_was_removed_stays_told() {
    let (world, mut server, database, sweep) = killed_at(5, 2);
    let expected = "1 interrupted, 6 not_reached, 4 referenced, 5 removed, 2 retained_fresh, 1 retained_nested_checkout, 1 skipped_layout";
    assert_eq!(sweep.told(), expected);
    assert_eq!(sweep.named("removed"), (0..5).map(id).collect::<Vec<_>>());
    assert_eq!(world.names(), (5..20).map(id).collect::<Vec<_>>());
    assert_eq!(sweep.removed_in_history(&world, &database), sweep.named("removed"));
    assert_the_next_finishes(&world, &mut server, &database, 7);
}

#[test]
fn a_server_that_dies_behind_a_fence_brings_the_workspace_back() {
    let (world, mut server, database, sweep) = killed_at(5, 3);
    assert_eq!(sweep.named("removed"), (0..5).map(id).collect::<Vec<_>>());
    assert_eq!(world.names(), (5..20).map(id).collect::<Vec<_>>(), "{}", sweep.finished);
    assert_the_next_finishes(&world, &mut server, &database, 7);
}

#[test]
fn a_server_that_dies_after_the_last_removal_of_a_sweep_is_told_by_the_next() {
    let (world, mut server, database) = tree();
    world.configure(ARMED);
    let first = swept(reap(&world, &database), 0);
    assert_eq!(first.tally()["removed"], 12);
    server.kill();
    let kept = Snapshot::of(world.root());
    assert_eq!(swept(reap(&world, &database), 3).stop(), "source_lost postgres");
    kept.assert_unchanged();
    assert_eq!(first.removed_in_history(&world, &database), Reaping::removable());
}
