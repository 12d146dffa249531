//! `derelict reap` over the workspaces of a server: what goes, what stays, and under which name.

use derelict_testkit::Snapshot;
use derelict_testkit::postgres::Server;
use derelict_testkit::reaping::{LEASES, RUNS, Reaping, WORKSPACES, id, row};
use serde_json::Value;

use crate::reap_support::{ARMED, PRESET, reap, removed_by_history, swept, with};

#[test]
fn of_the_twenty_workspaces_twelve_could_go_and_a_report_changes_nothing() {
    let (world, database) = (Reaping::new(), Server::shared().database());
    world.tree(&database);
    world.configure(PRESET);
    let before = Snapshot::of(world.root());
    let rows = database.sql("select * from execution_workspaces order by id");
    let sweep = swept(reap(&world, &database), 0);
    let expected = "4 referenced, 12 removable, 2 retained_fresh, 1 retained_nested_checkout, 1 skipped_layout";
    assert_eq!((sweep.told().as_str(), sweep.stop().as_str()), (expected, "finished"));
    assert_eq!(sweep.named("removable"), Reaping::removable());
    assert_eq!(sweep.value["backlog"]["directories"], 12);
    assert_eq!(sweep.value["mode"], "report");
    assert!(sweep.why(&id(19)).contains("wt-19094"), "{}", sweep.why(&id(19)));
    assert!(sweep.why(&id(18)).contains("home/src/repo"), "{}", sweep.why(&id(18)));
    before.assert_unchanged();
    assert_eq!(database.sql("select * from execution_workspaces order by id"), rows);
}

#[test]
fn an_armed_sweep_removes_exactly_what_the_report_named_and_the_next_one_nothing() {
    let (world, database) = (Reaping::new(), Server::shared().database());
    world.tree(&database);
    world.configure(ARMED);
    let kept: Vec<Snapshot> = (12..20).map(|number| Snapshot::of(world.path(&id(number)))).collect();
    let rows = database.sql("select * from execution_workspaces order by id");
    let report = swept(with(&world, &database, &["reap", "--json", "-n"]), 0);
    let sweep = swept(reap(&world, &database), 0);
    let expected = "4 referenced, 12 removed, 2 retained_fresh, 1 retained_nested_checkout, 1 skipped_layout";
    assert_eq!((sweep.told().as_str(), sweep.stop().as_str()), (expected, "finished"));
    assert_eq!(sweep.named("removed"), report.named("removable"));
    assert_eq!(sweep.proofs("removed"), report.proofs("removable"), "what goes goes by the evidence that was shown");
    assert_eq!(sweep.value["discarded"]["entries"], report.value["backlog"]["entries"]);
    assert_eq!(world.names(), (12..20).map(id).collect::<Vec<_>>());
    kept.iter().for_each(Snapshot::assert_unchanged);
    assert_eq!(database.sql("select * from execution_workspaces order by id"), rows, "the rows are their owner's");

    let again = swept(reap(&world, &database), 0);
    let expected = "4 referenced, 2 retained_fresh, 1 retained_nested_checkout, 1 skipped_layout";
    assert_eq!((again.told().as_str(), again.stop().as_str()), (expected, "finished"));
}

#[test]
fn an_upper_case_directory_has_the_row_of_its_id_and_a_name_that_is_no_id_is_not_judged() {
    let (world, database) = (Reaping::new(), Server::shared().database());
    database.sql(&format!("{WORKSPACES} {} {}", row(&id(1), 0), row(&id(2), 0)));
    let names = [&id(1).to_uppercase(), "scratch", &id(3)];
    names.iter().for_each(|name| drop(world.workspace(name, 60)));
    world.configure(ARMED);
    let sweep = swept(reap(&world, &database), 1);
    assert_eq!(names.map(|name| sweep.fate(name)), ["referenced", "undetermined", "removed"]);
    assert!(sweep.why("scratch").contains("is no id of postgres"), "{}", sweep.why("scratch"));
    assert_eq!(world.names(), [id(1).to_uppercase(), "scratch".into()]);
}

