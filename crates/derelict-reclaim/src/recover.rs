//! What a crash left, settled at the next start: every intent that is not finished is looked up by
//! its trash name and the identity of its directory. What is whole is put back, what was being
//! discarded is finished, what was never touched is written off. Nothing is guessed: where the
//! identity does not match, everything stays and is told.
//!
//! Trash that the journal does not know is told and never removed.

use std::ffi::{CStr, CString, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use derelict_core::evidence::Candidate;
use derelict_core::ids::escaped;
use derelict_core::outcome::{Discarded, Refusal, Release};
use derelict_core::ports::{Journal as _, JournalLost, Lock};
use rustix::fs::{Mode, OFlags, RawDir};
use rustix::io::Errno;

use crate::beneath::{Place, enter, find};
use crate::descend::{is_dot, read_buffer};
use crate::fence::{NotMoved, Stage, TrashName, is_trash_name, make_durable, rename_exactly};
use crate::journal::{Journal, OpenIntent};
use crate::lock::CLONE_LEVELS;
use crate::reclaimer::{
    Discarding, OpenWorkspace, Reclaimer, discard_marked, hold, is_same_tree, not_put_back, prove_unmounted,
};
use crate::remove::open_up_entry;
use crate::stat::{Seen, seen_at, words};

/// What recovery found and did.
#[derive(Debug)]
pub struct Recovery {
    /// One entry for each unfinished intent of this root, then one for each unknown trash.
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

/// Settles what earlier runs left below the reclaimer's root. To be called before the first
/// removal, with the journal whose name the reclaimer has.
pub fn recover(journal: &mut Journal, reclaimer: &mut Reclaimer, locks: &mut impl Lock) -> Recovery {
    let mut recovery = Recovery { recovered: Vec::new(), lost: None };
    let mut known = Vec::new();
    let unfinished: Vec<OpenIntent> = journal.unfinished().filter(|open| is_below(reclaimer, open)).cloned().collect();
    for open in unfinished {
        known.extend([Stage::Fenced, Stage::Discarding].map(|stage| reclaimer.trash(open.intent, stage)));
        let recovered = match locks.acquire(&open.candidate) {
            Ok(_held) => settle(reclaimer, &open),
            Err(busy) => Recovered::Busy { path: open.candidate.path.clone(), lock: busy.lock },
        };
        let written = write_down(journal, &open, &recovered);
        recovery.recovered.push(recovered);
        if let Err(lost) = written {
            recovery.lost = Some(lost);
            return recovery;
        }
    }
    let unknown =
        all_trash(reclaimer).into_iter().filter(|(name, _)| !name.as_ref().is_some_and(|name| known.contains(name)));
    recovery.recovered.extend(unknown.map(|(_, path)| Recovered::UnknownTrash { path }));
    recovery
}

/// An intent belongs to the root it was recorded below, however that root's path was spelled.
fn is_below(reclaimer: &Reclaimer, open: &OpenIntent) -> bool {
    let Candidate { path, below_root, .. } = &open.candidate;
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

fn settle(reclaimer: &mut Reclaimer, open: &OpenIntent) -> Recovered {
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
            Found::Same if *name == begun => return finish(reclaimer, place, &begun, open),
            Found::Same => return put_back(&place, &whole, open),
            Found::Another => {
                return undecided(&place.path_of(name), "it is not the directory the journal names".to_owned());
            }
            Found::Unseen(errno) => return undecided(&place.path_of(name), words(errno)),
        }
    }
    match look(&place.name) {
        Found::Same => Recovered::Untouched { path: path.clone() },
        Found::Nothing => {
            Recovered::Gone { path: path.clone(), release: reclaimer.records.drop_records_of(below_root) }
        }
        Found::Another => Recovered::Gone { path: path.clone(), release: Release::NothingRecorded },
        Found::Unseen(errno) => undecided(path, words(errno)),
    }
}

fn put_back(place: &Place, whole: &CStr, open: &OpenIntent) -> Recovered {
    let path = open.candidate.path.clone();
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

fn finish(reclaimer: &mut Reclaimer, place: Place, begun: &CStr, open: &OpenIntent) -> Recovered {
    let path = open.candidate.path.clone();
    let trash = place.path_of(begun);
    let nothing = Discarded { entries: 0, bytes: 0 };
    let unfinished =
        |refusal| Recovered::Unfinished { path: path.clone(), discarded: nothing, refusals: vec![refusal] };
    let refusal = |why: String| Refusal { path: trash.clone(), why };
    let (dir, found) = match enter_trash(&place, reclaimer.root.seen(), begun) {
        Ok(entered) => entered,
        Err(why) => return unfinished(refusal(why)),
    };
    if !is_same_tree(&open.candidate.identity, &found) {
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
    let Discarding { discarded, refusals } = discard_marked(workspace, begun);
    if refusals.is_empty() {
        let release = reclaimer.records.drop_records_of(&open.candidate.below_root);
        Recovered::Finished { path, discarded, release }
    } else {
        Recovered::Unfinished { path, discarded, refusals }
    }
}

/// Opens a tree whose discarding has begun; one of our own that keeps us out is opened up first.
fn enter_trash(place: &Place, top: &Seen, name: &CStr) -> Result<(OwnedFd, Seen), String> {
    let parent = place.parent.as_fd();
    let entered = enter(parent, top, name)
        .or_else(|why| if open_up_entry(parent, top, name) { enter(parent, top, name) } else { Err(why) });
    entered.map_err(|why| why.to_string())
}

/// Everything that is named like trash where clones lie, with what its name says.
fn all_trash(reclaimer: &Reclaimer) -> Vec<(Option<TrashName>, PathBuf)> {
    let mut trash = Vec::new();
    collect_trash(reclaimer.root.dir(), reclaimer.root.path(), reclaimer.root.seen(), CLONE_LEVELS, &mut trash);
    trash
}

/// `levels` is how far down clones lie, so this calls itself no deeper than that. What cannot be
/// listed is told by the scan, which lists the same directories.
fn collect_trash(
    dir: BorrowedFd<'_>,
    path: &Path,
    top: &Seen,
    levels: usize,
    trash: &mut Vec<(Option<TrashName>, PathBuf)>,
) {
    let below = |name: &CStr| path.join(OsStr::from_bytes(name.to_bytes()));
    if levels == 1 {
        let names = names_in(dir, |name| is_trash_name(name.to_bytes()));
        trash.extend(names.iter().map(|name| (TrashName::parse(name.to_bytes()), below(name))));
        return;
    }
    for name in names_in(dir, |name| !is_dot(name)) {
        if let Ok((inner, _)) = enter(dir, top, &name) {
            collect_trash(inner.as_fd(), &below(&name), top, levels - 1, trash);
        }
    }
}

fn names_in(dir: BorrowedFd<'_>, wanted: impl Fn(&CStr) -> bool) -> Vec<CString> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(listed) = rustix::fs::openat(dir, c".", flags, Mode::empty()) else { return Vec::new() };
    let mut buffer = read_buffer();
    let mut entries = RawDir::new(listed, &mut buffer);
    let mut names = Vec::new();
    while let Some(Ok(entry)) = entries.next() {
        if wanted(entry.file_name()) {
            names.push(entry.file_name().to_owned());
        }
    }
    names
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
