//! Owners in SQLite, in real files that a program may be writing to.

use std::path::{Path, PathBuf};
use std::time::Duration;

use derelict_core::ids::{SourceId, Timestamp};
use derelict_observe::sqlite::{SqliteOwners, SqliteSettings};
use derelict_observe::table::{IdScheme, Leadership, OwnerTable as _, Row};
use derelict_testkit::Scratch;
use derelict_testkit::scratch::{exists, give_to, read, rename, set_mode, write};
use rusqlite::Connection;

const THEN: Timestamp = Timestamp::new(1_700_000_000, 0);

const QUERY: &str = "select id, used as last_used_at from owners where id in (select value from json_each(?1))";

const SOON: Duration = Duration::from_secs(20);

/// A user without any rights of its own.
const NOBODY: u32 = 65_534;

struct World {
    scratch: Scratch,
}

impl World {
    fn new() -> Self {
        let world = Self { scratch: Scratch::new() };
        world.program("create table owners (id text, used, held, reason)");
        world
    }

    fn path(&self) -> PathBuf {
        self.scratch.path().join("owners.db")
    }

    /// The program whose database it is; it stays open until dropped.
    fn program(&self, statements: &str) -> Connection {
        let connection = Connection::open(self.path()).unwrap();
        connection.execute_batch(statements).unwrap();
        connection
    }

    fn owners(&self, query: &str) -> SqliteOwners {
        self.with(settings(&self.path(), query))
    }

    fn with(&self, settings: SqliteSettings) -> SqliteOwners {
        SqliteOwners::new(SourceId("rows".into()), settings)
    }

    fn connected(&self, query: &str) -> SqliteOwners {
        let mut owners = self.owners(query);
        owners.connect().unwrap();
        owners
    }

    /// Why connecting fails, or else the first snapshot, with a name for the file that holds everywhere.
    fn refusal(&self, settings: SqliteSettings) -> String {
        let mut owners = self.with(settings);
        let lost = owners.connect().and_then(|()| owners.rows(&texts(["a"]))).unwrap_err();
        assert_eq!(lost.source_id, SourceId("rows".into()));
        lost.why.replace(&self.scratch.path().display().to_string(), "DIR")
    }
}

fn settings(path: &Path, query: &str) -> SqliteSettings {
    SqliteSettings { path: path.into(), ids: IdScheme::Text, query: query.into(), held_query: None, timeout: SOON }
}

fn row(id: &str, last_used_at: Option<Timestamp>, held: Option<&str>) -> Row {
    Row { id: id.into(), last_used_at, held: held.map(Into::into) }
}

fn texts<const N: usize>(ids: [&str; N]) -> Vec<String> {
    ids.map(str::to_owned).to_vec()
}

fn sorted(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_by(|one, other| {
        (&one.id, one.last_used_at, &one.held).cmp(&(&other.id, other.last_used_at, &other.held))
    });
    rows
}

#[test]
fn rows_and_holds_come_as_they_are_and_nobody_leads_or_locks() {
    let world = World::new();
    world.program(
        "insert into owners values ('used', 1700000000, null, null), ('null', null, 0, 'no hold'),
         ('text', '2023-11-14 22:13:20', 'in review', null), ('twice', 1700000000.0, 1, 'flagged'),
         ('twice', null, '', null), ('stranger', 1700000000, null, null);
         create table holds (id text, why text);
         insert into holds values ('used', 'pinned'), ('ghost', null), ('stranger', 'pinned')",
    );
    let query =
        "select id, used as last_used_at, held, reason from owners where id in (select value from json_each(?1))";
    let held_query = Some("select id, why as reason from holds where id in (select value from json_each($1))".into());
    let mut owners = world.with(SqliteSettings { held_query, ..settings(&world.path(), query) });
    owners.connect().unwrap();
    let snapshot = owners.rows(&texts(["used", "null", "text", "twice", "ghost", "absent"])).unwrap();
    let expected = [
        row("ghost", None, Some("held")),
        row("null", None, None),
        row("text", Some(THEN), Some("in review")),
        row("twice", None, Some("held")),
        row("twice", Some(THEN), Some("flagged")),
        row("used", Some(THEN), Some("pinned")),
    ];
    assert_eq!(snapshot.clock, None);
    assert_eq!(sorted(snapshot.rows), expected);
    assert_eq!(owners.row("used").unwrap(), [row("used", Some(THEN), Some("pinned"))]);
    assert_eq!(owners.row("absent").unwrap(), []);
    assert_eq!(owners.lead("/srv").unwrap(), Leadership::NoneOfItsBusiness);
    assert!(owners.lock("used").unwrap().is_none());
}

