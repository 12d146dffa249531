//! Under which names what is exported. Each family is written here once, with its help text; what is counted is in
//! `series`, and when a text is asked for is in [`crate::telemetry::metrics`].

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use derelict_core::ids::Timestamp;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;

use crate::reaper::record::Mode;
use crate::telemetry::heartbeat::{Heartbeat, Running};
use crate::telemetry::series::{ModeSeries, RootSeries};

/// By the root's name. Held for one fold or one text, never over a system call: a scrape meets a sweep as a whole.
#[derive(Debug, Clone)]
pub(super) struct Roots(Arc<Mutex<BTreeMap<String, RootSeries>>>);

impl Roots {
    /// None yet.
    pub(super) fn none() -> Self {
        Self(Arc::new(Mutex::new(BTreeMap::new())))
    }

    /// The map stays usable whatever happens to a thread that holds it: at worst one fold is incomplete.
    pub(super) fn lock(&self) -> MutexGuard<'_, BTreeMap<String, RootSeries>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes everything down, in one order that never changes.
#[derive(Debug)]
pub(super) struct Exporter {
    roots: Roots,
    heartbeat: Heartbeat,
}

impl Exporter {
    /// Of these roots, and of the sweeps that run when it is asked.
    pub(super) fn new(roots: Roots, heartbeat: Heartbeat) -> Self {
        Self { roots, heartbeat }
    }
}

/// Name and value of each label of one series.
type Labels<'l> = Vec<(&'l str, &'l str)>;

impl Collector for Exporter {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let running = self.heartbeat.look();
        let roots = self.roots.lock();
        let swept: Vec<(&str, &RootSeries)> =
            roots.iter().filter(|(_, series)| series.swept()).map(|(root, series)| (root.as_str(), series)).collect();
        let mut page = Page { encoder, swept };
        page.sweeps()?;
        page.last_sweep()?;
        page.backlog()?;
        page.roots()?;
        page.running(&running)
    }
}

/// The text that is being written, and what it is written from.
struct Page<'e, 'p> {
    encoder: DescriptorEncoder<'e>,
    swept: Vec<(&'p str, &'p RootSeries)>,
}

