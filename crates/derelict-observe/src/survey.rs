//! The words of a survey: what it is asked for, what it tells on the way, what it comes to, and what it
//! could not see.

use derelict_core::ids::FileIdentity;
use derelict_core::survey::Sighting;

use crate::borrowers::MAX_DEPTH;
use crate::scan::Skipped;

/// How much of each directory is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// What a verdict needs: a directory that a living owner claims is measured and not examined.
    Verdict,
    /// Everything, for an explanation.
    Everything,
}

/// What a survey is busy with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Asking the owner sources and listing the directories.
    Asking,
    /// Examining the directories.
    Examining {
        /// How many are done.
        done: u64,
        /// How many there are.
        total: u64,
    },
}

/// What a survey came to.
#[derive(Debug)]
pub struct Survey {
    /// Every directory that could be a workspace, by its place below the root.
    pub sightings: Vec<Sighting>,
    /// What lies in their place and is none.
    pub skipped: Vec<Skipped>,
    /// Keys of records whose directory is gone; empty when only one clone was asked for.
    pub stale_records: Vec<String>,
    /// How many owners are alive, over all sources.
    pub owners: u64,
    /// The root that was scanned.
    pub root: FileIdentity,
    /// What could not be seen.
    pub disclosures: Disclosures,
}

/// What the survey could not see, and would rather say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disclosures {
    /// How much of the processes was seen; `None` when none was, which every directory's evidence says too.
    pub processes: Option<ProcessView>,
    /// How far the search for borrowers went.
    pub borrowers: BorrowerSearch,
    /// Why the launcher's records say nothing, if they do not.
    pub records: Option<String>,
    /// Configuration of git outside of the repositories that could not be read, and why.
    pub git: Vec<String>,
}

/// How much of the running processes was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessView {
    /// All of our pid namespace.
    Whole,
    /// Some belong to others and may not be inspected.
    Partly {
        /// How many.
        unseen: u64,
    },
    /// Processes of others are hidden, so that not even their number is known.
    Hidden,
}

/// The search for repositories that borrow from the clones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BorrowerSearch {
    /// Directories that were looked at.
    pub directories: u64,
    /// Directories and files that could not be read.
    pub unreadable: u64,
    /// Borrowers that were found.
    pub found: u64,
    /// Whether it got as far as it wanted to.
    pub extent: Extent,
}

/// Whether a bounded search ended by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Down to its depth, everywhere.
    ToDepth,
    /// It stopped at its bound.
    Bounded,
}

impl Disclosures {
    /// One sentence for each thing that was not seen.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        match self.processes {
            Some(ProcessView::Whole) => {}
            Some(ProcessView::Partly { unseen: 1 }) => {
                lines.push("1 process could not be inspected for use of the directories".to_owned());
            }
            Some(ProcessView::Partly { unseen }) => {
                lines.push(format!("{unseen} processes could not be inspected for use of the directories"))
            }
            Some(ProcessView::Hidden) => {
                lines.push("processes of other users are hidden and could not be inspected".to_owned());
            }
            None => lines.push("no process could be inspected for use of the directories".to_owned()),
        }
        let BorrowerSearch { directories, unreadable, extent, found: _ } = self.borrowers;
        match extent {
            Extent::ToDepth => lines.push(format!(
                "repositories that borrow objects were looked for {MAX_DEPTH} levels deep around the cache, the home directory and the live workspaces, and nowhere else"
            )),
            Extent::Bounded => lines.push(format!(
                "the search for repositories that borrow objects stopped at its bound of {directories} directories"
            )),
        }
        if unreadable > 0 {
            lines.push(format!(
                "the search for repositories that borrow objects (to a depth of {MAX_DEPTH}) could not read {unreadable} of its places"
            ));
        }
        lines.extend(self.records.clone());
        lines.extend(self.git.iter().map(|why| {
            format!("without the configuration of git no remote is certain, and no forge saves anything: {why}")
        }));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_seen_is_said_and_the_search_for_borrowers_has_its_bounds() {
        let borrowers = BorrowerSearch { directories: 3, unreadable: 0, found: 0, extent: Extent::ToDepth };
        let whole = Disclosures { processes: Some(ProcessView::Whole), borrowers, records: None, git: Vec::new() };
        let [bounds] = whole.lines().try_into().expect("because only the search has bounds");
        assert!(bounds.contains("3 levels deep"), "{bounds}");
        let blind = Disclosures {
            processes: None,
            borrowers: BorrowerSearch { unreadable: 2, extent: Extent::Bounded, ..borrowers },
            records: Some("cannot read the records".into()),
            git: vec!["/etc/gitconfig: broken".into()],
        };
        assert_eq!(blind.lines().len(), 5);
        let hidden = Disclosures { processes: Some(ProcessView::Hidden), ..whole.clone() };
        assert_eq!(hidden.lines()[..1], ["processes of other users are hidden and could not be inspected"]);
        let one = Disclosures { processes: Some(ProcessView::Partly { unseen: 1 }), ..whole };
        assert_eq!(one.lines()[..1], ["1 process could not be inspected for use of the directories"]);
    }
}
