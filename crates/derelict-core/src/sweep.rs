//! The sweep: re-check, intent, fence, second look, discard, release, settle, one directory after
//! the other.
//!
//! A fault of one directory never aborts the pass. A fault of a source or of the journal ends it,
//! and the report of what was done is returned all the same.

use crate::evidence::{Candidate, Evidence};
use crate::ids::{IntentId, NonEmpty, Timestamp};
use crate::outcome::{Discarded, Fate, Outcome, Refusal, StopReason};
use crate::plan::{ApprovedPlan, Judged, Plan, Removal};
use crate::policy::Policy;
use crate::ports::{Journal, JournalLost, Lock, Observe, Opened, Reclaim, SourceLost};
use crate::recheck::{Cleared, Fenced, Recheck, SecondLook, Unsaved, recheck};
use crate::record::{Disposal, Intent, Settled, SweepReport};
use crate::rescue::RescueEntry;
use crate::verdict::{Orphan, Verdict, judge};

/// The world a sweep works on.
#[derive(Debug)]
pub struct World<'w, O, L, R, J> {
    /// Looks.
    pub observe: &'w mut O,
    /// Locks.
    pub lock: &'w mut L,
    /// Acts.
    pub reclaim: &'w mut R,
    /// Records.
    pub journal: &'w mut J,
}

/// What every removal of a sweep is done by.
struct Terms<'t> {
    approved: &'t ApprovedPlan,
    policy: &'t Policy,
    now: Timestamp,
    disposal: Disposal,
}

impl Terms<'_> {
    fn judge(&self, evidence: &Evidence) -> Verdict {
        judge(evidence, self.policy, self.now)
    }
}

/// How one step ended, and whether the sweep can go on.
struct Step {
    intent: Option<IntentId>,
    outcome: Outcome,
    stop: Option<StopReason>,
}

/// Carries out an approved plan. What passes the second look is disposed of as `disposal` says. `halt` is asked before each removal whether the sweep has to end;
/// `progress` is told each directory before its turn.
pub fn sweep<H, O, L, R, J>(
    approved: &ApprovedPlan,
    policy: &Policy,
    now: Timestamp,
    disposal: Disposal,
    world: World<'_, O, L, R, J>,
    mut halt: impl FnMut() -> Option<StopReason>,
    mut progress: impl FnMut(&Removal),
) -> SweepReport
where
    O: Observe<Handle = H>,
    L: Lock,
    R: Reclaim<Handle = H>,
    J: Journal,
{
    let mut world = world;
    let terms = Terms { approved, policy, now, disposal };
    let plan = approved.plan();
    let mut stop = match world.observe.refresh() {
        Ok(()) => None,
        Err(lost) => Some(source_lost(lost)),
    };
    let mut settled = Vec::new();
    for removal in plan.removals() {
        stop = stop.or_else(&mut halt);
        let candidate = removal.judged().candidate.clone();
        if stop.is_some() {
            settled.push(Settled { candidate, intent: None, fate: Fate::NotReached });
            continue;
        }
        progress(removal);
        let step = remove_one(&terms, removal, &mut world);
        settled.push(Settled { candidate, intent: step.intent, fate: Fate::Settled(step.outcome) });
        stop = step.stop;
    }
    settled.extend(not_taken(plan));
    SweepReport { settled, stop: stop.unwrap_or_else(|| planned_stop(plan)) }
}

/// The report of a sweep that only reports: what it would have taken, and what it would have left.
#[must_use]
pub fn report_only(plan: &Plan) -> SweepReport {
    untouched(plan, &Fate::Removable, planned_stop(plan))
}

/// The report of a sweep that was stopped before its first removal.
#[must_use]
pub fn stopped(plan: &Plan, stop: StopReason) -> SweepReport {
    untouched(plan, &Fate::NotReached, stop)
}

fn untouched(plan: &Plan, planned: &Fate, stop: StopReason) -> SweepReport {
    let planned = plan.removals().iter().map(|removal| unattempted(removal.judged(), planned.clone()));
    SweepReport { settled: planned.chain(not_taken(plan)).collect(), stop }
}

