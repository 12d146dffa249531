//! Every clone state that the project knows, each with what has to become of it.

use std::path::Path;

use derelict_git::{Borrower, Surroundings};
use derelict_testkit::Snapshot;
use derelict_testkit::devlaunch::REPOSITORY;
use derelict_testkit::formats::FORMATS;
use derelict_testkit::proofs::PROOFS;
use derelict_testkit::states::{Expected, FURTHER, STATES, State, build};

use crate::support::probe;

/// Builds all states in one cache and compares the probe's answer for each.
fn agree(states: &[State]) {
    let cache = build(states);
    let repos = cache.repository(REPOSITORY).canonicalize().expect("because it has been built");
    // Finding borrowers is the observer's part; here the one of the state `lender` is given.
    let borrower = cache.root().join("borrower");
    let borrowers =
        borrower.exists().then(|| Borrower { repository: borrower, borrows_from: repos.join("lender/.git/objects") });
    let around = Surroundings::new(repos.clone(), vec![repos.join(".bare")], borrowers.into_iter().collect());
    let mut wrong = Vec::new();
    for state in states {
        let path = repos.join(state.name);
        let before = Snapshot::of(&path);
        let findings = probe(&path, &around).findings();
        before.assert_unchanged();
        match (state.expected, findings.is_empty()) {
            (Expected::Remove, true) | (Expected::Keep(_), false) => {}
            (Expected::Remove, false) => wrong.push(format!("{} must go, but: {findings:?}", state.name)),
            (Expected::Keep(loss), true) => wrong.push(format!("{} must stay: {loss}", state.name)),
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(pwned(cache.root()), Vec::<String>::new());
}

fn pwned(root: &Path) -> Vec<String> {
    let names = std::fs::read_dir(root)
        .expect("because it has been built")
        .map(|entry| entry.expect("because it can be listed").file_name());
    names.map(|name| name.to_string_lossy().into_owned()).filter(|name| name.starts_with("PWNED")).collect()
}

#[test]
fn every_known_state_is_told_apart_and_reading_runs_and_changes_nothing() {
    agree(&STATES);
}

#[test]
fn every_further_state_is_told_apart_and_reading_runs_and_changes_nothing() {
    agree(&FURTHER);
}

#[test]
fn a_loss_that_is_provably_elsewhere_is_none_and_what_looks_like_it_is_one() {
    agree(&PROOFS);
}

#[test]
fn every_format_is_read_exactly_or_not_decided() {
    agree(&FORMATS);
}
