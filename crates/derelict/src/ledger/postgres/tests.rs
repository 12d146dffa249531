//! The promises of the store in PostgreSQL, on a real server.

use derelict_observe::postgres::{Secret, Server};
use derelict_testkit::postgres::{Database, Server as TestServer};

use super::*;
use crate::ledger::samples::{many, sweep, three};
use crate::ledger::{Filter, Ledger as _, contract};

fn settings(database: &Database) -> Settings {
    Settings::new(Server::Url(Secret::new(database.url())))
}

#[test]
fn it_keeps_the_contract_of_every_store() {
    let database = TestServer::shared().database();
    contract::holds(&mut || Box::new(open(&settings(&database), SCHEMA).unwrap()));
}

#[test]
fn any_name_of_a_schema_is_taken_as_it_is_and_nothing_is_made_elsewhere() {
    let database = TestServer::shared().database();
    let odd = "Our \"ledger\"; DROP SCHEMA public";
    open(&settings(&database), odd).unwrap().record(&three()[2]).unwrap();
    assert_eq!(open(&settings(&database), odd).unwrap().known().unwrap().len(), 1);
    let schemas = database.sql("SELECT DISTINCT schemaname FROM pg_tables WHERE schemaname !~ '^(pg_|information_)'");
    assert_eq!(schemas.trim(), odd);
    for wrong in ["", "a\0b", &"x".repeat(64)] {
        assert!(open(&settings(&database), wrong).unwrap_err().to_string().contains("is no name of a schema"));
    }
}

#[test]
fn a_schema_that_was_made_for_it_is_enough() {
    let database = TestServer::shared().database();
    database.sql("CREATE SCHEMA given");
    open(&settings(&database), "given").unwrap().record(&three()[0]).unwrap();
}

#[test]
fn replicas_that_open_it_first_at_once_all_can_write() {
    let database = TestServer::shared().database();
    let settings = settings(&database);
    std::thread::scope(|scope| {
        for number in 0..4 {
            let settings = &settings;
            scope.spawn(move || open(settings, SCHEMA).unwrap().record(&many(number, 20)).unwrap());
        }
    });
    assert_eq!(open(&settings, SCHEMA).unwrap().known().unwrap().len(), 4);
    assert_eq!(database.sql("SELECT count(*) FROM derelict.migrations").trim(), "1");
}

#[test]
fn what_a_newer_program_made_is_refused() {
    let database = TestServer::shared().database();
    assert!(open_to_read(&settings(&database), SCHEMA).unwrap().is_none());
    drop(open(&settings(&database), SCHEMA).unwrap());
    database.sql("INSERT INTO derelict.migrations (version) VALUES (2)");
    for error in [open(&settings(&database), SCHEMA).err(), open_to_read(&settings(&database), SCHEMA).err()] {
        let told = format!("{:#}", error.expect("because it is newer"));
        assert!(told.ends_with("version 2 is newer than this program, which reads version 1"), "{told}");
        assert!(told.starts_with("cannot open the ledger in the schema \"derelict\" of "), "{told}");
    }
}

#[test]
fn a_reader_sees_what_was_kept_and_cannot_write() {
    let database = TestServer::shared().database();
    open(&settings(&database), SCHEMA).unwrap().record(&three()[0]).unwrap();
    let mut reader = open_to_read(&settings(&database), SCHEMA).unwrap().unwrap();
    assert_eq!(reader.sweeps(&Filter::ALL, 9).unwrap().len(), 1);
    assert!(reader.record(&three()[1]).is_err());
}

#[test]
fn a_lost_session_is_an_error_and_the_sweep_is_kept_as_a_whole_or_not_at_all() {
    let database = TestServer::shared().database();
    let mut store = open(&settings(&database), SCHEMA).unwrap();
    database.end_sessions();
    assert!(store.record(&three()[0]).is_err());
    let mut store = open(&settings(&database), SCHEMA).unwrap();
    let fail = "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS \
                $$ BEGIN RAISE EXCEPTION 'the disk is full'; END $$; \
                CREATE TRIGGER fail BEFORE INSERT ON derelict.directories FOR EACH ROW WHEN (NEW.place = 3) \
                EXECUTE FUNCTION fail()";
    database.sql(fail);
    let error = format!("{:#}", store.record(&many(0, 10)).unwrap_err());
    assert!(error.starts_with("cannot write the ledger") && error.contains("P0001"), "{error}");
    assert!(store.known().unwrap().is_empty());
    store.record(&sweep(1, Vec::new())).unwrap();
    assert_eq!(store.known().unwrap().len(), 1);
}

#[test]
fn a_text_with_a_nul_byte_is_kept_with_the_byte_escaped() {
    let database = TestServer::shared().database();
    let mut store = open(&settings(&database), SCHEMA).unwrap();
    let [mut odd, ..] = three();
    odd.directories[0].why = "a\0b".into();
    odd.stop.why = Some("c\0d".into());
    store.record(&odd).unwrap();
    let told = database.sql("SELECT why, stop_why FROM derelict.directories, derelict.sweeps WHERE place = 0");
    assert_eq!(told.trim(), "a\\0b|c\\0d");
}
