//! What a survey came to, ready to be shown and agreed to: the plan, and everything a person should know beside it.
//!
//! How it is looked up is in [`crate::estate`], how it is shown in [`crate::report`] and [`crate::json`].

use std::path::{Path, PathBuf};
use std::time::Duration;

use derelict_core::outcome::Breaker;
use derelict_core::plan::Plan;
use derelict_core::policy::{Force, Limits, Selection};
use derelict_core::record::SetAside;
use derelict_core::verdict::Verdict;

use crate::exit::Exit;

/// A survey, judged and planned.
#[derive(Debug)]
pub(crate) struct Findings {
    /// The root that was looked at.
    pub(crate) root: PathBuf,
    /// What goes and what stays.
    pub(crate) plan: Plan,
    /// The circuit breakers that tripped.
    pub(crate) alarms: Vec<Alarm>,
    /// Records of directories that are gone.
    pub(crate) stale_records: Vec<String>,
    /// What lies where workspaces lie and is none.
    pub(crate) skipped: Vec<Skipped>,
    /// What limits the evidence, in words.
    pub(crate) disclosures: Vec<String>,
    /// What an earlier run left in hand.
    pub(crate) unfinished: Vec<Unfinished>,
    /// For how long what goes is set aside; `None` when it is discarded at once.
    pub(crate) grace: Option<Duration>,
    /// What was set aside earlier, and whose grace is over.
    pub(crate) expired: Vec<SetAside>,
    /// What was set aside earlier, and waits.
    pub(crate) waiting: Vec<SetAside>,
}

/// Something between the workspaces that is no candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Skipped {
    /// Where.
    pub(crate) path: PathBuf,
    /// Why it is none.
    pub(crate) why: String,
    /// Who has to know.
    pub(crate) weight: Weight,
}

/// Whether something that was not looked at matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weight {
    /// There may be workspaces that could not be seen.
    Blind,
    /// Something that is kept for a reason that is plain to see.
    Plain,
    /// Something that is no workspace and never will be.
    Harmless,
}

/// A removal that an earlier run began and did not settle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unfinished {
    /// The directory it was about.
    pub(crate) path: PathBuf,
    /// The same below the root, component by component.
    pub(crate) below_root: PathBuf,
}

/// A circuit breaker that tripped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Alarm {
    /// What it saw.
    pub(crate) breaker: Breaker,
    /// Whether the operator knows.
    pub(crate) answer: AlarmAnswer,
}

/// Whether an operator takes responsibility for going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AlarmAnswer {
    /// Yes, by name.
    Acknowledged,
    /// Nobody has.
    Open,
}

impl Findings {
    /// What is found where there is no root.
    pub(crate) fn nothing(place: &Path) -> Self {
        Self {
            root: place.to_path_buf(),
            plan: Plan::new(Vec::new(), &Selection::new(Force::No, Limits::NONE)),
            alarms: Vec::new(),
            stale_records: Vec::new(),
            skipped: Vec::new(),
            disclosures: Vec::new(),
            unfinished: Vec::new(),
            grace: None,
            expired: Vec::new(),
            waiting: Vec::new(),
        }
    }

    /// Whether there is anything an act would change.
    pub(crate) fn work(&self) -> Work {
        let removes = !self.plan.removals().is_empty() || !self.expired.is_empty();
        if !removes && self.stale_records.is_empty() && self.unfinished.is_empty() { Work::None } else { Work::Some }
    }

    /// The first breaker that nobody acknowledged.
    pub(crate) fn stopped_by(&self) -> Option<&Breaker> {
        let open = self.alarms.iter().find(|alarm| match alarm.answer {
            AlarmAnswer::Open => true,
            AlarmAnswer::Acknowledged => false,
        });
        open.map(|alarm| &alarm.breaker)
    }

    /// The exit code that the verdicts alone ask for.
    pub(crate) fn exit_of_verdicts(&self) -> Exit {
        let undetermined = self.plan.kept().any(|judged| match &judged.verdict {
            Verdict::Undetermined(_) => true,
            Verdict::Referenced(_) | Verdict::Disputed(_) | Verdict::Orphaned(_) => false,
        });
        let blind = self.skipped.iter().any(|skipped| match skipped.weight {
            Weight::Blind => true,
            Weight::Plain | Weight::Harmless => false,
        });
        if undetermined || blind { Exit::Incomplete } else { Exit::Done }
    }
}

