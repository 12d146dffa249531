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

/// Replaces the list by what would not go in this sweep. What it did not reach stays on the list only if it is still
/// there to be listed again: the next sweep will tell.
///
/// # Errors
/// When the file cannot be written.
pub(crate) fn write(state: &Path, report: &SweepReport) -> anyhow::Result<()> {
    let would_not_go = report.settled.iter().filter(|settled| match settled.fate.name() {
        FateName::Refused | FateName::Busy | FateName::Interrupted => true,
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
        | FateName::Removable
        | FateName::BeyondLimit
        | FateName::NotReached
        | FateName::Removed
        | FateName::Quarantined
        | FateName::Vanished
        | FateName::RetainedResurrected
        | FateName::RetainedChanged => false,
    });
    let names: Vec<Value> = would_not_go.map(|settled| json::path(&settled.candidate.below_root)).collect();
    let file = state.join(FILE);
    if names.is_empty() && !file.exists() {
        return Ok(());
    }
    let content = format!("{}\n", json!({ "v": VERSION, "postponed": names }));
    Ok(write_atomically(&file, content.as_bytes())?)
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
