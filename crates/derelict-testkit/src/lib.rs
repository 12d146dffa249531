//! Builds the worlds that the tests of the other crates run in: real repositories made by stock
//! `git`, real trees, real locks, mounts and terminals; and one that is not real: the simulated world of [`world`].
//!
//! Everything here panics when it cannot build what it was asked for: a world that is not the one a
//! test names proves nothing. Not here: any rule of the product, and any expectation but the
//! documented ones of the clone states.

pub mod devlaunch;
pub mod disks;
pub mod faulty;
pub mod formats;
pub mod git;
pub mod guards;
pub mod image;
pub mod native;
pub mod postgres;
pub mod promtool;
pub mod proofs;
pub mod reaping;
pub mod records;
pub mod run;
pub mod scratch;
pub mod sessions;
pub mod slow;
pub mod standard;
pub mod states;
pub mod terminal;
pub mod tree;
pub mod world;

pub use devlaunch::Cache;
pub use run::{Finished, Mount, Run};
pub use scratch::Scratch;
pub use terminal::Session;
pub use tree::Snapshot;
