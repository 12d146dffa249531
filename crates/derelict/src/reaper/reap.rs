//! `derelict reap`: one sweep of every configured root, one after the other, and its report.

use serde_json::{Value, json};

use crate::cli::Reap;
use crate::config;
use crate::console::Console;
use crate::exit::{Exit, Failure};
use crate::host::{self, Audience, Host};
use crate::reaper::assign::{Assigned, assign, state};
use crate::reaper::daemon::Desk as _;
use crate::reaper::desk::{Keeper, RootDesk, Telemetry};
use crate::reaper::lead::{Led, lead};
use crate::reaper::record::{Mode, SweepRecord};
use crate::reaper::show::{self, Detail};
use crate::reaper::sweeping::{not_begun, sweep_root};
use crate::signals::Stop;
use crate::telemetry::heartbeat::Heartbeat;
use crate::telemetry::log;
use crate::telemetry::logger::{self, Threshold};
use crate::telemetry::metrics::Metrics;
use crate::text;

/// What came of one root.
enum Came {
    /// A sweep.
    Swept(Box<SweepRecord>),
    /// Somebody else is at it.
    Elsewhere { root: String, leader: String },
}

/// Sweeps every configured root once.
///
/// # Errors
/// A [`Failure`] when the configuration is wrong, or the clock or the signals cannot be used.
pub(crate) fn run(flags: &Reap, host: &Host, console: &mut Console) -> Result<Exit, Failure> {
    let config = config::load(&config::command::sources(flags.config.clone())).map_err(Failure::usage)?;
    let state = state(&config, host)?;
    let chosen = choose(assign(&config, host, &state)?, flags)?;
    logger::start(config.log.format, threshold(config.log)).map_err(Failure::incomplete)?;
    let heartbeat = Heartbeat::new(host::monotonic());
    let stop = Stop::watch().map_err(Failure::incomplete)?;
    stop.ends_within(config.stop_within, move || log::ends_anyway(config.stop_within)).map_err(Failure::incomplete)?;
    let telemetry = Telemetry { metrics: Metrics::new(heartbeat.clone()), heartbeat, stop };
    let keeper = Keeper::new(&state, config.ledger.clone(), config.retention);
    let mut came = Vec::new();
    for assigned in &chosen {
        came.push(one(assigned, &telemetry, &keeper).map_err(Failure::incomplete)?);
    }
    if let Some(file) = &flags.metrics_textfile {
        telemetry.metrics.write_textfile(file).map_err(Failure::incomplete)?;
    }
    let exit = came.iter().map(exit_of).max().unwrap_or(Exit::Done);
    show(flags, &came, exit, console);
    Ok(exit)
}

/// A person at a terminal reads the report, and in the log what needs attention.
fn threshold(log: config::Log) -> Threshold {
    match host::audience() {
        Audience::Person => Threshold::Warn,
        Audience::Nobody => log.threshold,
    }
}

/// The roots that were asked for, with what the command line says of them.
fn choose(all: Vec<Assigned>, flags: &Reap) -> Result<Vec<Assigned>, Failure> {
    if let Some(unknown) = flags.root.iter().find(|name| !all.iter().any(|one| one.assignment.name == **name)) {
        let known: Vec<_> = all.iter().map(|one| one.assignment.name.clone()).collect();
        let known = if known.is_empty() { "none is configured".to_owned() } else { known.join(", ") };
        return Err(Failure::usage(anyhow::anyhow!("there is no root {}; roots: {known}", text::sentence(unknown))));
    }
    if all.is_empty() {
        let why = "no root is configured; `derelict config schema` says what can be written";
        return Err(Failure::usage(anyhow::anyhow!(why)));
    }
    let mut chosen = all;
    chosen.retain(|one| flags.root.is_empty() || flags.root.contains(&one.assignment.name));
    for one in &mut chosen {
        if flags.dry_run {
            one.assignment.mode = Mode::Report;
        }
        one.assignment.acknowledged.extend(flags.acknowledge.iter().cloned());
    }
    Ok(chosen)
}

fn one(assigned: &Assigned, telemetry: &Telemetry, keeper: &Keeper) -> anyhow::Result<Came> {
    let Assigned { assignment, owners } = assigned;
    let desk = RootDesk::new(assignment, telemetry, keeper);
    let led = lead(assignment, owners, None);
    let record = match &led {
        Led::Theirs(leader) => {
            desk.standing_by(leader);
            return Ok(Came::Elsewhere { root: assignment.name.clone(), leader: leader.clone() });
        }
        Led::Stopped(stop) => {
            desk.began();
            not_begun(assignment, stop.clone())?
        }
        Led::Ours(_) => {
            desk.began();
            sweep_root(assignment, owners, &desk)?
        }
    };
    desk.ended(&record);
    Ok(Came::Swept(Box::new(record)))
}

/// The exit code that the record of a sweep asks for.
fn exit_of(came: &Came) -> Exit {
    match came {
        Came::Elsewhere { .. } => Exit::Incomplete,
        Came::Swept(record) => record.exit(),
    }
}

fn show(flags: &Reap, came: &[Came], exit: Exit, console: &mut Console) {
    if flags.json {
        let sweeps: Vec<Value> = came
            .iter()
            .map(|came| match came {
                Came::Swept(record) => show::value(record),
                Came::Elsewhere { root, leader } => json!({ "root": root, "busy": leader }),
            })
            .collect();
        let report = json!({ "schema_version": 1, "command": "reap", "sweeps": sweeps, "exit_code": exit.code() });
        return console.out.line(report);
    }
    let detail = if flags.verbose { Detail::Full } else { Detail::Short };
    for came in came {
        match came {
            Came::Swept(record) => show::write(&mut console.out, console.paint, record, detail),
            Came::Elsewhere { root, leader } => {
                console.out.line(format_args!("{root}: not swept: {} is at it", text::sentence(leader)));
            }
        }
    }
}
