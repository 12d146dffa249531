//! A table of owners in PostgreSQL: the preset's or an operator's queries, asked in chunks at one
//! instant for a sweep, and one by one on the same session at each re-check.
//!
//! An operator's queries, each with one parameter:
//!
//! - `query`: `$1` is the array of ids. Returns `id` (uuid, text or varchar), `last_used_at`
//!   (timestamptz; NULL is not known, and keeps), and if wanted `held` (boolean, or text that says why:
//!   any text holds) and `reason` (text). No other column.
//! - `held_query`: the same `$1`. Returns `id` and if wanted `reason`; every row holds.
//! - `lock_query`: `$1` is one id. Takes the lock under which the owner's program works; it runs in a
//!   transaction of its own, which is rolled back.
//!
//! Where ids are text of which case does not count, the query has to compare `lower(id)`, unless the
//! column is all lower or all upper case. Server versions from 12 on are supported.

use std::borrow::Cow;

use derelict_core::ids::{SourceId, Timestamp};
use derelict_core::ports::{LockBusy, SourceLost};
use tokio_postgres::types::Type;

use super::columns::{HELD_QUERY, HeldColumns, OwnerColumns, QUERY, Unfit};
use super::lock::{Locker, Lockers, NoLocker};
use super::pooled::{self, Unreliable};
use super::session::{Access, Prepared, Session, SessionError};
use super::settings::Settings;
use super::values::{CHUNK, Ids, LastUse};
use crate::sources::paperclip::{self, NoTables};
use crate::sources::table::{Asked, IdScheme, Leadership, OwnerTable, Row, RowLock, Snapshot};

/// What a sweep's leader locks: one number for each root, next to no other program's.
const SWEEP_KEY: &str = "hashtextextended('derelict sweep:' || $1::text, 0)";

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asking {
    /// The tables of the preset `paperclip`.
    Paperclip {
        /// The schema they are in; without one there must be no choice.
        schema: Option<String>,
    },
    /// An operator's own queries.
    Operator {
        /// How their ids are written.
        ids: IdScheme,
        /// The queries.
        queries: Queries,
    },
}

/// An operator's queries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queries {
    /// Rows by ids.
    pub query: String,
    /// Who is held, by ids.
    pub held_query: Option<String>,
    /// Takes the owner's lock, by one id.
    pub lock_query: Option<String>,
}

/// Owners in PostgreSQL.
#[derive(Debug)]
pub struct PostgresOwners {
    source: SourceId,
    settings: Settings,
    asking: Asking,
    lock_query: Option<String>,
    open: Option<Open>,
    lockers: Lockers,
}

/// A session with everything prepared.
#[derive(Debug)]
struct Open {
    session: Session,
    scheme: IdScheme,
    clock: Prepared,
    lead: Prepared,
    leads: Prepared,
    query: Prepared,
    columns: OwnerColumns,
    held: Option<(Prepared, HeldColumns)>,
}

