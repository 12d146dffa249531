//! Metrics in a file for node_exporter, by a program that runs once per sweep. Such a program knows of one sweep only,
//! so its counters and histograms are added to those that the file holds already; otherwise they would never rise.
//!
//! Two programs must not add to the same file at the same time: each timer has a file of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use derelict_reclaim::state;

use crate::text;

/// node_exporter reads it as another user.
const MODE: u32 = 0o644;

/// A file that is longer was not written by us: a thousand roots take ten megabytes.
const MOST_BYTES: u64 = 64 << 20;

/// What was in the file before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Before {
    /// Nothing.
    Nothing,
    /// Metrics of ours; the counters went on from them.
    Continued,
    /// Something that is none of ours, and why; the counters started anew, as they do after a restart.
    StartedAnew(String),
}

/// Adds `new`, a text as the metrics write it, to what the file holds.
///
/// # Errors
/// When the file cannot be replaced; it is then as it was.
pub(super) fn add(path: &Path, new: &str) -> anyhow::Result<Before> {
    let new = Text::parse(new).expect("because the metrics write what they can read");
    let (merged, before) = match read(path) {
        Ok(None) => (new, Before::Nothing),
        Ok(Some(old)) => match Text::parse(&old) {
            Ok(old) => (new.after(old), Before::Continued),
            Err(why) => (new, Before::StartedAnew(why)),
        },
        Err(error) => (new, Before::StartedAnew(error.to_string())),
    };
    create(path).with_context(|| format!("cannot create {}", text::path(path)))?;
    state::write_atomically(path, merged.to_string().as_bytes())?;
    Ok(before)
}

fn read(path: &Path) -> io::Result<Option<String>> {
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => return Err(io::Error::other("it is no regular file")),
        Ok(found) if found.len() == 0 => return Ok(None),
        Ok(found) if found.len() > MOST_BYTES => return Err(io::Error::other("it is too long to be ours")),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    std::fs::read_to_string(path).map(Some)
}

/// Makes an empty file that others may read, where there is none: whoever replaces it keeps its mode.
fn create(path: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(MODE).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Whether values of two sweeps add up, or the later one stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Adds,
    Stands,
}

/// A text of metrics: families in their order.
#[derive(Debug, PartialEq)]
struct Text(Vec<Family>);

#[derive(Debug, PartialEq)]
struct Family {
    name: String,
    /// The lines before the samples, as they are.
    head: Vec<String>,
    kind: Kind,
    /// Series with its labels, and its value, in their order.
    samples: Vec<(String, String)>,
}

impl Text {
    /// Reads what the metrics write; `Err` says what was found instead.
    fn parse(text: &str) -> Result<Self, String> {
        let mut families: Vec<Family> = Vec::new();
        let mut head = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let strange = || format!("line {} is no metric of ours", index + 1);
            if line.starts_with("# HELP ") {
                head.push(line.to_owned());
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').ok_or_else(strange)?;
                let kind = match kind {
                    "counter" | "histogram" => Kind::Adds,
                    "gauge" => Kind::Stands,
                    _ => return Err(strange()),
                };
                head.push(line.to_owned());
                families.push(Family { name: name.into(), head: std::mem::take(&mut head), kind, samples: vec![] });
            } else {
                let family = families.last_mut().filter(|_| head.is_empty()).ok_or_else(strange)?;
                let (series, value) = line.rsplit_once(' ').ok_or_else(strange)?;
                if !series.starts_with(&family.name) || root_of(series).is_none() || value.parse::<f64>().is_err() {
                    return Err(strange());
                }
                family.samples.push((series.into(), value.into()));
            }
        }
        Ok(Self(families))
    }

    /// This text, with what an older one says besides. Of a root that is in this one no gauge is kept: it would speak
    /// of a mode in which the root is not swept any more.
    fn after(self, old: Self) -> Self {
        if self.0.is_empty() {
            return old;
        }
        let mut old: BTreeMap<String, Family> = old.0.into_iter().map(|family| (family.name.clone(), family)).collect();
        let roots: BTreeSet<String> = self.roots().map(str::to_owned).collect();
        let families = self.0.into_iter().map(|family| match old.remove(&family.name) {
            Some(before) if before.kind == family.kind && before.bounds() == family.bounds() => {
                family.after(before, &roots)
            }
            Some(_) | None => family,
        });
        Self(families.collect())
    }

    fn roots(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|family| family.samples.iter().filter_map(|(series, _)| root_of(series)))
    }
}

