//! The probe against git itself: random clones, a brute-force oracle, and the one rule that the probe
//! never says *nothing* where the oracle finds a loss.
//!
//! A fixed range of seeds runs always; `DERELICT_SEEDS=from..to` runs any range by hand. What the
//! probe refuses without need is counted and printed, and is no failure.

mod landed;
mod objects;
mod operations;
mod oracle;
mod places;
mod random;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use derelict_git::{Answer, Meter, Stat, Surroundings, examine};
use derelict_testkit::Snapshot;

use operations::operations;
use oracle::{Ask, Losses, losses};
use world::World;

/// Seeds of every run: about twenty seconds of one processor.
const SEEDS: Range<u64> = 0..240;

/// How many seeds are named of each kind.
const NAMED_SEEDS: usize = 9;

/// Worlds at a time.
const THREADS: usize = 2;

struct Unmetered;

impl Meter for Unmetered {
    fn seen(&mut self, _: &[u8], _: &Stat) {}
    fn unreadable(&mut self, _: &[u8], _: &io::Error) {}
    fn mount(&mut self, _: &[u8]) {}
}

/// What came out for one clone.
struct Outcome {
    losses: Losses,
    findings: Vec<String>,
    touched: Vec<String>,
}

impl Outcome {
    fn of(world: &World, operations: &[String]) -> Self {
        world.play(operations);
        let before = Snapshot::of(world.clone());
        let findings = probe(world);
        let touched = before.differences(&Snapshot::of(world.clone()));
        let mut lost = losses(world, Ask::Nobody);
        if findings.is_empty() && !lost.content.is_empty() {
            lost = losses(world, Ask::Git);
        }
        Self { losses: lost, findings, touched }
    }

    fn is_missed(&self) -> bool {
        let lost = !self.losses.content.is_empty() || !self.losses.state.is_empty();
        (self.findings.is_empty() && lost) || !self.touched.is_empty()
    }
}

/// Every finding as `channel: text`; none is the claim that nothing would be lost.
fn probe(world: &World) -> Vec<String> {
    let repos = world.root().join("repos").canonicalize().expect("because the world was made");
    let (clone, keeper) = (repos.join("c"), repos.join(".bare"));
    let around = Surroundings::new(repos, vec![keeper], Vec::new());
    let dir = std::fs::File::open(&clone).expect("because the world was made");
    let examination = examine(dir.as_fd(), &clone, &around, &mut Unmetered);
    let channels = examination.channels.iter().flat_map(|report| match &report.answer {
        Answer::Nothing => Vec::new(),
        Answer::Losses(losses) => losses.iter().map(|loss| format!("{}: {}", report.channel, loss.what)).collect(),
        Answer::Unknown(reasons) => reasons.iter().map(|why| format!("?{}: {why}", report.channel)).collect(),
    });
    channels.chain(examination.git_locks.iter().map(|lock| format!("lock: {}", lock.display()))).collect()
}

/// What all seeds together came to.
#[derive(Debug, Default)]
struct Tally {
    seeds: u64,
    /// Both say that nothing would be lost.
    clean: u64,
    /// The probe refuses and content would be lost.
    lost: u64,
    /// The probe refuses and only what the table documents as state would be lost.
    state_only: u64,
    /// The probe refuses and only commits that nothing names would be lost.
    adrift: u64,
    /// The probe refuses and the oracle finds nothing, by the kinds of findings.
    refused: BTreeMap<String, Vec<u64>>,
    /// Losses of content that one channel alone told: without that channel they would be missed.
    alone: BTreeMap<String, u64>,
    /// Seeds with commits that nothing names and that have not landed, where the probe says nothing.
    dangling: Vec<u64>,
    missed: Vec<String>,
}

impl Tally {
    fn add(&mut self, seed: u64, outcome: &Outcome, world: &World) {
        self.seeds += 1;
        let Losses { content, state, dangling } = &outcome.losses;
        if outcome.is_missed() {
            self.missed.push(missed(seed, world));
        } else if outcome.findings.is_empty() {
            self.clean += 1;
            if !dangling.is_empty() {
                self.dangling.push(seed);
            }
        } else if !content.is_empty() {
            self.lost += 1;
            let channels: BTreeSet<&str> = outcome.findings.iter().filter_map(|text| text.split(':').next()).collect();
            if let (Some(channel), 1) = (channels.first(), channels.len()) {
                *self.alone.entry((*channel).to_owned()).or_default() += 1;
            }
        } else if !state.is_empty() {
            self.state_only += 1;
        } else {
            // A refusal for what nothing names is not without need.
            if !dangling.is_empty() {
                self.adrift += 1;
                return;
            }
            let kinds: BTreeSet<String> = outcome.findings.iter().map(|text| kind(text)).collect();
            let kinds = kinds.into_iter().collect::<Vec<_>>().join(" + ");
            self.refused.entry(kinds).or_default().push(seed);
        }
    }

