//! `judge`: the four arms, each guard alone, and what must hold for every combination of signals.

use std::time::Duration;

use derelict_core::evidence::{Answer, Claim, ClaimedPath, Holder, Layout, Lease, Observed, Signal};
use derelict_core::ids::{NonEmpty, Timestamp};
use derelict_core::outcome::verdict_label;
use derelict_core::policy::{Policy, Window};
use derelict_core::verdict::{Hold, Orphan, Verdict, judge};
use proptest::prelude::*;

use crate::support::{DAY, NOW, POLICY, Parts, answer, any_parts, blind, claim, clean, loss, unsaved};

fn verdict(parts: Parts) -> Verdict {
    judge(&parts.evidence(), &POLICY, NOW)
}

fn holds(parts: Parts, policy: &Policy) -> Vec<Hold> {
    let verdict = judge(&parts.evidence(), policy, NOW);
    let Verdict::Orphaned(Orphan::Held(holds)) = verdict else { panic!("expected a hold, got {verdict:?}") };
    holds.as_slice().to_vec()
}

fn claimed(at: ClaimedPath, lease: Lease) -> (Claim, Parts) {
    let claim = claim(at, lease);
    (claim.clone(), Parts { claims: Observed::Known(vec![claim]), ..clean() })
}

#[test]
fn a_directory_that_nobody_claims_uses_or_needs_is_clean() {
    assert_eq!(verdict(clean()), Verdict::Orphaned(Orphan::Clean));
}

#[test]
fn a_claim_here_within_or_above_references() {
    for at in [ClaimedPath::Here, ClaimedPath::Within, ClaimedPath::Above] {
        let (claim, parts) = claimed(at, Lease::Standing);
        assert_eq!(verdict(parts), Verdict::Referenced(claim));
    }
}

#[test]
fn a_living_owner_elsewhere_disputes_and_one_here_settles_it() {
    let (elsewhere, parts) = claimed(ClaimedPath::Elsewhere("/e".into()), Lease::Standing);
    assert_eq!(verdict(parts.clone()), Verdict::Disputed(NonEmpty::of(elsewhere.clone())));
    let here = claim(ClaimedPath::Here, Lease::Standing);
    let both = Parts { claims: Observed::Known(vec![elsewhere, here.clone()]), ..parts };
    assert_eq!(verdict(both), Verdict::Referenced(here));
}

#[test]
fn each_signal_that_could_not_be_read_makes_it_undetermined() {
    let each = [
        (Signal::Owner, Parts { claims: Observed::Unknown(blind(Signal::Owner)), ..clean() }),
        (Signal::Age, Parts { touched: Observed::Unknown(blind(Signal::Age)), ..clean() }),
        (Signal::Layout, Parts { layout: Observed::Unknown(blind(Signal::Layout)), ..clean() }),
        (Signal::Use, Parts { uses: Observed::Unknown(blind(Signal::Use)), ..clean() }),
        (Signal::Unsaved, Parts { proof: Observed::Unknown(blind(Signal::Unsaved)), ..clean() }),
    ];
    for (signal, parts) in each {
        assert_eq!(verdict(parts), Verdict::Undetermined(NonEmpty::of(blind(signal))));
    }
}

#[test]
fn a_channel_that_could_not_tell_outweighs_one_that_found_a_loss() {
    let mut proof = answer(Answer::Unknown(NonEmpty::of("cannot read x".into())));
    proof.channels.extend(answer(Answer::Losses(NonEmpty::of(loss("y")))).channels);
    let Verdict::Undetermined(blinds) = verdict(Parts { proof: Observed::Known(proof), ..clean() }) else {
        panic!("force must never step over what could not be told");
    };
    assert_eq!((blinds.first().signal, blinds.first().why.as_str()), (Signal::Unsaved, "cannot read x"));
}

