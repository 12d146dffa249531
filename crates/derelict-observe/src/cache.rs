//! Finds the devlaunch cache that is meant: the one at its usual place, one that is named by path, or
//! the one that holds a clone. What lies in it is the scan's business.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use derelict_core::ids::escaped;

use crate::environment::Environment;
use crate::scan::{BARE, is_clone_name};

/// The directory of a cache that holds the clones.
const REPOS: &str = "repos";

/// The file of a cache that holds the records.
const METADATA: &str = "metadata.json";

/// The name of the cache below the directory of all caches.
const NAME: &str = "devlaunch";

/// A devlaunch cache, by its canonical paths: one that is reached through a symlink is the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    home: PathBuf,
    repos: PathBuf,
    only: Option<PathBuf>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Located {
    /// A cache.
    Cache(Cache),
    /// There is no cache, or none with clones in it, at this place; that is nothing to do and no error.
    Nothing {
        /// Where it would be.
        place: PathBuf,
    },
}

/// Why no cache is meant.
#[derive(Debug, thiserror::Error)]
pub enum LocateError {
    /// The environment names no place.
    #[error("cannot tell where the cache is: neither XDG_CACHE_HOME nor HOME is an absolute path")]
    NoHome,
    /// Something on the way cannot be read.
    #[error("cannot read {}: {source}", escaped(.path))]
    Unreadable {
        /// What.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The path leads to nothing that is part of a devlaunch cache.
    #[error("{} is no devlaunch cache, no repos directory of one and no clone in one", escaped(.path))]
    NotACache {
        /// The path.
        path: PathBuf,
    },
    /// The path lies in a cache, and is neither all of it nor one clone.
    #[error("{} lies in the cache {} and is not one of its clones", escaped(.path), escaped(.cache))]
    NotAClone {
        /// The path.
        path: PathBuf,
        /// The cache.
        cache: PathBuf,
    },
    /// The name is neither that of a clone nor a path.
    #[error("{} is neither a path nor the name of a clone in {}", escaped(.name), escaped(.cache))]
    UnknownName {
        /// The name.
        name: PathBuf,
        /// Where it was looked for.
        cache: PathBuf,
    },
    /// Several directories go by that name.
    #[error("{} could be {}; give the path of the one that is meant", escaped(.name), listed(.places))]
    Ambiguous {
        /// The name.
        name: PathBuf,
        /// All that go by it.
        places: Vec<PathBuf>,
    },
    /// The cache belongs to another user, whose workspaces this one's devpod does not list.
    #[error(
        "the cache {} belongs to user {owner}, and this process acts as user {uid}, whose devpod lists other workspaces",
        escaped(.cache)
    )]
    Foreign {
        /// The cache.
        cache: PathBuf,
        /// Its owner.
        owner: u32,
        /// Who we are.
        uid: u32,
    },
}

fn listed(places: &[PathBuf]) -> String {
    let shown: Vec<String> = places.iter().map(|path| escaped(path)).collect();
    shown.join(" or ")
}

impl Cache {
    /// Finds the cache. Without an argument it is the one at its usual place. An argument is the path
    /// of a cache, of its `repos` directory or of one clone, or the name of a clone in the usual cache.
    ///
    /// # Errors
    /// [`LocateError`] when the argument leads nowhere, to something else, or to several things.
    pub fn locate(argument: Option<&Path>, environment: &Environment) -> Result<Located, LocateError> {
        let usual = environment.cache_home().map(|home| home.join(NAME));
        let Some(argument) = argument else {
            let place = usual.ok_or(LocateError::NoHome)?;
            return match resolve(&place)? {
                Some(home) => Self::whole(home, environment),
                None => Ok(Located::Nothing { place }),
            };
        };
        let usual = match &usual {
            Some(place) => resolve(place)?,
            None => None,
        };
        let by_name = match (single_name(argument), &usual) {
            (Some(name), Some(home)) => clones_named(name, home)?,
            (None, _) | (_, None) => Vec::new(),
        };
        let by_path = resolve(argument)?;
        let mut places: Vec<PathBuf> = by_name.into_iter().chain(by_path).collect();
        places.sort();
        places.dedup();
        match places.as_slice() {
            [] if single_name(argument).is_none() => Err(LocateError::Unreadable {
                path: argument.to_path_buf(),
                source: io::Error::from(io::ErrorKind::NotFound),
            }),
            [] => Err(LocateError::UnknownName {
                name: argument.to_path_buf(),
                cache: usual.unwrap_or_else(|| PathBuf::from("the usual place")),
            }),
            [place] => Self::containing(place, usual.as_deref(), environment),
            [_, _, ..] => Err(LocateError::Ambiguous { name: argument.to_path_buf(), places }),
        }
    }

    /// The cache directory itself.
    #[must_use]
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The directory below which the clones lie, owner by owner and repository by repository.
    #[must_use]
    pub fn repos(&self) -> &Path {
        &self.repos
    }

    /// The file that holds the records.
    #[must_use]
    pub fn metadata(&self) -> PathBuf {
        self.home.join(METADATA)
    }

