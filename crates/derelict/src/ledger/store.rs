//! A store of sweeps in any database that speaks SQL: the tables' meaning and every question, once. How a database is
//! reached, and what its tables are made of, is `sqlite`'s and `postgres`'s; what the values in the columns mean is
//! `columns`'s.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use derelict_core::ids::Timestamp;
use derelict_core::outcome::Discarded;

use crate::ledger::columns::{Column, Parameter, Row, bytes, string, time, unsigned};
use crate::ledger::{Fates, Filter, Head, Ledger, Place, Sighting, fate_named, mode_named};
use crate::reaper::record::{Amount, DirectoryRecord, Stop, SweepRecord};

/// The version of the tables that this program makes, and the newest that it reads.
pub(crate) const VERSION: i64 = 1;

/// How many paths fit into one question.
const PATHS_AT_ONCE: usize = 500;

/// A database, as far as the store needs it.
pub(crate) trait Sql: Send {
    /// What stands before the name of a table.
    fn schema(&self) -> &str;

    /// Begins a transaction that will write.
    fn begin(&mut self) -> anyhow::Result<()>;

    /// Ends it, and keeps what it wrote.
    fn commit(&mut self) -> anyhow::Result<()>;

    /// Ends it, and keeps nothing.
    fn roll_back(&mut self) -> anyhow::Result<()>;

    /// Runs one statement with `$1`, `$2`, …, and says how many rows it changed.
    fn execute(&mut self, sql: &str, parameters: &[Parameter]) -> anyhow::Result<u64>;

