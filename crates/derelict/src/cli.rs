//! The command line: its flags and their words. What a flag means for a sweep is settled in [`crate::prune`].

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::host::Host;
use crate::terms::Words;
use crate::{exit::Failure, history, quarantine, text};

/// Safe garbage collection of workspace directories.
#[derive(Debug, Parser)]
#[command(
    name = "derelict",
    version,
    about = "Finds workspace directories that nobody owns any more, proves that deleting each one loses nothing, \
             and reclaims the disk.",
    before_long_help = EXAMPLES,
    disable_help_subcommand = true,
    max_term_width = 100
)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "Examples:
  derelict demo                   build a small estate in a temporary directory and prune it
  derelict prune                  show what may go from the devlaunch cache, and ask
  derelict prune -n               show it, change nothing
  derelict prune -y               remove what may go, without asking
  derelict explain PATH           why one directory stays or goes
  derelict history PATH           what past sweeps saw at a path, did with it, and why
  derelict config check           what is wrong with the configuration of unattended sweeps
  derelict reap                   sweep the configured roots once
  derelict serve                  sweep them at their intervals";

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show which clones may go and why the others stay, ask, remove, report
    Prune(Prune),
    /// Say all that is known of one directory, and which rule decided
    Explain(Explain),
    /// Tell what past sweeps saw, removed and kept, and why
    History(History),
    /// List what was set aside and waits out its grace
    Quarantine(Quarantine),
    /// Put back what was set aside or rescued
    Restore(Restore),
    /// List what was rescued before it was removed
    Rescued(Rescued),
    /// Build a small estate of real repositories and prune it
    Demo(Appearance),
    /// Sweep the configured roots once, unattended: for cron, a timer or a CronJob
    Reap(Reap),
    /// Sweep the configured roots at their intervals, with metrics and health
    Serve(Serve),
    /// Check or show the configuration of unattended sweeps, or print its schema
    Config(ConfigFlags),
}

/// Flags of `reap`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Reap {
    /// A configuration file, beside /etc/derelict/config.toml and your own
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Sweep this root alone; can be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) root: Vec<String>,

    /// Report what would go, remove nothing, whatever is armed
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,

    /// Go on although this circuit breaker tripped; the report names it
    #[arg(long, value_name = "BREAKER", value_parser = PossibleValuesParser::new(BREAKERS), hide_possible_values = true)]
    pub(crate) acknowledge: Vec<String>,

    /// Name every directory
    #[arg(short = 'v', long)]
    pub(crate) verbose: bool,

    /// Print one JSON object instead of the report
    #[arg(long)]
    pub(crate) json: bool,

    /// Write the metrics of this run to a file that node_exporter reads
    #[arg(long, value_name = "FILE")]
    pub(crate) metrics_textfile: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) appearance: Appearance,
}

/// Flags of `serve`.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// A configuration file, beside /etc/derelict/config.toml and your own
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) appearance: Appearance,
}

/// Flags of `config`.
#[derive(Debug, Args)]
pub(crate) struct ConfigFlags {
    /// What to do with it
    #[arg(value_enum)]
    pub(crate) action: ConfigAction,

    /// A configuration file, beside /etc/derelict/config.toml and your own
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Print one JSON object instead
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) appearance: Appearance,
}

/// What to do with the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConfigAction {
    /// Say what is wrong with it
    Check,
    /// Print what is in force, and where each value is from
    Show,
    /// Print its JSON Schema
    Schema,
}

