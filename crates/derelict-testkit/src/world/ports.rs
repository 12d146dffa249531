//! The four ports over the ground. Each call lets others act first, and can fail or be the last.

use std::cell::{RefCell, RefMut};
use std::collections::BTreeSet;
use std::panic::resume_unwind;

use derelict_core::evidence::{Candidate, Evidence, Observed};
use derelict_core::ids::{IntentId, NonEmpty};
use derelict_core::outcome::{Discarded, FateName, Outcome, Refusal, Release};
use derelict_core::ports::{Discard, Journal, JournalLost, Lock, LockBusy, Observe, Opened, Reclaim, SourceLost};
use derelict_core::recheck::{Cleared, Fenced, RemovalPermit};
use derelict_core::record::Intent;

use super::Missing;
use super::adversary;
use super::ground::{Cancelled, Finished, Ground, Held, Ino, Line, Live, Place, Weather, Workspace, Written};
use super::look::{evidence, no_proof, proof, source, workspace_of};

/// What a killed sweep unwinds with.
pub(crate) struct Killed;

/// How rarely something goes wrong in a storm: one call in so many.
const FAULTS: usize = 40;
const KILLS: usize = 60;

/// Why a sweep has to end, by the names of its stop reasons.
const SOURCE: &str = "source_lost";
pub(crate) const JOURNAL: &str = "journal_lost";

/// All four ports to one ground.
#[derive(Clone, Copy)]
pub(crate) struct Port<'g>(pub(crate) &'g RefCell<Ground>);

/// The open directory.
#[derive(Debug)]
pub(crate) struct Handle {
    workspace: Workspace,
    ino: Ino,
}

/// The creators' lock of one workspace.
pub(crate) struct Guard<'g>(&'g RefCell<Ground>, Workspace);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        // A killed process lets go of its locks too.
        let mut ground = self.0.borrow_mut();
        if ground.locks[self.1] == Held::ByUs {
            ground.locks[self.1] = Held::Free;
        }
        ground.note("unlock");
    }
}

impl<'g> Port<'g> {
    /// Others act, and then it is our turn, if we still live.
    fn turn(&self, call: &str) -> RefMut<'g, Ground> {
        let mut ground = self.0.borrow_mut();
        adversary::act(&mut ground);
        if ground.weather == Weather::Storm && ground.dice.one_in(KILLS) {
            ground.note(format!("killed before: {call}"));
            drop(ground);
            resume_unwind(Box::new(Killed));
        }
        ground.note(call);
        ground
    }

    /// A fault after which the sweep must end, for this reason.
    fn loses(ground: &mut Ground, what: &'static str) -> bool {
        let loses = Self::fails(ground);
        if loses {
            ground.ending.get_or_insert(what);
        }
        loses
    }

    fn fails(ground: &mut Ground) -> bool {
        let fails = ground.weather == Weather::Storm && ground.dice.one_in(FAULTS);
        if fails {
            ground.note("  fails");
        }
        fails
    }
}

fn source_lost() -> SourceLost {
    SourceLost { source_id: source(), why: "connection closed".into() }
}

fn journal_lost() -> JournalLost {
    JournalLost { why: "disk full".into() }
}

fn refusal(why: &str) -> Refusal {
    Refusal { path: "/root".into(), why: why.to_owned() }
}

impl<'g> Lock for Port<'g> {
    type Guard = Guard<'g>;

    fn acquire(&mut self, candidate: &Candidate) -> Result<Guard<'g>, LockBusy> {
        let workspace = workspace_of(candidate);
        let cancelled = self.0.borrow().cancelled == Cancelled::Yes;
        self.0.borrow_mut().must(!cancelled, "nothing is begun once somebody asked to stop");
        let mut ground = self.turn(&format!("lock w{workspace}"));
        let goes_on = ground.ending.is_none();
        ground.must(goes_on, "nothing is begun once the sweep has to end");
        let missing = ground.missing == Missing::Lock;
        match ground.locks[workspace] {
            Held::ByACreator if missing => Ok(Guard(self.0, workspace)),
            Held::Free | Held::ByUs => {
                ground.locks[workspace] = if missing { Held::Free } else { Held::ByUs };
                Ok(Guard(self.0, workspace))
            }
            Held::ByACreator => {
                ground.expect(candidate.identity.ino, FateName::Busy);
                Err(LockBusy { lock: format!("lock of w{workspace}") })
            }
        }
    }
}

