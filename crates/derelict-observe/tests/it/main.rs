//! The observer on real directories, with real processes, mounts, locks and repositories.
#![expect(clippy::disallowed_methods, reason = "tests build what is looked at")]

#[cfg(test)]
mod command;
#[cfg(test)]
mod listing;
#[cfg(test)]
mod ownership;
#[cfg(test)]
mod paperclip;
#[cfg(test)]
mod postgres;
#[cfg(test)]
mod recheck;
#[cfg(test)]
mod roots;
#[cfg(test)]
mod sqlite;
#[cfg(test)]
mod surveying;
#[cfg(test)]
mod uses;
#[cfg(test)]
mod world;
