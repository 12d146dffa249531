//! Replacing a small file as a whole, so that a reader or a crash meets either the old one or the
//! new one: records of owners, and the front end's own state. What is in the files is theirs.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use derelict_core::ids::escaped;

/// The mode of a file that did not exist before.
const NEW_FILE_MODE: u32 = 0o600;

/// How many names are tried for the temporary file: others are left-overs of crashes.
const MOST_NAMES: u32 = 64;

/// A file that could not be replaced. The old one is as it was.
#[derive(Debug, thiserror::Error)]
#[error("cannot {deed} {}: {source}", escaped(.path))]
pub struct WriteError {
    deed: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// Writes a file by way of a temporary one beside it, with the mode and the owner of the old one.
/// Where the path is a symbolic link, the file it leads to is replaced and the link stays. When
/// this returns, the new content is durable.
///
/// # Errors
/// [`WriteError`] names the deed and the file; the old content is untouched.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    write_atomically_with(path, |file| file.write_all(bytes))
}

/// The same for a file that is too big to be held in memory: `content` writes it.
///
/// # Errors
/// As [`write_atomically`]; an error of `content` is one of writing.
pub fn write_atomically_with(path: &Path, content: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), WriteError> {
    let real = real_path(path)?;
    let old = match std::fs::symlink_metadata(&real) {
        Ok(old) => Some(old),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(failed("look at", &real)(error)),
    };
    let (temporary, mut file) = temporary_beside(&real)?;
    let written = content(&mut file)
        .and_then(|()| dress(&mut file, old.as_ref()))
        .map_err(failed("write", &temporary))
        .and_then(|()| std::fs::rename(&temporary, &real).map_err(failed("replace", &real)));
    if let Err(error) = written {
        // The error that is returned matters more than a small file that stays behind.
        let _ = std::fs::remove_file(&temporary);
        return Err(error);
    }
    let parent = parent_of(&real);
    File::open(parent).and_then(|dir| dir.sync_all()).map_err(failed("sync", parent))
}

fn failed<'p>(deed: &'static str, path: &'p Path) -> impl FnOnce(io::Error) -> WriteError + 'p {
    move |source| WriteError { deed, path: path.to_owned(), source }
}

fn real_path(path: &Path) -> Result<PathBuf, WriteError> {
    match std::fs::canonicalize(path) {
        Ok(real) => Ok(real),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => Ok(path.to_owned()),
        Err(error) => Err(failed("find", path)(error)),
    }
}

fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn temporary_beside(real: &Path) -> Result<(PathBuf, File), WriteError> {
    let mut taken = io::Error::from(io::ErrorKind::AlreadyExists);
    for number in 0..MOST_NAMES {
        let mut name = OsString::from(".");
        name.push(real.file_name().unwrap_or(real.as_os_str()));
        name.push(format!(".derelict-{}-{number}", std::process::id()));
        let temporary = parent_of(real).join(name);
        match OpenOptions::new().write(true).create_new(true).mode(NEW_FILE_MODE).open(&temporary) {
            Ok(file) => return Ok((temporary, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken = error,
            Err(error) => return Err(failed("create", &temporary)(error)),
        }
    }
    Err(failed("create a temporary file beside", real)(taken))
}

/// After the content: first the owner, then the mode, for a change of owner may clear bits of the mode.
fn dress(file: &mut File, old: Option<&std::fs::Metadata>) -> io::Result<()> {
    if let Some(old) = old {
        let new = file.metadata()?;
        if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
            std::os::unix::fs::fchown(&*file, Some(old.uid()), Some(old.gid()))?;
        }
        file.set_permissions(std::fs::Permissions::from_mode(old.permissions().mode() & 0o7777))?;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(dir: &Path) -> Vec<OsString> {
        let mut names: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_new_file_is_for_its_owner_only_and_nothing_stays_beside_it() {
        let world = tempfile::tempdir().unwrap();
        let path = world.path().join("state.json");
        write_atomically(&path, b"one").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
        assert_eq!(names(world.path()), ["state.json"]);
    }

    #[test]
    fn through_a_link_the_real_file_is_replaced_with_its_mode_and_owner() {
        let world = tempfile::tempdir().unwrap();
        let at = |name: &str| world.path().join(name);
        std::fs::create_dir(at("elsewhere")).unwrap();
        std::fs::write(at("elsewhere/real"), "old").unwrap();
        std::fs::set_permissions(at("elsewhere/real"), std::fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::chown(at("elsewhere/real"), Some(65534), Some(65533)).unwrap();
        symlink("elsewhere/real", at("link")).unwrap();
        write_atomically(&at("link"), b"new").unwrap();
        assert!(at("link").is_symlink());
        assert_eq!(std::fs::read(at("elsewhere/real")).unwrap(), b"new");
        let real = std::fs::metadata(at("elsewhere/real")).unwrap();
        assert_eq!((real.mode() & 0o7777, real.uid(), real.gid()), (0o640, 65534, 65533));
        assert_eq!(names(&at("elsewhere")), ["real"]);
    }

    #[test]
    fn a_link_that_leads_nowhere_is_not_overwritten() {
        let world = tempfile::tempdir().unwrap();
        let path = world.path().join("link");
        symlink("nowhere", &path).unwrap();
        let told = write_atomically(&path, b"x").unwrap_err().to_string();
        assert_eq!(told, format!("cannot find {}: No such file or directory (os error 2)", path.display()));
        assert!(path.is_symlink());
    }
}