/// What the plan leaves: beyond the limits, or kept.
fn not_taken(plan: &Plan) -> impl Iterator<Item = Settled> {
    let beyond = plan.beyond_limit().iter().map(|removal| unattempted(removal.judged(), Fate::BeyondLimit));
    beyond.chain(plan.kept().map(|judged| unattempted(judged, Fate::Kept(judged.verdict.clone()))))
}

fn unattempted(judged: &Judged, fate: Fate) -> Settled {
    Settled { candidate: judged.candidate.clone(), intent: None, fate }
}

fn planned_stop(plan: &Plan) -> StopReason {
    plan.limit().map_or(StopReason::Finished, StopReason::LimitReached)
}

/// Steps 1 to 4 of the removal protocol, for one directory, and what follows from them.
fn remove_one<H, O, L, R, J>(terms: &Terms<'_>, removal: &Removal, world: &mut World<'_, O, L, R, J>) -> Step
where
    O: Observe<Handle = H>,
    L: Lock,
    R: Reclaim<Handle = H>,
    J: Journal,
{
    let candidate = &removal.judged().candidate;
    let guard = match world.lock.acquire(candidate) {
        Ok(guard) => guard,
        Err(busy) => return Step::done(Outcome::Busy { lock: busy.lock }),
    };
    let handle = match world.reclaim.open(candidate) {
        Opened::Same(handle) => handle,
        Opened::Vanished => return Step::done(Outcome::Vanished),
        Opened::Refused(refusal) => return Step::done(refused(refusal)),
    };
    let evidence = match world.observe.look_again(candidate, &handle) {
        Ok(evidence) => evidence,
        Err(lost) => return Step::interrupted(lost.to_string(), source_lost(lost)),
    };
    let verdict = terms.judge(&evidence);
    let permit = match recheck(removal, &evidence, verdict, &guard) {
        Recheck::Confirmed(permit) => permit,
        Recheck::Changed(verdict) => return Step::done(changed(verdict)),
    };
    let intent = Intent {
        candidate: candidate.clone(),
        plan: terms.approved.plan().digest(),
        evidence: permit.evidence(),
        proof: evidence.proof.clone(),
        accepted_losses: permit.accepted_losses(),
        at: terms.now,
        disposal: terms.disposal,
        frees: removal.judged().size.freed_alone(),
    };
    let intent = match world.journal.intend(&intent) {
        Ok(intent) => intent,
        Err(lost) => return Step::interrupted(lost.to_string(), journal_lost(lost)),
    };
    let (outcome, stop) = match world.reclaim.fence(permit, &handle, intent) {
        Err(refusal) => (refused(refusal), None),
        Ok(fenced) => behind_the_fence(terms, removal, fenced, handle, intent, &evidence, world),
    };
    let stop = stop.or(world.journal.settle(intent, &outcome).err().map(journal_lost));
    Step { intent: Some(intent), outcome, stop }
}

/// Steps 6 to 8: the second look, then back, aside or away.
fn behind_the_fence<H, O, L, R, J>(
    terms: &Terms<'_>,
    removal: &Removal,
    fenced: Fenced<'_>,
    handle: H,
    intent: IntentId,
    first: &Evidence,
    world: &mut World<'_, O, L, R, J>,
) -> (Outcome, Option<StopReason>)
where
    O: Observe<Handle = H>,
    R: Reclaim<Handle = H>,
{
    let candidate = &removal.judged().candidate;
    let verdict = match world.observe.second_look(candidate, &handle, first) {
        Ok(evidence) => terms.judge(&evidence),
        Err(lost) => return back(Back::SourceLost(lost), &handle, intent, world.reclaim),
    };
    let (cleared, rescued) = match fenced.second_look(removal, verdict) {
        SecondLook::Changed(verdict) => return back(Back::Changed(verdict), &handle, intent, world.reclaim),
        SecondLook::Cleared(cleared) => (cleared, None),
        SecondLook::ToRescue(unsaved) => match rescue(terms, removal, unsaved, &handle, first, world) {
            Ok((cleared, entry)) => (cleared, Some(entry)),
            Err(why) => return back(why, &handle, intent, world.reclaim),
        },
    };
    (dispose(terms.disposal, candidate, cleared, rescued, handle, intent, world.reclaim), None)
}

