//! The product from outside: the real program on real caches, as its documentation promises. Each test
//! is named for the promise it keeps. Not here: the rules themselves, which are tested beside the code.

mod acceptance;
mod arguments;
mod breakers;
mod configuring;
mod consent;
mod crash;
mod environment;
mod explain;
mod full_disk;
mod history;
mod kills;
mod locks;
mod ownership;
mod quarantine;
mod reap_support;
mod reaping;
mod reaping_breakers;
mod reaping_faults;
mod reaping_limits;
mod reaping_owners;
mod reaping_races;
mod records;
mod refusals;
mod remotes;
mod removal;
mod replicas;
mod report;
mod rescue;
mod serving;
mod support;
mod terms;
mod unsaved;
mod use_now;
