//! Objects that lie loose, each in a file of its own, read without mapping them into memory: for files of a few hundred
//! bytes that is most of what reading them costs, and every thread pays for it when a mapping goes.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use gix_hash::oid;
use gix_object::Kind;

/// Larger files are left to whoever maps them.
const MOST_BYTES: u64 = 8 * 1024 * 1024;

/// Compressed bytes that hold the header of any object.
const HEADER_BYTES: u64 = 128;

/// Room for `commit`, a size and what follows them.
const START: usize = 64;

/// The fan-out directories of one object store.
pub(crate) struct Loose {
    objects: PathBuf,
    scratch: RefCell<Scratch>,
}

#[derive(Default)]
struct Scratch {
    file: Vec<u8>,
    inflate: gix_zlib::Inflate,
}

impl Loose {
    pub(crate) fn of(objects: PathBuf) -> Self {
        Self { objects, scratch: RefCell::default() }
    }

    /// What kind of object it is; `None` when it does not lie loose here, or not as this reads them.
    pub(crate) fn kind(&self, id: &oid) -> Option<Kind> {
        let mut scratch = self.scratch.borrow_mut();
        let Scratch { file, inflate } = &mut *scratch;
        self.read(id, HEADER_BYTES, file).ok()?;
        let mut start = [0; START];
        inflate.reset();
        let (_, _, length) = inflate.prefix(file, &mut start).ok()?;
        header(&start[..length]).map(|(kind, _, _)| kind)
    }

    /// The object; `None` when it does not lie loose here, or not as this reads them. Then whoever reads all stores
    /// says what is wrong with it.
    pub(crate) fn find(&self, id: &oid, into: &mut Vec<u8>) -> Option<Kind> {
        let mut scratch = self.scratch.borrow_mut();
        let Scratch { file, inflate } = &mut *scratch;
        self.read(id, MOST_BYTES, file).ok()?;
        if file.len() as u64 == MOST_BYTES {
            return None;
        }
        let mut start = [0; START];
        inflate.reset();
        let (_, consumed, length) = inflate.prefix(file, &mut start).ok()?;
        let (kind, size, skip) = header(&start[..length])?;
        let found = inflate.rest(&file[consumed..], &start[..length], skip, into, size).ok()?;
        (found == size).then_some(kind)
    }

    fn read(&self, id: &oid, most: u64, into: &mut Vec<u8>) -> io::Result<()> {
        let hex = id.to_string();
        let (fan, rest) = hex.split_at(2);
        into.clear();
        File::open(self.objects.join(fan).join(rest))?.take(most).read_to_end(into).map(|_| ())
    }
}

/// `commit 123`, a NUL: the kind, the size, and where the content begins.
fn header(start: &[u8]) -> Option<(Kind, usize, usize)> {
    let end = start.iter().position(|byte| *byte == 0)?;
    let text = std::str::from_utf8(&start[..end]).ok()?;
    let (kind, size) = text.split_once(' ')?;
    Some((Kind::from_bytes(kind.as_bytes()).ok()?, size.parse().ok()?, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_says_kind_and_size() {
        assert_eq!(header(b"commit 12\0tree"), Some((Kind::Commit, 12, 10)));
        assert_eq!(header(b"blob 0\0"), Some((Kind::Blob, 0, 7)));
        for odd in [&b"blob 1"[..], b"blob\0", b"blob -1\0", b"commits 1\0", b"blob 1x\0", b"\0"] {
            assert_eq!(header(odd), None, "{odd:?}");
        }
    }
}
