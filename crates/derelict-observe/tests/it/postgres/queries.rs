//! Queries that do not fit: each is refused before anything is asked, by naming what is wrong.

use derelict_observe::postgres::Queries;
use derelict_observe::table::{IdScheme, OwnerTable as _};
use derelict_testkit::postgres::{Database, Server};

use super::{QUERY, TABLE, anonymous, connected, operator, queries, refusal, texts};

fn world() -> Database {
    let database = Server::shared().database();
    database.sql(TABLE);
    database.sql("create table odd (id bigint, uid uuid, used timestamptz, naive timestamp, day date, n int)");
    database
}

#[test]
fn a_query_that_does_not_fit_is_refused_by_the_column_and_what_was_expected() {
    let database = world();
    let refused = |query: &str| refusal(operator(&database, IdScheme::Text, queries(query)));
    let cases = [
        (
            "select id, used as last_used_at from owners",
            "the owner query takes no parameter instead of one parameter, $1: the ids as an array of uuid, text or varchar, as in `id = ANY($1)`",
        ),
        (
            "select id, used as last_used_at from owners where id = $1",
            "the owner query takes text instead of one parameter, $1: the ids as an array of uuid, text or varchar, as in `id = ANY($1)`",
        ),
        (
            "select id::text, used as last_used_at from odd where id = any($1)",
            "the owner query takes int8[] instead of one parameter, $1: the ids as an array of uuid, text or varchar, as in `id = ANY($1)`",
        ),
        (
            "select uid as id, used as last_used_at from odd where uid = any($1)",
            "the owner query compares UUIDs, but the ids of this root are text; cast its column to text",
        ),
        (
            "select id, used as last_used_at from odd where id::text = any($1)",
            "the column `id` of the owner query is int8, and has to be uuid, text or varchar",
        ),
        (
            "select uid as id, naive as last_used_at from odd where uid::text = any($1)",
            "the column `last_used_at` of the owner query is timestamp without time zone, and has to be timestamptz: of a timestamp without time zone say the zone, for example `last_used_at AT TIME ZONE 'UTC'`",
        ),
        (
            "select uid as id, used as last_used_at, n as held from odd where uid::text = any($1)",
            "the column `held` of the owner query is int4, and has to be boolean or text",
        ),
        (
            "select id, used as last_used_at, held, flag as reason from owners where id = any($1)",
            "the column `reason` of the owner query is bool, and has to be text",
        ),
        ("select used as last_used_at from owners where id = any($1)", "the owner query returns no column `id`"),
        ("select id from owners where id = any($1)", "the owner query returns no column `last_used_at`"),
        (
            "select id, used as last_used_at, held as hold from owners where id = any($1)",
            "the owner query returns a column `hold`, which is none of id, last_used_at, held, reason",
        ),
        (
            "select id, id, used as last_used_at from owners where id = any($1)",
            "the owner query returns the column `id` twice",
        ),
        (
            "select id, used as last_used_at, reason from owners where id = any($1)",
            "the owner query returns `reason` without `held`, which it would explain",
        ),
    ];
    for (query, why) in cases {
        assert_eq!(refused(query), why, "{query}");
    }
}

#[test]
fn a_query_that_the_server_refuses_is_named_with_the_servers_words() {
    let database = world();
    let refused = |query: &str| anonymous(&refusal(operator(&database, IdScheme::Text, queries(query))), &database);
    assert_eq!(
        refused("select id, used as last_used_at from nowhere where id = any($1)"),
        "the owner query failed at PostgreSQL at PLACE: relation \"nowhere\" does not exist (SQLSTATE 42P01)"
    );
    assert_eq!(
        refused("select 'secret'::int as id"),
        "the owner query failed at PostgreSQL at PLACE: the server refused a value (SQLSTATE 22P02)"
    );
}

#[test]
fn the_other_queries_are_checked_too() {
    let database = world();
    let with = |held_query: Option<&str>, lock_query: Option<&str>| {
        let (held_query, lock_query) = (held_query.map(Into::into), lock_query.map(Into::into));
        refusal(operator(&database, IdScheme::Text, Queries { held_query, lock_query, ..queries(QUERY) }))
    };
    assert_eq!(
        with(Some("select id, held from owners where id = any($1)"), None),
        "the held query returns a column `held`, which is none of id, reason"
    );
    assert_eq!(
        with(Some("select reason from owners where id = any($1)"), None),
        "the held query returns no column `id`"
    );
    assert_eq!(
        with(Some("select id from owners where $1"), None),
        "the held query takes bool instead of one parameter, $1: the ids as an array of uuid, text or varchar, as in `id = ANY($1)`"
    );
    assert_eq!(
        with(None, Some("select pg_advisory_xact_lock($1)")),
        "the lock query takes int8 instead of one parameter, $1: one id as uuid, text or varchar"
    );
    assert_eq!(
        with(None, Some("select 1 from odd where uid = $1")),
        "the lock query compares UUIDs, but the ids of this root are text; cast its column to text"
    );
}

#[test]
fn a_query_cannot_change_anything() {
    let database = world();
    database.sql("insert into owners values ('a', now())");
    let query = "with gone as (delete from owners where id = any($1) returning id, used)
                 select id, used as last_used_at from gone";
    for ask in ["rows", "row"] {
        let mut owners = connected(operator(&database, IdScheme::Text, queries(query)));
        let lost = match ask {
            "rows" => owners.rows(&texts(["a"])).unwrap_err(),
            _ => owners.row("a").unwrap_err(),
        };
        let why = anonymous(&lost.why, &database);
        let expected = "the owner query failed at PostgreSQL at PLACE: cannot execute SELECT in a read-only transaction (SQLSTATE 25006)";
        assert_eq!(why, expected, "{ask}");
    }
    assert_eq!(database.sql("select count(*) from owners"), "1");
}

#[test]
fn a_row_without_an_id_is_not_overlooked() {
    let database = world();
    let query = "select null::text as id, now() as last_used_at where $1::text[] is not null";
    let mut owners = connected(operator(&database, IdScheme::Text, queries(query)));
    assert_eq!(owners.rows(&texts(["a"])).unwrap_err().why, "the owner query returned a row without an id");
}

#[test]
fn values_are_in_no_message() {
    let database = world();
    database.sql("insert into owners values ('top-secret', now(), 'classified')");
    let query = "select id, used as last_used_at, (held::int)::text as held from owners where id = any($1)";
    let mut owners = connected(operator(&database, IdScheme::Text, queries(query)));
    let why = owners.row("top-secret").unwrap_err().why;
    let expected = "the owner query failed at PostgreSQL at PLACE: the server refused a value (SQLSTATE 22P02)";
    assert_eq!(anonymous(&why, &database), expected);
}
