//! Many seeds of the simulated world. `DERELICT_SEEDS=5000..90000` runs others than those of every
//! test run, and a seed that breaks a promise is printed with its story.

use std::collections::BTreeMap;
use std::ops::Range;

use derelict_core::outcome::FateName;
use derelict_testkit::world::{Missing, simulate};

/// The seeds of every test run: a few seconds.
const SEEDS: Range<u64> = 0..4000;

/// A part that is missing must be missed within so many seeds.
const CONTROL_SEEDS: Range<u64> = 0..6000;

fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("DERELICT_SEEDS") else { return SEEDS };
    let bounds = text.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    bounds.unwrap_or_else(|| panic!("DERELICT_SEEDS is `{text}`, which is no range such as 0..1000"))
}

#[test]
fn no_storm_makes_the_sweep_lose_anything_or_tell_anything_wrong() {
    let seeds = seeds();
    let mut fates: BTreeMap<FateName, u64> = BTreeMap::new();
    let (mut sweeps, mut killed, mut calls, mut moves) = (0, 0, 0, 0);
    for seed in seeds.clone() {
        let told = simulate(seed, Missing::Nothing).unwrap_or_else(|broken| panic!("{broken}"));
        (sweeps, killed) = (sweeps + told.sweeps, killed + told.killed);
        (calls, moves) = (calls + told.calls, moves + told.moves);
        for (fate, count) in told.fates {
            *fates.entry(fate).or_insert(0) += count;
        }
    }
    println!("seeds {seeds:?}: {sweeps} sweeps, {killed} killed, {calls} port calls, {moves} moves of others");
    println!("{fates:?}");
    for fate in [
        FateName::Referenced,
        FateName::Disputed,
        FateName::Undetermined,
        FateName::Unsaved,
        FateName::RetainedInUse,
        FateName::RetainedLeased,
        FateName::BeyondLimit,
        FateName::NotReached,
        FateName::Removed,
        FateName::Vanished,
        FateName::RetainedResurrected,
        FateName::RetainedChanged,
        FateName::Refused,
        FateName::Busy,
        FateName::Interrupted,
    ] {
        assert!(fates.contains_key(&fate), "a simulation in which nothing is ever {} proves little", fate.as_str());
    }
    assert!(killed > 0, "a simulation in which nobody is killed proves little");
}

#[test]
fn the_same_seed_is_the_same_story() {
    assert_eq!(simulate(7, Missing::Nothing), simulate(7, Missing::Nothing));
}

#[test]
fn every_part_of_the_protocol_is_missed_when_it_is_missing() {
    for missing in [
        Missing::FenceAndSecondLook,
        Missing::SecondLook,
        Missing::Recheck,
        Missing::Lock,
        Missing::Mark,
        Missing::Identity,
    ] {
        let broken = CONTROL_SEEDS.into_iter().find_map(|seed| simulate(seed, missing).err());
        let broken = broken.unwrap_or_else(|| panic!("no seed of {CONTROL_SEEDS:?} misses {missing:?}"));
        println!("without {missing:?}, seed {}: {}", broken.seed, broken.promise);
    }
}
