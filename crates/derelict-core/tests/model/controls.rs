//! The controls: each part of the protocol that is left out or misplaced breaks a promise, in a
//! scenario that holds with it. The shortest counter-example is printed.

use derelict_core::ids::Timestamp;
use derelict_core::record::Disposal;

use crate::owner::Kind;
use crate::state::{CreatorsLock, Flaw, Scenario};

const LOSES_CLAIMED: &str = "a directory was unlinked whose owner had claimed it in time";
const LOSES_WORK: &str = "the only copy of something was unlinked";
const LOSES_HOUSE: &str = "a directory was unlinked while its owner was in it";
const LOSES_FOUND: &str = "what a creator had found while it held its lock changed under it";
const NO_INTENT: &str = "a change on disk had no durable intent before it";
const HALF_LIVE: &str = "a half-removed tree lies under a live name";
const MEETS_HALF: &str = "an owner came into a half-removed tree";
const UNKNOWN: &str = "a tree lies in the trash that its journal does not know";
const NOT_ASIDE: &str = "what was set aside is not where its journal says";
const RECORD: &str = "a record was dropped while its directory was still there";

/// The scenario holds with the whole protocol, and without this part of it exactly this promise
/// is the first to break.
fn breaks(flaw: Flaw, promise: &str, calm: Scenario) {
    if let Err(found) = calm.explore() {
        panic!("without {flaw:?} it should hold\n{found}");
    }
    let found = Scenario { flaw: Some(flaw), ..calm }.explore().expect_err("because a part of the protocol is missing");
    println!("{flaw:?}:\n{found}");
    assert_eq!(found.promise, promise, "{flaw:?}\n{found}");
}

fn with(kind: Kind) -> Scenario {
    Scenario { owners: vec![kind], ..Scenario::calm() }
}

fn lockless(kind: Kind) -> Scenario {
    Scenario { lock: CreatorsLock::None, ..with(kind) }
}

#[test]
fn without_fence_and_second_look_the_owner_that_resumes_loses_its_directory() {
    breaks(Flaw::NoFenceNoSecondLook, LOSES_CLAIMED, lockless(Kind::Resumer));
    breaks(Flaw::NoFenceNoSecondLook, MEETS_HALF, lockless(Kind::Visitor));
}

#[test]
fn without_the_fence_a_second_look_is_one_more_look_that_comes_too_early() {
    breaks(Flaw::NoFence, MEETS_HALF, lockless(Kind::Resumer));
}

#[test]
fn without_the_second_look_what_comes_just_before_the_fence_is_lost() {
    breaks(Flaw::NoSecondLook, LOSES_CLAIMED, lockless(Kind::Resumer));
    breaks(Flaw::NoSecondLook, LOSES_HOUSE, with(Kind::Visitor));
}

#[test]
fn without_the_recheck_work_that_was_written_while_the_question_was_open_is_lost() {
    breaks(Flaw::NoRecheck, LOSES_WORK, with(Kind::Visitor));
}

#[test]
fn without_the_creators_lock_a_creator_loses_what_it_found() {
    breaks(Flaw::NoLock, LOSES_FOUND, with(Kind::Launcher));
}

#[test]
fn an_intent_after_the_fence_leaves_a_change_that_nobody_knows_of() {
    breaks(Flaw::IntentAfterFence, NO_INTENT, Scenario { kills: 1, ..Scenario::calm() });
}

#[test]
fn users_must_be_looked_for_before_the_contents() {
    breaks(Flaw::UsersAfterContents, LOSES_WORK, with(Kind::Visitor));
}

#[test]
fn the_times_must_be_noted_before_the_contents_are_read() {
    breaks(Flaw::TraceAfterProof, LOSES_WORK, with(Kind::Visitor));
}

#[test]
fn without_a_mark_a_tree_that_is_being_discarded_looks_whole() {
    breaks(Flaw::NoMark, HALF_LIVE, Scenario { kills: 1, ..Scenario::calm() });
}

#[test]
fn a_mark_that_is_not_durable_is_no_mark_after_a_loss_of_power() {
    breaks(Flaw::MarkNotDurable, HALF_LIVE, Scenario { power_cuts: 1, ..Scenario::calm() });
}

#[test]
fn a_way_back_that_is_not_durable_leaves_a_live_directory_in_the_trash_after_a_loss_of_power() {
    breaks(Flaw::PutBackNotDurable, UNKNOWN, Scenario { power_cuts: 1, ..with(Kind::Resumer) });
}

#[test]
fn what_recovery_writes_off_must_be_durable_before() {
    breaks(Flaw::WriteOffNotDurable, UNKNOWN, Scenario { kills: 1, power_cuts: 1, ..Scenario::calm() });
}

#[test]
fn without_comparing_identities_another_directory_is_removed() {
    breaks(Flaw::AnyIdentity, HALF_LIVE, with(Kind::Mover));
}

#[test]
fn recovery_without_the_creators_lock_takes_from_a_creator() {
    breaks(Flaw::RecoveryWithoutLock, LOSES_FOUND, Scenario { kills: 1, ..with(Kind::Launcher) });
}

#[test]
fn a_record_is_not_dropped_where_something_lies_again() {
    breaks(Flaw::ReleaseUnlooked, RECORD, Scenario { kills: 1, ..with(Kind::Launcher) });
}

#[test]
fn what_another_journal_has_in_its_trash_is_not_gone() {
    breaks(Flaw::GoneUnlooked, RECORD, Scenario { reapers: 2, kills: 2, ..Scenario::calm() });
}

#[test]
fn what_is_set_aside_must_be_durably_where_the_journal_says() {
    let disposal = Disposal::Quarantine { until: Timestamp::new(2_000_000, 0) };
    breaks(Flaw::SetAsideNotDurable, NOT_ASIDE, Scenario { disposal, power_cuts: 1, ..Scenario::calm() });
}

/// The residual risk that the documentation names: no step on this host can see an owner on another
/// one that records itself only later. A quarantine that is longer than the delay is the answer.
#[test]
fn an_owner_on_another_host_that_records_itself_later_is_the_risk_that_remains() {
    let found = lockless(Kind::Remote).explore().expect_err("because nothing here can see it");
    println!("an owner on another host:\n{found}");
    assert_eq!(found.promise, LOSES_HOUSE);
}
