//! What was seen of one directory. Values only: nothing here decides, and nothing here looks.
//!
//! *Absent*, *empty* and *unknown* are three things, so every signal is [`Observed`].

use std::path::PathBuf;

use crate::ids::{Digest, FileIdentity, NonEmpty, OwnerId, SourceId, Timestamp, WorkspaceName};

/// A directory that could be a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Candidate {
    /// Its own name below its parent.
    pub name: WorkspaceName,
    /// Where it was found, for people and for records; never used to open it.
    pub path: PathBuf,
    /// Where it is below the root, component by component, without symlinks.
    pub below_root: PathBuf,
    /// What makes it that directory.
    pub identity: FileIdentity,
}

/// A signal that was read, or could not be.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Observed<T> {
    /// It was read, and this is its value.
    Known(T),
    /// It could not be read; nothing may be concluded from that but "keep".
    Unknown(Blind),
}

/// What could not be seen, and why.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Blind {
    /// The signal that is missing.
    pub signal: Signal,
    /// The reason in words, naming the thing and the place.
    pub why: String,
}

/// The signals a verdict is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Signal {
    /// Who claims the directory.
    Owner,
    /// When it was made or changed.
    Age,
    /// What lies at its top level.
    Layout,
    /// Who uses it now.
    Use,
    /// What would be lost with it.
    Unsaved,
}

/// All that was seen of one directory, from which [`crate::verdict::judge`] decides.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Evidence {
    sources: NonEmpty<SourceReport>,
    /// When the directory came to be or its top level last changed, whichever is later.
    pub touched: Observed<Timestamp>,
    /// What lies at its top level, measured against the layout its source expects.
    pub layout: Observed<Layout>,
    /// Who or what uses it right now.
    pub uses: Observed<Vec<Holder>>,
    /// What would be lost with it, channel by channel.
    pub proof: Observed<Proof>,
}

/// The owner source is required: evidence without one cannot be expressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no owner source was asked, and silence of nobody proves nothing")]
pub struct NobodyAsked;

impl Evidence {
    /// Puts the signals together.
    ///
    /// # Errors
    /// [`NobodyAsked`] when `sources` is empty.
    pub fn new(
        sources: Vec<SourceReport>,
        touched: Observed<Timestamp>,
        layout: Observed<Layout>,
        uses: Observed<Vec<Holder>>,
        proof: Observed<Proof>,
    ) -> Result<Self, NobodyAsked> {
        let sources = NonEmpty::from_vec(sources).ok_or(NobodyAsked)?;
        Ok(Self { sources, touched, layout, uses, proof })
    }

    /// What each owner source said; at least one was asked.
    #[must_use]
    pub fn sources(&self) -> &[SourceReport] {
        self.sources.as_slice()
    }

    /// The digest that a record keeps of it.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(self)
    }
}

/// What one owner source says of one directory.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SourceReport {
    /// Who says it.
    pub source: SourceId,
    /// Its claims on the directory; empty when the source was read and names nobody.
    pub claims: Observed<Vec<Claim>>,
}

impl SourceReport {
    /// When the owner last used the directory, as far as the source says so; the latest of several.
    #[must_use]
    pub fn last_used(&self) -> Option<Timestamp> {
        let Observed::Known(claims) = &self.claims else { return None };
        let used = claims.iter().filter_map(|claim| match &claim.lease {
            Lease::LastUsed(at) => Some(*at),
            Lease::Standing | Lease::Held { .. } => None,
        });
        used.max()
    }

    /// Whether the source knows an owner at all.
    #[must_use]
    pub fn has_claims(&self) -> bool {
        match &self.claims {
            Observed::Known(claims) => !claims.is_empty(),
            Observed::Unknown(_) => false,
        }
    }
}

/// One owner's claim.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Claim {
    /// Who says so.
    pub source: SourceId,
    /// Whose claim it is.
    pub owner: OwnerId,
    /// Where the owner says it lives, relative to the directory.
    pub at: ClaimedPath,
    /// How long the claim holds.
    pub lease: Lease,
}

/// Where a claim points, decided by file identity and never by comparing strings.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ClaimedPath {
    /// At the directory itself.
    Here,
    /// Below it.
    Within,
    /// At an ancestor of it that lies inside the root.
    Above,
    /// A record ties the directory to this owner, who is alive and says it lives there.
    Elsewhere(String),
}

