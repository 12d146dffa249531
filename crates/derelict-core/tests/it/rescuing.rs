//! What only a directory holds is rescued before it goes, and the directory goes only if that succeeded and nothing
//! changed meanwhile.

use std::io::{self, BufRead, Write};

use derelict_core::evidence::{Candidate, ClaimedPath, Evidence, Lease, Observed};
use derelict_core::ids::{IntentId, SourceId};
use derelict_core::outcome::{Discarded, Fate, Outcome, Refusal, Release, StopReason};
use derelict_core::plan::{Acceptance, Consent, Plan};
use derelict_core::policy::{Force, Limits, Selection};
use derelict_core::ports::{Discard, Journal, JournalLost, Lock, LockBusy, Observe, Opened, Reclaim, SourceLost};
use derelict_core::recheck::{Cleared, Fenced, RemovalPermit, Unsaved};
use derelict_core::record::{Disposal, Intent};
use derelict_core::rescue::{Foundation, Keeping, RescueEntry, Salvage};
use derelict_core::sweep::{World, sweep};

use crate::support::{NOW, POLICY, Parts, claim, clean, judged, unsaved};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    Rescued,
    NothingKnown,
    NotWritten,
    /// Nobody has a place to rescue to.
    NoPlace,
    WrittenMeanwhile,
    ClaimedMeanwhile,
    SourceLostMeanwhile,
    SavedBefore,
}

struct Stage {
    case: Case,
    steps: Vec<&'static str>,
    looks: u32,
}

struct Cargo(Foundation);

impl Salvage for Cargo {
    fn foundation(&self) -> &Foundation {
        &self.0
    }
    fn keeping(&self, _: &[u8]) -> Keeping {
        Keeping::Archived
    }
    fn write_bundle(&self, _: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
    fn check_bundle(&self, _: &mut dyn BufRead) -> io::Result<()> {
        Ok(())
    }
}

struct Look<'s>(&'s std::cell::RefCell<Stage>);
struct Act<'s>(&'s std::cell::RefCell<Stage>);
struct Quiet;

impl Lock for Quiet {
    type Guard = ();
    fn acquire(&mut self, _: &Candidate) -> Result<(), LockBusy> {
        Ok(())
    }
}

impl Journal for Quiet {
    fn intend(&mut self, _: &Intent) -> Result<IntentId, JournalLost> {
        Ok(IntentId(1))
    }
    fn settle(&mut self, _: IntentId, _: &Outcome) -> Result<(), JournalLost> {
        Ok(())
    }
}

impl Observe for Look<'_> {
    type Handle = ();
    fn refresh(&mut self) -> Result<(), SourceLost> {
        Ok(())
    }
    fn look_again(&mut self, _: &Candidate, (): &()) -> Result<Evidence, SourceLost> {
        let saved = self.0.borrow().case == Case::SavedBefore;
        Ok(if saved { clean().evidence() } else { unsaved("work").evidence() })
    }
    fn second_look(&mut self, _: &Candidate, (): &(), first: &Evidence) -> Result<Evidence, SourceLost> {
        let mut stage = self.0.borrow_mut();
        stage.looks += 1;
        if stage.looks == 1 {
            return Ok(first.clone());
        }
        match stage.case {
            Case::WrittenMeanwhile => Ok(unsaved("more").evidence()),
            Case::ClaimedMeanwhile => {
                let claims = Observed::Known(vec![claim(ClaimedPath::Here, Lease::Standing)]);
                Ok(Parts { claims, ..unsaved("work") }.evidence())
            }
            Case::SourceLostMeanwhile => Err(SourceLost { source_id: SourceId("devpod".into()), why: "gone".into() }),
            Case::Rescued | Case::NothingKnown | Case::NotWritten | Case::NoPlace | Case::SavedBefore => {
                Ok(first.clone())
            }
        }
    }
    fn salvage(&mut self, _: &Candidate, (): &()) -> Result<Box<dyn Salvage>, String> {
        let mut stage = self.0.borrow_mut();
        stage.steps.push("salvage");
        let known = stage.case != Case::NothingKnown;
        if known { Ok(Box::new(Cargo(nothing()))) } else { Err("its repository is not in it".into()) }
    }
}

impl Reclaim for Act<'_> {
    type Handle = ();
    fn open(&mut self, _: &Candidate) -> Opened<()> {
        Opened::Same(())
    }
    fn fence<'lock>(&mut self, permit: RemovalPermit<'lock>, (): &(), _: IntentId) -> Result<Fenced<'lock>, Refusal> {
        Ok(permit.fenced())
    }
    fn put_back(&mut self, (): &(), _: IntentId) -> Result<(), Refusal> {
        self.0.borrow_mut().steps.push("put back");
        Ok(())
    }
    fn rescue(&mut self, unsaved: &Unsaved<'_>, (): &(), _: &dyn Salvage) -> Result<RescueEntry, Refusal> {
        let path = unsaved.candidate().path.clone();
        let mut stage = self.0.borrow_mut();
        if stage.case == Case::NoPlace {
            drop(stage);
            return Reclaim::rescue(&mut Nowhere, unsaved, &(), &Cargo(nothing()));
        }
        stage.steps.push("rescue");
        if stage.case == Case::NotWritten { Err(Refusal { path, why: "disk full".into() }) } else { Ok(entry()) }
    }
    fn set_aside(&mut self, _: Cleared<'_>, (): &(), _: IntentId) -> Result<(), Refusal> {
        Ok(())
    }
    fn discard(&mut self, _: Cleared<'_>, (): (), _: IntentId) -> Discard {
        self.0.borrow_mut().steps.push("discard");
        Discard { discarded: Discarded { entries: 3, bytes: 40 }, refusals: Vec::new() }
    }
    fn release(&mut self, _: &Candidate) -> Release {
        Release::NothingRecorded
    }
}

