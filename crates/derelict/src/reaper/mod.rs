//! Unattended sweeps: what one is recorded as, and who carries it out.

pub(crate) mod record;
