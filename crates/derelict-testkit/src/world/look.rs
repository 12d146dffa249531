//! What can be seen of the ground: candidates, evidence, the survey.

use std::path::PathBuf;
use std::time::Duration;

use derelict_core::evidence::{
    Answer, Blind, Candidate, Channel, ChannelReport, Claim, ClaimedPath, Evidence, Holder, Layout, Lease, Loss,
    Observed, Proof, Signal, SourceReport,
};
use derelict_core::ids::{Digest, FileIdentity, NonEmpty, OwnerId, SourceId, Timestamp, WorkspaceName};
use derelict_core::policy::{Policy, Window};
use derelict_core::size::{Completeness, Size};
use derelict_core::survey::Sighting;

use super::ground::{Ground, Ino, Place, Row, Workspace};

/// When everything here happens.
pub(crate) const NOW: Timestamp = Timestamp::new(1_000_000, 0);

/// The rules that everything here is judged by.
pub(crate) const POLICY: Policy =
    Policy { window: Window::Standing, minimum_age: Duration::ZERO, clock_tolerance: Duration::from_secs(60) };

const CHANNEL: Channel = Channel("untracked");

pub(crate) fn source() -> SourceId {
    SourceId("rows".into())
}

pub(crate) fn candidate(workspace: Workspace, ino: Ino) -> Candidate {
    let name = format!("w{workspace}");
    Candidate {
        path: PathBuf::from("/root").join(&name),
        below_root: PathBuf::from(&name),
        name: WorkspaceName::new(name).expect("because it is one component"),
        identity: FileIdentity { dev: 1, ino, birth: None },
    }
}

pub(crate) fn workspace_of(candidate: &Candidate) -> Workspace {
    let digits = candidate.name.as_bytes()[1..].iter();
    digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0'))
}

/// Everything that lies under a live name, as it is at this instant.
pub(crate) fn survey(ground: &Ground) -> Vec<Sighting> {
    let live = ground.names.iter().filter_map(|(place, ino)| match place {
        Place::Live(workspace) => Some((*workspace, *ino)),
        Place::Aside(_) | Place::Trash(_) | Place::Begun(_) => None,
    });
    let sightings = live.map(|(workspace, ino)| Sighting {
        candidate: candidate(workspace, ino),
        evidence: evidence(ground, workspace, ino, Observed::Known(proof(ground, ino))),
        size: Size {
            sole_bytes: ground.trees[&ino].entries.len() as u64,
            entries: ground.trees[&ino].entries.len() as u64 + 1,
            linked: Vec::new(),
            completeness: Completeness::Exact,
        },
    });
    sightings.collect()
}

/// The evidence of now, with this proof.
pub(crate) fn evidence(ground: &Ground, workspace: Workspace, ino: Ino, proof: Observed<Proof>) -> Evidence {
    let claim = |at, lease| Claim { source: source(), owner: OwnerId("w".into()), at, lease };
    let claims = match ground.rows[workspace] {
        Row::None => Observed::Known(Vec::new()),
        Row::Standing => Observed::Known(vec![claim(ClaimedPath::Here, Lease::Standing)]),
        Row::Held => Observed::Known(vec![claim(ClaimedPath::Here, Lease::Held { reason: "running".into() })]),
        Row::Elsewhere => Observed::Known(vec![claim(ClaimedPath::Elsewhere("/else".into()), Lease::Standing)]),
        Row::Unreadable => Observed::Unknown(Blind { signal: Signal::Owner, why: "last use is NULL".into() }),
    };
    let holder = Holder::Process { pid: 7, by: "cwd".into(), command: "agent".into() };
    let uses = if ground.trees[&ino].handles > 0 { vec![holder] } else { Vec::new() };
    Evidence::new(
        vec![SourceReport { source: source(), claims }],
        Observed::Known(Timestamp::new(0, 0)),
        Observed::Known(Layout::Any),
        Observed::Known(uses),
        proof,
    )
    .expect("because a source was asked")
}

pub(crate) fn proof(ground: &Ground, ino: Ino) -> Proof {
    let losses = ground.trees[&ino].entries.iter().filter_map(|entry| entry.work);
    let losses = losses.map(|work| Loss {
        channel: CHANNEL,
        what: format!("untracked: {work}"),
        fingerprint: Digest::of(&work),
    });
    let answer = NonEmpty::from_vec(losses.collect()).map_or(Answer::Nothing, Answer::Losses);
    let examined = format!("{} files", ground.trees[&ino].entries.len());
    Proof::of(vec![ChannelReport::new(CHANNEL, examined, answer)])
}

/// The proof of a tree in which something was written since it was made.
pub(crate) fn no_proof() -> Observed<Proof> {
    Observed::Unknown(Blind { signal: Signal::Unsaved, why: "something was written after the last look".into() })
}
