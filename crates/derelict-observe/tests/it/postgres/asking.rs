//! What a table of owners answers: rows, holds, instants, leadership and locks.

use std::time::Instant;

use derelict_core::ids::SourceId;
use derelict_observe::postgres::{Asking, PostgresOwners, Queries, Secret, Server as PgServer, Settings};
use derelict_observe::table::{IdScheme, Leadership, OwnerTable as _};
use derelict_testkit::postgres::Server;

use super::{QUERY, SOON, TABLE, THEN, connected, operator, queries, row, sorted, texts};

const UUID: &str = "0188a3c2-7b1d-4c5e-9f00-00000000abcd";

#[test]
fn rows_come_with_their_last_use_and_a_null_is_not_known() {
    let database = Server::shared().database();
    database.sql(TABLE);
    database.sql(
        "insert into owners values ('used', to_timestamp(1700000000)), ('null', null), ('stranger', now()),
         ('for-ever', 'infinity'), ('never', '-infinity'),
         ('twice', to_timestamp(1700000000)), ('twice', null)",
    );
    let mut owners = connected(operator(&database, IdScheme::Text, queries(QUERY)));
    let ids = texts(["used", "null", "absent", "for-ever", "never", "twice"]);
    let snapshot = owners.rows(&ids).unwrap();
    let expected = vec![
        row("for-ever", None, Some("its last use is infinity")),
        row("never", None, None),
        row("null", None, None),
        row("twice", None, None),
        row("twice", Some(THEN), None),
        row("used", Some(THEN), None),
    ];
    assert_eq!(sorted(snapshot.rows), expected);
    assert_eq!(owners.row("used").unwrap(), [row("used", Some(THEN), None)]);
    assert_eq!(sorted(owners.row("twice").unwrap()), [row("twice", None, None), row("twice", Some(THEN), None)]);
    assert_eq!(owners.row("absent").unwrap(), []);
    assert_eq!(owners.rows(&[]).unwrap().rows, []);
}

#[test]
fn the_clock_of_a_snapshot_is_the_servers() {
    let database = Server::shared().database();
    database.sql(TABLE);
    let mut owners = connected(operator(&database, IdScheme::Text, queries(QUERY)));
    let seconds = || database.sql("select extract(epoch from clock_timestamp())::bigint").parse::<i64>().unwrap();
    let before = seconds();
    let clock = owners.rows(&texts(["a"])).unwrap().clock.unwrap();
    assert!((before - 1..=seconds() + 1).contains(&clock.seconds()), "{clock:?}");
}

#[test]
fn rows_of_ids_that_were_not_asked_for_are_ignored() {
    let database = Server::shared().database();
    database.sql(TABLE);
    database.sql("insert into owners values ('mine', to_timestamp(1700000000)), ('theirs', now())");
    // A query that forgets to restrict itself gives more than it was asked for.
    let query = "select id, used as last_used_at from owners where $1::text[] is not null";
    let mut owners = connected(operator(&database, IdScheme::Text, queries(query)));
    assert_eq!(owners.rows(&texts(["mine"])).unwrap().rows, [row("mine", Some(THEN), None)]);
    assert_eq!(owners.row("mine").unwrap(), [row("mine", Some(THEN), None)]);
}

#[test]
fn a_uuid_is_the_same_in_upper_and_lower_case_whatever_its_column() {
    let database = Server::shared().database();
    database.sql("create table u (id uuid, used timestamptz)");
    database.sql("create table t (id text, used timestamptz)");
    database.sql("create table v (id varchar(36), used timestamptz)");
    let upper = UUID.to_uppercase();
    database.sql(&format!("insert into u values ('{upper}', to_timestamp(1700000000))"));
    database.sql(&format!("insert into t values ('{upper}', to_timestamp(1700000000))"));
    database.sql(&format!("insert into v values ('{UUID}', to_timestamp(1700000000))"));
    let canonical = IdScheme::Uuid.canonical(upper.as_bytes()).unwrap();
    for table in ["u", "t", "v"] {
        let query = format!("select id, used as last_used_at from {table} where id = any($1)");
        let mut owners = connected(operator(&database, IdScheme::Uuid, queries(&query)));
        assert_eq!(owners.row(&canonical).unwrap(), [row(UUID, Some(THEN), None)], "{table}");
        assert_eq!(
            owners.rows(std::slice::from_ref(&canonical)).unwrap().rows,
            [row(UUID, Some(THEN), None)],
            "{table}"
        );
    }
}

