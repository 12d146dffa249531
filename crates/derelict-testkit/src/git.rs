//! Stock `git`, `sh` and friends in an environment that no setting of the machine reaches. Not here:
//! what is built with them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Settings that every `git` of the tests runs with: nothing of the machine's, nobody asked, and no
/// maintenance in the background that would still sit in a clone when the test goes on.
const ENVIRONMENT: [(&str, &str); 23] = [
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
    ("GIT_CONFIG_SYSTEM", "/dev/null"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_AUTHOR_NAME", "t"),
    ("GIT_AUTHOR_EMAIL", "t@example.org"),
    ("GIT_AUTHOR_DATE", "2026-07-01T00:00:00Z"),
    ("GIT_COMMITTER_NAME", "t"),
    ("GIT_COMMITTER_EMAIL", "t@example.org"),
    ("GIT_COMMITTER_DATE", "2026-07-01T00:00:00Z"),
    ("GIT_CONFIG_COUNT", "5"),
    ("GIT_CONFIG_KEY_0", "gc.auto"),
    ("GIT_CONFIG_VALUE_0", "0"),
    ("GIT_CONFIG_KEY_1", "maintenance.auto"),
    ("GIT_CONFIG_VALUE_1", "false"),
    ("GIT_CONFIG_KEY_2", "safe.directory"),
    ("GIT_CONFIG_VALUE_2", "*"),
    ("GIT_CONFIG_KEY_3", "init.defaultBranch"),
    ("GIT_CONFIG_VALUE_3", "main"),
    ("GIT_CONFIG_KEY_4", "protocol.file.allow"),
    ("GIT_CONFIG_VALUE_4", "always"),
    ("LC_ALL", "C"),
    ("HOME", "/nonexistent"),
];

/// What every script may use.
const PRELUDE: &str = "set -eu\ncommit() { git add -A; git commit -qm \"$1\"; }\n";

/// Where a program of the machine is.
///
/// # Panics
/// When it is not on `PATH`: the tests need it, and a test that is left out proves nothing.
#[must_use]
pub fn which(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").expect("because a machine that runs tests has a PATH");
    std::env::split_paths(&path)
        .map(|dir| dir.join(name))
        .find(|program| program.is_file())
        .unwrap_or_else(|| panic!("the tests need `{name}` on PATH"))
}

/// A program of the machine, with the clean environment and nothing else.
#[must_use]
pub fn tool(name: &str) -> Command {
    let mut command = Command::new(which(name));
    command.env_clear().envs(ENVIRONMENT).stdin(Stdio::null());
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command
}

/// Runs `git` in a directory.
///
/// # Panics
/// When it fails, with all it said.
pub fn git<A: AsRef<OsStr>>(dir: impl AsRef<Path>, args: &[A]) {
    let output = tool("git").arg("-C").arg(dir.as_ref()).args(args).output();
    succeeded(output.expect("because git can be started"), &format!("git in {}", dir.as_ref().display()));
}

/// Runs `git` in a directory and gives what it printed, without the last newline.
///
/// # Panics
/// When it fails, with all it said.
#[must_use]
pub fn git_says<A: AsRef<OsStr>>(dir: impl AsRef<Path>, args: &[A]) -> String {
    let output = tool("git").arg("-C").arg(dir.as_ref()).args(args).output();
    let output = succeeded(output.expect("because git can be started"), &format!("git in {}", dir.as_ref().display()));
    let text = String::from_utf8(output.stdout).expect("because git printed text");
    text.trim_end_matches('\n').to_owned()
}

/// Runs a shell script in a directory. Every command of it has to succeed; `commit MESSAGE` commits
/// all there is.
///
/// # Panics
/// When it fails, with the script and all it said.
pub fn shell(dir: impl AsRef<Path>, script: &str, variables: &[(&str, &Path)]) {
    let mut command = tool("sh");
    command.current_dir(dir.as_ref()).arg("-c").arg(format!("{PRELUDE}{script}"));
    command.envs(variables.iter().copied());
    succeeded(command.output().expect("because sh can be started"), script);
}

fn succeeded(output: Output, what: &str) -> Output {
    assert!(
        output.status.success(),
        "{what}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::{Scratch, write};

    #[test]
    fn a_failing_command_in_the_middle_of_a_script_fails_the_script() {
        let scratch = Scratch::new();
        let failed = std::panic::catch_unwind(|| shell(scratch.path(), "false; true", &[]));
        assert!(failed.is_err());
    }

    #[test]
    fn commits_are_the_same_on_every_machine() {
        let scratch = Scratch::new();
        shell(scratch.path(), "git init -q r; cd r; echo a >a; commit one", &[]);
        let id = git_says(scratch.path().join("r"), &["rev-parse", "HEAD"]);
        write(scratch.path().join("again/a"), "a\n");
        shell(scratch.path().join("again"), "git init -q; commit one", &[]);
        assert_eq!(git_says(scratch.path().join("again"), &["rev-parse", "HEAD"]), id);
    }
}
