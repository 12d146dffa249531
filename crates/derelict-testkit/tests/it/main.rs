//! The real sweep in the simulated world.

mod storms;
