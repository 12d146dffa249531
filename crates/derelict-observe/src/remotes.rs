//! Asks remotes for their refs, by `git ls-remote`: only when the operator wants it, each address once in a run, and
//! never by the leave of a repository that is examined. Not here: which address that is, and what the answer means.
//!
//! The program is the operator's own git. It gets an address that we have read and nothing else: it stands in no
//! repository, so that no repository's helper, hook, command for ssh or rewriting rule is ever obeyed. The user's own
//! configuration is, for it holds the keys to private remotes; the machine's is not, and nothing asks questions.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use derelict_git::{AskRemote, ListRemote, RemoteRefs, Terms};

use crate::environment::Environment;
use crate::exec::{self, Inherits, Invocation};

/// How long one remote may take. A forge answers within a second or two, and one that is not there is not waited for
/// again in the same run.
const DEADLINE: Duration = Duration::from_secs(20);

/// How much one remote may list: half a million refs.
const LISTING_BYTES: usize = 32 * 1024 * 1024;

/// The ways to another machine. Whatever else an address names would start a program of its choice or read files.
const PROTOCOLS: &str = "https:http:ssh:git";

/// What every call begins with.
const GIT: [&str; 8] = [
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.pager=cat",
    "-c",
    "credential.interactive=false",
];

/// A program that answers no question, for those that ask one.
const REFUSER: &str = "/bin/false";

type Answer = Result<Arc<RemoteRefs>, String>;

/// Remembers what it was told.
#[derive(Debug)]
pub(crate) struct Remotes {
    git: Option<PathBuf>,
    environment: Environment,
    deadline: Duration,
    /// One answer for each address, however many ask for it at once.
    known: Mutex<HashMap<String, Arc<OnceLock<Answer>>>>,
}

/// Somebody to ask, if these terms allow it.
pub(crate) fn asked_under(terms: &Terms, environment: &Environment) -> Option<Arc<Remotes>> {
    match terms.ask_remote {
        AskRemote::No => None,
        AskRemote::Yes => Some(Arc::new(Remotes::new(environment.clone()))),
    }
}

/// The same as `derelict-git` knows them.
pub(crate) fn asker(remotes: Option<&Arc<Remotes>>) -> Option<Arc<dyn ListRemote>> {
    remotes.map(|remotes| Arc::clone(remotes) as Arc<dyn ListRemote>)
}

impl Remotes {
    pub(crate) fn new(environment: Environment) -> Self {
        Self { git: environment.program("git"), environment, deadline: DEADLINE, known: Mutex::default() }
    }

    fn ask(&self, address: &str) -> Answer {
        let git = self.git.as_deref().ok_or("there is no git on PATH to ask it with")?;
        let home = self.environment.home().map(|home| home.as_os_str());
        let config = self.environment.xdg_config_home.as_deref().filter(|path| path.is_absolute());
        let text = |text: &'static str| Some(OsStr::new(text));
        let variables = [
            ("PATH", self.environment.path.as_deref()),
            ("HOME", home),
            ("XDG_CONFIG_HOME", config.map(|path| path.as_os_str())),
            ("SSH_AUTH_SOCK", self.environment.ssh_auth_sock.as_deref()),
            ("LC_ALL", text("C")),
            // No repository is looked for, from wherever it is called.
            ("GIT_DIR", text("/dev/null")),
            ("GIT_CONFIG_NOSYSTEM", text("1")),
            ("GIT_ALLOW_PROTOCOL", text(PROTOCOLS)),
            ("GIT_TERMINAL_PROMPT", text("0")),
            ("GIT_ASKPASS", text(REFUSER)),
            ("SSH_ASKPASS", text(REFUSER)),
            ("SSH_ASKPASS_REQUIRE", text("force")),
            ("GCM_INTERACTIVE", text("never")),
        ];
        let arguments = [&GIT[..], &["ls-remote", "--refs", "--", address]].concat();
        let printed = exec::run(&Invocation {
            program: git,
            arguments: &arguments,
            inherits: Inherits::Nothing,
            variables: &variables,
            deadline: self.deadline,
            output_bytes: LISTING_BYTES,
        });
        RemoteRefs::parse(&printed.map_err(|error| error.to_string())?).map(Arc::new)
    }
}

impl ListRemote for Remotes {
    fn list(&self, address: &str) -> Answer {
        let known = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.entry(address.to_owned()).or_default().clone()
        };
        known.get_or_init(|| self.ask(address)).clone()
    }
}
