//! Holds the alert rules against the program: they load, they fire on what they should, they speak of metrics and
//! labels that exist, and each has a page that says what to do.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use derelict_core::outcome::{FateName, StopReason};

use crate::reaper::record::Mode;
use crate::telemetry::metrics::Metrics;
use crate::telemetry::samples::{still, sweep};

fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(project(path)).unwrap_or_else(|error| panic!("cannot read {path}: {error}"))
}

fn rules() -> String {
    let text = read("deploy/prometheus/derelict.rules.yml");
    text.lines().filter(|line| !line.trim_start().starts_with('#')).collect::<Vec<_>>().join("\n")
}

fn alerts() -> BTreeSet<String> {
    let rules = rules();
    rules.lines().filter_map(|line| Some(line.trim().strip_prefix("- alert: ")?.to_owned())).collect()
}

/// Everything that starts like the name of a metric of ours.
fn metrics_named_in(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("derelict_")).map(str::to_owned).collect()
}

/// What the program exports once a root was swept in both modes.
fn text() -> String {
    let metrics = Metrics::new(still());
    for mode in [Mode::Report, Mode::Armed] {
        metrics.record(&sweep("r", mode, "finished", &[]));
    }
    metrics.encode()
}

/// The names of the series.
fn series() -> BTreeSet<String> {
    let text = text();
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples.filter_map(|line| Some(line.split_once('{')?.0.to_owned())).collect()
}

/// Name and type of each family.
fn families() -> BTreeSet<(String, String)> {
    let text = text();
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    types.map(|(name, kind)| (name.to_owned(), kind.to_owned())).collect()
}

/// The values of a label in the selectors of the rules, alternatives apart.
fn values_of(label: &str) -> BTreeSet<String> {
    let rules = rules();
    let mut values = BTreeSet::new();
    for operator in ["=\"", "=~\""] {
        for rest in rules.split(&format!("{label}{operator}")).skip(1) {
            let value = rest.split('"').next().expect("because a split has a first part");
            values.extend(value.split('|').map(str::to_owned));
        }
    }
    values
}

#[test]
fn the_rules_load_and_fire_on_what_they_should() {
    derelict_testkit::promtool::check_rules(&project("deploy/prometheus/derelict.rules.yml"));
    derelict_testkit::promtool::test_rules(&project("deploy/prometheus/derelict.rules.test.yml"));
}

#[test]
fn everything_that_has_to_be_noticed_has_an_alert_with_a_test() {
    let expected = [
        "DerelictArmedButNotSweeping",
        "DerelictBacklogGrowing",
        "DerelictBreakerTripped",
        "DerelictResurrections",
        "DerelictSweepFaulting",
        "DerelictSweepStalled",
        "DerelictSweepsStopped",
        "DerelictUndeterminedGrowing",
    ];
    assert_eq!(alerts().iter().map(String::as_str).collect::<Vec<_>>(), expected);
    let tests = read("deploy/prometheus/derelict.rules.test.yml");
    for alert in expected {
        // A line break and an indented list are an alert that fires; `[]` is one that does not.
        let asked: Vec<&str> = tests.split(&format!("alertname: {alert}\n")).skip(1).collect();
        assert!(asked.iter().any(|rest| rest.trim_start().starts_with("exp_alerts: []")), "{alert} never lets go");
        assert!(asked.iter().any(|rest| rest.trim_start().starts_with("exp_alerts:\n")), "{alert} never fires");
    }
}

#[test]
fn the_rules_speak_of_metrics_and_labels_that_exist() {
    let exported = series();
    let used = metrics_named_in(&rules());
    assert!(used.len() > 5, "{used:?}");
    let unknown: Vec<&String> = used.difference(&exported).collect();
    assert_eq!(unknown, [""; 0], "of {exported:?}");
    let outcomes: BTreeSet<String> = FateName::ALL.map(|fate| fate.as_str().to_owned()).into();
    let reasons: BTreeSet<String> = StopReason::NAMES.map(str::to_owned).into();
    let modes: BTreeSet<String> = [Mode::Report, Mode::Armed].map(|mode| mode.name().to_owned()).into();
    for (label, known) in [("outcome", outcomes), ("stop_reason", reasons), ("mode", modes)] {
        let used = values_of(label);
        assert!(!used.is_empty() && used.is_subset(&known), "{label}: {used:?}");
    }
}

#[test]
fn each_alert_has_a_page_that_says_what_to_do_and_no_page_is_left_over() {
    let mut exported = series();
    exported.extend(families().into_iter().map(|(name, _)| name));
    for alert in alerts() {
        let page = format!("docs/runbooks/{alert}.md");
        assert!(rules().contains(&format!("runbook: {page}\n")) || rules().ends_with(&page), "{alert} names no page");
        let text = read(&page);
        assert!(text.starts_with(&format!("# {alert}\n")), "{page}");
        for heading in ["## What it means", "## What to look at", "## What to do"] {
            assert_eq!(text.matches(heading).count(), 1, "{heading} in {page}");
        }
        let unknown: Vec<String> = metrics_named_in(&text).difference(&exported).cloned().collect();
        assert_eq!(unknown, [""; 0], "in {page}");
    }
    let pages = std::fs::read_dir(project("docs/runbooks")).unwrap().map(|entry| entry.unwrap().file_name());
    let pages: BTreeSet<String> = pages.map(|name| name.into_string().unwrap().replace(".md", "")).collect();
    assert_eq!(pages, alerts());
}

#[test]
fn every_metric_is_documented_with_its_type_and_labels_and_no_other() {
    let page = read("docs/metrics.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `derelict_"));
    let cells = rows.map(|row| row.split('|').map(|cell| cell.trim().replace('`', "")).collect::<Vec<String>>());
    let documented: Vec<(String, String, String)> =
        cells.map(|cells| (format!("derelict_{}", cells[0]), cells[1].clone(), cells[2].replace(", ", ","))).collect();
    let text = text();
    let labels = |name: &str| {
        let mut samples = text.lines().filter(|line| !line.starts_with('#') && line.starts_with(name));
        let sample = samples.next().expect("because no family is empty");
        let labels =
            sample.split_once('{').and_then(|(_, rest)| rest.split_once('}')).expect("because all have labels").0;
        let names: Vec<&str> = labels.split(',').filter_map(|label| Some(label.split_once('=')?.0)).collect();
        names.into_iter().filter(|name| *name != "le").collect::<Vec<_>>().join(",")
    };
    let exported: Vec<_> = families().into_iter().map(|(name, kind)| (name.clone(), kind, labels(&name))).collect();
    let mut sorted = documented.clone();
    sorted.sort();
    assert_eq!(sorted, exported);
}
