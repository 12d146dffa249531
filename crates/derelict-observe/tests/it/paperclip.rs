//! The preset `paperclip` on a real server: on tables like those of that program, and on its own migrations
//! where somebody says where they are.

use derelict_core::ids::Timestamp;
use derelict_observe::postgres::{Asking, PostgresOwners};
use derelict_observe::table::{IdScheme, OwnerTable as _, Row};
use derelict_testkit::postgres::{Database, Server};

use crate::postgres::{THEN, settings, source};

/// What of the tables is asked, with the types it has there.
const WORKSPACES: &str = "create table execution_workspaces (
    id uuid primary key default gen_random_uuid() not null, status text default 'active' not null,
    last_used_at timestamptz default now() not null);";
const LEASES: &str = "create table execution_workspace_runtime_leases (
    id uuid primary key default gen_random_uuid(), execution_workspace_id uuid not null unique, expires_at timestamptz not null);";
const RUNS: &str = "create table heartbeat_runs (
    id uuid primary key default gen_random_uuid(), status text not null default 'queued', context_snapshot jsonb);";

/// The directory of the real migrations, `dist/migrations` of the npm package `@paperclipai/db`.
const MIGRATIONS: &str = "DERELICT_TEST_PAPERCLIP_MIGRATIONS";

fn owners(database: &Database) -> PostgresOwners {
    PostgresOwners::new(source(), settings(database), Asking::Paperclip { schema: None })
}

fn connected(database: &Database) -> PostgresOwners {
    let mut owners = owners(database);
    owners.connect().expect("because the tables are there");
    owners
}

fn id(number: u32) -> String {
    format!("0188a3c2-7b1d-4c5e-9f00-00000000{number:04x}")
}

fn row(number: u32, last_used_at: Option<Timestamp>, held: Option<&str>) -> Row {
    Row { id: id(number), last_used_at, held: held.map(Into::into) }
}

fn workspace(database: &Database, number: u32, status: &str) {
    database.sql(&format!(
        "insert into execution_workspaces (id, status, last_used_at) values ('{}', '{status}', to_timestamp(1700000000))",
        id(number)
    ));
}

/// What the snapshot says, checked to be what each re-read says.
fn read(database: &Database, numbers: std::ops::Range<u32>) -> Vec<Row> {
    let mut owners = connected(database);
    let ids: Vec<String> = numbers.map(id).collect();
    let mut rows = owners.rows(&ids).unwrap().rows;
    rows.sort_by(|one, other| one.id.cmp(&other.id));
    let again: Vec<Row> = ids.iter().flat_map(|id| owners.row(id).unwrap()).collect();
    assert_eq!(rows, again);
    rows
}

#[test]
fn only_a_status_that_asks_for_it_or_is_not_known_holds() {
    let database = Server::shared().database();
    database.sql(&[WORKSPACES, LEASES, RUNS].concat());
    for (number, status) in ["active", "idle", "in_review", "archived", "cleanup_failed", "frozen"].iter().enumerate() {
        workspace(&database, u32::try_from(number).unwrap(), status);
    }
    let expected = [
        row(0, Some(THEN), None),
        row(1, Some(THEN), None),
        row(2, Some(THEN), Some("it is in review")),
        row(3, Some(THEN), None),
        row(4, Some(THEN), None),
        row(5, Some(THEN), Some("its status is not known here: 'frozen'")),
    ];
    assert_eq!(read(&database, 0..8), expected);
}

#[test]
fn a_lease_holds_until_it_has_run_out() {
    let database = Server::shared().database();
    database.sql(&[WORKSPACES, LEASES].concat());
    database.sql("set timezone to 'UTC'");
    for number in 0..2 {
        workspace(&database, number, "active");
    }
    database.sql(&format!(
        "insert into execution_workspace_runtime_leases (execution_workspace_id, expires_at) values
         ('{}', now() + interval '1 hour'), ('{}', now() - interval '1 second'), ('{}', 'infinity')",
        id(0),
        id(1),
        id(2)
    ));
    let rows = read(&database, 0..4);
    let held = rows[0].held.clone().unwrap();
    assert!(held.starts_with("a runtime lease runs until 20"), "{held}");
    let expected = [
        row(0, Some(THEN), Some(&held)),
        row(1, Some(THEN), None),
        // Its row is gone already, its lease is not.
        row(2, None, Some("a runtime lease runs until infinity")),
    ];
    assert_eq!(rows, expected);
}