impl Family {
    fn after(mut self, before: Self, roots: &BTreeSet<String>) -> Self {
        let mut old: BTreeMap<String, String> = before.samples.iter().cloned().collect();
        for (series, value) in &mut self.samples {
            if let (Kind::Adds, Some(then)) = (self.kind, old.remove(series)) {
                *value = sum(&then, value);
            }
        }
        let known: BTreeSet<String> = self.samples.iter().map(|(series, _)| series.clone()).collect();
        let others = before.samples.into_iter().filter(|(series, _)| !known.contains(series));
        self.samples.extend(others.filter(|(series, _)| match self.kind {
            Kind::Adds => true,
            Kind::Stands => root_of(series).is_some_and(|root| !roots.contains(root)),
        }));
        self
    }

    /// The bounds of a histogram's buckets. Histograms with other bounds, of another version, do not add up.
    fn bounds(&self) -> BTreeSet<&str> {
        let after = |series: &'_ str| series.find("le=\"").map(|at| at + "le=\"".len());
        let bounds = self.samples.iter().filter(|(series, _)| series.contains("_bucket{"));
        bounds.filter_map(|(series, _)| series[after(series)?..].split('"').next()).collect()
    }
}

impl std::fmt::Display for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for family in &self.0 {
            family.head.iter().try_for_each(|line| writeln!(f, "{line}"))?;
            family.samples.iter().try_for_each(|(series, value)| writeln!(f, "{series} {value}"))?;
        }
        Ok(())
    }
}

/// The value of the label `root`, as it is escaped in the text.
fn root_of(series: &str) -> Option<&str> {
    let at = series.find("{root=\"").or_else(|| series.find(",root=\""))? + "{root=\"".len();
    let mut escaped = Escaped::No;
    for (index, c) in series[at..].char_indices() {
        escaped = match (c, escaped) {
            ('"', Escaped::No) => return Some(&series[at..at + index]),
            ('\\', Escaped::No) => Escaped::Yes,
            (_, Escaped::No | Escaped::Yes) => Escaped::No,
        };
    }
    None
}

#[derive(Clone, Copy)]
enum Escaped {
    Yes,
    No,
}

