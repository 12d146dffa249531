//! The configuration of unattended sweeps: what is wrong is told with its place, its value and its bound, and nothing
//! is swept then; what is secret is never told.

use derelict_testkit::postgres::Server;
use derelict_testkit::reaping::Reaping;
use derelict_testkit::scratch::set_mode;
use derelict_testkit::{Finished, Run, Snapshot};
use serde_json::Value;

use crate::reap_support::PRESET;
use crate::support::DERELICT;

/// A password that must not be seen anywhere.
const SECRET: &str = "correct-horse";

fn check(world: &Reaping) -> Run {
    world.run(DERELICT, &["config", "check"]).env("DATABASE_URL", format!("postgres://u:{SECRET}@127.0.0.1:1/d"))
}

/// Every mistake, with the sentence that `config check` says about it after the file's name.
#[test]
fn every_mistake_is_told_with_its_line_its_key_its_value_and_its_bound() {
    let cases = [
        ("idel = \"30d\"", ":7: roots.ws.idel: there is no such key; did you mean `roots.*.idle`?"),
        ("idle = \"6d\"", ":7: roots.ws.idle = \"6d\": with a preset it has to be at least 7d"),
        ("idle = 30", ":7: roots.ws.idle = 30: it has to be a span of time such as 30d, 12h, 15m or 90s"),
        ("interval = \"1m\"", ":7: roots.ws.interval = \"1m\": it has to be at least 5m"),
        ("grace = \"91d\"", ":7: roots.ws.grace = \"91d\": it has to be at most 90d"),
        ("limits.removals = 0", ":7: roots.ws.limits.removals = 0: it has to be a whole number from 1 to 1000000"),
        ("limits.bytes = \"0GiB\"", ":7: roots.ws.limits.bytes = \"0GiB\": it has to be at least one byte"),
        ("armed = \"yes\"", ":7: roots.ws.armed = \"yes\": it has to be true or false"),
        ("acknowledge = [\"all\"]", "each has to be one of empty-source, source-shrank"),
        ("ids = \"text\"", ":7: roots.ws.ids = \"text\": the ids of the preset are uuids"),
        ("layout = \"checkout\"", ":7: roots.ws.layout.kind = \"checkout\": the preset has a layout of its own"),
        ("armed = ", ":7: "),
        ("idle = \"30d\"\nidle = \"31d\"", ":8: "),
        (
            "limits.removals = 1.5",
            ":7: roots.ws.limits.removals: it has to be a text, a whole number, a flag or a list",
        ),
        ("[floors]\nidle = \"1d\"", ":7: floors: floors can be set in /etc/derelict/config.toml only"),
        ("[roots.two]\npreset = \"paperclip\"", "roots.two.path: a root needs a path"),
        ("[log]\nlevel = \"loud\"", ":8: log.level = \"loud\": it has to be one of error, warn, info, debug"),
    ];
    let world = Reaping::new();
    world.configure(PRESET);
    check(&world).finish().expect_code(0).expect_stdout("ok: 1 root");
    for (lines, says) in cases {
        world.configure(&format!("{PRESET}{lines}\n"));
        let finished = check(&world).finish();
        let told = if says.starts_with(':') { format!("{}{says}", world.config().display()) } else { says.to_owned() };
        finished.expect_code(2).expect_stderr(&told);
    }
}

#[test]
fn all_that_is_wrong_is_told_at_once_and_nothing_is_swept() {
    let world = Reaping::new();
    world.workspace("a", 60);
    let before = Snapshot::of(world.root());
    world.configure("owner = \"nobody\"\narmed = true\nidle = \"1s\"\n");
    for command in [&["reap"][..], &["serve"], &["config", "check"], &["config", "show"]] {
        let finished = world.run(DERELICT, command).finish();
        finished.expect_code(2).expect_stderr("owner.kind = \"nobody\": it has to be one of none, postgres");
        finished.expect_stderr("idle = \"1s\": it has to be at least 1h").expect_stderr("a root needs a layout");
    }
    before.assert_unchanged();
}

#[test]
fn a_file_that_others_may_write_or_that_is_missing_is_refused() {
    let world = Reaping::new();
    world.configure(PRESET);
    set_mode(&world.config(), 0o664);
    check(&world).finish().expect_code(2).expect_stderr("others may write it");
    set_mode(&world.config(), 0o644);
    derelict_testkit::scratch::give_to(world.config(), 1234);
    check(&world).finish().expect_code(2).expect_stderr("it belongs to user 1234");
    derelict_testkit::scratch::remove(world.config());
    check(&world).finish().expect_code(2).expect_stderr("derelict.toml: ");
}