#[test]
fn text_ids_lose_their_case_only_where_the_source_says_so() {
    let database = Server::shared().database();
    database.sql(TABLE);
    database.sql("insert into owners values ('RUN-7', to_timestamp(1700000000))");
    let mut deaf = connected(operator(&database, IdScheme::TextIgnoringCase, queries(QUERY)));
    assert_eq!(deaf.rows(&texts(["run-7"])).unwrap().rows, [row("run-7", Some(THEN), None)]);
    let mut exact = connected(operator(&database, IdScheme::Text, queries(QUERY)));
    assert_eq!(exact.rows(&texts(["run-7"])).unwrap().rows, []);
    let lowering = "select lower(id) as id, used as last_used_at from owners where lower(id) = any($1)";
    database.sql("update owners set id = 'Run-7'");
    let mut mixed = connected(operator(&database, IdScheme::TextIgnoringCase, queries(lowering)));
    assert_eq!(mixed.row("run-7").unwrap(), [row("run-7", Some(THEN), None)]);
}

#[test]
fn whatever_says_held_holds() {
    let database = Server::shared().database();
    database.sql(TABLE);
    database.sql(
        "insert into owners values ('a', to_timestamp(1700000000), null, null, 'no hold'),
         ('b', null, 'in review', true, 'flagged'), ('c', null, '', true, null), ('d', null, null, false, 'no')",
    );
    let ids = texts(["a", "b", "c", "d", "e"]);
    let worded = "select id, used as last_used_at, held, reason from owners where id = any($1)";
    let mut owners = connected(operator(&database, IdScheme::Text, queries(worded)));
    let expected = [
        row("a", Some(THEN), None),
        row("b", None, Some("in review")),
        row("c", None, Some("held")),
        row("d", None, None),
    ];
    assert_eq!(sorted(owners.rows(&ids).unwrap().rows), expected);
    let flagged = "select id, used as last_used_at, flag as held, reason from owners where id = any($1)";
    let mut owners = connected(operator(&database, IdScheme::Text, queries(flagged)));
    let expected = [
        row("a", Some(THEN), None),
        row("b", None, Some("flagged")),
        row("c", None, Some("held")),
        row("d", None, None),
    ];
    assert_eq!(sorted(owners.rows(&ids).unwrap().rows), expected);
}

#[test]
fn every_row_of_the_held_query_holds_even_without_a_row_of_the_owner() {
    let database = Server::shared().database();
    database.sql(TABLE);
    database.sql("insert into owners values ('a', to_timestamp(1700000000)), ('b', to_timestamp(1700000000))");
    database.sql("create table holds (id text, why text)");
    database.sql("insert into holds values ('a', 'pinned'), ('ghost', null), ('stranger', 'pinned')");
    let held_query = Some("select id, why as reason from holds where id = any($1)".to_owned());
    let mut owners = connected(operator(&database, IdScheme::Text, Queries { held_query, ..queries(QUERY) }));
    let expected = [row("a", Some(THEN), Some("pinned")), row("b", Some(THEN), None), row("ghost", None, Some("held"))];
    assert_eq!(sorted(owners.rows(&texts(["a", "b", "ghost"])).unwrap().rows), expected);
    assert_eq!(owners.row("a").unwrap(), [row("a", Some(THEN), Some("pinned"))]);
    assert_eq!(owners.row("b").unwrap(), [row("b", Some(THEN), None)]);
    assert_eq!(owners.row("ghost").unwrap(), [row("ghost", None, Some("held"))]);
}

#[test]
fn a_hundred_thousand_ids_are_read_at_one_instant() {
    let database = Server::shared().database();
    database.sql(
        "create table u (id uuid primary key, used timestamptz);
         insert into u select md5(i::text)::uuid, to_timestamp(1700000000) from generate_series(1, 200000) i;",
    );
    let ids = database.sql("select md5(i::text)::uuid from generate_series(1, 200000, 2) i");
    let ids: Vec<String> = ids.lines().map(str::to_owned).collect();
    let query = "select id, used as last_used_at from u where id = any($1)";
    let mut owners = connected(operator(&database, IdScheme::Uuid, queries(query)));
    let mut rows = owners.rows(&ids).unwrap().rows;
    assert_eq!(rows.len(), 100_000);
    assert!(rows.iter().all(|row| row.last_used_at == Some(THEN) && row.held.is_none()));
    rows.sort_by(|one, other| one.id.cmp(&other.id));
    let mut sorted = ids.clone();
    sorted.sort();
    assert!(rows.iter().map(|row| &row.id).eq(sorted.iter()));
}

#[test]
fn a_row_that_changes_while_a_snapshot_is_read_is_seen_as_it_was() {
    let database = Server::shared().database();
    database.sql(TABLE);
    database.sql("create table ticks (id serial)");
    database.sql("insert into owners values ('a', to_timestamp(1700000000))");
    // Both queries are of one transaction: what its own clock says does not move between them.
    let query = "select id, now() as last_used_at from owners where id = any($1)";
    let held = "select id, extract(epoch from now())::text as reason from owners where id = any($1)";
    let held_query = Some(held.to_owned());
    let mut owners = connected(operator(&database, IdScheme::Text, Queries { held_query, ..queries(query) }));
    let rows = owners.rows(&texts(["a"])).unwrap().rows;
    let at = rows[0].last_used_at.unwrap();
    let told: f64 = rows[0].held.as_ref().unwrap().parse().unwrap();
    let seconds = at.seconds() as f64 + f64::from(at.subsecond_nanoseconds()) / 1e9;
    assert!((seconds - told).abs() < 1e-5, "{seconds} {told}");
}

