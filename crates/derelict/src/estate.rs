//! A devlaunch cache as the front end sees it: where it is, what a survey of it comes to, and what the breakers
//! remember of it. It only looks; what changes anything is in [`crate::act`].

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use derelict_core::evidence::Candidate;
use derelict_core::ids::{FileIdentity, Timestamp};
use derelict_core::outcome::Breaker;
use derelict_core::plan::{Judged, Plan};
use derelict_core::policy::{Policy, Selection, Window};
use derelict_core::record::{LastSweep, SetAside};
use derelict_core::survey::{breakers, judge_all, referenced};
use derelict_observe::{Cache, Depth, DevlaunchObserver, Located, Progress, SkipKind, Survey, Terms};
use derelict_reclaim::beneath::Root;
use derelict_reclaim::journal::{self, OpenIntent};
use derelict_reclaim::recover;

use crate::console::Console;
use crate::exit::Failure;
use crate::findings::{Alarm, AlarmAnswer, Findings, Skipped, Unfinished, Weight};
use crate::host::{self, Host};
use crate::last_sweep::Remembered;
use crate::prune::Request;
use crate::terms::Words;
use crate::{rescued, text};

/// The rules for a devlaunch cache. devpod lists living workspaces only, so a claim stands as long as it is listed;
/// and the locks of devlaunch cover the time between making a clone and registering its workspace, so no age is asked.
pub(crate) const POLICY: Policy =
    Policy { window: Window::Standing, minimum_age: Duration::ZERO, clock_tolerance: CLOCK_TOLERANCE };

/// Clocks of a machine and of its file servers differ by seconds; by minutes, one of them is wrong.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(5 * 60);

/// How many levels below [`Estate::repos`] the clones lie.
const LEVELS: NonZeroUsize = NonZeroUsize::new(3).expect("because three is not zero");

/// A cache that exists.
#[derive(Debug)]
pub(crate) struct Estate {
    cache: Cache,
    host: Host,
    state: PathBuf,
}

/// What locating came to.
#[derive(Debug)]
pub(crate) enum Found {
    /// A cache.
    Estate(Box<Estate>),
    /// No cache at this place.
    Nothing(PathBuf),
}

/// A survey, ready to be shown and carried out.
pub(crate) struct Surveyed {
    /// What is shown.
    pub(crate) findings: Findings,
    /// What looks again.
    pub(crate) observer: DevlaunchObserver,
    /// What the breakers will remember if the plan is carried out.
    pub(crate) memory: Memory,
}

/// What a survey leaves to remember.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    /// The instant by which everything was judged.
    pub(crate) now: Timestamp,
    root: FileIdentity,
    owners: u64,
    referenced: u64,
}

impl Estate {
    /// Finds the cache.
    ///
    /// # Errors
    /// A usage [`Failure`] when the place names none, or when the environment names no place.
    pub(crate) fn locate(place: Option<&Path>, host: &Host) -> Result<Found, Failure> {
        match Cache::locate(place, &host.environment).map_err(Failure::usage)? {
            Located::Nothing { place } => Ok(Found::Nothing(place)),
            Located::Cache(cache) => {
                let state = host.state().map_err(Failure::usage)?;
                if lies_below(&state, cache.repos()) {
                    let why = "the journal must not lie in what may be removed; set XDG_STATE_HOME to another place";
                    return Err(Failure::usage(anyhow::anyhow!(
                        "{} lies inside {}: {why}",
                        text::path(&state),
                        text::path(cache.repos())
                    )));
                }
                Ok(Found::Estate(Box::new(Self { cache, host: host.clone(), state })))
            }
        }
    }

    /// The cache directory.
    pub(crate) fn home(&self) -> &Path {
        self.cache.home()
    }

    /// The directory below which the clones lie.
    pub(crate) fn repos(&self) -> &Path {
        self.cache.repos()
    }

    /// The directory of the journal.
    pub(crate) fn state(&self) -> &Path {
        &self.state
    }

