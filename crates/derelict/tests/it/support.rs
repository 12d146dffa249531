//! Running the program and reading what it reports. Not here: any expectation.

use std::collections::BTreeMap;

use derelict_testkit::{Cache, Finished, Run, Snapshot};
use serde_json::Value;

/// The program under test.
pub(crate) const DERELICT: &str = env!("CARGO_BIN_EXE_derelict");

/// The question, up to where its numbers start.
pub(crate) const QUESTION: &str = "Remove ";

/// What ends every human report.
pub(crate) const BOUNDARY: [&str; 2] = ["container images and volumes are not managed here", "docker system df"];

/// The program on a cache, about to be run.
pub(crate) fn derelict(cache: &Cache, arguments: &[&str]) -> Run {
    cache.run(DERELICT, arguments)
}

/// A user that owns nothing on the machine.
pub(crate) const NOBODY: u32 = 65_534;

/// The program as [`NOBODY`] runs it: a copy of it, for the original may lie where nobody may look.
pub(crate) fn as_nobody(cache: &Cache, arguments: &[&str]) -> Finished {
    let copy = cache.root().join("program");
    let copied = derelict_testkit::git::tool("cp").arg("--").arg(DERELICT).arg(&copy).status();
    assert!(copied.is_ok_and(|status| status.success()), "cannot copy {DERELICT}");
    derelict_testkit::scratch::set_mode(&copy, 0o755);
    let program = copy.to_str().expect("because a temporary directory has a plain name");
    cache.run(program, arguments).user(NOBODY).finish()
}

/// `derelict prune` with more arguments, without a terminal.
pub(crate) fn prune(cache: &Cache, arguments: &[&str]) -> Finished {
    derelict(cache, &[&["prune"], arguments].concat()).finish()
}

/// `derelict prune --json` with more arguments, and the exit code it has to end with.
#[track_caller]
pub(crate) fn prune_json(cache: &Cache, arguments: &[&str], code: i32) -> Report {
    let finished = prune(cache, &[&["--json"], arguments].concat());
    finished.expect_code(code);
    let report = Report(finished.json());
    assert_eq!(report.0["exit_code"], code, "{finished}");
    report
}

/// `derelict explain --json` of a path: its verdict, its exit code, and all of it.
#[track_caller]
pub(crate) fn explain_json(cache: &Cache, path: &std::path::Path) -> Value {
    let path = path.to_str().expect("because the test names it as text");
    derelict(cache, &["explain", path, "--json"]).finish().json()
}

/// Everything of a cache and around it, but for what the stub `devpod` writes.
pub(crate) fn everything(cache: &Cache) -> Snapshot {
    Snapshot::of(cache.root()).without(cache.root().join("devpod.log")).without_entry(cache.root())
}

/// A report of `prune` as JSON. Directories are named by their leaf.
#[derive(Debug)]
pub(crate) struct Report(pub(crate) Value);

impl Report {
    /// What the plan removes, in its order.
    #[track_caller]
    pub(crate) fn removals(&self) -> Vec<String> {
        rows(&self.0["plan"]["removals"]).iter().map(|row| leaf(&row["path"])).collect()
    }

    /// The verdict of every directory of the plan.
    #[track_caller]
    pub(crate) fn verdicts(&self) -> BTreeMap<String, String> {
        let plan = &self.0["plan"];
        let all = [&plan["removals"], &plan["beyond_limit"], &plan["kept"]].map(rows).concat();
        let verdicts = all.iter().map(|row| (leaf(&row["path"]), string(&row["verdict"])));
        verdicts.collect()
    }

    /// The verdict of one directory.
    #[track_caller]
    pub(crate) fn verdict(&self, leaf: &str) -> String {
        self.verdicts().remove(leaf).unwrap_or_else(|| panic!("{leaf} is not in the plan: {:#}", self.0))
    }

    /// The reasons for keeping one directory, joined.
    #[track_caller]
    pub(crate) fn reasons(&self, wanted: &str) -> String {
        let kept = rows(&self.0["plan"]["kept"]);
        let row = kept.iter().find(|row| leaf(&row["path"]) == wanted);
        let row = row.unwrap_or_else(|| panic!("{wanted} is not kept: {:#}", self.0));
        rows(&row["reasons"]).iter().map(string).collect::<Vec<_>>().join("; ")
    }

    /// How every directory that was reached ended.
    #[track_caller]
    pub(crate) fn fates(&self) -> BTreeMap<String, String> {
        let settled = rows(&self.0["result"]["settled"]);
        settled.iter().map(|row| (leaf(&row["path"]), string(&row["fate"]))).collect()
    }

    /// How one directory ended.
    #[track_caller]
    pub(crate) fn fate(&self, leaf: &str) -> String {
        self.fates().remove(leaf).unwrap_or_else(|| panic!("{leaf} has no fate: {:#}", self.0))
    }

    /// Why the sweep ended.
    #[track_caller]
    pub(crate) fn stop(&self) -> String {
        string(&self.0["result"]["stop"])
    }
}

#[track_caller]
fn rows(value: &Value) -> Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("not a list: {value}")).clone()
}

#[track_caller]
fn string(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("not a string: {value}")).to_owned()
}

/// The last component of a path that is a string, or the hex of one that is not UTF-8.
#[track_caller]
fn leaf(path: &Value) -> String {
    match path["hex"].as_str() {
        Some(hex) => format!("hex:{hex}"),
        None => string(path).rsplit('/').next().expect("because a path has a last component").to_owned(),
    }
}
