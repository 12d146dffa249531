//! Acts: the only crate that renames or unlinks. It removes one directory after the other by the
//! protocol, through descriptors, writes every change down before it makes it, and finishes at the
//! next start what a crash left behind.
//!
//! What is garbage is decided elsewhere: nothing here is removed without a permit of
//! `derelict-core`, except trash whose discarding had begun before a crash. No database and no
//! network is asked here, and no clock is read: waits are bounded by a monotonic timer.
//!
//! Linux only so far: `stat`, `beneath` and `journal` hold the calls that other systems lack.

mod backoff;
pub mod beneath;
mod bucket;
mod contents;
mod crew;
mod descend;
pub mod fence;
mod flock;
pub mod journal;
mod lines;
pub mod lock;
mod mounts;
mod names;
pub mod pace;
pub mod quarantine;
pub mod reclaimer;
pub mod recover;
mod recovered;
mod refusals;
pub mod release;
mod remove;
pub mod rescue;
mod stat;
pub mod state;
mod strip;
mod surgery;
mod told;
mod trash;
mod width;
