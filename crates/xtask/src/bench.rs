//! `cargo xtask bench`: how long `prune` takes to answer on the cache of 54 clones, answered `n` on a terminal, beside the
//! floor of [`crate::floor`] and, when a `dl` is on PATH, beside devlaunch's own pruner on the same cache in the same run.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, anyhow, bail};
use derelict_testkit::standard::STANDARD;
use derelict_testkit::{Cache, Run};

use crate::discarding::on_path;
use crate::measure::{Measured, measure};
use crate::{discarding, manners};

/// Enough for the average to settle; a run takes well below a second.
const RUNS: u32 = 20;

/// A tree is built anew for each removal, which takes longer than the removal.
const DISCARDS: usize = 5;

/// As long as it takes for one in a hundred to be a dozen.
const SECONDS: u64 = 60;

/// What the product asks with.
const QUESTION: &str = "[y/N]";

/// The directory of the estate that is first on PATH.
const DEVPOD_ONLY: &str = "devpod-only";

/// A file system in memory, for trees of which only our own time is to be seen.
const IN_MEMORY: &str = "/dev/shm";

/// Builds the product and this program for release and runs the benchmark in that build.
pub(crate) fn build_and_run(options: &[&str]) -> anyhow::Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let build = |wanted: &[&str]| {
        let status = Command::new(&cargo).args(["build", "--release"]).args(wanted).status();
        let status = status.context("cannot start cargo")?;
        if status.success() { Ok(()) } else { Err(anyhow!("the release build failed: {status}")) }
    };
    build(&["--package", "derelict", "--package", "xtask"])?;
    let mut variables = Vec::new();
    if options.first() == Some(&"proof") {
        build(&["--package", "derelict-git", "--example", "examine"])?;
        variables.push(("TMPDIR", IN_MEMORY));
    }
    if options.first() == Some(&"reaper") {
        build(&["--package", "derelict-observe", "--example", "owner_rows"])?;
        variables.push(("TMPDIR", IN_MEMORY));
    }
    let this = std::env::current_exe().context("cannot tell where this program is")?;
    let target =
        this.parent().and_then(Path::parent).ok_or_else(|| anyhow!("this program lies in no target directory"))?;
    let release = target.join("release/xtask");
    let status = Command::new(&release).arg("measure").args(options).envs(variables).status();
    let status = status.with_context(|| format!("cannot start {}", release.display()))?;
    if status.success() { Ok(()) } else { Err(anyhow!("the benchmark failed: {status}")) }
}

/// Runs the benchmark.
pub(crate) fn run(options: &[&str]) -> anyhow::Result<()> {
    let number = |value: &str| value.parse().with_context(|| format!("{value} is no number"));
    match options {
        ["discard"] => return discarding::run(DISCARDS),
        ["discard", "--runs", runs] => return discarding::run(number(runs)?),
        ["pace"] => return manners::run(SECONDS),
        ["pace", "--seconds", seconds] => return manners::run(number(seconds)? as u64),
        _ => {}
    }
    let mut runs = RUNS;
    let mut script = None;
    let mut rest = options;
    while let [name, value, more @ ..] = rest {
        match *name {
            "--runs" => runs = value.parse().context("--runs wants a number")?,
            "--cache-script" => script = Some(PathBuf::from(value)),
            other => bail!("unknown option {other}"),
        }
        rest = more;
    }
    if !rest.is_empty() || runs == 0 {
        bail!("every option wants a value, and --runs one above zero");
    }
    let estate = Estate::build(script.as_deref())?;
    estate.set_devpod_apart()?;
    println!("54 clones below {}, average of {runs} runs, caches warm", estate.cache().display());
    let this = std::env::current_exe().context("cannot tell where this program is")?;
    let beside = this.with_file_name("derelict");
    let floor = measure(runs, || {
        let output = Command::new(&this).arg("floor").arg(estate.cache()).output()?;
        if output.status.success() { Ok(None) } else { Err(anyhow!("the floor failed: {}", output.status)) }
    })?;
    let product = measure(runs, || Ok(Some(answer_no(estate.run(&beside, &["prune"])))))?;
    let peer = match on_path("dl") {
        Some(dl) => Some(measure(runs, || tell_no(&dl, &estate))?),
        None => None,
    };
    print(&floor, &product, peer.as_ref());
    Ok(())
}

/// The cache, with the environment that leads to it.
enum Estate {
    Ours(Cache),
    /// Built by a script with the same interface as the one the acceptance names: `SCRIPT ROOT`.
    Scripted(derelict_testkit::Scratch),
}

