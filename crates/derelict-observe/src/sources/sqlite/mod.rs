//! A table of owners in SQLite, of a program that may be writing to it now: opened read-only, asked
//! through an operator's query, and never changed. What a row means is decided in `derelict-core`.
//!
//! - `query`: its one parameter is a JSON array of ids, as in
//!   `SELECT w.id, w.last_used_at FROM json_each(?1) AS asked JOIN workspaces AS w ON w.id = asked.value`. It
//!   returns `id` (text), `last_used_at` (see below; NULL is not known, and keeps), and if wanted `held`
//!   (text that says why, or 1 or 0) and `reason` (text). No other column.
//! - `held_query`: the same parameter. Returns `id` and if wanted `reason`; every row holds.
//!
//! `last_used_at` is an INTEGER or REAL of seconds since 1970, or TEXT in ISO 8601: with an offset, or
//! without one in UTC, as SQLite itself writes it. Numbers outside the years 2000 to 9999 are refused:
//! they are milliseconds, Julian days, or a zero that means "never".
//!
//! A database in WAL mode cannot be read without its `-shm` and `-wal` files. If no program has it open, SQLite
//! makes them, empty and with the owner and mode of the database, as it does for every reader; where it
//! may not, the source is lost. The database is never taken for immutable: it would be read without its log.

mod values;

use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use derelict_core::ids::{SourceId, escaped};
use derelict_core::ports::{LockBusy, SourceLost};
use rusqlite::{Connection, ErrorCode, OpenFlags};

use self::values::{HeldColumns, OwnerColumns, Unfit};
use super::table::{Asked, IdScheme, Leadership, OwnerTable, Row, RowLock, Snapshot};

/// How long a program that writes is waited for.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// How much of the database stays in memory, in SQLite's words: 16 MiB. With its own two, many ids of a large
/// table read the same pages over and over. It is not mapped: whoever cuts the file off would end us.
const CACHE: &str = "-16384";

/// Steps of SQLite's machine between two looks at the clock: well below a millisecond.
const STEPS_BETWEEN_LOOKS: i32 = 10_000;

/// How an operator asks a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqliteSettings {
    /// The database.
    pub path: PathBuf,
    /// How its ids are written.
    pub ids: IdScheme,
    /// Rows by ids.
    pub query: String,
    /// Who is held, by ids.
    pub held_query: Option<String>,
    /// How long one question may take.
    pub timeout: Duration,
}

/// Owners in SQLite.
#[derive(Debug)]
pub struct SqliteOwners {
    source: SourceId,
    settings: SqliteSettings,
    open: Option<Open>,
}

/// The database, checked.
struct Open {
    connection: Connection,
    /// What was opened: a program that replaces its file leaves us with one that nobody writes to.
    file: (u64, u64),
    columns: OwnerColumns,
    held: Option<HeldColumns>,
    clock: Clock,
}

/// When the question at hand has to be answered, for the handler that SQLite calls in between.
#[derive(Clone)]
struct Clock {
    zero: Instant,
    /// Microseconds since then; the largest value when nothing is being asked.
    deadline: Arc<AtomicU64>,
}

impl fmt::Debug for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Open").field("file", &self.file).finish_non_exhaustive()
    }
}

/// Anything that ends it.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("cannot open {}: {}{}", escaped(.path), words(.source), advice(.path, .source))]
    NotOpened { path: PathBuf, source: rusqlite::Error },
    #[error("cannot look at {}: {source}", escaped(.path))]
    NotSeen { path: PathBuf, source: std::io::Error },
    #[error("{} was replaced by another file", escaped(.0))]
    Replaced(PathBuf),
    #[error("the query did not finish in {} within {} seconds", escaped(.path), .timeout.as_secs_f64())]
    Slow { path: PathBuf, timeout: Duration },
    #[error("{query} failed in {}: {}{}", escaped(.path), words(.source), advice(.path, .source))]
    Failed { query: &'static str, path: PathBuf, source: rusqlite::Error },
    #[error("in {}: {source}", escaped(.path))]
    Unfit { path: PathBuf, source: Unfit },
    #[error("{} was not opened", escaped(.0))]
    NotConnected(PathBuf),
}

