//! `derelict serve` from outside: its endpoints while it sweeps, its numbers afterwards, and how it ends.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use derelict_testkit::postgres::{Database, Server};
use derelict_testkit::reaping::{Reaping, SOMEBODY_WAITS, gate, id};
use derelict_testkit::run::Running;

use crate::reap_support::{ARMED, GATED, PRESET, with};

/// How long an answer is waited for; it comes within seconds on an idle machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running daemon.
struct Daemon {
    running: Running,
    address: String,
}

impl Daemon {
    fn start(world: &Reaping, database: &Database) -> Self {
        let mut running = with(world, database, &["serve"]).start();
        let line = running.await_stderr("listening");
        let address = line.split("address=").nth(1).expect("because it says where").trim().to_owned();
        Self { running, address }
    }

    /// The status and the body of an answer.
    fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).expect("because it listens");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: test\r\n\r\n").expect("because it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("because it answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("because it is HTTP");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.expect("because it is HTTP"), body.to_owned())
    }

    /// Asks until the answer is as wanted, and gives it back.
    #[track_caller]
    fn await_answer(&self, path: &str, wanted: impl Fn(&(u16, String)) -> bool) -> (u16, String) {
        let begun = Instant::now();
        loop {
            let answer = self.get(path);
            if wanted(&answer) {
                return answer;
            }
            assert!(begun.elapsed() < PATIENCE, "{path} says {answer:?}");
        }
    }

    /// The numbers after the sweep in hand, or the one to come.
    #[track_caller]
    fn numbers(&self) -> String {
        self.await_answer("/metrics", |(_, body)| body.contains("derelict_sweeps_total")).1
    }
}

fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    let line = line.unwrap_or_else(|| panic!("{series} is not in\n{text}"));
    line.parse().expect("because it is a number")
}

#[test]
fn the_endpoints_answer_while_a_sweep_runs_and_every_child_is_there_when_it_has_ended() {
    let (world, database) = (Reaping::new(), Server::shared().database());
    world.tree(&database);
    let gate = gate(&database, &id(3), 2);
    world.configure(GATED);
    let daemon = Daemon::start(&world, &database);
    database.await_true(SOMEBODY_WAITS);
    assert_eq!(daemon.get("/healthz"), (200, "ok\n".into()));
    assert_eq!(daemon.get("/readyz"), (200, "ready\n".into()));
    let during = daemon.get("/metrics").1;
    assert!(!during.contains("derelict_sweeps_total"), "{during}");
    gate.release();

    let text = daemon.numbers();
    let outcomes = [
        ("removed", 12.0),
        ("referenced", 4.0),
        ("retained_fresh", 2.0),
        ("retained_nested_checkout", 1.0),
        ("skipped_layout", 1.0),
        ("retained_resurrected", 0.0),
        ("retained_leased", 0.0),
        ("retained_in_use", 0.0),
        ("undetermined", 0.0),
        ("disputed", 0.0),
        ("unsaved", 0.0),
        ("beyond_limit", 0.0),
        ("quarantined", 0.0),
        ("vanished", 0.0),
        ("refused", 0.0),
        ("busy", 0.0),
        ("not_reached", 0.0),
    ];
    for (outcome, count) in outcomes {
        let series = format!("derelict_directories_total{{root=\"ws\",mode=\"armed\",outcome=\"{outcome}\"}}");
        assert_eq!(value(&text, &series), count, "{outcome}");
    }
    let reasons =
        ["finished", "limit", "source_lost", "breaker", "root_absent", "journal_lost", "cancelled", "deadline"];
    for reason in reasons {
        let series = format!("derelict_sweeps_total{{root=\"ws\",mode=\"armed\",stop_reason=\"{reason}\"}}");
        assert_eq!(value(&text, &series), if reason == "finished" { 1.0 } else { 0.0 }, "{reason}");
    }
    assert_eq!(value(&text, "derelict_armed{root=\"ws\"}"), 1.0);
    assert_eq!(value(&text, "derelict_reread_latency_seconds_count{root=\"ws\"}"), 12.0);
    assert!(!text.contains("mode=\"report\""), "{text}");

    daemon.running.terminate();
    daemon.running.finish().expect_code(0).expect_stderr("sweep ended");
    let history = with(&world, &database, &["history", "--json"]).finish().json();
    assert_eq!(history["sweeps"].as_array().map(Vec::len), Some(1), "{history:#}");
    assert_eq!(history["sweeps"][0]["tally"]["removed"], 12);
    assert_eq!(world.names(), (12..20).map(id).collect::<Vec<_>>());
}

