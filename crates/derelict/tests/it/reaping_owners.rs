//! Owners in SQLite, owners that a command prints, and roots that nobody owns.

use derelict_testkit::git::tool;
use derelict_testkit::reaping::{Reaping, age};
use derelict_testkit::scratch::{exists, mkdir, write, write_script};
use derelict_testkit::{Run, Snapshot};

use crate::reap_support::swept;
use crate::support::DERELICT;

const LAYOUT: &str = "armed = true\nlayout.directories = [\"home\", \"session\"]\n";

fn reap(world: &Reaping) -> Run {
    world.run(DERELICT, &["reap", "--json"])
}

fn database(world: &Reaping) -> rusqlite::Connection {
    let database = rusqlite::Connection::open(world.top().join("owners.db")).expect("because it can be made");
    database
        .execute_batch(
            "pragma journal_mode = wal; create table w (id text primary key, used text, pinned integer default 0);
             insert into w values ('idle', datetime('now', '-60 days'), 0), ('used', datetime('now'), 0),
                 ('pinned', datetime('now', '-60 days'), 1), ('null', null, 0);",
        )
        .expect("because these are statements");
    database
}

#[test]
fn rows_of_a_running_program_in_sqlite_decide() {
    let world = Reaping::new();
    let database = database(&world);
    let path = world.top().join("owners.db");
    world.configure(&format!(
        "{LAYOUT}[roots.ws.owner]\nkind = \"sqlite\"\npath = {path:?}\n\
         query = \"SELECT id, used AS last_used_at FROM w WHERE id IN (SELECT value FROM json_each(?1))\"\n\
         held_query = \"SELECT id, 'pinned' AS reason FROM w WHERE pinned AND id IN (SELECT value FROM json_each(?1))\"\n"
    ));
    let names = ["idle", "none", "null", "pinned", "used"];
    names.iter().for_each(|name| drop(world.workspace(name, 60)));
    // What its writer has not put into the database file yet is seen too.
    database.execute("update w set used = datetime('now') where id = 'used'", []).expect("because it is a statement");
    let sweep = swept(reap(&world), 1);
    let expected = ["removed", "removed", "undetermined", "retained_leased", "referenced"];
    assert_eq!(names.map(|name| sweep.fate(name)), expected, "{}", sweep.finished);
    assert!(sweep.why("pinned").contains("pinned"), "{}", sweep.why("pinned"));
    assert_eq!(world.names(), ["null", "pinned", "used"]);
    let rows: u32 = database.query_row("select count(*) from w", [], |row| row.get(0)).expect("because it is a table");
    assert_eq!(rows, 4, "the rows are their owner's");
}

#[test]
fn a_database_that_is_gone_or_has_no_such_table_leaves_everything() {
    let world = Reaping::new();
    let path = world.top().join("owners.db");
    world.configure(&format!(
        "{LAYOUT}[roots.ws.owner]\nkind = \"sqlite\"\npath = {path:?}\n\
         query = \"SELECT id, used AS last_used_at FROM nothing WHERE id IN (SELECT value FROM json_each(?1))\"\n"
    ));
    world.workspace("a", 60);
    let before = Snapshot::of(world.root());
    assert_eq!(swept(reap(&world), 3).stop(), "source_lost sqlite");
    assert!(!exists(&path), "asking makes no database");
    drop(database(&world));
    assert_eq!(swept(reap(&world), 3).stop(), "source_lost sqlite");
    before.assert_unchanged();
}

#[test]
fn a_command_that_prints_owners_is_asked_again_before_each_removal() {
    let world = Reaping::new();
    let program = world.top().join("owners");
    let count = world.top().join("count");
    // From its third run on, it knows that `b` is in use: the first is the snapshot, then `a` is read again twice.
    write_script(
        &program,
        &format!(
            "echo run >>{count:?}\n\
             used=2001-02-03T04:05:06Z\n\
             [ $(wc -l <{count:?}) -gt 3 ] && used=$(date -u +%Y-%m-%dT%H:%M:%SZ)\n\
             echo '{{\"id\":\"a\",\"last_used_at\":\"2001-02-03T04:05:06Z\"}}'\n\
             echo '{{\"id\":\"b\",\"last_used_at\":\"'$used'\"}}'\n\
             echo '{{\"id\":\"c\",\"last_used_at\":null,\"held\":true,\"reason\":\"on show\"}}'\n"
        ),
    );
    world.configure(&format!("{LAYOUT}[roots.ws.owner]\nkind = \"command\"\nargv = [{program:?}]\n"));
    ["a", "b", "c"].iter().for_each(|name| drop(world.workspace(name, 60)));
    let sweep = swept(reap(&world), 0);
    let expected = ["removed", "retained_resurrected", "retained_leased"];
    assert_eq!(["a", "b", "c"].map(|name| sweep.fate(name)), expected, "{}", sweep.finished);
    assert!(sweep.why("c").contains("on show"), "{}", sweep.why("c"));
    assert_eq!(world.names(), ["b", "c"]);
}

