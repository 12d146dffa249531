//! A server that goes away, is slow, or is another one than was meant: the source is lost, at once and
//! with its reason, and nothing is asked twice.

use std::time::{Duration, Instant};

use derelict_observe::postgres::Queries;
use derelict_observe::table::{IdScheme, Leadership, OwnerTable as _};
use derelict_testkit::postgres::Server;

use super::{
    Asking, PostgresOwners, QUERY, SOON, TABLE, THEN, anonymous, connected, operator, queries, refusal, row, settings,
    source, texts,
};

#[test]
fn a_server_killed_before_the_snapshot_loses_the_source() {
    let mut server = Server::start();
    let database = server.database();
    database.sql(TABLE);
    let mut owners = connected(operator(&database, IdScheme::Text, queries(QUERY)));
    assert_eq!(owners.lead("/srv").unwrap(), Leadership::Ours);
    server.kill();
    let lost = owners.rows(&texts(["a"])).unwrap_err();
    assert_eq!(lost.source_id, source());
    let why = anonymous(&lost.why, &database);
    assert!(why.starts_with("the beginning of the snapshot failed at PostgreSQL at PLACE: "), "{why}");
    let begun = Instant::now();
    let why = anonymous(&owners.connect().unwrap_err().why, &database);
    assert!(why.starts_with("cannot connect to PostgreSQL at PLACE: error connecting to server: "), "{why}");
    assert!((Duration::from_millis(1250)..SOON).contains(&begun.elapsed()), "two waits between three tries");
}

#[test]
fn a_server_killed_between_two_re_reads_loses_the_source_and_is_not_asked_again() {
    let mut server = Server::start();
    let database = server.database();
    database.sql(TABLE);
    database.sql("insert into owners values ('a', to_timestamp(1700000000))");
    let lock_query = Some("select id from owners where id = $1 for update".to_owned());
    let mut owners = connected(operator(&database, IdScheme::Text, Queries { lock_query, ..queries(QUERY) }));
    assert_eq!(owners.lead("/srv").unwrap(), Leadership::Ours);
    assert_eq!(owners.row("a").unwrap(), [row("a", Some(THEN), None)]);
    let lock = owners.lock("a").unwrap();
    server.kill();
    let why = anonymous(&owners.row("a").unwrap_err().why, &database);
    assert!(why.starts_with("the owner query failed at PostgreSQL at PLACE: "), "{why}");
    // The server is back; the session, and the lead with it, are not.
    server.restart();
    assert_eq!(owners.row("a").unwrap_err().why, "there is no session with it");
    assert_eq!(owners.lead("/srv").unwrap_err().why, "there is no session with it");
    drop(lock);
    owners.connect().unwrap();
    assert_eq!(owners.row("a").unwrap(), [row("a", Some(THEN), None)]);
    assert!(owners.lock("a").unwrap().is_some());
}

#[test]
fn a_session_that_an_administrator_ends_is_lost_with_the_servers_reason() {
    let database = Server::shared().database();
    database.sql(TABLE);
    let mut owners = connected(operator(&database, IdScheme::Text, queries(QUERY)));
    let mut waiting = connected(operator(&database, IdScheme::Text, queries(QUERY)));
    assert_eq!(owners.lead("/srv").unwrap(), Leadership::Ours);
    database.end_sessions();
    let why = anonymous(&owners.row("a").unwrap_err().why, &database);
    assert_eq!(
        why,
        "the owner query failed at PostgreSQL at PLACE: connection closed: \
         terminating connection due to administrator command (SQLSTATE 57P01)"
    );
    // At the start of the next sweep both connect anew, and either can lead.
    waiting.connect().unwrap();
    assert_eq!(waiting.lead("/srv").unwrap(), Leadership::Ours);
    owners.connect().unwrap();
    assert_eq!(owners.lead("/srv").unwrap(), Leadership::Theirs);
}

#[test]
fn a_lock_whose_session_ended_is_busy_once_and_taken_in_a_new_one_then() {
    let database = Server::shared().database();
    database.sql(TABLE);
    let lock_query = Some("select pg_advisory_xact_lock(hashtextextended($1::text, 0))".to_owned());
    let mut owners = connected(operator(&database, IdScheme::Text, Queries { lock_query, ..queries(QUERY) }));
    database.end_sessions();
    let busy = anonymous(&owners.lock("a").unwrap_err().to_string(), &database);
    assert!(busy.starts_with("the owner's lock (the beginning of the lock failed at PostgreSQL at PLACE: "), "{busy}");
    assert!(owners.lock("a").unwrap().is_some());
}

#[test]
fn a_slow_query_is_ended_by_the_server_and_named() {
    let database = Server::shared().database();
    database.sql(TABLE);
    let mut settings = settings(&database);
    settings.statement_timeout = Duration::from_secs(1);
    let slow = "select id, used as last_used_at from owners, pg_sleep(60) where id = any($1) or true";
    let asking = || Asking::Operator { ids: IdScheme::Text, queries: queries(slow) };
    let mut owners = connected(PostgresOwners::new(source(), settings.clone(), asking()));
    let expected = "the owner query failed at PostgreSQL at PLACE: \
                    canceling statement due to statement timeout (SQLSTATE 57014)";
    database.sql("insert into owners values ('a', now())");
    assert_eq!(anonymous(&owners.rows(&texts(["a"])).unwrap_err().why, &database), expected);
    owners.connect().unwrap();
    assert_eq!(anonymous(&owners.row("a").unwrap_err().why, &database), expected);
}

#[test]
fn a_server_that_says_nothing_any_more_is_not_waited_for_without_end() {
    let mut server = Server::start();
    let database = server.database();
    database.sql(TABLE);
    let mut settings = settings(&database);
    settings.statement_timeout = Duration::from_secs(1);
    settings.connect_timeout = Duration::from_secs(2);
    let asking = Asking::Operator { ids: IdScheme::Text, queries: queries(QUERY) };
    let mut owners = connected(PostgresOwners::new(source(), settings, asking));
    let frozen = server.freeze();
    let why = anonymous(&owners.row("a").unwrap_err().why, &database);
    assert_eq!(why, "PostgreSQL at PLACE did not answer the owner query within 6 seconds");
    let why = anonymous(&owners.connect().unwrap_err().why, &database);
    assert_eq!(why, "cannot connect to PostgreSQL at PLACE: no answer within 2 seconds");
    drop(frozen);
    server.kill();
}

#[test]
fn a_read_replica_is_refused() {
    let mut server = Server::start();
    let database = server.database();
    database.sql(TABLE);
    let mut owners = connected(operator(&database, IdScheme::Text, queries(QUERY)));
    server.become_replica();
    let refused = "PostgreSQL at PLACE is a read replica, whose rows lag behind; name the primary server";
    assert_eq!(anonymous(&owners.connect().unwrap_err().why, &database), refused);
    let fresh = operator(&database, IdScheme::Text, queries(QUERY));
    assert_eq!(anonymous(&refusal(fresh), &database), refused);
}

#[test]
fn nobody_is_asked_before_there_is_a_session() {
    let database = Server::shared().database();
    let mut owners = operator(&database, IdScheme::Text, queries(QUERY));
    assert_eq!(owners.row("a").unwrap_err().why, "there is no session with it");
    assert_eq!(owners.rows(&texts(["a"])).unwrap_err().why, "there is no session with it");
}
