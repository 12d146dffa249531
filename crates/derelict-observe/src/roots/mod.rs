//! Roots whose workspaces lie directly below them, named by the ids of a table of owners: the words in
//! which one is described, and what a survey of it comes to. How it is looked at is in `observer`.

mod list;
mod meter;
mod observer;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use derelict_core::ids::{FileIdentity, SourceId, Timestamp};
use derelict_core::ports::SourceLost;
use derelict_core::survey::Sighting;
use derelict_git::Terms;

use crate::environment::Environment;
use crate::scan::Skipped;
use crate::sources::table::OwnerTable;
use crate::survey::{BorrowerSearch, ProcessView};

pub use observer::RootObserver;

/// A table that the re-checks and the locks of one sweep share.
pub type SharedTable = Arc<Mutex<Box<dyn OwnerTable>>>;

/// Who is asked for the owners.
#[derive(Debug, Clone)]
pub enum Owners {
    /// Nobody, as the operator declared: age alone decides.
    Nobody,
    /// A table.
    Table(SharedTable),
}

/// A root and what its workspaces look like.
#[derive(Debug, Clone)]
pub struct RootSpec {
    /// Where it is, resolved.
    pub path: PathBuf,
    /// The name of its owner source in evidence and reports.
    pub source: SourceId,
    /// What a workspace looks like.
    pub shape: Shape,
    /// What is said outside of its workspaces.
    pub terms: Terms,
    /// Where programs and the user's files are, should remotes be asked.
    pub environment: Environment,
    /// Owners that were active at this instant or later are alive: their directories are not looked
    /// into, which can only keep them.
    pub cutoff: Timestamp,
}

/// What the workspaces of a root look like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// Exactly these entries and no checkout anywhere below them. What lies in them was declared to be
    /// expendable.
    Exactly {
        /// The entries of the top level.
        entries: Vec<Expected>,
        /// Directories that hold work trees of a tool, by the end of their paths: one that is not
        /// empty is a nested checkout.
        worktree_homes: Vec<PathBuf>,
    },
    /// Anything; what would be lost is found out by examining it.
    Checkout,
}

/// One expected entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: EntryKind,
}

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A real directory.
    Directory,
    /// A regular file.
    File,
}

/// What a survey of a root came to.
#[derive(Debug)]
pub struct RootSurvey {
    /// Every directory that could be a workspace, by name.
    pub sightings: Vec<Sighting>,
    /// What lies in their place and is none.
    pub skipped: Vec<Skipped>,
    /// How many owners have a row; `None` where nobody is asked.
    pub owners: Option<u64>,
    /// The root that was listed.
    pub root: FileIdentity,
    /// The clock of the owner source and the one here, when it was asked.
    pub clocks: Option<(Timestamp, Timestamp)>,
    /// How much of the processes was seen; `None` when none was.
    pub processes: Option<ProcessView>,
    /// Configuration of git outside of the workspaces that could not be read, and why.
    pub git: Vec<String>,
    /// How far the search for borrowers went; `None` where no checkout may lie.
    pub borrowers: Option<BorrowerSearch>,
}

/// Why a root was not surveyed.
#[derive(Debug, thiserror::Error)]
pub enum NotSurveyed {
    /// It is missing, or cannot be read.
    #[error("cannot read the root {}: {why}", derelict_core::ids::escaped(.path))]
    RootAbsent {
        /// The root.
        path: PathBuf,
        /// Why, in the system's words.
        why: String,
    },
    /// Its owner source is lost.
    #[error(transparent)]
    SourceLost(#[from] SourceLost),
}
