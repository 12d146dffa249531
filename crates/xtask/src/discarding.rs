//! `cargo xtask bench discard`: how long removing takes by the whole protocol, beside `rm -rf` and whatever else is on
//! PATH, on an ext4 image (in memory, so that no disk is measured) and on a tmpfs. All in one run, one after the other and around again: on a machine that others
//! use too, only ratios mean anything.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use derelict_testkit::Scratch;
use derelict_testkit::guards::Mounted;
use derelict_testkit::image::Image;

use crate::measure::children_cpu;
use crate::shapes::Shape;
use crate::sweep::WORKSPACES;

const SHAPES: [Shape; 4] = [Shape::Wide, Shape::Spread, Shape::Packages, Shape::Workspaces];

/// Room for the largest shape.
const MEBIBYTES: u64 = 3 * 1024;

/// What node does when it is asked for the same.
const NODE: &str = "require('fs').rmSync(process.argv[1], { recursive: true, force: true })";

/// Who removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remover {
    Rm,
    Rmz,
    Node,
    /// `sweep` with a courtesy and a rate, 0 for none.
    Derelict(&'static str, u32),
}

#[derive(Debug, Clone, Copy)]
struct Taken {
    wall: Duration,
    cpu: Duration,
}

pub(crate) fn run(runs: usize) -> anyhow::Result<()> {
    let image = Image::in_memory("ext4", MEBIBYTES);
    let memory = Scratch::new();
    let mounted = Mounted::tmpfs(memory.path());
    let removers = [Remover::Rm, Remover::Rmz, Remover::Node, Remover::Derelict("yielding", 0)];
    let removers: Vec<Remover> = removers.into_iter().filter(|remover| remover.is_here()).collect();
    for (name, at) in [("ext4", image.path()), ("tmpfs", memory.path())] {
        for shape in SHAPES {
            println!("\n{name}, {}, median of {runs} runs", shape.name());
            println!("{:<24} {:>9} {:>9} {:>12} {:>12}", "", "wall ms", "CPU ms", "wall / rm", "CPU / rm");
            let mut taken = vec![Vec::new(); removers.len()];
            for _ in 0..runs {
                for (remover, taken) in removers.iter().zip(&mut taken) {
                    taken.push(time(*remover, shape, at)?);
                }
            }
            let rows: Vec<Taken> = taken.iter().map(|runs| median(runs)).collect();
            removers.iter().zip(&rows).for_each(|(remover, row)| print(*remover, *row, rows[0]));
        }
    }
    drop(mounted);
    Ok(())
}

fn time(remover: Remover, shape: Shape, at: &Path) -> anyhow::Result<Taken> {
    let cache = at.join("cache");
    let workspaces = cache.join(WORKSPACES);
    std::fs::create_dir_all(&workspaces)?;
    std::fs::create_dir_all(at.join("state"))?;
    shape.build(&workspaces).with_context(|| format!("cannot build {}", shape.name()))?;
    let synced = Command::new("sync").arg("-f").arg(at).status()?;
    if !synced.success() {
        bail!("sync failed: {synced}");
    }
    let (started, before) = (Instant::now(), children_cpu()?);
    remover.remove(&cache, &at.join("state"))?;
    let taken = Taken { wall: started.elapsed(), cpu: children_cpu()?.saturating_sub(before) };
    derelict_testkit::scratch::remove(&cache);
    derelict_testkit::scratch::remove(at.join("state"));
    Ok(taken)
}

fn median(runs: &[Taken]) -> Taken {
    let middle = |mut all: Vec<Duration>| {
        all.sort();
        all[all.len() / 2]
    };
    Taken {
        wall: middle(runs.iter().map(|taken| taken.wall).collect()),
        cpu: middle(runs.iter().map(|taken| taken.cpu).collect()),
    }
}

fn print(remover: Remover, taken: Taken, rm: Taken) {
    let milliseconds = |duration: Duration| duration.as_secs_f64() * 1000.0;
    let ratio = |ours: Duration, its: Duration| ours.as_secs_f64() / its.as_secs_f64();
    println!(
        "{:<24} {:>9.1} {:>9.1} {:>12.2} {:>12.2}",
        remover.name(),
        milliseconds(taken.wall),
        milliseconds(taken.cpu),
        ratio(taken.wall, rm.wall),
        ratio(taken.cpu, rm.cpu)
    );
}

impl Remover {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rm => "rm -rf",
            Self::Rmz => "rmz",
            Self::Node => "node rmSync",
            Self::Derelict("yielding", 0) => "derelict",
            Self::Derelict("yielding", _) => "derelict at a rate",
            Self::Derelict(..) => "derelict, unyielding",
        }
    }

    fn is_here(self) -> bool {
        match self {
            Self::Rm | Self::Derelict(..) => true,
            Self::Rmz => on_path("rmz").is_some(),
            Self::Node => on_path("node").is_some(),
        }
    }

    /// The program that removes what lies in a cache. Derelict removes the workspaces and keeps the rest.
    pub(crate) fn command(self, cache: &Path, state: &Path) -> anyhow::Result<Command> {
        let workspaces = cache.join(WORKSPACES);
        let mut command = match self {
            Self::Rm => Command::new("rm"),
            Self::Rmz => Command::new("rmz"),
            Self::Node => Command::new("node"),
            Self::Derelict(..) => Command::new(std::env::current_exe().context("cannot tell where this program is")?),
        };
        match self {
            Self::Rm => command.arg("-rf").arg(workspaces),
            Self::Rmz => command.arg(workspaces),
            Self::Node => command.args(["-e", NODE]).arg(workspaces),
            Self::Derelict(courtesy, rate) => {
                command.arg("sweep").args([cache, state]).args([courtesy, &rate.to_string()])
            }
        };
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        Ok(command)
    }

    /// Removes, and gives what was printed.
    pub(crate) fn remove(self, cache: &Path, state: &Path) -> anyhow::Result<String> {
        let output = self.command(cache, state)?.output().with_context(|| format!("cannot start {}", self.name()))?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        } else {
            Err(anyhow!("{} failed: {}", self.name(), output.status))
        }
    }
}

pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|program| program.is_file())
}