#[test]
fn the_environment_is_stronger_than_the_file_and_is_named_in_errors() {
    let world = Reaping::new();
    world.configure(&format!("{PRESET}idle = \"40d\"\n"));
    let wrong = check(&world).env("DERELICT_ROOTS_WS_IDLE", "6d").finish();
    wrong.expect_code(2).expect_stderr("DERELICT_ROOTS_WS_IDLE: roots.ws.idle = \"6d\": with a preset it has to be at");
    let unknown = check(&world).env("DERELICT_ROOTS_WS_IDEL", "60d").finish();
    unknown.expect_code(2).expect_stderr("DERELICT_ROOTS_WS_IDEL: no key has this variable");
    let shown = world.run(DERELICT, &["config", "show", "--json"]).env("DERELICT_ROOTS_WS_IDLE", "50d");
    let shown = shown.env("DATABASE_URL", "postgres://h/d").finish();
    let settings = shown.json()["settings"].as_array().expect("because it is a list").clone();
    let idle = settings.iter().find(|one| one["key"] == "roots.ws.idle").expect("because it is in force");
    assert_eq!((&idle["value"], &idle["origin"]), (&Value::from("50d"), &Value::from("DERELICT_ROOTS_WS_IDLE")));
}

/// Checks that nothing that was printed gives the password away.
#[track_caller]
fn assert_keeps_the_secret(finished: &Finished) {
    assert!(!finished.stdout.contains(SECRET) && !finished.stderr.contains(SECRET), "{finished}");
}

#[test]
fn no_secret_is_ever_printed() {
    let world = Reaping::new();
    world.configure(PRESET);
    let url = format!("postgres://u:{SECRET}@127.0.0.1:1/d");
    let shows = [&["config", "show"][..], &["config", "show", "--json"], &["config", "check"]];
    for command in shows {
        let finished = world.run(DERELICT, command).env("DATABASE_URL", &url).finish();
        assert_keeps_the_secret(finished.expect_code(0));
    }
    for command in [&["reap"][..], &["reap", "--json"]] {
        let run = world.run(DERELICT, command).env("DATABASE_URL", &url).env("DERELICT_LOG_LEVEL", "debug");
        let finished = run.env("DERELICT_ROOTS_WS_OWNER_CONNECT_TIMEOUT", "1s").finish();
        assert_keeps_the_secret(finished.expect_code(3));
        finished.expect_stderr("127.0.0.1");
    }
    let broken = format!("postgres://u:{SECRET}@h:port/d");
    let finished = world.run(DERELICT, &["config", "check"]).env("DATABASE_URL", broken).finish();
    assert_keeps_the_secret(finished.expect_code(2));
    for line in [format!("url = {url:?}"), format!("password = {SECRET:?}")] {
        world.configure(&format!("preset = \"paperclip\"\n[roots.ws.owner]\nkind = \"postgres\"\n{line}\n"));
        let finished = world.run(DERELICT, &["config", "check"]).finish();
        assert_keeps_the_secret(finished.expect_code(2).expect_stderr("secrets do not belong into the configuration"));
    }
}

#[test]
fn a_password_that_is_wrong_is_not_printed_either() {
    let server = Server::start();
    let database = server.database();
    database.sql(&format!("create role other login password 'another-{SECRET}-one'"));
    server.require_passwords();
    let world = Reaping::new();
    let file = world.top().join("password");
    derelict_testkit::scratch::write(&file, format!("{SECRET}\n"));
    world.configure(&format!(
        "preset = \"paperclip\"\n[roots.ws.owner]\nkind = \"postgres\"\nhost = {:?}\nuser = \"other\"\n\
         dbname = {:?}\npassword_file = {file:?}\n",
        database.host(),
        database.name()
    ));
    let finished = world.run(DERELICT, &["reap", "--json"]).env("DERELICT_LOG_LEVEL", "debug").finish();
    assert_keeps_the_secret(finished.expect_code(3));
    finished.expect_stdout("password authentication failed");
}

#[test]
fn the_schema_is_a_json_schema_and_the_example_is_a_configuration() {
    let schema = Run::new(DERELICT).args(["config", "schema"]).env("HOME", "/nonexistent").finish();
    let schema = schema.expect_code(0).json();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(schema["additionalProperties"], false);
    let world = Reaping::new();
    world.configure_whole(include_str!("../../../../examples/derelict.toml"));
    check(&world).finish().expect_code(0).expect_stdout("ok: 3 roots");
}
