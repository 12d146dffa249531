//! The configuration of unattended sweeps: read from `/etc`, the user's file, a named file and the environment, checked
//! against one table of keys, and turned into roots that can be swept. A value that is wrong stops everything before
//! anything is looked at, and all that is wrong is told at once.

pub(crate) mod command;
mod keys;
mod layers;
mod owner;
mod paperclip;
mod resolve;
#[cfg(test)]
mod rules;
mod schema;
#[cfg(test)]
mod tests;
mod value;

use std::fmt;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use derelict_core::policy::Limits;
use derelict_observe::command::CommandSettings;
use derelict_observe::postgres;
use derelict_observe::roots::Shape;
use derelict_observe::sqlite::SqliteSettings;
use derelict_observe::{AskRemote, IgnoredChanges, Rebuildable};

use crate::ledger::book::Shelf;
use crate::reaper::record::Mode;
use crate::telemetry::logger::{Format, Threshold};

pub(crate) use layers::Sources;

/// Everything that was configured.
#[derive(Debug)]
pub(crate) struct Config {
    /// Where journals, records and the ledger are, if that is said.
    pub(crate) state: Option<PathBuf>,
    /// How it is logged.
    pub(crate) log: Log,
    /// How the daemon answers.
    pub(crate) serve: Serve,
    /// Where sweeps are kept.
    pub(crate) ledger: Shelf,
    /// For how long.
    pub(crate) retention: Duration,
    /// How long after a signal the program ends in any case.
    pub(crate) stop_within: Duration,
    /// What is swept.
    pub(crate) roots: Vec<Root>,
}

/// How it is logged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Log {
    pub(crate) format: Format,
    pub(crate) threshold: Threshold,
}

/// How the daemon answers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Serve {
    /// Where; nowhere if `None`.
    pub(crate) listen: Option<SocketAddr>,
    /// A sweep without progress for so long is ill.
    pub(crate) stalled_after: Duration,
}

/// One root.
#[derive(Debug, Clone)]
pub(crate) struct Root {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) shape: Shape,
    pub(crate) ignored_changes: IgnoredChanges,
    pub(crate) rebuildable: Rebuildable,
    pub(crate) ask_remote: AskRemote,
    pub(crate) idle: Duration,
    pub(crate) minimum_age: Duration,
    pub(crate) limits: Limits,
    /// Metadata operations a second while removing; as many as the file system likes if `None`.
    pub(crate) operations_per_second: Option<NonZeroU32>,
    pub(crate) deadline: Duration,
    pub(crate) interval: Duration,
    pub(crate) mode: Mode,
    pub(crate) grace: Duration,
    pub(crate) acknowledged: Vec<String>,
    pub(crate) lock_key: String,
    pub(crate) owner: Owner,
}

/// Who knows the owners of a root.
#[derive(Debug, Clone)]
pub(crate) enum Owner {
    /// Nobody: age and layout decide.
    Nobody,
    /// Rows in PostgreSQL.
    Postgres { settings: Box<postgres::Settings>, asking: postgres::Asking },
    /// Rows in SQLite.
    Sqlite(SqliteSettings),
    /// A program that prints claims.
    Command(CommandSettings),
}

/// All that is wrong, one line each.
#[derive(Debug)]
pub(crate) struct ConfigErrors(Vec<value::Problem>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<&str> = self.0.iter().map(|problem| problem.0.as_str()).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for ConfigErrors {}

/// Reads and checks everything.
///
/// # Errors
/// [`ConfigErrors`] names every value that is wrong, its place and its bound.
pub(crate) fn load(sources: &Sources) -> Result<Config, ConfigErrors> {
    resolve::resolve(layers::Layers::read(sources), &sources.environment)
}
