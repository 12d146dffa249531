//! The files that are mapped into a process's memory, as a loaded library is, by file identity. It
//! needs no descriptor of them; whose they are is the holders' business.

use std::collections::HashSet;
use std::io::{self, BufRead as _, BufReader};
use std::os::fd::BorrowedFd;

use crate::files;
use crate::seen::Inode;

/// The files mapped by the process whose directory in `/proc` is `dir`, each once.
pub(crate) fn mapped(dir: BorrowedFd<'_>) -> io::Result<HashSet<Inode>> {
    let mut found = HashSet::new();
    let mut reader = BufReader::new(files::open_at(dir, "maps")?);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        found.extend(mapping(&line));
        line.clear();
    }
    Ok(found)
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
}
