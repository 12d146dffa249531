//! What the mounts of one mount namespace have to do with directories: the directory in which a mount
//! point lies, the directory or file that a bind mount shows elsewhere, the layers of an overlay. By
//! file identity, since paths mean something else in every namespace.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead as _, BufReader};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use crate::files;
use crate::seen::{self, Seen};

/// What one mount has to do with one file.
#[derive(Debug)]
pub(crate) struct Mount {
    pub(crate) tie: Tie,
    pub(crate) file: Seen,
    /// Where the mount is, in its own namespace.
    pub(crate) point: PathBuf,
}

impl Mount {
    fn is(&self, tie: Tie, file: &Seen, point: &Path) -> bool {
        (self.tie, self.file.inode(), self.point.as_path()) == (tie, file.inode(), point)
    }
}

/// How a mount is tied to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tie {
    /// It is mounted below this directory.
    Parent,
    /// It shows this directory or file: a bind mount, as a container's volume is.
    Source,
    /// It is an overlay, and this is one of its layers.
    Layer,
}

/// What was found of the mounts of one namespace.
#[derive(Debug, Default)]
pub(crate) struct Mounts {
    pub(crate) found: Vec<Mount>,
    /// Whether some could not be looked at for want of a permission.
    pub(crate) is_partial: bool,
}

/// The mounts of the namespace of the process whose directory in `/proc` is `dir`, as far as they are
/// tied in one of these ways.
pub(crate) fn of(dir: BorrowedFd<'_>, wanted: &[Tie]) -> io::Result<Mounts> {
    let mut mounts = Mounts::default();
    let mut reader = BufReader::new(files::open_at(dir, "mountinfo")?);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        if let Some(entry) = parse(&line) {
            for (tie, looked) in entry.ties(dir).into_iter().filter(|(tie, _)| wanted.contains(tie)) {
                mounts.note(tie, looked, &entry.point);
            }
        }
        line.clear();
    }
    Ok(mounts)
}

impl Mounts {
    /// What is not there any more is hidden by another mount or gone with its file system.
    fn note(&mut self, tie: Tie, looked: io::Result<Seen>, point: &Path) {
        match looked {
            // A layer that both names of it lead to is one layer.
            Ok(file) if self.found.last().is_some_and(|last| last.is(tie, &file, point)) => {}
            Ok(file) => self.found.push(Mount { tie, file, point: point.to_path_buf() }),
            Err(error) => self.is_partial |= error.kind() == io::ErrorKind::PermissionDenied,
        }
    }
}

/// The parts of a line of `mountinfo` that say anything here.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    point: PathBuf,
    /// Whether it shows a part of a file system only: then its root lies in a directory.
    is_part: bool,
    layers: Vec<PathBuf>,
}

impl Entry {
    fn ties(&self, dir: BorrowedFd<'_>) -> Vec<(Tie, io::Result<Seen>)> {
        let here = |path: &Path| seen::followed(dir, &below_root(path));
        let parent = self.point.parent().map(|parent| (Tie::Parent, here(parent)));
        let source = self.is_part.then(|| (Tie::Source, here(&self.point)));
        // A layer was named in the namespace of whoever mounted it, which is often ours and not its own.
        let ours = |path: &Path| seen::followed(rustix::fs::CWD, path.as_os_str());
        let layers = self.layers.iter().flat_map(|layer| [(Tie::Layer, here(layer)), (Tie::Layer, ours(layer))]);
        parent.into_iter().chain(source).chain(layers).collect()
    }
}

/// A path as the process sees it, below its directory in `/proc`.
pub(crate) fn below_root(path: &Path) -> OsString {
    [OsStr::new("root"), path.as_os_str()].into_iter().collect()
}

