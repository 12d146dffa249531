//! The one place that calls an installed `git`: building repositories for the demo. The product reads repositories
//! itself and never starts git.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

/// Who makes the demo's commits.
const IDENTITY: [(&str, &str); 4] = [
    ("GIT_AUTHOR_NAME", "demo"),
    ("GIT_AUTHOR_EMAIL", "demo@example.org"),
    ("GIT_COMMITTER_NAME", "demo"),
    ("GIT_COMMITTER_EMAIL", "demo@example.org"),
];

/// Runs git in a directory, by no configuration but the repository's own.
///
/// # Errors
/// When there is no git, or when it fails: with what it said.
pub(crate) fn git<A: AsRef<OsStr>>(directory: &Path, arguments: &[A]) -> anyhow::Result<()> {
    #[expect(clippy::disallowed_methods, reason = "the demo alone may call an installed git")]
    let mut command = Command::new("git");
    let foreign = std::env::vars_os().map(|(name, _)| name).filter(|name| is_of_git(name));
    for name in foreign {
        command.env_remove(name);
    }
    command.envs(IDENTITY).envs([("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_NOSYSTEM", "1")]);
    command.current_dir(directory).args(arguments).stdin(Stdio::null());
    let output = command.output().context("the demo needs an installed git to build its repositories")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let deed = arguments.first().map_or_else(String::new, |deed| deed.as_ref().to_string_lossy().into_owned());
        bail!("git {deed} failed in {}: {}", directory.display(), said.trim());
    }
    Ok(())
}

fn is_of_git(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"GIT_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_says_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let error = git(directory.path(), &["rev-parse", "HEAD"]).unwrap_err().to_string();
        assert!(error.starts_with("git rev-parse failed in ") && error.contains("not a git repository"), "{error}");
    }
}
