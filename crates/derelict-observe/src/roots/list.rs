//! Lists a root: every real directory directly below it is a candidate. Trash is left out, and what
//! is hidden or no directory is told. Nothing is entered here.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use derelict_core::evidence::Candidate;
use derelict_core::ids::WorkspaceName;
use rustix::fs::{Mode, OFlags};

use crate::parallel;
use crate::scan::{Found, Scan, SkipKind, Skipped, TRASH_PREFIX, names};
use crate::seen::{self, Seen};

/// Names that one thread asks the kernel about in one go.
const CHUNK: usize = 256;

enum Entry {
    Candidate(Found),
    Skipped(Skipped),
    Gone,
}

/// Lists a root by its resolved path.
pub(crate) fn list(root: &Path) -> io::Result<Scan> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = rustix::fs::open(root, flags, Mode::empty())?;
    let root_seen = seen::of(&dir)?;
    let mut names = names(dir.as_fd())?;
    names.retain(|name| !name.as_bytes().starts_with(TRASH_PREFIX.as_bytes()));
    let chunks: Vec<&[OsString]> = names.chunks(CHUNK).collect();
    let look = |name: &OsString| look(seen::at(dir.as_fd(), name), name, root, &root_seen);
    let entries = parallel::each(&chunks, |chunk| chunk.iter().map(look).collect::<Vec<_>>());
    let (mut found, mut skipped) = (Vec::with_capacity(names.len()), Vec::new());
    for entry in entries.into_iter().flatten() {
        match entry {
            Entry::Candidate(candidate) => found.push(candidate),
            Entry::Skipped(what) => skipped.push(what),
            Entry::Gone => {}
        }
    }
    Ok(Scan { root: dir, root_seen, found, skipped, directories: HashMap::new(), bares: Vec::new() })
}

fn look(seen: io::Result<Seen>, name: &OsStr, root: &Path, root_seen: &Seen) -> Entry {
    let path = root.join(name);
    let skipped = |path: PathBuf, kind, why: String| Entry::Skipped(Skipped { path, kind, why });
    let seen = match seen {
        Ok(seen) => seen,
        // Gone since it was listed: there is nothing to account for.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Entry::Gone,
        Err(error) => return skipped(path, SkipKind::Unreadable, format!("it cannot be read: {error}")),
    };
    if seen.kind == rustix::fs::FileType::Symlink {
        return skipped(path, SkipKind::Symlink, "a symlink; it is not followed".to_owned());
    }
    if !seen.is_directory() {
        return skipped(path, SkipKind::NotADirectory, "not a directory".to_owned());
    }
    if name.as_bytes().starts_with(b".") {
        let why = "a hidden name: a file server's snapshots, or a tool's own state".to_owned();
        return skipped(path, SkipKind::Hidden, why);
    }
    let name = match WorkspaceName::new(name.as_bytes()) {
        Ok(name) => name,
        Err(error) => return skipped(path, SkipKind::Unreadable, error.to_string()),
    };
    let below_root = PathBuf::from(OsStr::from_bytes(name.as_bytes()));
    let candidate = Candidate { name, path, below_root, identity: seen.identity };
    Entry::Candidate(Found { candidate, seen, owner: root_seen.inode(), repository: root_seen.inode() })
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests build what is looked at")]
mod tests {
    use super::*;

    #[test]
    fn real_directories_with_plain_names_are_candidates_and_the_rest_is_told() {
        let world = tempfile::tempdir().expect("because a temporary directory can be made");
        for name in ["b", "a", ".derelict-trash-1-2", ".snapshots", "UPPER"] {
            std::fs::create_dir(world.path().join(name)).unwrap();
        }
        std::fs::write(world.path().join("file"), "").unwrap();
        std::os::unix::fs::symlink("a", world.path().join("link")).unwrap();
        let scan = list(world.path()).unwrap();
        let names: Vec<_> = scan.found.iter().map(|found| found.candidate.below_root.to_str().unwrap()).collect();
        assert_eq!(names, ["UPPER", "a", "b"]);
        let skipped: Vec<_> = scan.skipped.iter().map(|skipped| (skipped.path.clone(), skipped.kind)).collect();
        let at = |name: &str| world.path().join(name);
        let expected = [
            (at(".snapshots"), SkipKind::Hidden),
            (at("file"), SkipKind::NotADirectory),
            (at("link"), SkipKind::Symlink),
        ];
        assert_eq!(skipped, expected);
    }
}