#[test]
fn a_run_that_is_not_over_holds_its_workspace_however_its_id_is_written() {
    let database = Server::shared().database();
    database.sql(&[WORKSPACES, LEASES, RUNS].concat());
    let statuses = ["queued", "running", "scheduled_retry", "succeeded", "failed", "cancelled"];
    for (number, status) in (0..).zip(statuses) {
        workspace(&database, number, "active");
        let workspace = if number == 1 { id(number).to_uppercase() } else { id(number) };
        database.sql(&format!(
            "insert into heartbeat_runs (id, status, context_snapshot)
             values ('{}', '{status}', '{{\"executionWorkspaceId\": \"{workspace}\"}}')",
            id(100 + number)
        ));
    }
    database.sql(
        "insert into heartbeat_runs (status, context_snapshot) values ('running', null), ('running', '[]'),
         ('running', '{\"executionWorkspaceId\": \"no uuid\"}'), ('running', '{\"executionWorkspaceId\": null}')",
    );
    let held =
        |number: u32, status: &str| row(number, Some(THEN), Some(&format!("run {} is {status}", id(100 + number))));
    let expected = [
        held(0, "queued"),
        held(1, "running"),
        held(2, "scheduled_retry"),
        row(3, Some(THEN), None),
        row(4, Some(THEN), None),
        row(5, Some(THEN), None),
    ];
    assert_eq!(read(&database, 0..8), expected);
}

#[test]
fn several_reasons_are_all_told() {
    let database = Server::shared().database();
    database.sql(&[WORKSPACES, LEASES, RUNS].concat());
    workspace(&database, 0, "in_review");
    database.sql(&format!(
        "insert into execution_workspace_runtime_leases (execution_workspace_id, expires_at) values ('{0}', 'infinity');
         insert into heartbeat_runs (id, status, context_snapshot)
         values ('{1}', 'running', '{{\"executionWorkspaceId\": \"{0}\"}}');",
        id(0),
        id(1)
    ));
    let reason = format!("it is in review; a runtime lease runs until infinity; run {} is running", id(1));
    assert_eq!(read(&database, 0..2), [row(0, Some(THEN), Some(&reason))]);
}

#[test]
fn an_older_schema_without_leases_and_runs_is_asked_for_rows_alone() {
    let database = Server::shared().database();
    database.sql("create schema app");
    database.sql(&WORKSPACES.replace("execution_workspaces", "app.execution_workspaces"));
    database.sql(&format!("alter database {} set search_path = app, public", database.name()));
    workspace(&database, 0, "active");
    assert_eq!(read(&database, 0..2), [row(0, Some(THEN), None)]);
}

#[test]
fn which_schema_is_meant_is_not_guessed_from_the_search_path() {
    let database = Server::shared().database();
    database.sql("create schema old");
    database.sql(&WORKSPACES.replace("execution_workspaces", "old.execution_workspaces"));
    database.sql(&[WORKSPACES, LEASES].concat());
    database.sql(&format!("alter database {} set search_path = old, public", database.name()));
    let why = owners(&database).connect().unwrap_err().why;
    let tables = "several tables `execution_workspaces` (old.execution_workspaces, public.execution_workspaces)";
    assert!(why.contains(tables) && why.contains("`owner.schema`"), "{why}");
    database.sql(&format!(
        "insert into public.execution_workspaces (id, status, last_used_at) values ('{}', 'active', now())",
        id(3)
    ));
    let rows = |schema: &str| {
        let mut owners =
            PostgresOwners::new(source(), settings(&database), Asking::Paperclip { schema: Some(schema.into()) });
        owners.connect().unwrap();
        owners.row(&id(3)).unwrap().len()
    };
    assert_eq!((rows("old"), rows("public")), (0, 1));
    // Leases that are not where the workspaces are may be theirs.
    database.sql("drop table public.execution_workspaces cascade");
    let why = owners(&database).connect().unwrap_err().why;
    assert!(why.contains("`execution_workspace_runtime_leases` is in another schema"), "{why}");
}

