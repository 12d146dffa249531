//! From settings to roots that can be swept: defaults, presets, floors, and what has to fit together.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use derelict_core::policy::Limits;
use derelict_observe::roots::{EntryKind, Expected, Shape};
use derelict_observe::{AskRemote, IgnoredChanges, Rebuildable};

use crate::config::keys::{self, DAY, Kind};
use crate::config::layers::{Layers, Settings};
use crate::config::value::{self, Origin, Problem, Raw, Setting};
use crate::config::{Config, ConfigErrors, Log, Root, Serve, owner};
use crate::ledger::book::Shelf;
use crate::reaper::record::Mode;
use crate::telemetry::logger::{Format, Threshold};

/// The shortest window of a root with a preset, in seconds: its producer promises a week.
const PRESET_FLOOR: u64 = 7 * DAY;

/// The directories of a workspace of the preset `paperclip`, and where its work trees are.
const PAPERCLIP_DIRECTORIES: [&str; 2] = ["home", "session"];
const PAPERCLIP_HOMES: [&str; 2] = [".paperclip/worktrees", ".paperclip-worktrees"];

/// Reads settings of one section by kind; what is wrong is collected.
pub(super) struct Reader<'r> {
    pub(super) settings: &'r Settings,
    pub(super) environment: BTreeMap<&'r str, &'r str>,
    pub(super) problems: Vec<Problem>,
}

/// Which preset a root has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Preset {
    None,
    Paperclip,
}

/// Everything, or all that is wrong.
pub(super) fn resolve(layers: Layers, environment: &[(OsString, OsString)]) -> Result<Config, ConfigErrors> {
    let names = layers.roots();
    let environment = environment.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?))).collect();
    let mut reader = Reader { settings: &layers.settings, environment, problems: layers.problems };
    let log = Log { format: reader.log_format(), threshold: reader.log_level() };
    let serve = reader.serve();
    let ledger = reader.ledger();
    let retention = reader.span("ledger.retention");
    let stop_within = reader.span("stop_within");
    let state = reader.optional("state", value::path);
    let roots: Vec<Root> = names.iter().filter_map(|name| reader.root(name)).collect();
    reader.no_root_in_another(&roots);
    if reader.problems.is_empty() {
        Ok(Config { state, log, serve, stop_within, ledger, retention, roots })
    } else {
        Err(ConfigErrors(reader.problems))
    }
}