#[test]
fn an_id_of_another_case_is_found_where_case_does_not_count() {
    let world = World::new();
    let upper = "0188A3C2-7B1D-4C5E-9F00-00000000ABCD";
    world.program(&format!("insert into owners values ('{upper}', 1700000000, null, null)"));
    let lower = upper.to_lowercase();
    let mut owners = world.with(SqliteSettings { ids: IdScheme::Uuid, ..settings(&world.path(), QUERY) });
    owners.connect().unwrap();
    assert_eq!(owners.row(&lower).unwrap(), [row(&lower, Some(THEN), None)]);
    assert_eq!(owners.rows(std::slice::from_ref(&lower)).unwrap().rows, [row(&lower, Some(THEN), None)]);
}

#[test]
fn a_program_that_writes_in_wal_mode_is_followed_from_commit_to_commit() {
    let world = World::new();
    let program = world.program(
        "pragma journal_mode = wal; pragma wal_autocheckpoint = 0;
         insert into owners values ('a', 1600000000, null, null);
         begin immediate; update owners set used = 1700000000",
    );
    let mut owners = world.connected(QUERY);
    let before = Timestamp::new(1_600_000_000, 0);
    assert_eq!(owners.rows(&texts(["a"])).unwrap().rows, [row("a", Some(before), None)]);
    program.execute_batch("commit").unwrap();
    assert_eq!(owners.row("a").unwrap(), [row("a", Some(THEN), None)]);
    // We hold no lock between two questions: the program can fold its log into the file and write on.
    program.execute_batch("pragma wal_checkpoint(truncate); delete from owners").unwrap();
    assert_eq!(owners.row("a").unwrap(), []);
}

#[test]
fn a_wal_database_in_a_directory_that_is_read_only_to_us_is_read_if_its_program_runs_and_explained_if_not() {
    let world = World::new();
    let program = world.program("pragma journal_mode = wal; insert into owners values ('a', 1700000000, null, null)");
    set_mode(world.scratch.path(), 0o755);
    let path = world.path();
    let ask = || {
        let settings = settings(&path, QUERY);
        let asked = std::thread::spawn(move || {
            let nobody = rustix::thread::Uid::from_raw(NOBODY);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            let mut owners = SqliteOwners::new(SourceId("rows".into()), settings);
            owners.connect().and_then(|()| owners.row("a")).map_err(|lost| lost.why)
        });
        asked.join().unwrap()
    };
    assert_eq!(ask(), Ok(vec![row("a", Some(THEN), None)]));
    drop(program);
    assert!(!exists(path.with_extension("db-shm")));
    let why = ask().unwrap_err().replace(&path.display().to_string(), "FILE");
    assert_eq!(
        why,
        "cannot open FILE: attempt to write a readonly database; in WAL mode its -wal and -shm files have to be \
         readable, and its directory writable if they are missing"
    );
    give_to(world.scratch.path(), NOBODY);
    assert_eq!(ask(), Ok(vec![row("a", Some(THEN), None)]));
    let mut names: Vec<_> = std::fs::read_dir(world.scratch.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["owners.db", "owners.db-shm", "owners.db-wal"]);
}

#[test]
fn nothing_of_the_database_is_changed_by_asking() {
    let world = World::new();
    drop(world.program("insert into owners values ('a', 1700000000, null, null)"));
    let before = read(world.path());
    let mut owners = world.connected(QUERY);
    owners.rows(&texts(["a"])).unwrap();
    let deleting =
        "delete from owners where id in (select value from json_each(?1)) returning id, used as last_used_at";
    assert_eq!(
        world.refusal(settings(&world.path(), deleting)),
        "in DIR/owners.db: the owner query is no query that only reads"
    );
    drop(owners);
    assert_eq!(read(world.path()), before);
    let names: Vec<_> =
        std::fs::read_dir(world.scratch.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["owners.db"]);
}

#[test]
fn a_file_that_was_replaced_is_not_read_any_more() {
    let world = World::new();
    world.program("insert into owners values ('a', 1600000000, null, null)");
    let mut owners = world.connected(QUERY);
    std::fs::copy(world.path(), world.path().with_extension("new")).unwrap();
    rename(world.path().with_extension("new"), world.path());
    let why = owners.row("a").unwrap_err().why;
    assert_eq!(why, format!("{} was replaced by another file", world.path().display()));
    let why = owners.row("a").unwrap_err().why;
    assert_eq!(why, format!("{} was not opened", world.path().display()));
    owners.connect().unwrap();
    assert_eq!(owners.row("a").unwrap().len(), 1);
    std::fs::remove_file(world.path()).unwrap();
    let why = owners.row("a").unwrap_err().why;
    assert_eq!(why, format!("cannot look at {}: No such file or directory (os error 2)", world.path().display()));
}