#[test]
fn a_live_lease_a_running_run_and_a_review_hold_a_workspace_that_is_long_idle() {
    let (world, database) = (Reaping::new(), Server::shared().database());
    let rows: String = (0..7).map(|number| row(&id(number), 60)).collect();
    let lease = |number, hours: i32| {
        let into = "insert into execution_workspace_runtime_leases (execution_workspace_id, expires_at)";
        format!("{into} values ('{}', now() + interval '{hours} hours');", id(number))
    };
    let run = |id: &str, status: &str| {
        let context = format!(r#"{{"executionWorkspaceId": "{id}"}}"#);
        format!("insert into heartbeat_runs (status, context_snapshot) values ('{status}', '{context}');")
    };
    database.sql(&[WORKSPACES, LEASES, RUNS, &rows, &lease(0, 1), &lease(1, -1)].concat());
    database.sql(&[run(&id(2).to_uppercase(), "running"), run(&id(3), "succeeded"), run(&id(4), "queued")].concat());
    database.sql(&format!("update execution_workspaces set status = 'in_review' where id = '{}'", id(5)));
    database.sql(&format!("update execution_workspaces set status = 'hibernated' where id = '{}'", id(6)));
    (0..7).for_each(|number| drop(world.workspace(&id(number), 60)));
    world.configure(ARMED);
    let sweep = swept(reap(&world, &database), 0);
    let leased = "retained_leased";
    let expected = [leased, "removed", leased, "removed", leased, leased, leased];
    assert_eq!([0, 1, 2, 3, 4, 5, 6].map(|number| sweep.fate(&id(number))), expected);
    let reasons = [(0, "a runtime lease runs until"), (2, "is running"), (4, "is queued"), (6, "'hibernated'")];
    for (number, reason) in reasons {
        assert!(sweep.why(&id(number)).contains(reason), "{}", sweep.why(&id(number)));
    }
    assert_eq!(world.names(), [0, 2, 4, 5, 6].map(id));
}

#[test]
fn without_a_table_of_workspaces_nobody_was_asked_and_nothing_goes() {
    let (world, database) = (Reaping::new(), Server::shared().database());
    database.sql(LEASES);
    world.workspace(&id(1), 60);
    world.configure(ARMED);
    let before = Snapshot::of(world.root());
    let sweep = swept(reap(&world, &database), 3);
    assert_eq!((sweep.stop().as_str(), sweep.told().as_str()), ("source_lost postgres", ""));
    let why = sweep.value["stop"]["why"].as_str().expect("because a lost source says why");
    assert!(why.contains("has no table `execution_workspaces`"), "{why}");
    before.assert_unchanged();
}

#[test]
fn a_last_use_that_is_null_is_not_known_and_keeps() {
    let (world, database) = (Reaping::new(), Server::shared().database());
    database.sql("create table w (id text primary key, used timestamptz)");
    database.sql("insert into w values ('a', null), ('b', now() - interval '60 days')");
    ["a", "b"].iter().for_each(|name| drop(world.workspace(name, 60)));
    let query = "SELECT id, used AS last_used_at FROM w WHERE id = ANY($1)";
    world.configure(&format!(
        "layout.directories = [\"home\", \"session\"]\narmed = true\n\
         [roots.ws.owner]\nkind = \"postgres\"\nquery = \"{query}\"\n"
    ));
    let sweep = swept(reap(&world, &database), 1);
    assert_eq!(["a", "b"].map(|name| sweep.fate(name)), ["undetermined", "removed"]);
    assert!(sweep.why("a").contains("does not know when a was last used"), "{}", sweep.why("a"));
    assert_eq!(world.names(), ["a"]);
}

#[test]
fn the_report_for_people_names_what_goes_and_every_sweep_is_in_the_history() {
    let (world, database) = (Reaping::new(), Server::shared().database());
    world.tree(&database);
    world.configure(ARMED);
    let finished = with(&world, &database, &["reap", "-v"]).finish();
    finished.expect_code(0).expect_stdout("12 removed:").expect_stdout("(armed)").expect_stdout(&id(11));
    let id_of_it = finished.stdout.lines().find_map(|line| line.trim().strip_prefix("Sweep "));
    let id_of_it = id_of_it.expect("because a report names its sweep");
    assert_eq!(removed_by_history(&world, &database, id_of_it), Reaping::removable());
    let path = world.path(&id(19)).display().to_string();
    let kept: Value = with(&world, &database, &["history", "--json", &path]).finish().json();
    assert!(kept.to_string().contains("skipped_layout"), "{kept:#}");
}

#[test]
fn the_numbers_of_a_run_are_written_for_the_node_exporter_and_roots_are_chosen_by_name() {
    let (world, database) = (Reaping::new(), Server::shared().database());
    world.tree(&database);
    world.configure(PRESET);
    let file = world.top().join("derelict.prom").display().to_string();
    with(&world, &database, &["reap", "--root", "ws", "--metrics-textfile", &file]).finish().expect_code(0);
    let text = String::from_utf8(derelict_testkit::scratch::read(&file)).expect("because metrics are text");
    let line = "derelict_directories_total{root=\"ws\",mode=\"report\",outcome=\"removable\"} 12\n";
    assert!(text.contains(line), "{text}");
    let unknown = with(&world, &database, &["reap", "--root", "wz"]).finish();
    unknown.expect_code(2).expect_stderr("there is no root wz; roots: ws");
}
