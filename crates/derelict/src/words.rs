//! Verdicts, fates and breakers in words: why a directory stays, what would change that, how each ended.
//!
//! The rules themselves are in `derelict-core`; nothing is decided here. The words may carry foreign names as they
//! are: whoever prints them on a terminal passes them through [`crate::text::sentence`].

use derelict_core::evidence::{Blind, Claim, ClaimedPath, Evidence, Holder, Lease, Observed, Signal};
use derelict_core::outcome::{Breaker, Fate, Outcome, Release, StopReason};
use derelict_core::verdict::{Hold, Orphan, Verdict};

use crate::findings::Unfinished;
use crate::text;

/// Every reason for a verdict, one sentence each.
pub(crate) fn reasons(verdict: &Verdict) -> Vec<String> {
    match verdict {
        Verdict::Referenced(claim) => vec![self::claim(claim)],
        Verdict::Disputed(claims) => claims.iter().map(self::claim).collect(),
        Verdict::Undetermined(blinds) => blinds.iter().map(blind).collect(),
        Verdict::Orphaned(Orphan::Held(holds)) => holds.iter().map(hold).collect(),
        Verdict::Orphaned(Orphan::Unsaved(losses)) => losses.iter().map(|loss| loss.what.clone()).collect(),
        Verdict::Orphaned(Orphan::Clean) => {
            vec!["nobody owns or uses it, and nothing in it is the only copy".into()]
        }
    }
}

/// How many reasons fit into one line of a report; `derelict explain` and `--json` give them all.
const SHOWN_REASONS: usize = 3;

/// The reasons in one line: the first few, and how many more there are.
pub(crate) fn reason_line(verdict: &Verdict) -> String {
    listed(&reasons(verdict))
}

/// The first few in one line, and how many more there are.
pub(crate) fn listed(reasons: &[impl AsRef<str>]) -> String {
    let shown = reasons.iter().take(SHOWN_REASONS).map(AsRef::as_ref).collect::<Vec<_>>().join("; ");
    match reasons.len().saturating_sub(SHOWN_REASONS) {
        0 => shown,
        more => format!("{shown}; and {} more", text::number(more as u64)),
    }
}

/// What would be a loss if the policy had not let it go.
pub(crate) fn allowed(evidence: &Evidence) -> Vec<&str> {
    match &evidence.proof {
        Observed::Known(proof) => proof.allowed.iter().map(|loss| loss.what.as_str()).collect(),
        Observed::Unknown(_) => Vec::new(),
    }
}

/// What would change a verdict; `None` for a directory that may go.
pub(crate) fn remedy(verdict: &Verdict) -> Option<String> {
    match verdict {
        Verdict::Referenced(claim) => Some(released_when(claim)),
        Verdict::Disputed(_) => Some("mend the records so that they agree; not even --force removes it".into()),
        Verdict::Undetermined(blinds) => Some(seen_when(blinds.first().signal).into()),
        Verdict::Orphaned(Orphan::Held(holds)) => Some(let_go_when(holds.first())),
        Verdict::Orphaned(Orphan::Unsaved(_)) => {
            Some("save that elsewhere, or let it go with --rescue or --force".into())
        }
        Verdict::Orphaned(Orphan::Clean) => None,
    }
}

/// The rules of the definition of garbage, by their place in the order of certainty.
pub(crate) const RULES: [&str; 6] = [
    "1 of 6: a living owner that claims the directory settles it",
    "2 of 6: sources that contradict each other are mended, not deleted over",
    "3 of 6: what could not be seen keeps, and force cannot step over it",
    "4 of 6: nobody owns it, and something holds it for now",
    "5 of 6: nobody owns it, and it holds the only copy of something",
    "6 of 6: nobody owns it, nothing holds it, and nothing would be lost",
];

