//! Unattended sweeps: `reap` for one of them, `serve` for one at every interval. What is garbage is decided in
//! `derelict-core`; here a root is put together from the configuration, swept, recorded and counted.

mod assign;
mod daemon;
mod desk;
mod lead;
mod ports;
mod postponed;
pub(crate) mod reap;
pub(crate) mod record;
mod recording;
pub(crate) mod serve;
mod show;
mod sweeping;

pub(crate) use assign::state;
