//! A simulated world behind the four ports of the sweep, driven by a seed, with an adversary that
//! acts between any two port calls: owners resume, write, leave, move and remove directories, locks
//! are busy, sources and the journal are lost, renames and unlinks are refused, the process dies.
//!
//! [`simulate`] runs the real sweep in it a few times, lets the adversary rest, runs it twice more,
//! and tells what happened or which promise was broken. The same seed is the same story. Not here:
//! interleavings below a port call; those are explored by the model in the tests of the core.

mod adversary;
mod dice;
mod ground;
mod look;
mod ports;
mod recovery;
mod story;

pub use story::{Broken, Told, simulate};

/// The part of the protocol that is left out, for the negative controls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// The whole protocol.
    Nothing,
    /// Neither is the directory renamed away, nor is it looked at again behind that.
    FenceAndSecondLook,
    /// Nothing is looked at behind the fence.
    SecondLook,
    /// What the plan saw is believed.
    Recheck,
    /// The creators' lock is not taken.
    Lock,
    /// A tree that is being discarded looks like one that is only fenced.
    Mark,
    /// The directory that lies there is taken for the one that was planned.
    Identity,
}
