//! Git's bundles: a header with names and prerequisites, then a pack. Written without deltas, read back object by
//! object, and given the index that belongs beside a pack. Which objects go into one is `salvage`'s.
//!
//! The formats are those of `gitformat-bundle` (version 2, and 3 where the hash is not SHA-1) and of `gitformat-pack`
//! (pack version 2, index version 2).

use std::io::{self, BufRead, Read, Write};

use gix_hash::ObjectId;
use gix_object::Kind;
use gix_zlib::stream::{deflate, inflate};

use crate::commits::Stores;
use crate::refs::parse_id;

/// What a bundle says before its pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) hash: gix_hash::Kind,
    /// Commits that whoever unpacks it must have.
    pub(crate) prerequisites: Vec<ObjectId>,
    pub(crate) refs: Vec<(Vec<u8>, ObjectId)>,
}

/// A bundle that was read to its end.
pub(crate) struct Bundle {
    pub(crate) header: Header,
    pub(crate) pack: Pack,
}

/// What the index of a pack says.
pub(crate) struct Pack {
    entries: Vec<PackEntry>,
    checksum: ObjectId,
}

struct PackEntry {
    id: ObjectId,
    offset: u64,
    crc: u32,
}

/// A header line is a name and an object; git allows names of 4 KiB.
const LONGEST_LINE: u64 = 16 * 1024;

/// Bytes inflated at a time.
const CHUNK: usize = 64 * 1024;

/// The kinds of entries that hold an object whole.
const KINDS: [(u8, Kind); 4] = [(1, Kind::Commit), (2, Kind::Tree), (3, Kind::Blob), (4, Kind::Tag)];

fn wrong(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

/// Writes a bundle of these objects, each of which is compared with its name.
pub(crate) fn write(header: &Header, objects: &[ObjectId], stores: &Stores, into: &mut dyn Write) -> io::Result<()> {
    into.write_all(&header_text(header))?;
    let mut pack = Hashing { into, hasher: gix_hash::hasher(header.hash) };
    let count = u32::try_from(objects.len()).map_err(|_| wrong("there are too many objects for one pack"))?;
    pack.write_all(b"PACK\0\0\0\x02")?;
    pack.write_all(&count.to_be_bytes())?;
    let mut buffer = Vec::new();
    for id in objects {
        let found = stores.find(id, &mut buffer).map_err(wrong)?;
        let data = found.ok_or_else(|| wrong(format!("object {id} is missing")))?;
        let really =
            gix_object::compute_hash(header.hash, data.kind, data.data).map_err(|error| wrong(error.to_string()))?;
        if really != *id {
            return Err(wrong(format!("object {id} is broken")));
        }
        pack.write_all(&entry_header(data.kind, data.data.len() as u64))?;
        let mut deflater = deflate::Write::new(&mut pack, gix_zlib::Compression::BEST_SPEED);
        deflater.write_all(data.data)?;
        deflater.flush()?;
    }
    let Hashing { into, hasher } = pack;
    let checksum = hasher.try_finalize().map_err(|error| wrong(error.to_string()))?;
    into.write_all(checksum.as_slice())
}

fn header_text(header: &Header) -> Vec<u8> {
    let mut text = if header.hash == gix_hash::Kind::Sha1 {
        b"# v2 git bundle\n".to_vec()
    } else {
        format!("# v3 git bundle\n@object-format={}\n", header.hash).into_bytes()
    };
    for id in &header.prerequisites {
        text.extend_from_slice(format!("-{id} \n").as_bytes());
    }
    for (name, id) in &header.refs {
        text.extend_from_slice(format!("{id} ").as_bytes());
        text.extend_from_slice(name);
        text.push(b'\n');
    }
    text.push(b'\n');
    text
}

/// Four bits of size beside the kind, then seven a byte.
fn entry_header(kind: Kind, size: u64) -> Vec<u8> {
    let number = KINDS.iter().find(|(_, known)| *known == kind).map(|(number, _)| *number);
    let number = number.expect("because the table has every kind");
    let (mut rest, mut bytes) = (size >> 4, vec![number << 4 | (size & 0x0f) as u8]);
    while rest > 0 {
        *bytes.last_mut().expect("because it was made with one") |= 0x80;
        bytes.push((rest & 0x7f) as u8);
        rest >>= 7;
    }
    bytes
}

struct Hashing<'w> {
    into: &'w mut dyn Write,
    hasher: gix_hash::Hasher,
}

impl Write for Hashing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.into.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.into.flush()
    }
}

