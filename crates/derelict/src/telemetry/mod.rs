//! What an unattended program tells whoever runs it: metrics, health and a log. Nothing is decided here, and nothing
//! here is asked by a sweep: a scrape that hangs or a log that is full never holds a removal up.

#[cfg(test)]
mod alerts;
mod bounded;
#[cfg(test)]
mod deploy;
pub(crate) mod heartbeat;
pub(crate) mod http;
pub(crate) mod log;
pub(crate) mod logger;
pub(crate) mod metrics;
mod page;
#[cfg(test)]
mod samples;
mod series;
pub(crate) mod textfile;
