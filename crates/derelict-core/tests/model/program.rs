//! The real sweep as a tree of calls: what it asks next depends only on what it was answered so
//! far. Each answer leads to a node, and the sweep is run once per node, with the answers on the
//! way to it played back. Nothing of the protocol is written here a second time.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::time::Duration;

use derelict_core::evidence::{
    Answer as Told, Blind, Candidate, Channel, ChannelReport, Claim, ClaimedPath, Evidence, Holder, Layout, Lease,
    Loss, Observed, Proof, Signal, SourceReport,
};
use derelict_core::ids::{Digest, FileIdentity, IntentId, NonEmpty, OwnerId, SourceId, Timestamp, WorkspaceName};
use derelict_core::outcome::{Discarded, FateName, Outcome, Refusal, Release};
use derelict_core::plan::{ApprovedPlan, Consent, Judged, Plan};
use derelict_core::policy::{Force, Limits, Policy, Selection, Window};
use derelict_core::ports::{Discard, Journal, JournalLost, Lock, LockBusy, Observe, Opened, Reclaim, SourceLost};
use derelict_core::recheck::{Cleared, Fenced, RemovalPermit};
use derelict_core::record::{Disposal, Intent, SweepReport};
use derelict_core::size::{Completeness, Size};
use derelict_core::sweep::{World, sweep};
use derelict_core::verdict::judge;

use crate::world::{Dir, Work};

const NOW: Timestamp = Timestamp::new(1_000_000, 0);
const POLICY: Policy =
    Policy { window: Window::Standing, minimum_age: Duration::ZERO, clock_tolerance: Duration::from_secs(60) };

/// What a look sees of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Seen {
    pub(crate) claimed: bool,
    pub(crate) used: bool,
    pub(crate) work: Work,
    /// Something was written since the first look, so that its proof is one no more.
    pub(crate) rewritten: bool,
}

/// What the sweep asks of the world next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Call {
    Refresh,
    Acquire(Dir),
    Open(Dir),
    LookAgain(Dir),
    Intend(Dir),
    Fence(Dir),
    SecondLook(Dir),
    PutBack(Dir),
    SetAside(Dir),
    Discard(Dir),
    Release(Dir),
    Settle(Dir, Ending),
    Unlock(Dir),
    Done(Vec<(Dir, FateName)>),
}

/// Whether an outcome leaves anything to recover.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Finished,
    SetAside,
    Unfinished,
}

/// What the world answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Answer {
    Done,
    /// Somebody else has it, it refuses, or it cannot be read or written: what that means depends on the call.
    Failed,
    Vanished,
    Saw(Seen),
    /// The evidence of the first look, handed on unread.
    AsBefore,
    /// A discard that left something behind.
    Stuck,
}

/// The sweep over one plan, unfolded as far as it was ever asked for.
#[derive(Debug)]
pub(crate) struct Program {
    approved: ApprovedPlan,
    planned: Seen,
    disposal: Disposal,
    nodes: Vec<Node>,
    runs: usize,
}

#[derive(Debug)]
struct Node {
    log: Vec<Answer>,
    call: Call,
    next: HashMap<Answer, NodeId>,
}

/// Where a sweep stands.
pub(crate) type NodeId = u32;

impl Program {
    /// The sweep of a plan that removes directories `0..dirs`. Their work is what force accepts.
    pub(crate) fn new(dirs: u8, work: Work, disposal: Disposal) -> Self {
        let planned = Seen { work, ..Seen::default() };
        let judged = (0..dirs).map(|dir| {
            let evidence = evidence(planned);
            let verdict = judge(&evidence, &POLICY, NOW);
            let size = Size { sole_bytes: 1, entries: 1, linked: Vec::new(), completeness: Completeness::Exact };
            Judged { candidate: candidate(dir), evidence, size, verdict }
        });
        let force = if work == 0 { Force::No } else { Force::UnsavedAsShown };
        let plan = Plan::new(judged.collect(), &Selection::new(force, Limits::NONE));
        assert_eq!(plan.removals().len(), usize::from(dirs), "the plan must remove what the model plans to");
        let seen = plan.digest();
        let approved = plan.approve(Consent::Operator { seen }).expect("because it was seen");
        let mut program = Self { approved, planned, disposal, nodes: Vec::new(), runs: 0 };
        program.grow(Vec::new());
        program
    }

    pub(crate) fn call(&self, node: NodeId) -> &Call {
        &self.nodes[node as usize].call
    }

    /// Where an answer leads.
    pub(crate) fn answered(&mut self, node: NodeId, answer: Answer) -> NodeId {
        if let Some(next) = self.nodes[node as usize].next.get(&answer) {
            return *next;
        }
        let mut log = self.nodes[node as usize].log.clone();
        log.push(answer);
        let next = self.grow(log);
        self.nodes[node as usize].next.insert(answer, next);
        next
    }