/// How long a claim holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Lease {
    /// As long as the source lists it.
    Standing,
    /// While the last use lies inside the policy's window.
    LastUsed(Timestamp),
    /// The source says it is held, whatever its age.
    Held {
        /// The source's own words.
        reason: String,
    },
}

/// The top level of a directory against the layout that was expected.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Layout {
    /// The source expects no particular layout: the unsaved-work proof decides instead.
    Any,
    /// It matches the allowlist.
    Expected,
    /// It does not; this is what was there.
    Unexpected(String),
    /// The allowlist matches, and a checkout lies inside.
    NestedCheckout(PathBuf),
}

/// Someone or something that uses the directory now.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Holder {
    /// A process with its working directory, root, executable or an open file inside.
    Process {
        /// Its number in our own pid namespace.
        pid: u32,
        /// What of the process is inside: `cwd`, `root`, `exe`, `fd 3`.
        by: String,
        /// Its command name, as the kernel has it.
        command: String,
    },
    /// Something is mounted at this path inside (or at the directory itself).
    Mount(PathBuf),
    /// The system uses something in it and no process shows it, in words: a mount of it elsewhere, a
    /// device that stands on a file in it, a bound socket.
    System(String),
    /// Somebody holds a `flock` on the directory.
    DirectoryLock,
    /// A lock file of git lies inside.
    GitLock(PathBuf),
    /// A `.derelict-keep` marker, with its reason.
    Marker(String),
    /// Something elsewhere lives off it: a linked work tree of its repository, or a borrower of its
    /// objects. It would break, so no force reaches over this.
    Dependent(String),
}

/// The unsaved-work proof: one answer per channel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Proof {
    /// The answers, in the order the channels were examined.
    pub channels: Vec<ChannelReport>,
    /// What would be a loss if the operator's policy had not let it go: ``changed: pixi.lock``.
    pub allowed: Vec<Loss>,
}

impl Proof {
    /// Answers of which no policy let anything go.
    #[must_use]
    pub fn of(channels: Vec<ChannelReport>) -> Self {
        Self { channels, allowed: Vec::new() }
    }
}

/// One channel by which a directory can hold the only copy of something.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ChannelReport {
    /// The channel's name, as in the documentation: `untracked`, `commits`, `stash`.
    pub channel: Channel,
    /// What was looked at, in words: "61 index entries".
    pub examined: String,
    /// What came out.
    pub answer: Answer,
    /// Of everything that the answer rests on. Equal prints of two looks mean that the answer still stands.
    pub fingerprint: Digest,
}

impl ChannelReport {
    /// An answer that rests on nothing but what it says.
    #[must_use]
    pub fn new(channel: Channel, examined: String, answer: Answer) -> Self {
        let fingerprint = Digest::of(&(&examined, &answer));
        Self { channel, examined, answer, fingerprint }
    }
}

/// The name of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Channel(pub &'static str);

/// The three answers a channel can give.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Answer {
    /// Looked at, and nothing would be lost.
    Nothing,
    /// These would be lost.
    Losses(NonEmpty<Loss>),
    /// Could not tell.
    Unknown(NonEmpty<String>),
}

/// One thing that would be lost.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Loss {
    /// The channel it was found in.
    pub channel: Channel,
    /// What it is, in words, naming it: ``changed: pixi.lock``.
    pub what: String,
    /// Distinguishes this content from a later one under the same name.
    pub fingerprint: Digest,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_without_an_owner_source_is_refused() {
        let blind = |signal| Blind { signal, why: "not read".into() };
        let build = |sources| {
            Evidence::new(
                sources,
                Observed::Unknown(blind(Signal::Age)),
                Observed::Known(Layout::Any),
                Observed::Known(Vec::new()),
                Observed::Known(Proof::of(Vec::new())),
            )
        };
        assert_eq!(build(Vec::new()), Err(NobodyAsked));
        let report = SourceReport { source: SourceId("devpod".into()), claims: Observed::Known(Vec::new()) };
        let evidence = build(vec![report.clone()]).expect("because a source was asked");
        assert_eq!(evidence.sources(), [report]);
        assert_eq!(evidence.digest(), evidence.clone().digest());
    }
}
