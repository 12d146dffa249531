//! The store in PostgreSQL: tables of our own in a schema of our own. How the server is reached is the session's, the
//! questions are `store`'s.
//!
//! The names of the tables always stand with their schema, so that it does not matter to which server process a pooler
//! leads a statement; a transaction stays with one.

use std::borrow::Cow;

use anyhow::{Context as _, bail};
use derelict_observe::postgres::types::{ToSql, Type};
use derelict_observe::postgres::{Access, Row, Session, Settings};

use crate::ledger::columns::{Column, Parameter};
use crate::ledger::store::{DIRECTORY_COLUMNS, Sql, Store, VERSION};
use crate::reaper::record::DirectoryRecord;

/// The schema, unless the configuration names another one.
pub(crate) const SCHEMA: &str = "derelict";

/// What the session is told to be doing when it fails.
const DEED: &str = "the ledger of sweeps";

/// The longest name that PostgreSQL does not cut, in bytes.
const LONGEST_NAME: usize = 63;

/// How many directories go to the server in one statement: enough that round trips do not count, and few enough that
/// the copy in memory stays small.
const ROWS_AT_ONCE: usize = 5_000;

/// The steps from one version of the tables to the next; `{schema}` is the schema, quoted.
const MIGRATIONS: [&str; VERSION as usize] = [r#"
    CREATE TABLE {schema}.sweeps (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        id text COLLATE "C" NOT NULL UNIQUE,
        root text NOT NULL,
        path bytea NOT NULL,
        mode text NOT NULL,
        began bigint NOT NULL,
        began_ns bigint NOT NULL,
        ended bigint NOT NULL,
        ended_ns bigint NOT NULL,
        cutoff bigint NOT NULL,
        cutoff_ns bigint NOT NULL,
        plan bytea,
        stop text NOT NULL,
        stop_which text,
        stop_why text,
        backlog_directories bigint NOT NULL,
        backlog_entries bigint NOT NULL,
        backlog_bytes bigint NOT NULL,
        discarded_entries bigint NOT NULL,
        discarded_bytes bigint NOT NULL,
        measured_bytes bigint
    );
    CREATE TABLE {schema}.fates (
        sweep bigint NOT NULL REFERENCES {schema}.sweeps ON DELETE CASCADE,
        fate text NOT NULL,
        directories bigint NOT NULL,
        PRIMARY KEY (sweep, fate)
    );
    CREATE TABLE {schema}.directories (
        sweep bigint NOT NULL REFERENCES {schema}.sweeps ON DELETE CASCADE,
        place bigint NOT NULL,
        path bytea NOT NULL,
        fate text NOT NULL,
        why text NOT NULL,
        evidence bytea NOT NULL,
        last_used bigint,
        last_used_ns bigint,
        touched bigint,
        touched_ns bigint,
        entries bigint NOT NULL,
        bytes bigint NOT NULL,
        intent bigint,
        proof text,
        PRIMARY KEY (sweep, place)
    );
    CREATE INDEX directories_by_path ON {schema}.directories (path);
    CREATE INDEX near_misses ON {schema}.directories (fate, sweep)
        WHERE fate IN ('retained_resurrected', 'retained_changed');
"#];

/// A schema on a server.
#[derive(Debug)]
pub(crate) struct Postgres {
    session: Session,
    /// Quoted.
    schema: String,
}

/// Opens the store in a schema of that name, and makes or migrates it where that is needed.
///
/// # Errors
/// When the name is none, when the server refuses or is gone, or when a newer program made the tables.
pub(crate) fn open(settings: &Settings, schema: &str) -> anyhow::Result<Store<Postgres>> {
    let quoted = quoted(schema)?;
    let session = Session::connect(settings, Access::ReadWrite).context("cannot open the ledger")?;
    let mut opened = Postgres { session, schema: quoted };
    opened.migrate(schema).with_context(|| opened.place())?;
    Ok(Store(opened))
}

/// Opens the store in a schema of that name for reading; `None` where there is none.
///
/// # Errors
/// When the name is none, when the server refuses or is gone, or when a newer program made the tables.
pub(crate) fn open_to_read(settings: &Settings, schema: &str) -> anyhow::Result<Option<Store<Postgres>>> {
    let quoted = quoted(schema)?;
    let session = Session::connect(settings, Access::ReadOnly).context("cannot open the ledger")?;
    let mut opened = Postgres { session, schema: quoted };
    match opened.version(schema).with_context(|| opened.place())? {
        None | Some(0) => Ok(None),
        Some(version) => {
            readable(version).with_context(|| opened.place())?;
            Ok(Some(Store(opened)))
        }
    }
}

fn readable(version: i64) -> anyhow::Result<()> {
    if version > VERSION {
        bail!("version {version} is newer than this program, which reads version {VERSION}");
    }
    Ok(())
}

/// A name as PostgreSQL takes any name.
fn quoted(name: &str) -> anyhow::Result<String> {
    if name.is_empty() || name.len() > LONGEST_NAME || name.contains('\0') {
        bail!("`{}` is no name of a schema: one has 1 to {LONGEST_NAME} bytes", name.escape_debug());
    }
    Ok(format!("\"{}\"", name.replace('"', "\"\"")))
}

impl Postgres {
    fn place(&self) -> String {
        format!("cannot open the ledger in the schema {} of {}", self.schema, self.session.place())
    }

    fn batch(&mut self, sql: &str) -> anyhow::Result<()> {
        Ok(self.session.batch(DEED, sql)?)
    }

    fn run(&mut self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> anyhow::Result<u64> {
        let statement = self.session.prepare(DEED, sql)?;
        Ok(self.session.execute(&statement, values)?)
    }

    fn rows(&mut self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> anyhow::Result<Vec<Row>> {
        let statement = self.session.prepare(DEED, sql)?;
        Ok(self.session.query(&statement, values)?)
    }

    fn migrate(&mut self, name: &str) -> anyhow::Result<()> {
        if self.version(name)? == Some(VERSION) {
            return Ok(());
        }
        self.batch("BEGIN")?;
        let migrated = self.migrate_alone(name).and_then(|()| self.batch("COMMIT"));
        if migrated.is_err() {
            // The error that is returned says more than one of rolling back.
            let _ = self.batch("ROLLBACK");
        }
        migrated
    }

    fn migrate_alone(&mut self, name: &str) -> anyhow::Result<()> {
        // Two replicas may start at once; the lock goes with the transaction.
        let lock = "SELECT pg_advisory_xact_lock(hashtextextended('derelict ledger:' || $1, 0))";
        self.rows(lock, &[&name])?;
        let done = self.version(name)?;
        let version = done.unwrap_or(0);
        readable(version)?;
        let schema = self.schema.clone();
        if done.is_none() {
            // Asked for and not tried: somebody who may not make schemas may have been given this one.
            let there = self.rows("SELECT 1 FROM pg_namespace WHERE nspname = $1", &[&name])?;
            if there.is_empty() {
                self.batch(&format!("CREATE SCHEMA {schema}"))?;
            }
            let table = "(version bigint PRIMARY KEY, applied timestamptz NOT NULL DEFAULT now())";
            self.batch(&format!("CREATE TABLE {schema}.migrations {table}"))?;
        }
        let steps = (1_i64..).zip(MIGRATIONS).skip_while(|(step, _)| *step <= version);
        for (step, sql) in steps {
            self.batch(&sql.replace("{schema}", &schema))?;
            self.run(&format!("INSERT INTO {schema}.migrations (version) VALUES ($1)"), &[&step])?;
        }
        Ok(())
    }

    /// The version of the tables; `None` when there are none.
    fn version(&mut self, name: &str) -> anyhow::Result<Option<i64>> {
        // From the catalogue itself: what `to_regclass` remembers can be older than the lock on the migration.
        let there = "SELECT 1 FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace \
                     WHERE n.nspname = $1 AND c.relname = 'migrations'";
        if self.rows(there, &[&name])?.is_empty() {
            return Ok(None);
        }
        let newest = format!("SELECT coalesce(max(version), 0) FROM {}.migrations", self.schema);
        let newest = self.rows(&newest, &[])?;
        Ok(Some(newest.first().context("the server did not answer")?.try_get(0)?))
    }
}

impl Sql for Postgres {
    fn schema(&self) -> &str {
        &self.schema
    }

    fn begin(&mut self) -> anyhow::Result<()> {
        self.batch("BEGIN").context("cannot write the ledger")
    }

    fn commit(&mut self) -> anyhow::Result<()> {
        self.batch("COMMIT").context("cannot write the ledger")
    }

    fn roll_back(&mut self) -> anyhow::Result<()> {
        self.batch("ROLLBACK").context("cannot write the ledger")
    }

    fn execute(&mut self, sql: &str, parameters: &[Parameter]) -> anyhow::Result<u64> {
        let parameters = storable_all(parameters);
        self.run(sql, &sent(&parameters)).context("cannot write the ledger")
    }

    fn query(
        &mut self,
        sql: &str,
        parameters: &[Parameter],
        each: &mut dyn FnMut(Vec<Column>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let parameters = storable_all(parameters);
        let rows = self.rows(sql, &sent(&parameters)).context("cannot read the ledger")?;
        for row in rows {
            each((0..row.len()).map(|n| column(&row, n)).collect::<anyhow::Result<_>>()?)?;
        }
        Ok(())
    }

    fn insert_directories(&mut self, sweep: i64, directories: &[DirectoryRecord]) -> anyhow::Result<()> {
        let sql = format!(
            "INSERT INTO {}.directories (sweep, place, {DIRECTORY_COLUMNS}) SELECT $1::bigint, * FROM unnest(\
             $2::bigint[], $3::bytea[], $4::text[], $5::text[], $6::bytea[], $7::bigint[], $8::bigint[], \
             $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::text[])",
            self.schema
        );
        let mut first = 0_i64;
        for some in directories.chunks(ROWS_AT_ONCE) {
            let places: Vec<i64> = (first..).take(some.len()).collect();
            first += places.len() as i64;
            let paths = all(some, |one| one.path.as_os_str().as_encoded_bytes());
            let fates = all(some, |one| one.fate.as_str());
            let whys = all(some, |one| storable(&one.why));
            let evidence = all(some, |one| one.evidence.as_bytes().as_slice());
            let last_used = all(some, |one| one.last_used.map(|at| at.seconds()));
            let last_used_ns = all(some, |one| one.last_used.map(|at| i64::from(at.subsecond_nanoseconds())));
            let touched = all(some, |one| one.touched.map(|at| at.seconds()));
            let touched_ns = all(some, |one| one.touched.map(|at| i64::from(at.subsecond_nanoseconds())));
            let entries = all(some, |one| one.entries.cast_signed());
            let bytes = all(some, |one| one.bytes.cast_signed());
            let intents = all(some, |one| one.intent.map(u64::cast_signed));
            let proofs = all(some, |one| one.proof.as_deref());
            let parameters: [&(dyn ToSql + Sync); 14] = [
                &sweep,
                &places,
                &paths,
                &fates,
                &whys,
                &evidence,
                &last_used,
                &last_used_ns,
                &touched,
                &touched_ns,
                &entries,
                &bytes,
                &intents,
                &proofs,
            ];
            self.run(&sql, &parameters).context("cannot write the ledger")?;
        }
        Ok(())
    }
}

/// One column of many directories.
fn all<'d, T>(directories: &'d [DirectoryRecord], one: impl Fn(&'d DirectoryRecord) -> T) -> Vec<T> {
    directories.iter().map(one).collect()
}

/// PostgreSQL has no text with a NUL in it, which a sentence could only have from a foreign word that is no name.
fn storable(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { Cow::Owned(text.replace('\0', "\\0")) } else { Cow::Borrowed(text) }
}

fn column(row: &Row, n: usize) -> anyhow::Result<Column> {
    let of = row.columns().get(n).context("the ledger answered with too few columns")?;
    let value = match *of.type_() {
        Type::INT8 => row.try_get::<_, Option<i64>>(n)?.map(Column::Number),
        Type::TEXT => row.try_get::<_, Option<String>>(n)?.map(Column::Text),
        Type::BYTEA => row.try_get::<_, Option<Vec<u8>>>(n)?.map(Column::Bytes),
        ref other => bail!("the column {} of the ledger is of type {other}", of.name()),
    };
    Ok(value.unwrap_or(Column::Null))
}

/// The same for values of every kind.
fn storable_all(parameters: &[Parameter]) -> Vec<Parameter> {
    let storable = parameters.iter().map(|one| match one {
        Parameter::Text(Some(text)) => Parameter::Text(Some(storable(text).into_owned())),
        Parameter::Text(None) | Parameter::Number(_) | Parameter::Bytes(_) => one.clone(),
    });
    storable.collect()
}

/// The values as the session takes them.
fn sent(parameters: &[Parameter]) -> Vec<&(dyn ToSql + Sync)> {
    let sent = parameters.iter().map(|one| -> &(dyn ToSql + Sync) {
        match one {
            Parameter::Number(number) => number,
            Parameter::Text(text) => text,
            Parameter::Bytes(bytes) => bytes,
        }
    });
    sent.collect()
}

#[cfg(test)]
mod tests;
