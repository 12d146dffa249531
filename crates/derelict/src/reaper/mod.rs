//! Unattended sweeps: what a sweep is recorded as. What is garbage is decided in `derelict-core`.

pub(crate) mod record;
