//! What is said outside of the clones, put together from what the machine, the command line and the configuration say:
//! git's own files and the operator's words. What the words mean is in `derelict-git`.

use derelict_observe::{AskRemote, IgnoredChanges, Rebuildable, Terms};

use crate::host::Host;

/// The operator's words, as they are given on the command line.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Words {
    /// Let changes of tracked files that match go, as in a .gitignore; can be repeated
    #[arg(long, value_name = "PATTERN", value_parser = a_pattern)]
    ignore_changes: Vec<String>,

    /// Know ignored directories to be made again, by a file beside them or DIR/FILE in them; can be repeated
    #[arg(long, value_name = "DIR=WITNESS", value_parser = an_entry)]
    rebuildable: Vec<String>,

    /// Ask the remotes, with `git ls-remote`, whether they still have the branches on whose word a commit is saved
    #[arg(long)]
    ask_remote: bool,
}

impl Words {
    /// The terms of a run on this machine.
    pub(crate) fn terms(&self, host: &Host) -> Terms {
        let [changes, entries] = [&self.ignore_changes, &self.rebuildable];
        Terms {
            git: host.git.clone(),
            ignored_changes: IgnoredChanges::parse(changes).expect("because each was read when it was given"),
            rebuildable: Rebuildable::parse(entries).expect("because each was read when it was given"),
            ask_remote: if self.ask_remote { AskRemote::Yes } else { AskRemote::No },
        }
    }
}

fn a_pattern(text: &str) -> Result<String, String> {
    IgnoredChanges::parse(&[text]).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

fn an_entry(text: &str) -> Result<String, String> {
    Rebuildable::parse(&[text]).map(|_| text.to_owned()).map_err(|error| error.to_string())
}
