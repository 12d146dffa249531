//! Work trees elsewhere that live off a repository: those that would break, and those that are gone and of
//! which only git's own notes are left. Not here: a linked work tree inside the candidate, which is examined
//! like any other.

use std::path::{Path, PathBuf};

use crate::doubts::Doubts;
use crate::examine::{Examiner, head_commit, join, operations};
use crate::history::{Adrift, History};
use crate::proof::Channel;
use crate::refs::read_limited;
use crate::report::{Place, Report, shown};
use crate::repository::{Repository, path_line};
use crate::saved::Standing;

/// `gitdir` holds one path.
const PATH_BYTES: u64 = 8192;

/// Directories beside a work tree that is gone, among which it is looked for under another name.
const MOST_NEIGHBOURS: usize = 10_000;

impl Examiner<'_> {
    /// Work trees that live off this repository and were not met inside the candidate.
    pub(crate) fn linked_work_trees(&mut self, repo: &Repository, prefix: &[u8], place: &Place) {
        let unlisted = |error| format!("cannot list worktrees: {error}");
        let entries = match std::fs::read_dir(repo.git_dir.join("worktrees")) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
            Err(error) => {
                return Report::new(self.findings, place.clone()).unknown(Channel::Worktrees, &unlisted(error));
            }
        };
        for entry in entries {
            let mut report = Report::new(self.findings, place.clone());
            let entry = match entry {
                Ok(entry) => entry.path(),
                Err(error) => return report.unknown(Channel::Worktrees, &unlisted(error)),
            };
            report.examined(Channel::Worktrees, "linked work trees", 1);
            let canonical = std::fs::canonicalize(&entry).ok();
            if canonical.as_ref().is_some_and(|path| self.done.contains(path)) {
                continue;
            }
            let name = entry.file_name().map_or_else(Vec::new, |name| name.as_encoded_bytes().to_vec());
            let work_tree =
                read_limited(&entry.join("gitdir"), PATH_BYTES).ok().map(|text| entry.join(path_line(&text)));
            if work_tree.as_ref().zip(canonical).is_some_and(|(path, entry)| is_gone(path, &entry, self.top)) {
                report.examined(Channel::Worktrees, "of which the directory is gone", 1);
                self.left_behind(&entry, &join(prefix, &[b".git/worktrees/", name.as_slice()].concat()));
                continue;
            }
            let at = work_tree
                .as_deref()
                .and_then(Path::parent)
                .map_or_else(|| "an unknown place".to_owned(), |path| shown(path.as_os_str().as_encoded_bytes()));
            report.dependent(
                Channel::Worktrees,
                &format!("the work tree {} at {at} lives off this repository", shown(&name)),
            );
        }
    }

    /// What git still keeps of a work tree whose directory is gone: its HEAD, its index, refs and reflogs of
    /// its own.
    fn left_behind(&mut self, git_dir: &Path, path: &[u8]) {
        let place = Place::Nested(path.to_vec());
        let repo = match Repository::open(git_dir) {
            Ok(repo) => repo,
            Err(why) => return Report::new(self.findings, place).unknown(Channel::Nested, &why),
        };
        let here = self.path_of(path);
        let mut history = History::read(&repo, &Standing { around: self.around, top: self.top, base: &here });
        let mut doubts = Doubts::default();
        let head = head_commit(&repo, &history.refs);
        self.index(&repo, head, &place, &mut doubts);
        let mut report = Report::new(self.findings, place);
        history.examine(&repo, &Adrift::default(), &mut report);
        operations(git_dir, &mut report);
        doubts.settle(&history.saved, |_, _| false, &mut report);
    }
}

/// Whether the directory of a work tree is gone, and not only moved to a neighbouring name. Where even the
/// directory above it is not to be seen, it may be on a disk that is not here, or in a container; that
/// cannot be if it was inside the candidate.
fn is_gone(git_file: &Path, entry: &Path, top: &Path) -> bool {
    let Some((work_tree, above)) = git_file.parent().and_then(|dir| Some((dir, dir.parent()?))) else { return false };
    let missing = std::fs::symlink_metadata(work_tree).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
    if !missing || entry.join("locked").exists() {
        return false;
    }
    let beside = match top.parent() {
        Some(beside) if work_tree.starts_with(top) => beside,
        Some(_) | None => above,
    };
    // Inside the candidate the walk would have met it under another name.
    has_no_work_tree_of(beside, entry)
}

/// Whether all neighbours could be looked at, and none of them is a work tree of this entry.
fn has_no_work_tree_of(directory: &Path, entry: &Path) -> bool {
    let Ok(neighbours) = std::fs::read_dir(directory) else { return false };
    let moved = |dir: PathBuf| {
        let text = read_limited(&dir.join(".git"), PATH_BYTES).ok()?;
        let named = dir.join(path_line(text.strip_prefix(b"gitdir: ")?));
        std::fs::canonicalize(named).ok().filter(|named| named == entry)
    };
    let mut seen = 0;
    neighbours.into_iter().all(|neighbour| {
        seen += 1;
        seen <= MOST_NEIGHBOURS && neighbour.is_ok_and(|neighbour| moved(neighbour.path()).is_none())
    })
}
