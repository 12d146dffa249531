//! What a crash left, settled at the next start: every intent that is not finished is looked up by
//! its trash name and the identity of its directory. What is whole is put back, what was being
//! discarded is finished, what was never touched is written off. Nothing is guessed: where the
//! identity does not match, everything stays and is told.
//!
//! What was set aside on purpose is whole, too, and stays: it is `quarantine`'s. A trash name that
//! carries its own intent is settled like one of the journal's. Any other trash that the journal does
//! not know is told and never removed.

use std::ffi::{CStr, CString, OsStr};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use derelict_core::evidence::Candidate;
use derelict_core::ids::{IntentId, WorkspaceName};
use derelict_core::outcome::{Discarded, Refusal, Release};
use derelict_core::ports::{Journal as _, JournalLost, Lock};
use rustix::io::Errno;

use crate::beneath::{Place, Root, enter, find};
use crate::fence::{NotMoved, Stage, make_durable, rename_exactly};
use crate::journal::{Journal, OpenIntent};
use crate::reclaimer::{
    Discarding, OpenWorkspace, Reclaimer, discard_marked, hold, is_same_tree, not_put_back, prove_unmounted,
};
pub use crate::recovered::{Recovered, Recovery};
use crate::remove::open_up_entry;
use crate::stat::{Seen, seen_at, words};
use crate::told::ToldName;
use crate::trash::{self, Trash};

/// Settles what earlier runs left below the reclaimer's root. To be called before the first
/// removal, with the journal whose name the reclaimer has.
pub fn recover(journal: &mut Journal, reclaimer: &Reclaimer, locks: &mut impl Lock) -> Recovery {
    let mut recovery = Recovery { recovered: Vec::new(), lost: None };
    let ours: Vec<OpenIntent> =
        journal.unfinished().filter(|open| is_below(reclaimer, &open.candidate)).cloned().collect();
    let known: Vec<CString> = ours.iter().flat_map(|open| names_of(reclaimer, open.intent)).collect();
    for open in ours.iter().filter(|open| !is_set_aside_as_it_should(reclaimer, open)) {
        let recovered = match locks.acquire(&open.candidate) {
            Ok(_held) => settle(reclaimer, open),
            Err(busy) => Recovered::Busy { path: open.candidate.path.clone(), lock: busy.lock },
        };
        let written = write_down(journal, open, &recovered);
        recovery.recovered.push(recovered);
        if let Err(lost) = written {
            recovery.lost = Some(lost);
            return recovery;
        }
    }
    for trash in trash::all(&reclaimer.root, reclaimer.levels) {
        if known.contains(&trash.name) {
            continue;
        }
        let (recovered, written) = match ToldName::parse(trash.name.to_bytes()) {
            Some(told) => settle_told(journal, reclaimer, locks, &trash, &told),
            None => (Recovered::UnknownTrash { path: trash.path(&reclaimer.root) }, Ok(())),
        };
        recovery.recovered.push(recovered);
        if let Err(lost) = written {
            recovery.lost = Some(lost);
            return recovery;
        }
    }
    recovery
}

/// The directories whose removal was interrupted while their intent stood in their trash name only, so
/// that no journal tells of them. Reads only. `levels` is how far below the root workspaces lie.
#[must_use]
pub fn carried_by_names(root: &Root, levels: NonZeroUsize) -> Vec<Candidate> {
    let all = trash::all(root, levels.get());
    all.iter().filter_map(|trash| told_candidate(root, trash, &ToldName::parse(trash.name.to_bytes())?)).collect()
}

fn names_of(reclaimer: &Reclaimer, intent: IntentId) -> [CString; 2] {
    [Stage::Fenced, Stage::Discarding].map(|stage| reclaimer.trash(intent, stage).to_c())
}

/// Whether a directory that was set aside lies whole where it should. Anything else is looked up.
fn is_set_aside_as_it_should(reclaimer: &Reclaimer, open: &OpenIntent) -> bool {
    let Candidate { below_root, identity, .. } = &open.candidate;
    let [whole, _] = names_of(reclaimer, open.intent);
    open.set_aside().is_some()
        && find(&reclaimer.root, below_root)
            .is_ok_and(|place| seen_at(&place.parent, &whole).is_ok_and(|found| is_same_tree(identity, &found)))
}

/// An intent belongs to the root it was recorded below, however that root's path was spelled.
pub(crate) fn is_below(reclaimer: &Reclaimer, candidate: &Candidate) -> bool {
    let Candidate { path, below_root, .. } = candidate;
    if !path.ends_with(below_root) {
        return false;
    }
    let Some(recorded) = path.ancestors().nth(below_root.iter().count()) else { return false };
    let root = reclaimer.root.identity();
    recorded == reclaimer.root.path()
        || std::fs::metadata(recorded).is_ok_and(|found| (found.dev(), found.ino()) == (root.dev, root.ino))
}

