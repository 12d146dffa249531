//! Wall time, processor time and memory of programs, as the kernel accounts for them.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};

/// The average of several runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    /// From start to end.
    pub(crate) wall: Duration,
    /// User and system time, children included.
    pub(crate) cpu: Duration,
    /// The greatest resident size of any run, in bytes; `None` where nothing could be asked in time.
    pub(crate) memory: Option<u64>,
}

/// Runs something `runs` times, after once to warm the caches. The run returns the memory it saw.
///
/// The kernel accounts children in ticks of 10 ms at most places, but adds them up exactly: the average over many runs is
/// much finer than a tick.
pub(crate) fn measure(runs: u32, mut run: impl FnMut() -> anyhow::Result<Option<u64>>) -> anyhow::Result<Measured> {
    run()?;
    let (started, before) = (Instant::now(), children_cpu()?);
    let mut memory = None;
    for _ in 0..runs {
        memory = memory.max(run()?);
    }
    let (wall, cpu) = (started.elapsed(), children_cpu()?.saturating_sub(before));
    Ok(Measured { wall: wall / runs, cpu: cpu / runs, memory })
}

/// The same with something to prepare before each run, which is not counted, and no run beforehand: the preparation warms
/// the caches.
pub(crate) fn measure_prepared(
    runs: u32,
    prepare: impl Fn() -> anyhow::Result<()>,
    mut run: impl FnMut() -> anyhow::Result<Option<u64>>,
) -> anyhow::Result<Measured> {
    let (mut wall, mut cpu, mut memory) = (Duration::ZERO, Duration::ZERO, None);
    for _ in 0..runs {
        prepare()?;
        let (started, before) = (Instant::now(), children_cpu()?);
        memory = memory.max(run()?);
        wall += started.elapsed();
        cpu += children_cpu()?.saturating_sub(before);
    }
    Ok(Measured { wall: wall / runs, cpu: cpu / runs, memory })
}

/// Where the times of ended and awaited children stand in `/proc/self/stat`, counted behind the name of the program.
const CHILDREN_USER: usize = 13;
const CHILDREN_SYSTEM: usize = 14;

/// User and system time of all children that have ended.
pub(crate) fn children_cpu() -> anyhow::Result<Duration> {
    let stat = fs::read_to_string("/proc/self/stat").context("cannot read /proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(") ").ok_or_else(|| anyhow!("/proc/self/stat has no program name"))?;
    let fields: Vec<&str> = fields.split(' ').collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok());
    let total = ticks(CHILDREN_USER).zip(ticks(CHILDREN_SYSTEM)).map(|(user, system)| user + system);
    let total = total.ok_or_else(|| anyhow!("/proc/self/stat lacks the times of children"))?;
    let per_second = rustix::param::clock_ticks_per_second();
    Ok(Duration::from_secs_f64(total as f64 / per_second as f64))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_time_of_children_is_seen() {
        let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let measured = measure(1, || {
            Command::new("sh").args(["-c", busy]).status()?;
            Ok(Some(7))
        });
        let measured = measured.unwrap();
        assert!(measured.cpu > Duration::ZERO && measured.cpu <= measured.wall * 2, "{measured:?}");
        assert_eq!(measured.memory, Some(7));
    }
}
