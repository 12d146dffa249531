//! The store in an embedded database: one file beside the record. It is opened for one sweep at a time and by any
//! number of readers. The questions are `store`'s.

use std::fs::{DirBuilder, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, params_from_iter};
use rustix::fs::OFlags;

use crate::ledger::columns::{Column, Parameter};
use crate::ledger::store::{DIRECTORY_COLUMNS, Sql, Store, VERSION};
use crate::reaper::record::DirectoryRecord;
use crate::text;

/// The store's name in the state directory.
const FILE: &str = "ledger.sqlite";

/// For its owner only, as the record is; the files that SQLite puts beside it take the same mode.
const FILE_MODE: u32 = 0o600;

/// The state directory, when it is made here.
const DIRECTORY_MODE: u32 = 0o700;

/// How long another writer may hold the database: one sweep of 100,000 directories takes about a second.
const BUSY: Duration = Duration::from_secs(30);

/// How long the switch of a new file to its log takes.
const SWITCHES: Duration = Duration::from_millis(5);

/// The steps from one version of the tables to the next; the first starts from nothing.
const MIGRATIONS: [&str; VERSION as usize] = ["
    CREATE TABLE sweeps (
        number INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        root TEXT NOT NULL,
        path BLOB NOT NULL,
        mode TEXT NOT NULL,
        began INTEGER NOT NULL,
        began_ns INTEGER NOT NULL,
        ended INTEGER NOT NULL,
        ended_ns INTEGER NOT NULL,
        cutoff INTEGER NOT NULL,
        cutoff_ns INTEGER NOT NULL,
        plan BLOB,
        stop TEXT NOT NULL,
        stop_which TEXT,
        stop_why TEXT,
        backlog_directories INTEGER NOT NULL,
        backlog_entries INTEGER NOT NULL,
        backlog_bytes INTEGER NOT NULL,
        discarded_entries INTEGER NOT NULL,
        discarded_bytes INTEGER NOT NULL,
        measured_bytes INTEGER
    ) STRICT;
    CREATE TABLE fates (
        sweep INTEGER NOT NULL REFERENCES sweeps ON DELETE CASCADE,
        fate TEXT NOT NULL,
        directories INTEGER NOT NULL,
        PRIMARY KEY (sweep, fate)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE directories (
        sweep INTEGER NOT NULL REFERENCES sweeps ON DELETE CASCADE,
        place INTEGER NOT NULL,
        path BLOB NOT NULL,
        fate TEXT NOT NULL,
        why TEXT NOT NULL,
        evidence BLOB NOT NULL,
        last_used INTEGER,
        last_used_ns INTEGER,
        touched INTEGER,
        touched_ns INTEGER,
        entries INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        intent INTEGER,
        proof TEXT,
        PRIMARY KEY (sweep, place)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX directories_by_path ON directories (path);
    CREATE INDEX near_misses ON directories (fate, sweep) WHERE fate IN ('retained_resurrected', 'retained_changed');
"];

/// A database file, open.
#[derive(Debug)]
pub(crate) struct Sqlite {
    connection: Connection,
    path: PathBuf,
}

/// Opens the store in the directory `state` for writing, and makes or migrates it where that is needed.
///
/// # Errors
/// When it, which is named, cannot be opened or is no ledger, or when a newer program made it.
pub(crate) fn open(state: &Path) -> anyhow::Result<Store<Sqlite>> {
    let path = state.join(FILE);
    let place = || format!("cannot open the ledger {}", text::path(&path));
    DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(state).with_context(place)?;
    // Made here and not by SQLite, which would let others read it.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let mut options = File::options();
    let file = options.write(true).create(true).truncate(false).mode(FILE_MODE).custom_flags(flags).open(&path);
    if !file.and_then(|file| file.metadata()).with_context(place)?.is_file() {
        return Err(io::Error::other("it is not a regular file")).with_context(place);
    }
    is_database_or_empty(&path).with_context(place)?;
    let mut opened = connect(&path).with_context(place)?;
    opened.migrate().with_context(place)?;
    Ok(Store(opened))
}

/// Opens the store in the directory `state` for reading; `None` where there is none.
///
/// # Errors
/// When it, which is named, cannot be opened or is no ledger, or when a newer program made it.
pub(crate) fn open_to_read(state: &Path) -> anyhow::Result<Option<Store<Sqlite>>> {
    let path = state.join(FILE);
    let place = || format!("cannot open the ledger {}", text::path(&path));
    match std::fs::metadata(&path) {
        Ok(metadata) if !metadata.is_file() => Err(io::Error::other("it is not a regular file")).with_context(place),
        Ok(_) => {
            is_database_or_empty(&path).with_context(place)?;
            // A connection that could not write would leave the log and its index behind that it had to make.
            let opened = connect(&path).with_context(place)?;
            opened.connection.pragma_update(None, "query_only", true).with_context(place)?;
            match opened.version().with_context(place)? {
                // A writer died before it made the tables.
                0 => Ok(None),
                version => opened.readable(version).map(|()| Some(Store(opened))).with_context(place),
            }
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error).with_context(place),
    }
}

/// What every database file begins with.
const HEADER: &[u8] = b"SQLite format 3\0";

/// Refuses what is no database before SQLite sees it: a short file it would take for an empty database, and replace.
fn is_database_or_empty(path: &Path) -> io::Result<()> {
    let mut begins = Vec::new();
    File::open(path)?.take(HEADER.len() as u64).read_to_end(&mut begins)?;
    if begins.is_empty() || begins == HEADER { Ok(()) } else { Err(io::Error::other("it is no database")) }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn connect(path: &Path) -> rusqlite::Result<Sqlite> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // What a power cut takes from the store is taken from the record again.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    Ok(Sqlite { connection, path: path.to_owned() })
}

impl Sqlite {
    fn version(&self) -> rusqlite::Result<i64> {
        self.connection.query_row("PRAGMA user_version", [], |row| row.get(0))
    }

    fn readable(&self, version: i64) -> anyhow::Result<()> {
        if !(1..=VERSION).contains(&version) {
            bail!("version {version} is newer than this program, which reads version {VERSION}");
        }
        Ok(())
    }

    /// Lets readers go on reading while a sweep is written. Of several that switch a new file at once, SQLite tells
    /// all but one that it is locked, without waiting as it does for everything else.
    fn write_ahead(&self) -> rusqlite::Result<()> {
        let begun = Instant::now();
        loop {
            match self.connection.pragma_update(None, "journal_mode", "WAL") {
                Err(error) if is_busy(&error) && begun.elapsed() < BUSY => std::thread::sleep(SWITCHES),
                told => return told,
            }
        }
    }

    fn migrate(&mut self) -> anyhow::Result<()> {
        self.write_ahead()?;
        if self.version()? == VERSION {
            return Ok(());
        }
        self.begin()?;
        // Whoever was first has done it meanwhile.
        let migrated = self.migrate_alone();
        if migrated.is_err() {
            // The error that is returned says more than one of rolling back.
            let _ = self.roll_back();
        }
        migrated
    }

    fn migrate_alone(&mut self) -> anyhow::Result<()> {
        let version = self.version()?;
        if version != 0 {
            self.readable(version)?;
        }
        let done = usize::try_from(version).context("its version is no number of steps")?;
        for step in MIGRATIONS.iter().skip(done) {
            self.connection.execute_batch(step)?;
        }
        self.connection.pragma_update(None, "user_version", VERSION)?;
        self.commit()
    }

    fn told<T>(&self, deed: &str, result: rusqlite::Result<T>) -> anyhow::Result<T> {
        result.with_context(|| format!("cannot {deed} the ledger {}", text::path(&self.path)))
    }
}

impl Sql for Sqlite {
    fn schema(&self) -> &'static str {
        "main"
    }

    fn begin(&mut self) -> anyhow::Result<()> {
        self.told("write", self.connection.execute_batch("BEGIN IMMEDIATE"))
    }

    fn commit(&mut self) -> anyhow::Result<()> {
        self.told("write", self.connection.execute_batch("COMMIT"))
    }

    fn roll_back(&mut self) -> anyhow::Result<()> {
        self.told("write", self.connection.execute_batch("ROLLBACK"))
    }

    fn execute(&mut self, sql: &str, parameters: &[Parameter]) -> anyhow::Result<u64> {
        let changed = self.connection.execute(&numbered(sql), params_from_iter(parameters));
        Ok(self.told("write", changed)? as u64)
    }

    fn query(
        &mut self,
        sql: &str,
        parameters: &[Parameter],
        each: &mut dyn FnMut(Vec<Column>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut statement = self.told("read", self.connection.prepare(&numbered(sql)))?;
        let columns = statement.column_count();
        let mut rows = self.told("read", statement.query(params_from_iter(parameters)))?;
        while let Some(row) = self.told("read", rows.next())? {
            let row = (0..columns).map(|n| column(self.told("read", row.get_ref(n))?));
            each(row.collect::<anyhow::Result<_>>()?)?;
        }
        Ok(())
    }

    fn insert_directories(&mut self, sweep: i64, directories: &[DirectoryRecord]) -> anyhow::Result<()> {
        let sql = format!(
            "INSERT INTO main.directories (sweep, place, {DIRECTORY_COLUMNS}) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)"
        );
        let insert = || {
            let mut statement = self.connection.prepare(&sql)?;
            for (place, directory) in (0_i64..).zip(directories) {
                let [last_used, touched] = [directory.last_used, directory.touched]
                    .map(|at| (at.map(|at| at.seconds()), at.map(|at| at.subsecond_nanoseconds())));
                statement.execute(rusqlite::params![
                    sweep,
                    place,
                    directory.path.as_os_str().as_encoded_bytes(),
                    directory.fate.as_str(),
                    directory.why,
                    directory.evidence.as_bytes().as_slice(),
                    last_used.0,
                    last_used.1,
                    touched.0,
                    touched.1,
                    directory.entries.cast_signed(),
                    directory.bytes.cast_signed(),
                    directory.intent.map(u64::cast_signed),
                    directory.proof,
                ])?;
            }
            Ok(())
        };
        self.told("write", insert())
    }
}

/// SQLite numbers its parameters with another sign, and would number those of ours in the order in which they occur.
fn numbered(sql: &str) -> String {
    sql.replace('$', "?")
}

fn column(value: ValueRef<'_>) -> anyhow::Result<Column> {
    match value {
        ValueRef::Null => Ok(Column::Null),
        ValueRef::Integer(number) => Ok(Column::Number(number)),
        ValueRef::Text(text) => Ok(Column::Text(String::from_utf8(text.to_vec())?)),
        ValueRef::Blob(bytes) => Ok(Column::Bytes(bytes.to_vec())),
        ValueRef::Real(_) => bail!("the ledger has a fraction, and no column of it holds any"),
    }
}

impl ToSql for Parameter {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Self::Number(number) => number.to_sql(),
            Self::Text(text) => text.to_sql(),
            Self::Bytes(bytes) => bytes.to_sql(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;
    use crate::ledger::Ledger as _;
    use crate::ledger::contract;
    use crate::ledger::samples::{many, sweep, three};

    fn state() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn it_keeps_the_contract_of_every_store() {
        let state = state();
        contract::holds(&mut || Box::new(open(state.path()).unwrap()));
    }

    #[test]
    fn it_is_for_its_owner_only_with_all_that_lies_beside_it() {
        let state = state();
        let below = state.path().join("a/b");
        let mut store = open(&below).unwrap();
        store.record(&three()[0]).unwrap();
        assert_eq!(std::fs::metadata(&below).unwrap().mode() & 0o7777, 0o700);
        let entries: Vec<_> = std::fs::read_dir(&below).unwrap().map(|entry| entry.unwrap()).collect();
        assert_eq!(entries.len(), 3, "the database, its log and its index");
        for entry in entries {
            assert_eq!(entry.metadata().unwrap().mode() & 0o7777, 0o600, "{}", entry.path().display());
        }
    }

    #[test]
    fn readers_see_what_was_kept_and_make_nothing() {
        let state = state();
        assert!(open_to_read(state.path()).unwrap().is_none());
        assert_eq!(std::fs::read_dir(state.path()).unwrap().count(), 0);
        let mut writer = open(state.path()).unwrap();
        writer.record(&three()[0]).unwrap();
        let mut reader = open_to_read(state.path()).unwrap().unwrap();
        assert_eq!(reader.known().unwrap(), writer.known().unwrap());
        assert!(reader.record(&three()[1]).is_err());
    }

    #[test]
    fn when_a_reader_is_done_the_directory_is_as_it_was() {
        let state = state();
        open(state.path()).unwrap().record(&three()[0]).unwrap();
        let everything = || derelict_testkit::Snapshot::of(state.path()).without_entry(state.path());
        let before = everything();
        let mut reader = open_to_read(state.path()).unwrap().unwrap();
        assert_eq!(reader.known().unwrap().len(), 1);
        drop(reader);
        before.assert_same(&everything());
    }

    #[test]
    fn what_a_newer_program_made_is_refused_and_left_as_it_is() {
        let state = state();
        drop(open(state.path()).unwrap());
        let connection = Connection::open(state.path().join(FILE)).unwrap();
        connection.pragma_update(None, "user_version", 2).unwrap();
        let told = |error: anyhow::Error| format!("{error:#}");
        let newer = format!(
            "cannot open the ledger {}: version 2 is newer than this program, which reads version 1",
            state.path().join(FILE).display()
        );
        assert_eq!(told(open(state.path()).unwrap_err()), newer);
        assert_eq!(told(open_to_read(state.path()).unwrap_err()), newer);
    }

    #[test]
    fn what_is_no_ledger_is_refused_by_its_name_and_left_as_it_is() {
        let state = state();
        let path = state.path().join(FILE);
        for garbage in ["no database at all\n".repeat(100), "x".to_owned(), "SQLite format 2\0".repeat(9)] {
            std::fs::write(&path, &garbage).unwrap();
            for error in [open(state.path()).err(), open_to_read(state.path()).err()] {
                let told = format!("{:#}", error.expect("because it is garbage"));
                assert!(told.starts_with(&format!("cannot open the ledger {}: ", path.display())), "{told}");
            }
            assert_eq!(std::fs::read_to_string(&path).unwrap(), garbage);
        }
    }

    #[test]
    fn two_that_open_it_first_at_once_both_can_write() {
        let state = state();
        std::thread::scope(|scope| {
            for number in 0..4 {
                let state = state.path();
                scope.spawn(move || open(state).unwrap().record(&many(number, 20)).unwrap());
            }
        });
        assert_eq!(open(state.path()).unwrap().known().unwrap().len(), 4);
    }

    #[test]
    fn a_sweep_is_kept_as_a_whole_or_not_at_all() {
        let state = state();
        let mut store = open(state.path()).unwrap();
        let fail = "CREATE TRIGGER fail BEFORE INSERT ON directories WHEN NEW.place = 3 \
                    BEGIN SELECT RAISE(ABORT, 'the disk is full'); END";
        store.0.connection.execute_batch(fail).unwrap();
        let error = format!("{:#}", store.record(&many(0, 10)).unwrap_err());
        assert!(error.contains("ledger.sqlite: the disk is full"), "{error}");
        assert!(store.known().unwrap().is_empty());
        store.record(&sweep(1, Vec::new())).unwrap();
        assert_eq!(store.known().unwrap().len(), 1);
    }
}
