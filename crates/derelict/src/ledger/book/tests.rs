//! The promises of record and store together: either may be lost, and no sweep waits for them.

use derelict_observe::postgres::{Secret, Server};
use derelict_testkit::postgres::Server as TestServer;

use super::*;
use crate::ledger::samples::{began, id, sweep, three};

struct World(tempfile::TempDir);

impl World {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn book(&self) -> Book {
        Book::new(self.0.path(), Shelf::Embedded)
    }

    fn lose(&self, names: &[&str]) {
        for name in names {
            derelict_testkit::scratch::remove(self.0.path().join(name));
        }
    }

    fn ids(&self) -> (Vec<String>, Vec<String>) {
        let mut reading = Reading::open(self.0.path(), &Shelf::Embedded).unwrap();
        let ids = reading.sweeps(&Filter::ALL, u64::MAX).into_iter().map(|head| head.id).collect();
        (ids, reading.troubles().to_vec())
    }

    fn shelved(&self) -> Vec<String> {
        sqlite::open_to_read(self.0.path()).unwrap().unwrap().known().unwrap().into_iter().collect()
    }
}

const STORE: [&str; 3] = ["ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm"];
const RECORD: [&str; 1] = ["sweeps.ndjson"];

fn all() -> (Vec<String>, Vec<String>) {
    (vec![id(2), id(1), id(0)], vec![])
}

/// Everything that can be asked, as one value.
fn everything(reading: &mut Reading) -> String {
    let heads = reading.sweeps(&Filter::ALL, 9);
    let mut directories = Vec::new();
    for head in &heads {
        assert_eq!(reading.sweep(&head.id).as_ref(), Some(head));
        reading.directories(&head.id, Fates::Any, &mut |directory| directories.push(directory));
    }
    let near = Filter { fates: Fates::NEAR_MISSES, ..Filter::ALL };
    let paths = [three()[0].directories[0].path.clone()];
    let seen = reading.sightings(Place::At(&paths), &Filter::ALL);
    let misses = reading.sightings(Place::Anywhere, &near);
    assert_eq!((directories.len(), seen.len(), misses.len()), (23, 1, 2));
    format!("{heads:?}{directories:?}{seen:?}{misses:?}")
}

#[test]
fn history_survives_the_loss_of_either_store() {
    let world = World::new();
    three().iter().for_each(|sweep| assert_eq!(world.book().record(sweep), [""; 0]));
    let read = || everything(&mut Reading::open(world.0.path(), &Shelf::Embedded).unwrap());
    let both = read();
    world.lose(&STORE);
    assert_eq!(read(), both);
    assert_eq!(world.book().catch_up(), [""; 0]);
    assert_eq!(world.shelved(), [id(0), id(1), id(2)]);
    world.lose(&RECORD);
    assert_eq!(read(), both);
    assert_eq!(world.book().record(&sweep(5, Vec::new())), [""; 0]);
    assert_eq!(world.ids(), (vec![id(5), id(2), id(1), id(0)], vec![]));
}

#[test]
fn sweeps_that_only_one_of_them_has_are_told_with_the_others() {
    let world = World::new();
    let [first, second, third] = three();
    assert_eq!(world.book().record(&first), [""; 0]);
    Record::of(world.0.path()).append(&second).unwrap();
    sqlite::open(world.0.path()).unwrap().record(&third).unwrap();
    assert_eq!(world.ids(), all());
    let mut reading = Reading::open(world.0.path(), &Shelf::Embedded).unwrap();
    assert_eq!(reading.sweeps(&Filter::ALL, 2).len(), 2);
    assert_eq!(world.shelved(), [id(0), id(2)], "reading writes nothing");
    assert_eq!(world.book().catch_up(), [""; 0]);
    assert_eq!(world.shelved(), [id(0), id(1), id(2)]);
}

