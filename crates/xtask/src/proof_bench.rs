//! `cargo xtask bench proof`: what it costs to prove that nothing would be lost, beside four git processes for each
//! directory, which is what a guard of a few lines asks, and beside the floor of [`crate::floor`]. The last rows show that
//! what grows tenfold costs no more than tenfold.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, anyhow, bail};
use derelict_testkit::Scratch;
use derelict_testkit::standard::STANDARD;

use crate::measure::{Measured, measure};

/// Runs of each row.
const RUNS: u32 = 10;

/// What a guard asks of each clone.
const ASKED: [&[&str]; 4] = [
    &["status", "--porcelain", "--ignored", "--untracked-files=all"],
    &["rev-list", "--all", "HEAD", "--not", "--remotes"],
    &["stash", "list"],
    &["for-each-ref"],
];

/// Files of the large repository.
const FILES: usize = 66_000;

/// Files of one of its directories.
const OF_A_DIRECTORY: usize = 20;

/// Runs the benchmark.
pub(crate) fn run(options: &[&str]) -> anyhow::Result<()> {
    let runs = match options {
        [] => RUNS,
        ["--runs", number] => number.parse().context("--runs wants a number")?,
        _ => bail!("bench proof takes --runs N"),
    };
    if runs == 0 {
        bail!("--runs wants a number above zero");
    }
    let this = std::env::current_exe().context("cannot tell where this program is")?;
    let bench = Bench { runs, examine: this.with_file_name("examples").join("examine"), this };
    println!("average of {runs} runs, caches warm");
    println!("{:<40} {:>9} {:>9} {:>10} {:>10}", "", "wall ms", "CPU ms", "wall / git", "CPU / floor");
    bench.many_clones()?;
    bench.large()?;
    bench.work_trees()?;
    for growth in [
        Growth { what: "refs", most: 10_000, make: refs },
        Growth { what: "reflog lines", most: 100_000, make: reflog },
        Growth { what: "packs", most: 1_000, make: packs },
        Growth { what: "linked work trees inside", most: 250, make: linked_inside },
    ] {
        bench.grows(&growth)?;
    }
    Ok(())
}

struct Bench {
    runs: u32,
    this: PathBuf,
    examine: PathBuf,
}

/// Something there can be many of.
struct Growth {
    what: &'static str,
    most: usize,
    make: fn(&Path, usize) -> anyhow::Result<()>,
}

impl Bench {
    fn many_clones(&self) -> anyhow::Result<()> {
        let cache = STANDARD.build();
        let (mut clones, mut keepers) = (Vec::new(), Vec::new());
        for owner in directories(&cache.repos())? {
            for repository in directories(&owner)? {
                let (bare, others): (Vec<PathBuf>, _) =
                    directories(&repository)?.into_iter().partition(|path| path.ends_with(".bare"));
                keepers.extend(bare);
                clones.extend(others);
            }
        }
        let floor = measure(self.runs, || done(Command::new(&self.this).arg("floor").arg(cache.dir())))?;
        let git = measure(self.runs, || four_processes(&clones))?;
        let ours = measure(self.runs, || self.examined(&keepers, &clones))?;
        row("54 clones: floor, one thread", &floor, &git, Some(&floor));
        row("54 clones: four git processes each", &git, &git, Some(&floor));
        row("54 clones: derelict", &ours, &git, Some(&floor));
        Ok(())
    }

    fn large(&self) -> anyhow::Result<()> {
        let scratch = Scratch::new();
        let clone = scratch.path().join("large");
        large(&clone)?;
        let floor = measure(self.runs, || done(Command::new(&self.this).args(["floor", "--clone"]).arg(&clone)))?;
        let git = measure(self.runs, || done(&mut git(&clone, ASKED[0])))?;
        let ours = measure(self.runs, || self.examined(&[], std::slice::from_ref(&clone)))?;
        row("66,000 files: floor, one thread", &floor, &git, Some(&floor));
        row("66,000 files: git status", &git, &git, Some(&floor));
        row("66,000 files: derelict", &ours, &git, Some(&floor));
        Ok(())
    }

