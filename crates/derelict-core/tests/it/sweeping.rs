//! The sweep against a scripted world: order of the steps, every outcome, every reason to stop, and
//! a tally that accounts for every directory on every path.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use derelict_core::evidence::{Candidate, ClaimedPath, Evidence, Lease, Observed};
use derelict_core::ids::{IntentId, NonEmpty, SourceId};
use derelict_core::outcome::{Discarded, Fate, FateName, Outcome, Refusal, Release, StopReason};
use derelict_core::plan::{Consent, Plan};
use derelict_core::policy::{Force, Limit, Limits, Selection};
use derelict_core::ports::{Discard, Journal, JournalLost, Lock, LockBusy, Observe, Opened, Reclaim, SourceLost};
use derelict_core::recheck::{Cleared, Fenced, RemovalPermit};
use derelict_core::record::{Disposal, Intent, SweepReport};
use derelict_core::sweep::{World, sweep};
use proptest::prelude::*;

use crate::support::{DAY, NOW, POLICY, Parts, claim, clean, judged, unsaved};

/// What happens to one directory, and at which step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Script {
    Goes,
    Busy,
    Vanished,
    Replaced,
    Claimed,
    Written,
    SourceLost,
    JournalLost,
    FenceRefused,
    Stuck,
    SettleLost,
    ClaimedBehind,
    WrittenBehind,
    SourceLostBehind,
    NameTaken,
}

const SCRIPTS: [Script; 15] = [
    Script::Goes,
    Script::Busy,
    Script::Vanished,
    Script::Replaced,
    Script::Claimed,
    Script::Written,
    Script::SourceLost,
    Script::JournalLost,
    Script::FenceRefused,
    Script::Stuck,
    Script::SettleLost,
    Script::ClaimedBehind,
    Script::WrittenBehind,
    Script::SourceLostBehind,
    Script::NameTaken,
];

#[derive(Clone)]
struct Stage {
    scripts: HashMap<Vec<u8>, Script>,
    steps: Rc<RefCell<Vec<String>>>,
    refresh: Option<SourceLost>,
    current: Rc<RefCell<Vec<u8>>>,
}

impl Stage {
    fn of(&self, candidate: &Candidate) -> Script {
        self.scripts[candidate.name.as_bytes()]
    }
    fn note(&self, step: &str) {
        self.steps.borrow_mut().push(step.to_owned());
    }
}

fn refusal() -> Refusal {
    Refusal { path: "/x".into(), why: "not permitted".into() }
}

fn lost() -> SourceLost {
    SourceLost { source_id: SourceId("devpod".into()), why: "gone".into() }
}

struct Guard(Stage);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.note("unlock");
    }
}

impl Lock for Stage {
    type Guard = Guard;
    fn acquire(&mut self, candidate: &Candidate) -> Result<Guard, LockBusy> {
        self.note("lock");
        *self.current.borrow_mut() = candidate.name.as_bytes().to_vec();
        if self.of(candidate) == Script::Busy {
            return Err(LockBusy { lock: "launch lock".into() });
        }
        Ok(Guard(self.clone()))
    }
}

impl Observe for Stage {
    type Handle = ();
    fn refresh(&mut self) -> Result<(), SourceLost> {
        self.note("refresh");
        self.refresh.clone().map_or(Ok(()), Err)
    }
    fn look_again(&mut self, candidate: &Candidate, (): &()) -> Result<Evidence, SourceLost> {
        self.note("look");
        let script = self.of(candidate);
        if script == Script::SourceLost {
            return Err(lost());
        }
        Ok(if script == Script::Claimed {
            claimed()
        } else if script == Script::Written {
            unsaved("new").evidence()
        } else {
            clean().evidence()
        })
    }
    fn second_look(&mut self, candidate: &Candidate, (): &(), first: &Evidence) -> Result<Evidence, SourceLost> {
        self.note("second look");
        let script = self.of(candidate);
        if script == Script::SourceLostBehind {
            return Err(lost());
        }
        Ok(if script == Script::ClaimedBehind || script == Script::NameTaken {
            claimed()
        } else if script == Script::WrittenBehind {
            unsaved("new").evidence()
        } else {
            first.clone()
        })
    }
}

