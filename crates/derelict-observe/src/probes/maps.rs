//! What a process uses without holding a descriptor to it: files mapped into its memory, as a loaded
//! library is, and mounts that only its own mount namespace has, as a container's are. Both are
//! reported by file identity; whose they are is the holders' business.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::seen::{self, Inode, Seen};

/// The files mapped by the process whose directory in `/proc` is `dir`, each once.
pub(crate) fn mapped(dir: BorrowedFd<'_>) -> io::Result<HashSet<Inode>> {
    let mut found = HashSet::new();
    let mut reader = BufReader::new(open(dir, "maps")?);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        found.extend(mapping(&line));
        line.clear();
    }
    Ok(found)
}

/// The directories in which a mount point of another mount namespace lies.
pub(crate) fn mount_parents(dir: BorrowedFd<'_>) -> io::Result<Vec<Seen>> {
    let mut found = Vec::new();
    let mut reader = BufReader::new(open(dir, "mountinfo")?);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        let parent = mount_point(&line).and_then(|point| Some(Path::new(&point).parent()?.as_os_str().to_owned()));
        line.clear();
        let Some(parent) = parent else { continue };
        // A mount point that cannot be reached is hidden by another mount, and gone with it.
        match seen::followed(dir, &[OsStr::new("root"), &parent].into_iter().collect::<OsString>()) {
            Ok(seen) => found.push(seen),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
            Err(_) => {}
        }
    }
    Ok(found)
}

fn open(dir: BorrowedFd<'_>, name: &str) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::openat(dir, name, flags, Mode::empty())?))
}

/// The inode of a line of `maps`: `start-end perms offset major:minor inode path`.
fn mapping(line: &[u8]) -> Option<Inode> {
    let mut fields = line.split(|byte| *byte == b' ').filter(|field| !field.is_empty()).skip(3);
    let (device, ino) = (std::str::from_utf8(fields.next()?).ok()?, std::str::from_utf8(fields.next()?).ok()?);
    let (major, minor) = device.split_once(':')?;
    let number = |hex| u32::from_str_radix(hex, 16).ok();
    let ino = ino.trim_ascii().parse().ok().filter(|ino| *ino != 0)?;
    Some(Inode { dev: rustix::fs::makedev(number(major)?, number(minor)?), ino })
}

/// The fifth field of a line of `mountinfo`, with its octal escapes undone.
fn mount_point(line: &[u8]) -> Option<OsString> {
    let field = line.split(|byte| *byte == b' ').nth(4)?;
    let (mut path, mut rest) = (Vec::new(), field);
    while let Some((first, after)) = rest.split_first() {
        let octal = after.get(..3).and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match octal.filter(|_| *first == b'\\') {
            Some(byte) => {
                path.push(byte);
                rest = &after[3..];
            }
            None => {
                path.push(*first);
                rest = after;
            }
        }
    }
    Some(OsString::from_vec(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_names_its_file_and_an_anonymous_one_names_none() {
        let line = b"7f00-7f01 r-xp 00001000 fd:02 1234                       /usr/lib/x.so\n";
        assert_eq!(mapping(line), Some(Inode { dev: rustix::fs::makedev(0xfd, 2), ino: 1234 }));
        assert_eq!(mapping(b"7f00-7f01 rw-p 00000000 00:00 0 \n"), None);
        assert_eq!(mapping(b"7f00-7f01 rw-p 00000000 00:00 0                          [heap]\n"), None);
        assert_eq!(mapping(b"nonsense"), None);
    }

    #[test]
    fn a_mount_point_is_read_with_its_escapes() {
        let line = br"36 35 98:0 /mnt1 /a\040b\134c rw,noatime master:1 - ext3 /dev/root rw";
        assert_eq!(mount_point(line).as_deref(), Some(OsStr::new(r"/a b\c")));
        assert_eq!(mount_point(b"36 35"), None);
    }
}
