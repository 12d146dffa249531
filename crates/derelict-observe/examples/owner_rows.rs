//! Measures what a sweep asks of a table of owners: many rows at once, and one row by its id, of a
//! million in PostgreSQL and in SQLite. Run it with `cargo run --release -p derelict-observe --example owner_rows`.

use std::time::{Duration, Instant};

use derelict_core::ids::SourceId;
use derelict_observe::postgres::{Asking, PostgresOwners, Queries, Secret, Server as At, Settings};
use derelict_observe::sqlite::{SqliteOwners, SqliteSettings};
use derelict_observe::table::{IdScheme, OwnerTable};
use derelict_testkit::Scratch;
use derelict_testkit::postgres::Server;

/// Rows of the table.
const ROWS: usize = 1_000_000;

/// Numbers of ids asked for at once.
const SIZES: [usize; 5] = [1_000, 5_000, 10_000, 30_000, 100_000];

/// Single rows asked for.
const SINGLE: usize = 5_000;

/// Turns of each size.
const TURNS: usize = 15;

fn main() {
    let server = Server::start();
    let database = server.database();
    database.sql(&format!(
        "create table owners (id uuid primary key, last_used_at timestamptz not null);
         insert into owners select md5(i::text)::uuid, to_timestamp(1700000000) from generate_series(1, {ROWS}) i;"
    ));
    database.sql("create table texts as select id::text as id, last_used_at from owners");
    database.sql("alter table texts add primary key (id)");
    database.sql("analyze owners; analyze texts");
    let step = ROWS / SIZES[SIZES.len() - 1];
    let ids = database.sql(&format!("select md5(i::text)::uuid from generate_series(1, {ROWS}, {step}) i"));
    let ids: Vec<String> = ids.lines().map(str::to_owned).collect();
    let postgres = |table: &str, held: Option<&str>| {
        let queries = Queries {
            query: format!("select id, last_used_at from {table} where id = any($1)"),
            held_query: held.map(Into::into),
            lock_query: None,
        };
        let settings = Settings::new(At::Url(Secret::new(database.url())));
        PostgresOwners::new(SourceId("rows".into()), settings, Asking::Operator { ids: IdScheme::Uuid, queries })
    };
    measure("PostgreSQL, uuid", &mut postgres("owners", None), &ids);
    measure("PostgreSQL, text", &mut postgres("texts", None), &ids);
    let held = "select id from owners where id = any($1) and last_used_at > now()";
    measure("PostgreSQL, uuid, with a held query", &mut postgres("owners", Some(held)), &ids);
    let preset = server.database();
    preset.sql(&format!(
        "create table execution_workspaces (id uuid primary key, status text not null, last_used_at timestamptz not null);
         insert into execution_workspaces select md5(i::text)::uuid, 'active', to_timestamp(1700000000) from generate_series(1, {ROWS}) i;
         create table execution_workspace_runtime_leases (execution_workspace_id uuid unique, expires_at timestamptz);
         create table heartbeat_runs (id uuid, status text, context_snapshot jsonb);
         insert into heartbeat_runs select gen_random_uuid(), 'succeeded', jsonb_build_object('executionWorkspaceId', md5(i::text)::uuid) from generate_series(1, 20000) i;"
    ));
    preset.sql("analyze");
    let settings = Settings::new(At::Url(Secret::new(preset.url())));
    measure(
        "preset paperclip, 20,000 runs",
        &mut PostgresOwners::new(SourceId("rows".into()), settings, Asking::Paperclip { schema: None }),
        &ids,
    );
    let scratch = Scratch::new();
    let path = scratch.path().join("owners.db");
    let mut connection = rusqlite::Connection::open(&path).expect("because the directory is there");
    let transaction = connection.transaction().expect("because nobody else has it open");
    transaction
        .execute_batch("create table owners (id text primary key, last_used_at integer not null)")
        .expect("because it is empty");
    for line in database.sql("select id from texts").lines() {
        let inserted = transaction.execute("insert into owners values (?1, 1700000000)", [line]);
        inserted.expect("because ids are unique");
    }
    transaction.commit().expect("because there is room");
    let query = "select o.id, o.last_used_at from json_each(?1) as asked join owners as o on o.id = asked.value";
    for (name, scheme) in [("SQLite, text", IdScheme::Text), ("SQLite, uuid in text", IdScheme::Uuid)] {
        let settings = SqliteSettings {
            path: path.clone(),
            ids: scheme,
            query: query.into(),
            held_query: None,
            timeout: Duration::from_secs(60),
        };
        measure(name, &mut SqliteOwners::new(SourceId("rows".into()), settings), &ids);
    }
}

fn measure(name: &str, owners: &mut dyn OwnerTable, ids: &[String]) {
    // One argument measures only what has it in its name.
    if std::env::args().nth(1).is_some_and(|wanted| !name.contains(&wanted)) {
        return;
    }
    println!("{name}");
    let begun = Instant::now();
    owners.connect().expect("because it is there");
    println!("  connect {:>10.2} ms", begun.elapsed().as_secs_f64() * 1e3);
    for size in SIZES {
        let asked: Vec<String> = ids.iter().step_by(ids.len() / size).take(size).cloned().collect();
        let before = processor();
        let took = took((0..TURNS).map(|_| {
            let begun = Instant::now();
            let rows = owners.rows(&asked).expect("because it is there").rows;
            assert_eq!(rows.len(), size);
            begun.elapsed()
        }));
        let an_id = |took: Duration| took.as_secs_f64() * 1e6 / size as f64;
        let ours = an_id((processor() - before) / TURNS as u32);
        let (median, best) = (an_id(took.median), an_id(took.best));
        println!(
            "  {size:>7} ids {median:>8.2} µs an id, at best {best:.2}; {ours:.2} of the processor in this process"
        );
    }
    let took = took(ids.iter().step_by(ids.len() / SINGLE).map(|id| {
        let begun = Instant::now();
        assert_eq!(owners.row(id).expect("because it is there").len(), 1);
        begun.elapsed()
    }));
    println!("  one row {:>10.1} µs", took.median.as_secs_f64() * 1e6);
}

/// How long this thread has had a processor.
fn processor() -> Duration {
    let spent = std::fs::read_to_string("/proc/thread-self/schedstat").expect("because this is Linux");
    let nanoseconds = spent.split(' ').next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanoseconds.expect("because the first word is a number"))
}

/// On a machine that others use, too, the best says more than the median.
struct Took {
    median: Duration,
    best: Duration,
}

fn took(times: impl Iterator<Item = Duration>) -> Took {
    let mut times: Vec<Duration> = times.collect();
    times.sort();
    Took { median: times[times.len() / 2], best: times[0] }
}