impl Observe for Port<'_> {
    type Handle = Handle;

    fn refresh(&mut self) -> Result<(), SourceLost> {
        if Self::loses(&mut self.turn("refresh"), SOURCE) { Err(source_lost()) } else { Ok(()) }
    }

    fn look_again(&mut self, _: &Candidate, handle: &Handle) -> Result<Evidence, SourceLost> {
        let mut ground = self.turn("look again");
        if Self::loses(&mut ground, SOURCE) {
            ground.expect(handle.ino, FateName::Interrupted);
            return Err(source_lost());
        }
        ground.traced = Some((handle.ino, ground.trees[&handle.ino].version));
        if ground.missing == Missing::Recheck {
            return Ok(ground.planned[&handle.workspace].clone());
        }
        let keeps = ground.keeps(handle.workspace, handle.ino, Written::No);
        ground.looked_live = if keeps.is_some() { Live::Yes } else { Live::No };
        keeps.into_iter().for_each(|fate| ground.expect(handle.ino, fate));
        let proof = Observed::Known(proof(&ground, handle.ino));
        Ok(evidence(&ground, handle.workspace, handle.ino, proof))
    }

    fn second_look(&mut self, _: &Candidate, handle: &Handle, first: &Evidence) -> Result<Evidence, SourceLost> {
        let mut ground = self.turn("second look");
        if Self::loses(&mut ground, SOURCE) {
            ground.expect(handle.ino, FateName::Interrupted);
            return Err(source_lost());
        }
        if matches!(ground.missing, Missing::SecondLook | Missing::FenceAndSecondLook) {
            return Ok(first.clone());
        }
        let owed = ground.claims(handle.workspace);
        let tree = ground.tree(handle.ino);
        (tree.owed, tree.looked_at) = (owed, true);
        let untouched = ground.traced == Some((handle.ino, ground.trees[&handle.ino].version));
        let written = if untouched { Written::No } else { Written::SinceTheLook };
        ground
            .keeps(handle.workspace, handle.ino, written)
            .into_iter()
            .for_each(|fate| ground.expect(handle.ino, fate));
        let proof = if untouched { first.proof.clone() } else { no_proof() };
        Ok(evidence(&ground, handle.workspace, handle.ino, proof))
    }
}