#[test]
fn a_store_that_cannot_be_written_is_told_and_caught_up_later() {
    let world = World::new();
    std::fs::write(world.0.path().join("ledger.sqlite"), "no database at all\n".repeat(100)).unwrap();
    let mut book = world.book();
    for sweep in &three()[..2] {
        let troubles = book.record(sweep);
        assert_eq!(troubles.len(), 1, "{troubles:?}");
        assert!(troubles[0].starts_with("this sweep is missing in the ledger for now: cannot open the ledger "));
    }
    let (ids, troubles) = world.ids();
    assert_eq!((ids, troubles.len()), (vec![id(1), id(0)], 1));
    assert!(troubles[0].starts_with("answered from the record alone: "), "{troubles:?}");
    world.lose(&STORE);
    assert_eq!(book.record(&three()[2]), [""; 0]);
    assert_eq!(world.shelved(), [id(0), id(1), id(2)]);
}

#[test]
fn a_record_that_cannot_be_written_is_told_and_the_store_keeps_the_sweep() {
    let world = World::new();
    assert_eq!(world.book().record(&three()[0]), [""; 0]);
    let newer = "{\"v\":2}\n";
    std::fs::write(world.0.path().join("sweeps.ndjson"), newer).unwrap();
    let troubles = world.book().record(&three()[1]);
    assert!(troubles[0].starts_with("this sweep is missing in the record: "), "{troubles:?}");
    assert_eq!(std::fs::read_to_string(world.0.path().join("sweeps.ndjson")).unwrap(), newer);
    assert_eq!(world.shelved(), [id(0), id(1)]);
    let (ids, troubles) = world.ids();
    assert_eq!(ids, [id(1), id(0)]);
    assert!(troubles[0].starts_with("answered from the ledger alone: "), "{troubles:?}");
}

#[test]
fn what_neither_can_tell_is_an_error_and_what_never_was_is_none() {
    let world = World::new();
    assert_eq!(world.ids(), (vec![], vec![]));
    assert_eq!(std::fs::read_dir(world.0.path()).unwrap().count(), 0);
    std::fs::write(world.0.path().join("sweeps.ndjson"), "{\"v\":2}\n").unwrap();
    assert!(Reading::open(world.0.path(), &Shelf::Embedded).is_err());
}

#[test]
fn what_is_old_is_forgotten_in_both_and_does_not_come_back() {
    let world = World::new();
    let mut book = world.book();
    three().iter().for_each(|sweep| assert_eq!(book.record(sweep), [""; 0]));
    assert_eq!(book.forget_before(began(2)), [""; 0]);
    assert_eq!(world.book().catch_up(), [""; 0]);
    assert_eq!(world.ids(), (vec![id(2)], vec![]));
    assert_eq!(world.shelved(), [id(2)]);
}

#[test]
fn a_server_that_goes_away_stops_no_sweep_and_is_caught_up_when_it_is_back() {
    let world = World::new();
    let mut server = TestServer::start();
    let database = server.database();
    let mut settings = Settings::new(Server::Url(Secret::new(database.url())));
    settings.connect_timeout = std::time::Duration::from_secs(1);
    let shelf = Shelf::Postgres { settings: Box::new(settings), schema: postgres::SCHEMA.into() };
    let mut book = Book::new(world.0.path(), shelf.clone());
    assert_eq!(book.record(&three()[0]), [""; 0]);
    server.kill();
    for sweep in &three()[1..] {
        assert_eq!(book.record(sweep).len(), 1);
    }
    let mut reading = Reading::open(world.0.path(), &shelf).unwrap();
    let alone = everything(&mut reading);
    assert_eq!(reading.troubles().len(), 1);
    server.restart();
    assert_eq!(book.catch_up(), [""; 0]);
    world.lose(&RECORD);
    let mut reading = Reading::open(world.0.path(), &shelf).unwrap();
    assert_eq!(everything(&mut reading), alone);
    assert_eq!(reading.troubles(), [""; 0]);
}
