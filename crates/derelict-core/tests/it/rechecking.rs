//! The re-check: the last word is what is seen now, never what was planned.

use derelict_core::evidence::{Holder, Observed};
use derelict_core::plan::{Plan, Removal};
use derelict_core::policy::{Force, Limits, Selection};
use derelict_core::recheck::{Recheck, SecondLook, recheck};
use derelict_core::verdict::judge;

use crate::support::{NOW, POLICY, Parts, clean, judged, unsaved};

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