/// Anything that ends it.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Unfit(#[from] Unfit),
    #[error(transparent)]
    Unreliable(#[from] Unreliable),
    #[error(transparent)]
    NoLocker(#[from] NoLocker),
    #[error("the database at {place}: {why}")]
    NoTables { place: String, why: NoTables },
    #[error("there is no session with it")]
    NotConnected,
}

impl PostgresOwners {
    /// Owners that nobody was asked for yet.
    #[must_use]
    pub fn new(source: SourceId, settings: Settings, asking: Asking) -> Self {
        Self { source, settings, asking, lock_query: None, open: None, lockers: Lockers::none() }
    }

    fn open(&mut self) -> Result<Open, Ended> {
        let mut session = Session::connect(&self.settings, Access::ReadOnly)?;
        let mut second = Session::connect(&self.settings, Access::ReadWrite)?;
        pooled::refuse(&mut session, &mut second)?;
        let scheme = self.ids();
        let queries = match &self.asking {
            Asking::Operator { queries, .. } => queries.clone(),
            Asking::Paperclip { schema } => {
                let found = session.text("the search for the preset's tables", paperclip::TABLES)?;
                let tables = paperclip::Tables::of(&found, schema.as_deref());
                tables.map_err(|why| Ended::NoTables { place: session.place().to_owned(), why })?.queries()
            }
        };
        let open = Open::new(session, scheme, &queries)?;
        let locker = queries.lock_query.as_deref().map(|query| Locker::new(second, query, scheme)).transpose()?;
        self.lockers = Lockers::none();
        self.lockers.keep(locker);
        self.lock_query = queries.lock_query;
        Ok(open)
    }

    /// Does something on the session, which is given up when that fails: nothing is tried twice.
    fn on_session<T>(&mut self, deed: impl FnOnce(&mut Open) -> Result<T, Ended>) -> Result<T, SourceLost> {
        let done = self.open.as_mut().ok_or(Ended::NotConnected).and_then(deed);
        done.map_err(|error| {
            self.open = None;
            self.lost(&error)
        })
    }

    fn lost(&self, error: &Ended) -> SourceLost {
        SourceLost { source_id: self.source.clone(), why: error.to_string() }
    }
}

impl OwnerTable for PostgresOwners {
    fn ids(&self) -> IdScheme {
        match &self.asking {
            Asking::Paperclip { .. } => IdScheme::Uuid,
            Asking::Operator { ids, .. } => *ids,
        }
    }

    fn connect(&mut self) -> Result<(), SourceLost> {
        // A session of an earlier sweep may have ended since, or its server have become a replica.
        if self.open.as_mut().is_some_and(|open| open.session.still_serves()) {
            if let Some(mut locker) = self.lockers.take_out() {
                let answers = locker.answers();
                self.lockers.keep(answers.then_some(locker));
            }
            return Ok(());
        }
        self.open = None;
        self.open = Some(self.open().map_err(|error| self.lost(&error))?);
        Ok(())
    }

    fn lead(&mut self, key: &str) -> Result<Leadership, SourceLost> {
        self.on_session(|open| open.lead(key))
    }

    fn rows(&mut self, ids: &[String]) -> Result<Snapshot, SourceLost> {
        self.on_session(|open| open.snapshot(ids))
    }

    fn row(&mut self, id: &str) -> Result<Vec<Row>, SourceLost> {
        self.on_session(|open| open.row(id))
    }

    fn lock(&mut self, id: &str) -> Result<Option<Box<dyn RowLock>>, LockBusy> {
        let Some(query) = &self.lock_query else { return Ok(None) };
        let lock = self.lockers.lock(id, query, &self.settings, self.ids())?;
        Ok(Some(Box::new(lock)))
    }
}

impl Open {
    fn new(mut session: Session, scheme: IdScheme, queries: &Queries) -> Result<Self, Ended> {
        let query = session.prepare(QUERY, &queries.query)?;
        let columns = OwnerColumns::of(query.statement(), scheme)?;
        let held = match &queries.held_query {
            Some(held) => {
                let held = session.prepare(HELD_QUERY, held)?;
                let columns = HeldColumns::of(held.statement(), scheme)?;
                Some((held, columns))
            }
            None => None,
        };
        let clock = session.prepare("the question for its clock", "SELECT clock_timestamp()")?;
        let lead = session.prepare("the lock of the sweep", &format!("SELECT pg_try_advisory_lock({SWEEP_KEY})"))?;
        let leads = session.prepare("the check of the sweep's lock", &pooled::held(SWEEP_KEY))?;
        Ok(Self { session, scheme, clock, lead, leads, query, columns, held })
    }

    fn lead(&mut self, key: &str) -> Result<Leadership, Ended> {
        let says = |rows: &[tokio_postgres::Row]| rows.first().and_then(|row| row.try_get(0).ok()) == Some(true);
        if !says(&self.session.query(&self.lead, &[&key])?) {
            return Ok(Leadership::Theirs);
        }
        // Told that the lock is ours and not finding it is what a pooler does.
        if says(&self.session.query(&self.leads, &[&key])?) {
            Ok(Leadership::Ours)
        } else {
            Err(Unreliable::Pooled(self.session.place().to_owned()).into())
        }
    }

    fn snapshot(&mut self, ids: &[String]) -> Result<Snapshot, Ended> {
        let deed = "the beginning of the snapshot";
        self.session.batch(deed, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
        let clock = self.clock()?;
        let mut rows = Vec::new();
        let asked = Asked::of(ids);
        for chunk in spellings(&asked, self.scheme, &self.query).chunks(CHUNK) {
            for row in self.session.query(&self.query, &[&Ids(chunk)])? {
                rows.extend(self.columns.read(&row, self.scheme)?);
            }
        }
        let mut holds = Vec::new();
        if let Some((held, columns)) = &self.held {
            for chunk in spellings(&asked, self.scheme, held).chunks(CHUNK) {
                for row in self.session.query(held, &[&Ids(chunk)])? {
                    holds.extend(columns.read(&row, self.scheme)?);
                }
            }
        }
        self.session.batch("the end of the snapshot", "COMMIT")?;
        Ok(Snapshot { rows: asked.fold(rows, holds), clock })
    }

    fn row(&mut self, id: &str) -> Result<Vec<Row>, Ended> {
        let ids = [id.to_owned()];
        let asked = Asked::of(&ids);
        let spelled = spellings(&asked, self.scheme, &self.query);
        let (rows, holds) = match &self.held {
            None => (self.session.query(&self.query, &[&Ids(&spelled)])?, Vec::new()),
            Some((held, columns)) => {
                let held_spelled = spellings(&asked, self.scheme, held);
                let [rows, held] =
                    self.session.query_both((&self.query, &[&Ids(&spelled)]), (held, &[&Ids(&held_spelled)]))?;
                let mut holds = Vec::new();
                for row in held {
                    holds.extend(columns.read(&row, self.scheme)?);
                }
                (rows, holds)
            }
        };
        let mut read = Vec::new();
        for row in rows {
            read.extend(self.columns.read(&row, self.scheme)?);
        }
        Ok(asked.fold(read, holds))
    }

    fn clock(&mut self) -> Result<Option<Timestamp>, Ended> {
        let rows = self.session.query(&self.clock, &[])?;
        Ok(match rows.first().and_then(|row| row.try_get(0).ok()) {
            Some(LastUse::At(at)) => Some(at),
            Some(LastUse::Infinity | LastUse::MinusInfinity) | None => None,
        })
    }
}

/// What a query is asked for: a UUID has one spelling in a column of its own type.
fn spellings<'a>(asked: &Asked<'a>, scheme: IdScheme, query: &Prepared) -> Vec<Cow<'a, str>> {
    match query.statement().params() {
        [Type::UUID_ARRAY] => asked.exact(),
        _ => asked.spellings(scheme),
    }
}