#[test]
fn losses_of_all_channels_are_told() {
    let mut proof = answer(Answer::Losses(NonEmpty::of(loss("x"))));
    proof.channels.extend(answer(Answer::Nothing).channels);
    proof.channels.extend(answer(Answer::Losses(NonEmpty::of(loss("y")))).channels);
    let Verdict::Orphaned(Orphan::Unsaved(losses)) = verdict(Parts { proof: Observed::Known(proof), ..clean() }) else {
        panic!("two losses");
    };
    assert_eq!(losses.as_slice(), [loss("x"), loss("y")]);
}

#[test]
fn whoever_uses_it_holds_it_before_anything_is_said_of_its_work() {
    let holder = Holder::Process { pid: 7, by: "cwd".into(), command: "sh".into() };
    let parts = Parts { uses: Observed::Known(vec![holder.clone(), Holder::DirectoryLock]), ..unsaved("x") };
    assert_eq!(holds(parts, &POLICY), [Hold::InUse(holder), Hold::InUse(Holder::DirectoryLock)]);
}

#[test]
fn an_unexpected_layout_and_a_nested_checkout_hold_and_the_expected_one_does_not() {
    let with = |layout| Parts { layout: Observed::Known(layout), ..clean() };
    assert_eq!(holds(with(Layout::Unexpected("third".into())), &POLICY), [Hold::UnexpectedLayout("third".into())]);
    assert_eq!(holds(with(Layout::NestedCheckout("home/x".into())), &POLICY), [Hold::NestedCheckout("home/x".into())]);
    assert_eq!(verdict(with(Layout::Expected)), Verdict::Orphaned(Orphan::Clean));
}

#[test]
fn a_lease_decides_by_last_use_and_the_cutoff_itself_still_keeps() {
    let policy = Policy { window: Window::Idle(30 * DAY), ..POLICY };
    let at = |instant| claimed(ClaimedPath::Here, Lease::LastUsed(instant));
    let cutoff = NOW.before(30 * DAY);
    let (claim, parts) = at(cutoff);
    assert_eq!(judge(&parts.evidence(), &policy, NOW), Verdict::Referenced(claim));
    let (_, parts) = at(cutoff.before(Duration::from_nanos(1)));
    assert_eq!(judge(&parts.evidence(), &policy, NOW), Verdict::Orphaned(Orphan::Clean));
    let (claim, parts) = at(NOW.before(1000 * DAY));
    assert_eq!(judge(&parts.evidence(), &POLICY, NOW), Verdict::Referenced(claim), "a standing window reads no age");
}

#[test]
fn what_its_source_holds_is_held_whatever_its_age() {
    let (_, parts) = claimed(ClaimedPath::Here, Lease::Held { reason: "a run is queued".into() });
    assert_eq!(holds(parts, &POLICY), [Hold::Leased { reason: "a run is queued".into() }]);
}

#[test]
fn a_directory_inside_the_window_is_fresh_and_the_cutoff_itself_still_is() {
    let policy = Policy { minimum_age: DAY, ..POLICY };
    let touched = |instant| Parts { touched: Observed::Known(instant), ..clean() };
    let cutoff = NOW.before(DAY);
    assert_eq!(holds(touched(cutoff), &policy), [Hold::Fresh { touched: cutoff, cutoff }]);
    let older = touched(cutoff.before(Duration::from_nanos(1)));
    assert_eq!(judge(&older.evidence(), &policy, NOW), Verdict::Orphaned(Orphan::Clean));
    assert_eq!(verdict(touched(NOW)), Verdict::Orphaned(Orphan::Clean), "no minimum age, no freshness");
}

#[test]
fn a_time_in_the_future_holds_beyond_the_tolerance() {
    let touched = |instant: Timestamp| Parts { touched: Observed::Known(instant), ..clean() };
    let limit = NOW.after(POLICY.clock_tolerance);
    assert_eq!(verdict(touched(limit)), Verdict::Orphaned(Orphan::Clean));
    let beyond = limit.after(Duration::from_nanos(1));
    assert_eq!(holds(touched(beyond), &POLICY), [Hold::ClockSkew { touched: beyond, now: NOW }]);
}

