//! One sweep over everything in a directory, with the real doors to act and a door to look that finds
//! all of it garbage: what the benchmark times is removing by the whole protocol (mount proof,
//! intent, fence, second look, discard, settlement), without the cost of looking for unsaved work.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use derelict_core::evidence::{Candidate, Evidence, Layout, Observed, Proof, SourceReport};
use derelict_core::ids::{FileIdentity, SourceId, Timestamp, WorkspaceName};
use derelict_core::outcome::FateName;
use derelict_core::plan::{ApprovedPlan, Consent, Judged, Plan};
use derelict_core::policy::{Force, Limits, Policy, Selection, Window};
use derelict_core::ports::{Observe, SourceLost};
use derelict_core::record::Disposal;
use derelict_core::size::{Completeness, Size};
use derelict_core::sweep::{self, sweep};
use derelict_core::verdict::judge;
use derelict_reclaim::beneath::Root;
use derelict_reclaim::journal::Journal;
use derelict_reclaim::lock::DevlaunchLocks;
use derelict_reclaim::pace::{Courtesy, Pace};
use derelict_reclaim::reclaimer::{OpenWorkspace, Reclaimer};
use derelict_reclaim::release::DevlaunchRecords;

/// Where the workspaces lie below a cache: the engine wants an owner and a repository above them.
pub(crate) const WORKSPACES: &str = "repos/bench/shape";

/// Some instant: nothing here depends on when it is.
const NOW: Timestamp = Timestamp::new(1_800_000_000, 0);

/// Removes every workspace of a cache, and prints how many entries that were and how many operations it took.
pub(crate) fn run(cache: &Path, state: &Path, courtesy: &str, per_second: &str) -> anyhow::Result<()> {
    let courtesy = match courtesy {
        "yielding" => Courtesy::Yielding,
        "unyielding" => Courtesy::Unyielding,
        other => bail!("unknown courtesy {other}"),
    };
    let per_second: u32 = per_second.parse().context("the rate is no number")?;
    let pace = Pace { operations_per_second: std::num::NonZeroU32::new(per_second), courtesy };
    let mut journal = Journal::open(state)?;
    let root = Root::open(&cache.join("repos"))?;
    let records = DevlaunchRecords::new(cache);
    let mut reclaimer = Reclaimer::new(root, records, journal.id().clone()).with_pace(pace);
    let approved = approved(candidates(cache)?)?;
    let world = sweep::World {
        observe: &mut AllGarbage,
        lock: &mut DevlaunchLocks::new(cache),
        reclaim: &mut reclaimer,
        journal: &mut journal,
    };
    let report = sweep(&approved, &policy(), NOW, Disposal::Discard, world, || None, |_| {});
    let tally = report.tally();
    if tally.of(FateName::Removed) != tally.scanned() {
        let stuck = report.settled.iter().map(|settled| &settled.fate).find(|fate| fate.name() != FateName::Removed);
        bail!("{} of {} were removed: {stuck:?}", tally.of(FateName::Removed), tally.scanned());
    }
    println!("{} {}", report.discarded().entries, reclaimer.operations());
    Ok(())
}

fn candidates(cache: &Path) -> anyhow::Result<Vec<Candidate>> {
    let workspaces = cache.join(WORKSPACES);
    let listing = std::fs::read_dir(&workspaces).with_context(|| format!("cannot list {}", workspaces.display()))?;
    let paths: std::io::Result<Vec<PathBuf>> = listing.map(|entry| Ok(entry?.path())).collect();
    let mut paths = paths?;
    paths.retain(|path| path.is_dir());
    paths.sort();
    paths.into_iter().map(|path| candidate(cache, path)).collect()
}

fn candidate(cache: &Path, path: PathBuf) -> anyhow::Result<Candidate> {
    let meta = std::fs::symlink_metadata(&path)?;
    let born = rustix::fs::statx(
        rustix::fs::CWD,
        &path,
        rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
        rustix::fs::StatxFlags::BTIME,
    )?;
    let has_birth = born.stx_mask & rustix::fs::StatxFlags::BTIME.bits() != 0;
    let birth = has_birth.then(|| Timestamp::new(born.stx_btime.tv_sec, born.stx_btime.tv_nsec));
    let name = path.file_name().context("a workspace has no name")?;
    let name = WorkspaceName::new(name.as_bytes())?;
    let below_root = path.strip_prefix(cache.join("repos"))?.to_owned();
    Ok(Candidate { name, identity: FileIdentity { dev: meta.dev(), ino: meta.ino(), birth }, path, below_root })
}

struct AllGarbage;

impl Observe for AllGarbage {
    type Handle = OpenWorkspace;

    fn refresh(&mut self) -> Result<(), SourceLost> {
        Ok(())
    }

    fn look_again(&mut self, _: &Candidate, _: &OpenWorkspace) -> Result<Evidence, SourceLost> {
        Ok(clean())
    }

    fn second_look(&mut self, _: &Candidate, _: &OpenWorkspace, first: &Evidence) -> Result<Evidence, SourceLost> {
        Ok(first.clone())
    }
}

fn clean() -> Evidence {
    let source = SourceReport { source: SourceId("benchmark".into()), claims: Observed::Known(Vec::new()) };
    let proof = Observed::Known(Proof { channels: Vec::new(), allowed: Vec::new() });
    let touched = Observed::Known(Timestamp::new(0, 0));
    Evidence::new(vec![source], touched, Observed::Known(Layout::Any), Observed::Known(Vec::new()), proof)
        .expect("because a source was asked")
}

fn policy() -> Policy {
    Policy { window: Window::Standing, minimum_age: Duration::ZERO, clock_tolerance: Duration::from_secs(60) }
}

fn approved(candidates: Vec<Candidate>) -> anyhow::Result<ApprovedPlan> {
    let judged = candidates.into_iter().map(|candidate| {
        let size = Size { sole_bytes: 0, entries: 1, linked: Vec::new(), completeness: Completeness::Exact };
        let evidence = clean();
        let verdict = judge(&evidence, &policy(), NOW);
        Judged { candidate, evidence, size, verdict }
    });
    let plan = Plan::new(judged.collect(), &Selection::new(Force::No, Limits::NONE));
    let seen = plan.digest();
    plan.approve(Consent::Operator { seen }).context("the plan was not approved")
}