    /// The one clone that was asked for, below [`Estate::repos`].
    pub(crate) fn only(&self) -> Option<&Path> {
        self.cache.only()
    }

    /// Where unsaved work is rescued to; not in what may itself go.
    ///
    /// # Errors
    /// A usage [`Failure`] that names the place.
    pub(crate) fn rescue_place(&self, place: Option<&rescued::Place>) -> Result<Option<PathBuf>, Failure> {
        let Some(place) = place.map(|place| place.below(&self.state)) else { return Ok(None) };
        let place = std::path::absolute(&place).map_err(Failure::usage)?;
        if lies_below(&place, self.cache.home()) {
            let why = anyhow::anyhow!(
                "{} lies inside {}: what is rescued must not lie in what may be removed",
                text::path(&place),
                text::path(self.cache.home())
            );
            return Err(Failure::usage(why));
        }
        Ok(Some(place))
    }

    /// Looks at everything, judges and plans. Writes nothing.
    ///
    /// # Errors
    /// A [`Failure`] when an owner source, the journal or the memory of the breakers cannot be read.
    pub(crate) fn survey(&self, request: &Request, console: &mut Console) -> Result<Surveyed, Failure> {
        let last = self.remembered().last().map_err(Failure::stopped)?;
        let open = journal::unfinished(&self.state).map_err(Failure::stopped)?;
        let unfinished = self.unfinished(&open);
        let terms = request.words.terms(&self.host);
        let words = terms.words();
        let (now, observer, survey) = self.look(Depth::Verdict, terms, console)?;
        let judged = judge_all(survey.sightings, &POLICY, now);
        let memory = Memory { now, root: survey.root, owners: survey.owners, referenced: referenced(&judged) };
        let alarms = self.alarms(&judged, &memory, last, request);
        let set_aside: Vec<SetAside> = open.iter().filter_map(OpenIntent::set_aside).cloned().collect();
        let here = set_aside.into_iter().filter(|one| self.is_here(&one.candidate));
        // Whoever asks about one clone has not agreed to what becomes of others.
        let (expired, waiting) = here.partition(|one| one.grace.until <= now && self.only().is_none());
        let findings = Findings {
            root: self.home().to_path_buf(),
            plan: Plan::new(judged, &Selection::new(request.force, request.limits)),
            alarms,
            stale_records: not_in_hand(survey.stale_records, &unfinished),
            skipped: survey.skipped.into_iter().map(skipped).collect(),
            disclosures: words.into_iter().chain(survey.disclosures.lines()).collect(),
            unfinished,
            grace: request.grace,
            expired,
            waiting,
        };
        Ok(Surveyed { findings, observer, memory })
    }

    /// Looks at the one clone that was asked for, at everything in it; and says what limits the evidence.
    ///
    /// # Errors
    /// A [`Failure`] when an owner source cannot be read, or when the clone is not there any more.
    pub(crate) fn examine(&self, words: &Words, console: &mut Console) -> Result<(Judged, Vec<String>), Failure> {
        let (now, _, survey) = self.look(Depth::Everything, words.terms(&self.host), console)?;
        let mut judged = judge_all(survey.sightings, &POLICY, now);
        let missing = || anyhow::anyhow!("the clone is not there any more");
        let judged = judged.pop().ok_or_else(missing).map_err(Failure::usage)?;
        Ok((judged, survey.disclosures.lines()))
    }

    /// Remembers a survey whose plan was agreed to. A survey of one clone says nothing of the whole.
    ///
    /// # Errors
    /// When the state directory cannot be written.
    pub(crate) fn remember(&self, memory: &Memory) -> anyhow::Result<()> {
        if self.only().is_some() {
            return Ok(());
        }
        let Memory { now, root, owners, referenced } = memory.clone();
        self.remembered().remember(&LastSweep { at: now, root, owners, referenced })
    }