/// Whole numbers stay exact.
fn sum(then: &str, now: &str) -> String {
    let mut out = String::new();
    let written = match (then.parse::<u64>(), now.parse::<u64>()) {
        (Ok(then), Ok(now)) => write!(out, "{}", then.saturating_add(now)),
        _ => {
            let number = |text: &str| text.parse::<f64>().expect("because only numbers are read");
            write!(out, "{}", number(then) + number(now))
        }
    };
    written.expect("because writing to a string cannot fail");
    out
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use derelict_core::outcome::FateName;

    use super::*;
    use crate::reaper::record::Mode;
    use crate::telemetry::metrics::Metrics;
    use crate::telemetry::samples::{still, sweep};

    /// A program that runs once, sweeps one root, and writes its file.
    fn run(path: &Path, root: &str, mode: Mode, stop: &str) -> Before {
        let metrics = Metrics::new(still());
        metrics.record(&sweep(root, mode, stop, &[FateName::Removed]));
        metrics.write_textfile(path).unwrap()
    }

    fn line(path: &Path, series: &str) -> Option<String> {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().find_map(|line| Some(line.strip_prefix(series)?.strip_prefix(' ')?.to_owned()))
    }

    #[test]
    fn counters_and_histograms_go_on_from_run_to_run_and_gauges_are_of_the_last() {
        let world = tempfile::tempdir().unwrap();
        let path = world.path().join("derelict.prom");
        assert_eq!(run(&path, "r", Mode::Armed, "finished"), Before::Nothing);
        assert_eq!(run(&path, "r", Mode::Armed, "source_lost"), Before::Continued);
        assert_eq!(run(&path, "r", Mode::Armed, "source_lost"), Before::Continued);
        let sweeps = |reason: &str| {
            line(&path, &format!("derelict_sweeps_total{{root=\"r\",mode=\"armed\",stop_reason=\"{reason}\"}}"))
        };
        assert_eq!((sweeps("finished"), sweeps("source_lost")), (Some("1".into()), Some("2".into())));
        let armed = "{root=\"r\",mode=\"armed\"}";
        assert_eq!(line(&path, &format!("derelict_sweep_duration_seconds_sum{armed}")).unwrap(), "271.5");
        assert_eq!(line(&path, &format!("derelict_sweep_duration_seconds_count{armed}")).unwrap(), "3");
        assert_eq!(line(&path, &format!("derelict_removed_bytes_total{armed}")).unwrap(), "12288");
        assert_eq!(line(&path, &format!("derelict_backlog_directories{armed}")).unwrap().parse(), Ok(7.0));
        derelict_testkit::promtool::check_metrics(&std::fs::read_to_string(&path).unwrap());
    }

    #[test]
    fn another_root_keeps_what_was_said_of_it() {
        let world = tempfile::tempdir().unwrap();
        let path = world.path().join("derelict.prom");
        run(&path, "a \"b\" c", Mode::Report, "finished");
        run(&path, "r", Mode::Armed, "finished");
        let backlog = "derelict_backlog_directories{root=\"a \\\"b\\\" c\",mode=\"report\"}";
        assert_eq!(line(&path, backlog).unwrap().parse(), Ok(7.0));
        let sweeps = "derelict_sweeps_total{root=\"a \\\"b\\\" c\",mode=\"report\",stop_reason=\"finished\"}";
        assert_eq!(line(&path, sweeps).unwrap(), "1");
        let nobody = Metrics::new(still());
        assert_eq!(nobody.write_textfile(&path).unwrap(), Before::Continued);
        assert_eq!(line(&path, sweeps).unwrap(), "1");
    }

    #[test]
    fn a_root_that_was_armed_leaves_no_gauge_of_its_time_as_report_only() {
        let world = tempfile::tempdir().unwrap();
        let path = world.path().join("derelict.prom");
        run(&path, "r", Mode::Report, "finished");
        run(&path, "r", Mode::Armed, "finished");
        assert_eq!(line(&path, "derelict_backlog_directories{root=\"r\",mode=\"report\"}"), None);
        let sweeps = "derelict_sweeps_total{root=\"r\",mode=\"report\",stop_reason=\"finished\"}";
        assert_eq!(line(&path, sweeps).unwrap(), "1");
    }

    #[test]
    fn the_file_is_readable_for_others_and_replaced_as_a_whole() {
        let world = tempfile::tempdir().unwrap();
        let path = world.path().join("derelict.prom");
        run(&path, "r", Mode::Report, "finished");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o444;
        assert_eq!(mode, 0o444);
        let names: Vec<_> = std::fs::read_dir(world.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["derelict.prom"]);
    }

    #[test]
    fn what_is_not_ours_is_replaced_and_said() {
        let world = tempfile::tempdir().unwrap();
        let path = world.path().join("derelict.prom");
        std::fs::write(&path, "# TYPE x counter\nx{root=\"r\"} many\n").unwrap();
        let why = "line 2 is no metric of ours".to_owned();
        assert_eq!(run(&path, "r", Mode::Report, "finished"), Before::StartedAnew(why));
        let sweeps = "derelict_sweeps_total{root=\"r\",mode=\"report\",stop_reason=\"finished\"}";
        assert_eq!(line(&path, sweeps).unwrap(), "1");
    }

    #[test]
    fn histograms_with_other_bounds_start_anew() {
        let family = |bound: &str, n: u8| {
            format!("# TYPE h histogram\nh_count{{root=\"r\"}} {n}\nh_bucket{{le=\"{bound}\",root=\"r\"}} {n}\n")
        };
        let merged = |old: &str, new: &str| Text::parse(new).unwrap().after(Text::parse(old).unwrap()).to_string();
        assert_eq!(merged(&family("1.0", 1), &family("1.0", 2)), family("1.0", 3));
        assert_eq!(merged(&family("2.0", 1), &family("1.0", 2)), family("1.0", 2));
    }

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let metrics = Metrics::new(still());
        let error = metrics.write_textfile(Path::new("/nonexistent/derelict.prom")).unwrap_err();
        assert_eq!(
            format!("{error:#}"),
            "cannot create /nonexistent/derelict.prom: No such file or directory (os error 2)"
        );
    }
}