/// `id parent device root point options [optional…] - type source options`, as proc(5) has it.
fn parse(line: &[u8]) -> Option<Entry> {
    let fields: Vec<&[u8]> = line.trim_ascii_end().split(|byte| *byte == b' ').collect();
    let (root, point) = (fields.get(3)?, fields.get(4)?);
    let end = fields.iter().skip(6).position(|field| *field == b"-")? + 6;
    let layers = match fields.get(end + 1)? {
        kind if **kind == *b"overlay" => fields.get(end + 3).map_or_else(Vec::new, |options| layers(options)),
        _ => Vec::new(),
    };
    // What is no path is the name of a namespace.
    let is_part = root.starts_with(b"/") && **root != *b"/";
    Some(Entry { point: PathBuf::from(OsString::from_vec(unescaped(point))), is_part, layers })
}

/// The absolute directories in an overlay's options. In `lowerdir` they are separated by colons, two of
/// them before one that holds data only; a colon of their own stands behind a backslash. One that is
/// relative was named from a directory that nobody knows any more.
fn layers(options: &[u8]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for option in options.split(|byte| *byte == b',') {
        let Some(equals) = option.iter().position(|byte| *byte == b'=') else { continue };
        let (key, value) = (&option[..equals], unescaped(&option[equals + 1..]));
        match key {
            b"upperdir" | b"workdir" => found.push(value),
            b"lowerdir" | b"lowerdir+" | b"datadir+" => found.extend(separated(&value)),
            _ => {}
        }
    }
    found.into_iter().filter(|path| path.starts_with(b"/")).map(|path| OsString::from_vec(path).into()).collect()
}

fn separated(value: &[u8]) -> Vec<Vec<u8>> {
    let mut parts = vec![Vec::new()];
    let mut bytes = value.iter();
    while let Some(byte) = bytes.next() {
        let plain = match byte {
            b':' => {
                parts.push(Vec::new());
                continue;
            }
            b'\\' => bytes.next(),
            other => Some(other),
        };
        if let (Some(part), Some(plain)) = (parts.last_mut(), plain) {
            part.push(*plain);
        }
    }
    parts
}

/// Undoes the octal escapes by which the kernel keeps blanks out of its lists.
pub(crate) fn unescaped(field: &[u8]) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), field);
    while let Some((first, after)) = rest.split_first() {
        let octal = after.get(..3).and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match octal.filter(|_| *first == b'\\') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

/// A field of one of the kernel's lists as a path.
pub(crate) fn path(field: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(&unescaped(field)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(point: &str, is_part: bool, layers: &[&str]) -> Option<Entry> {
        Some(Entry { point: point.into(), is_part, layers: layers.iter().map(PathBuf::from).collect() })
    }

    #[test]
    fn a_mount_point_is_read_with_its_escapes() {
        let line = br"36 35 98:0 / /a\040b\134c rw,noatime master:1 - ext3 /dev/root rw";
        assert_eq!(parse(line), entry(r"/a b\c", false, &[]));
        assert_eq!(parse(b"36 35"), None);
    }

    #[test]
    fn a_part_of_a_file_system_is_told_from_the_whole_of_it_and_from_a_namespace() {
        assert_eq!(parse(b"36 35 98:0 /w/a /mnt rw - ext4 /dev/root rw\n"), entry("/mnt", true, &[]));
        let namespace = b"36 35 0:4 net:[4026532211] /run/netns/x rw shared:1 - nsfs nsfs rw\n";
        assert_eq!(parse(namespace), entry("/run/netns/x", false, &[]));
    }

    #[test]
    fn the_layers_of_an_overlay_are_read() {
        let line = br"36 35 0:50 / /m rw - overlay overlay rw,lowerdir=/a\054b:/c\134:d::/e:rel,upperdir=/u,workdir=/k";
        assert_eq!(parse(line), entry("/m", false, &["/a,b", "/c:d", "/e", "/u", "/k"]));
        let appended = b"36 35 0:50 / /m rw - overlay none rw,lowerdir+=/a,datadir+=/d,index=off";
        assert_eq!(parse(appended), entry("/m", false, &["/a", "/d"]));
        let other = b"36 35 0:50 / /m rw - ext4 none rw,lowerdir=/a";
        assert_eq!(parse(other), entry("/m", false, &[]));
    }
}
