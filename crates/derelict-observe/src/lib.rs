//! Looks: finds the directories, asks those who own them, and runs the probes.
//!
//! Nothing here writes, renames or removes, and nothing here decides what is garbage: what was seen
//! is handed on as [`derelict_core::evidence::Evidence`], and what could not be seen is handed on as
//! exactly that. What is started is the owner source's own program and, when an operator wants remotes to be asked,
//! git, in the module `exec`.

mod borrowers;
mod cache;
mod claims;
mod environment;
mod exec;
mod files;
mod observer;
mod parallel;
mod place;
mod probes;
mod remotes;
pub mod roots;
mod salvage;
mod scan;
mod seen;
mod sources;
mod survey;

pub use cache::{Cache, LocateError, Located};
pub use derelict_git::{AskRemote, BadPattern, BadRebuildable, GitFiles, IgnoredChanges, Rebuildable, Terms};
pub use environment::Environment;
pub use observer::DevlaunchObserver;
pub use salvage::Bundles;
pub use scan::{SkipKind, Skipped, TRASH_PREFIX};
pub use sources::{command, postgres, sqlite, table};
pub use survey::{BorrowerSearch, Depth, Disclosures, Extent, ProcessView, Progress, Survey};
