//! Running `reap` and reading what it reports. Not here: any expectation but that every record balances.

use std::collections::BTreeMap;

use derelict_testkit::postgres::Database;
use derelict_testkit::reaping::Reaping;
use derelict_testkit::{Finished, Run};
use serde_json::Value;

use crate::support::DERELICT;

/// The preset, in report-only mode.
pub(crate) const PRESET: &str = "preset = \"paperclip\"\nowner = \"postgres\"\n";

/// The preset, armed.
pub(crate) const ARMED: &str = "preset = \"paperclip\"\nowner = \"postgres\"\narmed = true\n";

/// The same tables, asked through an operator's function that stops at gates; armed.
pub(crate) const GATED: &str = "layout.directories = [\"home\", \"session\"]\nids = \"uuid\"\narmed = true\n\
    [roots.ws.owner]\nkind = \"postgres\"\nquery = \"SELECT id, last_used_at FROM ask($1)\"\n";

/// The program with the world's configuration and its database.
pub(crate) fn with(world: &Reaping, database: &Database, arguments: &[&str]) -> Run {
    world.run(DERELICT, arguments).env("DATABASE_URL", database.url())
}

/// `reap --json`, not started yet.
pub(crate) fn reap(world: &Reaping, database: &Database) -> Run {
    with(world, database, &["reap", "--json"])
}

/// One sweep as `reap --json` reports it. Directories are named by their last component.
#[derive(Debug)]
pub(crate) struct Sweep {
    pub(crate) value: Value,
    pub(crate) finished: Finished,
}

/// Runs it to its end, which has to come with this exit code.
#[track_caller]
pub(crate) fn swept(run: Run, code: i32) -> Sweep {
    Sweep::of(run.finish(), code)
}

impl Sweep {
    /// Reads the only sweep of a report, and checks that it balances.
    #[track_caller]
    pub(crate) fn of(finished: Finished, code: i32) -> Self {
        finished.expect_code(code);
        let report = finished.json();
        assert_eq!((&report["exit_code"], &report["command"]), (&Value::from(code), &Value::from("reap")));
        let [value] = report["sweeps"].as_array().expect("because it is a list").as_slice() else {
            panic!("not one sweep: {finished}")
        };
        let (value, sweep) = (value.clone(), Self { value: value.clone(), finished });
        let sum: u64 = sweep.tally().into_values().sum();
        assert_eq!(value["scanned"], sum, "{}", sweep.finished);
        assert_eq!(sweep.directories().len() as u64, sum, "{}", sweep.finished);
        sweep
    }

    fn directories(&self) -> &[Value] {
        self.value["directories"].as_array().map_or(&[], Vec::as_slice)
    }

    /// Why it ended: the reason, and which one it was.
    pub(crate) fn stop(&self) -> String {
        let part = |key: &str| self.value["stop"][key].as_str().map(str::to_owned);
        part("reason").into_iter().chain(part("which")).collect::<Vec<_>>().join(" ")
    }

    /// How many directories ended in which way.
    pub(crate) fn tally(&self) -> BTreeMap<String, u64> {
        let tally = self.value["tally"].as_object().expect("because it is an object");
        tally.iter().map(|(fate, count)| (fate.clone(), count.as_u64().expect("because it is a number"))).collect()
    }

    /// The tally in one line, to be compared.
    pub(crate) fn told(&self) -> String {
        let each = self.tally().into_iter().map(|(fate, count)| format!("{count} {fate}"));
        each.collect::<Vec<_>>().join(", ")
    }

    #[track_caller]
    fn directory(&self, name: &str) -> &Value {
        let found = self.directories().iter().find(|one| leaf(one) == name);
        found.unwrap_or_else(|| panic!("{name} is not in {:#}", self.value))
    }

    /// How one directory ended.
    #[track_caller]
    pub(crate) fn fate(&self, name: &str) -> String {
        self.directory(name)["fate"].as_str().expect("because it is a text").to_owned()
    }

    /// Why it ended so.
    #[track_caller]
    pub(crate) fn why(&self, name: &str) -> String {
        self.directory(name)["why"].as_str().expect("because it is a text").to_owned()
    }

    /// The digests of the evidence of those that ended in one way, by name.
    pub(crate) fn proofs(&self, fate: &str) -> BTreeMap<String, Value> {
        let of_it = self.directories().iter().filter(|one| one["fate"] == fate);
        of_it.map(|one| (leaf(one), one["evidence"].clone())).collect()
    }

    /// What the history says that this sweep removed, sorted.
    #[track_caller]
    pub(crate) fn removed_in_history(&self, world: &Reaping, database: &Database) -> Vec<String> {
        removed_by_history(world, database, self.value["id"].as_str().expect("because it is a text"))
    }

    /// The names of those that ended in one way, sorted.
    pub(crate) fn named(&self, fate: &str) -> Vec<String> {
        let of_it = self.directories().iter().filter(|one| one["fate"] == fate);
        let mut names: Vec<String> = of_it.map(leaf).collect();
        names.sort();
        names
    }
}

/// What the history says that a sweep removed, sorted.
#[track_caller]
pub(crate) fn removed_by_history(world: &Reaping, database: &Database, sweep: &str) -> Vec<String> {
    let history = with(world, database, &["history", "--json", "--removed", sweep]).finish();
    history.expect_code(0);
    let value = history.json();
    let directories = value["sweeps"][0]["directories"].as_array().or(value["directories"].as_array());
    let mut names: Vec<String> = directories.into_iter().flatten().map(leaf).collect();
    names.sort();
    names
}

fn leaf(directory: &Value) -> String {
    let path = directory["path"].as_str().expect("because the tests make plain names");
    path.rsplit('/').next().expect("because a path has a last component").to_owned()
}
