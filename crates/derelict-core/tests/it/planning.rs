//! The plan: what is selected, in which order, how far the limits reach, and what consent binds.

use derelict_core::evidence::{Holder, Observed, Signal};
use derelict_core::ids::Digest;
use derelict_core::plan::{Consent, Judged, Plan, Removal};
use derelict_core::policy::{Force, Limits, Selection};
use derelict_core::size::{Completeness, Size};
use derelict_core::verdict::losses_digest;
use proptest::prelude::*;

use crate::support::{Parts, any_parts, blind, clean, judged, unsaved};

const NO_LIMITS: Limits = Limits::NONE;

fn names(removals: &[Removal]) -> Vec<String> {
    removals
        .iter()
        .map(|removal| String::from_utf8_lossy(removal.judged().candidate.name.as_bytes()).into_owned())
        .collect()
}

fn kept(plan: &Plan) -> Vec<String> {
    plan.kept().map(|judged| String::from_utf8_lossy(judged.candidate.name.as_bytes()).into_owned()).collect()
}

fn some() -> Vec<Judged> {
    vec![
        judged("small", 1, clean()),
        judged("work", 5, unsaved("x")),
        judged("big", 9, clean()),
        judged("mid", 4, clean()),
    ]
}

#[test]
fn clean_orphans_go_biggest_first_and_the_rest_stays() {
    let plan = Plan::new(some(), &Selection::new(Force::No, NO_LIMITS));
    assert_eq!(names(plan.removals()), ["big", "mid", "small"]);
    assert_eq!(kept(&plan), ["work"]);
    assert_eq!((plan.frees().bytes, plan.frees().inodes), (14, 3));
    assert!(plan.beyond_limit().is_empty());
}

#[test]
fn directories_of_one_size_are_in_the_order_of_their_names() {
    let plan = Plan::new(vec![judged("b", 1, clean()), judged("a", 1, clean())], &Selection::new(Force::No, NO_LIMITS));
    assert_eq!(names(plan.removals()), ["a", "b"]);
    let plan = Plan::new(
        vec![judged("b", 1, unsaved("x")), judged("c", 2, unsaved("x")), judged("a", 1, unsaved("x"))],
        &Selection::new(Force::No, NO_LIMITS),
    );
    assert_eq!(kept(&plan), ["c", "a", "b"]);
}

#[test]
fn force_promotes_unsaved_work_and_nothing_else() {
    let unknown = Parts { proof: Observed::Unknown(blind(Signal::Unsaved)), ..clean() };
    let used = Parts { uses: Observed::Known(vec![Holder::DirectoryLock]), ..unsaved("x") };
    let all = vec![
        judged("work", 3, unsaved("x")),
        judged("unknown", 2, unknown),
        judged("used", 1, used),
        judged("clean", 1, clean()),
    ];
    let plan = Plan::new(all, &Selection::new(Force::UnsavedAsShown, NO_LIMITS));
    assert_eq!(names(plan.removals()), ["work", "clean"]);
    assert_eq!(kept(&plan), ["unknown", "used"]);
    let work = plan.removals()[0].clone();
    assert_eq!(work.accepted_losses(), work.judged().verdict.losses().map(losses_digest));
    assert_eq!(plan.removals()[1].accepted_losses(), None);
}

#[test]
fn limits_take_what_fits_and_name_what_is_beyond() {
    let limited =
        |removals, bytes| Plan::new(some(), &Selection::new(Force::No, Limits { removals, bytes, ..Limits::NONE }));
    let plan = limited(Some(1), None);
    assert_eq!(
        (names(plan.removals()), names(plan.beyond_limit())),
        (vec!["big".into()], vec!["mid".into(), "small".into()])
    );
    let plan = limited(None, Some(5));
    assert_eq!(
        (names(plan.removals()), names(plan.beyond_limit())),
        (vec!["mid".into(), "small".into()], vec!["big".into()])
    );
    let plan = limited(None, Some(13));
    assert_eq!(
        (names(plan.removals()), names(plan.beyond_limit())),
        (vec!["big".into(), "mid".into()], vec!["small".into()])
    );
    let plan = limited(Some(0), None);
    assert_eq!((plan.removals().len(), plan.beyond_limit().len()), (0, 3));
    assert_eq!(plan.frees().bytes, 0);
}