/// Reads a bundle to its end, inflates and names every object in it, and copies its pack to `pack`.
pub(crate) fn read(from: &mut dyn BufRead, pack: &mut dyn Write) -> io::Result<Bundle> {
    let header = read_header(from)?;
    let hasher = gix_hash::hasher(header.hash);
    let mut reader = Tracked { from, pack, hasher, crc: crc32fast::Hasher::new(), offset: 0, failed: None };
    let mut start = [0; 12];
    reader.read_exact(&mut start)?;
    let Some(count) = start.strip_prefix(b"PACK\0\0\0\x02").and_then(|count| count.try_into().ok()) else {
        return Err(wrong("what follows its header is no pack of version 2"));
    };
    let count = u32::from_be_bytes(count);
    let mut entries = Vec::new();
    for _ in 0..count {
        let offset = reader.offset;
        reader.crc = crc32fast::Hasher::new();
        let id = read_object(&mut reader, header.hash)?;
        entries.push(PackEntry { id, offset, crc: reader.crc.clone().finalize() });
    }
    let Tracked { from, pack, hasher, failed, .. } = reader;
    failed.map_or(Ok(()), Err)?;
    let checksum = hasher.try_finalize().map_err(|error| wrong(error.to_string()))?;
    let mut written = vec![0; header.hash.len_in_bytes()];
    from.read_exact(&mut written)?;
    pack.write_all(&written)?;
    if written != checksum.as_slice() || !from.fill_buf()?.is_empty() {
        return Err(wrong("its pack is not what its checksum says"));
    }
    entries.sort_by_key(|entry| entry.id);
    Ok(Bundle { header, pack: Pack { entries, checksum } })
}

fn read_header(from: &mut dyn BufRead) -> io::Result<Header> {
    let mut line = |what: &str| {
        let mut text = Vec::new();
        (&mut *from).take(LONGEST_LINE).read_until(b'\n', &mut text)?;
        let whole = text.strip_suffix(b"\n").map(<[u8]>::to_vec);
        whole.ok_or_else(|| wrong(format!("its header ends in the middle of {what}")))
    };
    let hash = match line("its first line")?.as_slice() {
        b"# v2 git bundle" => gix_hash::Kind::Sha1,
        b"# v3 git bundle" => match line("its format")?.as_slice() {
            b"@object-format=sha256" => gix_hash::Kind::Sha256,
            b"@object-format=sha1" => gix_hash::Kind::Sha1,
            _ => return Err(wrong("it asks for something that is not known here")),
        },
        _ => return Err(wrong("it is no bundle of version 2 or 3")),
    };
    let mut header = Header { hash, prerequisites: Vec::new(), refs: Vec::new() };
    loop {
        let line = line("its names")?;
        let (id, name) = match line.strip_prefix(b"-") {
            _ if line.is_empty() => return Ok(header),
            Some(prerequisite) => (prerequisite, None),
            None => (line.as_slice(), Some(())),
        };
        let (hex, rest) = id.split_at_checked(hash.len_in_hex()).unwrap_or((id, b""));
        let id = parse_id(hex, hash).ok_or_else(|| wrong("a line of its header names no object"))?;
        match name {
            None => header.prerequisites.push(id),
            Some(()) => header.refs.push((rest.strip_prefix(b" ").unwrap_or(rest).to_vec(), id)),
        }
    }
}

/// Inflates one object and names it by its content.
fn read_object(reader: &mut Tracked<'_>, hash: gix_hash::Kind) -> io::Result<ObjectId> {
    let mut byte = reader.byte()?;
    let number = byte >> 4 & 0x07;
    let kind = KINDS.iter().find(|(known, _)| *known == number).map(|(_, kind)| *kind);
    let kind = kind.ok_or_else(|| wrong("its pack holds something else than whole objects"))?;
    let (mut size, mut shift) = (u64::from(byte & 0x0f), 4);
    while byte & 0x80 != 0 {
        byte = reader.byte()?;
        let part = u64::from(byte & 0x7f).checked_shl(shift).filter(|_| shift < 60);
        size |= part.ok_or_else(|| wrong("an object of its pack has no possible size"))?;
        shift += 7;
    }
    let mut hasher = gix_hash::hasher(hash);
    hasher.update(&gix_object::encode::loose_header(kind, size));
    let (mut state, mut chunk, mut left) = (gix_zlib::Decompress::new(), vec![0; CHUNK], size);
    loop {
        // One byte more than is left, so that the end of the stream is reached and checked.
        let room = usize::try_from(left).map_or(CHUNK, |left| CHUNK.min(left + 1));
        let length = inflate::read(reader, &mut state, &mut chunk[..room])?;
        hasher.update(&chunk[..length]);
        left = left.checked_sub(length as u64).ok_or_else(|| wrong("an object of its pack is longer than it says"))?;
        if length < room {
            break;
        }
    }
    if left > 0 {
        return Err(wrong("an object of its pack is shorter than it says"));
    }
    hasher.try_finalize().map_err(|error| wrong(error.to_string()))
}

