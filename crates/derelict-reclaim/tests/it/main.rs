//! The world this crate acts on, for real: trees, mounts, locks, records and journals.

#![expect(clippy::wildcard_enum_match_arm, reason = "a test names the one outcome it expects and fails on all others")]

mod faults;
mod full_disk;
mod hostile;
mod journal;
mod kit;
mod locks;
mod media;
mod quarantine;
mod records;
mod recovery;
mod refusals;
mod removal;
mod unprivileged;