fn write_down(journal: &mut Journal, open: &OpenIntent, recovered: &Recovered) -> Result<(), JournalLost> {
    match recovered {
        Recovered::Untouched { .. } => journal.close(open.intent, "untouched", None, None),
        Recovered::PutBack { .. } => journal.close(open.intent, "put back", None, None),
        Recovered::Finished { discarded, release, .. } => {
            journal.close(open.intent, "finished", Some(*discarded), Some(release))
        }
        Recovered::Gone { release, .. } => journal.close(open.intent, "gone", None, Some(release)),
        Recovered::Unfinished { discarded, refusals, .. } => {
            match derelict_core::ids::NonEmpty::from_vec(refusals.clone()) {
                Some(refusals) => {
                    let refused = derelict_core::outcome::Outcome::Refused { refusals, discarded: *discarded };
                    journal.settle(open.intent, &refused)
                }
                None => Ok(()),
            }
        }
        Recovered::Occupied { .. }
        | Recovered::Busy { .. }
        | Recovered::Undecided { .. }
        | Recovered::UnknownTrash { .. } => Ok(()),
    }
}

/// What lies under a name, measured against an intent.
enum Found {
    Nothing,
    Same,
    Another,
    Unseen(Errno),
}

fn settle(reclaimer: &Reclaimer, open: &OpenIntent) -> Recovered {
    let Candidate { path, below_root, identity, .. } = &open.candidate;
    let undecided = |path: &Path, why: String| Recovered::Undecided { path: path.to_owned(), why };
    let place = match find(&reclaimer.root, below_root) {
        Ok(place) => place,
        Err(obstacle) => return undecided(&obstacle.path, obstacle.why.to_string()),
    };
    let look = |name: &CStr| match seen_at(&place.parent, name) {
        Err(Errno::NOENT) => Found::Nothing,
        Err(errno) => Found::Unseen(errno),
        Ok(found) if is_same_tree(identity, &found) => Found::Same,
        Ok(_) => Found::Another,
    };
    let whole = reclaimer.trash(open.intent, Stage::Fenced).to_c();
    let begun = reclaimer.trash(open.intent, Stage::Discarding).to_c();
    for (name, found) in [(&begun, look(&begun)), (&whole, look(&whole))] {
        match found {
            Found::Nothing => {}
            Found::Same if *name == begun => return finish(reclaimer, place, &begun, &open.candidate),
            Found::Same => return put_back(&place, &whole, &open.candidate),
            Found::Another => {
                return undecided(&place.path_of(name), "it is not the directory the journal names".to_owned());
            }
            Found::Unseen(errno) => return undecided(&place.path_of(name), words(errno)),
        }
    }
    // What is seen here has to be what a loss of power would leave before the intent is closed.
    if let Err(errno) = make_durable(&place.parent) {
        return undecided(path, words(errno));
    }
    match look(&place.name) {
        Found::Same => came_back(open),
        Found::Nothing => match trash::holding(&place.parent, identity) {
            Some(name) => undecided(&place.path_of(&name), "another derelict has it in its trash".to_owned()),
            None => Recovered::Gone { path: path.clone(), release: reclaimer.release_record(below_root) },
        },
        Found::Another => Recovered::Gone { path: path.clone(), release: Release::NothingRecorded },
        Found::Unseen(errno) => undecided(path, words(errno)),
    }
}

/// It lies under its name: one that was set aside was put back, and that was not written down.
fn came_back(open: &OpenIntent) -> Recovered {
    let path = open.candidate.path.clone();
    match open.set_aside() {
        Some(_) => Recovered::PutBack { path },
        None => Recovered::Untouched { path },
    }
}