/// Reads a pack, and copies, hashes and counts what was read.
struct Tracked<'r> {
    from: &'r mut dyn BufRead,
    pack: &'r mut dyn Write,
    hasher: gix_hash::Hasher,
    crc: crc32fast::Hasher,
    offset: u64,
    /// Consuming cannot fail; whatever did is told at the next reading.
    failed: Option<io::Error>,
}

impl Tracked<'_> {
    fn byte(&mut self) -> io::Result<u8> {
        let mut byte = [0];
        self.read_exact(&mut byte)?;
        Ok(byte[0])
    }
}

impl Read for Tracked<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let there = self.fill_buf()?;
        let length = there.len().min(into.len());
        into[..length].copy_from_slice(&there[..length]);
        self.consume(length);
        Ok(length)
    }
}

impl BufRead for Tracked<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        match self.failed.take() {
            Some(error) => Err(error),
            None => self.from.fill_buf(),
        }
    }

    fn consume(&mut self, amount: usize) {
        let consumed = self.from.fill_buf().and_then(|there| {
            let consumed = &there[..amount.min(there.len())];
            self.hasher.update(consumed);
            self.crc.update(consumed);
            self.pack.write_all(consumed)
        });
        self.failed = consumed.err().or(self.failed.take());
        self.offset += amount as u64;
        self.from.consume(amount);
    }
}

/// What tells an index of version 2 from one of version 1.
const INDEX_MAGIC: &[u8] = b"\xfftOc\0\0\0\x02";

/// Offsets from here on are in the table of large ones.
const LARGE: u64 = 1 << 31;

impl Pack {
    /// The names of its objects, sorted.
    pub(crate) fn objects(&self) -> impl Iterator<Item = ObjectId> {
        self.entries.iter().map(|entry| entry.id)
    }

    /// What git calls a pack.
    pub(crate) fn name(&self) -> String {
        format!("pack-{}", self.checksum)
    }

    /// The index that belongs beside it.
    pub(crate) fn index(&self) -> io::Result<Vec<u8>> {
        let mut index = INDEX_MAGIC.to_vec();
        for first in 0..=u8::MAX {
            let up_to = self.entries.partition_point(|entry| entry.id.first_byte() <= first);
            index.extend_from_slice(&(up_to as u32).to_be_bytes());
        }
        self.entries.iter().for_each(|entry| index.extend_from_slice(entry.id.as_slice()));
        self.entries.iter().for_each(|entry| index.extend_from_slice(&entry.crc.to_be_bytes()));
        let mut large = Vec::new();
        for entry in &self.entries {
            let offset = if entry.offset < LARGE {
                entry.offset as u32
            } else {
                large.push(entry.offset);
                LARGE as u32 | (large.len() as u32 - 1)
            };
            index.extend_from_slice(&offset.to_be_bytes());
        }
        large.iter().for_each(|offset| index.extend_from_slice(&offset.to_be_bytes()));
        index.extend_from_slice(self.checksum.as_slice());
        let mut hasher = gix_hash::hasher(self.checksum.kind());
        hasher.update(&index);
        let checksum = hasher.try_finalize().map_err(|error| wrong(error.to_string()))?;
        index.extend_from_slice(checksum.as_slice());
        Ok(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_an_object_is_written_as_git_reads_it() {
        assert_eq!(entry_header(Kind::Commit, 0), [0x10]);
        assert_eq!(entry_header(Kind::Blob, 15), [0x3f]);
        assert_eq!(entry_header(Kind::Tree, 16), [0xa0, 0x01]);
        assert_eq!(entry_header(Kind::Tag, 0x1_0000), [0xc0, 0x80, 0x20]);
    }

    #[test]
    fn what_is_no_bundle_is_told() {
        let told = |text: &[u8]| read(&mut &text[..], &mut io::sink()).err().map(|error| error.to_string());
        assert_eq!(told(b"").as_deref(), Some("its header ends in the middle of its first line"));
        assert_eq!(told(b"# v9 git bundle\n\n").as_deref(), Some("it is no bundle of version 2 or 3"));
        assert_eq!(told(b"# v2 git bundle\nxyz refs/x\n\n").as_deref(), Some("a line of its header names no object"));
        assert_eq!(
            told(b"# v2 git bundle\n\nPACK\0\0\0\x09\0\0\0\0").as_deref(),
            Some("what follows its header is no pack of version 2")
        );
        assert!(told(b"# v2 git bundle\n\nPACK\0\0\0\x02\0\0\0\x01").is_some());
    }
}