    fn look(
        &self,
        depth: Depth,
        terms: Terms,
        console: &mut Console,
    ) -> Result<(Timestamp, DevlaunchObserver, Survey), Failure> {
        let now = host::now().map_err(Failure::stopped)?;
        let progress = console.phase(&doing(Progress::Asking));
        let mut observer = DevlaunchObserver::new(self.cache.clone(), self.host.environment.clone(), terms, now);
        let survey = observer.survey(depth, &|step| progress.now(doing(step))).map_err(Failure::stopped)?;
        Ok((now, observer, survey))
    }

    fn remembered(&self) -> Remembered {
        Remembered::of(self.home(), &self.state)
    }

    /// What earlier runs left in hand in this cache.
    fn unfinished(&self, open: &[OpenIntent]) -> Vec<Unfinished> {
        let in_hand = open.iter().filter(|open| open.set_aside().is_none()).map(|open| open.candidate.clone());
        // A root that cannot be opened has been told of by the survey already.
        let in_names =
            Root::open(self.repos()).map_or_else(|_| Vec::new(), |root| recover::carried_by_names(&root, LEVELS));
        let here = in_hand.chain(in_names).filter(|candidate| self.is_here(candidate));
        here.map(|candidate| Unfinished { path: candidate.path, below_root: candidate.below_root }).collect()
    }

    fn is_here(&self, candidate: &Candidate) -> bool {
        self.repos().join(&candidate.below_root) == candidate.path
    }

    /// The breakers that trip. Of one clone nothing can be said that needs the whole to compare with.
    fn alarms(&self, judged: &[Judged], memory: &Memory, last: Option<LastSweep>, request: &Request) -> Vec<Alarm> {
        let last = last.map(|last| match self.only() {
            None => last,
            Some(_) => LastSweep { referenced: 0, ..last },
        });
        let tripped = breakers(judged, Some(memory.owners), memory.root, last.as_ref(), memory.now);
        let answer = |breaker: &Breaker| {
            let known = request.acknowledged.iter().any(|name| name == breaker.name());
            if known { AlarmAnswer::Acknowledged } else { AlarmAnswer::Open }
        };
        tripped.into_iter().map(|breaker| Alarm { answer: answer(&breaker), breaker }).collect()
    }
}

/// The records of a repository in which a removal is unfinished stay until that is settled: one of them is its own.
fn not_in_hand(records: Vec<String>, unfinished: &[Unfinished]) -> Vec<String> {
    let in_hand = |key: &String| {
        unfinished.iter().any(|unfinished| {
            let repository = unfinished.below_root.parent().unwrap_or(Path::new(""));
            Path::new(key).starts_with(repository)
        })
    };
    records.into_iter().filter(|key| !in_hand(key)).collect()
}

/// What a survey is busy with, for the progress line.
fn doing(step: Progress) -> String {
    match step {
        Progress::Asking => "asking devpod who is alive".into(),
        Progress::Examining { done, total } => {
            format!("examining {} of {}", text::number(done), text::count(total, text::DIRECTORY))
        }
    }
}

fn skipped(skipped: derelict_observe::Skipped) -> Skipped {
    let weight = match skipped.kind {
        SkipKind::Symlink | SkipKind::NotADirectory | SkipKind::Hidden => Weight::Harmless,
        SkipKind::Mount => Weight::Plain,
        SkipKind::Unreadable => Weight::Blind,
    };
    Skipped { path: skipped.path, why: skipped.why, weight }
}

/// Whether a path, or as much of it as exists, leads to somewhere below a canonical directory.
fn lies_below(path: &Path, directory: &Path) -> bool {
    let existing = path.ancestors().find_map(|ancestor| std::fs::canonicalize(ancestor).ok());
    existing.is_some_and(|existing| existing.starts_with(directory))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_a_repository_in_hand_wait() {
        let unfinished = Unfinished { path: "/c/repos/a/b/x".into(), below_root: "a/b/x".into() };
        let records = || vec!["a/b/main".to_owned(), "a/bc/main".to_owned()];
        assert_eq!(not_in_hand(records(), &[unfinished]), ["a/bc/main"]);
        assert_eq!(not_in_hand(records(), &[]), records());
    }
}
