//! Finds out where a path lies in relation to the clones of a cache, by file identity: every existing
//! ancestor of the path is compared by device and inode number, never by name. What follows from
//! that for anybody's claim is decided in `claims`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use derelict_core::ids::escaped;

use crate::scan::{Found, Scan, Scope, is_clone_name};
use crate::seen::{self, Inode, Seen};

/// Dangling symlinks that are followed by hand before a path counts as unreadable: the kernel's own bound.
const MAX_LINKS: usize = 40;

/// Knows the directories of one cache.
#[derive(Debug)]
pub(crate) struct Placer<'s> {
    home: Inode,
    scan: &'s Scan,
    clones: HashMap<Inode, &'s Found>,
    /// Ancestors are shared by many paths, and each is asked for once.
    known: RefCell<HashMap<PathBuf, Seen>>,
}

/// Where a path lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Position {
    /// Not in the cache.
    Outside,
    /// At or below these clones; more than one only if one is mounted inside another.
    Clones(Vec<(Inode, Depth)>),
    /// At a directory above clones, inside the cache.
    Above(Scope),
    /// In the cache, and at no clone; it could mean any clone of this scope.
    Stray(Scope),
}

/// Whether a path is a clone or something in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// The clone itself.
    Here,
    /// Below it.
    Within,
}

/// A path that was placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) position: Position,
    /// The directory it leads to, if it exists and is one.
    pub(crate) directory: Option<Inode>,
    /// The existing part of it, resolved, with the missing part appended.
    pub(crate) resolved: PathBuf,
    /// The same, spelled below the clone it lies in.
    pub(crate) in_clone: Option<(Inode, PathBuf)>,
}

struct Link {
    seen: Seen,
    path: PathBuf,
}

struct Chain {
    links: Vec<Link>,
    missing: PathBuf,
}

impl<'s> Placer<'s> {
    /// For the cache at `home`, as it was scanned.
    pub(crate) fn new(home: &Path, scan: &'s Scan) -> io::Result<Self> {
        let clones = scan.found.iter().map(|found| (found.inode(), found)).collect();
        Ok(Self { home: seen::through(home)?.inode(), scan, clones, known: RefCell::new(HashMap::new()) })
    }

    /// Places an absolute path, or says why that cannot be told.
    pub(crate) fn place(&self, path: &Path) -> Result<Placed, String> {
        let chain = self.chain(path)?;
        let position = self.position(&chain);
        let end = chain.links.last().ok_or_else(|| format!("{} has no root", escaped(path)))?;
        let exists = chain.missing.as_os_str().is_empty();
        let resolved = joined(&end.path, &chain.missing);
        let inside = chain.links.iter().rev().find_map(|link| Some((self.clones.get(&link.seen.inode())?, link)));
        let in_clone = inside.map(|(found, link)| {
            let rest = resolved.strip_prefix(&link.path).unwrap_or(Path::new(""));
            (found.inode(), joined(&found.candidate.path, rest))
        });
        let directory = (exists && end.seen.is_directory()).then(|| end.seen.inode());
        Ok(Placed { position, directory, resolved, in_clone })
    }

    /// Whether a clone lies in a scope.
    pub(crate) fn covers(&self, scope: Scope, clone: Inode) -> bool {
        match scope {
            Scope::Everything => true,
            Scope::Owner(owner) => self.clones.get(&clone).is_some_and(|found| found.owner == owner),
            Scope::Repository(repository) => {
                self.clones.get(&clone).is_some_and(|found| found.repository == repository)
            }
        }
    }