/// Flags of `prune`.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Prune {
    /// A cache, one of its clones, or the name of one [default: the devlaunch cache]
    #[arg(value_name = "PATH|NAME")]
    pub(crate) place: Option<PathBuf>,

    /// Do not ask before removing what the plan shows
    #[arg(short = 'y', long, conflicts_with = "dry_run")]
    pub(crate) yes: bool,

    /// Let unsaved work go too, if it is still what the plan shows
    #[arg(long)]
    pub(crate) force: bool,

    /// Show the plan, change nothing
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,

    /// Print one JSON object instead of the report; never asks
    #[arg(long)]
    pub(crate) json: bool,

    /// Also name what was not looked at
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,

    /// Remove at most this many directories
    #[arg(long, value_name = "N")]
    pub(crate) max_removals: Option<u64>,

    /// Remove directories of at most this many entries in all
    #[arg(long, value_name = "N")]
    pub(crate) max_entries: Option<u64>,

    /// Remove at most this much, for example 10GiB
    #[arg(long, value_name = "SIZE", value_parser = text::parse_bytes)]
    pub(crate) max_bytes: Option<u64>,

    /// Set aside instead of removing: what may go is discarded by a run after SPAN, unless somebody wants it back
    /// [default SPAN: 7d]
    #[arg(
        long,
        value_name = "SPAN",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "7d",
        value_parser = quarantine::parse_span
    )]
    pub(crate) quarantine: Option<Duration>,

    /// Let unsaved work go too, after all of it was archived in DIR, read back and compared
    /// [default DIR: `rescued` beside the journal]
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, conflicts_with_all = ["force", "quarantine"])]
    pub(crate) rescue: Option<Option<PathBuf>>,

    #[command(flatten)]
    pub(crate) words: Words,

    /// Go on although this circuit breaker tripped; the report names it
    #[arg(long, value_name = "BREAKER", value_parser = PossibleValuesParser::new(BREAKERS), hide_possible_values = true)]
    pub(crate) acknowledge: Vec<String>,

    #[command(flatten)]
    pub(crate) appearance: Appearance,
}

const EXIT_CODES: &str = "Exit codes:
  0  done, nothing to do, or answered no
  1  something was refused, busy or could not be decided
  2  usage, configuration or a path that is no cache
  3  a circuit breaker tripped, or an owner source or the journal was lost";

/// The breakers by the names an operator acknowledges them by.
const BREAKERS: [&str; 6] =
    ["empty-source", "source-shrank", "mass-orphaning", "clock-stepped", "root-replaced", "source-clock"];

/// Flags of `explain`.
#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// The directory to explain, or the name of its workspace
    #[arg(value_name = "PATH|NAME")]
    pub(crate) place: PathBuf,

    #[command(flatten)]
    pub(crate) words: Words,

    /// Print one JSON object instead of the report
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) appearance: Appearance,
}

/// Flags of `history`.
#[derive(Debug, Args)]
pub(crate) struct History {
    /// A configuration file, beside /etc/derelict/config.toml and your own
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// A sweep by its id, or a path that sweeps may have seen [default: the last sweeps]
    #[arg(value_name = "SWEEP|PATH")]
    pub(crate) about: Option<OsString>,

    /// Only what was planned to go and was saved by the re-check
    #[arg(long, conflicts_with = "removed")]
    pub(crate) near_misses: bool,

    /// Only sweeps of the root with this name
    #[arg(long, value_name = "NAME")]
    pub(crate) root: Option<String>,

    /// Only what went
    #[arg(long)]
    pub(crate) removed: bool,

    /// Only sweeps that began no longer ago, for example 12h or 30d
    #[arg(long, value_name = "SPAN", value_parser = history::parse_span)]
    pub(crate) since: Option<Duration>,

    /// Print one JSON object instead of the report
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) appearance: Appearance,
}

/// Flags of `quarantine`.
#[derive(Debug, Args)]
pub(crate) struct Quarantine {
    /// Print one JSON object instead of the list
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) state: StateDir,

    #[command(flatten)]
    pub(crate) appearance: Appearance,
}

/// Flags of `restore`.
#[derive(Debug, Args)]
pub(crate) struct Restore {
    /// The path a directory had, its number in the list of `derelict quarantine`, or an entry of `derelict rescued`
    #[arg(value_name = "PATH|NUMBER|ENTRY")]
    pub(crate) what: PathBuf,

    /// Give a rescued entry back at this place, where nothing may lie [default: where it was]
    #[arg(long, value_name = "DIR")]
    pub(crate) to: Option<PathBuf>,

    /// Where the entry lies, if `prune` was told to rescue elsewhere
    #[arg(long, value_name = "DIR")]
    pub(crate) from: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) state: StateDir,

    #[command(flatten)]
    pub(crate) appearance: Appearance,
}

/// Flags of `rescued`.
#[derive(Debug, Args)]
pub(crate) struct Rescued {
    /// Where the entries lie, if `prune` was told to rescue elsewhere
    #[arg(long, value_name = "DIR")]
    pub(crate) from: Option<PathBuf>,

