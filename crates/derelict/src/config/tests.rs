//! The layers of the configuration over each other, with an `/etc` of the tests' own.

use std::ffi::OsString;
use std::time::Duration;

use tempfile::TempDir;

use super::keys::{DAY, KEYS, MINUTE};
use super::{Config, Owner, Root, Sources, load, schema};
use crate::config::layers::Layers;
use crate::reaper::record::Mode;

const REAPER: &str = "PAPERCLIP_ISOLATION_WORKSPACE_REAPER_";

/// A complete root `ws` of nobody's.
const WS: &str = "[roots.ws]\npath = \"/ws\"\nlayout = \"checkout\"\nowner = \"none\"\nminimum_age = \"60d\"\n";

/// A root `ws` of the preset.
const PRESET: &str = "[roots.ws]\npath = \"/ws\"\npreset = \"paperclip\"\nowner = \"postgres\"\n";

struct World {
    directory: TempDir,
    sources: Sources,
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let sources = Sources {
            system: directory.path().join("etc.toml"),
            user: Some(directory.path().join("user.toml")),
            named: None,
            environment: vec![("DATABASE_URL".into(), "postgres://h/d".into())],
            uid: rustix::process::geteuid().as_raw(),
        };
        Self { directory, sources }
    }

    fn with(mut self, file: &str, text: &str) -> Self {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.directory.path().join(file);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        if file == "named.toml" {
            self.sources.named = Some(path);
        }
        self
    }

    fn env(mut self, name: &str, value: &str) -> Self {
        self.sources.environment.push((OsString::from(name), OsString::from(value)));
        self
    }

    fn reaper(self, name: &str, value: &str) -> Self {
        self.env(&format!("{REAPER}{name}"), value)
    }

    #[track_caller]
    fn config(&self) -> Config {
        load(&self.sources).unwrap()
    }

    /// The only root.
    #[track_caller]
    fn root(&self) -> Root {
        let [root] = <[Root; 1]>::try_from(self.config().roots).expect("because there is one root");
        root
    }

    /// What is wrong, without the directory of the files.
    #[track_caller]
    fn error(&self) -> String {
        let error = load(&self.sources).expect_err("because something is wrong").to_string();
        error.replace(&format!("{}/", self.directory.path().display()), "")
    }
}

fn days(number: u64) -> Duration {
    Duration::from_secs(number * DAY)
}

#[test]
fn the_environment_is_stronger_than_the_named_file_that_than_the_users_and_that_than_etc() {
    let world = World::new().with("etc.toml", &format!("{WS}idle = \"1d\"\n"));
    assert_eq!(world.root().idle, days(1));
    let world = world.with("user.toml", "roots.ws.idle = \"2d\"\n");
    assert_eq!(world.root().idle, days(2));
    let world = world.with("named.toml", "roots.ws.idle = \"3d\"\n");
    assert_eq!(world.root().idle, days(3));
    let world = world.env("DERELICT_ROOTS_WS_IDLE", "4d");
    assert_eq!(world.root().idle, days(4));
    assert_eq!(world.root().minimum_age, days(60), "what only /etc says holds");
}

#[test]
fn no_file_is_needed_but_the_one_that_is_named() {
    assert_eq!(World::new().config().roots.len(), 0);
    let mut world = World::new();
    world.sources.named = Some(world.directory.path().join("none.toml"));
    assert!(world.error().starts_with("none.toml: No such file"), "{}", world.error());
}

#[test]
fn a_floor_of_etc_holds_against_everybody_and_says_where_it_stands() {
    let floors = "[floors]\nidle = \"20d\"\nminimum_age = \"70d\"\nremovals = 10\n";
    let world = World::new().with("etc.toml", floors).with("user.toml", &format!("{WS}idle = \"19d\"\n"));
    let expected = "user.toml:6: roots.ws.idle = \"19d\": it has to be at least 20d, by etc.toml:2\n\
                    user.toml:5: roots.ws.minimum_age = \"60d\": it has to be at least 70d, by etc.toml:3\n\
                    roots.ws.limits.removals: it has to be at most 10, by etc.toml:4";
    assert_eq!(world.error(), expected);
    let world = world.with("user.toml", &WS.replace("60d", "70d")).env("DERELICT_ROOTS_WS_IDLE", "20d");
    let world = world.env("DERELICT_ROOTS_WS_LIMITS_REMOVALS", "10");
    assert_eq!(
        (world.root().idle, world.root().minimum_age, world.root().limits.removals),
        (days(20), days(70), Some(10))
    );
    for (file, name) in [("user.toml", "user.toml:1: floors"), ("named.toml", "named.toml:1: floors")] {
        let world = World::new().with(file, "floors.idle = \"1h\"\n");
        assert_eq!(world.error(), format!("{name}: floors can be set in /etc/derelict/config.toml only"));
    }
    let world = World::new().env("DERELICT_FLOORS_IDLE", "1h");
    assert_eq!(world.error(), "DERELICT_FLOORS_IDLE: floors can be set in /etc/derelict/config.toml only");
}

#[test]
fn of_the_five_variables_each_has_the_deployments_default_once_one_is_set() {
    let world = World::new().reaper("DRY_RUN", "false");
    assert_eq!(world.config().roots.len(), 0, "it is not enabled");
    let root = World::new().reaper("ENABLED", "true").root();
    assert_eq!(root.name, "paperclip");
    assert_eq!(root.path.to_str(), Some("/paperclip/instances/default/data/k8s-isolation/workspaces"));
    assert!(matches!(root.owner, Owner::Postgres { .. }));
    assert_eq!((root.mode, root.interval, root.idle), (Mode::Armed, days(1), days(30)));
    assert_eq!(root.limits.removals, Some(200));
}

