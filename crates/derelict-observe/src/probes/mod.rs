//! The probes: what one directory holds, who uses it, what it occupies. Each reads one signal.

pub(crate) mod accounting;
pub(crate) mod gauge;
pub(crate) mod holders;
pub(crate) mod locks;
pub(crate) mod maps;
pub(crate) mod marker;
pub(crate) mod unsaved;
