//! The metrics as the program feeds them and as they are fetched. What is counted is in `series`, the names are in `page`.
//!
//! Of a root that was never swept nothing is exported, so that the presence of a series says that there was a sweep;
//! from its first sweep on every series of that root and mode is there, at zero where nothing happened. Labels are
//! `root`, `mode`, `outcome` and `stop_reason`, each a small closed set; what is known of one directory is no label.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::{prometheus_text, text};
use prometheus_client::registry::Registry;

use crate::reaper::record::{Mode, SweepRecord};
use crate::telemetry::heartbeat::Heartbeat;
use crate::telemetry::page::{Exporter, Roots};
use crate::telemetry::series::RootSeries;
use crate::telemetry::textfile::{self, Before};

/// What every name starts with.
const PREFIX: &str = "derelict";

/// The text of a scrape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exposition {
    /// The Prometheus text format, version 0.0.4, which node_exporter reads from files as well.
    Prometheus,
    /// OpenMetrics, version 1.0.0.
    OpenMetrics,
}

impl Exposition {
    /// What a scraper that sent this `Accept` header gets.
    pub(crate) fn accepted(accept: Option<&str>) -> Self {
        match accept {
            Some(accept) if accept.contains("application/openmetrics-text") => Self::OpenMetrics,
            Some(_) | None => Self::Prometheus,
        }
    }

    /// Its media type.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => prometheus_text::CONTENT_TYPE,
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The metrics of the program. Cheap to clone; all clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    roots: Roots,
    registry: Arc<Registry>,
}

impl Metrics {
    /// Nothing is known yet. What runs is looked up in the heartbeat at every scrape.
    pub(crate) fn new(heartbeat: Heartbeat) -> Self {
        let roots = Roots::none();
        let mut registry = Registry::with_prefix(PREFIX);
        registry.register_collector(Box::new(Exporter::new(roots.clone(), heartbeat)));
        Self { roots, registry: Arc::new(registry) }
    }

    /// Whether a root is armed; exported from its first sweep on.
    pub(crate) fn armed(&self, root: &str, mode: Mode) {
        self.with(root, |series| series.mode = Some(mode));
    }

    /// A sweep was due while the last one was still running.
    pub(crate) fn skipped_tick(&self, root: &str) {
        self.with(root, |series| series.skipped_ticks += 1);
    }

    /// A sweep has ended, however it did.
    pub(crate) fn record(&self, sweep: &SweepRecord) {
        self.with(&sweep.root, |series| series.fold(sweep));
    }

    /// An owner was read again, which took so long.
    pub(crate) fn reread(&self, root: &str, took: Duration) {
        self.with(root, |series| series.reread.observe(took.as_secs_f64()));
    }

    /// A directory was fenced, so long after its re-check had begun.
    pub(crate) fn recheck_to_fence(&self, root: &str, took: Duration) {
        self.with(root, |series| series.window.observe(took.as_secs_f64()));
    }

    /// An entry was unlinked, which took so long.
    pub(crate) fn unlink(&self, root: &str, took: Duration) {
        self.with(root, |series| series.unlink.observe(took.as_secs_f64()));
    }

    /// Everything in the Prometheus text format.
    pub(crate) fn encode(&self) -> String {
        self.encode_as(Exposition::Prometheus)
    }

    /// Everything, as a scraper asked for it.
    pub(crate) fn encode_as(&self, exposition: Exposition) -> String {
        let mut out = String::new();
        let encoded = match exposition {
            Exposition::Prometheus => prometheus_text::encode(&mut out, &self.registry),
            Exposition::OpenMetrics => text::encode(&mut out, &self.registry),
        };
        encoded.expect("because writing to a string cannot fail");
        out
    }

    /// Adds everything to a file for node_exporter's textfile collector, as one atomic replacement. The counters go on
    /// from those in the file, since a program that runs once per sweep would otherwise always say one.
    ///
    /// # Errors
    /// When the file cannot be replaced; it is then as it was.
    pub(crate) fn write_textfile(&self, path: &Path) -> anyhow::Result<Before> {
        textfile::add(path, &self.encode())
    }