#[test]
fn only_one_sweeper_leads_a_key_and_dropping_it_lets_the_next() {
    let database = Server::shared().database();
    database.sql(TABLE);
    let mut first = connected(operator(&database, IdScheme::Text, queries(QUERY)));
    let mut second = connected(operator(&database, IdScheme::Text, queries(QUERY)));
    assert_eq!(first.lead("/srv/one").unwrap(), Leadership::Ours);
    assert_eq!(second.lead("/srv/one").unwrap(), Leadership::Theirs);
    assert_eq!(second.lead("/srv/two").unwrap(), Leadership::Ours);
    assert_eq!(first.lead("/srv/one").unwrap(), Leadership::Ours);
    // Connecting again at the next sweep keeps the session, and with it the lead.
    first.connect().unwrap();
    assert_eq!(second.lead("/srv/one").unwrap(), Leadership::Theirs);
    drop(first);
    // The server hears the goodbye in its own time.
    let begun = Instant::now();
    while second.lead("/srv/one").unwrap() != Leadership::Ours {
        assert!(begun.elapsed() < SOON, "nobody leads, and nobody can");
    }
}

#[test]
fn the_owners_lock_is_held_until_it_is_dropped_and_nothing_is_committed() {
    let database = Server::shared().database();
    database.sql(TABLE);
    database.sql("insert into owners values ('a', to_timestamp(1700000000)), ('b', null)");
    let lock_query = Some("select id from owners where id = $1 for update".to_owned());
    let mut owners = connected(operator(&database, IdScheme::Text, Queries { lock_query, ..queries(QUERY) }));
    let free = |id: &str| {
        database.sql(&format!("select count(*) from (select 1 from owners where id = '{id}' for update skip locked) s"))
    };
    let lock = owners.lock("a").unwrap().expect("because there is a lock query");
    assert_eq!((free("a").as_str(), free("b").as_str()), ("0", "1"));
    // Rows are read while the lock is held: it is the re-check's.
    assert_eq!(owners.row("a").unwrap(), [row("a", Some(THEN), None)]);
    let other = owners.lock("b").unwrap();
    assert_eq!(free("b"), "0");
    drop(lock);
    drop(other);
    assert_eq!((free("a").as_str(), free("b").as_str()), ("1", "1"));
    let lock_query = Some("update owners set held = 'written' where id = $1".to_owned());
    let mut writing = connected(operator(&database, IdScheme::Text, Queries { lock_query, ..queries(QUERY) }));
    drop(writing.lock("a").unwrap());
    assert_eq!(database.sql("select count(*) from owners where held is not null"), "0");
}

#[test]
fn a_lock_that_somebody_else_holds_is_busy_after_one_bounded_wait() {
    let database = Server::shared().database();
    database.sql(TABLE);
    let lock_query = Some("select pg_advisory_xact_lock(hashtextextended($1::text, 0))".to_owned());
    let with = || Queries { lock_query: lock_query.clone(), ..queries(QUERY) };
    let mut owners = connected(operator(&database, IdScheme::Text, with()));
    let mut others = connected(operator(&database, IdScheme::Text, with()));
    let theirs = others.lock("a").unwrap();
    let busy = owners.lock("a").unwrap_err().to_string();
    let place =
        format!("PostgreSQL at {}:{}, database {}", database.host().display(), database.port(), database.name());
    assert_eq!(busy, format!("the owner's lock (the lock query waited 2s at {place}) is held by somebody else"));
    assert!(owners.lock("b").unwrap().is_some());
    drop(theirs);
    assert!(owners.lock("a").unwrap().is_some());
    let mut none = connected(operator(&database, IdScheme::Text, queries(QUERY)));
    assert!(none.lock("a").unwrap().is_none());
}

#[test]
fn a_policy_that_hides_rows_is_a_lost_source_and_not_a_missing_owner() {
    let database = Server::shared().database();
    let role = format!("reader_of_{}", database.name());
    database.sql(TABLE);
    database.sql(&format!(
        "insert into owners values ('a', now()); create role {role} login; grant select on owners to {role};
         alter table owners enable row level security; create policy nothing on owners for select using (false)"
    ));
    let url = database.url().replacen("postgres@", &format!("{role}@"), 1);
    let settings = Settings::new(PgServer::Url(Secret::new(url)));
    let asking = Asking::Operator { ids: IdScheme::Text, queries: queries(QUERY) };
    let mut owners = PostgresOwners::new(SourceId("owners".into()), settings, asking);
    let lost = owners.connect().and_then(|()| owners.rows(&texts(["a"])).map(drop)).unwrap_err();
    database.sql(&format!("drop owned by {role}; drop role {role}"));
    assert!(lost.why.contains("row-level security"), "{lost}");
}
