//! The three-valued answers of the proof, and how they are collected: *nothing*, *these losses*,
//! *could not tell*. One answer per channel, each with what was examined.

use sha2::Digest as _;

use crate::stat::Stat;

/// What was found out about one directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Examination {
    /// One answer per channel, in a fixed order.
    pub channels: Vec<ChannelReport>,
    /// Lock files of git: an operation is running, or one was killed.
    pub git_locks: Vec<std::path::PathBuf>,
    /// What lives off this repository from elsewhere and would break, in words: linked work trees and
    /// borrowers of objects. They are losses of their channels too.
    pub dependents: Vec<String>,
    /// What would be a loss if the operator had not let it go.
    pub allowed: Vec<Loss>,
    /// Directories, relative to the examined one, that a tool makes again and that hold nothing else.
    pub rebuildable: Vec<Vec<u8>>,
}

/// One channel's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelReport {
    /// The channel's name.
    pub channel: &'static str,
    /// What was looked at, in words.
    pub examined: String,
    /// What came out.
    pub answer: Answer,
    /// Of everything that the answer rests on: the same as long as nothing of that was written.
    pub fingerprint: [u8; 32],
}

/// The three answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Looked at, and nothing would be lost.
    Nothing,
    /// These would be lost; at least one.
    Losses(Vec<Loss>),
    /// Could not tell, for these reasons; at least one.
    Unknown(Vec<String>),
}

/// One thing that would be lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// What it is, in words, with control characters and other bytes escaped.
    pub what: String,
    /// Distinguishes this content from a later one under the same name.
    pub fingerprint: [u8; 32],
}

/// The channels, in the order they are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Channel {
    /// Whether it is a repository that can be read at all.
    Repository,
    /// The work tree against the index, and the index against HEAD.
    Tracked,
    /// Files no commit knows.
    Untracked,
    /// Files the ignore rules hide.
    Ignored,
    /// Repositories and work trees inside.
    Nested,
    /// Commits on any ref.
    Commits,
    /// Tags that are nowhere else.
    Tags,
    /// Commits that only a reflog or a `*_HEAD` names.
    Reflog,
    /// A merge, rebase, bisect or the like in progress.
    Operation,
    /// Work trees elsewhere that live off this repository.
    Worktrees,
    /// Repositories elsewhere that borrow its objects.
    Borrowers,
    /// Submodules.
    Submodules,
    /// Large files of git-lfs.
    Lfs,
}

impl Channel {
    const ALL: [Self; 13] = [
        Self::Repository,
        Self::Tracked,
        Self::Untracked,
        Self::Ignored,
        Self::Nested,
        Self::Commits,
        Self::Tags,
        Self::Reflog,
        Self::Operation,
        Self::Worktrees,
        Self::Borrowers,
        Self::Submodules,
        Self::Lfs,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Repository => "repository",
            Self::Tracked => "tracked",
            Self::Untracked => "untracked",
            Self::Ignored => "ignored",
            Self::Nested => "nested",
            Self::Commits => "commits",
            Self::Tags => "tags",
            Self::Reflog => "reflog",
            Self::Operation => "operation",
            Self::Worktrees => "worktrees",
            Self::Borrowers => "borrowers",
            Self::Submodules => "submodules",
            Self::Lfs => "lfs",
        }
    }
}

/// Named losses per channel; a directory with a million new files is told by these and a count.
const NAMED_LOSSES: usize = 50;

/// Collects findings while a directory is examined.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    channels: std::collections::BTreeMap<Channel, Found>,
    pub(crate) git_locks: Vec<std::path::PathBuf>,
    pub(crate) dependents: Vec<String>,
    pub(crate) rebuildable: Vec<Remade>,
    allowed: Losses,
}

/// A directory that a tool makes again.
#[derive(Debug)]
pub(crate) struct Remade {
    pub(crate) path: Vec<u8>,
    /// Whether something was met in it that no tool makes, or that could not be read.
    pub(crate) purely: Purely,
}

/// Whether a directory holds nothing but what a tool makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purely {
    Yes,
    No,
}

#[derive(Debug, Default)]
struct Found {
    examined: Vec<(&'static str, u64)>,
    losses: Losses,
    unknown: Vec<String>,
    /// What was read, in the order in which it was.
    read: sha2::Sha256,
    /// What was met on the walk, in any order.
    met: u64,
}

#[derive(Debug, Default)]
struct Losses {
    named: Vec<Loss>,
    unnamed: u64,
    unnamed_fingerprints: sha2::Sha256,
}

impl Findings {
    /// Counts what was looked at: `("index entries", 61)`.
    pub(crate) fn examined(&mut self, channel: Channel, what: &'static str, count: u64) {
        let examined = &mut self.channels.entry(channel).or_default().examined;
        match examined.iter_mut().find(|(known, _)| *known == what) {
            Some((_, sum)) => *sum += count,
            None => examined.push((what, count)),
        }
    }