    fn with<T>(&self, root: &str, change: impl FnOnce(&mut RootSeries) -> T) -> T {
        let mut roots = self.roots.lock();
        if !roots.contains_key(root) {
            roots.insert(root.to_owned(), RootSeries::new());
        }
        change(roots.get_mut(root).expect("because it was there or was just put there"))
    }
}

#[cfg(test)]
mod tests {
    use derelict_core::outcome::{FateName, StopReason};

    use super::*;
    use crate::telemetry::samples::{Clock, still, sweep};

    fn value(text: &str, series: &str) -> f64 {
        let found: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(series)?.strip_prefix(' ')).collect();
        assert_eq!(found.len(), 1, "{series} in\n{text}");
        found[0].parse().unwrap()
    }

    #[test]
    fn of_a_root_that_was_never_swept_nothing_is_exported() {
        let metrics = Metrics::new(still());
        metrics.armed("r", Mode::Armed);
        metrics.skipped_tick("r");
        metrics.reread("r", Duration::from_micros(48));
        metrics.recheck_to_fence("r", Duration::from_millis(1));
        metrics.unlink("r", Duration::from_micros(30));
        assert_eq!(metrics.encode(), "");
        assert_eq!(metrics.encode_as(Exposition::OpenMetrics), "# EOF\n");
        metrics.record(&sweep("other", Mode::Report, "finished", &[]));
        assert!(!metrics.encode().contains("root=\"r\""));
    }

    #[test]
    fn after_a_sweep_every_series_of_its_root_and_mode_is_there_and_none_of_the_other_mode() {
        let metrics = Metrics::new(still());
        metrics.record(&sweep("r", Mode::Report, "finished", &[FateName::Removable]));
        let text = metrics.encode();
        for fate in FateName::ALL {
            let labels = format!("{{root=\"r\",mode=\"report\",outcome=\"{}\"}}", fate.as_str());
            let expected = if fate == FateName::Removable { 1.0 } else { 0.0 };
            assert_eq!(value(&text, &format!("derelict_directories_total{labels}")), expected);
            assert_eq!(value(&text, &format!("derelict_sweep_last_directories{labels}")), expected);
        }
        for reason in StopReason::NAMES {
            let series = format!("derelict_sweeps_total{{root=\"r\",mode=\"report\",stop_reason=\"{reason}\"}}");
            let expected = if reason == "finished" { 1.0 } else { 0.0 };
            assert_eq!(value(&text, &series), expected);
            assert_eq!(value(&text, &series.replace("sweeps_total", "sweep_last_stop")), expected);
        }
        assert!(!text.contains("mode=\"armed\""), "{text}");
        metrics.record(&sweep("r", Mode::Armed, "breaker", &[]));
        let both = metrics.encode();
        let children = |text: &str, mode: &str| text.lines().filter(|line| line.contains(mode)).count();
        assert_eq!(children(&both, "mode=\"armed\""), children(&text, "mode=\"report\""));
        assert_eq!(children(&both, "mode=\"report\""), children(&text, "mode=\"report\""));
    }

    #[test]
    fn a_sweep_is_exported_with_everything_it_did() {
        let metrics = Metrics::new(still());
        metrics.armed("r", Mode::Armed);
        metrics.skipped_tick("r");
        metrics.record(&sweep("r", Mode::Armed, "finished", &[FateName::Removed, FateName::RetainedResurrected]));
        metrics.reread("r", Duration::from_micros(48));
        metrics.recheck_to_fence("r", Duration::from_millis(20));
        metrics.unlink("r", Duration::from_micros(20));
        let text = metrics.encode();
        let armed = "{root=\"r\",mode=\"armed\"}";
        let root = "{root=\"r\"}";
        for (series, expected) in [
            (format!("derelict_removed_bytes_total{armed}"), 4096.0),
            (format!("derelict_removed_entries_total{armed}"), 40.0),
            (format!("derelict_sweep_duration_seconds_sum{armed}"), 90.5),
            (format!("derelict_sweep_last_timestamp_seconds{armed}"), 1_796_093_257.5),
            (format!("derelict_sweep_last_success_timestamp_seconds{armed}"), 1_796_093_257.5),
            (format!("derelict_backlog_directories{armed}"), 7.0),
            (format!("derelict_backlog_entries{armed}"), 700.0),
            (format!("derelict_backlog_bytes{armed}"), 7_516_192_768.0),
            (format!("derelict_armed{root}"), 1.0),
            (format!("derelict_skipped_ticks_total{root}"), 1.0),
            (format!("derelict_reread_latency_seconds_count{root}"), 1.0),
            ("derelict_recheck_to_fence_seconds_bucket{root=\"r\",le=\"0.005\"}".into(), 0.0),
            ("derelict_recheck_to_fence_seconds_bucket{root=\"r\",le=\"0.025\"}".into(), 1.0),
            (format!("derelict_unlink_latency_seconds_sum{root}"), 0.00002),
        ] {
            assert_eq!(value(&text, &series), expected, "{series}");
        }
    }

    #[test]
    fn the_reason_of_the_last_sweep_is_exported_until_the_next() {
        let metrics = Metrics::new(still());
        let last = |reason: &str| {
            let series = format!("derelict_sweep_last_stop{{root=\"r\",mode=\"armed\",stop_reason=\"{reason}\"}}");
            value(&metrics.encode(), &series)
        };
        let success =
            || value(&metrics.encode(), "derelict_sweep_last_success_timestamp_seconds{root=\"r\",mode=\"armed\"}");
        metrics.record(&sweep("r", Mode::Armed, "breaker", &[]));
        assert_eq!((last("breaker"), last("limit"), success()), (1.0, 0.0, 0.0));
        metrics.record(&sweep("r", Mode::Armed, "limit", &[]));
        assert_eq!((last("breaker"), last("limit"), success()), (0.0, 1.0, 1_796_093_257.5));
    }

    #[test]
    fn a_sweep_that_hangs_is_seen_even_if_it_is_the_first_of_its_root() {
        let clock = Clock::new();
        let heartbeat = Heartbeat::new(clock.reader());
        let metrics = Metrics::new(heartbeat.clone());
        let pulse = heartbeat.begin("r");
        clock.pass(Duration::from_secs(5));
        pulse.progress();
        clock.pass(Duration::from_secs(30));
        let text = metrics.encode();
        assert_eq!(value(&text, "derelict_sweep_running_seconds{root=\"r\"}"), 35.0);
        assert_eq!(value(&text, "derelict_sweep_since_progress_seconds{root=\"r\"}"), 30.0);
        metrics.record(&sweep("r", Mode::Report, "finished", &[]));
        drop(pulse);
        let text = metrics.encode();
        assert_eq!(value(&text, "derelict_sweep_running_seconds{root=\"r\"}"), 0.0);
        assert_eq!(value(&text, "derelict_sweep_since_progress_seconds{root=\"r\"}"), 0.0);
    }

    #[test]
    fn no_label_but_the_four_is_ever_exported() {
        let metrics = Metrics::new(still());
        metrics.record(&sweep("a \"quoted\"\nroot", Mode::Armed, "breaker", &FateName::ALL));
        let text = metrics.encode();
        assert!(text.contains(r#"root="a \"quoted\"\nroot""#), "{text}");
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let labels = line.split_once('{').unwrap().1.rsplit_once('}').unwrap().0;
            for label in labels.split("\",") {
                let name = label.split_once('=').unwrap().0;
                assert!(["root", "mode", "outcome", "stop_reason", "le"].contains(&name), "{line}");
            }
        }
    }

    #[test]
    fn promtool_finds_no_fault_with_the_text() {
        let metrics = Metrics::new(still());
        metrics.record(&sweep("r", Mode::Armed, "finished", &FateName::ALL));
        metrics.record(&sweep("r", Mode::Report, "limit", &FateName::ALL));
        derelict_testkit::promtool::check_metrics(&metrics.encode());
    }

    #[test]
    fn a_scraper_gets_the_format_it_asks_for() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2";
        assert_eq!(Exposition::accepted(Some(prometheus)), Exposition::OpenMetrics);
        assert_eq!(Exposition::accepted(Some("text/plain")), Exposition::Prometheus);
        assert_eq!(Exposition::accepted(None), Exposition::Prometheus);
    }
}
