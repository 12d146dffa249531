//! Decides: the words of the project, the one definition of garbage, the plan, the re-check and the
//! tally, and the sweep as one readable function over four ports.
//!
//! Nothing here does I/O, reads a clock, an environment variable or a file. Time comes in as an
//! argument, the world comes in through [`ports`].
//!
//! Each module imports only from those to its left:
//! `ids ← evidence ← size ← policy ← verdict ← plan ← recheck ← rescue ← outcome ← record ← ports ← survey ← sweep`.

pub mod evidence;
pub mod ids;
pub mod outcome;
pub mod plan;
pub mod policy;
pub mod ports;
pub mod recheck;
pub mod record;
pub mod rescue;
pub mod size;
pub mod survey;
pub mod sweep;
pub mod verdict;