    /// Every one of them alone: the repository that they share is read once.
    fn work_trees(&self) -> anyhow::Result<()> {
        let scratch = Scratch::new();
        let main = scratch.path().join("main");
        commits(&main, 2_000, "refs/heads/main")?;
        shell(&main, "git reset -q --hard; for i in $(seq 250); do git worktree add -q -f --detach ../w$i HEAD; done")?;
        let all: Vec<PathBuf> = (1..=250).map(|number| scratch.path().join(format!("w{number}"))).collect();
        let tenth = measure(self.runs, || self.examined(std::slice::from_ref(&main), &all[..25]))?;
        let whole = measure(self.runs, || self.examined(std::slice::from_ref(&main), &all))?;
        let git = measure(1, || four_processes(&all))?;
        row("250 linked work trees: four git processes", &git, &git, None);
        row("25 linked work trees: derelict", &tenth, &git, None);
        row("250 linked work trees: derelict", &whole, &git, None);
        grown(&tenth, &whole);
        Ok(())
    }

    fn grows(&self, growth: &Growth) -> anyhow::Result<()> {
        let scratch = Scratch::new();
        let make = |name: &str, number: usize| -> anyhow::Result<PathBuf> {
            let clone = scratch.path().join(name);
            (growth.make)(&clone, number)?;
            Ok(clone)
        };
        let (small, great) = (make("small", growth.most / 10)?, make("great", growth.most)?);
        let of = |clone: &PathBuf| measure(self.runs, || self.examined(&[], std::slice::from_ref(clone)));
        let (tenth, whole) = (of(&small)?, of(&great)?);
        let git = measure(self.runs, || four_processes(std::slice::from_ref(&great)))?;
        row(&format!("{} {}: four git processes", growth.most, growth.what), &git, &git, None);
        row(&format!("{} {}: derelict", growth.most / 10, growth.what), &tenth, &git, None);
        row(&format!("{} {}: derelict", growth.most, growth.what), &whole, &git, None);
        grown(&tenth, &whole);
        Ok(())
    }

    fn examined(&self, keepers: &[PathBuf], clones: &[PathBuf]) -> anyhow::Result<Option<u64>> {
        let keepers = keepers.iter().flat_map(|keeper| [OsString::from("--keeper"), keeper.into()]);
        done(Command::new(&self.examine).args(keepers).args(clones))
    }
}

fn grown(tenth: &Measured, whole: &Measured) {
    let ratio = whole.cpu.as_secs_f64() / tenth.cpu.as_secs_f64().max(0.001);
    println!("{:<40} {ratio:>9.1} times the processor time for ten times as many", "");
}

fn row(name: &str, measured: &Measured, git: &Measured, floor: Option<&Measured>) {
    let milliseconds = |duration: std::time::Duration| duration.as_secs_f64() * 1000.0;
    let ratio = measured.wall.as_secs_f64() / git.wall.as_secs_f64();
    let floor = floor.map(|floor| format!("{:.2}", measured.cpu.as_secs_f64() / floor.cpu.as_secs_f64()));
    let (wall, cpu) = (milliseconds(measured.wall), milliseconds(measured.cpu));
    println!("{name:<40} {wall:>9.1} {cpu:>9.1} {ratio:>10.2} {:>10}", floor.as_deref().unwrap_or("-"));
}

