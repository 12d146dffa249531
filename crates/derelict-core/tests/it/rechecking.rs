//! The re-check: the last word is what is seen now, never what was planned.

use derelict_core::evidence::{ClaimedPath, Holder, Lease, Observed, Signal};
use derelict_core::ids::{Digest, Timestamp};
use derelict_core::plan::{Plan, Removal};
use derelict_core::policy::{Force, Limits, Selection};
use derelict_core::recheck::{Expiry, Grace, Recheck, SecondLook, expire, recheck};
use derelict_core::verdict::{judge, losses_digest};

use crate::support::{NOW, POLICY, Parts, blind, candidate, claim, clean, judged, unsaved};

fn planned(parts: Parts) -> Removal {
    let plan = Plan::new(vec![judged("w", 1, parts)], &Selection::new(Force::UnsavedAsShown, Limits::NONE));
    plan.removals()[0].clone()
}

/// Whether what is seen now may still go, and whether losses are accepted with it.
fn confirmed(planned: &Removal, now: Parts) -> Option<bool> {
    let evidence = now.evidence();
    let verdict = judge(&evidence, &POLICY, NOW);
    match recheck(planned, &evidence, verdict.clone(), &()) {
        Recheck::Confirmed(permit) => {
            assert_eq!(permit.candidate(), &planned.judged().candidate);
            assert_eq!(permit.evidence(), evidence.digest());
            let accepted = permit.accepted_losses();
            let fenced = permit.fenced();
            assert_eq!(fenced.candidate(), &planned.judged().candidate);
            let SecondLook::Cleared(cleared) = fenced.second_look(planned, verdict) else { panic!("nothing changed") };
            assert_eq!(cleared.candidate(), &planned.judged().candidate);
            Some(accepted.is_some())
        }
        Recheck::Changed(changed) => {
            assert_eq!(changed, verdict);
            None
        }
    }
}

#[test]
fn a_clean_orphan_must_still_be_one() {
    let planned = planned(clean());
    assert_eq!(confirmed(&planned, clean()), Some(false));
    assert_eq!(confirmed(&planned, unsaved("written meanwhile")), None);
    assert_eq!(confirmed(&planned, Parts { uses: Observed::Known(vec![Holder::DirectoryLock]), ..clean() }), None);
}

#[test]
fn force_accepts_the_losses_that_were_shown_and_no_others() {
    let planned = planned(unsaved("shown"));
    assert_eq!(confirmed(&planned, unsaved("shown")), Some(true));
    assert_eq!(confirmed(&planned, unsaved("another")), None);
    assert_eq!(
        confirmed(&planned, Parts { uses: Observed::Known(vec![Holder::DirectoryLock]), ..unsaved("shown") }),
        None
    );
    assert_eq!(confirmed(&planned, clean()), Some(false), "saved meanwhile");
}

#[test]
fn the_second_look_decides_by_the_same_rule() {
    let planned = planned(unsaved("shown"));
    let look = |then: Parts| {
        let first = unsaved("shown").evidence();
        let verdict = judge(&first, &POLICY, NOW);
        let Recheck::Confirmed(permit) = recheck(&planned, &first, verdict, &()) else { panic!("nothing changed") };
        let verdict = judge(&then.evidence(), &POLICY, NOW);
        match permit.fenced().second_look(&planned, verdict.clone()) {
            SecondLook::Cleared(_) => true,
            SecondLook::ToRescue(_) => panic!("nothing was to be rescued"),
            SecondLook::Changed(changed) => {
                assert_eq!(changed, verdict);
                false
            }
        }
    };
    assert!(look(unsaved("shown")));
    assert!(!look(unsaved("another")));
    assert!(!look(Parts { uses: Observed::Known(vec![Holder::DirectoryLock]), ..unsaved("shown") }));
}

/// What becomes of a directory that was set aside until `until`, by what is seen of it now.
fn expired(until: Timestamp, accepted_losses: Option<Digest>, now: Parts) -> &'static str {
    let (candidate, evidence) = (candidate("w", 1), now.evidence());
    let verdict = judge(&evidence, &POLICY, NOW);
    match expire(&candidate, &Grace { until, accepted_losses }, &evidence, verdict.clone(), NOW, &()) {
        Expiry::Cleared(cleared) => {
            assert_eq!(cleared.candidate(), &candidate);
            "goes"
        }
        Expiry::Wanted(told) => {
            assert_eq!(told, verdict);
            "goes back"
        }
        Expiry::Unseen(told) => {
            assert_eq!(told, verdict);
            "stays"
        }
        Expiry::NotYet => "waits",
    }
}

#[test]
fn what_was_set_aside_goes_when_its_grace_is_over_and_nobody_asked_for_it() {
    let later = NOW.after(std::time::Duration::from_nanos(1));
    assert_eq!(expired(NOW, None, clean()), "goes");
    assert_eq!(expired(later, None, clean()), "waits");
    assert_eq!(expired(later, None, Parts { claims: owned(), ..clean() }), "waits");
    assert_eq!(expired(NOW, None, Parts { claims: owned(), ..clean() }), "goes back");
    assert_eq!(
        expired(NOW, None, Parts { uses: Observed::Known(vec![Holder::DirectoryLock]), ..clean() }),
        "goes back"
    );
    assert_eq!(expired(NOW, None, unsaved("written in it")), "goes back");
    assert_eq!(expired(NOW, None, Parts { claims: Observed::Unknown(blind(Signal::Owner)), ..clean() }), "stays");
    assert_eq!(expired(NOW, None, Parts { proof: Observed::Unknown(blind(Signal::Unsaved)), ..clean() }), "stays");
}

#[test]
fn force_reaches_over_the_grace_to_the_same_losses_and_no_others() {
    let shown = judge(&unsaved("shown").evidence(), &POLICY, NOW);
    let accepted = shown.losses().map(losses_digest);
    assert!(accepted.is_some());
    assert_eq!(expired(NOW, accepted, unsaved("shown")), "goes");
    assert_eq!(expired(NOW, accepted, unsaved("another")), "goes back");
    assert_eq!(expired(NOW, accepted, Parts { claims: owned(), ..unsaved("shown") }), "goes back");
}

fn owned() -> Observed<Vec<derelict_core::evidence::Claim>> {
    Observed::Known(vec![claim(ClaimedPath::Here, Lease::Standing)])
}