#[test]
fn only_the_plan_that_was_seen_is_approved() {
    let plan = Plan::new(some(), &Selection::new(Force::No, NO_LIMITS));
    let other = Plan::new(some(), &Selection::new(Force::UnsavedAsShown, NO_LIMITS));
    assert_ne!(plan.digest(), other.digest());
    let seen = Consent::Operator { seen: plan.digest() };
    let mismatch = other.approve(seen).expect_err("because another plan was seen");
    assert!(mismatch.to_string().contains(&plan.digest().to_string()));
    let approved = plan.clone().approve(seen).expect("because it was seen");
    assert_eq!((approved.plan(), approved.consent()), (&plan, seen));
    let standing = Consent::Standing { policy: Digest::of(&"policy") };
    assert_eq!(plan.approve(standing).expect("because a policy was armed").consent(), standing);
}

#[test]
fn the_digest_changes_with_whatever_a_person_agrees_to() {
    let digest = |all: Vec<Judged>, limits| Plan::new(all, &Selection::new(Force::UnsavedAsShown, limits)).digest();
    let same = digest(some(), NO_LIMITS);
    assert_eq!(same, digest(some(), NO_LIMITS));
    let mut other_loss = some();
    other_loss[1] = judged("work", 5, unsaved("y"));
    assert_ne!(same, digest(other_loss, NO_LIMITS), "other losses");
    let mut other_identity = some();
    other_identity[0].candidate.identity.ino += 1;
    assert_ne!(same, digest(other_identity, NO_LIMITS), "another directory of that name");
    assert_ne!(same, digest(some(), Limits { removals: Some(3), ..Limits::NONE }), "another limit");
    let mut one_more = some();
    one_more.push(judged("held", 1, Parts { uses: Observed::Known(vec![Holder::DirectoryLock]), ..clean() }));
    assert_ne!(same, digest(one_more, NO_LIMITS), "one more that stays");
}

#[test]
fn a_set_that_is_not_wholly_read_frees_at_least() {
    let mut all = some();
    let part = Completeness::AtLeast { why: "cannot list x".into() };
    all[0].size = Size { completeness: part.clone(), ..all[0].size.clone() };
    assert_eq!(Plan::new(all, &Selection::new(Force::No, NO_LIMITS)).frees().completeness, part);
}

proptest! {
    #[test]
    fn every_directory_is_in_the_plan_exactly_once_and_no_limit_is_exceeded(
        parts in proptest::collection::vec((any_parts(), 0_u64..1000), 0..40),
        removals in proptest::option::of(0_u64..20),
        bytes in proptest::option::of(0_u64..5000),
        force in prop_oneof![Just(Force::No), Just(Force::UnsavedAsShown)],
    ) {
        let all: Vec<Judged> = parts.into_iter().enumerate().map(|(n, (parts, bytes))| judged(&format!("w{n}"), bytes, parts)).collect();
        let plan = Plan::new(all.clone(), &Selection::new(force, Limits { removals, bytes, ..Limits::NONE }));
        let mut seen = names(plan.removals());
        seen.extend(names(plan.beyond_limit()));
        seen.extend(kept(&plan));
        seen.sort();
        let mut want: Vec<String> = (0..all.len()).map(|n| format!("w{n}")).collect();
        want.sort();
        prop_assert_eq!(seen, want);
        prop_assert!(plan.removals().len() as u64 <= removals.unwrap_or(u64::MAX));
        prop_assert!(plan.frees().bytes <= bytes.unwrap_or(u64::MAX));
        for removal in plan.removals().iter().chain(plan.beyond_limit()) {
            let verdict = &removal.judged().verdict;
            prop_assert!(verdict.is_clean_orphan() || (verdict.losses().is_some() && force == Force::UnsavedAsShown));
        }
        if removals.is_none() && bytes.is_none() {
            prop_assert!(plan.beyond_limit().is_empty());
        }
    }
}