impl<'p> Page<'_, 'p> {
    fn sweeps(&mut self) -> fmt::Result {
        let sweeps = self.by_mode(|labels, series, out| {
            out.extend(series.sweeps.iter().map(|(reason, n)| (with(&labels, "stop_reason", reason), counter(*n))));
        });
        self.family("sweeps", "Sweeps that ended, by why they ended", sweeps)?;
        let directories = self.by_mode(|labels, series, out| {
            let each = series.directories.iter();
            out.extend(each.map(|(fate, n)| (with(&labels, "outcome", fate.as_str()), counter(*n))));
        });
        self.family("directories", "Directories that sweeps looked at, by where they ended", directories)?;
        let removed = self.by_mode(|labels, series, out| out.push((labels, counter(series.removed.bytes))));
        self.family("removed_bytes", "Bytes on disk of what was unlinked", removed)?;
        let removed = self.by_mode(|labels, series, out| out.push((labels, counter(series.removed.entries))));
        self.family("removed_entries", "Directory entries that were unlinked", removed)?;
        let duration = self.by_mode(|labels, series, out| out.push((labels, Value::Histogram(&series.duration))));
        self.family("sweep_duration_seconds", "How long sweeps took", duration)
    }

    fn last_sweep(&mut self) -> fmt::Result {
        let at = self.by_mode(|labels, series, out| out.push((labels, Value::Gauge(seconds(series.last.at)))));
        self.family("sweep_last_timestamp_seconds", "When the last sweep ended, however it did", at)?;
        let success = self.by_mode(|labels, series, out| {
            let at = series.last_success.map_or(0.0, seconds);
            out.push((labels, Value::Gauge(at)));
        });
        let help = "When a sweep ended last that went through to its end or to a limit; 0 if none did yet";
        self.family("sweep_last_success_timestamp_seconds", help, success)?;
        let directories = self.by_mode(|labels, series, out| {
            let each = series.last.directories.iter();
            out.extend(each.map(|(fate, n)| (with(&labels, "outcome", fate.as_str()), gauge(*n))));
        });
        self.family("sweep_last_directories", "Directories of the last sweep, by where they ended", directories)?;
        let stop = self.by_mode(|labels, series, out| {
            let each = series.sweeps.keys();
            out.extend(each.map(|reason| {
                let last = u64::from(series.last.stop == *reason);
                (with(&labels, "stop_reason", reason), gauge(last))
            }));
        });
        self.family("sweep_last_stop", "1 for the reason for which the last sweep ended, else 0", stop)
    }

    fn backlog(&mut self) -> fmt::Result {
        let of = self.by_mode(|labels, series, out| out.push((labels, gauge(series.last.backlog.directories))));
        self.family("backlog_directories", "Directories that could go when the last sweep began", of)?;
        let of = self.by_mode(|labels, series, out| out.push((labels, gauge(series.last.backlog.bytes))));
        self.family("backlog_bytes", "Bytes that their removal would free", of)?;
        let of = self.by_mode(|labels, series, out| out.push((labels, gauge(series.last.backlog.entries))));
        self.family("backlog_entries", "Directory entries in them", of)
    }

    fn roots(&mut self) -> fmt::Result {
        let armed = self.by_root(|series| gauge(u64::from(series.mode == Some(Mode::Armed))));
        self.family("armed", "1 if what may go goes, 0 if it is only reported", armed)?;
        let skipped = self.by_root(|series| counter(series.skipped_ticks));
        self.family("skipped_ticks", "Sweeps left out because the last one was still running", skipped)?;
        let of = self.by_root(|series| Value::Histogram(&series.reread));
        self.family("reread_latency_seconds", "How long it took to read an owner again", of)?;
        let of = self.by_root(|series| Value::Histogram(&series.window));
        self.family("recheck_to_fence_seconds", "How long it took from a re-check to the fence", of)?;
        let of = self.by_root(|series| Value::Histogram(&series.unlink));
        self.family("unlink_latency_seconds", "How long it took to unlink one entry", of)
    }

    /// A sweep that runs is exported from its beginning, the first of its root included: that one can hang, too.
    fn running(&mut self, running: &[Running]) -> fmt::Result {
        let idle = self.swept.iter().map(|(root, _)| (*root, (Duration::ZERO, Duration::ZERO)));
        let mut roots: BTreeMap<&str, (Duration, Duration)> = idle.collect();
        roots.extend(running.iter().map(|sweep| (sweep.root.as_str(), (sweep.for_, sweep.since_progress))));
        let of = |time: fn(&(Duration, Duration)) -> Duration| {
            roots.iter().map(|(root, times)| (vec![("root", *root)], Value::Gauge(time(times).as_secs_f64()))).collect()
        };
        self.family("sweep_running_seconds", "For how long a sweep has been running; 0 if none is", of(|t| t.0))?;
        let help = "How long ago the running sweep made progress; 0 if none is running";
        self.family("sweep_since_progress_seconds", help, of(|t| t.1))
    }

    fn by_mode(
        &self,
        of: impl Fn(Labels<'p>, &'p ModeSeries, &mut Vec<(Labels<'p>, Value<'p>)>),
    ) -> Vec<(Labels<'p>, Value<'p>)> {
        let mut out = Vec::new();
        for (root, series) in &self.swept {
            for (mode, series) in &series.modes {
                of(vec![("root", *root), ("mode", mode.name())], series, &mut out);
            }
        }
        out
    }

    fn by_root(&self, of: impl Fn(&'p RootSeries) -> Value<'p>) -> Vec<(Labels<'p>, Value<'p>)> {
        self.swept.iter().map(|(root, series)| (vec![("root", *root)], of(series))).collect()
    }

    /// One family; nothing at all is written of one without series.
    fn family(&mut self, name: &str, help: &str, series: Vec<(Labels<'_>, Value<'_>)>) -> fmt::Result {
        let Some((_, first)) = series.first() else { return Ok(()) };
        let kind = first.kind();
        let help = format!("{help}.");
        let mut family = self.encoder.encode_descriptor(name, &help, None, kind)?;
        for (labels, value) in &series {
            let encoder = family.encode_family(labels)?;
            match value {
                Value::Counter(n) => ConstCounter::new(*n).encode(encoder)?,
                Value::Gauge(x) => ConstGauge::new(*x).encode(encoder)?,
                Value::Histogram(histogram) => histogram.encode(encoder)?,
            }
        }
        Ok(())
    }
}

/// The value of one series.
enum Value<'v> {
    Counter(u64),
    Gauge(f64),
    Histogram(&'v Histogram),
}

impl Value<'_> {
    fn kind(&self) -> MetricType {
        match self {
            Self::Counter(_) => MetricType::Counter,
            Self::Gauge(_) => MetricType::Gauge,
            Self::Histogram(_) => MetricType::Histogram,
        }
    }
}

fn counter<'v>(n: u64) -> Value<'v> {
    Value::Counter(n)
}

/// Gauges are floating-point numbers to whoever reads them; whole ones are exact to 2^53.
fn gauge<'v>(n: u64) -> Value<'v> {
    Value::Gauge(n as f64)
}

fn seconds(at: Timestamp) -> f64 {
    at.seconds() as f64 + f64::from(at.subsecond_nanoseconds()) / 1e9
}

fn with<'l>(labels: &[(&'l str, &'l str)], name: &'static str, value: &'l str) -> Labels<'l> {
    let mut labels = labels.to_vec();
    labels.push((name, value));
    labels
}
