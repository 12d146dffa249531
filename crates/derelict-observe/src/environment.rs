//! The part of the environment that says where things are, as values. Reading the environment
//! itself is the front end's business; what an empty or a relative variable means is told here.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// What the front end read, unchanged: an empty variable may be passed on as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// `HOME`.
    pub home: Option<PathBuf>,
    /// `XDG_CACHE_HOME`.
    pub xdg_cache_home: Option<PathBuf>,
    /// `DEVPOD_HOME`.
    pub devpod_home: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`.
    pub xdg_config_home: Option<PathBuf>,
    /// `SSH_AUTH_SOCK`.
    pub ssh_auth_sock: Option<OsString>,
    /// `PATH`.
    pub path: Option<OsString>,
    /// The user this process acts as.
    pub uid: u32,
}

impl Environment {
    /// The home directory, if it is an absolute path.
    #[must_use]
    pub fn home(&self) -> Option<&Path> {
        self.home.as_deref().filter(|home| home.is_absolute())
    }

    /// Where caches live by the XDG rules: an empty variable counts as unset, a relative one is
    /// ignored, and without one it is `.cache` below the home directory.
    #[must_use]
    pub fn cache_home(&self) -> Option<PathBuf> {
        let given = self.xdg_cache_home.as_deref().filter(|path| path.is_absolute());
        given.map(Path::to_path_buf).or_else(|| self.home().map(|home| home.join(".cache")))
    }

    /// Where devpod keeps its files: `DEVPOD_HOME` when it is not empty, else `.devpod` below the
    /// home directory.
    #[must_use]
    pub fn devpod_home(&self) -> Option<PathBuf> {
        let given = self.devpod_home.as_deref().filter(|path| !path.as_os_str().is_empty());
        given.map(Path::to_path_buf).or_else(|| self.home().map(|home| home.join(".devpod")))
    }

    /// The program of that name on `PATH`. Relative entries are passed over: what lies in the current
    /// directory is never run.
    #[must_use]
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        let directories = std::env::split_paths(self.path.as_ref()?);
        let candidates = directories.filter(|directory| directory.is_absolute()).map(|directory| directory.join(name));
        candidates.into_iter().find(|path| is_executable(path))
    }
}

fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests build what is looked at")]
mod tests {
    use super::*;

    fn environment() -> Environment {
        Environment {
            home: Some("/home/u".into()),
            xdg_cache_home: None,
            devpod_home: None,
            xdg_config_home: None,
            ssh_auth_sock: None,
            path: None,
            uid: 0,
        }
    }

    #[test]
    fn an_empty_variable_is_unset_and_a_relative_one_is_ignored() {
        for ignored in ["", "cache", "./cache"] {
            let environment = Environment { xdg_cache_home: Some(ignored.into()), ..environment() };
            assert_eq!(environment.cache_home(), Some("/home/u/.cache".into()), "{ignored:?}");
        }
        let set = Environment { xdg_cache_home: Some("/c".into()), ..environment() };
        assert_eq!(set.cache_home(), Some("/c".into()));
        let homeless = Environment { home: Some("".into()), ..environment() };
        assert_eq!((homeless.cache_home(), homeless.devpod_home()), (None, None));
    }

    #[test]
    fn devpod_lives_where_it_says() {
        assert_eq!(environment().devpod_home(), Some("/home/u/.devpod".into()));
        let empty = Environment { devpod_home: Some("".into()), ..environment() };
        assert_eq!(empty.devpod_home(), Some("/home/u/.devpod".into()));
        let set = Environment { devpod_home: Some("/d".into()), ..environment() };
        assert_eq!(set.devpod_home(), Some("/d".into()));
    }

    #[test]
    fn a_program_is_an_executable_file_in_an_absolute_entry() {
        let world = tempfile::tempdir().expect("because a temporary directory can be made");
        let (plain, good) = (world.path().join("plain"), world.path().join("good"));
        for directory in [&plain, &good] {
            std::fs::create_dir(directory).unwrap();
            std::fs::write(directory.join("devpod"), "").unwrap();
        }
        std::fs::set_permissions(good.join("devpod"), std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = std::env::join_paths([Path::new(""), Path::new("."), &plain, &good]).unwrap();
        let environment = Environment { path: Some(path), ..environment() };
        assert_eq!(environment.program("devpod"), Some(good.join("devpod")));
        assert_eq!(environment.program("docker"), None);
    }
}