/// The rule of the definition of garbage that decided.
pub(crate) fn rule(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Referenced(_) => RULES[0],
        Verdict::Disputed(_) => RULES[1],
        Verdict::Undetermined(_) => RULES[2],
        Verdict::Orphaned(Orphan::Held(_)) => RULES[3],
        Verdict::Orphaned(Orphan::Unsaved(_)) => RULES[4],
        Verdict::Orphaned(Orphan::Clean) => RULES[5],
    }
}

/// One claim as a sentence.
pub(crate) fn claim(claim: &Claim) -> String {
    let Claim { source, owner, at, lease } = claim;
    let place = match at {
        ClaimedPath::Here => "opens it".to_owned(),
        ClaimedPath::Within => "opens a directory inside it".to_owned(),
        ClaimedPath::Above => "opens a directory above it".to_owned(),
        ClaimedPath::Elsewhere(place) => format!("is recorded for it but says it lives at {place}"),
    };
    let until = match lease {
        Lease::Standing => String::new(),
        Lease::LastUsed(at) => format!(", last used {}", text::instant(*at)),
        Lease::Held { reason } => format!(", held: {reason}"),
    };
    format!("{source}: {owner} {place}{until}")
}

/// One blind spot as a sentence.
pub(crate) fn blind(blind: &Blind) -> String {
    format!("{} could not be told: {}", signal(blind.signal), blind.why)
}

/// What a signal is about.
pub(crate) fn signal(signal: Signal) -> &'static str {
    match signal {
        Signal::Owner => "the owner",
        Signal::Age => "the age",
        Signal::Layout => "the layout",
        Signal::Use => "whether it is in use",
        Signal::Unsaved => "whether something would be lost",
    }
}

/// One hold as a sentence.
pub(crate) fn hold(hold: &Hold) -> String {
    match hold {
        Hold::Fresh { touched, cutoff } => {
            format!("touched {}, after the cutoff {}", text::instant(*touched), text::instant(*cutoff))
        }
        Hold::UnexpectedLayout(found) => format!("its top level is not the expected one: {found}"),
        Hold::NestedCheckout(path) => format!("a checkout lies inside: {}", text::path(path)),
        Hold::InUse(holder) => self::holder(holder),
        Hold::Leased { reason } => format!("its owner source holds it: {reason}"),
        Hold::ClockSkew { touched, now } => {
            format!("touched {}, but it is {} now: a clock is wrong", text::instant(*touched), text::instant(*now))
        }
    }
}

/// One user of a directory as a sentence.
pub(crate) fn holder(holder: &Holder) -> String {
    match holder {
        Holder::Process { pid, by, command } => format!("process {pid} ({command}) is in it: {by}"),
        Holder::Mount(path) => format!("something is mounted in it: {}", text::path(path)),
        Holder::System(what) => what.clone(),
        Holder::DirectoryLock => "somebody holds a lock on the directory".into(),
        Holder::Dependent(what) => what.clone(),
        Holder::GitLock(path) => format!("git holds a lock in it: {}", text::path(path)),
        Holder::Marker(reason) => format!("a .derelict-keep marker keeps it: {reason}"),
    }
}

fn released_when(claim: &Claim) -> String {
    match &claim.lease {
        Lease::Standing => format!("stays until {} no longer lists {}", claim.source, claim.owner),
        Lease::LastUsed(_) => "stays until its last use lies outside the window".into(),
        Lease::Held { .. } => "stays until its owner source lets go".into(),
    }
}

fn seen_when(signal: Signal) -> &'static str {
    match signal {
        Signal::Owner => "stays until the records of its owner can be read",
        Signal::Age => "stays until its times can be read",
        Signal::Layout => "stays until its top level can be read",
        Signal::Use => "stays until its users can be seen",
        Signal::Unsaved => "stays until that can be read; look at it by hand",
    }
}

