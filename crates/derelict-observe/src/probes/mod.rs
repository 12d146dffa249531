//! The probes: what one directory holds, who uses it, what it occupies. Each reads one signal.

pub(crate) mod accounting;
pub(crate) mod gauge;
pub(crate) mod holders;
pub(crate) mod kernel;
pub(crate) mod locks;
pub(crate) mod maps;
pub(crate) mod marker;
pub(crate) mod mounts;
pub(crate) mod occupancy;
pub(crate) mod process;
pub(crate) mod pulse;
pub(crate) mod system;
pub(crate) mod unsaved;
