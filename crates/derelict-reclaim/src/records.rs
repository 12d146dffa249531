//! Who keeps records of the workspaces below a root. What dropping one takes is `release`'s; an owner
//! table is not changed by anybody here: its rows are its own program's.

use std::path::Path;

use derelict_core::outcome::Release;

use crate::lock::CLONE_LEVELS;
use crate::release::DevlaunchRecords;

/// The records that follow a removal.
#[derive(Debug)]
pub enum Records {
    /// Those of a devlaunch cache.
    Devlaunch(DevlaunchRecords),
    /// Nothing is recorded that we could drop; the workspaces lie directly below the root.
    Nobody,
}

impl From<DevlaunchRecords> for Records {
    fn from(records: DevlaunchRecords) -> Self {
        Self::Devlaunch(records)
    }
}

impl Records {
    /// Drops what is recorded of a directory that is entirely gone.
    pub(crate) fn drop_records_of(&self, below_root: &Path) -> Release {
        match self {
            Self::Devlaunch(records) => records.drop_records_of(below_root),
            Self::Nobody => Release::NothingRecorded,
        }
    }

    /// How many levels below the root the workspaces lie.
    pub(crate) fn levels(&self) -> usize {
        match self {
            Self::Devlaunch(_) => CLONE_LEVELS,
            Self::Nobody => 1,
        }
    }
}
