//! The words of a recovery: what became of each intent and each piece of trash that an earlier run
//! left. How that is found out and settled is `recover`'s.

use std::path::PathBuf;

use derelict_core::ids::escaped;
use derelict_core::outcome::{Discarded, Refusal, Release};
use derelict_core::ports::JournalLost;

/// What recovery found and did.
#[derive(Debug)]
pub struct Recovery {
    /// One entry for each interrupted intent of this root, then one for each unknown trash. What was
    /// set aside on purpose and is where it should be is not among them.
    pub recovered: Vec<Recovered>,
    /// The journal failed on the way; nothing may be removed.
    pub lost: Option<JournalLost>,
}

/// What became of one unfinished intent, or of one piece of trash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recovered {
    /// The directory was never touched.
    Untouched {
        /// Where it lies.
        path: PathBuf,
    },
    /// It was fenced, and is back under its name. The next plan judges it again.
    PutBack {
        /// Where it lies.
        path: PathBuf,
    },
    /// It was fenced, and its name was taken meanwhile. It stays in the trash, whole.
    Occupied {
        /// Where it lies.
        trash: PathBuf,
        /// Where it would belong: `mv` it there once the name is free.
        path: PathBuf,
    },
    /// Its discarding had begun, and is finished.
    Finished {
        /// Where it lay.
        path: PathBuf,
        /// What was unlinked now.
        discarded: Discarded,
        /// What became of its record.
        release: Release,
    },
    /// Its discarding had begun, and something still would not go. The next start tries again.
    Unfinished {
        /// Where it lay.
        path: PathBuf,
        /// What was unlinked now.
        discarded: Discarded,
        /// What would not go.
        refusals: Vec<Refusal>,
    },
    /// It was gone already; only its end had not been written down.
    Gone {
        /// Where it lay.
        path: PathBuf,
        /// What became of its record.
        release: Release,
    },
    /// Its creators hold its lock. The next start tries again.
    Busy {
        /// Where it lay.
        path: PathBuf,
        /// Which lock.
        lock: String,
    },
    /// What lies there is not what the journal says, or cannot be looked at. Nothing was done.
    Undecided {
        /// What is meant.
        path: PathBuf,
        /// What is odd about it.
        why: String,
    },
    /// Trash that this journal does not know. Nothing was done.
    UnknownTrash {
        /// Where it lies.
        path: PathBuf,
    },
}

impl std::fmt::Display for Recovered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Untouched { path } => write!(f, "{}: an earlier run stopped before it touched it", escaped(path)),
            Self::PutBack { path } => write!(f, "{}: put back, an earlier run had only fenced it", escaped(path)),
            Self::Occupied { trash, path } => {
                let (trash, path) = (escaped(trash), escaped(path));
                write!(
                    f,
                    "{path}: its name is taken; what an earlier run fenced is whole at {trash}, move it where you want it"
                )
            }
            Self::Finished { path, .. } => {
                write!(f, "{}: finished what an earlier run had begun to discard", escaped(path))
            }
            Self::Unfinished { path, refusals, .. } => {
                let first = refusals.first().map(|refusal| format!(": {}: {}", escaped(&refusal.path), refusal.why));
                write!(f, "{}: still not entirely gone{}", escaped(path), first.as_deref().unwrap_or(""))
            }
            Self::Gone { path, .. } => write!(f, "{}: was gone already", escaped(path)),
            Self::Busy { path, lock } => {
                write!(f, "{}: left for later, {lock} is held by somebody else", escaped(path))
            }
            Self::Undecided { path, why } => write!(f, "{}: left as it is: {why}", escaped(path)),
            Self::UnknownTrash { path } => {
                write!(f, "{}: trash that this journal does not know, left as it is", escaped(path))
            }
        }
    }
}