#[test]
fn roots_that_only_report_and_roots_that_are_armed_never_mix() {
    let (world, database) = (Reaping::new(), Server::shared().database());
    world.tree(&database);
    let dry = world.top().join("dry");
    derelict_testkit::scratch::write(dry.join(id(0)).join("home/f"), "x");
    derelict_testkit::scratch::mkdir(dry.join(id(0)).join("session"));
    derelict_testkit::reaping::age(&dry.join(id(0)), 60);
    let other = format!("[roots.dry]\npath = {dry:?}\nowner = \"none\"\nminimum_age = \"30d\"\n");
    world.configure(&format!("{ARMED}{other}layout.directories = [\"home\", \"session\"]\n"));
    let daemon = Daemon::start(&world, &database);
    let both = |answer: &(u16, String)| {
        ["dry", "ws"].iter().all(|root| answer.1.contains(&format!("derelict_sweeps_total{{root=\"{root}\"")))
    };
    let text = daemon.await_answer("/metrics", both).1;
    assert_eq!(value(&text, "derelict_armed{root=\"dry\"}"), 0.0);
    assert_eq!(value(&text, "derelict_armed{root=\"ws\"}"), 1.0);
    let could = "derelict_directories_total{root=\"dry\",mode=\"report\",outcome=\"removable\"}";
    assert_eq!(value(&text, could), 1.0);
    assert_eq!(value(&text, "derelict_backlog_directories{root=\"dry\",mode=\"report\"}"), 1.0);
    for mixed in ["root=\"dry\",mode=\"armed\"", "root=\"ws\",mode=\"report\""] {
        assert!(!text.contains(mixed), "{mixed} in\n{text}");
    }
    daemon.running.terminate();
    daemon.running.finish().expect_code(0);
    assert!(derelict_testkit::scratch::exists(dry.join(id(0)).join("home/f")));
}

#[test]
fn a_daemon_that_is_asked_to_stop_in_a_sweep_is_not_ready_finishes_the_removal_in_hand_and_ends() {
    let (world, database) = (Reaping::new(), Server::shared().database());
    world.tree(&database);
    let gate = gate(&database, &id(2), 3);
    world.configure(GATED);
    let daemon = Daemon::start(&world, &database);
    database.await_true(SOMEBODY_WAITS);
    daemon.running.terminate();
    assert_eq!(daemon.await_answer("/readyz", |(status, _)| *status == 503).1, "shutting down\n");
    assert_eq!(daemon.get("/healthz").0, 200);
    gate.release();
    let finished = daemon.running.finish();
    finished.expect_code(0).expect_stderr("stop_reason=\"cancelled\"");
    assert_eq!(world.names(), (3..20).map(id).collect::<Vec<_>>(), "{finished}");
}

#[test]
fn a_second_daemon_stands_by_and_sweeps_nothing() {
    let (world, database) = (Reaping::new(), Server::shared().database());
    world.tree(&database);
    let gate = gate(&database, &id(0), 1);
    world.configure(GATED);
    let first = Daemon::start(&world, &database);
    database.await_true(SOMEBODY_WAITS);
    let mut second = Daemon::start(&world, &database);
    second.running.await_stderr("standing by: another sweeper, which the owner source knows sweeps this root");
    assert_eq!(second.get("/readyz").0, 200);
    second.running.terminate();
    let finished = second.running.finish();
    finished.expect_code(0);
    assert!(!finished.stderr.contains("sweep began"), "{finished}");
    gate.release();
    assert_eq!(value(&first.numbers(), "derelict_removed_entries_total{root=\"ws\",mode=\"armed\"}"), 96.0);
    first.running.terminate();
    first.running.finish().expect_code(0);
}

#[test]
fn a_sweep_that_makes_no_progress_is_seen_from_outside() {
    let (world, database) = (Reaping::new(), Server::shared().database());
    world.tree(&database);
    let gate = gate(&database, &id(0), 2);
    let head = format!("state = {:?}\n[roots.ws]\npath = {:?}\n", world.state(), world.root());
    world.configure_whole(&format!("{head}{GATED}[serve]\nstalled_after = \"10s\"\nlisten = \"127.0.0.1:0\"\n"));
    let daemon = Daemon::start(&world, &database);
    database.await_true(SOMEBODY_WAITS);
    let told = daemon.await_answer("/healthz", |(status, _)| *status == 503).1;
    assert!(told.contains("ws"), "{told}");
    gate.release();
    daemon.await_answer("/healthz", |(status, _)| *status == 200);
    daemon.running.terminate();
    daemon.running.finish().expect_code(0);
}

#[test]
fn a_daemon_whose_source_is_lost_goes_on_and_shows_it() {
    let (world, mut server) = (Reaping::new(), Server::start());
    let database = server.database();
    world.tree(&database);
    server.kill();
    world.configure(PRESET);
    let daemon = Daemon::start(&world, &database);
    let lost = "derelict_sweeps_total{root=\"ws\",mode=\"report\",stop_reason=\"source_lost\"}";
    assert_eq!(value(&daemon.numbers(), lost), 1.0);
    assert_eq!(daemon.get("/healthz").0, 200);
    daemon.running.terminate();
    daemon.running.finish().expect_code(0);
}
