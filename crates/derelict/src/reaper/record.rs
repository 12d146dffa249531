//! One sweep of one root as a value: what is written to the local record, kept in the ledger, counted in metrics and
//! shown by `derelict history`. It is made from the plan and its report; where it is kept is not known here.

use std::path::PathBuf;

use derelict_core::ids::{Digest, Timestamp};
use derelict_core::outcome::{Discarded, FateName};

use crate::exit::Exit;

/// Whether a root is only looked at, or swept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Mode {
    /// It is looked at, and what would go is told.
    Report,
    /// What may go goes.
    Armed,
}

impl Mode {
    /// Its name in records and metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Report => "report",
            Self::Armed => "armed",
        }
    }
}

/// A number of directories and what is in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Amount {
    /// Directories.
    pub(crate) directories: u64,
    /// Directory entries in them.
    pub(crate) entries: u64,
    /// Bytes that their removal would free.
    pub(crate) bytes: u64,
}

/// Why a sweep ended, as it is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stop {
    /// One of [`derelict_core::outcome::StopReason::NAMES`].
    pub(crate) name: String,
    /// Which limit, breaker or source, in a word; `None` where there is nothing to tell.
    pub(crate) which: Option<String>,
    /// What was seen, as a sentence.
    pub(crate) why: Option<String>,
}

/// One sweep of one root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SweepRecord {
    /// Unique, and sorted as the sweeps are: `20261201T024607Z-1a2b3c4d`.
    pub(crate) id: String,
    /// The root's name in the configuration.
    pub(crate) root: String,
    /// Where the root is.
    pub(crate) path: PathBuf,
    /// Whether anything could go.
    pub(crate) mode: Mode,
    /// When it began.
    pub(crate) began: Timestamp,
    /// When it ended.
    pub(crate) ended: Timestamp,
    /// The instant before which an owner must have been active last for its directory to go.
    pub(crate) cutoff: Timestamp,
    /// The digest of the plan; `None` when the sweep ended before there was one.
    pub(crate) plan: Option<Digest>,
    /// Why it ended.
    pub(crate) stop: Stop,
    /// What could go when the sweep began, within the limits and beyond them.
    pub(crate) backlog: Amount,
    /// What was unlinked.
    pub(crate) discarded: Discarded,
    /// By how much the free space grew while it ran; `None` when that could not be measured.
    pub(crate) measured_bytes: Option<i64>,
    /// Every directory that was looked at, each with exactly one fate.
    pub(crate) directories: Vec<DirectoryRecord>,
}

/// One directory of a sweep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DirectoryRecord {
    /// Where it lay.
    pub(crate) path: PathBuf,
    /// Where it ended.
    pub(crate) fate: FateName,
    /// Why, as a sentence that names what was seen.
    pub(crate) why: String,
    /// The digest of the evidence.
    pub(crate) evidence: Digest,
    /// When its owner last used it, as far as a source says so.
    pub(crate) last_used: Option<Timestamp>,
    /// When the directory itself was made or last changed at its top level.
    pub(crate) touched: Option<Timestamp>,
    /// Directory entries in it.
    pub(crate) entries: u64,
    /// Bytes that its removal frees or freed.
    pub(crate) bytes: u64,
    /// The number of the intent in the journal, if one was written.
    pub(crate) intent: Option<u64>,
    /// The proof that nothing of a checkout is lost, channel by channel, as JSON; `None` where none was examined.
    pub(crate) proof: Option<String>,
}

impl SweepRecord {
    /// The exit code that it asks for: the worst of how the sweep ended and of how each directory did.
    pub(crate) fn exit(&self) -> Exit {
        let ended = match self.stop.name.as_str() {
            "finished" | "limit" => Exit::Done,
            // What it was meant to do is not all done, and nothing is wrong.
            "cancelled" | "deadline" => Exit::Done,
            _ => Exit::Stopped,
        };
        let fates = self.directories.iter().map(|directory| match directory.fate {
            FateName::Refused | FateName::Busy | FateName::Interrupted | FateName::Undetermined => Exit::Incomplete,
            FateName::Referenced
            | FateName::Disputed
            | FateName::Unsaved
            | FateName::RetainedFresh
            | FateName::RetainedInUse
            | FateName::RetainedLeased
            | FateName::RetainedNestedCheckout
            | FateName::RetainedClockSkew
            | FateName::SkippedLayout
            | FateName::Removable
            | FateName::BeyondLimit
            | FateName::NotReached
            | FateName::Removed
            | FateName::Quarantined
            | FateName::Vanished
            | FateName::RetainedResurrected
            | FateName::RetainedChanged => Exit::Done,
        });
        fates.max().unwrap_or(Exit::Done).max(ended)
    }
}