/// Carries out what a fenced directory alone holds, and then looks once more: a rescue takes its time.
fn rescue<'lock, H, O, L, R, J>(
    terms: &Terms<'_>,
    removal: &Removal,
    unsaved: Unsaved<'lock>,
    handle: &H,
    first: &Evidence,
    world: &mut World<'_, O, L, R, J>,
) -> Result<(Cleared<'lock>, RescueEntry), Back>
where
    O: Observe<Handle = H>,
    R: Reclaim<Handle = H>,
{
    let candidate = &removal.judged().candidate;
    let salvage = world.observe.salvage(candidate, handle).map_err(|why| {
        let path = candidate.path.clone();
        Back::Refused(Refusal { path, why: format!("not rescued: {why}") })
    })?;
    let entry = world.reclaim.rescue(&unsaved, handle, &*salvage).map_err(Back::Refused)?;
    let evidence = world.observe.second_look(candidate, handle, first).map_err(Back::SourceLost)?;
    let cleared = unsaved.rescued(removal, terms.judge(&evidence)).map_err(Back::Changed)?;
    Ok((cleared, entry))
}

/// Why a fenced directory is put back.
enum Back {
    SourceLost(SourceLost),
    Changed(Verdict),
    Refused(Refusal),
}

fn back<R: Reclaim>(why: Back, handle: &R::Handle, intent: IntentId, reclaim: &mut R) -> (Outcome, Option<StopReason>) {
    let outcome = match (reclaim.put_back(handle, intent), &why) {
        (Ok(()), Back::SourceLost(lost)) => Outcome::Interrupted { why: lost.to_string() },
        (Ok(()), Back::Changed(verdict)) => changed(verdict.clone()),
        (Ok(()), Back::Refused(refusal)) => refused(refusal.clone()),
        (Err(refusal), Back::SourceLost(_) | Back::Changed(_) | Back::Refused(_)) => refused(refusal),
    };
    let stop = match why {
        Back::SourceLost(lost) => Some(source_lost(lost)),
        Back::Changed(_) | Back::Refused(_) => None,
    };
    (outcome, stop)
}

/// Steps 7 and 8. A record is released only when the directory is entirely gone.
fn dispose<R: Reclaim>(
    disposal: Disposal,
    candidate: &Candidate,
    cleared: Cleared<'_>,
    rescued: Option<RescueEntry>,
    handle: R::Handle,
    intent: IntentId,
    reclaim: &mut R,
) -> Outcome {
    match disposal {
        Disposal::Quarantine { .. } => match reclaim.set_aside(cleared, &handle, intent) {
            Ok(()) => Outcome::Quarantined,
            Err(refusal) => refused(refusal),
        },
        Disposal::Discard => {
            let discard = reclaim.discard(cleared, handle, intent);
            match NonEmpty::from_vec(discard.refusals) {
                Some(refusals) => Outcome::Refused { refusals, discarded: discard.discarded },
                None => {
                    let release = reclaim.release(candidate);
                    Outcome::Removed { discarded: discard.discarded, release, rescued }
                }
            }
        }
    }
}

impl Step {
    fn done(outcome: Outcome) -> Self {
        Self { intent: None, outcome, stop: None }
    }

    fn interrupted(why: String, stop: StopReason) -> Self {
        Self { intent: None, outcome: Outcome::Interrupted { why }, stop: Some(stop) }
    }
}

fn refused(refusal: Refusal) -> Outcome {
    Outcome::Refused { refusals: NonEmpty::of(refusal), discarded: Discarded { entries: 0, bytes: 0 } }
}

/// Became live again, or became something else: the first is a near miss and has a name of its own.
fn changed(verdict: Verdict) -> Outcome {
    match &verdict {
        Verdict::Referenced(_) | Verdict::Disputed(_) | Verdict::Orphaned(Orphan::Held(_)) => {
            Outcome::Resurrected(verdict)
        }
        Verdict::Undetermined(_) | Verdict::Orphaned(Orphan::Unsaved(_) | Orphan::Clean) => Outcome::Changed(verdict),
    }
}

fn source_lost(lost: SourceLost) -> StopReason {
    StopReason::SourceLost { source: lost.source_id, why: lost.why }
}

fn journal_lost(lost: JournalLost) -> StopReason {
    StopReason::JournalLost(lost.why)
}
