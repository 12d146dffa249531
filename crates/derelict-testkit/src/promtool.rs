//! Prometheus' own word on metrics and alert rules: `promtool`, of the Debian package `prometheus`. Where it is missing
//! a test that needs it fails and says so.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Panics unless the text is what Prometheus reads, without a word of its linter.
pub fn check_metrics(text: &str) {
    let mut promtool = promtool(&["check", "metrics"]);
    let mut child = started(promtool.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn());
    let mut stdin = child.stdin.take().expect("because it was asked for");
    // A tool that does not read to the end says why, and that is what the test is to show.
    let _ = stdin.write_all(text.as_bytes());
    drop(stdin);
    content("metrics", &child.wait_with_output().expect("because the child was started"), text);
}

/// Panics unless the file holds alert rules that Prometheus can load.
pub fn check_rules(file: &Path) {
    content("rules", &run(&["check", "rules"], file), &file.display().to_string());
}

/// Panics unless every test of the file, in promtool's format, passes.
pub fn test_rules(file: &Path) {
    content("tests of rules", &run(&["test", "rules"], file), &file.display().to_string());
}

fn promtool(arguments: &[&str]) -> Command {
    let mut command = Command::new("promtool");
    command.args(arguments);
    command
}

fn run(arguments: &[&str], file: &Path) -> Output {
    started(promtool(arguments).arg(file).output())
}

fn started<T>(result: std::io::Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("cannot start promtool, of the Debian package prometheus: {error}"))
}

fn content(what: &str, output: &Output, of: &str) {
    let said = [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat();
    assert!(output.status.success(), "promtool is not content with these {what}: {said}\n{of}");
}
