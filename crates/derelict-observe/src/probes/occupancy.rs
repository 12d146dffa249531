//! Who uses a directory now, from every signal there is: processes and mounts that the walk met,
//! locks on the directory, git's lock files, a marker. What could not be seen keeps.

use std::os::fd::BorrowedFd;
use std::path::Path;

use derelict_core::evidence::{Blind, Holder, Observed, Signal};
use derelict_core::ids::Timestamp;
use derelict_core::size::Completeness;

use crate::probes::gauge::Trace;
use crate::probes::holders::Holders;
use crate::probes::locks::Locks;
use crate::probes::marker;
use crate::seen::Seen;
use crate::survey::ProcessView;

/// The processes and the locks of one instant.
#[derive(Debug)]
pub(crate) struct Occupancy {
    holders: Result<Holders, Blind>,
    locks: Result<Locks, Blind>,
    now: Timestamp,
}

/// The users of a directory that was set aside at `since`. Nothing leads to it any more, so whoever wrote in
/// it since has had it open, or mounted, and is not done with it.
pub(crate) fn while_set_aside(uses: Observed<Vec<Holder>>, trace: &Trace, since: Timestamp) -> Observed<Vec<Holder>> {
    match uses {
        Observed::Known(mut uses) if trace.was_written_after(since) => {
            uses.push(Holder::System("something in it was written after it was set aside".into()));
            Observed::Known(uses)
        }
        Observed::Known(_) | Observed::Unknown(_) => uses,
    }
}

/// What was met inside one directory.
#[derive(Debug)]
pub(crate) struct Met<'m> {
    /// Processes and mounts.
    pub(crate) inside: Vec<Holder>,
    /// Git's lock files, and dependents.
    pub(crate) by_git: Vec<Holder>,
    /// Whether a marker may be among it.
    pub(crate) is_marked: bool,
    /// Whether all of it was read.
    pub(crate) completeness: &'m Completeness,
}

impl Occupancy {
    /// Looks at every process and every lock that can be seen. `now` is the instant of the run.
    pub(crate) fn snapshot(now: Timestamp) -> Self {
        Self { holders: Holders::snapshot(Vec::new()), locks: Locks::snapshot(), now }
    }

    /// Looks anew. Of processes that have slept since the last time it is known already what they use.
    pub(crate) fn look_anew(&mut self) {
        let before = self.holders.as_mut().map_or_else(|_| Vec::new(), Holders::take_processes);
        self.holders = Holders::snapshot(before);
        self.locks = Locks::snapshot();
    }

    /// The processes, for the walk to compare with; `None` when they cannot be seen.
    pub(crate) fn holders(&self) -> Option<&Holders> {
        self.holders.as_ref().ok()
    }

    /// How much of the processes was seen.
    pub(crate) fn view(&self) -> Option<ProcessView> {
        self.holders().map(|holders| holders.view)
    }

    /// Puts the signals of one open directory together.
    pub(crate) fn uses(&self, seen: &Seen, shown: &Path, dir: BorrowedFd<'_>, met: Met<'_>) -> Observed<Vec<Holder>> {
        let Met { inside: mut uses, by_git, is_marked, completeness } = met;
        if seen.is_mount_root() {
            uses.push(Holder::Mount(shown.to_path_buf()));
        }
        let locks = match (&self.holders, &self.locks) {
            (Ok(_), Ok(locks)) => locks,
            (Err(blind), _) | (_, Err(blind)) => return Observed::Unknown(blind.clone()),
        };
        if locks.is_locked(seen.inode(), std::process::id()) {
            uses.push(Holder::DirectoryLock);
        }
        uses.extend(by_git);
        if is_marked {
            uses.extend(marker::hold(dir, self.now));
        }
        match completeness {
            Completeness::AtLeast { why } if uses.is_empty() => {
                Observed::Unknown(Blind { signal: Signal::Use, why: why.clone() })
            }
            Completeness::AtLeast { .. } | Completeness::Exact => Observed::Known(uses),
        }
    }
}
