//! git-lfs: pointers that stand for large files, and the stores that hold these. An object that only the
//! repository's own store holds may not have been uploaded, whatever was pushed; one that a repository which
//! stays has in its store, byte for byte, is saved.

use std::io::Read;
use std::path::{Path, PathBuf};

use bstr::ByteSlice;
use sha2::Digest as _;

use crate::stat::open_file_at;

/// A pointer file is smaller than this; git-lfs itself reads no more.
pub(crate) const POINTER_BYTES: u64 = 1024;

/// Larger objects are not read to be compared.
const MOST_BYTES: u64 = 1024 * 1024 * 1024;

/// Bytes read at a time.
const CHUNK: usize = 256 * 1024;

/// What a pointer file says.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Pointer {
    /// The SHA-256 of the content.
    pub(crate) oid: [u8; 32],
    pub(crate) size: u64,
}

impl Pointer {
    /// Reads a pointer file; `None` when it is none.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        if text.len() as u64 > POINTER_BYTES || !text.starts_with(b"version https://git-lfs.github.com/spec/v1\n") {
            return None;
        }
        let value = |key: &[u8]| {
            let mut values = text.lines().filter_map(|line| line.strip_prefix(key));
            values.next().filter(|_| values.next().is_none())
        };
        let size = value(b"size ")?.to_str().ok()?.parse().ok()?;
        Some(Self { oid: parse_oid(value(b"oid sha256:")?)?, size })
    }

    /// Whether one of the stores has exactly this content.
    pub(crate) fn is_in(&self, stores: &[PathBuf]) -> bool {
        stores.iter().any(|store| holds(store, self).unwrap_or(false))
    }
}

/// An object name of git-lfs: 64 lower-case hexadecimal digits.
pub(crate) fn parse_oid(hex: &[u8]) -> Option<[u8; 32]> {
    let (pairs, rest) = hex.as_chunks::<2>();
    if pairs.len() != 32 || !rest.is_empty() {
        return None;
    }
    let mut oid = [0; 32];
    for (byte, pair) in oid.iter_mut().zip(pairs) {
        let digit = |letter: u8| match letter {
            b'0'..=b'9' => Some(letter - b'0'),
            b'a'..=b'f' => Some(letter - b'a' + 10),
            _ => None,
        };
        *byte = digit(pair[0])? * 16 + digit(pair[1])?;
    }
    Some(oid)
}

/// The SHA-256 of bytes.
pub(crate) fn digest(bytes: &[u8]) -> [u8; 32] {
    sha2::Sha256::digest(bytes).into()
}

/// Looked at byte by byte: a store of that name may hold anything.
fn holds(store: &Path, pointer: &Pointer) -> std::io::Result<bool> {
    let hex: String = pointer.oid.iter().map(|byte| format!("{byte:02x}")).collect();
    let path = store.join(&hex[..2]).join(&hex[2..4]).join(&hex);
    let mut file = open_file_at(rustix::fs::CWD, path.as_os_str().as_encoded_bytes())?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() != pointer.size || pointer.size > MOST_BYTES {
        return Ok(false);
    }
    let (mut hasher, mut chunk) = (sha2::Sha256::new(), vec![0; CHUNK]);
    loop {
        let length = file.read(&mut chunk)?;
        if length == 0 {
            return Ok(hasher.finalize().as_slice() == pointer.oid);
        }
        hasher.update(&chunk[..length]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_is_read_and_what_only_looks_like_one_is_not() {
        let oid = "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393";
        let text = format!("version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize 12345\n");
        assert_eq!(Pointer::parse(text.as_bytes()).map(|pointer| pointer.size), Some(12345));
        for broken in [
            text.replace("v1", "v9"),
            text.replace("4d7a", "4D7A"),
            text.replace("size 12345", "size -1"),
            text.replace("size", "oid sha256:00\nsize"),
            format!("{text}{}", "x".repeat(1024)),
        ] {
            assert_eq!(Pointer::parse(broken.as_bytes()), None, "{broken}");
        }
    }
}
