//! The machine as the program was started on it: environment, clock, terminals. Read here and nowhere else, and handed
//! on as values.

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{anyhow, bail};
use derelict_core::ids::Timestamp;
use derelict_observe::{Environment, GitFiles};

/// Our own directory below the one for all state.
const NAME: &str = "derelict";

/// Where the state of a service without a home is.
const SERVER_STATE: &str = "/var/lib/derelict";

/// The configuration of the whole machine.
pub(crate) const SYSTEM_CONFIG: &str = "/etc/derelict/config.toml";

/// Where things are, as the environment says it.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    /// What the observer needs to know.
    pub(crate) environment: Environment,
    /// Where git is configured for all repositories.
    pub(crate) git: GitFiles,
    /// `XDG_STATE_HOME`, unchanged.
    pub(crate) state_home: Option<PathBuf>,
    /// The first directory of `STATE_DIRECTORY`, if it is absolute.
    pub(crate) state_directory: Option<PathBuf>,
}

/// What the environment wishes about colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColorWish {
    /// `CLICOLOR_FORCE` asks for it.
    Forced,
    /// `NO_COLOR` declines it, whatever else is set.
    Declined,
    /// Nothing is said.
    Unsaid,
}

/// Whether a person is there to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Stdin and stderr are terminals.
    Person,
    /// One of them is not.
    Nobody,
}

impl Host {
    /// Reads the environment.
    pub(crate) fn read() -> Self {
        let path = |name| std::env::var_os(name).map(PathBuf::from);
        Self {
            environment: Environment {
                home: path("HOME"),
                xdg_cache_home: path("XDG_CACHE_HOME"),
                devpod_home: path("DEVPOD_HOME"),
                xdg_config_home: path("XDG_CONFIG_HOME"),
                ssh_auth_sock: std::env::var_os("SSH_AUTH_SOCK"),
                path: std::env::var_os("PATH"),
                uid: rustix::process::geteuid().as_raw(),
            },
            git: GitFiles::usual(path("HOME"), path("XDG_CONFIG_HOME")),
            state_home: path("XDG_STATE_HOME"),
            state_directory: std::env::var_os("STATE_DIRECTORY")
                .and_then(|all| std::env::split_paths(&all).next())
                .filter(|path| path.is_absolute()),
        }
    }

    /// Where the journal and the history live, by the rules of XDG: a variable that is empty or relative is ignored.
    ///
    /// # Errors
    /// When neither `XDG_STATE_HOME` nor `HOME` is an absolute path.
    pub(crate) fn state(&self) -> anyhow::Result<PathBuf> {
        let given = self.state_home.as_deref().filter(|path| path.is_absolute()).map(|path| path.join(NAME));
        let usual = || self.environment.home().map(|home| home.join(".local/state").join(NAME));
        given.or_else(usual).ok_or_else(|| {
            anyhow!("cannot tell where the journal is: neither XDG_STATE_HOME nor HOME is an absolute path")
        })
    }

    /// The same for a server: what systemd made for the service comes first, and without a home it is the machine's own.
    ///
    /// # Errors
    /// When nothing says where, and this is not root.
    pub(crate) fn server_state(&self) -> anyhow::Result<PathBuf> {
        match (&self.state_directory, self.state()) {
            (Some(directory), _) => Ok(directory.clone()),
            (None, Ok(state)) => Ok(state),
            (None, Err(_)) if self.environment.uid == 0 => Ok(SERVER_STATE.into()),
            (None, Err(error)) => Err(error),
        }
    }
}

/// The instant of now.
///
/// # Errors
/// When the clock shows a time that cannot be written down.
pub(crate) fn now() -> anyhow::Result<Timestamp> {
    let Ok(since) = SystemTime::now().duration_since(UNIX_EPOCH) else {
        bail!("the clock shows a time before 1970");
    };
    let seconds = i64::try_from(since.as_secs()).map_err(|_| anyhow!("the clock shows a time that is no date"))?;
    Ok(Timestamp::new(seconds, since.subsec_nanos()))
}

/// A clock that only goes forward, for spans of time: it starts at zero here.
pub(crate) fn monotonic() -> impl Fn() -> Duration + Send + Sync + 'static {
    let start = Instant::now();
    move || start.elapsed()
}

/// Free bytes of the file system; `None` when it cannot be asked, which costs a number in the report.
pub(crate) fn free_space(path: &Path) -> Option<u64> {
    let about = rustix::fs::statvfs(path).ok()?;
    about.f_bfree.checked_mul(about.f_frsize)
}

/// What the environment wishes about colour.
pub(crate) fn color_wish() -> ColorWish {
    color_wish_of(std::env::var_os("NO_COLOR"), std::env::var_os("CLICOLOR_FORCE"))
}

fn color_wish_of(no_color: Option<OsString>, force: Option<OsString>) -> ColorWish {
    if no_color.is_some_and(|value| !value.is_empty()) {
        ColorWish::Declined
    } else if force.is_some_and(|value| !value.is_empty() && value != "0") {
        ColorWish::Forced
    } else {
        ColorWish::Unsaid
    }
}

/// Whether a person is there to be asked.
pub(crate) fn audience() -> Audience {
    if std::io::stdin().is_terminal() && std::io::stderr().is_terminal() { Audience::Person } else { Audience::Nobody }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(state_home: Option<&str>, home: Option<&str>) -> Host {
        let home = home.map(PathBuf::from);
        let environment = Environment {
            home,
            xdg_cache_home: None,
            devpod_home: None,
            xdg_config_home: None,
            ssh_auth_sock: None,
            path: None,
            uid: 0,
        };
        Host { environment, git: GitFiles::NONE, state_home: state_home.map(PathBuf::from), state_directory: None }
    }

    #[test]
    fn the_state_directory_follows_xdg() {
        assert_eq!(host(Some("/s"), Some("/h")).state().unwrap(), PathBuf::from("/s/derelict"));
        for ignored in [None, Some(""), Some("relative")] {
            let state = host(ignored, Some("/h")).state().unwrap();
            assert_eq!(state, PathBuf::from("/h/.local/state/derelict"), "{ignored:?}");
        }
        assert!(host(None, None).state().is_err());
    }

    #[test]
    fn declining_colour_wins_over_forcing_it() {
        let some = |text: &str| Some(OsString::from(text));
        assert_eq!(color_wish_of(some("1"), some("1")), ColorWish::Declined);
        assert_eq!(color_wish_of(some(""), some("1")), ColorWish::Forced);
        assert_eq!(color_wish_of(None, some("0")), ColorWish::Unsaid);
    }
}
