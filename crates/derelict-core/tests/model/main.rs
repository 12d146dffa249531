//! The protocol of one removal, explored exhaustively: every interleaving of a reaper, a second
//! reaper and whoever comes back, with a crash at any step, in a world without a disk.
//!
//! The reapers run the real sweep (`program`); what a port call does to the world, one atomic step
//! at a time, is in `reaper`; what a restart does, in `recovery`; who comes back, in `owner`. The
//! promises are checked by `world` at every change and by `state` wherever everybody has ended.

mod controls;
mod explore;
mod owner;
mod program;
mod protocol;
mod reaper;
mod recovery;
mod state;
mod world;