/// The door of somebody who knows no rescue.
struct Nowhere;

impl Reclaim for Nowhere {
    type Handle = ();
    fn open(&mut self, _: &Candidate) -> Opened<()> {
        Opened::Vanished
    }
    fn fence<'lock>(&mut self, permit: RemovalPermit<'lock>, (): &(), _: IntentId) -> Result<Fenced<'lock>, Refusal> {
        Ok(permit.fenced())
    }
    fn put_back(&mut self, (): &(), _: IntentId) -> Result<(), Refusal> {
        Ok(())
    }
    fn set_aside(&mut self, _: Cleared<'_>, (): &(), _: IntentId) -> Result<(), Refusal> {
        Ok(())
    }
    fn discard(&mut self, _: Cleared<'_>, (): (), _: IntentId) -> Discard {
        Discard { discarded: Discarded { entries: 0, bytes: 0 }, refusals: Vec::new() }
    }
    fn release(&mut self, _: &Candidate) -> Release {
        Release::NothingRecorded
    }
}

fn nothing() -> Foundation {
    Foundation { objects: 0, stores: Vec::new(), prerequisites: Vec::new(), remotes: Vec::new() }
}

fn entry() -> RescueEntry {
    RescueEntry { name: "e".into(), path: "/r/e".into(), bytes: 7 }
}

fn run(case: Case) -> (Fate, StopReason, Vec<&'static str>) {
    let plan =
        Plan::new(vec![judged("w", 1, unsaved("work"))], &Selection::new(Force::UnsavedOnceRescued, Limits::NONE));
    assert_eq!(plan.removals()[0].acceptance(), Some(Acceptance::Rescued));
    let digest = plan.digest();
    let approved = plan.approve(Consent::Operator { seen: digest }).expect("because it was seen");
    let stage = std::cell::RefCell::new(Stage { case, steps: Vec::new(), looks: 0 });
    let (mut observe, mut reclaim) = (Look(&stage), Act(&stage));
    let world = World { observe: &mut observe, lock: &mut Quiet, reclaim: &mut reclaim, journal: &mut Quiet };
    let report = sweep(&approved, &POLICY, NOW, Disposal::Discard, world, || None, |_| {});
    (report.settled[0].fate.clone(), report.stop, stage.into_inner().steps)
}

fn removed(rescued: Option<RescueEntry>) -> Fate {
    let discarded = Discarded { entries: 3, bytes: 40 };
    Fate::Settled(Outcome::Removed { discarded, release: Release::NothingRecorded, rescued })
}

#[test]
fn what_is_unsaved_goes_once_it_was_rescued_and_the_entry_is_told() {
    assert_eq!(
        run(Case::Rescued),
        (removed(Some(entry())), StopReason::Finished, vec!["salvage", "rescue", "discard"])
    );
}

#[test]
fn what_was_saved_before_the_recheck_needs_no_rescue() {
    assert_eq!(run(Case::SavedBefore), (removed(None), StopReason::Finished, vec!["discard"]));
}

#[test]
fn without_a_whole_rescue_it_is_put_back_and_refused() {
    for (case, why, steps) in [
        (Case::NothingKnown, "not rescued: its repository is not in it", vec!["salvage", "put back"]),
        (Case::NotWritten, "disk full", vec!["salvage", "rescue", "put back"]),
        (Case::NoPlace, "there is no place to rescue it to", vec!["salvage", "put back"]),
    ] {
        let (fate, stop, taken) = run(case);
        let Fate::Settled(Outcome::Refused { refusals, discarded }) = fate else { panic!("{fate:?}") };
        assert_eq!((refusals.first().why.as_str(), discarded.entries), (why, 0));
        assert_eq!((stop, taken), (StopReason::Finished, steps));
    }
}

#[test]
fn whatever_comes_while_it_is_rescued_saves_the_directory() {
    let steps = vec!["salvage", "rescue", "put back"];
    let (fate, stop, taken) = run(Case::WrittenMeanwhile);
    assert!(matches!(fate, Fate::Settled(Outcome::Changed(_))), "{fate:?}");
    assert_eq!((stop, &taken), (StopReason::Finished, &steps));
    let (fate, stop, taken) = run(Case::ClaimedMeanwhile);
    assert!(matches!(fate, Fate::Settled(Outcome::Resurrected(_))), "{fate:?}");
    assert_eq!((stop, &taken), (StopReason::Finished, &steps));
    let (fate, stop, taken) = run(Case::SourceLostMeanwhile);
    assert!(matches!(fate, Fate::Settled(Outcome::Interrupted { .. })), "{fate:?}");
    assert!(matches!(stop, StopReason::SourceLost { .. }), "{stop:?}");
    assert_eq!(taken, steps);
}
