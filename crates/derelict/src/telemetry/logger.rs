//! How the log of an unattended program is written: to stderr, for people or as JSON lines, from a threshold on. What it
//! says is in [`crate::telemetry::log`].
//!
//! Only our own events are written. Libraries are silent whatever the threshold: a database client would say statements
//! with their values.

use std::io;
use std::str::FromStr;

use tracing::Dispatch;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::text;

/// The target of our events, and of no others.
pub(super) const OURS: &str = "derelict";

/// How an event is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// One line, for people.
    Human,
    /// One JSON object a line.
    Json,
}

impl Format {
    /// What `log.format` may be.
    pub(crate) const NAMES: [&'static str; 2] = ["human", "json"];
}

impl FromStr for Format {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "human" => Ok(Self::Human),
            "json" => Ok(Self::Json),
            other => Err(unknown(other, &Self::NAMES)),
        }
    }
}

/// From where on events are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Threshold {
    /// What stopped a sweep.
    Error,
    /// What somebody should look at, too.
    Warn,
    /// What was done and what was not, too.
    Info,
    /// What stays as a matter of routine, too.
    Debug,
}

impl Threshold {
    /// What `log.level` may be.
    pub(crate) const NAMES: [&'static str; 4] = ["error", "warn", "info", "debug"];

    fn filter(self) -> LevelFilter {
        match self {
            Self::Error => LevelFilter::ERROR,
            Self::Warn => LevelFilter::WARN,
            Self::Info => LevelFilter::INFO,
            Self::Debug => LevelFilter::DEBUG,
        }
    }
}

impl FromStr for Threshold {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "error" => Ok(Self::Error),
            "warn" => Ok(Self::Warn),
            "info" => Ok(Self::Info),
            "debug" => Ok(Self::Debug),
            other => Err(unknown(other, &Self::NAMES)),
        }
    }
}

fn unknown(name: &str, known: &[&str]) -> String {
    format!("`{}` is not one of {}", text::sentence(name), known.join(", "))
}

/// Writes events to stderr from here on, from every thread.
///
/// # Errors
/// When a log was started before.
pub(crate) fn start(format: Format, from: Threshold) -> anyhow::Result<()> {
    tracing::dispatcher::set_global_default(to(io::stderr, format, from))
        .map_err(|_| anyhow::anyhow!("cannot start the log: it was started before"))
}

fn to<W>(writer: W, format: Format, from: Threshold) -> Dispatch
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let ours = Targets::new().with_target(OURS, from.filter()).with_default(LevelFilter::OFF);
    // A log that cannot be written is lost, and no reason to panic on stderr about it.
    let builder = tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE).log_internal_errors(false);
    let builder = builder.with_writer(writer).with_target(false).with_ansi(false);
    match format {
        Format::Human => Dispatch::new(builder.finish().with(ours)),
        Format::Json => {
            let builder = builder.json().flatten_event(true).with_current_span(false).with_span_list(false);
            Dispatch::new(builder.finish().with(ours))
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::Value;
    use tracing::{debug, error};

    use super::*;

    #[derive(Clone)]
    struct Captured(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Captured {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    pub(in crate::telemetry) fn capture(format: Format, from: Threshold, work: impl FnOnce()) -> Vec<String> {
        let captured = Captured(Arc::new(Mutex::new(Vec::new())));
        let writer = captured.clone();
        tracing::dispatcher::with_default(&to(move || writer.clone(), format, from), work);
        let bytes = captured.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
    }

    pub(in crate::telemetry) fn json(from: Threshold, work: impl FnOnce()) -> Vec<Value> {
        capture(Format::Json, from, work).iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn libraries_are_silent_whatever_the_level() {
        let told = json(Threshold::Debug, || {
            debug!(target: "tokio_postgres::query", "executing statement with parameters: [\"secret\"]");
            error!(target: "hyper", "something");
            debug!(target: OURS, "ours");
        });
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0]["message"], "ours");
    }

    #[test]
    fn the_names_of_formats_and_levels_are_all_that_is_read() {
        for name in Format::NAMES {
            assert!(name.parse::<Format>().is_ok(), "{name}");
        }
        for name in Threshold::NAMES {
            assert!(name.parse::<Threshold>().is_ok(), "{name}");
        }
        assert_eq!("xml".parse::<Format>(), Err("`xml` is not one of human, json".into()));
        assert_eq!("loud\n".parse::<Threshold>(), Err("`loud\\n` is not one of error, warn, info, debug".into()));
    }

    #[test]
    fn a_log_is_started_once() {
        start(Format::Human, Threshold::Error).unwrap();
        let again = start(Format::Human, Threshold::Error).unwrap_err();
        assert_eq!(again.to_string(), "cannot start the log: it was started before");
    }
}