    /// The one clone that was asked for, relative to [`Cache::repos`]; `None` when all were.
    #[must_use]
    pub fn only(&self) -> Option<&Path> {
        self.only.as_deref()
    }

    /// A canonical path that must be a cache, a `repos` directory, or a clone.
    fn containing(place: &Path, usual: Option<&Path>, environment: &Environment) -> Result<Located, LocateError> {
        if usual == Some(place) {
            return Self::whole(place.to_path_buf(), environment);
        }
        let Some((home, repos)) = cache_of(place, usual)? else {
            return Err(LocateError::NotACache { path: place.to_path_buf() });
        };
        if place == home || place == repos {
            return Self::whole(home, environment);
        }
        let below = place.strip_prefix(&repos).ok().filter(|below| below.components().count() == 3);
        let only = below.filter(|below| below.file_name().is_some_and(is_clone_name) && place.is_dir());
        let Some(only) = only.map(Path::to_path_buf) else {
            return Err(LocateError::NotAClone { path: place.to_path_buf(), cache: home });
        };
        owned(&home, environment)?;
        Ok(Located::Cache(Self { only: Some(only), home, repos }))
    }

    fn whole(home: PathBuf, environment: &Environment) -> Result<Located, LocateError> {
        owned(&home, environment)?;
        match resolve(&home.join(REPOS))? {
            Some(repos) => Ok(Located::Cache(Self { home, repos, only: None })),
            None => Ok(Located::Nothing { place: home }),
        }
    }
}