impl Reclaim for Port<'_> {
    type Handle = Handle;

    fn open(&mut self, candidate: &Candidate) -> Opened<Handle> {
        let workspace = workspace_of(candidate);
        let mut ground = self.turn("open");
        let planned = candidate.identity.ino;
        match ground.names.get(&Place::Live(workspace)).copied() {
            None => {
                ground.expect(planned, FateName::Vanished);
                Opened::Vanished
            }
            Some(ino) if ino == planned || ground.missing == Missing::Identity => {
                Opened::Same(Handle { workspace, ino })
            }
            Some(_) => {
                ground.expect(planned, FateName::Refused);
                Opened::Refused(refusal("another directory lies here"))
            }
        }
    }

    fn fence<'lock>(
        &mut self,
        permit: RemovalPermit<'lock>,
        handle: &Handle,
        intent: IntentId,
    ) -> Result<Fenced<'lock>, Refusal> {
        let mut ground = self.turn(&format!("fence w{} as {intent}", handle.workspace));
        // Until it is fenced and more is seen.
        ground.expect(handle.ino, FateName::Refused);
        if Self::fails(&mut ground) {
            return Err(refusal("not permitted"));
        }
        let creator = ground.locks[handle.workspace] == Held::ByACreator;
        let live = Place::Live(handle.workspace);
        if ground.missing == Missing::FenceAndSecondLook {
            return Ok(permit.fenced());
        }
        if ground.names.get(&live) != Some(&handle.ino) && ground.missing != Missing::Identity {
            return Err(refusal("another directory came to lie here"));
        }
        let live_then = ground.looked_live == Live::Yes;
        ground.must(!live_then, "nothing is fenced that was just seen to be live");
        ground.must(!creator, "what a creator found while it holds its lock stays");
        ground.rename(intent, live, Place::Trash(intent)).map_err(refusal)?;
        Ok(permit.fenced())
    }

    fn put_back(&mut self, handle: &Handle, intent: IntentId) -> Result<(), Refusal> {
        let mut ground = self.turn(&format!("put back w{}", handle.workspace));
        let put_back = if Self::fails(&mut ground) {
            Err("not permitted")
        } else {
            ground.rename(intent, Place::Trash(intent), Place::Live(handle.workspace))
        };
        if put_back.is_err() {
            ground.expect(handle.ino, FateName::Refused);
        }
        put_back.map_err(refusal)
    }

    fn set_aside(&mut self, cleared: Cleared<'_>, handle: &Handle, _: IntentId) -> Result<(), Refusal> {
        drop(cleared);
        let mut ground = self.turn(&format!("set aside w{}", handle.workspace));
        if Self::fails(&mut ground) {
            return Err(refusal("not durable"));
        }
        ground.expect(handle.ino, FateName::Quarantined);
        Ok(())
    }

    fn discard(&mut self, cleared: Cleared<'_>, handle: Handle, intent: IntentId) -> Discard {
        drop(cleared);
        let mut ground = self.turn(&format!("discard w{}", handle.workspace));
        let before = ground.unlinked;
        let place = match ground.missing {
            Missing::FenceAndSecondLook => Place::Live(handle.workspace),
            Missing::Mark => Place::Trash(intent),
            Missing::Nothing | Missing::SecondLook | Missing::Recheck | Missing::Lock | Missing::Identity => {
                let marked = ground.rename(intent, Place::Trash(intent), Place::Begun(intent));
                ground.must(marked.is_ok(), "nobody takes a trash name");
                Place::Begun(intent)
            }
        };
        drop(ground);
        let refusals = self.unlink_all(intent, handle.ino, place);
        let mut ground = self.0.borrow_mut();
        let entries = ground.unlinked - before;
        ground.expect(handle.ino, if refusals.is_empty() { FateName::Removed } else { FateName::Refused });
        Discard { discarded: Discarded { entries, bytes: entries }, refusals }
    }

    fn release(&mut self, candidate: &Candidate) -> Release {
        let mut ground = self.turn("release");
        if Self::fails(&mut ground) {
            return Release::Failed("disk full".into());
        }
        match ground.release(workspace_of(candidate)) {
            Some(record) => Release::Dropped(NonEmpty::of(record.to_string())),
            None => Release::NothingRecorded,
        }
    }
}

impl Port<'_> {
    /// Unlinks whatever goes, one entry a turn, and the tree itself if all of it went.
    pub(crate) fn unlink_all(&self, intent: IntentId, ino: Ino, place: Place) -> Vec<Refusal> {
        while self.turn("unlink").unlink(intent, ino).is_some() {}
        let mut ground = self.turn("rmdir");
        if !ground.trees[&ino].entries.is_empty() {
            return vec![refusal("immutable")];
        }
        if ground.names.get(&place) != Some(&ino) {
            return vec![refusal("another directory lies here")];
        }
        ground.rmdir(place);
        Vec::new()
    }
}

impl Journal for Port<'_> {
    fn intend(&mut self, intent: &Intent) -> Result<IntentId, JournalLost> {
        let mut ground = self.turn("intend");
        if Self::loses(&mut ground, JOURNAL) {
            ground.expect(intent.candidate.identity.ino, FateName::Interrupted);
            return Err(journal_lost());
        }
        let (workspace, ino) = (workspace_of(&intent.candidate), intent.candidate.identity.ino);
        let id = IntentId(ground.number());
        ground.journal.insert(id, Line { workspace, ino, finished: Finished::No });
        Ok(id)
    }

    fn settle(&mut self, intent: IntentId, outcome: &Outcome) -> Result<(), JournalLost> {
        let mut ground = self.turn("settle");
        if Self::loses(&mut ground, JOURNAL) {
            return Err(journal_lost());
        }
        let finished = match outcome {
            Outcome::Removed { .. } | Outcome::Vanished | Outcome::Resurrected(_) | Outcome::Changed(_) => {
                Finished::Yes
            }
            Outcome::Quarantined | Outcome::Refused { .. } | Outcome::Busy { .. } | Outcome::Interrupted { .. } => {
                Finished::No
            }
        };
        ground.journal.get_mut(&intent).expect("because it was intended").finished = finished;
        Ok(())
    }
}

/// Remembers what force accepts to lose, directory by directory.
pub(crate) fn accept(ground: &mut Ground, ino: Ino) {
    let works: BTreeSet<u64> = ground.trees[&ino].entries.iter().filter_map(|entry| entry.work).collect();
    ground.tree(ino).accepted = works;
}