#[test]
fn only_the_word_true_enables_and_a_dry_run_is_none() {
    for enabled in ["TRUE", "1", "yes", "on", "", " true", "false"] {
        let world = World::new().with("etc.toml", &format!("{PRESET}armed = true\n")).reaper("ENABLED", enabled);
        assert_eq!(world.root().mode, Mode::Report, "{enabled:?}");
        assert_eq!(World::new().reaper("ENABLED", enabled).config().roots.len(), 0, "{enabled:?}");
    }
    let enabled = || World::new().with("etc.toml", PRESET).reaper("ENABLED", "true");
    assert_eq!(enabled().root().mode, Mode::Armed);
    assert_eq!(enabled().reaper("DRY_RUN", "true").root().mode, Mode::Report);
    assert_eq!(enabled().reaper("DRY_RUN", "false").root().mode, Mode::Armed);
}

#[test]
fn the_numbers_of_the_five_variables_have_floors_and_refusals() {
    let world = || World::new().with("etc.toml", PRESET).reaper("ENABLED", "true");
    let with = |name: &str, value: &str| world().reaper(name, value);
    assert_eq!(with("INTERVAL_MINUTES", "90").root().interval, Duration::from_secs(90 * MINUTE));
    assert_eq!(with("MAX_AGE_DAYS", "45").root().idle, days(45));
    assert_eq!(with("MAX_AGE_DAYS", "2").root().idle, days(7), "the floor of that deployment");
    assert_eq!(with("MAX_AGE_DAYS", "7.5").root().idle, Duration::from_secs(15 * DAY / 2));
    assert_eq!(with("MAX_DELETES_PER_TICK", "2.9").root().limits.removals, Some(2));
    for name in ["INTERVAL_MINUTES", "MAX_AGE_DAYS", "MAX_DELETES_PER_TICK"] {
        for odd in ["0", "-1", "many", "", "NaN", "inf", "-inf", "1e999", "30d"] {
            let expected = format!("{REAPER}{name} = \"{odd}\": it has to be a finite positive number");
            assert_eq!(with(name, odd).error(), expected);
        }
    }
    for (name, value, bound) in [
        ("MAX_DELETES_PER_TICK", "0.5", "it has to be a whole number from 1 to 1000000"),
        ("INTERVAL_MINUTES", "1", "it has to be at least 5m"),
        ("MAX_AGE_DAYS", "1e300", "it has to be"),
    ] {
        let error = with(name, value).error();
        assert!(error.starts_with(&format!("{REAPER}{name}: roots.ws.")) && error.contains(bound), "{error}");
    }
}

#[test]
fn the_five_variables_are_stronger_than_files_and_weaker_than_our_own() {
    let world = World::new().with("etc.toml", &format!("{PRESET}idle = \"90d\"\narmed = false\n"));
    let world = world.reaper("ENABLED", "true").reaper("MAX_AGE_DAYS", "45");
    assert_eq!((world.root().idle, world.root().mode), (days(45), Mode::Armed));
    let world = world.env("DERELICT_ROOTS_WS_IDLE", "60d").env("DERELICT_ROOTS_WS_ARMED", "false");
    assert_eq!((world.root().idle, world.root().mode), (days(60), Mode::Report));
    let other = World::new().with("etc.toml", WS).reaper("DRY_RUN", "true").reaper("MAX_AGE_DAYS", "45");
    assert_eq!(other.root().idle, days(30), "a root without the preset is not meant");
}

#[test]
fn every_key_is_in_the_schema_with_its_meaning_and_can_be_set_by_its_variable() {
    let schema = schema::schema();
    for key in KEYS {
        let path: Vec<&str> = key.path.split('.').collect();
        let found = path.iter().fold(&schema, |at, name| {
            let object = if at["anyOf"].is_array() { &at["anyOf"][1] } else { at };
            if *name == "*" { &object["additionalProperties"] } else { &object["properties"][name] }
        });
        let description = found["description"].as_str();
        assert!(description.is_some_and(|text| text.starts_with(key.doc)), "{}: {found}", key.path);
    }
    // A value that no key can have: whoever complains of it knows the variable, except of floors.
    let known = KEYS.iter().filter(|key| !key.path.starts_with("floors."));
    for key in known {
        let path = key.path.replace('*', "ws");
        let variable = format!("DERELICT_{}", path.to_uppercase().replace('.', "_"));
        let mut world = World::new();
        world.sources.environment.push((variable.clone().into(), "\u{1}".into()));
        let layers = Layers::read(&world.sources);
        let complained = layers.problems.iter().any(|problem| problem.0.starts_with(&format!("{variable}: {path} = ")));
        assert!(layers.settings.contains_key(&path) || complained, "{variable}: {:?}", layers.problems);
    }
}

#[test]
fn roots_do_not_lie_in_each_other() {
    let world = World::new().with("etc.toml", &format!("{WS}{}", WS.replace("ws", "ws2").replace("/ws2", "/ws/below")));
    assert_eq!(world.error(), "etc.toml:7: roots.ws2.path = \"/ws/below\": it lies at or below the root ws");
}

#[test]
fn a_password_is_never_in_what_is_shown() {
    let world = World::new().with("etc.toml", PRESET).env("OTHER_URL", "postgres://u:secret@h/d");
    let world = world.env("DERELICT_ROOTS_WS_OWNER_URL_ENV", "OTHER_URL");
    let shown = schema::as_toml(&schema::in_force(&Layers::read(&world.sources))).join("\n");
    assert!(shown.contains("url_env = \"OTHER_URL\"  # DERELICT_ROOTS_WS_OWNER_URL_ENV"), "{shown}");
    assert!(!shown.contains("secret"), "{shown}");
    assert!(!format!("{:?}", world.config()).contains("secret"));
}
