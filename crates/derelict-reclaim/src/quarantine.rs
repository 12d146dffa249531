//! What was set aside: told, put back at somebody's wish, and discarded when its grace is over and
//! nobody asked for it. Whether it may be discarded is core's `expire`, by evidence that is read anew
//! through the open directory; how it is fenced and unlinked is the reclaimer's.

use std::ffi::CString;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use derelict_core::evidence::Evidence;
use derelict_core::ids::{IntentId, NonEmpty, Timestamp, escaped};
use derelict_core::outcome::{Discarded, Outcome, Refusal, Release, StopReason};
use derelict_core::policy::Policy;
use derelict_core::ports::{Journal as _, JournalLost, Lock, SourceLost};
use derelict_core::recheck::{self, Cleared};
use derelict_core::record::SetAside;
use derelict_core::verdict::{Verdict, judge};

use crate::beneath::{Place, find};
use crate::fence::{NotMoved, Stage, make_durable, rename_exactly};
use crate::journal::{self, Journal, JournalError, OpenIntent};
use crate::reclaimer::{Discarding, OpenWorkspace, Reclaimer, discard_marked, hold, is_same_tree, mark, not_put_back};
use crate::recover::{enter_trash, is_below};

/// What the pass over the directories whose grace is over came to.
#[derive(Debug)]
pub struct Expiries {
    /// Each of them that was reached, oldest first.
    pub expired: Vec<Expired>,
    /// Why the pass ended before its end; nothing more may be removed then.
    pub stop: Option<StopReason>,
}

/// One directory whose grace is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expired {
    /// Which.
    pub set_aside: SetAside,
    /// Where it lay meanwhile.
    pub trash: PathBuf,
    /// How it ended.
    pub end: End,
}

/// How a directory ended whose grace is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It is entirely gone.
    Removed {
        /// What was unlinked.
        discarded: Discarded,
        /// What became of the owner's record of it.
        release: Release,
    },
    /// Something would not go. What would is gone; the next start finishes the rest.
    Refused {
        /// What was unlinked.
        discarded: Discarded,
        /// What would not go.
        refusals: NonEmpty<Refusal>,
    },
    /// It is wanted again, or was written in: it is back under its name.
    PutBack(Verdict),
    /// It is wanted again, or was written in, and its name is taken: it stays in the trash, whole.
    Occupied(Verdict),
    /// Something could not be seen: it stays in the trash, whole.
    Unseen(Verdict),
    /// It stays in the trash, whole, for another reason.
    Left(String),
}

/// Why a directory was not put back. It is where it was, whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotRestored {
    /// The journal knows of no such directory below this root.
    #[error("nothing was set aside under the number {0}")]
    Unknown(IntentId),
    /// Its creators hold its lock.
    #[error("{lock} is held by somebody else")]
    Busy {
        /// Which lock.
        lock: String,
    },
    /// Something lies under its name.
    #[error("its name is taken: something lies at {}; what was set aside stays at {}", escaped(.path), escaped(.trash))]
    Occupied {
        /// Where it belongs.
        path: PathBuf,
        /// Where it lies.
        trash: PathBuf,
    },
    /// What lies in the trash is not what the journal says, or cannot be moved.
    #[error("{}: {why}", escaped(.trash))]
    Odd {
        /// Where it should lie.
        trash: PathBuf,
        /// What is odd.
        why: String,
    },
    /// It is back, and the journal could not be told.
    #[error("it was put back, and that could not be written down: {0}")]
    Lost(#[from] JournalLost),
}

/// Everything that waits out its grace, by the journal of a state directory. Nothing is locked,
/// written or made.
///
/// # Errors
/// [`JournalError`] names the file, and the line where there is one.
pub fn list(state_dir: &Path) -> Result<Vec<SetAside>, JournalError> {
    Ok(journal::unfinished(state_dir)?.iter().filter_map(OpenIntent::set_aside).cloned().collect())
}

