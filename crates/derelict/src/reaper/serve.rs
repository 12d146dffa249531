//! `derelict serve`: the daemon's beginning and end. Every root has a thread of its own; the endpoints have theirs, so
//! that a sweep that hangs is seen from outside.

use std::time::Duration;

use crate::cli::Serve;
use crate::config;
use crate::exit::{Exit, Failure};
use crate::host::{self, Host};
use crate::reaper::assign::{Assigned, assign, state};
use crate::reaper::daemon::{self, Ending};
use crate::reaper::desk::{Keeper, RootDesk, Telemetry};
use crate::signals::Stop;
use crate::telemetry::heartbeat::Heartbeat;
use crate::telemetry::http::{Bounds, Server};
use crate::telemetry::metrics::Metrics;
use crate::telemetry::{log, logger};

/// How soon a signal is noticed while nothing is swept.
const ATTENTION: Duration = Duration::from_millis(200);

/// Serves until a signal asks it to stop; the removal in hand is finished first.
///
/// # Errors
/// A [`Failure`] when the configuration is wrong, the address is taken, or the clock cannot be read.
pub(crate) fn run(flags: &Serve, host: &Host) -> Result<Exit, Failure> {
    let config = config::load(&config::command::sources(flags.config.clone())).map_err(Failure::usage)?;
    let state = state(&config, host)?;
    let assigned = assign(&config, host, &state)?;
    if assigned.is_empty() {
        return Err(Failure::usage(anyhow::anyhow!("no root is configured")));
    }
    logger::start(config.log.format, config.log.threshold).map_err(Failure::incomplete)?;
    let heartbeat = Heartbeat::new(host::monotonic());
    let stop = Stop::watch().map_err(Failure::incomplete)?;
    stop.ends_within(config.stop_within, move || log::ends_anyway(config.stop_within)).map_err(Failure::incomplete)?;
    let metrics = Metrics::new(heartbeat.clone());
    let bounds = Bounds::stalled_after(config.serve.stalled_after);
    let server = match config.serve.listen {
        Some(address) => {
            let server = Server::start(address, metrics.clone(), heartbeat.clone(), bounds);
            Some(server.map_err(|error| Failure::incomplete(anyhow::anyhow!("cannot listen on {address}: {error}")))?)
        }
        None => None,
    };
    if let Some(server) = &server {
        log::listening(server.address());
    }
    let telemetry = Telemetry { heartbeat, metrics, stop };
    let keeper = Keeper::new(&state, config.ledger.clone(), config.retention);
    keeper.catch_up().iter().for_each(|trouble| log::trouble(trouble));
    let served = sweep_all(&assigned, &telemetry, &keeper, server.as_ref());
    if let Some(server) = server {
        server.stop().map_err(Failure::incomplete)?;
    }
    served.map_err(Failure::incomplete)?;
    Ok(Exit::Done)
}

fn sweep_all(
    assigned: &[Assigned],
    telemetry: &Telemetry,
    keeper: &Keeper,
    server: Option<&Server>,
) -> anyhow::Result<()> {
    let ending = Ending::default();
    std::thread::scope(|threads| {
        let roots: Vec<_> = assigned
            .iter()
            .map(|Assigned { assignment, owners }| {
                let ending = ending.clone();
                threads.spawn(move || {
                    let desk = RootDesk::new(assignment, telemetry, keeper);
                    let ended = daemon::run(assignment, owners, &desk, &ending);
                    // One root that cannot go on ends the daemon: whoever started it notices, and starts it again.
                    ending.begin();
                    ended
                })
            })
            .collect();
        while !telemetry.stop.asked() && !ending.wait(ATTENTION) {}
        if let Some(server) = server {
            server.leaving();
        }
        ending.begin();
        roots.into_iter().try_for_each(|root| root.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}