#[test]
fn labels_name_every_arm() {
    let (_, referenced) = claimed(ClaimedPath::Here, Lease::Standing);
    let (_, disputed) = claimed(ClaimedPath::Elsewhere("/e".into()), Lease::Standing);
    let undetermined = Parts { uses: Observed::Unknown(blind(Signal::Use)), ..clean() };
    let held = Parts { uses: Observed::Known(vec![Holder::DirectoryLock]), ..clean() };
    let labels =
        [referenced, disputed, undetermined, held, unsaved("x"), clean()].map(|parts| verdict_label(&verdict(parts)));
    assert_eq!(labels, ["referenced", "disputed", "undetermined", "held", "unsaved", "clean"]);
}

/// Whether every signal is known and says nothing against removal, told without `judge`.
fn nothing_speaks_for_it(parts: &Parts, policy: &Policy) -> bool {
    let age = matches!(parts.touched, Observed::Known(at) if at < NOW.before(policy.minimum_age));
    let claims = match &parts.claims {
        Observed::Known(claims) => claims.iter().all(|claim| match (&claim.at, &claim.lease, policy.window) {
            (ClaimedPath::Elsewhere(_), _, _) | (_, Lease::Held { .. } | Lease::Standing, _) => false,
            (_, Lease::LastUsed(at), Window::Idle(span)) => *at < NOW.before(span),
            (_, Lease::LastUsed(_), Window::Standing) => false,
        }),
        Observed::Unknown(_) => false,
    };
    age && claims
        && matches!(parts.layout, Observed::Known(Layout::Any | Layout::Expected))
        && matches!(&parts.uses, Observed::Known(uses) if uses.is_empty())
        && matches!(&parts.proof, Observed::Known(proof) if proof.channels.iter().all(|report| report.answer == Answer::Nothing))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_directory_is_clean_if_and_only_if_nothing_at_all_speaks_for_it(parts in any_parts(), idle in 1_u32..60) {
        let policy = Policy { window: Window::Idle(idle * DAY), minimum_age: 7 * DAY, ..POLICY };
        let verdict = judge(&parts.clone().evidence(), &policy, NOW);
        prop_assert_eq!(verdict.is_clean_orphan(), nothing_speaks_for_it(&parts, &policy));
    }

    #[test]
    fn one_more_reason_to_keep_never_makes_a_kept_directory_removable(parts in any_parts(), extra in any_parts()) {
        let before = judge(&parts.clone().evidence(), &POLICY, NOW);
        let claims = match (parts.claims, extra.claims) {
            (Observed::Known(mut claims), Observed::Known(more)) => {
                claims.extend(more);
                Observed::Known(claims)
            }
            (Observed::Unknown(blind), _) | (_, Observed::Unknown(blind)) => Observed::Unknown(blind),
        };
        let uses = match (parts.uses, extra.uses) {
            (Observed::Known(mut uses), Observed::Known(more)) => {
                uses.extend(more);
                Observed::Known(uses)
            }
            (Observed::Unknown(blind), _) | (_, Observed::Unknown(blind)) => Observed::Unknown(blind),
        };
        let proof = match (parts.proof, extra.proof) {
            (Observed::Known(mut proof), Observed::Known(more)) => {
                proof.channels.extend(more.channels);
                Observed::Known(proof)
            }
            (Observed::Unknown(blind), _) | (_, Observed::Unknown(blind)) => Observed::Unknown(blind),
        };
        let after = judge(&Parts { claims, uses, proof, ..parts }.evidence(), &POLICY, NOW);
        prop_assert!(before.is_clean_orphan() || !after.is_clean_orphan());
    }

    #[test]
    fn unsaved_work_is_said_of_orphans_only_and_never_where_something_is_unknown(parts in any_parts()) {
        let verdict = judge(&parts.clone().evidence(), &POLICY, NOW);
        if verdict.losses().is_some() {
            let all_known = matches!(parts.claims, Observed::Known(_)) && matches!(parts.touched, Observed::Known(_))
                && matches!(parts.layout, Observed::Known(_)) && matches!(parts.uses, Observed::Known(_));
            prop_assert!(all_known);
        }
    }
}