fn claimed() -> Evidence {
    let claims = Observed::Known(vec![claim(ClaimedPath::Here, Lease::Standing)]);
    Parts { claims, ..clean() }.evidence()
}

impl Reclaim for Stage {
    type Handle = ();
    fn put_back(&mut self, (): &(), _: IntentId) -> Result<(), Refusal> {
        self.note("put back");
        if self.scripts[&*self.current.borrow()] == Script::NameTaken { Err(refusal()) } else { Ok(()) }
    }
    fn open(&mut self, candidate: &Candidate) -> Opened<()> {
        self.note("open");
        let script = self.of(candidate);
        if script == Script::Vanished {
            Opened::Vanished
        } else if script == Script::Replaced {
            Opened::Refused(refusal())
        } else {
            Opened::Same(())
        }
    }
    fn fence<'lock>(&mut self, permit: RemovalPermit<'lock>, (): &(), _: IntentId) -> Result<Fenced<'lock>, Refusal> {
        self.note("fence");
        if self.of(permit.candidate()) == Script::FenceRefused { Err(refusal()) } else { Ok(permit.fenced()) }
    }
    fn set_aside(&mut self, cleared: Cleared<'_>, (): &(), _: IntentId) -> Result<(), Refusal> {
        self.note("set aside");
        if self.of(cleared.candidate()) == Script::Stuck { Err(refusal()) } else { Ok(()) }
    }
    fn discard(&mut self, cleared: Cleared<'_>, (): (), _: IntentId) -> Discard {
        self.note("discard");
        let refusals = if self.of(cleared.candidate()) == Script::Stuck { vec![refusal()] } else { Vec::new() };
        Discard { discarded: Discarded { entries: 3, bytes: 40 }, refusals }
    }
    fn release(&mut self, _: &Candidate) -> Release {
        self.note("release");
        Release::NothingRecorded
    }
}

impl Journal for Stage {
    fn intend(&mut self, intent: &Intent) -> Result<IntentId, JournalLost> {
        self.note("intend");
        assert_eq!(intent.at, NOW);
        if self.of(&intent.candidate) == Script::JournalLost {
            Err(JournalLost { why: "disk full".into() })
        } else {
            Ok(IntentId(1))
        }
    }
    fn settle(&mut self, _: IntentId, _: &Outcome) -> Result<(), JournalLost> {
        self.note("settle");
        if self.scripts[&*self.current.borrow()] == Script::SettleLost {
            Err(JournalLost { why: "disk full".into() })
        } else {
            Ok(())
        }
    }
}

struct Run {
    report: SweepReport,
    steps: Vec<String>,
    announced: usize,
}

/// Sweeps one directory per script, in this order, beside one that is kept.
fn run(scripts: &[Script], refresh: Option<SourceLost>, limits: Limits, cancel_after: usize) -> Run {
    run_with(Disposal::Discard, scripts, refresh, limits, cancel_after)
}

fn run_with(
    disposal: Disposal,
    scripts: &[Script],
    refresh: Option<SourceLost>,
    limits: Limits,
    cancel_after: usize,
) -> Run {
    let mut all: Vec<_> = (0..scripts.len()).map(|n| judged(&format!("w{n:03}"), 1, clean())).collect();
    all.push(judged("kept", 1, unsaved("x")));
    let plan = Plan::new(all, &Selection::new(Force::No, limits));
    let digest = plan.digest();
    let approved = plan.approve(Consent::Operator { seen: digest }).expect("because it was seen");
    let steps = Rc::new(RefCell::new(Vec::new()));
    let scripts = scripts.iter().enumerate().map(|(n, script)| (format!("w{n:03}").into_bytes(), *script)).collect();
    let stage = Stage { scripts, steps: steps.clone(), refresh, current: Rc::default() };
    let (mut observe, mut lock, mut reclaim, mut journal) =
        (stage.clone(), stage.clone(), stage.clone(), stage.clone());
    let world = World { observe: &mut observe, lock: &mut lock, reclaim: &mut reclaim, journal: &mut journal };
    let (mut asked, mut announced) = (0, 0);
    let cancelled = || {
        asked += 1;
        (asked > cancel_after).then_some(StopReason::Cancelled)
    };
    let report = sweep(&approved, &POLICY, NOW, disposal, world, cancelled, |_| announced += 1);
    let steps = steps.borrow().clone();
    Run { report, steps, announced }
}

