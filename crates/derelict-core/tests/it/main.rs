//! The decisions as a whole: judged, planned, re-checked and swept in a world without a disk.

mod breakers;
mod judging;
mod planning;
mod rechecking;
mod rescuing;
mod support;
mod sweeping;
