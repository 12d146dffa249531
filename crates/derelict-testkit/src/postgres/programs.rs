//! The programs of PostgreSQL: where they are, as whom they run, and what ends them. Not here: what
//! they are told to do.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::scratch::exists;

/// Runs a server as its first child, and ends it by a signal when its own input ends.
pub(super) const WATCHER: &str = r#"
"$@" &
server=$!
cat >/dev/null
kill -"$END_BY" "$server" 2>/dev/null
wait "$server"
if [ "$AT_END" = remove ]; then rm -rf --one-file-system -- "$DIRECTORY"; fi
"#;

/// The directory with the programs of the newest server.
pub(super) fn server_programs() -> PathBuf {
    let asked = Command::new("pg_config").arg("--bindir").output();
    let told = asked.ok().filter(|output| output.status.success());
    let told = told.map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    let mut found: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    found.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let named = found.into_iter().rev().map(|(_, bin)| bin).chain(told).chain(std::env::split_paths(&path));
    let mut complete = named
        .filter(|bin| ["initdb", "postgres", "pg_isready", "psql"].iter().all(|program| exists(bin.join(program))));
    complete.next().expect("because the tests need a PostgreSQL server; on Debian it is the package postgresql")
}

/// The user that the server runs as when we are the superuser, whom it refuses to serve.
pub(super) fn owner() -> &'static str {
    let known = |user: &str| Command::new("id").arg("-u").arg(user).output().is_ok_and(|id| id.status.success());
    if known("postgres") { "postgres" } else { "nobody" }
}

/// A program in an environment that no setting of the machine reaches.
pub(super) fn clean(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("LC_ALL", "C").env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command
}

pub(super) fn unprivileged(program: &Path) -> Command {
    if !rustix::process::geteuid().is_root() {
        return clean(program);
    }
    let mut command = clean(Path::new("setpriv"));
    command.args(["--reuid", owner(), "--clear-groups", "--"]).arg(program);
    command
}

pub(super) fn run(command: &mut Command) {
    let output = command.stderr(Stdio::piped()).output();
    let output = output.unwrap_or_else(|error| panic!("cannot start {}: {error}", command.get_program().display()));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} failed: {errors}", command.get_program().display());
}
