//! Worlds for unattended sweeps: a root with workspaces of any age, the tables that own them, and the
//! program with a configuration of its own. Not here: the server, see [`crate::postgres`], and any rule.

use std::path::{Path, PathBuf};

use crate::git::tool;
use crate::postgres::Database;
use crate::run::Run;
use crate::scratch::{Scratch, mkdir, set_mode, write};

/// The tables of workspaces, as far as they are read: the types of the real ones, and none of their relations.
pub const WORKSPACES: &str = "create table execution_workspaces (id uuid primary key, \
     status text not null default 'active', last_used_at timestamptz not null default now());";

/// The younger table of leases.
pub const LEASES: &str = "create table execution_workspace_runtime_leases (id uuid primary key default gen_random_uuid(), \
     execution_workspace_id uuid not null unique, expires_at timestamptz not null);";

/// The younger table of runs.
pub const RUNS: &str = "create table heartbeat_runs (id uuid primary key default gen_random_uuid(), \
     status text not null default 'queued', context_snapshot jsonb);";

/// An operator's `ask(uuid[])`, which asks the same table and stops at gates: at the call with that number
/// that asks for that id, it waits for whoever holds the advisory lock (number of the gate, 0). A session
/// counts its calls in advisory locks, since it may write nothing.
const GATES: &str = "\
create table gates (no int primary key, id uuid not null, at_call int not null);
create function ask(ids uuid[]) returns table (id uuid, last_used_at timestamptz) language plpgsql as $ask$
#variable_conflict use_column
declare gate record; call int;
begin
  for gate in select * from gates where id = any(ids) loop
    select 1 + count(*) into call from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()
      and objsubid = 2 and classid = gate.no::oid and objid > 0;
    perform pg_advisory_lock(gate.no, call);
    if call = gate.at_call then perform pg_advisory_lock_shared(gate.no, 0); end if;
  end loop;
  return query select w.id, w.last_used_at from execution_workspaces w where w.id = any(ids);
end $ask$;";

/// How many workspaces the standard tree has.
pub const TREE: u32 = 20;

/// A root, a state directory and a home.
#[derive(Debug)]
pub struct Reaping {
    scratch: Scratch,
}

impl Reaping {
    /// Without any workspace.
    #[must_use]
    pub fn new() -> Self {
        let scratch = Scratch::new();
        ["ws", "home", "state"].iter().for_each(|name| mkdir(scratch.path().join(name)));
        Self { scratch }
    }

    /// Where everything is.
    #[must_use]
    pub fn top(&self) -> &Path {
        self.scratch.path()
    }

    /// Where the workspaces are.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.top().join("ws")
    }

    /// One workspace.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    /// Where journals and records are.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.top().join("state")
    }

    /// The configuration file.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.top().join("derelict.toml")
    }

    /// Makes a workspace with some files that was made so many days ago.
    pub fn workspace(&self, name: &str, days: u32) -> PathBuf {
        let path = self.path(name);
        write(path.join("home/.config/settings"), "x");
        write(path.join("session/projects/p/notes"), [b'x'; 512]);
        age(&path, days);
        path
    }

    /// What lies in the root, sorted.
    ///
    /// # Panics
    /// When it cannot be listed.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.root()).expect("because the root is there");
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.expect("because it is being listed").file_name().to_string_lossy().into_owned()
        };
        let mut names: Vec<String> = entries.map(name).collect();
        names.sort();
        names
    }

    /// Makes the standard tree: of twenty workspaces four orphans without a row, eight with a row idle for sixty
    /// days, four with a row used today, two made two days ago, one with a checkout below its home, and one with
    /// a third entry. All but the two fresh ones are sixty days old.
    pub fn tree(&self, database: &Database) {
        let mut rows = WORKSPACES.to_owned();
        for number in 0..TREE {
            let name = id(number);
            let path = self.workspace(&name, 60);
            match number {
                4..=11 => rows += &row(&name, 60),
                12..=15 => rows += &row(&name, 0),
                18 => write(path.join("home/src/repo/.git/HEAD"), "ref: refs/heads/main\n"),
                19 => mkdir(path.join("wt-19094")),
                _ => {}
            }
            age(&path, if (16..=17).contains(&number) { 2 } else { 60 });
        }
        database.sql(&rows);
    }

    /// The ids of the standard tree that go with a window of thirty days.
    #[must_use]
    pub fn removable() -> Vec<String> {
        (0..12).map(id).collect()
    }

    /// Writes the configuration: of the root `ws`, with these lines of its own.
    pub fn configure(&self, lines: &str) {
        let (state, root) = (self.state(), self.root());
        let head = format!("state = {state:?}\nserve.listen = \"127.0.0.1:0\"\n[roots.ws]\npath = {root:?}\n");
        self.configure_whole(&(head + lines));
    }

    /// Writes the whole configuration.
    pub fn configure_whole(&self, text: &str) {
        write(self.config(), text);
        set_mode(&self.config(), 0o644);
    }

    /// The program with this configuration, its arguments after it.
    #[must_use]
    pub fn run(&self, program: &str, arguments: &[&str]) -> Run {
        let run = Run::new(program).args(arguments).arg_config(&self.config());
        run.env("HOME", self.top().join("home")).env("PATH", std::env::var_os("PATH").unwrap_or_default())
    }
}

impl Default for Reaping {
    fn default() -> Self {
        Self::new()
    }
}

impl Run {
    fn arg_config(self, file: &Path) -> Self {
        self.args([Path::new("--config"), file])
    }
}

/// The id with this number; those of the standard tree go in this order, for they are of one size.
#[must_use]
pub fn id(number: u32) -> String {
    format!("0188a3c2-7b1d-4c5e-9f00-00000000ab{number:02x}")
}

/// A statement that makes a row that was used so many days ago.
#[must_use]
pub fn row(id: &str, days: u32) -> String {
    format!("insert into execution_workspaces (id, last_used_at) values ('{id}', now() - interval '{days} days');\n")
}

/// Lets a program that asks `ask($1)` stop before it is told of this id for the so-maniest time: first in the
/// snapshot of the sweep, then in the re-check, then in the second look. Needs [`WORKSPACES`].
pub fn gate(database: &Database, id: &str, at_call: u32) -> crate::sessions::Held {
    database.sql(&format!("{GATES} insert into gates values (1, '{id}', {at_call});"));
    database.hold("select pg_advisory_lock(1, 0)")
}

/// That somebody waits at an advisory lock of this database; the server tells of all of them.
pub const SOMEBODY_WAITS: &str = "exists (select from pg_locks where locktype = 'advisory' and not granted \
     and database = (select oid from pg_database where datname = current_database()))";

/// That this is the only session with the database.
pub const NOBODY_ELSE: &str = "not exists (select from pg_stat_activity where datname = current_database() \
     and pid <> pg_backend_pid() and backend_type = 'client backend')";

/// Makes a directory look as if it was made so many days ago.
///
/// # Panics
/// When that fails.
pub fn age(path: &Path, days: u32) {
    let touched = tool("touch").args(["-d", &format!("{days} days ago"), "--"]).arg(path).status();
    assert!(touched.is_ok_and(|status| status.success()), "cannot change the time of {}", path.display());
}
