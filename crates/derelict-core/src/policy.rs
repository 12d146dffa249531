//! The rules an operator can set, as one required value. Nothing here has a harmless default, so
//! nothing here has a `Default`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

/// What decides between a directory that may go and one that must stay.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Policy {
    /// How a claim that carries a last use is read.
    pub window: Window,
    /// A directory younger than this is kept whatever anybody says. Zero where the creators' lock
    /// covers the time between making a directory and registering its owner.
    pub minimum_age: Duration,
    /// A directory whose times lie further than this in the future is kept: some clock is wrong.
    pub clock_tolerance: Duration,
}

/// How long a row without a standing claim keeps its directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Window {
    /// The source lists only living owners; a last use it gives is information, not a lease.
    Standing,
    /// A last use older than this releases the directory. `>= cutoff` keeps.
    Idle(Duration),
}

/// How much one sweep may take; what is beyond stays in the plan as such.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Limits {
    /// At most this many directories.
    pub removals: Option<u64>,
    /// At most this many directory entries in all.
    pub entries: Option<u64>,
    /// At most this many bytes, by the plan's own estimate.
    pub bytes: Option<u64>,
}

impl Limits {
    /// No bound at all: for a person who reads the plan.
    pub const NONE: Self = Self { removals: None, entries: None, bytes: None };
}

/// The bounds of what one sweep takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// The number of directories.
    Removals,
    /// The number of directory entries in them.
    Entries,
    /// The bytes they free.
    Bytes,
}

impl Limit {
    /// Every limit, in the order in which they are named.
    pub const ALL: [Self; 3] = [Self::Removals, Self::Entries, Self::Bytes];

    /// Its name in configuration, records and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Removals => "removals",
            Self::Entries => "entries",
            Self::Bytes => "bytes",
        }
    }
}

/// Directories that go last: what would not go before must not use up the limits of every sweep.
/// By their place below the root.
pub type Postponed = BTreeSet<PathBuf>;

/// What a plan is made by, beside the verdicts.
#[derive(Debug, Clone)]
pub struct Selection {
    /// Whether unsaved work may go.
    pub force: Force,
    /// How much may go.
    pub limits: Limits,
    /// What goes last.
    pub postponed: Postponed,
}

/// Whether the person asked to let unsaved work go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Force {
    /// Unsaved work keeps.
    No,
    /// Directories whose only reason to stay is unsaved work may go, if the losses are still
    /// exactly those that were shown.
    UnsavedAsShown,
    /// The same, but only after everything that is unsaved was rescued.
    UnsavedOnceRescued,
}

impl Selection {
    /// With nothing postponed.
    #[must_use]
    pub fn new(force: Force, limits: Limits) -> Self {
        Self { force, limits, postponed: Postponed::new() }
    }
}
