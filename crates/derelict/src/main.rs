//! The program: reads the command line, runs one command, says what went wrong, and ends with its exit code.
//!
//! The front end contains no rule about what is garbage: it asks `derelict-core`, shows what it says, and carries out
//! what a person agreed to.

mod act;
mod aftermath;
mod cli;
mod config;
mod console;
mod demo;
mod estate;
mod exit;
mod explain;
mod findings;
mod history;
mod host;
mod json;
mod last_sweep;
mod ledger;
mod out;
mod progress;
mod proof;
mod prune;
mod quarantine;
mod reaper;
mod report;
mod rescued;
mod restore;
mod signals;
mod telemetry;
mod terms;
mod text;
mod words;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser as _;

use crate::cli::{Cli, Command};
use crate::console::Console;
use crate::exit::{Exit, Failure};
use crate::host::Host;
use crate::out::{Out, Talk};
use crate::prune::Request;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    match Cli::try_parse_from(&arguments) {
        Ok(cli) => run(cli).into(),
        Err(error) => usage(&arguments, &error).into(),
    }
}

/// Whether a command speaks JSON, and by which name it then goes.
#[derive(Clone, Copy)]
enum Twin {
    People,
    Programs(&'static str),
}

fn run(cli: Cli) -> Exit {
    let twin_of = |json, name| if json { Twin::Programs(name) } else { Twin::People };
    let (appearance, twin) = match &cli.command {
        Command::Prune(flags) => (&flags.appearance, twin_of(flags.json, "prune")),
        Command::Explain(flags) => (&flags.appearance, twin_of(flags.json, "explain")),
        Command::History(flags) => (&flags.appearance, twin_of(flags.json, "history")),
        Command::Quarantine(flags) => (&flags.appearance, twin_of(flags.json, "quarantine")),
        Command::Restore(flags) => (&flags.appearance, Twin::People),
        Command::Rescued(flags) => (&flags.appearance, twin_of(flags.json, "rescued")),
        Command::Demo(appearance) => (appearance, Twin::People),
        Command::Reap(flags) => (&flags.appearance, twin_of(flags.json, "reap")),
        Command::Serve(flags) => (&flags.appearance, Twin::People),
        Command::Config(flags) => (&flags.appearance, twin_of(flags.json, "config")),
    };
    let console = Console::new(appearance, host::color_wish());
    let mut console = match twin {
        Twin::People => console,
        Twin::Programs(_) => console.quiet(),
    };
    let audience = host::audience();
    let ended = match cli.command {
        Command::Prune(flags) => prune::run(&Request::from_flags(flags, audience), &Host::read(), &mut console),
        Command::Explain(flags) => explain::run(&flags, &Host::read(), &mut console),
        Command::History(flags) => tell_history(&flags, &mut console),
        Command::Quarantine(flags) => quarantine::run(&flags, &Host::read(), &mut console),
        Command::Restore(flags) => restore::run(&flags, &Host::read(), &mut console),
        Command::Rescued(flags) => rescued::run(&flags, audience, &Host::read(), &mut console),
        Command::Demo(_) => demo::run(audience, &mut console),
        Command::Reap(flags) => reaper::reap::run(&flags, &Host::read(), &mut console),
        Command::Serve(flags) => reaper::serve::run(&flags, &Host::read()),
        Command::Config(flags) => config::command::run(&flags, &mut console),
    };
    let exit = ended.unwrap_or_else(|failure| fail(&failure, twin, &mut console));
    hand_on(console.out, exit)
}

/// The history is where the configuration says that state is, and beside it in the ledger that it names.
fn tell_history(flags: &cli::History, console: &mut Console) -> Result<Exit, Failure> {
    let config = config::load(&config::command::sources(flags.config.clone())).map_err(Failure::usage)?;
    let state = reaper::state(&config, &Host::read())?;
    history::run(flags, &state, &config.ledger, console)
}

/// Says why it did not work, to people and, if asked, to programs.
fn fail(failure: &Failure, twin: Twin, console: &mut Console) -> Exit {
    let message = failure.message();
    match twin {
        Twin::People => {}
        Twin::Programs(command) => console.out.line(json::error(command, &message, failure.exit)),
    }
    console.out.flush();
    console.talk.error(&message);
    failure.exit
}

/// Hands on the rest of the report. One that is lost for another reason than a reader's going away is an error.
fn hand_on(out: Out, exit: Exit) -> Exit {
    match out.finish() {
        Ok(()) => exit,
        Err(error) => {
            Talk.error(&format!("cannot write the report: {error}"));
            exit.max(Exit::Incomplete)
        }
    }
}

/// Help, the version, or what is wrong with the command line.
fn usage(arguments: &[OsString], error: &clap::Error) -> Exit {
    let mut out = Out::stdout();
    if !error.use_stderr() {
        out.line(error.to_string().trim_end());
        return hand_on(out, Exit::Done);
    }
    if cli::wants_json(arguments) {
        let command = arguments.get(1).and_then(|name| name.to_str()).unwrap_or("derelict");
        // What follows the first paragraph are hints for people.
        let text = error.to_string();
        let what = text.split("\n\n").next().unwrap_or(&text);
        out.line(json::error(command, what.strip_prefix("error: ").unwrap_or(what).trim_end(), Exit::Usage));
    }
    Talk.usage(&error.to_string());
    hand_on(out, Exit::Usage)
}