/// Discards what was set aside below the reclaimer's root and whose grace is over at `now`, if by what
/// is seen of it nobody wants it: `look` reads every signal of it through its open directory, and
/// `policy` judges. To be called after `recover`. `halt` is asked before each whether the pass has to end.
pub fn expire<L: Lock>(
    journal: &mut Journal,
    reclaimer: &Reclaimer,
    locks: &mut L,
    (policy, now): (&Policy, Timestamp),
    mut look: impl FnMut(&SetAside, &OpenWorkspace) -> Result<Evidence, SourceLost>,
    mut halt: impl FnMut() -> Option<StopReason>,
) -> Expiries {
    let mut expiries = Expiries { expired: Vec::new(), stop: None };
    let over = |set_aside: &&SetAside| set_aside.grace.until <= now && is_below(reclaimer, &set_aside.candidate);
    let due: Vec<SetAside> = journal.set_aside().filter(over).cloned().collect();
    for set_aside in due {
        expiries.stop = halt();
        if expiries.stop.is_some() {
            break;
        }
        let trash = trash_path(reclaimer, &set_aside);
        let mut step = Step { journal, reclaimer, set_aside: &set_aside };
        let ended = match locks.acquire(&set_aside.candidate) {
            Ok(held) => step.expire(&held, |open| look(&set_aside, open), |evidence| judge(evidence, policy, now), now),
            Err(busy) => Ended::of(End::Left(busy.to_string())),
        };
        expiries.expired.push(Expired { set_aside, trash, end: ended.end });
        expiries.stop = ended.stop;
        if expiries.stop.is_some() {
            break;
        }
    }
    expiries
}

/// Puts one directory back under its name, replacing nothing.
///
/// # Errors
/// [`NotRestored`] says why it stays where it is.
pub fn restore(
    journal: &mut Journal,
    reclaimer: &Reclaimer,
    locks: &mut impl Lock,
    intent: IntentId,
) -> Result<SetAside, NotRestored> {
    let here = |set_aside: &&SetAside| set_aside.intent == intent && is_below(reclaimer, &set_aside.candidate);
    let set_aside = journal.set_aside().find(here).cloned().ok_or(NotRestored::Unknown(intent))?;
    let _held = locks.acquire(&set_aside.candidate).map_err(|busy| NotRestored::Busy { lock: busy.lock })?;
    let trash = trash_path(reclaimer, &set_aside);
    let odd = |why: String| NotRestored::Odd { trash: trash.clone(), why };
    let step = Step { journal, reclaimer, set_aside: &set_aside };
    let open = step.open().map_err(odd)?;
    match step.put_back(&open) {
        Ok(()) => {}
        Err(NotMoved::Taken) => return Err(NotRestored::Occupied { path: set_aside.candidate.path.clone(), trash }),
        Err(why @ (NotMoved::Another | NotMoved::Failed(_) | NotMoved::Astray(_))) => {
            return Err(odd(not_put_back(&why)));
        }
    }
    step.journal.close(intent, "restored", None, None)?;
    Ok(set_aside)
}

fn trash_path(reclaimer: &Reclaimer, set_aside: &SetAside) -> PathBuf {
    set_aside.candidate.path.with_file_name(reclaimer.trash(set_aside.intent, Stage::Fenced).to_string())
}

/// One directory that was set aside, in hand.
struct Step<'s> {
    journal: &'s mut Journal,
    reclaimer: &'s Reclaimer,
    set_aside: &'s SetAside,
}

/// How one directory ended, and whether the pass can go on.
struct Ended {
    end: End,
    stop: Option<StopReason>,
}

impl Ended {
    fn of(end: End) -> Self {
        Self { end, stop: None }
    }

    fn written(end: End, written: Result<(), JournalLost>) -> Self {
        Self { end, stop: written.err().map(|lost| StopReason::JournalLost(lost.why)) }
    }
}