fn directories(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(path).with_context(|| format!("cannot list {}", path.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

fn done(command: &mut Command) -> anyhow::Result<Option<u64>> {
    let status = command.stdout(Stdio::null()).status().with_context(|| format!("cannot start {command:?}"))?;
    if status.success() { Ok(None) } else { Err(anyhow!("{command:?} failed: {status}")) }
}

fn git(clone: &Path, arguments: &[&str]) -> Command {
    let mut git = Command::new("git");
    git.arg("-C").arg(clone).args(arguments).env("GIT_OPTIONAL_LOCKS", "0");
    git
}

/// Asks git four things of each, two clones at a time.
fn four_processes(clones: &[PathBuf]) -> anyhow::Result<Option<u64>> {
    let next = AtomicUsize::new(0);
    let work = || -> anyhow::Result<()> {
        while let Some(clone) = clones.get(next.fetch_add(1, Ordering::Relaxed)) {
            for asked in ASKED {
                done(&mut git(clone, asked))?;
            }
        }
        Ok(())
    };
    std::thread::scope(|threads| {
        let other = threads.spawn(work);
        work().and(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })?;
    Ok(None)
}

fn shell(dir: &Path, script: &str) -> anyhow::Result<()> {
    let identity = ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"];
    let mut bash = Command::new("bash");
    bash.args(["-euc", script]).current_dir(dir).envs(identity.map(|name| (name, "bench@example.invalid")));
    done(&mut bash).map(|_| ())
}

/// A repository with one file and so many commits, the last of which `last` names.
fn commits(clone: &Path, number: usize, last: &str) -> anyhow::Result<()> {
    std::fs::create_dir_all(clone)?;
    let script = format!(
        "git init -q -b main; git remote add origin https://forge.invalid/a/b
         for i in $(seq {number}); do
             printf 'commit {last}\\nmark :%d\\ncommitter b <b> %d +0000\\ndata 1\\nx' $i $((1600000000+i))
             printf '\\nM 100644 inline f\\ndata 10\\n%010d\\n\\n' $i
         done | git fast-import --quiet"
    );
    shell(clone, &script)
}

fn large(clone: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(clone)?;
    // Long enough ago that nothing has to be read because it may have been written since.
    let written = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_600_000_000);
    for number in 0..FILES {
        let directory = clone.join(format!("d{}/e{}", number / OF_A_DIRECTORY / 40, number / OF_A_DIRECTORY));
        if number.is_multiple_of(OF_A_DIRECTORY) {
            std::fs::create_dir_all(&directory)?;
        }
        let path = directory.join(format!("file-{number}.txt"));
        std::fs::write(&path, format!("{number}\n"))?;
        std::fs::File::options().write(true).open(&path)?.set_modified(written)?;
    }
    shell(
        clone,
        "git init -q -b main; git add -A; git -c gc.auto=0 commit -qm all; git gc -q; git update-index --refresh",
    )
}

fn refs(clone: &Path, number: usize) -> anyhow::Result<()> {
    commits(clone, number, "refs/remotes/origin/main")?;
    shell(
        clone,
        "n=0; git rev-list --all | while read id; do n=$((n+1)); echo \"create refs/remotes/origin/b$n $id\"; done | \
         git update-ref --stdin; git pack-refs --all; git checkout -q -b main origin/main",
    )
}

fn reflog(clone: &Path, number: usize) -> anyhow::Result<()> {
    commits(clone, 1_000, "refs/remotes/origin/main")?;
    let script = format!(
        "git checkout -q -b main origin/main; mapfile -t ids < <(git rev-list --all)
         for ((i = 1; i <= {number}; i++)); do
             echo \"${{ids[i % 1000]}} ${{ids[(i + 1) % 1000]}} b <b@example.invalid> 1600000000 +0000	checkout\"
         done >.git/logs/HEAD"
    );
    shell(clone, &script)
}

fn packs(clone: &Path, number: usize) -> anyhow::Result<()> {
    commits(clone, 10, "refs/remotes/origin/main")?;
    let script = format!(
        "git checkout -q -b main origin/main
         for i in $(seq {number}); do echo $i | git hash-object -w --stdin | git pack-objects -q .git/objects/pack/pack; done
         git prune-packed -q"
    );
    shell(clone, &script)
}

fn linked_inside(clone: &Path, number: usize) -> anyhow::Result<()> {
    commits(clone, 100, "refs/remotes/origin/main")?;
    let script = format!(
        "git checkout -q -b main origin/main; echo /w/ >.git/info/exclude
         for i in $(seq {number}); do git worktree add -q --detach w/$i HEAD; done"
    );
    shell(clone, &script)
}