    /// Delete entries that are older than SPAN, for example 90d, after asking; nothing else ever deletes one
    #[arg(long, value_name = "SPAN", value_parser = quarantine::parse_span)]
    pub(crate) expire: Option<Duration>,

    /// Do not ask before deleting
    #[arg(short = 'y', long, requires = "expire")]
    pub(crate) yes: bool,

    /// Print one JSON object instead of the list
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) state: StateDir,

    #[command(flatten)]
    pub(crate) appearance: Appearance,
}

/// Whose journal is meant.
#[derive(Debug, Args)]
pub(crate) struct StateDir {
    /// The directory of the journal [default: that of `derelict prune`]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

impl StateDir {
    /// The directory that was named, or the usual one.
    ///
    /// # Errors
    /// A usage [`Failure`] when the environment names none.
    pub(crate) fn state(&self, host: &Host) -> Result<PathBuf, Failure> {
        self.state.clone().map_or_else(|| host.state().map_err(Failure::usage), Ok)
    }
}

/// How the output looks.
#[derive(Debug, Args)]
pub(crate) struct Appearance {
    /// When to use colour: auto, always or never
    #[arg(long, value_name = "WHEN", default_value = "auto", value_enum, hide_possible_values = true)]
    pub(crate) color: Color,

    /// Do not show progress on stderr
    #[arg(long)]
    pub(crate) no_progress: bool,
}

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Whether the arguments ask for JSON, when they could not be parsed: errors have a machine-readable twin too.
pub(crate) fn wants_json(arguments: &[OsString]) -> bool {
    arguments.iter().take_while(|argument| *argument != "--").any(|argument| argument == "--json")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use derelict_core::ids::Timestamp;
    use derelict_core::outcome::Breaker;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_breaker_can_be_acknowledged_by_its_name() {
        let at = Timestamp::new(0, 0);
        let all = [
            Breaker::EmptySource { candidates: 1 },
            Breaker::SourceShrank { before: 1, now: 0 },
            Breaker::MassOrphaning { before: 1, now: 0 },
            Breaker::ClockStepped { last: at, now: at },
            Breaker::RootReplaced,
            Breaker::SourceClock { source: at, here: at },
        ];
        assert_eq!(all.map(|breaker| breaker.name()), BREAKERS);
    }

    #[test]
    fn a_dry_run_cannot_be_a_live_one() {
        assert!(Cli::try_parse_from(["derelict", "prune", "-n", "-y"]).is_err());
        assert!(Cli::try_parse_from(["derelict", "prune", "-y", "--max-bytes", "10GiB"]).is_ok());
    }

    #[test]
    fn the_grace_of_a_quarantine_can_be_left_out() {
        let grace = |flags: &[&str]| {
            let cli = Cli::try_parse_from(["derelict", "prune"].iter().chain(flags)).ok()?;
            match cli.command {
                Command::Prune(flags) => Some(flags.quarantine.map(|span| span.as_secs() / 3600)),
                Command::Explain(_)
                | Command::History(_)
                | Command::Quarantine(_)
                | Command::Restore(_)
                | Command::Rescued(_)
                | Command::Demo(_)
                | Command::Reap(_)
                | Command::Serve(_)
                | Command::Config(_) => None,
            }
        };
        assert_eq!(grace(&[]), Some(None));
        assert_eq!(grace(&["--quarantine"]), Some(Some(7 * 24)));
        assert_eq!(grace(&["--quarantine=12h"]), Some(Some(12)));
        assert_eq!(grace(&["--quarantine=soon"]), None);
        // Not the grace, but the place.
        assert_eq!(grace(&["--quarantine", "12h"]), Some(Some(7 * 24)));
    }

    #[test]
    fn the_readme_shows_the_help_as_it_is() {
        let readme = include_str!("../../../README.md");
        let mut command = Cli::command().term_width(100);
        command.build();
        let prune = command.find_subcommand_mut("prune").expect("because `prune` is a command");
        let help = prune.render_help().to_string();
        let help = help.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
        assert!(readme.contains(help.trim_end()), "README.md does not show this text:\n{help}");
    }
}
