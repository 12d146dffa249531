//! `cargo xtask bench reaper`: what an unattended sweep costs, beside the floor of [`crate::reaper_floor`] on the same
//! tree in the same run. The trees lie on a file system in memory and the owners in a PostgreSQL that is started for it.
//! What rows cost by themselves is measured by the example `owner_rows` of derelict-observe, which is run at the end.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use derelict_testkit::Scratch;
use derelict_testkit::postgres::{Database, Server};

use crate::measure::{Measured, measure_prepared};
use crate::reaper_tree::{REMOVABLE_OF_20, Shape, build, fill_table};

/// The tree of the live sweep: that for which the figures of the program that this replaces are known.
const LIVE: Shape = Shape { workspaces: 1_000, files: 100, rows: 600 };

/// The tree that shows how a sweep grows.
const LARGE: Shape = Shape { workspaces: 100_000, files: 0, rows: 1_000_000 };

/// Runs of each row; a live sweep builds its tree anew each time.
const RUNS: u32 = 3;

/// How often a running program is asked for its size.
const GLANCE: Duration = Duration::from_millis(2);

/// The processor time of the reference implementation on the tree of [`LIVE`], at best: live, and dry.
const REFERENCE: &str = "the reference implementation: live 7.3 s CPU and 11 s wall, dry run 2.6 s wall";

/// Runs the benchmark.
pub(crate) fn run(options: &[&str]) -> anyhow::Result<()> {
    let (mut runs, mut rows) = (RUNS, Rows::All);
    match options {
        [] => {}
        ["--runs", number] => runs = number.parse().context("--runs wants a number")?,
        ["--only", which] => rows = Rows::named(which)?,
        ["--runs", number, "--only", which] => {
            runs = number.parse().context("--runs wants a number")?;
            rows = Rows::named(which)?;
        }
        _ => bail!("bench reaper takes --runs N and --only live|large|owners"),
    }
    if runs == 0 {
        bail!("--runs wants a number above zero");
    }
    let this = std::env::current_exe().context("cannot tell where this program is")?;
    if rows.with(Rows::Live) || rows.with(Rows::Large) {
        let server = Server::start();
        println!("average of {runs} runs, caches warm");
        println!("{:<34} {:>9} {:>9} {:>10} {:>8} {:>8}", "", "wall ms", "CPU ms", "peak MiB", "wall/fl", "CPU/fl");
        if rows.with(Rows::Live) {
            live(&this, &server, runs)?;
        }
        if rows.with(Rows::Large) {
            large(&this, &server, runs)?;
        }
    }
    if rows.with(Rows::Owners) {
        let status = Command::new(this.with_file_name("examples").join("owner_rows")).status();
        let status = status.context("cannot start the example owner_rows")?;
        if !status.success() {
            bail!("owner_rows failed: {status}");
        }
    }
    Ok(())
}

/// Which rows are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rows {
    All,
    Live,
    Large,
    Owners,
}

impl Rows {
    fn named(name: &str) -> anyhow::Result<Self> {
        match name {
            "live" => Ok(Self::Live),
            "large" => Ok(Self::Large),
            "owners" => Ok(Self::Owners),
            other => Err(anyhow!("there are no rows {other}: live, large or owners")),
        }
    }

    fn with(self, row: Self) -> bool {
        self == Self::All || self == row
    }
}

fn live(this: &Path, server: &Server, runs: u32) -> anyhow::Result<()> {
    let database = server.database();
    fill_table(&database, LIVE);
    let site = Site::new(&database)?;
    build(&site.root(), LIVE)?;
    let floor = measure_prepared(runs, || Ok(()), || floor(this, "whole", &site.root()))?;
    row("1,000 of 100 files: floor", &floor, &floor);
    let product = this.with_file_name("derelict");
    let dry = measure_prepared(runs, || Ok(()), || site.reap(&product, &["--dry-run"]))?;
    row("reap --dry-run", &dry, &floor);
    let expected = LIVE.workspaces * REMOVABLE_OF_20 / 20;
    let rebuild = || {
        site.clear()?;
        build(&site.root(), LIVE)
    };
    let live = measure_prepared(runs, rebuild, || {
        let memory = site.reap(&product, &[])?;
        let left = std::fs::read_dir(site.root())?.count() as u64;
        if left == LIVE.workspaces - expected { Ok(memory) } else { Err(anyhow!("{left} directories are left")) }
    })?;
    row("reap, removing 600", &live, &floor);
    println!("{REFERENCE}");
    Ok(())
}