/// SQLite's words without the statement, which may have values in it.
fn words(error: &rusqlite::Error) -> String {
    if let rusqlite::Error::SqlInputError { msg, .. } = error { msg.clone() } else { error.to_string() }
}

/// What to do about a database that cannot be opened although it is there.
fn advice(path: &Path, error: &rusqlite::Error) -> &'static str {
    let cannot = matches!(error.sqlite_error_code(), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly));
    if cannot && path.exists() {
        "; in WAL mode its -wal and -shm files have to be readable, and its directory writable if they are missing"
    } else {
        ""
    }
}

impl SqliteOwners {
    /// Owners that nobody was asked for yet.
    #[must_use]
    pub fn new(source: SourceId, settings: SqliteSettings) -> Self {
        Self { source, settings, open: None }
    }

    fn lost(&self, error: &Ended) -> SourceLost {
        SourceLost { source_id: self.source.clone(), why: error.to_string() }
    }

    fn ask(&mut self, ids: &[String]) -> Result<Vec<Row>, SourceLost> {
        let not_connected = || Ended::NotConnected(self.settings.path.clone());
        let asked = self.open.as_ref().ok_or_else(not_connected).and_then(|open| open.ask(&self.settings, ids));
        asked.map_err(|error| {
            self.open = None;
            self.lost(&error)
        })
    }
}

impl OwnerTable for SqliteOwners {
    fn ids(&self) -> IdScheme {
        self.settings.ids
    }

    fn connect(&mut self) -> Result<(), SourceLost> {
        // Opening costs little, and the file or its tables may be others since the last sweep.
        self.open = None;
        self.open = Some(Open::new(&self.settings).map_err(|error| self.lost(&error))?);
        Ok(())
    }

    fn lead(&mut self, _: &str) -> Result<Leadership, SourceLost> {
        Ok(Leadership::NoneOfItsBusiness)
    }

    fn rows(&mut self, ids: &[String]) -> Result<Snapshot, SourceLost> {
        Ok(Snapshot { rows: self.ask(ids)?, clock: None })
    }

    fn row(&mut self, id: &str) -> Result<Vec<Row>, SourceLost> {
        self.ask(&[id.to_owned()])
    }

    fn lock(&mut self, _: &str) -> Result<Option<Box<dyn RowLock>>, LockBusy> {
        Ok(None)
    }
}

impl Open {
    fn new(settings: &SqliteSettings) -> Result<Self, Ended> {
        let path = || settings.path.clone();
        let file = identity(&settings.path)?;
        let not_opened = |source| Ended::NotOpened { path: path(), source };
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(uri(&settings.path), flags).map_err(not_opened)?;
        connection.busy_timeout(BUSY_TIMEOUT.min(settings.timeout)).map_err(not_opened)?;
        // The schema is the owner's: nothing that it brings along may run, and nothing may be written.
        let pragmas = format!("PRAGMA query_only = ON; PRAGMA trusted_schema = OFF; PRAGMA cache_size = {CACHE}");
        connection.execute_batch(&pragmas).map_err(not_opened)?;
        let clock = Clock { zero: Instant::now(), deadline: Arc::new(AtomicU64::new(u64::MAX)) };
        let handlers = clock.clone();
        connection.progress_handler(STEPS_BETWEEN_LOOKS, Some(move || handlers.is_over())).map_err(not_opened)?;
        let unfit = |source| Ended::Unfit { path: path(), source };
        let columns = {
            let failed = |source| Ended::Failed { query: values::QUERY, path: path(), source };
            let statement = connection.prepare(&settings.query).map_err(failed)?;
            OwnerColumns::of(&statement).map_err(unfit)?
        };
        let held = match &settings.held_query {
            Some(query) => {
                let failed = |source| Ended::Failed { query: values::HELD_QUERY, path: path(), source };
                let statement = connection.prepare(query).map_err(failed)?;
                Some(HeldColumns::of(&statement).map_err(unfit)?)
            }
            None => None,
        };
        let open = Self { connection, file, columns, held, clock };
        open.check_identity(settings)?;
        Ok(open)
    }

