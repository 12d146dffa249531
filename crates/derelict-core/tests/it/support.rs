//! Evidence to start from, and generators of evidence for properties.

use std::path::PathBuf;
use std::time::Duration;

use derelict_core::evidence::{
    Answer, Blind, Candidate, Channel, ChannelReport, Claim, ClaimedPath, Evidence, Holder, Layout, Lease, Loss,
    Observed, Proof, Signal, SourceReport,
};
use derelict_core::ids::{Digest, FileIdentity, NonEmpty, OwnerId, SourceId, Timestamp, WorkspaceName};
use derelict_core::plan::Judged;
use derelict_core::policy::{Policy, Window};
use derelict_core::size::{Completeness, Size};
use derelict_core::verdict::judge;
use proptest::prelude::*;

pub(crate) const NOW: Timestamp = Timestamp::new(1_000_000, 0);
pub(crate) const DAY: Duration = Duration::from_secs(86_400);

pub(crate) const POLICY: Policy =
    Policy { window: Window::Standing, minimum_age: Duration::ZERO, clock_tolerance: Duration::from_secs(60) };

pub(crate) fn blind(signal: Signal) -> Blind {
    Blind { signal, why: format!("{signal:?} was not read") }
}

pub(crate) fn claim(at: ClaimedPath, lease: Lease) -> Claim {
    Claim { source: SourceId("devpod".into()), owner: OwnerId("w".into()), at, lease }
}

pub(crate) fn loss(what: &str) -> Loss {
    Loss { channel: Channel("untracked"), what: what.into(), fingerprint: Digest::of(&what) }
}

pub(crate) fn answer(answer: Answer) -> Proof {
    Proof::of(vec![ChannelReport::new(Channel("untracked"), "1 file".into(), answer)])
}

/// The parts of evidence, all of them saying "clean orphan", to be changed one by one.
#[derive(Debug, Clone)]
pub(crate) struct Parts {
    pub(crate) claims: Observed<Vec<Claim>>,
    pub(crate) touched: Observed<Timestamp>,
    pub(crate) layout: Observed<Layout>,
    pub(crate) uses: Observed<Vec<Holder>>,
    pub(crate) proof: Observed<Proof>,
}

pub(crate) fn clean() -> Parts {
    Parts {
        claims: Observed::Known(Vec::new()),
        touched: Observed::Known(NOW.before(60 * DAY)),
        layout: Observed::Known(Layout::Any),
        uses: Observed::Known(Vec::new()),
        proof: Observed::Known(answer(Answer::Nothing)),
    }
}

impl Parts {
    pub(crate) fn evidence(self) -> Evidence {
        let report = SourceReport { source: SourceId("devpod".into()), claims: self.claims };
        Evidence::new(vec![report], self.touched, self.layout, self.uses, self.proof)
            .expect("because a source was asked")
    }
}

pub(crate) fn candidate(name: &str, ino: u64) -> Candidate {
    Candidate {
        name: WorkspaceName::new(name).expect("because it is one component"),
        path: PathBuf::from("/cache/repos/o/r").join(name),
        below_root: PathBuf::from("o/r").join(name),
        identity: FileIdentity { dev: 1, ino, birth: Some(Timestamp::new(5, 0)) },
    }
}

pub(crate) fn judged(name: &str, bytes: u64, parts: Parts) -> Judged {
    let evidence = parts.evidence();
    let verdict = judge(&evidence, &POLICY, NOW);
    let size = Size { sole_bytes: bytes, entries: 1, linked: Vec::new(), completeness: Completeness::Exact };
    let ino = name.bytes().fold(0, |sum, byte| sum * 256 + u64::from(byte));
    Judged { candidate: candidate(name, ino), evidence, size, verdict }
}

pub(crate) fn unsaved(what: &str) -> Parts {
    Parts { proof: Observed::Known(answer(Answer::Losses(NonEmpty::of(loss(what))))), ..clean() }
}

fn observed<T: std::fmt::Debug + Clone + 'static>(
    known: impl Strategy<Value = T> + 'static,
    signal: Signal,
) -> impl Strategy<Value = Observed<T>> {
    prop_oneof![4 => known.prop_map(Observed::Known), 1 => Just(Observed::Unknown(blind(signal)))]
}

fn any_claim() -> impl Strategy<Value = Claim> {
    let at = prop_oneof![
        Just(ClaimedPath::Here),
        Just(ClaimedPath::Within),
        Just(ClaimedPath::Above),
        Just(ClaimedPath::Elsewhere("/elsewhere".into()))
    ];
    let lease = prop_oneof![
        Just(Lease::Standing),
        (0_u32..60).prop_map(|days| Lease::LastUsed(NOW.before(days * DAY))),
        Just(Lease::Held { reason: "running".into() })
    ];
    (at, lease).prop_map(|(at, lease)| claim(at, lease))
}

fn any_answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        3 => Just(Answer::Nothing),
        1 => Just(Answer::Losses(NonEmpty::of(loss("x")))),
        1 => Just(Answer::Unknown(NonEmpty::of("cannot read".to_owned())))
    ]
}

/// Any combination of signals, clean ones often enough that every verdict comes up.
pub(crate) fn any_parts() -> impl Strategy<Value = Parts> {
    let layout = prop_oneof![
        4 => Just(Layout::Any),
        1 => Just(Layout::Expected),
        1 => Just(Layout::Unexpected("third".into())),
        1 => Just(Layout::NestedCheckout("home/x".into()))
    ];
    let holder = prop_oneof![Just(Holder::DirectoryLock), Just(Holder::Mount("m".into()))];
    let touched = (0_u32..100).prop_map(|days| NOW.after(DAY).before(days * DAY));
    (
        observed(proptest::collection::vec(any_claim(), 0..2), Signal::Owner),
        observed(touched, Signal::Age),
        observed(layout, Signal::Layout),
        observed(proptest::collection::vec(holder, 0..2), Signal::Use),
        observed(any_answer().prop_map(answer), Signal::Unsaved),
    )
        .prop_map(|(claims, touched, layout, uses, proof)| Parts { claims, touched, layout, uses, proof })
}
