//! The product from outside: the real program on real caches, as its documentation promises. Each test
//! is named for the promise it keeps. Not here: the rules themselves, which are tested beside the code.

mod acceptance;
mod arguments;
mod breakers;
mod consent;
mod crash;
mod environment;
mod explain;
mod full_disk;
mod kills;
mod locks;
mod ownership;
mod quarantine;
mod records;
mod refusals;
mod removal;
mod report;
mod support;
mod unsaved;
mod use_now;
