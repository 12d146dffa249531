//! What is known of past sweeps: the words in which the record file and the store are asked, and the one interface of
//! every store.
//!
//! Each sweep is written to two places: first to the record, a file of lines beside the journal, and then to the store,
//! a database that answers quickly. Either may be lost: [`book`] catches the store up from the record, and reads from
//! both. How a sweep becomes a record is the reaper's, how history is shown is [`crate::history`]'s.

pub(crate) mod book;
mod columns;
#[cfg(test)]
mod contract;
pub(crate) mod file;
mod lines;
pub(crate) mod postgres;
#[cfg(test)]
pub(crate) mod samples;
pub(crate) mod sqlite;
mod store;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use derelict_core::ids::{Digest, Timestamp};
use derelict_core::outcome::{Discarded, FateName};

use crate::reaper::record::{Amount, DirectoryRecord, Mode, Stop, SweepRecord};

/// How many directories ended so; folded from their records.
pub(crate) type Counts = BTreeMap<FateName, u64>;

/// A sweep without its directories, which may be many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    /// See [`SweepRecord::id`].
    pub(crate) id: String,
    /// The root's name in the configuration.
    pub(crate) root: String,
    /// Where the root was.
    pub(crate) path: PathBuf,
    /// Whether anything could go.
    pub(crate) mode: Mode,
    /// When it began.
    pub(crate) began: Timestamp,
    /// When it ended.
    pub(crate) ended: Timestamp,
    /// See [`SweepRecord::cutoff`].
    pub(crate) cutoff: Timestamp,
    /// The digest of the plan.
    pub(crate) plan: Option<Digest>,
    /// Why it ended.
    pub(crate) stop: Stop,
    /// What could go when it began.
    pub(crate) backlog: Amount,
    /// What was unlinked.
    pub(crate) discarded: Discarded,
    /// By how much the free space grew.
    pub(crate) measured_bytes: Option<i64>,
    /// Its directories by their fates.
    pub(crate) counts: Counts,
}

impl Head {
    /// Its place among others in time; an id tells seconds only.
    pub(crate) fn place(&self) -> (Timestamp, &str) {
        (self.began, &self.id)
    }

    /// The head of a sweep.
    pub(crate) fn of(sweep: &SweepRecord) -> Self {
        Self {
            id: sweep.id.clone(),
            root: sweep.root.clone(),
            path: sweep.path.clone(),
            mode: sweep.mode,
            began: sweep.began,
            ended: sweep.ended,
            cutoff: sweep.cutoff,
            plan: sweep.plan,
            stop: sweep.stop.clone(),
            backlog: sweep.backlog,
            discarded: sweep.discarded,
            measured_bytes: sweep.measured_bytes,
            counts: sweep.directories.iter().fold(Counts::new(), |mut counts, directory| {
                *counts.entry(directory.fate).or_insert(0) += 1;
                counts
            }),
        }
    }

    /// The whole sweep again.
    pub(crate) fn with(self, directories: Vec<DirectoryRecord>) -> SweepRecord {
        SweepRecord {
            id: self.id,
            root: self.root,
            path: self.path,
            mode: self.mode,
            began: self.began,
            ended: self.ended,
            cutoff: self.cutoff,
            plan: self.plan,
            stop: self.stop,
            backlog: self.backlog,
            discarded: self.discarded,
            measured_bytes: self.measured_bytes,
            directories,
        }
    }
}

/// One directory as one sweep saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sighting {
    /// The sweep.
    pub(crate) head: Head,
    /// What it saw and did.
    pub(crate) directory: DirectoryRecord,
}

/// Which fates are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fates {
    /// All of them.
    Any,
    /// These.
    Of(&'static [FateName]),
}

impl Fates {
    /// What went: it is gone, or set aside until its grace is over.
    pub(crate) const REMOVED: Self = Self::Of(&[FateName::Removed, FateName::Quarantined]);

    /// What was planned to go and was saved by the re-check.
    pub(crate) const NEAR_MISSES: Self = Self::Of(&[FateName::RetainedResurrected, FateName::RetainedChanged]);

    /// Whether `fate` is one of them.
    pub(crate) fn include(self, fate: FateName) -> bool {
        match self {
            Self::Any => true,
            Self::Of(fates) => fates.contains(&fate),
        }
    }
}

/// Which sweeps are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Filter {
    /// Only those of the root with this name.
    pub(crate) root: Option<String>,
    /// Only those that began at this instant or later.
    pub(crate) since: Option<Timestamp>,
    /// Only those in which some directory ended so.
    pub(crate) fates: Fates,
}

impl Filter {
    /// Every sweep.
    pub(crate) const ALL: Self = Self { root: None, since: None, fates: Fates::Any };

    /// Whether a sweep is asked for.
    pub(crate) fn includes(&self, head: &Head) -> bool {
        self.root.as_ref().is_none_or(|root| *root == head.root)
            && self.since.is_none_or(|since| head.began >= since)
            && match self.fates {
                Fates::Any => true,
                Fates::Of(fates) => fates.iter().any(|fate| head.counts.contains_key(fate)),
            }
    }
}

/// Which directories are asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place<'p> {
    /// Wherever they lay.
    Anywhere,
    /// Those that lay at one of these paths.
    At(&'p [PathBuf]),
}

/// A store of sweeps. Whether it can be written never decides whether a sweep runs: see [`book::Book`].
pub(crate) trait Ledger: Send {
    /// Keeps a sweep; one that is kept already stays as it is.
    ///
    /// # Errors
    /// When the store cannot be written; nothing of the sweep is kept then.
    fn record(&mut self, sweep: &SweepRecord) -> anyhow::Result<()>;

    /// The ids of all sweeps.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn known(&mut self) -> anyhow::Result<BTreeSet<String>>;

    /// The newest `most` sweeps, newest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn sweeps(&mut self, filter: &Filter, most: u64) -> anyhow::Result<Vec<Head>>;

    /// One sweep; `None` when it is not kept.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn sweep(&mut self, id: &str) -> anyhow::Result<Option<Head>>;

    /// Tells each directory of a sweep that ended so, in the order of the sweep.
    ///
    /// # Errors
    /// When the store cannot be read; some may have been told then.
    fn directories(&mut self, sweep: &str, fates: Fates, each: &mut dyn FnMut(DirectoryRecord)) -> anyhow::Result<()>;

    /// Every time that a sweep saw a directory at that place ending so, newest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn sightings(&mut self, place: Place<'_>, filter: &Filter) -> anyhow::Result<Vec<Sighting>>;

    /// Forgets the sweeps that began before `instant`, and says how many those were.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn forget_before(&mut self, instant: Timestamp) -> anyhow::Result<u64>;

    /// The last sweep of a root; `None` when there never was one.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn last(&mut self, root: &str) -> anyhow::Result<Option<Head>> {
        let filter = Filter { root: Some(root.to_owned()), ..Filter::ALL };
        Ok(self.sweeps(&filter, 1)?.into_iter().next())
    }
}

/// The mode with that name.
fn mode_named(name: &str) -> Option<Mode> {
    [Mode::Report, Mode::Armed].into_iter().find(|mode| mode.name() == name)
}

/// The fate with that name.
fn fate_named(name: &str) -> Option<FateName> {
    FateName::ALL.into_iter().find(|fate| fate.as_str() == name)
}
