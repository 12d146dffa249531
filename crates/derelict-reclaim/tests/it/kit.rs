//! A small cache with clones that are empty of git, and a sweep over it with the real doors to act
//! and a door to look that finds every clone clean. The tests themselves are in the other modules.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use derelict_core::evidence::{Candidate, Evidence, Layout, Observed, Proof, SourceReport};
use derelict_core::ids::{Digest, FileIdentity, SourceId, Timestamp, WorkspaceName};
use derelict_core::outcome::{Discarded, Fate, Outcome, Refusal};
use derelict_core::plan::{ApprovedPlan, Consent, Judged, Plan};
use derelict_core::policy::{Force, Limits, Policy, Selection, Window};
use derelict_core::ports::{Observe, SourceLost};
use derelict_core::record::{Disposal, Intent, SweepReport};
use derelict_core::size::{Completeness, Size, freed_together};
use derelict_core::sweep::{self, sweep};
use derelict_core::verdict::judge;
use derelict_reclaim::beneath::Root;
use derelict_reclaim::journal::Journal;
use derelict_reclaim::lock::DevlaunchLocks;
use derelict_reclaim::reclaimer::{OpenWorkspace, Reclaimer};
use derelict_reclaim::recover::{Recovery, recover};
use derelict_reclaim::release::DevlaunchRecords;
use derelict_testkit::scratch::{Scratch, mkdir, write};
use rustix::fs::{AtFlags, CWD, StatxFlags};

pub(crate) const NOW: Timestamp = Timestamp::new(1_800_000_000, 0);

/// A cache in a directory of its own, which is removed at the end.
pub(crate) struct World {
    scratch: Option<Scratch>,
    base: PathBuf,
}

impl World {
    pub(crate) fn new() -> Self {
        let scratch = Scratch::new();
        let world = Self::at(scratch.path());
        mkdir(world.repository().join(".bare"));
        Self { scratch: Some(scratch), ..world }
    }

    /// A world that another process has built and will remove.
    pub(crate) fn at(base: &Path) -> Self {
        Self { scratch: None, base: base.to_owned() }
    }

    pub(crate) fn base(&self) -> &Path {
        self.scratch.as_ref().map_or(&self.base, Scratch::path)
    }

    pub(crate) fn cache(&self) -> PathBuf {
        self.base().join("cache")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.base().join("state")
    }

    pub(crate) fn repository(&self) -> PathBuf {
        self.cache().join("repos/o/r")
    }

    pub(crate) fn clone(&self, id: impl AsRef<Path>) -> PathBuf {
        self.repository().join(id)
    }

    /// A clone with a file, a directory with a file, and a link.
    pub(crate) fn make_clone(&self, id: &str) -> PathBuf {
        let clone = self.clone(id);
        write(clone.join("file"), "x");
        write(clone.join("dir/inner"), "y");
        derelict_testkit::scratch::symlink("dir/inner", clone.join("link"));
        clone
    }

    pub(crate) fn candidate(&self, id: impl AsRef<Path>) -> Candidate {
        let below_root = Path::new("o/r").join(id);
        let path = self.cache().join("repos").join(&below_root);
        let name = below_root.file_name().map(|name| WorkspaceName::new(name.as_bytes()));
        let name = name.expect("because there is a name").expect("because it is one component");
        Candidate { name, identity: identity(&path), path, below_root }
    }

    pub(crate) fn journal(&self) -> Journal {
        Journal::open(&self.state()).expect("because the journal can be opened")
    }

    pub(crate) fn reclaimer(&self, journal: &Journal) -> Reclaimer {
        let root = Root::open(&self.cache().join("repos")).expect("because the root is there");
        Reclaimer::new(root, DevlaunchRecords::new(&self.cache()), journal.id().clone())
    }

    pub(crate) fn recover(&self) -> Recovery {
        let mut journal = self.journal();
        let reclaimer = self.reclaimer(&journal);
        recover(&mut journal, &reclaimer, &mut DevlaunchLocks::new(&self.cache()))
    }

    /// Removes clones as a sweep does; `between` runs when each is looked at again.
    pub(crate) fn sweep(&self, candidates: Vec<Candidate>, between: impl FnMut(&Candidate)) -> SweepReport {
        self.sweep_with(Disposal::Discard, candidates, between)
    }

    /// The same, and what may go is disposed of in this way.
    pub(crate) fn sweep_with(
        &self,
        disposal: Disposal,
        candidates: Vec<Candidate>,
        between: impl FnMut(&Candidate),
    ) -> SweepReport {
        let mut journal = self.journal();
        let mut reclaimer = self.reclaimer(&journal);
        let world = sweep::World {
            observe: &mut FindsNothing(between),
            lock: &mut DevlaunchLocks::new(&self.cache()),
            reclaim: &mut reclaimer,
            journal: &mut journal,
        };
        sweep(&approved(candidates), &policy(), NOW, disposal, world, || None, |_| {})
    }

    /// Removes one clone, and tells how that ended.
    pub(crate) fn remove(&self, id: impl AsRef<Path>) -> Outcome {
        outcome(self.sweep(vec![self.candidate(id)], |_| {}))
    }

    /// What lies beside the bare cache: clones, trash, the repository's own lock file.
    pub(crate) fn names(&self) -> Vec<String> {
        names(&self.repository()).into_iter().filter(|name| name != ".bare").collect()
    }
}

/// Sees every clone as a clean orphan, after letting something happen.
struct FindsNothing<F>(F);

impl<F: FnMut(&Candidate)> Observe for FindsNothing<F> {
    type Handle = OpenWorkspace;

