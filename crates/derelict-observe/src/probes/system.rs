//! Files that are in use without any process that shows it: the file behind a loop device, a swap file,
//! a socket that is bound to a name. By file identity, as the holders compare.

use std::ffi::OsStr;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use derelict_core::ids::escaped;
use rustix::fs::FileType;

use crate::files::{self, Symlinks};
use crate::probes::mounts;
use crate::seen::{self, Inode};

/// Where the kernel shows block devices.
const BLOCK_DEVICES: &str = "/sys/block";

/// Where it lists what it swaps to.
const SWAPS: &str = "/proc/swaps";

/// How long one of the kernel's lists may be: some hundred thousand sockets.
const BYTES: u64 = 16 << 20;

/// How long the path in a one-line file of the kernel's may be.
const PATH_BYTES: u64 = 8 * 1024;

/// Fields before the name in the list of sockets.
const FIELDS_BEFORE_NAME: usize = 7;

/// A file, and by what it is used.
pub(crate) type Used = (Inode, String);

/// The files behind loop devices and swap. A machine that shows neither has neither.
pub(crate) fn devices() -> Vec<Used> {
    let mut found = swaps(&files::read(Path::new(SWAPS), BYTES).unwrap_or_else(|_| Vec::new()));
    let Ok(names) = std::fs::read_dir(BLOCK_DEVICES) else { return found };
    for name in names.flatten().map(|entry| entry.file_name()) {
        if !name.as_bytes().starts_with(b"loop") {
            continue;
        }
        let listed = Path::new(BLOCK_DEVICES).join(&name).join("loop/backing_file");
        // A loop device without a file is not in use.
        let Ok(path) = files::read(&listed, PATH_BYTES) else { continue };
        let file = seen::followed(rustix::fs::CWD, OsStr::from_bytes(path.trim_ascii_end()));
        let by = || format!("the device {} stands on a file in it", escaped(Path::new(&name)));
        found.extend(file.ok().map(|file| (file.inode(), by())));
    }
    found
}

/// `path type size used priority`, under a headline.
fn swaps(list: &[u8]) -> Vec<Used> {
    let paths = list.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"/"));
    let paths = paths.filter_map(|line| line.split(|byte| matches!(byte, b' ' | b'\t')).next()).map(mounts::path);
    let seen = paths.filter_map(|path| seen::followed(rustix::fs::CWD, path.as_os_str()).ok());
    seen.filter(|file| file.kind == FileType::RegularFile)
        .map(|file| (file.inode(), "the system swaps to a file in it".to_owned()))
        .collect()
}

/// The sockets with a name, of the network namespace of the process whose directory in `/proc` is `dir`,
/// as far as that process can reach them. A name that is relative was bound from a directory that nobody
/// knows any more.
pub(crate) fn sockets(dir: BorrowedFd<'_>) -> io::Result<Vec<Used>> {
    let list = files::read_at(dir, Path::new("net/unix"), BYTES, Symlinks::Follow)?;
    let names = list.split(|byte| *byte == b'\n').filter_map(socket_name);
    let seen = names.filter_map(|name| seen::followed(dir, &mounts::below_root(name)).ok());
    Ok(seen
        .filter(|file| file.kind == FileType::Socket)
        .map(|file| (file.inode(), "a program has bound a socket in it".to_owned()))
        .collect())
}

/// The last field of `num: references protocol flags type state inode path`.
fn socket_name(line: &[u8]) -> Option<&Path> {
    let mut rest = line;
    for _ in 0..FIELDS_BEFORE_NAME {
        let blank = rest.trim_ascii_start();
        rest = &blank[blank.iter().position(|byte| *byte == b' ')?..];
    }
    let name = rest.strip_prefix(b" ")?;
    name.starts_with(b"/").then(|| Path::new(OsStr::from_bytes(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_listed_with_its_name_and_others_have_none() {
        let line = b"ffff9d2c: 00000002 00000000 00010000 0001 01 26530 /run/a b.sock";
        assert_eq!(socket_name(line), Some(Path::new("/run/a b.sock")));
        for other in [
            &b"Num       RefCount Protocol Flags    Type St Inode Path"[..],
            b"ffff9d2c: 00000002 00000000 00010000 0001 01 26530",
            b"ffff9d2c: 00000002 00000000 00010000 0001 01 26530 @abstract",
            b"ffff9d2c: 00000002 00000000 00010000 0001 01 26530 relative.sock",
            b"",
        ] {
            assert_eq!(socket_name(other), None, "{}", String::from_utf8_lossy(other));
        }
    }

    #[test]
    fn a_swap_file_that_exists_is_found() {
        let own = std::env::current_exe().expect("because a test is a file");
        let list = format!("Filename Type Size Used Priority\n{} file 1 0 -2\n/nowhere file 1 0 -2\n", own.display());
        let inode = seen::through(&own).unwrap().inode();
        assert_eq!(swaps(list.as_bytes()), [(inode, "the system swaps to a file in it".to_owned())]);
    }
}