fn large(this: &Path, server: &Server, runs: u32) -> anyhow::Result<()> {
    let database = server.database();
    fill_table(&database, LARGE);
    let site = Site::new(&database)?;
    build(&site.root(), LARGE)?;
    let floor = measure_prepared(runs, || Ok(()), || floor(this, "layout", &site.root()))?;
    row("100,000 empty: floor", &floor, &floor);
    let product = this.with_file_name("derelict");
    let dry = measure_prepared(runs, || Ok(()), || site.reap(&product, &["--dry-run"]))?;
    row("reap --dry-run, 1,000,000 rows", &dry, &floor);
    Ok(())
}

/// A root, its configuration and its state.
struct Site {
    scratch: Scratch,
}

impl Site {
    fn new(database: &Database) -> anyhow::Result<Self> {
        let site = Self { scratch: Scratch::new() };
        std::fs::create_dir(site.root())?;
        let config = format!(
            "state = {:?}\n[roots.bench]\npath = {:?}\npreset = \"paperclip\"\narmed = true\n\
             idle = \"30d\"\nlimits = {{ removals = 100000 }}\n[roots.bench.owner]\nkind = \"postgres\"\nhost = {:?}\n\
             port = {}\ndbname = {:?}\nuser = \"postgres\"\n",
            site.scratch.path().join("state"),
            site.root(),
            database.host(),
            database.port(),
            database.name(),
        );
        std::fs::write(site.config(), config)?;
        Ok(site)
    }

    fn root(&self) -> PathBuf {
        self.scratch.path().join("root")
    }

    fn config(&self) -> PathBuf {
        self.scratch.path().join("config.toml")
    }

    /// Forgets everything, the last sweep included, so that the next one finds what the first did.
    fn clear(&self) -> anyhow::Result<()> {
        for directory in [self.root(), self.scratch.path().join("state")] {
            derelict_testkit::scratch::remove(directory);
        }
        std::fs::create_dir(self.root())?;
        Ok(())
    }

    fn reap(&self, product: &Path, flags: &[&str]) -> anyhow::Result<Option<u64>> {
        let mut command = Command::new(product);
        command.args(["reap", "--config"]).arg(self.config()).args(flags);
        command.env_clear().env("HOME", self.scratch.path());
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(std::fs::File::create(self.scratch.path().join("log"))?);
        let (memory, code) = peak(&mut command)?;
        if code == Some(0) {
            return Ok(Some(memory));
        }
        let log = std::fs::read_to_string(self.scratch.path().join("log"))?;
        Err(anyhow!("reap ended with {code:?}: {log}"))
    }
}

fn floor(this: &Path, depth: &str, root: &Path) -> anyhow::Result<Option<u64>> {
    let mut command = Command::new(this);
    command.args(["reaper-floor", depth]).arg(root).stdout(Stdio::null());
    match peak(&mut command)? {
        (memory, Some(0)) => Ok(Some(memory)),
        (_, code) => Err(anyhow!("the floor ended with {code:?}")),
    }
}

/// Runs a program to its end, asking for its greatest size on the way, and returns that with its exit code.
fn peak(command: &mut Command) -> anyhow::Result<(u64, Option<i32>)> {
    let mut child = command.spawn().with_context(|| format!("cannot start {}", command.get_program().display()))?;
    let mut memory = 0;
    loop {
        memory = memory.max(resident(&child));
        if let Some(status) = child.try_wait()? {
            return Ok((memory, status.code()));
        }
        std::thread::sleep(GLANCE);
    }
}

/// The greatest size so far; nothing for one that has just ended, of which the last answer holds.
fn resident(child: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
    let line =
        status.ok().and_then(|status| status.lines().find_map(|line| line.strip_prefix("VmHWM:").map(kibibytes)));
    line.flatten().map_or(0, |kibibytes| kibibytes * 1024)
}

fn kibibytes(value: &str) -> Option<u64> {
    value.trim().trim_end_matches(" kB").parse().ok()
}

fn row(name: &str, measured: &Measured, floor: &Measured) {
    let milliseconds = |duration: Duration| duration.as_secs_f64() * 1000.0;
    let memory = measured.memory.map_or(0.0, |bytes| bytes as f64 / 1_048_576.0);
    let ratio = |one: Duration, other: Duration| one.as_secs_f64() / other.as_secs_f64();
    let (wall, cpu) = (milliseconds(measured.wall), milliseconds(measured.cpu));
    let (by_wall, by_cpu) = (ratio(measured.wall, floor.wall), ratio(measured.cpu, floor.cpu));
    println!("{name:<34} {wall:>9.1} {cpu:>9.1} {memory:>10.1} {by_wall:>8.2} {by_cpu:>8.2}");
}