impl Estate {
    fn build(script: Option<&Path>) -> anyhow::Result<Self> {
        let Some(script) = script else { return Ok(Self::Ours(STANDARD.build())) };
        let scratch = derelict_testkit::Scratch::new();
        let root = scratch.path().join("estate");
        let status = Command::new("bash").arg(script).arg(&root).status();
        let status = status.with_context(|| format!("cannot start {}", script.display()))?;
        if status.success() {
            Ok(Self::Scripted(scratch))
        } else {
            Err(anyhow!("{} failed: {status}", script.display()))
        }
    }

    fn root(&self) -> PathBuf {
        match self {
            Self::Ours(cache) => cache.root().to_path_buf(),
            Self::Scripted(scratch) => scratch.path().join("estate"),
        }
    }

    fn cache(&self) -> PathBuf {
        self.root().join("cache/devlaunch")
    }

    /// Makes a directory with nothing but the estate's `devpod`: beside it may lie a git that must not be started, and the
    /// peer needs the machine's own.
    fn set_devpod_apart(&self) -> anyhow::Result<()> {
        let directory = self.root().join(DEVPOD_ONLY);
        std::fs::create_dir(&directory)?;
        std::os::unix::fs::symlink(self.root().join("bin/devpod"), directory.join("devpod"))?;
        Ok(())
    }

    /// The environment of the estate; its own `devpod` is found first, the machine's git for the peer next.
    fn environment(&self) -> [(&'static str, OsString); 6] {
        let root = self.root();
        let mut path = root.join(DEVPOD_ONLY).into_os_string();
        if let Some(machine) = std::env::var_os("PATH") {
            path.push(":");
            path.push(machine);
        }
        [
            ("HOME", root.join("home").into()),
            ("XDG_CACHE_HOME", root.join("cache").into()),
            ("XDG_CONFIG_HOME", root.join("config").into()),
            ("XDG_STATE_HOME", root.join("state").into()),
            ("DEVPOD_HOME", root.join("devpod").into()),
            ("PATH", path),
        ]
    }

    fn run(&self, program: &Path, arguments: &[&str]) -> Run {
        let run = Run::new(program).args(arguments);
        self.environment().into_iter().fold(run, |run, (name, value)| run.env(name, value))
    }
}

/// Answers no, and returns the greatest resident size until the question.
fn answer_no(run: Run) -> u64 {
    let mut session = run.on_terminal();
    session.wait_for(QUESTION);
    let memory = session.peak_memory();
    session.answer("n");
    drop(session.finish());
    memory
}

/// Answers no to the peer, which asks on stdout and is content with a pipe. Its memory is not looked at.
fn tell_no(program: &Path, estate: &Estate) -> anyhow::Result<Option<u64>> {
    let mut command = Command::new(program);
    command.arg("--prune").env_clear().envs(estate.environment());
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
    let mut stdin = child.stdin.take().ok_or_else(|| anyhow!("the peer has no stdin"))?;
    stdin.write_all(b"n\n")?;
    drop(stdin);
    child.wait()?;
    Ok(None)
}

fn print(floor: &Measured, product: &Measured, peer: Option<&Measured>) {
    println!("{:<24} {:>9} {:>9} {:>10} {:>12}", "", "wall ms", "CPU ms", "peak MiB", "CPU / floor");
    row("floor", floor, floor);
    row("derelict prune, no", product, floor);
    match peer {
        Some(peer) => {
            row("dl --prune, no", peer, floor);
            let ratio = product.cpu.as_secs_f64() / peer.cpu.as_secs_f64();
            println!("derelict takes {:.1} % of the processor time of dl", ratio * 100.0);
        }
        None => println!("no `dl` on PATH: install devlaunch into an environment of its own to compare"),
    }
}

fn row(name: &str, measured: &Measured, floor: &Measured) {
    let milliseconds = |duration: std::time::Duration| duration.as_secs_f64() * 1000.0;
    let memory = measured.memory.map_or_else(|| "-".to_owned(), |bytes| format!("{:.1}", bytes as f64 / 1_048_576.0));
    let ratio = measured.cpu.as_secs_f64() / floor.cpu.as_secs_f64();
    let (wall, cpu) = (milliseconds(measured.wall), milliseconds(measured.cpu));
    println!("{name:<24} {wall:>9.1} {cpu:>9.1} {memory:>10} {ratio:>12.1}");
}