fn let_go_when(hold: &Hold) -> String {
    match hold {
        Hold::Fresh { .. } => "stays until it is old enough".into(),
        Hold::UnexpectedLayout(_) => "look at it by hand".into(),
        Hold::NestedCheckout(_) => "move the checkout elsewhere".into(),
        Hold::InUse(Holder::Process { .. }) => "stays until the process leaves it".into(),
        Hold::InUse(Holder::Mount(_)) => "unmount it".into(),
        Hold::InUse(Holder::System(_)) => "stays until that use of it ends".into(),
        Hold::InUse(Holder::DirectoryLock) => "stays until the lock is released".into(),
        Hold::InUse(Holder::Dependent(_)) => "remove what depends on it first, or give it objects of its own".into(),
        Hold::InUse(Holder::GitLock(_)) => "let git finish, or delete the lock file if no git runs".into(),
        Hold::InUse(Holder::Marker(_)) => "delete the marker".into(),
        Hold::Leased { .. } => "stays until its owner source lets go".into(),
        Hold::ClockSkew { .. } => "set the clock, or touch the directory".into(),
    }
}

/// What a breaker saw, and why that stops a sweep.
pub(crate) fn breaker(breaker: &Breaker) -> String {
    match breaker {
        Breaker::EmptySource { candidates } => format!(
            "no living owner at all is listed, which would leave {} unowned",
            text::count(*candidates, text::DIRECTORY)
        ),
        Breaker::SourceShrank { before, now } => {
            format!("{} listed, and {} at the last sweep", text::count(*now, text::OWNER), text::number(*before))
        }
        Breaker::MassOrphaning { before, now } => format!(
            "{} referenced, and {} at the last sweep",
            text::count(*now, text::DIRECTORY),
            text::number(*before)
        ),
        Breaker::ClockStepped { last, now } => {
            format!("the last sweep ran {}, and it is {} now", text::instant(*last), text::instant(*now))
        }
        Breaker::SourceClock { source, here } => {
            format!(
                "the owner source says that it is {}, and here it is {}",
                text::instant(*source),
                text::instant(*here)
            )
        }
        Breaker::RootReplaced => "the root is another directory or file system than at the last sweep".into(),
    }
}

/// A removal that an earlier run left in hand, as a sentence.
pub(crate) fn unfinished(unfinished: &Unfinished) -> String {
    format!("an earlier run was interrupted at {}; the next removal settles that first", text::path(&unfinished.path))
}

/// How one directory ended, as a sentence.
pub(crate) fn fate(fate: &Fate) -> String {
    match fate {
        Fate::Kept(verdict) => format!("kept: {}", reason_line(verdict)),
        Fate::Removable => "would be removed".into(),
        Fate::BeyondLimit => "left for later: beyond the limit".into(),
        Fate::NotReached => "not reached: the sweep ended before its turn".into(),
        Fate::Settled(outcome) => self::outcome(outcome),
    }
}

fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Removed { release, rescued, .. } => {
            let how = match rescued {
                Some(entry) => format!("removed once rescued as {}", entry.name),
                None => "removed".to_owned(),
            };
            match release {
                Release::Dropped(keys) => format!("{how}, with {}", text::count(keys.count() as u64, text::RECORD)),
                Release::NothingRecorded => how,
                Release::Failed(why) => format!("{how}, but its record stays: {why}"),
            }
        }
        Outcome::Quarantined => "set aside until its grace is over".into(),
        Outcome::Vanished => "vanished before its turn".into(),
        Outcome::Resurrected(verdict) => {
            format!("kept: it came into use since the plan was shown: {}", reason_line(verdict))
        }
        Outcome::Changed(verdict) => {
            format!("kept: it is not what the plan showed any more: {}", reason_line(verdict))
        }
        Outcome::Refused { refusals, discarded } => {
            let why = refusals.iter().map(|refusal| format!("{}: {}", text::path(&refusal.path), refusal.why));
            let why = why.collect::<Vec<_>>().join("; ");
            match discarded.entries {
                0 => format!("would not go: {why}"),
                gone => format!("partly removed ({}); the rest would not go: {why}", text::count(gone, text::ENTRY)),
            }
        }
        Outcome::Busy { lock } => format!("kept: busy, perhaps with a launch: {lock}; try again later"),
        Outcome::Interrupted { why } => format!("interrupted: {why}; the next run settles it"),
    }
}

