//! Looks: says what would be lost if a repository vanished, by reading its files itself.
//!
//! It never writes, never locks, never starts a process, and has no code that could run a filter, a
//! hook or an fsmonitor. No environment variable changes an answer. What is not supported exactly
//! is "could not tell", with the reason.
//!
//! Where things are: `walk` sees every entry once; `work_tree` says what each one is; `index`, `content`,
//! `conversion`, `attributes`, `lfs` and `ignore` help it decide; `examine` puts a repository together and goes
//! into those inside it, `linked` after those that live off it. `saved` says what is saved elsewhere, by the
//! addresses that `settings` and `rewrites` know, `asked` what a remote says itself; `history` asks which commits are, with `commits` (the ancestry
//! walk), `containment` and `landing` (squash, rebase, stash) and `lines`; `doubts` and `saved_files` ask it of
//! files. `salvage` says what has to be carried out so that nothing is lost, and `bundle` writes and reads it. `terms` is what is said outside of repositories, and `users` reads git's part of it. `refs`, `reftable`, `repository`, `loose`, `packs` and `recent` read git's files; `proof` and `report` collect the answers;
//! `hostile` gives our own parsers any bytes.

mod asked;
mod attributes;
mod bundle;
mod commits;
mod containment;
mod content;
mod conversion;
mod doubts;
mod examine;
mod git_dir;
mod history;
#[doc(hidden)]
pub mod hostile;
mod ignore;
mod ignored_changes;
mod index;
mod landing;
mod lfs;
mod lines;
mod linked;
mod loose;
mod packs;
mod proof;
mod rebuildable;
mod recent;
mod refs;
mod reftable;
mod report;
mod repository;
mod rewrites;
mod salvage;
mod saved;
mod saved_files;
mod settings;
mod stat;
mod surroundings;
mod terms;
mod trees;
mod users;
mod walk;
mod work_tree;

pub use asked::{ListRemote, RemoteRefs};
pub use ignored_changes::{BadPattern, IgnoredChanges};
pub use proof::{Answer, ChannelReport, Examination, Loss};
pub use rebuildable::{BadRebuildable, Rebuildable};
pub use salvage::{Kept, ObjectStore, Salvaged, Unpacked, salvage, unpack};
pub use stat::Stat;
pub use surroundings::{Borrower, Surroundings};
pub use terms::{AskRemote, GitFiles, Terms};
pub use walk::{Meter, measure};

use std::os::fd::BorrowedFd;
use std::path::Path;

use proof::{Channel, Findings};
use report::{Place, Report};

/// Examines one directory: what would be lost if it vanished. `shown` is its canonical path, used to
/// resolve what its git files name, and in messages. The meter sees every entry once, the directory
/// itself with an empty path.
pub fn examine(dir: BorrowedFd<'_>, shown: &Path, around: &Surroundings, meter: &mut dyn Meter) -> Examination {
    let mut findings = Findings::default();
    match stat::stat_of(dir) {
        Ok(stat) => meter.seen(b"", &stat),
        Err(error) => meter.unreadable(b"", &error.into()),
    }
    examine::Examiner::new(around, shown, meter, &mut findings).work_tree(dir, b"", &Place::Top);
    let mut report = Report::new(&mut findings, Place::Top);
    report.examined(Channel::Borrowers, "known borrowers", around.borrower_count());
    for borrower in around.borrowers_from(shown) {
        let repository = report::shown(borrower.repository.as_os_str().as_encoded_bytes());
        report.dependent(Channel::Borrowers, &format!("{repository} needs its objects"));
    }
    findings.finish()
}
