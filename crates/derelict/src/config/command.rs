//! `derelict config`: what is wrong with the configuration, what is in force, and what could be written.

use serde_json::json;

use crate::cli::{ConfigAction, ConfigFlags};
use crate::config::layers::Layers;
use crate::config::{Sources, load, schema};
use crate::console::Console;
use crate::exit::{Exit, Failure};
use crate::host;
use crate::text;

/// Where configuration may be, as this process was started.
pub(crate) fn sources(named: Option<std::path::PathBuf>) -> Sources {
    let environment: Vec<_> = std::env::vars_os().collect();
    let path = |name: &str| {
        let found = environment.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| std::path::PathBuf::from(value)).filter(|path| path.is_absolute())
    };
    let home = path("XDG_CONFIG_HOME").or_else(|| Some(path("HOME")?.join(".config")));
    Sources {
        system: host::SYSTEM_CONFIG.into(),
        user: home.map(|home| home.join("derelict/config.toml")),
        named,
        uid: rustix::process::geteuid().as_raw(),
        environment,
    }
}

/// Runs `derelict config`.
///
/// # Errors
/// A usage [`Failure`] that names everything wrong.
pub(crate) fn run(flags: &ConfigFlags, console: &mut Console) -> Result<Exit, Failure> {
    let sources = sources(flags.config.clone());
    let out = &mut console.out;
    match flags.action {
        ConfigAction::Schema => out.line(format_args!("{:#}", schema::schema())),
        ConfigAction::Check => {
            let config = load(&sources).map_err(Failure::usage)?;
            let files = Layers::read(&sources).files;
            if flags.json {
                let files: Vec<_> = files.iter().map(|file| crate::json::path(file)).collect();
                let roots: Vec<_> = config.roots.iter().map(|root| root.name.as_str()).collect();
                out.line(json!({ "schema_version": 1, "command": "config", "files": files, "roots": roots }));
            } else {
                files.iter().for_each(|file| out.line(format_args!("read {}", text::path(file))));
                out.line(format_args!("ok: {}", text::count(config.roots.len() as u64, text::ROOT)));
            }
        }
        ConfigAction::Show => {
            // What is wrong with it is said first; what cannot be used is not in force.
            load(&sources).map_err(Failure::usage)?;
            let values = schema::in_force(&Layers::read(&sources));
            if flags.json {
                let values: Vec<_> = values
                    .iter()
                    .map(|value| json!({ "key": value.path, "value": value.value, "origin": value.origin }))
                    .collect();
                out.line(json!({ "schema_version": 1, "command": "config", "settings": values }));
            } else {
                schema::as_toml(&values).iter().for_each(|line| out.line(line));
            }
        }
    }
    Ok(Exit::Done)
}
