//! The rules an operator can set, as one required value. Nothing here has a harmless default, so
//! nothing here has a `Default`.

use std::time::Duration;

/// What decides between a directory that may go and one that must stay.
#[derive(Debug, Clone, PartialEq, Eq)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// The source lists only living owners; a last use it gives is information, not a lease.
    Standing,
    /// A last use older than this releases the directory. `>= cutoff` keeps.
    Idle(Duration),
}

/// How much one sweep may take; what is beyond stays in the plan as such.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// At most this many directories.
    pub removals: Option<u64>,
    /// At most this many bytes, by the plan's own estimate.
    pub bytes: Option<u64>,
}

/// Whether the person asked to let unsaved work go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Force {
    /// Unsaved work keeps.
    No,
    /// Directories whose only reason to stay is unsaved work may go, if the losses are still
    /// exactly those that were shown.
    UnsavedAsShown,
}