    fn position(&self, chain: &Chain) -> Position {
        let last = chain.links.len().saturating_sub(1);
        let exists = chain.missing.as_os_str().is_empty();
        let depth = |index: usize| if index == last && exists { Depth::Here } else { Depth::Within };
        let inodes: Vec<Inode> = chain.links.iter().map(|link| link.seen.inode()).collect();
        let known = inodes.iter().enumerate().filter(|(_, inode)| self.clones.contains_key(inode));
        let clones: Vec<(Inode, Depth)> = known.map(|(index, inode)| (*inode, depth(index))).collect();
        if !clones.is_empty() {
            return Position::Clones(clones);
        }
        if let Some(root) = inodes.iter().rposition(|inode| *inode == self.scan.root_seen.inode()) {
            return match inodes.get(root + 1..).unwrap_or(&[]) {
                [] if exists => Position::Above(Scope::Everything),
                [] => Position::Stray(Scope::Everything),
                [owner] if exists => Position::Above(Scope::Owner(*owner)),
                [owner] => Position::Stray(Scope::Owner(*owner)),
                [_, repository] if exists => Position::Above(Scope::Repository(*repository)),
                [_, repository] => Position::Stray(Scope::Repository(*repository)),
                // A clone that was made after the scan: not one of ours, and not a stray either.
                [_, _, leaf, ..] if chain.links.get(root + 3).is_some_and(Link::could_be_clone) => {
                    Position::Clones(vec![(*leaf, depth(root + 3))])
                }
                [_, repository, _, ..] => Position::Stray(Scope::Repository(*repository)),
            };
        }
        if let Some((index, scope)) =
            inodes.iter().enumerate().rev().find_map(|(index, inode)| Some((index, *self.scan.directories.get(inode)?)))
        {
            return if index == last && exists { Position::Above(scope) } else { Position::Stray(scope) };
        }
        match inodes.iter().rposition(|inode| *inode == self.home) {
            Some(home) if home == last && exists => Position::Above(Scope::Everything),
            Some(_) => Position::Stray(Scope::Everything),
            None => Position::Outside,
        }
    }

    /// All existing ancestors of a path from the root on, symlinks resolved, and what is missing of it.
    fn chain(&self, path: &Path) -> Result<Chain, String> {
        let cannot = |error: &io::Error| format!("cannot resolve {}: {error}", escaped(path));
        // By its components, for a slash at the end would follow a symlink that is to be read.
        let mut remaining: PathBuf = path.components().collect();
        let mut missing: Vec<OsString> = Vec::new();
        let mut links = 0;
        let existing = loop {
            let error = match std::fs::canonicalize(&remaining) {
                Ok(existing) => break existing,
                Err(error) => error,
            };
            if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) {
                return Err(cannot(&error));
            }
            let parent = remaining.parent().ok_or_else(|| cannot(&error))?;
            if let Ok(target) = std::fs::read_link(&remaining) {
                links += 1;
                if links > MAX_LINKS {
                    return Err(cannot(&error));
                }
                remaining = parent.join(target);
                continue;
            }
            match remaining.file_name() {
                Some(name) => {
                    missing.push(name.to_os_string());
                    remaining = parent.to_path_buf();
                }
                // It ends in `..` below something that is missing. The kernel gets no further; programs
                // clean such paths by their text, and what they mean then is looked at instead.
                None => {
                    missing.reverse();
                    remaining = cleaned(&joined(&remaining, &missing.drain(..).collect::<PathBuf>()));
                }
            }
        };
        let mut ancestors: Vec<&Path> = existing.ancestors().collect();
        ancestors.reverse();
        let links = ancestors.into_iter().map(|path| self.link(path)).collect::<io::Result<Vec<Link>>>();
        Ok(Chain { links: links.map_err(|error| cannot(&error))?, missing: missing.iter().rev().collect() })
    }

    fn link(&self, path: &Path) -> io::Result<Link> {
        if let Some(seen) = self.known.borrow().get(path) {
            return Ok(Link { seen: *seen, path: path.to_path_buf() });
        }
        let seen = seen::itself(path)?;
        self.known.borrow_mut().insert(path.to_path_buf(), seen);
        Ok(Link { seen, path: path.to_path_buf() })
    }
}

impl Link {
    fn could_be_clone(&self) -> bool {
        self.seen.is_directory() && self.path.file_name().is_some_and(is_clone_name)
    }
}

fn joined(path: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() { path.to_path_buf() } else { path.join(rest) }
}

/// A path without `.` and `..`, by its text.
fn cleaned(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir => {}
            Component::RootDir | Component::Normal(_) | Component::Prefix(_) => clean.push(component),
        }
    }
    clean
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests build what is looked at")]
mod tests {
    use super::*;
    use crate::scan::scan;

    struct World {
        directory: tempfile::TempDir,
        scan: Scan,
    }

    impl World {
        fn new() -> Self {
            let directory = tempfile::tempdir().expect("because a temporary directory can be made");
            for path in ["cache/repos/o/r/a/sub", "cache/repos/o/r/b", "cache/repos/o/r/.bare", "cache/other", "out"] {
                std::fs::create_dir_all(directory.path().join(path)).unwrap();
            }
            let repos = std::fs::canonicalize(directory.path().join("cache/repos")).unwrap();
            let scan = scan(&repos).unwrap();
            Self { directory, scan }
        }