    fn refresh(&mut self) -> Result<(), SourceLost> {
        Ok(())
    }

    fn look_again(&mut self, candidate: &Candidate, handle: &OpenWorkspace) -> Result<Evidence, SourceLost> {
        rustix::fs::fstat(handle.dir()).expect("because the directory is open");
        (self.0)(candidate);
        Ok(clean())
    }

    fn second_look(&mut self, _: &Candidate, _: &OpenWorkspace, first: &Evidence) -> Result<Evidence, SourceLost> {
        Ok(first.clone())
    }
}

/// An intent to discard a directory at once.
pub(crate) fn intent(candidate: Candidate, accepted_losses: Option<Digest>) -> Intent {
    let digest = Digest::of_bytes(b"x");
    let (at, disposal, frees) = (NOW, Disposal::Discard, freed_together([]));
    let proof = Observed::Known(Proof::of(Vec::new()));
    Intent { candidate, plan: digest, evidence: digest, proof, accepted_losses, at, disposal, frees }
}

pub(crate) fn clean() -> Evidence {
    let source = SourceReport { source: SourceId("test".into()), claims: Observed::Known(Vec::new()) };
    let proof = Observed::Known(Proof::of(Vec::new()));
    let touched = Observed::Known(Timestamp::new(0, 0));
    Evidence::new(vec![source], touched, Observed::Known(Layout::Any), Observed::Known(Vec::new()), proof)
        .expect("because a source was asked")
}

pub(crate) fn policy() -> Policy {
    Policy { window: Window::Standing, minimum_age: Duration::ZERO, clock_tolerance: Duration::from_secs(60) }
}

pub(crate) fn approved(candidates: Vec<Candidate>) -> ApprovedPlan {
    let judged = candidates.into_iter().map(|candidate| {
        // Nothing was measured, so that each entry is asked what it frees.
        let completeness = Completeness::AtLeast { why: "not measured".into() };
        let size = Size { sole_bytes: 0, entries: 1, linked: Vec::new(), completeness };
        let evidence = clean();
        let verdict = judge(&evidence, &policy(), NOW);
        Judged { candidate, evidence, size, verdict }
    });
    let plan = Plan::new(judged.collect(), &Selection::new(Force::No, Limits::NONE));
    let seen = plan.digest();
    plan.approve(Consent::Operator { seen }).expect("because this plan was seen")
}

/// How the only directory of a sweep ended.
pub(crate) fn outcome(report: SweepReport) -> Outcome {
    let mut fates = report.settled.into_iter().map(|settled| settled.fate);
    match (fates.next(), fates.next()) {
        (Some(Fate::Settled(outcome)), None) => outcome,
        other => panic!("not one outcome: {other:?}"),
    }
}

pub(crate) fn refused(outcome: Outcome) -> (Vec<Refusal>, Discarded) {
    match outcome {
        Outcome::Refused { refusals, discarded } => (refusals.as_slice().to_vec(), discarded),
        other => panic!("not refused: {other:?}"),
    }
}

pub(crate) fn removed(outcome: Outcome) -> Discarded {
    match outcome {
        Outcome::Removed { discarded, .. } => discarded,
        other => panic!("not removed: {other:?}"),
    }
}

pub(crate) fn refusal(path: impl AsRef<Path>, why: &str) -> Refusal {
    Refusal { path: path.as_ref().to_owned(), why: why.to_owned() }
}

pub(crate) fn identity(path: &Path) -> FileIdentity {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let told = rustix::fs::statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, wanted).expect("because it is there");
    FileIdentity {
        dev: rustix::fs::makedev(told.stx_dev_major, told.stx_dev_minor),
        ino: told.stx_ino,
        // Not every file system keeps it.
        birth: (told.stx_mask & StatxFlags::BTIME.bits() != 0)
            .then(|| Timestamp::new(told.stx_btime.tv_sec, told.stx_btime.tv_nsec)),
    }
}

pub(crate) fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).expect("because the directory is there");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("because it can be listed").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Runs one ignored test of this binary in a process of its own, in the world's directory, under
/// `wrapper` (`prlimit …`, `setpriv …`).
pub(crate) fn in_own_process(world: &World, wrapper: &[&str], test: &str) {
    // A copy, so that another user can run it wherever the build lies.
    let program = world.base().join("test-program");
    // By another process: one that is started here meanwhile must not hold the copy open for writing.
    let mut copy = derelict_testkit::git::tool("cp");
    copy.arg(std::env::current_exe().expect("because this program runs")).arg(&program);
    assert!(copy.status().is_ok_and(|status| status.success()), "cannot copy the test program");
    let (first, rest) = wrapper.split_first().expect("because there is a wrapper");
    let mut command = derelict_testkit::git::tool(first);
    command.args(rest).arg(&program).args(["--exact", test, "--ignored", "--nocapture"]).current_dir(world.base());
    command.envs(wide().map(|wide| (WIDE, wide)));
    let ended = command.output().expect("because the wrapper can be started");
    let told = String::from_utf8_lossy(&ended.stdout).into_owned() + &String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && told.contains("1 passed"), "{test}: {told}");
}

/// The variable that says how wide the widest directory is.
const WIDE: &str = "DERELICT_WIDE";

/// How wide the widest directory is, if whoever started the tests has said so.
#[expect(clippy::disallowed_methods, reason = "how much of it is tested is up to whoever starts the tests")]
pub(crate) fn wide() -> Option<String> {
    std::env::var(WIDE).ok()
}

/// The world of a test that runs in a process of its own.
pub(crate) fn world_of_this_process() -> World {
    World::at(&std::env::current_dir().expect("because a process has a directory"))
}
