//! Whether a file on disk holds exactly the bytes of an object. Filters are never run: where one
//! would be needed to tell, the bytes differ and the file is kept.

use std::io::{self, Read};
use std::os::fd::BorrowedFd;

use bstr::ByteSlice;
use gix_hash::ObjectId;
use rustix::fs::FileType;

use crate::stat::{Stat, open_file_at, stat_of};

/// Bytes read at a time while hashing.
const CHUNK: usize = 64 * 1024;

/// The name that the entry's content has as an object, as a file or as a symlink's target; `None` for
/// what cannot be an object.
pub(crate) fn object_of(
    dir: BorrowedFd<'_>,
    name: &[u8],
    stat: &Stat,
    hash: gix_hash::Kind,
) -> io::Result<Option<ObjectId>> {
    match stat.kind() {
        FileType::RegularFile => file_object(dir, name, stat, hash),
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(dir, name, Vec::new())?;
            Ok(gix_object::compute_hash(hash, gix_object::Kind::Blob, target.to_bytes()).ok())
        }
        FileType::Directory
        | FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => Ok(None),
    }
}

/// The mode that git has for such an entry.
pub(crate) fn mode_of(stat: &Stat) -> u16 {
    match stat.kind() {
        FileType::Symlink => 0o120_000,
        FileType::RegularFile if stat.mode & 0o100 != 0 => 0o100_755,
        FileType::RegularFile => 0o100_644,
        FileType::Directory
        | FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => 0,
    }
}

/// Files larger than this are not converted to be compared; no text that anybody edits is.
const CONVERTED_BYTES: u64 = 64 * 1024 * 1024;

/// Whether the file holds the object's bytes but for its line endings: what git made of LF when it
/// checked the file out. This is the one conversion that is built into git and runs nothing.
pub(crate) fn is_object_but_for_line_endings(
    dir: BorrowedFd<'_>,
    name: &[u8],
    stat: &Stat,
    id: &ObjectId,
) -> io::Result<bool> {
    if stat.kind() != FileType::RegularFile || stat.size > CONVERTED_BYTES {
        return Ok(false);
    }
    let mut text = Vec::new();
    open_file_at(dir, name)?.take(CONVERTED_BYTES).read_to_end(&mut text)?;
    let converted = text.replace(b"\r\n", b"\n");
    let hash = gix_object::compute_hash(id.kind(), gix_object::Kind::Blob, &converted);
    Ok(hash.is_ok_and(|hash| hash == *id))
}

fn file_object(dir: BorrowedFd<'_>, name: &[u8], seen: &Stat, hash: gix_hash::Kind) -> io::Result<Option<ObjectId>> {
    let mut file = open_file_at(dir, name)?;
    let before = stat_of(&file)?;
    if !before.same_inode(seen) {
        return Err(io::Error::other("it was replaced while being read"));
    }
    let mut hasher = gix_hash::hasher(hash);
    hasher.update(&gix_object::encode::loose_header(gix_object::Kind::Blob, before.size));
    let mut chunk = vec![0; CHUNK.min(before.size as usize + 1)];
    let mut total = 0;
    loop {
        let length = file.read(&mut chunk)?;
        if length == 0 {
            break;
        }
        total += length as u64;
        hasher.update(&chunk[..length]);
    }
    if total != before.size {
        return Err(io::Error::other("it changed while being read"));
    }
    Ok(hasher.try_finalize().ok())
}