    /// Asks one question and tells each row of the answer.
    fn query(
        &mut self,
        sql: &str,
        parameters: &[Parameter],
        each: &mut dyn FnMut(Vec<Column>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()>;

    /// Puts the directories of the sweep with this number into their table.
    fn insert_directories(&mut self, sweep: i64, directories: &[DirectoryRecord]) -> anyhow::Result<()>;
}

/// The columns of a sweep, in the order in which they are written and read.
const SWEEP_COLUMNS: &str = "id, root, path, mode, began, began_ns, ended, ended_ns, cutoff, cutoff_ns, plan, stop, \
     stop_which, stop_why, backlog_directories, backlog_entries, backlog_bytes, discarded_entries, discarded_bytes, \
     measured_bytes";

/// The columns of a directory, in the order in which they are written and read, after its sweep and its place in it.
pub(crate) const DIRECTORY_COLUMNS: &str =
    "path, fate, why, evidence, last_used, last_used_ns, touched, touched_ns, entries, bytes, intent, proof";

/// The store over a database.
#[derive(Debug)]
pub(crate) struct Store<S>(pub(crate) S);

impl<S: Sql> Ledger for Store<S> {
    fn record(&mut self, sweep: &SweepRecord) -> anyhow::Result<()> {
        self.0.begin()?;
        let kept = self.insert(sweep).and_then(|()| self.0.commit());
        if kept.is_err() {
            // A transaction that cannot be rolled back ends with its connection, and the error is told.
            let _ = self.0.roll_back();
        }
        kept
    }

    fn known(&mut self) -> anyhow::Result<BTreeSet<String>> {
        let sql = format!("SELECT id FROM {}.sweeps", self.0.schema());
        let mut known = BTreeSet::new();
        self.0.query(&sql, &[], &mut |row| {
            known.insert(Row::of(row).text()?);
            Ok(())
        })?;
        Ok(known)
    }

    fn sweeps(&mut self, filter: &Filter, most: u64) -> anyhow::Result<Vec<Head>> {
        let (condition, mut parameters) = condition(self.0.schema(), filter);
        parameters.push(Parameter::Number(Some(i64::try_from(most).unwrap_or(i64::MAX))));
        self.heads(
            &format!("WHERE {condition} ORDER BY s.began DESC, s.began_ns DESC, s.id DESC LIMIT CAST($4 AS bigint)"),
            &parameters,
        )
    }

    fn sweep(&mut self, id: &str) -> anyhow::Result<Option<Head>> {
        Ok(self.heads("WHERE s.id = $1", &[string(id)])?.into_iter().next())
    }

    fn directories(&mut self, sweep: &str, fates: Fates, each: &mut dyn FnMut(DirectoryRecord)) -> anyhow::Result<()> {
        let schema = self.0.schema();
        let sql = format!(
            "SELECT {DIRECTORY_COLUMNS} FROM {schema}.directories AS d \
             WHERE d.sweep = (SELECT number FROM {schema}.sweeps WHERE id = $1) AND {} ORDER BY d.place",
            among("d.fate", fates)
        );
        self.0.query(&sql, &[string(sweep)], &mut |row| {
            each(directory(&mut Row::of(row))?);
            Ok(())
        })
    }

    fn sightings(&mut self, place: Place<'_>, filter: &Filter) -> anyhow::Result<Vec<Sighting>> {
        match place {
            Place::Anywhere => self.sighted("", &[], filter),
            Place::At(paths) => {
                let mut all = Vec::new();
                for paths in paths.chunks(PATHS_AT_ONCE) {
                    // The first three parameters are those of the filter.
                    let numbers = (4..).take(paths.len()).map(|n| format!("${n}")).collect::<Vec<_>>().join(", ");
                    all.extend(self.sighted(&format!("d.path IN ({numbers}) AND "), paths, filter)?);
                }
                all.sort_by(|a, b| b.head.place().cmp(&a.head.place()));
                Ok(all)
            }
        }
    }

    fn forget_before(&mut self, instant: Timestamp) -> anyhow::Result<u64> {
        let sql = format!("DELETE FROM {}.sweeps WHERE began < $1 OR (began = $1 AND began_ns < $2)", self.0.schema());
        self.0.execute(&sql, &time(Some(instant)))
    }
}

impl<S: Sql> Store<S> {
    fn insert(&mut self, sweep: &SweepRecord) -> anyhow::Result<()> {
        let head = Head::of(sweep);
        let values = head_values(&head);
        let numbers = (1..=values.len()).map(|n| format!("${n}")).collect::<Vec<_>>().join(", ");
        let schema = self.0.schema().to_owned();
        let sql =
            format!("INSERT INTO {schema}.sweeps ({SWEEP_COLUMNS}) VALUES ({numbers}) ON CONFLICT (id) DO NOTHING");
        if self.0.execute(&sql, &values)? == 0 {
            return Ok(());
        }
        let mut number = None;
        let sql = format!("SELECT number FROM {schema}.sweeps WHERE id = $1");
        self.0.query(&sql, &[string(&head.id)], &mut |row| {
            number = Some(Row::of(row).number()?);
            Ok(())
        })?;
        let number = number.context("the sweep that was just kept is not there")?;
        let sql = format!("INSERT INTO {schema}.fates (sweep, fate, directories) VALUES ($1, $2, $3)");
        for (fate, count) in &head.counts {
            let number = Parameter::Number(Some(number));
            self.0.execute(&sql, &[number, string(fate.as_str()), unsigned(*count)])?;
        }
        self.0.insert_directories(number, &sweep.directories)
    }

    /// The heads that the rest of the question asks for, with their counts.
    fn heads(&mut self, rest: &str, parameters: &[Parameter]) -> anyhow::Result<Vec<Head>> {
        let schema = self.0.schema().to_owned();
        let mut heads = Vec::new();
        self.0.query(&format!("SELECT {SWEEP_COLUMNS} FROM {schema}.sweeps AS s {rest}"), parameters, &mut |row| {
            heads.push(head(&mut Row::of(row))?);
            Ok(())
        })?;
        let sql = format!(
            "SELECT fate, directories FROM {schema}.fates WHERE sweep = (SELECT number FROM {schema}.sweeps WHERE id = $1)"
        );
        for head in &mut heads {
            self.0.query(&sql, &[string(&head.id)], &mut |row| {
                let mut row = Row::of(row);
                let fate = row.text()?;
                head.counts.insert(fate_named(&fate).ok_or_else(|| not_known("fate", &fate))?, row.unsigned()?);
                Ok(())
            })?;
        }
        Ok(heads)
    }

    fn sighted(&mut self, at: &str, paths: &[PathBuf], filter: &Filter) -> anyhow::Result<Vec<Sighting>> {
        let schema = self.0.schema().to_owned();
        let (condition, mut parameters) = condition(&schema, filter);
        parameters.extend(paths.iter().map(|path| bytes(path)));
        let columns = DIRECTORY_COLUMNS.split(", ").map(|column| format!("d.{column}")).collect::<Vec<_>>().join(", ");
        let sql = format!(
            "SELECT s.id, {columns} FROM {schema}.directories AS d JOIN {schema}.sweeps AS s ON s.number = d.sweep \
             WHERE {at}{} AND {condition} ORDER BY s.began DESC, s.began_ns DESC, s.id DESC, d.place",
            among("d.fate", filter.fates)
        );
        let mut found = Vec::new();
        self.0.query(&sql, &parameters, &mut |row| {
            let mut row = Row::of(row);
            found.push((row.text()?, directory(&mut row)?));
            Ok(())
        })?;
        let mut heads: Vec<Head> = Vec::new();
        for (id, _) in &found {
            if heads.last().is_none_or(|last| last.id != *id) {
                let head = self.sweep(id)?;
                heads.push(head.with_context(|| format!("the sweep {id} was forgotten meanwhile"))?);
            }
        }
        let head = |id: &String| heads.iter().find(|head| head.id == *id).cloned();
        Ok(found.into_iter().filter_map(|(id, directory)| Some(Sighting { head: head(&id)?, directory })).collect())
    }
}

/// The condition that a filter makes of a sweep `s`, with its parameters, which are always three.
fn condition(schema: &str, filter: &Filter) -> (String, Vec<Parameter>) {
    let fates = match filter.fates {
        Fates::Any => String::new(),
        Fates::Of(_) => format!(
            " AND EXISTS (SELECT 1 FROM {schema}.fates AS f WHERE f.sweep = s.number AND {})",
            among("f.fate", filter.fates)
        ),
    };
    let condition = format!(
        "(CAST($1 AS text) IS NULL OR s.root = CAST($1 AS text)) AND (CAST($2 AS bigint) IS NULL \
         OR s.began > CAST($2 AS bigint) OR (s.began = CAST($2 AS bigint) AND s.began_ns >= CAST($3 AS bigint))){fates}"
    );
    let root = Parameter::Text(filter.root.clone());
    let [since, since_ns] = time(filter.since);
    (condition, vec![root, since, since_ns])
}

/// The names of fates are ours and a closed set, so they can stand in the question as they are.
fn among(column: &str, fates: Fates) -> String {
    match fates {
        Fates::Any => "1 = 1".to_owned(),
        Fates::Of(fates) => {
            let names = fates.iter().map(|fate| format!("'{}'", fate.as_str())).collect::<Vec<_>>();
            format!("{column} IN ({})", names.join(", "))
        }
    }
}

fn head_values(head: &Head) -> Vec<Parameter> {
    let [began, began_ns] = time(Some(head.began));
    let [ended, ended_ns] = time(Some(head.ended));
    let [cutoff, cutoff_ns] = time(Some(head.cutoff));
    vec![
        string(&head.id),
        string(&head.root),
        bytes(&head.path),
        string(head.mode.name()),
        began,
        began_ns,
        ended,
        ended_ns,
        cutoff,
        cutoff_ns,
        Parameter::Bytes(head.plan.map(|plan| plan.as_bytes().to_vec())),
        string(&head.stop.name),
        Parameter::Text(head.stop.which.clone()),
        Parameter::Text(head.stop.why.clone()),
        unsigned(head.backlog.directories),
        unsigned(head.backlog.entries),
        unsigned(head.backlog.bytes),
        unsigned(head.discarded.entries),
        unsigned(head.discarded.bytes),
        Parameter::Number(head.measured_bytes),
    ]
}

fn head(row: &mut Row) -> anyhow::Result<Head> {
    Ok(Head {
        id: row.text()?,
        root: row.text()?,
        path: row.path()?,
        mode: {
            let mode = row.text()?;
            mode_named(&mode).ok_or_else(|| not_known("mode", &mode))?
        },
        began: row.time()?,
        ended: row.time()?,
        cutoff: row.time()?,
        plan: row.maybe(Row::digest)?,
        stop: Stop { name: row.text()?, which: row.maybe(Row::text)?, why: row.maybe(Row::text)? },
        backlog: Amount { directories: row.unsigned()?, entries: row.unsigned()?, bytes: row.unsigned()? },
        discarded: Discarded { entries: row.unsigned()?, bytes: row.unsigned()? },
        measured_bytes: row.maybe(Row::number)?,
        counts: super::Counts::new(),
    })
}

fn directory(row: &mut Row) -> anyhow::Result<DirectoryRecord> {
    Ok(DirectoryRecord {
        path: row.path()?,
        fate: {
            let fate = row.text()?;
            fate_named(&fate).ok_or_else(|| not_known("fate", &fate))?
        },
        why: row.text()?,
        evidence: row.digest()?,
        last_used: row.maybe_time()?,
        touched: row.maybe_time()?,
        entries: row.unsigned()?,
        bytes: row.unsigned()?,
        intent: row.maybe(Row::unsigned)?,
        proof: row.maybe(Row::text)?,
    })
}

fn not_known(what: &str, name: &str) -> anyhow::Error {
    anyhow!("the ledger has a {what} `{name}` that this program does not know")
}
