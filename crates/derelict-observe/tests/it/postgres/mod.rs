//! Owners in PostgreSQL, on a real server. Not here: the preset, whose queries are in `paperclip`.

mod asking;
mod losing;
mod queries;
mod reaching;

use std::time::Duration;

use derelict_core::ids::{SourceId, Timestamp};
use derelict_core::ports::SourceLost;
use derelict_observe::postgres::{Asking, PostgresOwners, Queries, Secret, Server, Settings};
use derelict_observe::table::{IdScheme, OwnerTable as _, Row};
use derelict_testkit::postgres::Database;

/// An instant that the tests write as `to_timestamp(1700000000)`.
pub(crate) const THEN: Timestamp = Timestamp::new(1_700_000_000, 0);

/// One that nobody has to wait for.
const SOON: Duration = Duration::from_secs(20);

pub(crate) fn settings(database: &Database) -> Settings {
    let mut settings = Settings::new(Server::Url(Secret::new(database.url())));
    settings.connect_timeout = SOON;
    settings.statement_timeout = SOON;
    settings
}

pub(crate) fn source() -> SourceId {
    SourceId("rows".into())
}

fn queries(query: &str) -> Queries {
    Queries { query: query.into(), held_query: None, lock_query: None }
}

fn operator(database: &Database, ids: IdScheme, queries: Queries) -> PostgresOwners {
    PostgresOwners::new(source(), settings(database), Asking::Operator { ids, queries })
}

fn connected(mut owners: PostgresOwners) -> PostgresOwners {
    owners.connect().expect("because the server is there");
    owners
}

/// Why connecting fails.
fn refusal(mut owners: PostgresOwners) -> String {
    let SourceLost { source_id, why } = owners.connect().expect_err("because it must not be asked");
    assert_eq!(source_id, source());
    why
}

fn row(id: &str, last_used_at: Option<Timestamp>, held: Option<&str>) -> Row {
    Row { id: id.into(), last_used_at, held: held.map(Into::into) }
}

fn texts<const N: usize>(ids: [&str; N]) -> Vec<String> {
    ids.map(str::to_owned).to_vec()
}

/// Rows in an order that can be compared.
fn sorted(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_by(|one, other| {
        (&one.id, one.last_used_at, &one.held).cmp(&(&other.id, other.last_used_at, &other.held))
    });
    rows
}

/// A name for messages that holds on every machine.
fn anonymous(why: &str, database: &Database) -> String {
    let place = format!("{}:{}, database {}", database.host().display(), database.port(), database.name());
    why.replace(&place, "PLACE")
}

const TABLE: &str = "create table owners (id text, used timestamptz, held text, flag boolean, reason text);";
const QUERY: &str = "select id, used as last_used_at from owners where id = any($1)";