fn one(script: Script) -> Run {
    run(&[script], None, Limits::NONE, usize::MAX)
}

fn fate(run: &Run) -> Fate {
    run.report.settled[0].fate.clone()
}

#[test]
fn the_steps_are_taken_in_the_order_of_the_protocol_with_the_lock_held_throughout() {
    let run = one(Script::Goes);
    let steps = "refresh, lock, open, look, intend, fence, second look, discard, release, settle, unlock";
    assert_eq!(run.steps.join(", "), steps);
    assert_eq!(
        fate(&run),
        Fate::Settled(Outcome::Removed {
            discarded: Discarded { entries: 3, bytes: 40 },
            release: Release::NothingRecorded,
            rescued: None,
        })
    );
    assert_eq!((run.report.stop.clone(), run.announced), (StopReason::Finished, 1));
    assert_eq!(run.report.settled[0].intent, Some(IntentId(1)));
}

#[test]
fn each_fault_ends_where_it_must_and_goes_no_further() {
    let none = Discarded { entries: 0, bytes: 0 };
    let refused = |discarded| Fate::Settled(Outcome::Refused { refusals: NonEmpty::of(refusal()), discarded });
    for (script, expected, last_step) in [
        (Script::Busy, Fate::Settled(Outcome::Busy { lock: "launch lock".into() }), "lock"),
        (Script::Vanished, Fate::Settled(Outcome::Vanished), "open"),
        (Script::Replaced, refused(none), "open"),
        (Script::FenceRefused, refused(none), "settle"),
        (Script::Stuck, refused(Discarded { entries: 3, bytes: 40 }), "settle"),
    ] {
        let run = one(script);
        assert_eq!(fate(&run), expected);
        assert_eq!(run.report.stop, StopReason::Finished);
        assert_eq!(run.steps.iter().rfind(|step| *step != "unlock").map(String::as_str), Some(last_step));
    }
    assert!(!one(Script::FenceRefused).steps.contains(&"discard".to_owned()));
    assert!(!one(Script::Stuck).steps.contains(&"release".to_owned()), "the record stays until the tree is gone");
}

#[test]
fn what_became_live_again_is_resurrected_and_what_became_something_else_is_changed() {
    let run = one(Script::Claimed);
    assert!(matches!(fate(&run), Fate::Settled(Outcome::Resurrected(_))));
    assert!(!run.steps.contains(&"intend".to_owned()));
    let run = one(Script::Written);
    assert!(matches!(fate(&run), Fate::Settled(Outcome::Changed(_))));
    assert!(!run.steps.contains(&"intend".to_owned()));
}

#[test]
fn whoever_came_just_before_the_fence_gets_the_directory_back() {
    let put_back = |script| {
        let run = one(script);
        assert_eq!(run.steps[5..].join(", "), "fence, second look, put back, settle, unlock");
        run
    };
    assert!(matches!(fate(&put_back(Script::ClaimedBehind)), Fate::Settled(Outcome::Resurrected(_))));
    assert!(matches!(fate(&put_back(Script::WrittenBehind)), Fate::Settled(Outcome::Changed(_))));
    let none = Discarded { entries: 0, bytes: 0 };
    let refused = Outcome::Refused { refusals: NonEmpty::of(refusal()), discarded: none };
    assert_eq!(fate(&put_back(Script::NameTaken)), Fate::Settled(refused));
    let run = put_back(Script::SourceLostBehind);
    assert!(matches!(fate(&run), Fate::Settled(Outcome::Interrupted { .. })));
    assert_eq!(run.report.stop, StopReason::SourceLost { source: SourceId("devpod".into()), why: "gone".into() });
}

const QUARANTINE: Disposal = Disposal::Quarantine { until: NOW.after(DAY) };