#[test]
fn a_table_that_exists_and_cannot_be_read_is_not_a_missing_one() {
    let database = Server::shared().database();
    let role = format!("reader_{}", database.name());
    database.sql(&[WORKSPACES, LEASES].concat());
    database.sql(&format!("create role {role} login; grant select on execution_workspaces to {role}"));
    let url = database.url().replace("postgres@", &format!("{role}@"));
    let connect = || {
        let mut settings = settings(&database);
        settings.server = derelict_observe::postgres::Server::Url(derelict_observe::postgres::Secret::new(url.clone()));
        let mut owners = PostgresOwners::new(source(), settings, Asking::Paperclip { schema: None });
        owners.connect().and_then(|()| owners.row(&id(0))).map_err(|lost| lost.why)
    };
    let why = connect().unwrap_err();
    assert!(why.ends_with("permission denied for table execution_workspace_runtime_leases (SQLSTATE 42501)"), "{why}");
    database.sql(&format!("grant select on execution_workspace_runtime_leases to {role}"));
    assert_eq!(connect(), Ok(Vec::new()));
}

#[test]
fn a_database_without_the_table_of_workspaces_is_refused() {
    let database = Server::shared().database();
    let why = owners(&database).connect().unwrap_err().why;
    assert!(why.ends_with("it has no table `execution_workspaces`"), "{why}");
    database.sql("create table execution_workspaces (id uuid, status text, last_used_at timestamp)");
    let why = owners(&database).connect().unwrap_err().why;
    assert!(why.starts_with("the column `last_used_at` of the owner query is timestamp without time zone"), "{why}");
}

#[test]
fn its_lock_is_the_one_that_the_program_takes() {
    let database = Server::shared().database();
    database.sql(WORKSPACES);
    let mut owners = connected(&database);
    assert_eq!(owners.ids(), IdScheme::Uuid);
    let free = || {
        database.sql(&format!(
            "select pg_try_advisory_xact_lock(hashtextextended('execution_workspace_lifecycle:' || '{}'::uuid, 0))",
            id(0)
        ))
    };
    assert_eq!(free(), "t");
    let lock = owners.lock(&id(0)).unwrap();
    assert_eq!((lock.is_some(), free().as_str()), (true, "f"));
    drop(lock);
    assert_eq!(free(), "t");
}

#[test]
#[ignore = "needs the migrations of @paperclipai/db, named by DERELICT_TEST_PAPERCLIP_MIGRATIONS"]
fn the_real_migrations_make_tables_that_the_preset_reads() {
    let directory = std::env::var_os(MIGRATIONS).map(std::path::PathBuf::from);
    let directory = directory.expect("because this test was asked for, and needs to know where they are");
    let journal = std::fs::read(directory.join("meta/_journal.json")).unwrap();
    let journal: serde_json::Value = serde_json::from_slice(&journal).unwrap();
    let database = Server::shared().database();
    let mut leases_are_there = false;
    for (applied, entry) in journal["entries"].as_array().unwrap().iter().enumerate() {
        let tag = entry["tag"].as_str().unwrap();
        let statements = std::fs::read_to_string(directory.join(format!("{tag}.sql"))).unwrap();
        database.sql(&format!("begin;\n{statements}\n;commit;"));
        // Each schema on the way is some deployment's: with the table of workspaces the preset has to fit.
        let found = database
            .sql("select to_regclass('execution_workspaces'), to_regclass('execution_workspace_runtime_leases')");
        if found != "|" {
            connected(&database);
            leases_are_there = found.ends_with("leases");
        }
        println!("{applied} {tag}: {found}");
    }
    assert!(leases_are_there);
    // Owners of rows are other tables' business, and these are many.
    database.sql(&format!(
        "set session_replication_role = replica;
         insert into execution_workspaces (id, company_id, project_id, mode, strategy_type, name, last_used_at)
         select ('0188a3c2-7b1d-4c5e-9f00-00000000000' || i)::uuid, gen_random_uuid(), gen_random_uuid(),
                'isolated_workspace', 'git_worktree', 'w', to_timestamp(1700000000) from generate_series(0, 2) i;
         insert into execution_workspace_runtime_leases (company_id, execution_workspace_id, owner_key, last_action, expires_at)
         values (gen_random_uuid(), '{}', 'k', 'claim', 'infinity');
         insert into heartbeat_runs (id, company_id, agent_id, status, context_snapshot)
         values ('{}', gen_random_uuid(), gen_random_uuid(), 'running', '{{\"executionWorkspaceId\": \"{}\"}}');",
        id(1),
        id(9),
        id(2)
    ));
    let expected = [
        row(0, Some(THEN), None),
        row(1, Some(THEN), Some("a runtime lease runs until infinity")),
        row(2, Some(THEN), Some(&format!("run {} is running", id(9)))),
    ];
    assert_eq!(read(&database, 0..4), expected);
    assert!(connected(&database).lock(&id(0)).unwrap().is_some());
}