#[test]
fn a_command_that_fails_leaves_everything() {
    let world = Reaping::new();
    world.configure(&format!("{LAYOUT}[roots.ws.owner]\nkind = \"command\"\nargv = [\"/bin/false\"]\n"));
    world.workspace("a", 60);
    let before = Snapshot::of(world.root());
    assert_eq!(swept(reap(&world), 3).stop(), "source_lost command");
    before.assert_unchanged();
}

#[test]
fn what_hangs_does_not_keep_the_program_beyond_its_bound() {
    let world = Reaping::new();
    let (program, asked) = (world.top().join("owners"), world.top().join("asked"));
    write_script(&program, &format!("echo >{asked:?}\nwhile [ -e {asked:?} ]; do sleep 0.1; done\n"));
    let owner = format!("{LAYOUT}[roots.ws.owner]\nkind = \"command\"\nargv = [{program:?}]\ntimeout = \"1h\"\n");
    let (state, root) = (world.state(), world.root());
    world.configure_whole(&format!("state = {state:?}\nstop_within = \"1s\"\n[roots.ws]\npath = {root:?}\n{owner}"));
    world.workspace("a", 60);
    let before = Snapshot::of(world.root());
    let mut running = reap(&world).start();
    while !exists(&asked) {
        std::thread::yield_now();
    }
    running.terminate();
    running.await_stderr("ends without the sweep in hand");
    running.finish().expect_code(1);
    before.assert_unchanged();
}

#[test]
fn where_nobody_is_asked_the_age_decides_and_has_to_be_given() {
    let world = Reaping::new();
    world.configure(&format!("{LAYOUT}owner = \"none\"\n"));
    let refused = reap(&world).finish();
    refused.expect_code(2).expect_stdout("minimum_age").expect_stdout("has to be given");
    world.configure(&format!("{LAYOUT}owner = \"none\"\nminimum_age = \"10d\"\n"));
    [("old", 11), ("young", 9)].iter().for_each(|(name, days)| drop(world.workspace(name, *days)));
    let sweep = swept(reap(&world), 0);
    assert_eq!(["old", "young"].map(|name| sweep.fate(name)), ["removed", "retained_fresh"], "{}", sweep.finished);
    assert_eq!(world.names(), ["young"]);
}

#[test]
fn a_root_of_checkouts_keeps_what_is_nowhere_else() {
    let world = Reaping::new();
    let git = |directory: &std::path::Path, arguments: &[&str]| {
        let mut command = tool("git");
        command.args(["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"]);
        let done = command.arg("-C").arg(directory).args(arguments).output().expect("because git can be started");
        assert!(done.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    };
    let origin = world.top().join("elsewhere/origin");
    mkdir(&origin);
    git(&origin, &["init", "-q"]);
    write(origin.join("f"), "x\n");
    git(&origin, &["add", "f"]);
    git(&origin, &["commit", "-qm", "first"]);
    for name in ["clean", "dirty", "unpushed"] {
        let path = world.path(name);
        git(world.top(), &["clone", "-q", &origin.display().to_string(), &path.display().to_string()]);
    }
    write(world.path("dirty").join("notes"), "the only copy\n");
    git(&world.path("unpushed"), &["commit", "-q", "--allow-empty", "-m", "work"]);
    ["clean", "dirty", "unpushed"].iter().for_each(|name| age(&world.path(name), 60));
    world.configure("armed = true\nlayout = \"checkout\"\nowner = \"none\"\nminimum_age = \"10d\"\n");
    let kept = ["dirty", "unpushed"].map(|name| Snapshot::of(world.path(name)));
    let sweep = swept(reap(&world), 0);
    let expected = ["removed", "unsaved", "unsaved"];
    assert_eq!(["clean", "dirty", "unpushed"].map(|name| sweep.fate(name)), expected, "{}", sweep.finished);
    kept.iter().for_each(Snapshot::assert_unchanged);
    assert_eq!(world.names(), ["dirty", "unpushed"]);
}
