//! One sweeper of a root at a time: on this machine by a lock on the root directory, across machines by a lock that
//! the owner source keeps for as long as our session with it lasts.

use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::PoisonError;

use derelict_core::ids::SourceId;
use derelict_core::outcome::StopReason;
use derelict_observe::roots::Owners;
use derelict_observe::table::Leadership;

use crate::reaper::sweeping::Assignment;
use crate::text;

/// The right to sweep a root, until it is dropped or the session with the owner source is lost.
#[derive(Debug)]
pub(crate) struct Lead {
    /// `None` where the file system has no such locks and the owner source's is enough.
    root: Option<File>,
}

impl Lead {
    /// Whether it is a lock on the directory that the path leads to now: a root may have been mounted anew.
    fn is_of(&self, path: &Path) -> bool {
        let identity = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
        let locked = self.root.as_ref().and_then(|root| root.metadata().ok()).map(identity);
        locked.is_some() && locked == std::fs::metadata(path).ok().map(identity)
    }
}

/// What asking for it came to.
#[derive(Debug)]
pub(crate) enum Led {
    /// We lead.
    Ours(Lead),
    /// Somebody else does; who, as far as it is known.
    Theirs(String),
    /// It cannot be found out.
    Stopped(StopReason),
}

/// Becomes or stays the only sweeper of a root, without waiting. Connects to the owner source first: a session that was
/// lost since the last sweep took the lead across machines with it. `held` is the lead of the last sweep.
pub(crate) fn lead(assignment: &Assignment, owners: &Owners, held: Option<Lead>) -> Led {
    let elsewhere = match of_the_source(assignment, owners) {
        Ok(Leadership::Theirs) => return Led::Theirs("another sweeper, which the owner source knows".to_owned()),
        Ok(elsewhere @ (Leadership::Ours | Leadership::NoneOfItsBusiness)) => elsewhere,
        Err(stop) => return Led::Stopped(stop),
    };
    if let Some(lead) = held.filter(|lead| lead.is_of(&assignment.path)) {
        return Led::Ours(lead);
    }
    let root = match File::open(&assignment.path) {
        Ok(root) => root,
        Err(_) => return Led::Stopped(StopReason::RootAbsent(assignment.path.clone())),
    };
    match root.try_lock() {
        Ok(()) => Led::Ours(Lead { root: Some(root) }),
        Err(TryLockError::WouldBlock) => {
            Led::Theirs(format!("another process, which holds the lock on {}", text::path(&assignment.path)))
        }
        Err(TryLockError::Error(error)) => match elsewhere {
            Leadership::Ours => Led::Ours(Lead { root: None }),
            Leadership::Theirs | Leadership::NoneOfItsBusiness => {
                let why = format!("{} cannot be locked: {error}", text::path(&assignment.path));
                Led::Stopped(StopReason::JournalLost(why))
            }
        },
    }
}

fn of_the_source(assignment: &Assignment, owners: &Owners) -> Result<Leadership, StopReason> {
    let Owners::Table(table) = owners else { return Ok(Leadership::NoneOfItsBusiness) };
    // A panic while it was asked leaves a session that fails by itself.
    let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
    let asked = table.connect().and_then(|()| table.lead(&assignment.lock_key));
    asked.map_err(|lost| StopReason::SourceLost { source: SourceId(lost.source_id.0), why: lost.why })
}
