//! The unsaved-work proof, in core's words. The proof itself is `derelict-git`'s.

use std::os::fd::BorrowedFd;
use std::path::Path;

use derelict_core::evidence::{Answer, Channel, ChannelReport, Holder, Loss, Proof};
use derelict_core::ids::{Digest, NonEmpty};
use derelict_git::{Meter, Surroundings};

/// What an examination came to.
#[derive(Debug)]
pub(crate) struct Examined {
    pub(crate) proof: Proof,
    /// Lock files of git inside, and what lives off the repository from elsewhere.
    pub(crate) holders: Vec<Holder>,
}

/// Examines an open directory; the walk that this takes feeds the meter too.
pub(crate) fn examine(dir: BorrowedFd<'_>, shown: &Path, around: &Surroundings, meter: &mut dyn Meter) -> Examined {
    let examination = derelict_git::examine(dir, shown, around, meter);
    let channels = examination.channels.into_iter().map(report).collect();
    let locks = examination.git_locks.into_iter().map(Holder::GitLock);
    let holders = locks.chain(examination.dependents.into_iter().map(Holder::Dependent)).collect();
    // What was allowed was found where tracked files are compared; nothing else can be let go.
    let allowed = examination.allowed.into_iter().map(|found| loss(Channel("tracked"), found)).collect();
    Examined { proof: Proof { channels, allowed }, holders }
}

fn report(report: derelict_git::ChannelReport) -> ChannelReport {
    let channel = Channel(report.channel);
    let answer = match report.answer {
        derelict_git::Answer::Nothing => Answer::Nothing,
        derelict_git::Answer::Losses(losses) => losses_of(channel, losses),
        derelict_git::Answer::Unknown(reasons) => {
            unknown(NonEmpty::from_vec(reasons), "could not tell, and gave no reason")
        }
    };
    let fingerprint = Digest::from_bytes(report.fingerprint);
    ChannelReport { channel, examined: report.examined, answer, fingerprint }
}

fn losses_of(channel: Channel, losses: Vec<derelict_git::Loss>) -> Answer {
    let losses = losses.into_iter().map(|found| loss(channel, found));
    match NonEmpty::from_vec(losses.collect()) {
        Some(losses) => Answer::Losses(losses),
        None => unknown(None, "found losses, and named none"),
    }
}

fn loss(channel: Channel, loss: derelict_git::Loss) -> Loss {
    Loss { channel, what: loss.what, fingerprint: Digest::of_bytes(&loss.fingerprint) }
}

/// An answer that contradicts itself is no answer, and least of all a "nothing".
fn unknown(reasons: Option<NonEmpty<String>>, otherwise: &str) -> Answer {
    Answer::Unknown(reasons.unwrap_or_else(|| NonEmpty::of(otherwise.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(answer: derelict_git::Answer) -> Answer {
        let (examined, fingerprint) = ("1 file".into(), [7; 32]);
        report(derelict_git::ChannelReport { channel: "untracked", examined, answer, fingerprint }).answer
    }

    #[test]
    fn answers_keep_their_meaning_and_empty_ones_are_never_nothing() {
        assert_eq!(answered(derelict_git::Answer::Nothing), Answer::Nothing);
        let loss = derelict_git::Loss { what: "new: f".into(), fingerprint: [7; 32] };
        let expected =
            Loss { channel: Channel("untracked"), what: "new: f".into(), fingerprint: Digest::of_bytes(&[7; 32]) };
        assert_eq!(answered(derelict_git::Answer::Losses(vec![loss])), Answer::Losses(NonEmpty::of(expected)));
        assert!(matches!(answered(derelict_git::Answer::Losses(Vec::new())), Answer::Unknown(_)));
        assert!(matches!(answered(derelict_git::Answer::Unknown(Vec::new())), Answer::Unknown(_)));
    }
}