#[test]
fn with_a_grace_it_is_set_aside_after_the_second_look_and_its_record_stays() {
    let set_aside = |script| run_with(QUARANTINE, &[script], None, Limits::NONE, usize::MAX);
    let run = set_aside(Script::Goes);
    let steps = "refresh, lock, open, look, intend, fence, second look, set aside, settle, unlock";
    assert_eq!((run.steps.join(", ").as_str(), fate(&run)), (steps, Fate::Settled(Outcome::Quarantined)));
    assert_eq!(run.report.discarded(), Discarded { entries: 0, bytes: 0 });
    let stuck = set_aside(Script::Stuck);
    assert!(matches!(fate(&stuck), Fate::Settled(Outcome::Refused { .. })));
    let claimed = set_aside(Script::ClaimedBehind);
    assert!(matches!(fate(&claimed), Fate::Settled(Outcome::Resurrected(_))));
    assert!(!claimed.steps.contains(&"set aside".to_owned()));
}

#[test]
fn a_lost_source_or_journal_stops_before_the_deed_and_keeps_the_record_of_what_was_done() {
    let no_limits = Limits::NONE;
    let stop = StopReason::SourceLost { source: SourceId("devpod".into()), why: "gone".into() };
    for (script, stop, deed) in [
        (Script::SourceLost, stop.clone(), 1),
        (Script::JournalLost, StopReason::JournalLost("disk full".into()), 1),
        (Script::SettleLost, StopReason::JournalLost("disk full".into()), 2),
    ] {
        let run = run(&[Script::Goes, script, Script::Goes], None, no_limits, usize::MAX);
        assert_eq!(run.report.stop, stop);
        assert_eq!(run.steps.iter().filter(|step| *step == "discard").count(), deed);
        assert_eq!((run.report.tally().of(FateName::NotReached), run.report.tally().of(FateName::Unsaved)), (1, 1));
        assert_eq!(run.report.tally().of(FateName::Removed), deed as u64);
        assert_eq!(run.report.discarded(), Discarded { entries: 3 * deed as u64, bytes: 40 * deed as u64 });
    }
    let run = run(&[Script::Goes], Some(lost()), no_limits, usize::MAX);
    assert_eq!((run.report.stop, run.steps), (stop, vec!["refresh".to_owned()]));
}

#[test]
fn cancelling_finishes_the_removal_in_hand_and_begins_no_other() {
    let run = run(&[Script::Goes, Script::Goes, Script::Goes], None, Limits::NONE, 1);
    assert_eq!(run.report.stop, StopReason::Cancelled);
    assert_eq!((run.report.tally().of(FateName::Removed), run.report.tally().of(FateName::NotReached)), (1, 2));
    assert_eq!(run.announced, 1);
}

#[test]
fn what_is_beyond_the_limit_is_named_and_is_the_reason_to_stop() {
    let run = run(&[Script::Goes, Script::Goes], None, Limits { removals: Some(1), ..Limits::NONE }, usize::MAX);
    assert_eq!(run.report.stop, StopReason::LimitReached(Limit::Removals));
    let counts: Vec<_> = run.report.tally().iter().collect();
    assert_eq!(counts, [(FateName::Unsaved, 1), (FateName::BeyondLimit, 1), (FateName::Removed, 1)]);
}

proptest! {
    #[test]
    fn what_was_scanned_is_what_is_accounted_for_whatever_happens(
        scripts in proptest::collection::vec(proptest::sample::select(SCRIPTS.to_vec()), 0..12),
        source_lost in any::<bool>(),
        removals in proptest::option::of(0_u64..12),
        cancel_after in 0_usize..14,
    ) {
        let limits = Limits { removals, ..Limits::NONE };
        let run = run(&scripts, source_lost.then(lost), limits, cancel_after);
        prop_assert_eq!(run.report.tally().scanned(), scripts.len() as u64 + 1);
        let sum: u64 = run.report.tally().iter().map(|(_, count)| count).sum();
        prop_assert_eq!(sum, run.report.settled.len() as u64);
        let count = |step: &str| run.steps.iter().filter(|known| *known == step).count();
        prop_assert!(count("fence") <= count("intend"));
        prop_assert!(count("discard") + count("put back") <= count("fence"));
        prop_assert!(count("discard") <= count("second look"));
        prop_assert!(count("release") <= count("discard"));
        prop_assert!(removals.is_none_or(|limit| count("discard") as u64 <= limit));
    }
}
