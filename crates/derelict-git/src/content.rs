//! The object that a file on disk would be, byte for byte. Not here: conversions of those bytes.

use std::io::{self, Read};
use std::os::fd::BorrowedFd;

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

/// All bytes of a regular file, if there are not more than `most`.
pub(crate) fn bytes_of(dir: BorrowedFd<'_>, name: &[u8], most: u64) -> io::Result<Option<Vec<u8>>> {
    let (file, mut bytes) = (open_file_at(dir, name)?, Vec::new());
    let read = file.take(most + 1).read_to_end(&mut bytes)?;
    Ok(Some(bytes).filter(|_| read as u64 <= most))
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
