//! `derelict restore`: puts back what was set aside, under its name, replacing nothing. What was rescued is given back
//! by [`crate::rescued`].

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use derelict_core::evidence::Candidate;
use derelict_core::ids::IntentId;
use derelict_core::ports::{Lock, LockBusy};
use derelict_core::record::SetAside;
use derelict_reclaim::beneath::Root;
use derelict_reclaim::journal::{Journal, JournalError};
use derelict_reclaim::lock::{DevlaunchLocks, REPOSITORIES};
use derelict_reclaim::quarantine::{self, NotRestored};
use derelict_reclaim::reclaimer::Reclaimer;

use crate::console::Console;
use crate::exit::{Exit, Failure};
use crate::host::Host;
use crate::{cli, rescued, text};

/// How many levels below their root the clones of a devlaunch cache lie.
const CLONE_LEVELS: usize = 3;

/// Runs the command.
///
/// # Errors
/// A [`Failure`] when nothing like that was set aside, or when it stays where it is; it is whole then.
pub(crate) fn run(flags: &cli::Restore, host: &Host, console: &mut Console) -> Result<Exit, Failure> {
    let state = flags.state.state(host)?;
    let place = rescued::Place::of(flags.from.clone()).below(&state);
    match rescued::meant(&flags.what, &place) {
        Some(entry) => return rescued::restore(&entry, flags.to.as_deref(), console),
        None if flags.to.is_some() || flags.from.is_some() => return Err(rescued::no_entry(&flags.what, &place)),
        None => {}
    }
    let all = quarantine::list(&state).map_err(Failure::stopped)?;
    let wanted = chosen(&all, &flags.what)?;
    let mut journal = Journal::open(&state).map_err(not_opened)?;
    let place = Place::of(&wanted.candidate)?;
    let root = Root::open(&place.root).map_err(Failure::incomplete)?;
    let reclaimer = Reclaimer::without_records(root, place.levels, journal.id().clone());
    let mut locks = place.locks;
    let restored = quarantine::restore(&mut journal, &reclaimer, &mut locks, wanted.intent).map_err(not_restored)?;
    console.out.line(format_args!("{}: put back", text::path(&restored.candidate.path)));
    console.out.line("Note: the next run judges it anew; a file `.derelict-keep` in it keeps it, whoever owns it.");
    Ok(Exit::Done)
}

/// The one that is meant by a number, or by the path it had.
fn chosen<'a>(all: &'a [SetAside], what: &Path) -> Result<&'a SetAside, Failure> {
    let shown = text::path(what);
    if let Some(number) = what.to_str().and_then(|number| number.parse().ok()) {
        let numbered = all.iter().find(|one| one.intent == IntentId(number));
        return numbered.ok_or_else(|| Failure::usage(anyhow!("nothing was set aside under the number {number}")));
    }
    let absolute = std::path::absolute(what).map_err(Failure::usage)?;
    let resolved = resolved(&absolute);
    let meant = |one: &&SetAside| one.candidate.path == absolute || resolved.as_ref() == Some(&one.candidate.path);
    let mut matching = all.iter().filter(meant);
    match (matching.next(), matching.next()) {
        (Some(one), None) => Ok(one),
        (None, _) => Err(Failure::usage(anyhow!("{shown} was not set aside; `derelict quarantine` lists what was"))),
        (Some(_), Some(_)) => {
            Err(Failure::usage(anyhow!("{shown} was set aside more than once; name it by its number")))
        }
    }
}

/// A path whose directory is reached through symlinks, as the journal has it. Its own name leads nowhere now.
fn resolved(path: &Path) -> Option<PathBuf> {
    Some(std::fs::canonicalize(path.parent()?).ok()?.join(path.file_name()?))
}

/// Where one directory belongs, and whose locks guard its name.
struct Place {
    root: PathBuf,
    levels: std::num::NonZeroUsize,
    locks: Locks,
}

/// The locks of creators: a launch must not begin to fill a name that is just being given back.
enum Locks {
    Devlaunch(DevlaunchLocks),
    /// The creators of this root have none; the name is given back only while it is free.
    Nobodys,
}

/// What is held meanwhile; never looked at.
enum Held {
    Devlaunch { _locks: <DevlaunchLocks as Lock>::Guard },
    Nothing,
}

impl Place {
    fn of(candidate: &Candidate) -> Result<Self, Failure> {
        let odd = || Failure::stopped(anyhow!("the journal does not tell where {} was", text::path(&candidate.path)));
        let levels = std::num::NonZeroUsize::new(candidate.below_root.iter().count()).ok_or_else(odd)?;
        let root = candidate.path.ancestors().nth(levels.get()).ok_or_else(odd)?.to_path_buf();
        let is_devlaunch = levels.get() == CLONE_LEVELS && root.file_name().is_some_and(|name| name == REPOSITORIES);
        let locks = match root.parent().filter(|_| is_devlaunch) {
            Some(cache) => Locks::Devlaunch(DevlaunchLocks::new(cache)),
            None => Locks::Nobodys,
        };
        Ok(Self { root, levels, locks })
    }
}

impl Lock for Locks {
    type Guard = Held;

    fn acquire(&mut self, candidate: &Candidate) -> Result<Held, LockBusy> {
        match self {
            Self::Devlaunch(locks) => Ok(Held::Devlaunch { _locks: locks.acquire(candidate)? }),
            Self::Nobodys => Ok(Held::Nothing),
        }
    }
}

fn not_opened(error: JournalError) -> Failure {
    match &error {
        JournalError::Busy { .. } => Failure::incomplete(error),
        JournalError::Io { .. } | JournalError::Corrupt { .. } | JournalError::Newer { .. } => Failure::stopped(error),
    }
}

fn not_restored(error: NotRestored) -> Failure {
    match &error {
        NotRestored::Unknown(_) => Failure::usage(error),
        NotRestored::Busy { .. } | NotRestored::Occupied { .. } | NotRestored::Odd { .. } => Failure::incomplete(error),
        NotRestored::Lost(_) => Failure::stopped(error),
    }
}