    /// How often the real sweep was run.
    pub(crate) fn runs(&self) -> usize {
        self.runs
    }

    fn grow(&mut self, log: Vec<Answer>) -> NodeId {
        let call = self.replay(&log);
        self.runs += 1;
        self.nodes.push(Node { log, call, next: HashMap::new() });
        u32::try_from(self.nodes.len() - 1).expect("because a sweep of the model has few answers")
    }

    /// Runs the sweep over these answers, as far as the first question that they do not answer.
    fn replay(&self, log: &[Answer]) -> Call {
        let tape = Tape { log, planned: self.planned, at: Cell::new(0), asked: RefCell::new(None) };
        let run = || {
            let (mut observe, mut lock, mut reclaim, mut journal) = (&tape, &tape, &tape, &tape);
            let world = World { observe: &mut observe, lock: &mut lock, reclaim: &mut reclaim, journal: &mut journal };
            sweep(&self.approved, &POLICY, NOW, self.disposal, world, || None, |_| {})
        };
        let ended = catch_unwind(AssertUnwindSafe(run));
        let Tape { at, asked, .. } = tape;
        assert_eq!(at.get(), log.len(), "every answer must have been asked for");
        match (asked.into_inner(), ended) {
            (Some(call), _) => call,
            (None, Ok(report)) => Call::Done(fates(&report)),
            (None, Err(panic)) => resume_unwind(panic),
        }
    }
}

fn fates(report: &SweepReport) -> Vec<(Dir, FateName)> {
    report.settled.iter().map(|settled| (dir_of(&settled.candidate), settled.fate.name())).collect()
}

/// Answers as long as it has answers, then suspends the sweep.
#[derive(Debug)]
struct Tape<'t> {
    log: &'t [Answer],
    /// What the survey saw, for a control that does not look again.
    planned: Seen,
    at: Cell<usize>,
    asked: RefCell<Option<Call>>,
}

impl Tape<'_> {
    fn next(&self) -> Option<Answer> {
        let answer = self.log.get(self.at.get()).copied();
        self.at.set(self.at.get() + usize::from(answer.is_some()));
        answer
    }

    fn ask(&self, call: Call) -> Answer {
        self.next().unwrap_or_else(|| {
            self.asked.borrow_mut().get_or_insert(call);
            // Unwinds without a message: this is how a question leaves the sweep.
            resume_unwind(Box::new("suspended"))
        })
    }
}

/// The creators' lock of one directory, held by the sweep.
struct Guard<'t>(&'t Tape<'t>, Dir);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() || self.0.asked.borrow().is_some() || self.0.next().is_some() {
            return;
        }
        *self.0.asked.borrow_mut() = Some(Call::Unlock(self.1));
    }
}

impl<'t> Lock for &'t Tape<'t> {
    type Guard = Guard<'t>;

    fn acquire(&mut self, candidate: &Candidate) -> Result<Guard<'t>, LockBusy> {
        let dir = dir_of(candidate);
        if self.ask(Call::Acquire(dir)) == Answer::Done {
            Ok(Guard(self, dir))
        } else {
            Err(LockBusy { lock: "the creators' lock".into() })
        }
    }
}

impl Observe for &Tape<'_> {
    type Handle = Dir;

    fn refresh(&mut self) -> Result<(), SourceLost> {
        if self.ask(Call::Refresh) == Answer::Done { Ok(()) } else { Err(lost()) }
    }

    fn look_again(&mut self, candidate: &Candidate, _: &Dir) -> Result<Evidence, SourceLost> {
        match self.ask(Call::LookAgain(dir_of(candidate))) {
            Answer::Saw(seen) => Ok(evidence(seen)),
            Answer::AsBefore => Ok(evidence(self.planned)),
            Answer::Done | Answer::Failed | Answer::Vanished | Answer::Stuck => Err(lost()),
        }
    }

    fn second_look(&mut self, candidate: &Candidate, _: &Dir, first: &Evidence) -> Result<Evidence, SourceLost> {
        match self.ask(Call::SecondLook(dir_of(candidate))) {
            Answer::Saw(seen) => Ok(evidence(seen)),
            Answer::AsBefore => Ok(first.clone()),
            Answer::Done | Answer::Failed | Answer::Vanished | Answer::Stuck => Err(lost()),
        }
    }
}