/// Whether an act would change anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// It would.
    Some,
    /// There is nothing to prune.
    None,
}

/// Findings for the tests of the reports: no world is needed to show a plan.
#[cfg(test)]
pub(crate) mod samples {
    use derelict_core::evidence::{
        Candidate, Channel, Claim, ClaimedPath, Evidence, Layout, Lease, Loss, Observed, Proof, SourceReport,
    };
    use derelict_core::ids::{Digest, FileIdentity, NonEmpty, OwnerId, SourceId, Timestamp, WorkspaceName};
    use derelict_core::plan::Judged;
    use derelict_core::size::{Completeness, Size};
    use derelict_core::verdict::Orphan;

    use super::*;

    /// One directory with that verdict; its evidence is not consistent with it, which no report looks at.
    pub(crate) fn judged(leaf: &[u8], bytes: u64, verdict: Verdict) -> Judged {
        use std::os::unix::ffi::OsStrExt as _;
        let below_root = Path::new("acme/api").join(std::ffi::OsStr::from_bytes(leaf));
        let report = SourceReport { source: SourceId("devpod".into()), claims: Observed::Known(Vec::new()) };
        let touched = Observed::Known(Timestamp::new(0, 0));
        let proof = Observed::Known(Proof::of(Vec::new()));
        let evidence =
            Evidence::new(vec![report], touched, Observed::Known(Layout::Any), Observed::Known(Vec::new()), proof);
        Judged {
            candidate: Candidate {
                name: WorkspaceName::new(leaf).expect("because the samples have proper names"),
                path: Path::new("/c/repos").join(&below_root),
                below_root,
                identity: FileIdentity { dev: 1, ino: bytes, birth: None },
            },
            evidence: evidence.expect("because a source was asked"),
            size: Size { sole_bytes: bytes, entries: 3, linked: Vec::new(), completeness: Completeness::Exact },
            verdict,
        }
    }

    /// Nobody owns it and nothing is in it.
    pub(crate) const CLEAN: Verdict = Verdict::Orphaned(Orphan::Clean);

    /// A changed file.
    pub(crate) fn unsaved() -> Verdict {
        let what = "changed: pixi.lock".into();
        let loss = Loss { channel: Channel("tracked"), what, fingerprint: Digest::of_bytes(b"1") };
        Verdict::Orphaned(Orphan::Unsaved(NonEmpty::of(loss)))
    }

    /// Somebody owns it.
    pub(crate) fn referenced() -> Verdict {
        Verdict::Referenced(Claim {
            source: SourceId("devpod".into()),
            owner: OwnerId("api-live".into()),
            at: ClaimedPath::Here,
            lease: Lease::Standing,
        })
    }

    /// A plan of those directories, with nothing beside it.
    pub(crate) fn findings(judged: Vec<Judged>, force: Force) -> Findings {
        Findings {
            root: PathBuf::from("/c"),
            plan: Plan::new(judged, &Selection::new(force, Limits { removals: Some(2), ..Limits::NONE })),
            alarms: Vec::new(),
            stale_records: Vec::new(),
            skipped: Vec::new(),
            disclosures: Vec::new(),
            unfinished: Vec::new(),
            grace: None,
            expired: Vec::new(),
            waiting: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::samples::*;
    use super::*;

    #[test]
    fn kept_directories_alone_are_no_work() {
        let mut found = findings(vec![judged(b"a", 1, unsaved()), judged(b"b", 2, referenced())], Force::No);
        assert_eq!(found.work(), Work::None);
        found.stale_records.push("acme/api/gone".into());
        assert_eq!(found.work(), Work::Some);
    }

    #[test]
    fn an_acknowledged_breaker_stops_nothing() {
        let mut found = findings(Vec::new(), Force::No);
        let alarm = |answer| Alarm { breaker: Breaker::RootReplaced, answer };
        found.alarms.push(alarm(AlarmAnswer::Acknowledged));
        assert_eq!(found.stopped_by(), None);
        found.alarms.push(alarm(AlarmAnswer::Open));
        assert_eq!(found.stopped_by(), Some(&Breaker::RootReplaced));
    }
}