/// The canonical path, or `None` when nothing is there.
fn resolve(path: &Path) -> Result<Option<PathBuf>, LocateError> {
    match std::fs::canonicalize(path) {
        Ok(canonical) => Ok(Some(canonical)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(LocateError::Unreadable { path: path.to_path_buf(), source }),
    }
}

/// A name and not a path: one component, without a slash.
fn single_name(argument: &Path) -> Option<&OsStr> {
    let has_slash = argument.as_os_str().as_encoded_bytes().contains(&b'/');
    match argument.components().next() {
        Some(Component::Normal(name)) if !has_slash => Some(name),
        Some(_) | None => None,
    }
}

fn clones_named(name: &OsStr, home: &Path) -> Result<Vec<PathBuf>, LocateError> {
    let mut found = Vec::new();
    if !is_clone_name(name) {
        return Ok(found);
    }
    let Some(repos) = resolve(&home.join(REPOS))? else { return Ok(found) };
    for owner in directories(&repos)? {
        for repository in directories(&owner)? {
            let clone = repository.join(name);
            if std::fs::symlink_metadata(&clone).is_ok_and(|found| found.is_dir()) {
                found.push(clone);
            }
        }
    }
    Ok(found)
}

/// The real directories in a directory.
fn directories(path: &Path) -> Result<Vec<PathBuf>, LocateError> {
    let unreadable = |source| LocateError::Unreadable { path: path.to_path_buf(), source };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        if entry.file_type().map_err(unreadable)?.is_dir() {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// The cache that a canonical path is part of, with its canonical `repos`: the usual one, else the
/// outermost, for a clone may itself hold something that looks like a cache.
///
/// A directory that merely holds something called `repos` is not taken for a cache: its
/// clones would be judged by a list of workspaces that has nothing to do with them.
fn cache_of(place: &Path, usual: Option<&Path>) -> Result<Option<(PathBuf, PathBuf)>, LocateError> {
    if let Some(home) = usual
        && let Some(repos) = resolve(&home.join(REPOS))?
        && (place.starts_with(home) || place.starts_with(&repos))
    {
        return Ok(Some((home.to_path_buf(), repos)));
    }
    let ancestors: Vec<&Path> = place.ancestors().collect();
    for ancestor in ancestors.into_iter().rev() {
        let home = match ancestor.file_name() {
            Some(name) if name == REPOS => ancestor.parent().unwrap_or(ancestor),
            Some(_) | None => ancestor,
        };
        if let Some(repos) = resolve(&home.join(REPOS))?
            && looks_like_a_cache(home, &repos)
        {
            return Ok(Some((home.to_path_buf(), repos)));
        }
    }
    Ok(None)
}

fn looks_like_a_cache(home: &Path, repos: &Path) -> bool {
    if home.join(METADATA).is_file() {
        return true;
    }
    let Ok(owners) = directories(repos) else { return false };
    let mut repositories = owners.iter().filter_map(|owner| directories(owner).ok()).flatten();
    repositories.any(|repository| repository.join(BARE).is_dir())
}

/// Ownership is what one user's devpod lists: for another user's cache it would be the wrong list.
fn owned(home: &Path, environment: &Environment) -> Result<(), LocateError> {
    let found =
        std::fs::metadata(home).map_err(|source| LocateError::Unreadable { path: home.to_path_buf(), source })?;
    if found.uid() == environment.uid {
        Ok(())
    } else {
        Err(LocateError::Foreign { cache: home.to_path_buf(), owner: found.uid(), uid: environment.uid })
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests build what is looked at")]
mod tests {
    use super::*;

    struct World {
        directory: tempfile::TempDir,
        environment: Environment,
    }

    impl World {
        /// A cache with two clones, at its usual place.
        fn new() -> Self {
            let directory = tempfile::tempdir().expect("because a temporary directory can be made");
            let root = std::fs::canonicalize(directory.path()).unwrap();
            for path in ["r/.bare", "r/one", "s/.bare", "s/two", "s/both", "r/both"] {
                std::fs::create_dir_all(root.join("cache/devlaunch/repos/o").join(path)).unwrap();
            }
            let environment = Environment {
                home: Some(root.join("home")),
                xdg_cache_home: Some(root.join("cache")),
                devpod_home: None,
                xdg_config_home: None,
                ssh_auth_sock: None,
                path: None,
                uid: rustix::process::geteuid().as_raw(),
            };
            Self { directory, environment }
        }

        fn path(&self, below: &str) -> PathBuf {
            std::fs::canonicalize(self.directory.path()).unwrap().join(below)
        }

        fn locate(&self, argument: &Path) -> Result<Cache, LocateError> {
            match Cache::locate(Some(argument), &self.environment)? {
                Located::Cache(cache) => Ok(cache),
                Located::Nothing { place } => panic!("nothing at {}", place.display()),
            }
        }
    }

    #[test]
    fn the_usual_place_a_path_a_symlink_and_the_repos_directory_are_the_same_cache() {
        let world = World::new();
        let home = world.path("cache/devlaunch");
        let Ok(Located::Cache(usual)) = Cache::locate(None, &world.environment) else { panic!("no cache") };
        assert_eq!((usual.home(), usual.repos(), usual.only()), (&*home, &*home.join("repos"), None));
        std::os::unix::fs::symlink(&home, world.path("link")).unwrap();
        for path in [home.clone(), home.join("repos"), world.path("link"), world.path("link/repos/")] {
            assert_eq!(world.locate(&path).unwrap(), usual, "{path:?}");
        }
    }

    #[test]
    fn a_cache_at_another_place_is_known_by_what_it_holds() {
        let world = World::new();
        let elsewhere = world.path("elsewhere");
        std::fs::create_dir_all(elsewhere.join("repos/o/r/mine")).unwrap();
        for path in [elsewhere.clone(), elsewhere.join("repos"), elsewhere.join("repos/o/r/mine")] {
            assert!(matches!(world.locate(&path), Err(LocateError::NotACache { .. })), "{path:?}");
        }
        std::fs::write(elsewhere.join("metadata.json"), "{}").unwrap();
        assert_eq!(world.locate(&elsewhere.join("repos")).unwrap().home(), elsewhere);
        assert_eq!(world.locate(&elsewhere.join("repos/o/r/mine")).unwrap().only(), Some(Path::new("o/r/mine")));
    }

    #[test]
    fn one_clone_is_meant_by_its_path_or_by_its_name() {
        let world = World::new();
        for argument in [world.path("cache/devlaunch/repos/o/r/one"), "one".into()] {
            assert_eq!(world.locate(&argument).unwrap().only(), Some(Path::new("o/r/one")));
        }
        let Err(LocateError::Ambiguous { places, .. }) = world.locate(Path::new("both")) else {
            panic!("not ambiguous")
        };
        assert_eq!(places.len(), 2);
        let text = world.locate(Path::new("three")).unwrap_err().to_string();
        assert_eq!(
            text,
            format!("three is neither a path nor the name of a clone in {}", world.path("cache/devlaunch").display())
        );
    }

    #[test]
    fn what_lies_in_a_cache_without_being_a_clone_is_refused() {
        let world = World::new();
        std::fs::create_dir(world.path("cache/devlaunch/repos/o/r/one/sub")).unwrap();
        for below in ["o", "o/r", "o/r/.bare", "o/r/one/sub"] {
            let path = world.path("cache/devlaunch/repos").join(below);
            assert!(matches!(world.locate(&path), Err(LocateError::NotAClone { .. })), "{path:?}");
        }
        assert!(matches!(world.locate(Path::new(".bare")), Err(LocateError::UnknownName { .. })));
    }

    #[test]
    fn no_cache_at_the_usual_place_is_nothing_to_do_and_at_a_path_an_error() {
        let world = World::new();
        let nowhere = Environment { xdg_cache_home: Some(world.path("none")), ..world.environment.clone() };
        let place = world.path("none/devlaunch");
        assert_eq!(Cache::locate(None, &nowhere).unwrap(), Located::Nothing { place: place.clone() });
        assert!(matches!(Cache::locate(Some(&place), &nowhere), Err(LocateError::Unreadable { .. })));
        let homeless = Environment { home: None, xdg_cache_home: None, ..nowhere };
        assert!(matches!(Cache::locate(None, &homeless), Err(LocateError::NoHome)));
    }

    #[test]
    fn another_users_cache_is_not_judged_by_our_list() {
        let world = World::new();
        let other = Environment { uid: world.environment.uid + 1, ..world.environment.clone() };
        assert!(matches!(Cache::locate(None, &other), Err(LocateError::Foreign { .. })));
    }
}