/// Settles an intent that stands in its trash name. Without a journal nothing tells whether another
/// derelict has the tree in hand, but the lock on the tree itself.
fn settle_told(
    journal: &mut Journal,
    reclaimer: &Reclaimer,
    locks: &mut impl Lock,
    trash: &Trash,
    told: &ToldName,
) -> (Recovered, Result<(), JournalLost>) {
    let path = trash.path(&reclaimer.root);
    let undecided = |why: String| (Recovered::Undecided { path: path.clone(), why }, Ok(()));
    let Some(candidate) = told_candidate(&reclaimer.root, trash, told) else {
        return undecided("it is not the directory its name tells of".to_owned());
    };
    let _held = match locks.acquire(&candidate) {
        Ok(held) => held,
        Err(busy) => return (Recovered::Busy { path: candidate.path, lock: busy.lock }, Ok(())),
    };
    let place = match find(&reclaimer.root, &candidate.below_root) {
        Ok(place) => place,
        Err(obstacle) => return undecided(obstacle.why.to_string()),
    };
    let recovered = match told.stage {
        Stage::Discarding => finish(reclaimer, place, &trash.name, &candidate),
        Stage::Fenced => match enter_trash(&place, reclaimer.root.seen(), &trash.name)
            .and_then(|(dir, _)| hold(dir.as_fd()).map(|()| dir))
        {
            Ok(_dir) => put_back(&place, &trash.name, &candidate),
            Err(why) => return undecided(why),
        },
    };
    let written = match &recovered {
        Recovered::PutBack { .. } => journal.note_late(&candidate, "put back", None),
        Recovered::Finished { discarded, .. } => journal.note_late(&candidate, "finished", Some(*discarded)),
        Recovered::Untouched { .. }
        | Recovered::Occupied { .. }
        | Recovered::Unfinished { .. }
        | Recovered::Gone { .. }
        | Recovered::Busy { .. }
        | Recovered::Undecided { .. }
        | Recovered::UnknownTrash { .. } => Ok(()),
    };
    (recovered, written)
}

/// The directory a trash name tells of, if it is the one that lies under it.
fn told_candidate(root: &Root, trash: &Trash, told: &ToldName) -> Option<Candidate> {
    let name = OsStr::from_bytes(told.name.to_bytes());
    let below_root = trash.parent.join(name);
    let place = find(root, &below_root).ok()?;
    let found = seen_at(&place.parent, &trash.name).ok()?;
    let name = WorkspaceName::new(name.as_bytes()).ok()?;
    let path = root.path().join(&below_root);
    told.is_of(&found.identity).then_some(Candidate { name, path, below_root, identity: found.identity })
}

fn put_back(place: &Place, whole: &CStr, candidate: &Candidate) -> Recovered {
    let path = candidate.path.clone();
    let undecided = |why: String| Recovered::Undecided { path: place.path_of(whole), why };
    let identity = match seen_at(&place.parent, whole) {
        Ok(found) => found.identity,
        Err(errno) => return undecided(words(errno)),
    };
    match rename_exactly(place.parent.as_fd(), whole, &place.name, &identity) {
        Ok(()) => match make_durable(&place.parent) {
            Ok(()) => Recovered::PutBack { path },
            // It is back; that this is not durable yet only means that it is looked up once more.
            Err(errno) => Recovered::Undecided { path, why: format!("put back, and not durably: {}", words(errno)) },
        },
        Err(NotMoved::Taken) => Recovered::Occupied { trash: place.path_of(whole), path },
        Err(why) => undecided(format!("it cannot be put back: {}", not_put_back(&why))),
    }
}

fn finish(reclaimer: &Reclaimer, place: Place, begun: &CStr, candidate: &Candidate) -> Recovered {
    let path = candidate.path.clone();
    let trash = place.path_of(begun);
    let nothing = Discarded { entries: 0, bytes: 0 };
    let unfinished =
        |refusal| Recovered::Unfinished { path: path.clone(), discarded: nothing, refusals: vec![refusal] };
    let refusal = |why: String| Refusal { path: trash.clone(), why };
    let (dir, found) = match enter_trash(&place, reclaimer.root.seen(), begun) {
        Ok(entered) => entered,
        Err(why) => return unfinished(refusal(why)),
    };
    if !is_same_tree(&candidate.identity, &found) {
        let why = "it was replaced while it was being opened".to_owned();
        return Recovered::Undecided { path: trash, why };
    }
    if let Err(why) = hold(dir.as_fd()) {
        return unfinished(refusal(why));
    }
    if let Err(mounted) = prove_unmounted(dir.as_fd(), &trash, &reclaimer.pacer) {
        return unfinished(mounted);
    }
    let pacer = std::sync::Arc::clone(&reclaimer.pacer);
    let workspace = OpenWorkspace { place, dir, identity: found.identity, pacer };
    let Discarding { discarded, refusals } = discard_marked(workspace, begun, None);
    if refusals.is_empty() {
        let release = reclaimer.release_record(&candidate.below_root);
        Recovered::Finished { path, discarded, release }
    } else {
        Recovered::Unfinished { path, discarded, refusals }
    }
}

/// Opens a tree whose discarding has begun; one of our own that keeps us out is opened up first.
pub(crate) fn enter_trash(place: &Place, top: &Seen, name: &CStr) -> Result<(OwnedFd, Seen), String> {
    let parent = place.parent.as_fd();
    let entered = enter(parent, top, name)
        .or_else(|why| if open_up_entry(parent, top, name) { enter(parent, top, name) } else { Err(why) });
    entered.map_err(|why| why.to_string())
}
