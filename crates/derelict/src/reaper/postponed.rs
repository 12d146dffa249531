//! What would not go at the last sweep goes last at the next, so that it does not use up the limits of every sweep.
//! The list is a small file beside the journal, replaced by every sweep.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use derelict_core::outcome::FateName;
use derelict_core::policy::Postponed;
use derelict_core::record::SweepReport;
use derelict_reclaim::state::write_atomically;
use serde_json::{Value, json};

use crate::{json, text};

/// The file below the state directory of a root.
const FILE: &str = "postponed.json";

/// The version of the file.
const VERSION: u64 = 1;

/// What is to go last; nothing if no sweep ever left anything.
///
/// # Errors
/// When the file, which is named, cannot be read or understood.
pub(crate) fn read(state: &Path) -> anyhow::Result<Postponed> {
    let file = state.join(FILE);
    let place = || format!("cannot tell from {} what would not go", text::path(&file));
    let bytes = match std::fs::read(&file) {
        Ok(bytes) => bytes,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Postponed::new());
        }
        Err(error) => return Err(error).with_context(place),
    };
    parse(&bytes).with_context(place)
}

/// Replaces the list, whose content was `before`, by what would not go in this sweep and what was on it and was not
/// tried: a limit, or a sweep that only reports, takes nothing off it.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn write(state: &Path, before: &Postponed, report: &SweepReport) -> anyhow::Result<()> {
    let goes_last = report.settled.iter().filter(|settled| match attempt(settled.fate.name()) {
        Attempt::Failed => true,
        Attempt::None => before.contains(&settled.candidate.below_root),
        Attempt::Over => false,
    });
    let names: Vec<Value> = goes_last.map(|settled| json::path(&settled.candidate.below_root)).collect();
    let file = state.join(FILE);
    if names.is_empty() && before.is_empty() {
        return Ok(());
    }
    let content = format!("{}\n", json!({ "v": VERSION, "postponed": names }));
    Ok(write_atomically(&file, content.as_bytes())?)
}

/// What a sweep tried with a directory that could go.
enum Attempt {
    /// Nothing.
    None,
    /// It would not go.
    Failed,
    /// It went, or it stays for a reason of its own.
    Over,
}

fn attempt(fate: FateName) -> Attempt {
    match fate {
        FateName::Refused | FateName::Busy | FateName::Interrupted => Attempt::Failed,
        FateName::Removable | FateName::BeyondLimit | FateName::NotReached => Attempt::None,
        FateName::Referenced
        | FateName::Disputed
        | FateName::Undetermined
        | FateName::Unsaved
        | FateName::RetainedFresh
        | FateName::RetainedInUse
        | FateName::RetainedLeased
        | FateName::RetainedNestedCheckout
        | FateName::RetainedClockSkew
        | FateName::SkippedLayout
        | FateName::Removed
        | FateName::Quarantined
        | FateName::Vanished
        | FateName::RetainedResurrected
        | FateName::RetainedChanged => Attempt::Over,
    }
}

fn parse(bytes: &[u8]) -> anyhow::Result<Postponed> {
    let value: Value = serde_json::from_slice(bytes)?;
    if value["v"].as_u64() != Some(VERSION) {
        bail!("it has version {}, and only {VERSION} is known", value["v"]);
    }
    let Some(names) = value["postponed"].as_array() else { bail!("it lacks its list") };
    names
        .iter()
        .map(|name| json::parse_path(name).context("it names something that is no path"))
        .collect::<anyhow::Result<Vec<PathBuf>>>()
        .map(Postponed::from_iter)
}

#[cfg(test)]
mod tests {
    use derelict_core::evidence::Candidate;
    use derelict_core::ids::{FileIdentity, NonEmpty, WorkspaceName};
    use derelict_core::outcome::{Discarded, Fate, Outcome, Refusal, StopReason};
    use derelict_core::record::Settled;

    use super::*;

    fn report(fates: &[(&str, Fate)]) -> SweepReport {
        let settled = fates.iter().map(|(name, fate)| {
            let identity = FileIdentity { dev: 1, ino: 1, birth: None };
            let path = PathBuf::from("/r").join(name);
            let workspace = WorkspaceName::new(name.as_bytes()).expect("because it is one name");
            let candidate = Candidate { name: workspace, path, below_root: name.into(), identity };
            Settled { candidate, intent: None, fate: fate.clone() }
        });
        SweepReport { settled: settled.collect(), stop: StopReason::Finished }
    }

    fn refused() -> Fate {
        let refusals = NonEmpty::of(Refusal { path: "/r/stuck".into(), why: "immutable".into() });
        Fate::Settled(Outcome::Refused { refusals, discarded: Discarded { entries: 0, bytes: 0 } })
    }

    #[test]
    fn what_would_not_go_stays_last_until_it_was_tried_again() {
        let state = tempfile::tempdir().expect("because a temporary directory can be made");
        let next = |fates: &[(&str, Fate)]| {
            let before = read(state.path()).expect("because it was written here");
            write(state.path(), &before, &report(fates)).expect("because it can be written");
            read(state.path()).expect("because it was written here").into_iter().collect::<Vec<_>>()
        };
        let stuck = [PathBuf::from("stuck")];
        assert_eq!(next(&[("goes", Fate::Removable)]), [] as [PathBuf; 0]);
        assert_eq!(next(&[("stuck", refused()), ("goes", Fate::BeyondLimit)]), stuck);
        for untried in [Fate::BeyondLimit, Fate::NotReached, Fate::Removable] {
            assert_eq!(next(&[("stuck", untried.clone()), ("other", untried)]), stuck);
        }
        assert_eq!(next(&[("stuck", Fate::Settled(Outcome::Vanished))]), [] as [PathBuf; 0]);
    }

    #[test]
    fn a_list_that_is_not_understood_is_refused_by_its_name() {
        let state = tempfile::tempdir().expect("because a temporary directory can be made");
        for content in ["", "{}", r#"{"v":2,"postponed":[]}"#, r#"{"v":1}"#, r#"{"v":1,"postponed":[7]}"#] {
            std::fs::write(state.path().join(FILE), content).expect("because it can be written");
            let error = format!("{:#}", read(state.path()).expect_err("because it is none"));
            assert!(error.contains(FILE), "{content}: {error}");
        }
    }
}