impl Reader<'_> {
    /// The setting of a path, or its default.
    pub(super) fn setting(&self, path: &str) -> Option<Setting> {
        if let Some(setting) = self.settings.get(path) {
            return Some(setting.clone());
        }
        let default = keys::find(path)?.default?;
        Some(Setting { raw: Raw::Text(default.to_owned()), origin: Origin::Default })
    }

    pub(super) fn optional<T>(&self, path: &str, read: impl FnOnce(&Raw) -> Result<T, String>) -> Option<T> {
        // What cannot be read was complained of when it was laid down.
        self.setting(path).and_then(|setting| read(&setting.raw).ok())
    }

    pub(super) fn text(&self, path: &str) -> Option<String> {
        self.optional(path, value::text_of)
    }

    /// A span that has a default.
    pub(super) fn span(&self, path: &str) -> Duration {
        self.optional(path, |raw| value::span(raw, 0, u64::MAX)).unwrap_or(Duration::ZERO)
    }

    /// Complains of a value, if it was written, or of the lack of it.
    pub(super) fn complain(&mut self, path: &str, why: &str) {
        let problem = match self.settings.get(path) {
            Some(setting) => Problem::of(path, setting, why),
            None => Problem::missing(path, why),
        };
        self.problems.push(problem);
    }

    /// Complains of everything in a section that has no business there.
    pub(super) fn refuse(&mut self, section: &str, keys: &[&str], why: &str) {
        for path in keys.iter().map(|key| format!("{section}.{key}")) {
            if self.settings.contains_key(&path) {
                self.complain(&path, why);
            }
        }
    }

    fn log_format(&self) -> Format {
        match self.text("log.format").as_deref() {
            Some("json") => Format::Json,
            Some(_) | None => Format::Human,
        }
    }

    fn log_level(&self) -> Threshold {
        match self.text("log.level").as_deref() {
            Some("error") => Threshold::Error,
            Some("warn") => Threshold::Warn,
            Some("debug") => Threshold::Debug,
            Some(_) | None => Threshold::Info,
        }
    }

    fn serve(&mut self) -> Serve {
        let written = self.text("serve.listen").unwrap_or("".to_owned());
        let listen = match (written.as_str(), written.parse()) {
            ("", _) => None,
            (_, Ok(address)) => Some(address),
            (_, Err(_)) => {
                self.complain("serve.listen", "it has to be an address with a port, such as 127.0.0.1:9464");
                None
            }
        };
        Serve { listen, stalled_after: self.span("serve.stalled_after") }
    }

    fn ledger(&mut self) -> Shelf {
        if self.text("ledger.kind").as_deref() != Some("postgres") {
            self.refuse("ledger", &["url_env", "url_file"], "a ledger in SQLite has no URL");
            return Shelf::Embedded;
        }
        let schema = self.text("ledger.schema").unwrap_or("".to_owned());
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if schema.is_empty() || !schema.chars().all(plain) {
            self.complain("ledger.schema", "it has to consist of lower-case letters, digits and `_`");
        } else if schema == "public" || schema == "information_schema" || schema.starts_with("pg_") {
            self.complain("ledger.schema", "it has to be a schema of the ledger's own, which no other program uses");
        }
        match owner::url(self, "ledger") {
            Some(settings) => Shelf::Postgres { settings: Box::new(settings), schema },
            // What is wrong with it was said, and nothing is opened then.
            None => Shelf::Embedded,
        }
    }

    fn root(&mut self, name: &str) -> Option<Root> {
        let at = |key: &str| format!("roots.{name}.{key}");
        let preset = match self.text(&at("preset")).as_deref() {
            Some("paperclip") => Preset::Paperclip,
            Some(_) | None => Preset::None,
        };
        let Some(path) = self.optional(&at("path"), value::path) else {
            self.complain(&at("path"), "a root needs a path");
            return None;
        };
        let idle = self.floored(&at("idle"), "floors.idle");
        if preset != Preset::None && idle.as_secs() < PRESET_FLOOR {
            let floor = value::shown_span(PRESET_FLOOR);
            self.complain(&at("idle"), &format!("with a preset it has to be at least {floor}"));
        }
        let minimum_age = match self.setting(&at("minimum_age")) {
            Some(_) => self.floored(&at("minimum_age"), "floors.minimum_age"),
            None => idle,
        };
        let given = self.settings.contains_key(&at("minimum_age"));
        if given && preset != Preset::None && minimum_age.as_secs() < PRESET_FLOOR {
            let floor = value::shown_span(PRESET_FLOOR);
            self.complain(&at("minimum_age"), &format!("with a preset it has to be at least {floor}"));
        }
        let shape = self.shape(name, preset)?;
        let (ignored_changes, rebuildable) = self.words(name, &shape);
        let ask_remote = match self.optional(&at("ask_remote"), value::flag) {
            Some(true) => AskRemote::Yes,
            Some(false) | None => AskRemote::No,
        };
        let owner = owner::owner(self, name, preset)?;
        let mode = match self.optional(&at("armed"), value::flag) {
            Some(true) => Mode::Armed,
            Some(false) | None => Mode::Report,
        };
        let limits = self.limits(name);
        Some(Root {
            name: name.to_owned(),
            shape,
            ignored_changes,
            rebuildable,
            ask_remote,
            idle,
            minimum_age,
            limits,
            operations_per_second: self
                .number(&at("limits.operations_per_second"))
                .and_then(|number| NonZeroU32::new(u32::try_from(number).ok()?)),
            deadline: self.span(&at("deadline")),
            interval: self.span(&at("interval")),
            mode,
            grace: self.span(&at("grace")),
            acknowledged: self.optional(&at("acknowledge"), value::texts).into_iter().flatten().collect(),
            lock_key: self.text(&at("lock_key")).unwrap_or_else(|| path.to_string_lossy().into_owned()),
            owner,
            path,
        })
    }

    /// What the operator says of the checkouts of a root.
    fn words(&mut self, name: &str, shape: &Shape) -> (IgnoredChanges, Rebuildable) {
        let section = format!("roots.{name}");
        if *shape != Shape::Checkout {
            let why = "the entries of this layout are expendable as they are; only a checkout has changes to ignore";
            self.refuse(&section, &["ignore_changes", "rebuildable", "ask_remote"], why);
        }
        let list = |reader: &Self, key: &str| {
            reader.optional(&format!("{section}.{key}"), value::texts).into_iter().flatten().collect::<Vec<_>>()
        };
        let changes = IgnoredChanges::parse(&list(self, "ignore_changes")).unwrap_or_else(|error| {
            self.complain(&format!("{section}.ignore_changes"), &error.to_string());
            IgnoredChanges::NONE
        });
        let rebuildable = Rebuildable::parse(&list(self, "rebuildable")).unwrap_or_else(|error| {
            self.complain(&format!("{section}.rebuildable"), &error.to_string());
            Rebuildable::NONE
        });
        (changes, rebuildable)
    }

    /// A span that no place but `/etc` may push below its floor.
    fn floored(&mut self, path: &str, at: &str) -> Duration {
        let span = self.span(path);
        if let Some(least) = self.optional(at, |raw| value::span(raw, 0, u64::MAX))
            && span < least
        {
            let floor = value::shown_span(least.as_secs());
            self.complain(path, &format!("it has to be at least {floor}, by {}", self.place_of(at)));
        }
        span
    }

    fn place_of(&self, path: &str) -> String {
        self.settings.get(path).map_or_else(|| "the floors".to_owned(), |setting| setting.origin.to_string())
    }

    fn limits(&mut self, name: &str) -> Limits {
        let at = |key: &str| format!("roots.{name}.limits.{key}");
        let mut removals = self.number(&at("removals"));
        if let Some(most) = self.number("floors.removals").filter(|most| removals.is_some_and(|wanted| wanted > *most))
        {
            // What nobody asked for is capped, what somebody asked for is refused.
            if self.settings.contains_key(&at("removals")) {
                let place = self.place_of("floors.removals");
                self.complain(&at("removals"), &format!("it has to be at most {most}, by {place}"));
            }
            removals = Some(most);
        }
        Limits { removals, entries: self.number(&at("entries")), bytes: self.optional(&at("bytes"), value::size) }
    }

    pub(super) fn number(&self, path: &str) -> Option<u64> {
        match keys::find(path).map(|key| key.kind) {
            Some(Kind::Count(least, most)) => self.optional(path, |raw| value::count(raw, least, most)),
            Some(_) | None => None,
        }
    }

    fn shape(&mut self, name: &str, preset: Preset) -> Option<Shape> {
        let section = format!("roots.{name}.layout");
        let all = ["kind", "directories", "files", "worktree_homes"];
        if preset == Preset::Paperclip {
            self.refuse(&section, &all, "the preset has a layout of its own");
            return Some(exactly(&PAPERCLIP_DIRECTORIES, &[""; 0], &PAPERCLIP_HOMES));
        }
        let list = |reader: &Self, key: &str| {
            reader.optional(&format!("{section}.{key}"), value::texts).into_iter().flatten().collect::<Vec<_>>()
        };
        let [directories, files, homes] = ["directories", "files", "worktree_homes"].map(|key| list(self, key));
        match self.text(&format!("{section}.kind")).as_deref() {
            Some("checkout") => {
                self.refuse(&section, &all[1..], "a checkout may hold anything");
                Some(Shape::Checkout)
            }
            Some(_) | None if directories.is_empty() && files.is_empty() => {
                self.complain(
                    &section,
                    "a root needs a layout: `checkout`, or the directories and files it consists of",
                );
                None
            }
            Some(_) | None => {
                let plain = |entry: &&String| entry.is_empty() || entry.contains('/') || entry.as_str() == "..";
                if directories.iter().chain(&files).any(|entry| plain(&entry)) {
                    self.complain(&format!("{section}.directories"), "each has to be the name of one entry");
                }
                Some(exactly(&directories, &files, &homes))
            }
        }
    }

    /// Whatever is swept twice would be judged by two policies.
    fn no_root_in_another(&mut self, roots: &[Root]) {
        for (at, root) in roots.iter().enumerate() {
            // Compared resolved: a symlink or a detour leads to the same directory.
            let resolved = |path: &PathBuf| std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
            let here = resolved(&root.path);
            let mut others = roots.iter().enumerate();
            let other = others.find(|(other, one)| *other != at && here.starts_with(resolved(&one.path)));
            if let Some((_, other)) = other {
                let why = format!("it lies at or below the root {}", other.name);
                self.complain(&format!("roots.{}.path", root.name), &why);
            }
        }
    }
}

fn exactly(directories: &[impl AsRef<str>], files: &[impl AsRef<str>], homes: &[impl AsRef<str>]) -> Shape {
    let entry = |name: &str, kind| Expected { name: name.to_owned(), kind };
    let directories = directories.iter().map(|name| entry(name.as_ref(), EntryKind::Directory));
    let files = files.iter().map(|name| entry(name.as_ref(), EntryKind::File));
    let worktree_homes = homes.iter().map(|home| Path::new(home.as_ref()).components().collect()).collect();
    Shape::Exactly { entries: directories.chain(files).collect(), worktree_homes }
}