    fn merge(mut self, other: Self) -> Self {
        self.seeds += other.seeds;
        self.clean += other.clean;
        self.lost += other.lost;
        self.state_only += other.state_only;
        self.adrift += other.adrift;
        other.refused.into_iter().for_each(|(kind, seeds)| self.refused.entry(kind).or_default().extend(seeds));
        other.alone.into_iter().for_each(|(channel, count)| *self.alone.entry(channel).or_default() += count);
        self.dangling.extend(other.dangling);
        self.missed.extend(other.missed);
        self
    }

    fn print(&self) {
        let refused: usize = self.refused.values().map(Vec::len).sum();
        println!(
            "{} seeds: {} clean for both, {} lose content, {} lose state only, {} lose what nothing names, \
             {refused} refused without need, {} missed",
            self.seeds,
            self.clean,
            self.lost,
            self.state_only,
            self.adrift,
            self.missed.len()
        );
        for (kinds, seeds) in &self.refused {
            let some = &seeds[..seeds.len().min(NAMED_SEEDS)];
            println!("refused {:5}  {kinds}  (seeds {some:?})", seeds.len());
        }
        println!("losses of content that one channel alone told: {:?}", self.alone);
        let some: Vec<&u64> = self.dangling.iter().take(NAMED_SEEDS).collect();
        println!("{} clean ones hold commits that nothing names: {some:?}", self.dangling.len());
    }
}

/// The channel and what kind of thing it found: the words without names, numbers and paths.
fn kind(finding: &str) -> String {
    let place = ["submodule ", "n: ", "nested: "].iter().any(|mark| finding.contains(mark));
    let on = finding.rsplit_once(" on ").map(|(_, named)| named.split(' ').next().unwrap_or(named));
    let words: Vec<&str> = finding.split(' ').take(2).collect();
    let (words, inside) = (words.join(" "), if place { " (inside)" } else { "" });
    match on {
        Some("the") if finding.contains("reflog of") => format!("{words} on a reflog{inside}"),
        Some(on) => format!("{words} on {on}{inside}"),
        None => format!("{words}{inside}"),
    }
}

/// What was missed, with as few operations as show it.
fn missed(seed: u64, world: &World) -> String {
    let mut left = operations(seed);
    // From the end, because what comes later seldom makes what came before; again until nothing goes.
    loop {
        let before = left.len();
        for position in (1..left.len()).rev() {
            let mut fewer = left.clone();
            fewer.remove(position);
            if Outcome::of(world, &fewer).is_missed() {
                left = fewer;
            }
        }
        if left.len() == before {
            break;
        }
    }
    let Outcome { losses, findings, touched } = Outcome::of(world, &left);
    format!(
        "seed {seed}:\n  {}\n  content: {:?}\n  state: {:?}\n  found: {findings:?}\n  written: {touched:?}\n  all of it:\n  {}",
        left.join("\n  "),
        losses.content,
        losses.state,
        operations(seed).join("\n  ")
    )
}

/// Everything about one seed.
fn tell(seed: u64) {
    let (world, operations) = (World::new("tell"), operations(seed));
    let Outcome { losses, findings, .. } = Outcome::of(&world, &operations);
    println!("{}\n{losses:#?}\nfound: {findings:#?}", operations.join("\n"));
}

#[expect(clippy::disallowed_methods, reason = "a range of seeds for this run is asked for in the environment")]
fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("DERELICT_SEEDS") else { return SEEDS };
    let ends = text.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    ends.unwrap_or_else(|| panic!("DERELICT_SEEDS is not FROM..TO: {text}"))
}

#[test]
fn the_probe_never_says_nothing_where_git_shows_a_loss() {
    let (seeds, began) = (seeds(), Instant::now());
    let next = AtomicU64::new(seeds.start);
    let play = |name: usize| {
        let (world, mut tally) = (World::new(&name.to_string()), Tally::default());
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return tally;
            }
            tally.add(seed, &Outcome::of(&world, &operations(seed)), &world);
        }
    };
    let play = &play;
    let tally = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|name| scope.spawn(move || play(name))).collect();
        let tallies = threads.into_iter().map(|thread| thread.join().expect("because a panic is a failure"));
        tallies.fold(Tally::default(), Tally::merge)
    });
    if seeds.clone().count() == 1 {
        tell(seeds.start);
    }
    println!("seeds {}..{} in {:.1} s", seeds.start, seeds.end, began.elapsed().as_secs_f64());
    tally.print();
    assert!(tally.missed.is_empty(), "{} missed:\n{}", tally.missed.len(), tally.missed.join("\n"));
    if seeds == SEEDS {
        // Otherwise a blind channel, or a probe that always refuses, would go unnoticed.
        assert!(tally.clean > SEEDS.end / 10, "hardly a clone is clean: the rule was not put to the test");
        for channel in ["tracked", "untracked", "ignored", "commits", "nested"] {
            assert!(tally.alone.contains_key(channel), "no seed depends on the channel {channel} alone");
        }
    }
}
