//! Reads small files of other programs: bounded, never waiting for a FIFO, never taking a device or
//! a directory for a file. What they say is parsed elsewhere.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};

/// How the last component is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Symlinks {
    /// A symlink is followed: the owner may keep the file elsewhere.
    Follow,
    /// A symlink is refused.
    Refuse,
}

/// Reads a whole regular file of at most `limit` bytes.
pub(crate) fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_at(rustix::fs::CWD, path, limit, Symlinks::Follow)
}

/// The same, below an open directory.
pub(crate) fn read_at(dir: BorrowedFd<'_>, path: &Path, limit: u64, symlinks: Symlinks) -> io::Result<Vec<u8>> {
    let mut flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    match symlinks {
        Symlinks::Follow => {}
        Symlinks::Refuse => flags |= OFlags::NOFOLLOW,
    }
    let file = rustix::fs::openat(dir, path, flags, Mode::empty())?;
    if FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    File::from(file).take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::other(format!("it is longer than {limit} bytes")));
    }
    Ok(bytes)
}

/// Opens a file of the kernel's below an open directory, for reading line by line.
pub(crate) fn open_at(dir: BorrowedFd<'_>, name: &str) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::openat(dir, name, flags, Mode::empty())?))
}

/// Whether an error says that nothing is there, as opposed to that it could not be read.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests build what is looked at")]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_whole_or_refused() {
        let world = tempfile::tempdir().expect("because a temporary directory can be made");
        let file = world.path().join("f");
        std::fs::write(&file, b"12345").unwrap();
        assert_eq!(read(&file, 5).unwrap(), b"12345");
        assert_eq!(read(&file, 4).unwrap_err().to_string(), "it is longer than 4 bytes");
        assert!(is_absent(&read(&world.path().join("none"), 4).unwrap_err()));
    }

    #[test]
    fn a_fifo_in_the_place_of_a_file_is_refused_without_waiting() {
        let world = tempfile::tempdir().expect("because a temporary directory can be made");
        let fifo = world.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert_eq!(read(&fifo, 4).unwrap_err().to_string(), "it is not a regular file");
        assert!(read(world.path(), 4).is_err());
    }

    #[test]
    fn a_symlink_is_followed_only_where_that_was_asked() {
        let world = tempfile::tempdir().expect("because a temporary directory can be made");
        std::fs::write(world.path().join("f"), b"1").unwrap();
        let link = world.path().join("l");
        std::os::unix::fs::symlink("f", &link).unwrap();
        assert_eq!(read(&link, 4).unwrap(), b"1");
        assert!(read_at(rustix::fs::CWD, &link, 4, Symlinks::Refuse).is_err());
    }
}
