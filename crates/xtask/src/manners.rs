//! `cargo xtask bench pace`: how a removal uses a file system that answers slowly, and what somebody feels who works there
//! meanwhile. The file system is the test kit's; what is measured is the removal's whole protocol.

use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use derelict_testkit::scratch::mkdir;
use derelict_testkit::slow::{Slow, Slowness};

use crate::discarding::Remover;
use crate::shapes::Shape;
use crate::sweep::WORKSPACES;

/// A metadata server that is asked for more than it can do, and one that is far away.
const SATURATED: Slowness = Slowness { travel: Duration::ZERO, service: Duration::from_millis(3) };
const FAR: Slowness = Slowness { travel: Duration::from_millis(7), service: Duration::ZERO };

/// How long somebody works between two of his files.
const THINKS: Duration = Duration::from_millis(40);

/// How long a removal has been at work when somebody comes.
const AT_WORK: Duration = Duration::from_secs(5);

/// A rate that the file system in memory can hold many times over.
const RATE: u32 = 5_000;

pub(crate) fn run(seconds: u64) -> anyhow::Result<()> {
    println!("{:<24} {:<20} {:>9} {:>9} {:>12}", "slow file system", "", "wall s", "files/s", "server busy");
    for (name, slowness) in [("saturated, 3 ms each", SATURATED), ("far away, 7 ms", FAR)] {
        for remover in [Remover::Rm, Remover::Derelict("unyielding", 0), Remover::Derelict("yielding", 0)] {
            use_alone(name, slowness, remover)?;
        }
    }
    rate()?;
    println!("\nsomebody who makes, looks at and deletes small files for {seconds} s, on the saturated one");
    println!("{:<24} {:>9} {:>9} {:>9} {:>12}", "beside", "files", "p50 ms", "p99 ms", "p99 / alone");
    let alone = felt(None, Duration::from_secs(seconds))?;
    print_felt("nobody", &alone, &alone);
    for remover in [Remover::Rm, Remover::Derelict("unyielding", 0), Remover::Derelict("yielding", 0)] {
        print_felt(remover.name(), &felt(Some(remover), Duration::from_secs(seconds))?, &alone);
    }
    Ok(())
}

fn fill(memory: &Path, shape: Shape) {
    let workspaces = memory.join("cache").join(WORKSPACES);
    mkdir(&workspaces);
    shape.build(&workspaces).expect("because memory takes it");
}

fn use_alone(name: &str, slowness: Slowness, remover: Remover) -> anyhow::Result<()> {
    let slow = Slow::mount(slowness, |memory| fill(memory, Shape::Few));
    let state = slow.beside().join("state");
    mkdir(&state);
    let (started, before) = (Instant::now(), slow.served());
    remover.remove(&slow.path().join("cache"), &state)?;
    let wall = started.elapsed().as_secs_f64();
    let served = (slow.served() - before) as f64;
    let busy = match slowness.service.is_zero() {
        true => "-".to_owned(),
        false => format!("{:.1} %", served * slowness.service.as_secs_f64() / wall * 100.0),
    };
    println!("{name:<24} {:<20} {wall:>9.2} {:>9.0} {busy:>12}", remover.name(), 1_200.0 / wall);
    Ok(())
}

/// Whether a set rate is held.
fn rate() -> anyhow::Result<()> {
    let slow = Slow::mount(Slowness { travel: Duration::ZERO, service: Duration::ZERO }, |_| {});
    fill(slow.beside(), Shape::Spread);
    let state = slow.beside().join("state");
    mkdir(&state);
    let started = Instant::now();
    let told = Remover::Derelict("yielding", RATE).remove(&slow.beside().join("cache"), &state)?;
    let wall = started.elapsed().as_secs_f64();
    let operations: f64 = told.split(' ').nth(1).context("the sweep told no operations")?.parse()?;
    println!("\na rate of {RATE} operations/s: {:.1} held over {operations} of them", operations / wall);
    Ok(())
}

/// How long each of somebody's files took, sorted.
fn felt(beside: Option<Remover>, time: Duration) -> anyhow::Result<Vec<Duration>> {
    let slow = Slow::mount(SATURATED, |memory| {
        fill(memory, Shape::Spread);
        mkdir(memory.join("somebody"));
    });
    let state = slow.beside().join("state");
    mkdir(&state);
    let mut other = match beside {
        Some(remover) => Some(remover.command(&slow.path().join("cache"), &state)?.spawn()?),
        None => None,
    };
    // He comes while it is at work. Nothing is judged by this wait: it only lets both meet.
    std::thread::sleep(AT_WORK);
    let worked = work(&slow.path().join("somebody"), time);
    if let Some(other) = &mut other {
        if let Some(ended) = other.try_wait()? {
            bail!("it was over before the measurement: {ended}");
        }
        other.kill()?;
        other.wait()?;
    }
    let mut worked = worked?;
    worked.sort();
    Ok(worked)
}

fn work(at: &Path, time: Duration) -> std::io::Result<Vec<Duration>> {
    let started = Instant::now();
    let mut took = Vec::new();
    while started.elapsed() < time {
        let path = at.join(format!("file-{}", took.len()));
        let begun = Instant::now();
        std::fs::File::create(&path)?.write_all(b"something")?;
        std::fs::symlink_metadata(&path)?;
        rustix::fs::unlink(&path)?;
        took.push(begun.elapsed());
        std::thread::sleep(THINKS);
    }
    Ok(took)
}

fn print_felt(name: &str, felt: &[Duration], alone: &[Duration]) {
    let at = |all: &[Duration], percent: usize| all[(all.len() - 1) * percent / 100].as_secs_f64() * 1000.0;
    let (middle, worst) = (at(felt, 50), at(felt, 99));
    println!("{name:<24} {:>9} {middle:>9.1} {worst:>9.1} {:>12.2}", felt.len(), worst / at(alone, 99));
}