impl Reclaim for &Tape<'_> {
    type Handle = Dir;

    fn open(&mut self, candidate: &Candidate) -> Opened<Dir> {
        let dir = dir_of(candidate);
        match self.ask(Call::Open(dir)) {
            Answer::Done => Opened::Same(dir),
            Answer::Vanished => Opened::Vanished,
            Answer::Failed | Answer::Saw(_) | Answer::AsBefore | Answer::Stuck => Opened::Refused(refusal()),
        }
    }

    fn fence<'lock>(&mut self, permit: RemovalPermit<'lock>, _: &Dir, _: IntentId) -> Result<Fenced<'lock>, Refusal> {
        let call = Call::Fence(dir_of(permit.candidate()));
        if self.ask(call) == Answer::Done { Ok(permit.fenced()) } else { Err(refusal()) }
    }

    fn put_back(&mut self, handle: &Dir, _: IntentId) -> Result<(), Refusal> {
        if self.ask(Call::PutBack(*handle)) == Answer::Done { Ok(()) } else { Err(refusal()) }
    }

    fn set_aside(&mut self, cleared: Cleared<'_>, handle: &Dir, _: IntentId) -> Result<(), Refusal> {
        assert_eq!(dir_of(cleared.candidate()), *handle, "the permit is for the open directory");
        if self.ask(Call::SetAside(*handle)) == Answer::Done { Ok(()) } else { Err(refusal()) }
    }

    fn discard(&mut self, cleared: Cleared<'_>, handle: Dir, _: IntentId) -> Discard {
        assert_eq!(dir_of(cleared.candidate()), handle, "the permit is for the open directory");
        let stuck = self.ask(Call::Discard(handle)) != Answer::Done;
        let refusals = if stuck { vec![refusal()] } else { Vec::new() };
        Discard { discarded: Discarded { entries: 1, bytes: 1 }, refusals }
    }

    fn release(&mut self, candidate: &Candidate) -> Release {
        if self.ask(Call::Release(dir_of(candidate))) == Answer::Done {
            Release::Dropped(NonEmpty::of("record".into()))
        } else {
            Release::Failed("full".into())
        }
    }
}

impl Journal for &Tape<'_> {
    fn intend(&mut self, intent: &Intent) -> Result<IntentId, JournalLost> {
        let dir = dir_of(&intent.candidate);
        if self.ask(Call::Intend(dir)) == Answer::Done { Ok(IntentId(dir.into())) } else { Err(journal_lost()) }
    }

    fn settle(&mut self, intent: IntentId, outcome: &Outcome) -> Result<(), JournalLost> {
        let dir = Dir::try_from(intent.0).expect("because the number of an intent is its directory here");
        if self.ask(Call::Settle(dir, ending(outcome))) == Answer::Done { Ok(()) } else { Err(journal_lost()) }
    }
}

fn ending(outcome: &Outcome) -> Ending {
    match outcome {
        Outcome::Removed { .. } | Outcome::Vanished | Outcome::Resurrected(_) | Outcome::Changed(_) => Ending::Finished,
        Outcome::Quarantined => Ending::SetAside,
        Outcome::Refused { .. } | Outcome::Busy { .. } | Outcome::Interrupted { .. } => Ending::Unfinished,
    }
}

fn refusal() -> Refusal {
    Refusal { path: "/x".into(), why: "not permitted".into() }
}

fn lost() -> SourceLost {
    SourceLost { source_id: SourceId("rows".into()), why: "gone".into() }
}

fn journal_lost() -> JournalLost {
    JournalLost { why: "full".into() }
}

fn candidate(dir: Dir) -> Candidate {
    let name = format!("{dir}");
    Candidate {
        path: PathBuf::from("/root").join(&name),
        below_root: PathBuf::from(&name),
        name: WorkspaceName::new(name).expect("because a digit is one component"),
        identity: FileIdentity { dev: 1, ino: dir.into(), birth: None },
    }
}

fn dir_of(candidate: &Candidate) -> Dir {
    Dir::try_from(candidate.identity.ino).expect("because the model's inode numbers are small")
}

fn evidence(seen: Seen) -> Evidence {
    let source = SourceId("rows".into());
    let claim =
        Claim { source: source.clone(), owner: OwnerId("w".into()), at: ClaimedPath::Here, lease: Lease::Standing };
    let holder = Holder::Process { pid: 1, by: "cwd".into(), command: "agent".into() };
    let channel = Channel("untracked");
    let told = if seen.work == 0 {
        Told::Nothing
    } else {
        let what = format!("work {}", seen.work);
        Told::Losses(NonEmpty::of(Loss { channel, fingerprint: Digest::of(&what), what }))
    };
    let proof = Proof::of(vec![ChannelReport::new(channel, "2 files".into(), told)]);
    let rewritten = Blind { signal: Signal::Unsaved, why: "something was written after the last look".into() };
    Evidence::new(
        vec![SourceReport { source, claims: Observed::Known(if seen.claimed { vec![claim] } else { Vec::new() }) }],
        Observed::Known(Timestamp::new(0, 0)),
        Observed::Known(Layout::Any),
        Observed::Known(if seen.used { vec![holder] } else { Vec::new() }),
        if seen.rewritten { Observed::Unknown(rewritten) } else { Observed::Known(proof) },
    )
    .expect("because a source was asked")
}
