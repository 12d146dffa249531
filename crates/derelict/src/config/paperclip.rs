//! The five variables by which a deployment of paperclip sets its reaper, read as that deployment means them. They are
//! stronger than files and weaker than our own variables.

use std::ffi::OsString;

use crate::config::keys::{DAY, MINUTE};
use crate::config::layers::Layers;
use crate::config::value::{Origin, Problem, Raw, Setting};

/// What the variables begin with.
const PREFIX: &str = "PAPERCLIP_ISOLATION_WORKSPACE_REAPER_";

/// The root that exists when nobody configures one.
pub(super) const ROOT: &str = "paperclip";

/// Where it is.
const PATH: &str = "/paperclip/instances/default/data/k8s-isolation/workspaces";

/// That deployment's own defaults: an interval of a day in minutes, thirty days, two hundred removals.
const INTERVAL_MINUTES: f64 = 1440.0;
const MAX_AGE_DAYS: f64 = 30.0;
const MAX_DELETES: f64 = 200.0;

/// The window of that deployment is never shorter than a week.
const FLOOR_DAYS: f64 = 7.0;

/// What the variables say.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Said {
    armed: bool,
    interval: f64,
    age: f64,
    deletes: f64,
}

/// Lays the variables over the roots with that preset, or makes one if there is none and it is enabled.
pub(super) fn lay_over(layers: &mut Layers, environment: &[(OsString, OsString)]) {
    let value = |name: &str| {
        let name = format!("{PREFIX}{name}");
        environment.iter().find(|(known, _)| known.to_str() == Some(&name)).map(|(_, value)| value.to_string_lossy())
    };
    let names = ["ENABLED", "DRY_RUN", "INTERVAL_MINUTES", "MAX_AGE_DAYS", "MAX_DELETES_PER_TICK"];
    if names.iter().all(|name| value(name).is_none()) {
        return;
    }
    let set: Vec<&str> = names.into_iter().filter(|name| value(name).is_some()).collect();
    let is_true = |name| value(name).as_deref() == Some("true");
    let mut number = |name: &str, default: f64| {
        let Some(written) = value(name) else { return default };
        match written.trim().parse::<f64>() {
            Ok(number) if number.is_finite() && number > 0.0 => number,
            Ok(_) | Err(_) => {
                let why = "it has to be a finite positive number";
                layers.problems.push(Problem(format!("{PREFIX}{name} = \"{}\": {why}", written.escape_debug())));
                default
            }
        }
    };
    let said = Said {
        armed: is_true("ENABLED") && !is_true("DRY_RUN"),
        interval: number("INTERVAL_MINUTES", INTERVAL_MINUTES),
        age: number("MAX_AGE_DAYS", MAX_AGE_DAYS).max(FLOOR_DAYS),
        deletes: number("MAX_DELETES_PER_TICK", MAX_DELETES),
    };
    let roots = roots(layers, is_true("ENABLED"));
    for root in roots {
        for (key, name, raw) in settings(said) {
            // A bound that nobody set does not speak louder than what a file says; the switch is off unless it is set.
            let path = format!("roots.{root}.{key}");
            if key != "armed" && !set.contains(&name) && layers.settings.contains_key(&path) {
                continue;
            }
            let origin = Origin::Variable(format!("{PREFIX}{name}"));
            layers.set(path, Setting { raw, origin });
        }
    }
}

fn roots(layers: &mut Layers, enabled: bool) -> Vec<String> {
    let with_preset: Vec<String> = layers
        .roots()
        .into_iter()
        .filter(|root| {
            let preset = layers.settings.get(&format!("roots.{root}.preset"));
            preset.is_some_and(|setting| setting.raw == Raw::Text("paperclip".into()))
        })
        .collect();
    if !with_preset.is_empty() || !enabled {
        return with_preset;
    }
    let origin = Origin::Variable(format!("{PREFIX}ENABLED"));
    let plain = [("path", PATH), ("preset", "paperclip"), ("owner.kind", "postgres")];
    for (key, text) in plain {
        let path = format!("roots.{ROOT}.{key}");
        if !layers.settings.contains_key(&path) {
            layers.set(path, Setting { raw: Raw::Text(text.into()), origin: origin.clone() });
        }
    }
    vec![ROOT.to_owned()]
}

/// A fraction of a removal is none, and a fraction of a second is a whole one: both keep more.
fn settings(said: Said) -> [(&'static str, &'static str, Raw); 4] {
    let seconds = |number: f64, unit: u64| Raw::Text(format!("{:.0}s", (number * unit as f64).ceil()));
    let switch = if said.armed { "ENABLED" } else { "DRY_RUN" };
    [
        ("armed", switch, Raw::Flag(said.armed)),
        ("interval", "INTERVAL_MINUTES", seconds(said.interval, MINUTE)),
        ("idle", "MAX_AGE_DAYS", seconds(said.age, DAY)),
        ("limits.removals", "MAX_DELETES_PER_TICK", Raw::Text(format!("{:.0}", said.deletes.floor()))),
    ]
}