/// Why a sweep ended, as a sentence; `None` when everything planned was attempted.
pub(crate) fn stop(stop: &StopReason) -> Option<String> {
    match stop {
        StopReason::Finished => None,
        StopReason::LimitReached(limit) => {
            Some(format!("the limit of {} left some directories for a later run", limit.name()))
        }
        StopReason::SourceLost { source, why } => Some(format!("stopped: {source} could not be asked again: {why}")),
        StopReason::BreakerTripped(breaker) => {
            Some(format!("stopped before the first removal: {}", self::breaker(breaker)))
        }
        StopReason::JournalLost(why) => Some(format!("stopped: the journal could not be written: {why}")),
        StopReason::RootAbsent(root) => Some(format!("stopped: {} is missing or cannot be read", text::path(root))),
        StopReason::Deadline => Some("stopped at its deadline; what was in hand was finished".into()),
        StopReason::Cancelled => Some("stopped on request; what was in hand was finished".into()),
    }
}

#[cfg(test)]
mod tests {
    use derelict_core::evidence::{Channel, Loss};
    use derelict_core::ids::{Digest, NonEmpty, OwnerId, SourceId};

    use super::*;

    fn claim_at(at: ClaimedPath) -> Claim {
        Claim { source: SourceId("devpod".into()), owner: OwnerId("api-1".into()), at, lease: Lease::Standing }
    }

    fn unsaved(losses: usize) -> Verdict {
        let loss = |n| Loss {
            channel: Channel("untracked"),
            what: format!("untracked: f{n}"),
            fingerprint: Digest::of_bytes(b""),
        };
        let losses = NonEmpty::from_vec((1..=losses).map(loss).collect()).expect("because there is at least one");
        Verdict::Orphaned(Orphan::Unsaved(losses))
    }

    #[test]
    fn every_kept_verdict_says_what_would_change_it_and_a_clean_orphan_needs_nothing() {
        let blind = Blind { signal: Signal::Owner, why: "metadata.json: not JSON".into() };
        let kept = [
            Verdict::Referenced(claim_at(ClaimedPath::Here)),
            Verdict::Disputed(NonEmpty::of(claim_at(ClaimedPath::Elsewhere("/w".into())))),
            Verdict::Undetermined(NonEmpty::of(blind)),
            Verdict::Orphaned(Orphan::Held(NonEmpty::of(Hold::InUse(Holder::DirectoryLock)))),
            unsaved(1),
        ];
        for verdict in &kept {
            assert!(remedy(verdict).is_some(), "{verdict:?}");
        }
        assert_eq!(remedy(&Verdict::Orphaned(Orphan::Clean)), None);
    }

    #[test]
    fn many_losses_are_named_by_the_first_few_and_counted() {
        assert_eq!(reason_line(&unsaved(3)), "untracked: f1; untracked: f2; untracked: f3");
        assert_eq!(reason_line(&unsaved(5)), "untracked: f1; untracked: f2; untracked: f3; and 2 more");
        assert_eq!(reasons(&unsaved(5)).len(), 5);
    }

    #[test]
    fn a_claim_names_its_source_its_owner_and_its_place() {
        assert_eq!(claim(&claim_at(ClaimedPath::Within)), "devpod: api-1 opens a directory inside it");
        let elsewhere = claim(&claim_at(ClaimedPath::Elsewhere("/w".into())));
        assert_eq!(elsewhere, "devpod: api-1 is recorded for it but says it lives at /w");
    }

    #[test]
    fn only_a_finished_sweep_needs_no_words() {
        assert_eq!(stop(&StopReason::Finished), None);
        assert!(stop(&StopReason::Cancelled).is_some());
    }
}
