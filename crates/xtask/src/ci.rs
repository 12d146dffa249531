//! `cargo xtask ci`: everything that has to hold before a change is taken, the quick checks first and the tests last.

use std::process::Command;

use anyhow::{Context as _, bail};

/// The steps that cargo carries out itself, with what they are for.
const STEPS: [(&str, &[&str]); 5] = [
    ("format", &["fmt", "--all", "--check"]),
    ("lints", &["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]),
    ("documentation", &["doc", "--workspace", "--no-deps", "--document-private-items", "--quiet"]),
    ("documented examples", &["test", "--workspace", "--doc", "--quiet"]),
    ("tests", &["test", "--workspace", "--all-targets", "--no-fail-fast"]),
];

/// Runs all checks and tests; stops at the first step that fails.
pub(crate) fn run() -> anyhow::Result<()> {
    crate::tidy::run()?;
    dependencies()?;
    for (name, arguments) in STEPS {
        eprintln!("== {name}: cargo {}", arguments.join(" "));
        cargo(name, arguments)?;
    }
    Ok(())
}

/// Licences, duplicates and advisories, where the tool for it is installed.
fn dependencies() -> anyhow::Result<()> {
    let installed = Command::new("cargo-deny").arg("--version").output().is_ok_and(|output| output.status.success());
    if !installed {
        eprintln!("== dependencies: cargo-deny is not installed, so licences and advisories are not checked");
        return Ok(());
    }
    eprintln!("== dependencies: cargo deny check");
    cargo("dependencies", &["deny", "--workspace", "check", "bans", "licenses", "sources"])?;
    // The advisory database may be out of reach, which says nothing about the change.
    if cargo("advisories", &["deny", "--workspace", "check", "advisories"]).is_err() {
        eprintln!("== advisories: there are some, or the database could not be reached; see above");
    }
    Ok(())
}

fn cargo(name: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(arguments).env("RUSTDOCFLAGS", "-D warnings");
    let status = command.status().with_context(|| format!("cannot start cargo for {name}"))?;
    if !status.success() {
        bail!("{name} failed: {status}");
    }
    Ok(())
}
