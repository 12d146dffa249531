//! From the configuration to what can be swept: roots with their rules, their state and somebody to ask.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use derelict_core::ids::SourceId;
use derelict_core::policy::{Policy, Window};
use derelict_observe::Terms;
use derelict_observe::command::CommandOwners;
use derelict_observe::postgres::PostgresOwners;
use derelict_observe::roots::Owners;
use derelict_observe::sqlite::SqliteOwners;
use derelict_observe::table::OwnerTable;
use derelict_reclaim::pace::Pace;

use crate::config::{Config, Owner, Root};
use crate::exit::Failure;
use crate::host::Host;
use crate::reaper::sweeping::Assignment;
use crate::text;

/// Clocks of a machine and of its file servers differ by seconds; by minutes, one of them is wrong.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(5 * 60);

/// Below the state directory, the journals and memories of the roots, by name.
const ROOTS: &str = "roots";

/// One root and whom it asks.
#[derive(Debug)]
pub(crate) struct Assigned {
    pub(crate) assignment: Assignment,
    pub(crate) owners: Owners,
}

/// Where journals, records and the ledger are.
///
/// # Errors
/// A usage [`Failure`] when nothing says where.
pub(crate) fn state(config: &Config, host: &Host) -> Result<PathBuf, Failure> {
    match &config.state {
        Some(state) => Ok(state.clone()),
        None => host.server_state().map_err(Failure::usage),
    }
}

/// All roots of a configuration.
///
/// # Errors
/// A usage [`Failure`] when the state would lie in what may be removed.
pub(crate) fn assign(config: &Config, host: &Host, state: &Path) -> Result<Vec<Assigned>, Failure> {
    config.roots.iter().map(|root| assigned(root, host, state)).collect()
}

fn assigned(root: &Root, host: &Host, state: &Path) -> Result<Assigned, Failure> {
    // A root that is missing now is a stop reason of its sweep and no fault of the configuration.
    let path = std::fs::canonicalize(&root.path).unwrap_or_else(|_| root.path.clone());
    let resolved = existing_part(state);
    if resolved.starts_with(&path) {
        let why = "the journal must not lie in what may be removed";
        let (state, path) = (text::path(state), text::path(&path));
        return Err(Failure::usage(anyhow::anyhow!("the state directory {state} lies inside the root {path}: {why}")));
    }
    let policy =
        Policy { window: Window::Idle(root.idle), minimum_age: root.minimum_age, clock_tolerance: CLOCK_TOLERANCE };
    let assignment = Assignment {
        name: root.name.clone(),
        path,
        source: source_name(&root.owner).to_owned(),
        shape: root.shape.clone(),
        policy,
        terms: Terms {
            git: host.git.clone(),
            ignored_changes: root.ignored_changes.clone(),
            rebuildable: root.rebuildable.clone(),
            ask_remote: root.ask_remote,
        },
        environment: host.environment.clone(),
        idle: root.idle,
        limits: root.limits,
        pace: Pace { operations_per_second: root.operations_per_second, ..Pace::POLITE },
        deadline: root.deadline,
        grace: root.grace,
        mode: root.mode,
        acknowledged: root.acknowledged.clone(),
        lock_key: root.lock_key.clone(),
        interval: root.interval,
        state: state.join(ROOTS).join(&root.name),
    };
    Ok(Assigned { owners: owners(&root.owner), assignment })
}

/// The part of a path that exists, resolved: what is not there yet will be made below it.
fn existing_part(path: &Path) -> PathBuf {
    let found = path.ancestors().find_map(|ancestor| Some((ancestor, std::fs::canonicalize(ancestor).ok()?)));
    match found {
        Some((ancestor, resolved)) => resolved.join(path.strip_prefix(ancestor).unwrap_or_else(|_| Path::new(""))),
        None => path.to_path_buf(),
    }
}

fn source_name(owner: &Owner) -> &'static str {
    match owner {
        Owner::Nobody => "nobody",
        Owner::Postgres { .. } => "postgres",
        Owner::Sqlite(_) => "sqlite",
        Owner::Command(_) => "command",
    }
}

fn owners(owner: &Owner) -> Owners {
    let source = SourceId(source_name(owner).into());
    let table: Box<dyn OwnerTable> = match owner {
        Owner::Nobody => return Owners::Nobody,
        Owner::Postgres { settings, asking } => {
            Box::new(PostgresOwners::new(source, (**settings).clone(), asking.clone()))
        }
        Owner::Sqlite(settings) => Box::new(SqliteOwners::new(source, settings.clone())),
        Owner::Command(settings) => Box::new(CommandOwners::new(source, settings.clone())),
    };
    Owners::Table(Arc::new(Mutex::new(table)))
}