impl Step<'_> {
    fn expire<L>(
        &mut self,
        held: &L,
        look: impl FnOnce(&OpenWorkspace) -> Result<Evidence, SourceLost>,
        judge: impl FnOnce(&Evidence) -> Verdict,
        now: Timestamp,
    ) -> Ended {
        let SetAside { intent, candidate, grace, .. } = self.set_aside;
        let open = match self.open() {
            Ok(open) => open,
            Err(why) => return Ended::of(End::Left(why)),
        };
        let evidence = match look(&open) {
            Ok(evidence) => evidence,
            Err(lost) => {
                let end = End::Left(lost.to_string());
                return Ended { end, stop: Some(StopReason::SourceLost { source: lost.source_id, why: lost.why }) };
            }
        };
        let verdict = judge(&evidence);
        match recheck::expire(candidate, grace, &evidence, verdict, now, held) {
            recheck::Expiry::Cleared(cleared) => self.discard(cleared, open),
            recheck::Expiry::Unseen(verdict) => Ended::of(End::Unseen(verdict)),
            recheck::Expiry::NotYet => Ended::of(End::Left("its grace is not over".to_owned())),
            recheck::Expiry::Wanted(verdict) => match self.put_back(&open) {
                Ok(()) => {
                    let written = self.journal.close(*intent, "wanted again", None, None);
                    Ended::written(End::PutBack(verdict), written)
                }
                Err(NotMoved::Taken) => Ended::of(End::Occupied(verdict)),
                Err(why @ (NotMoved::Another | NotMoved::Failed(_) | NotMoved::Astray(_))) => {
                    let why = format!("it is wanted again and was not put back: {}", not_put_back(&why));
                    Ended::of(End::Left(why))
                }
            },
        }
    }

    /// Opens the tree in the trash and takes the lock on it, if it is the one that was set aside.
    fn open(&self) -> Result<OpenWorkspace, String> {
        let candidate = &self.set_aside.candidate;
        let [whole, _] = self.names();
        let place: Place = find(&self.reclaimer.root, &candidate.below_root)
            .map_err(|obstacle| format!("{}: {}", escaped(&obstacle.path), obstacle.why))?;
        let (dir, found) = enter_trash(&place, self.reclaimer.root.seen(), &whole)?;
        if !is_same_tree(&candidate.identity, &found) {
            return Err("it is not the directory the journal names".to_owned());
        }
        hold(dir.as_fd())?;
        Ok(OpenWorkspace { place, dir, identity: found.identity, pacer: self.reclaimer.pacer.clone() })
    }

    fn put_back(&self, open: &OpenWorkspace) -> Result<(), NotMoved> {
        let [whole, _] = self.names();
        let Place { parent, name, .. } = &open.place;
        rename_exactly(parent.as_fd(), &whole, name, &open.identity)?;
        // One that is back and not durably so is in the trash again after a crash, and set aside as before.
        make_durable(parent).map_err(NotMoved::Failed)
    }

    /// From the mark on, a crash is settled by `recover`, which finishes what is marked.
    fn discard(&mut self, cleared: Cleared<'_>, open: OpenWorkspace) -> Ended {
        drop(cleared);
        let [whole, begun] = self.names();
        if let Err(Refusal { path, why }) = mark(&open, &whole, &begun) {
            return Ended::of(End::Left(format!("{}: {why}", escaped(&path))));
        }
        let Discarding { discarded, refusals } = discard_marked(open, &begun, None);
        let (end, outcome) = match NonEmpty::from_vec(refusals) {
            Some(refusals) => {
                (End::Refused { discarded, refusals: refusals.clone() }, Outcome::Refused { refusals, discarded })
            }
            None => {
                let release = self.reclaimer.release_record(&self.set_aside.candidate.below_root);
                (
                    End::Removed { discarded, release: release.clone() },
                    Outcome::Removed { discarded, release, rescued: None },
                )
            }
        };
        Ended::written(end, self.journal.settle(self.set_aside.intent, &outcome))
    }

    fn names(&self) -> [CString; 2] {
        [Stage::Fenced, Stage::Discarding].map(|stage| self.reclaimer.trash(self.set_aside.intent, stage).to_c())
    }
}