    fn check_identity(&self, settings: &SqliteSettings) -> Result<(), Ended> {
        if identity(&settings.path)? == self.file { Ok(()) } else { Err(Ended::Replaced(settings.path.clone())) }
    }

    /// Both queries at one instant.
    fn ask(&self, settings: &SqliteSettings, ids: &[String]) -> Result<Vec<Row>, Ended> {
        self.check_identity(settings)?;
        let _asking = self.clock.start(settings.timeout);
        let asked = Asked::of(ids);
        let parameter = serde_json::Value::from(asked.spellings(settings.ids)).to_string();
        let failed = |query| move |source| self.failed(settings, query, source);
        // One statement is one instant anyhow. Dropped at the end, which ends the reading: there is nothing to commit.
        let _instant = match self.held {
            Some(_) => Some(self.connection.unchecked_transaction().map_err(failed(values::QUERY))?),
            None => None,
        };
        let unfit = |source| Ended::Unfit { path: settings.path.clone(), source };
        let mut read = Vec::new();
        let mut statement = self.connection.prepare(&settings.query).map_err(failed(values::QUERY))?;
        let mut rows = statement.query([&parameter]).map_err(failed(values::QUERY))?;
        while let Some(row) = rows.next().map_err(failed(values::QUERY))? {
            read.extend(self.columns.read(row, settings.ids).map_err(unfit)?);
        }
        let mut holds = Vec::new();
        if let (Some(columns), Some(query)) = (&self.held, &settings.held_query) {
            let mut statement = self.connection.prepare(query).map_err(failed(values::HELD_QUERY))?;
            let mut rows = statement.query([&parameter]).map_err(failed(values::HELD_QUERY))?;
            while let Some(row) = rows.next().map_err(failed(values::HELD_QUERY))? {
                holds.extend(columns.read(row, settings.ids).map_err(unfit)?);
            }
        }
        Ok(asked.fold(read, holds))
    }

    fn failed(&self, settings: &SqliteSettings, query: &'static str, source: rusqlite::Error) -> Ended {
        let path = settings.path.clone();
        match source.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) => Ended::Slow { path, timeout: settings.timeout },
            Some(_) | None => Ended::Failed { query, path, source },
        }
    }
}

impl Clock {
    fn start(&self, timeout: Duration) -> Asking<'_> {
        let deadline = self.zero.elapsed().saturating_add(timeout).as_micros();
        self.deadline.store(u64::try_from(deadline).unwrap_or(u64::MAX), Ordering::Relaxed);
        Asking(self)
    }

    fn is_over(&self) -> bool {
        self.zero.elapsed().as_micros() > u128::from(self.deadline.load(Ordering::Relaxed))
    }
}

/// While something is being asked.
struct Asking<'c>(&'c Clock);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.deadline.store(u64::MAX, Ordering::Relaxed);
    }
}

fn identity(path: &Path) -> Result<(u64, u64), Ended> {
    let seen = std::fs::metadata(path).map_err(|source| Ended::NotSeen { path: path.to_owned(), source })?;
    Ok((seen.dev(), seen.ino()))
}

/// The name of a file for SQLite, with what it would take for something else written as bytes.
fn uri(path: &Path) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/-_.".contains(byte);
    let bytes = path.as_os_str().as_encoded_bytes().iter();
    let name: String =
        bytes.map(|byte| if plain(byte) { char::from(*byte).to_string() } else { format!("%{byte:02x}") }).collect();
    format!("file:{name}?mode=ro")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_become_an_option() {
        assert_eq!(uri(Path::new("/var/lib/x y?immutable=1#.db")), "file:/var/lib/x%20y%3fimmutable%3d1%23.db?mode=ro");
    }

    #[test]
    fn a_deadline_holds_only_while_something_is_asked() {
        let clock = Clock { zero: Instant::now(), deadline: Arc::new(AtomicU64::new(u64::MAX)) };
        assert!(!clock.is_over());
        let asking = clock.start(Duration::ZERO);
        std::thread::sleep(Duration::from_millis(1));
        assert!(clock.is_over());
        drop(asking);
        assert!(!clock.is_over());
    }
}