        fn path(&self, below: &str) -> PathBuf {
            self.directory.path().join(below)
        }

        fn position(&self, path: &Path) -> Position {
            let placer = Placer::new(&self.path("cache"), &self.scan).unwrap();
            placer.place(path).unwrap().position
        }

        fn inode(&self, below: &str) -> Inode {
            seen::through(&self.path(below)).unwrap().inode()
        }
    }

    #[test]
    fn a_path_is_placed_at_within_above_or_outside() {
        let world = World::new();
        let a = world.inode("cache/repos/o/r/a");
        let owner = Scope::Owner(world.inode("cache/repos/o"));
        let repository = Scope::Repository(world.inode("cache/repos/o/r"));
        for (below, expected) in [
            ("cache/repos/o/r/a", Position::Clones(vec![(a, Depth::Here)])),
            ("cache/repos/o/r/a/", Position::Clones(vec![(a, Depth::Here)])),
            ("cache/repos/o/r/b/../a", Position::Clones(vec![(a, Depth::Here)])),
            ("cache/repos/o/r/a/sub", Position::Clones(vec![(a, Depth::Within)])),
            ("cache/repos/o/r/a/gone/deep", Position::Clones(vec![(a, Depth::Within)])),
            ("none/../cache/repos/o/r/a", Position::Clones(vec![(a, Depth::Here)])),
            ("cache/repos/o/r", Position::Above(repository)),
            ("cache/repos/o", Position::Above(owner)),
            ("cache/repos", Position::Above(Scope::Everything)),
            ("cache", Position::Above(Scope::Everything)),
            ("cache/repos/o/r/.bare", Position::Stray(repository)),
            ("cache/repos/o/r/gone", Position::Stray(repository)),
            ("cache/repos/o/gone", Position::Stray(owner)),
            ("cache/repos/gone/x", Position::Stray(Scope::Everything)),
            ("cache/other", Position::Stray(Scope::Everything)),
            ("cache/gone", Position::Stray(Scope::Everything)),
            ("out", Position::Outside),
            ("gone", Position::Outside),
            ("", Position::Outside),
        ] {
            assert_eq!(world.position(&world.path(below)), expected, "{below}");
        }
    }

    #[test]
    fn symlinks_lead_where_they_lead_even_when_they_dangle() {
        let world = World::new();
        let a = world.inode("cache/repos/o/r/a");
        let link = |name: &str, target: PathBuf| {
            std::os::unix::fs::symlink(target, world.path(name)).unwrap();
            world.position(&world.path(name))
        };
        assert_eq!(link("l1", world.path("cache/repos/o/r/a")), Position::Clones(vec![(a, Depth::Here)]));
        assert_eq!(link("l2", "l1/sub".into()), Position::Clones(vec![(a, Depth::Within)]));
        assert_eq!(link("l3", "l1/gone".into()), Position::Clones(vec![(a, Depth::Within)]));
        let repository = Scope::Repository(world.inode("cache/repos/o/r"));
        assert_eq!(link("l4", world.path("cache/repos/o/r/gone")), Position::Stray(repository));
        std::os::unix::fs::symlink("loop", world.path("loop")).unwrap();
        let placer = Placer::new(&world.path("cache"), &world.scan).unwrap();
        assert!(placer.place(&world.path("loop")).is_err());
        assert!(placer.place(Path::new("/a\0b")).is_err());
    }

    #[test]
    fn a_clone_made_after_the_scan_is_a_clone_and_no_stray() {
        let world = World::new();
        std::fs::create_dir(world.path("cache/repos/o/r/new")).unwrap();
        let new = world.inode("cache/repos/o/r/new");
        assert_eq!(world.position(&world.path("cache/repos/o/r/new")), Position::Clones(vec![(new, Depth::Here)]));
    }

    #[test]
    fn a_path_in_a_clone_is_spelled_below_it() {
        let world = World::new();
        std::os::unix::fs::symlink(world.path("cache"), world.path("elsewhere")).unwrap();
        let placer = Placer::new(&world.path("elsewhere"), &world.scan).unwrap();
        let placed = placer.place(&world.path("elsewhere/repos/o/r/a/sub/gone")).unwrap();
        let root = std::fs::canonicalize(world.path("cache/repos/o/r/a")).unwrap();
        assert_eq!(placed.in_clone, Some((world.inode("cache/repos/o/r/a"), root.join("sub/gone"))));
        assert_eq!(placed.resolved, root.join("sub/gone"));
        assert_eq!(placed.directory, None);
    }
}