#[test]
fn a_slow_query_is_ended_and_named() {
    let world = World::new();
    let slow = "with recursive n (x) as (select 1 union all select x + 1 from n)
                select id, x as last_used_at from owners, n where id in (select value from json_each(?1))";
    world.program("insert into owners values ('a', 1700000000, null, null)");
    let slow =
        slow.replace("x as last", "1700000000 + 0 * x as last").replace("from owners, n", "from n left join owners");
    let settings = SqliteSettings { timeout: Duration::from_millis(100), ..settings(&world.path(), &slow) };
    let why = world.refusal(settings);
    assert_eq!(why, "the query did not finish in DIR/owners.db within 0.1 seconds");
}

#[test]
fn a_database_that_somebody_keeps_locked_is_waited_for_within_bounds() {
    let world = World::new();
    let program = world.program("begin exclusive");
    let settings = SqliteSettings { timeout: Duration::from_millis(100), ..settings(&world.path(), QUERY) };
    let why = world.refusal(settings);
    assert_eq!(why, "cannot open DIR/owners.db: database is locked");
    drop(program);
}

#[test]
fn a_query_that_does_not_fit_is_refused_by_name() {
    let world = World::new();
    world.program("insert into owners values ('a', 1700000000, null, null); create table odd (id, used)");
    world.program("insert into odd values (7, 1700000000), ('a', x'00')");
    let refused = |query: &str| world.refusal(settings(&world.path(), query));
    let cases = [
        ("select id from nowhere", "the owner query failed in DIR/owners.db: no such table: nowhere"),
        (
            "select id, used as last_used_at from owners",
            "in DIR/owners.db: the owner query takes 0 parameters instead of one, ?1: the ids as a JSON array, as in `FROM json_each(?1) AS asked JOIN workspaces AS w ON w.id = asked.value`",
        ),
        ("select id from owners where ?1", "in DIR/owners.db: the owner query returns no column `last_used_at`"),
        (
            "select id, used as last_used_at, held as hold from owners where ?1",
            "in DIR/owners.db: the owner query returns a column `hold`, which is none of id, last_used_at, held, reason",
        ),
        ("select id, id, used from owners where ?1", "in DIR/owners.db: the owner query returns the column `id` twice"),
        (
            "select id, used as last_used_at, reason from owners where ?1",
            "in DIR/owners.db: the owner query returns `reason` without `held`, which it would explain",
        ),
        (
            "select 7 as id, used as last_used_at from owners where ?1 is not null",
            "in DIR/owners.db: the owner query returned an integer as `id`, which has to be text: cast a number, and write a blob by lower(hex(…))",
        ),
        (
            "select id, x'00' as last_used_at from owners where ?1 is not null",
            "in DIR/owners.db: the owner query returned a blob as `last_used_at`, which has to be seconds since 1970 in the years 2000 to 9999, ISO 8601 text, or NULL when it is not known",
        ),
        (
            "select id, used as last_used_at, 7 as held from owners where ?1 is not null",
            "in DIR/owners.db: the owner query returned an integer as `held`, which has to be text, 1, 0 or NULL",
        ),
        ("select 1; select ?1", "the owner query failed in DIR/owners.db: Multiple statements provided"),
    ];
    for (query, why) in cases {
        assert_eq!(refused(query), why, "{query}");
    }
}

#[test]
fn a_file_that_is_no_database_or_not_there_is_named() {
    let world = World::new();
    let nowhere = world.scratch.path().join("nowhere.db");
    assert_eq!(
        world.refusal(settings(&nowhere, QUERY)),
        "cannot look at DIR/nowhere.db: No such file or directory (os error 2)"
    );
    let text = world.scratch.path().join("text.db");
    write(&text, "this is no database at all, however long one may look at it".repeat(100));
    assert_eq!(world.refusal(settings(&text, QUERY)), "cannot open DIR/text.db: file is not a database");
    let empty = world.scratch.path().join("empty.db");
    write(&empty, "");
    assert_eq!(world.refusal(settings(&empty, QUERY)), "the owner query failed in DIR/empty.db: no such table: owners");
}

#[test]
fn a_hundred_thousand_ids_are_one_query() {
    let world = World::new();
    world.program(
        "create table many (id text primary key, used) without rowid;
         with recursive n (x) as (select 1 union all select x + 1 from n limit 200000)
         insert into many select printf('run-%07d', x), 1700000000 from n",
    );
    let mut owners =
        world.connected("select id, used as last_used_at from many where id in (select value from json_each(?1))");
    let ids: Vec<String> = (1..=100_000).map(|number| format!("run-{:07}", number * 2)).collect();
    let rows = sorted(owners.rows(&ids).unwrap().rows);
    assert!(rows.iter().map(|row| &row.id).eq(ids.iter()));
    assert!(rows.iter().all(|row| row.last_used_at == Some(THEN)));
}