    /// The answer rests on this.
    pub(crate) fn rests_on(&mut self, channel: Channel, content: &[u8]) {
        let read = &mut self.channels.entry(channel).or_default().read;
        read.update((content.len() as u64).to_le_bytes());
        read.update(content);
    }

    /// The answer rests on what the walk met, which comes in any order: see [`print_of`].
    pub(crate) fn rests_on_met(&mut self, channel: Channel, met: u64) {
        let sum = &mut self.channels.entry(channel).or_default().met;
        *sum = sum.wrapping_add(met);
    }

    /// Something would be lost. `content` is whatever tells this content from a later one.
    pub(crate) fn loss(&mut self, channel: Channel, what: impl FnOnce() -> String, content: &[&[u8]]) {
        self.channels.entry(channel).or_default().losses.add(what, content);
    }

    /// Something would be lost, and the operator lets it go.
    pub(crate) fn allowed(&mut self, what: impl FnOnce() -> String, content: &[&[u8]]) {
        self.allowed.add(what, content);
    }

    /// Could not tell.
    pub(crate) fn unknown(&mut self, channel: Channel, why: impl Into<String>) {
        let unknown = &mut self.channels.entry(channel).or_default().unknown;
        if unknown.len() < NAMED_LOSSES {
            unknown.push(why.into());
        }
    }

    /// The answers, one per channel.
    pub(crate) fn finish(mut self) -> Examination {
        let channels = Channel::ALL.map(|channel| self.channels.remove(&channel).unwrap_or_default().report(channel));
        self.git_locks.sort();
        self.dependents.sort();
        let (git_locks, dependents) = (self.git_locks, self.dependents);
        let pure = self.rebuildable.into_iter().filter(|remade| remade.purely == Purely::Yes);
        let rebuildable = pure.map(|remade| remade.path).collect();
        Examination { channels: channels.into(), git_locks, dependents, allowed: self.allowed.sorted(), rebuildable }
    }
}

impl Losses {
    fn add(&mut self, what: impl FnOnce() -> String, content: &[&[u8]]) {
        let mut hash = sha2::Sha256::new();
        content.iter().for_each(|part| {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        });
        if self.named.len() < NAMED_LOSSES {
            self.named.push(Loss { what: what(), fingerprint: hash.finalize().into() });
        } else {
            self.unnamed += 1;
            self.unnamed_fingerprints.update(hash.finalize());
        }
    }

    /// The walk's order is the file system's; the report's is not.
    fn sorted(mut self) -> Vec<Loss> {
        self.named.sort_by(|a, b| a.what.cmp(&b.what));
        if self.unnamed > 0 {
            self.named.push(Loss {
                what: format!("and {} more", self.unnamed),
                fingerprint: self.unnamed_fingerprints.finalize().into(),
            });
        }
        self.named
    }
}

impl Found {
    fn report(self, channel: Channel) -> ChannelReport {
        let examined = self.examined.iter().map(|(what, count)| format!("{count} {what}")).collect::<Vec<_>>();
        let examined = if examined.is_empty() { "none present".to_owned() } else { examined.join(", ") };
        let losses = self.losses.sorted();
        let mut print = sha2::Sha256::new();
        print.update(examined.as_bytes());
        print.update(self.read.finalize());
        print.update(self.met.to_le_bytes());
        losses.iter().for_each(|loss| print.update(loss.fingerprint));
        self.unknown.iter().for_each(|why| print.update(why.as_bytes()));
        let answer = match (self.unknown.is_empty(), losses.is_empty()) {
            (false, _) => Answer::Unknown(self.unknown),
            (true, false) => Answer::Losses(losses),
            (true, true) => Answer::Nothing,
        };
        ChannelReport { channel: channel.name(), examined, answer, fingerprint: print.finalize().into() }
    }
}

/// What changes whenever an entry is written, replaced or given another mode: cheap, for there are many, and such that
/// the sum over many tells each of them. It guards against chance, not against somebody who sets clocks.
pub(crate) fn print_of(stat: &Stat) -> u64 {
    let (seconds, nanoseconds) = stat.ctime;
    [stat.ino, seconds.unsigned_abs(), u64::from(nanoseconds), stat.size, u64::from(stat.mode)]
        .into_iter()
        .fold(stat.dev, mixed)
}

/// The same of a name and the object that it names.
pub(crate) fn print_of_ref(name: &[u8], id: &gix_hash::oid) -> u64 {
    let parts = name.chunks(8).chain(id.as_bytes().chunks(8));
    parts.fold(0, |print, part| {
        let mut bytes = [0; 8];
        bytes[..part.len()].copy_from_slice(part);
        mixed(print, u64::from_le_bytes(bytes))
    })
}

fn mixed(print: u64, part: u64) -> u64 {
    let mixed = (print ^ part).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}
