//! The `reftable` format of refs and reflogs: a stack of tables, each sorted, of which newer ones override
//! older ones. Every table is read whole, and one that does not add up to the last byte is an error, never a
//! short list. Not here: what the refs mean.

use std::collections::BTreeMap;
use std::path::Path;

use bstr::ByteSlice;
use gix_hash::ObjectId;

use crate::refs::read_limited;

/// Tables larger than this are not read: git splits histories of a million refs into less.
const TABLE_BYTES: u64 = 1024 * 1024 * 1024;

/// `tables.list` names a table per line; git keeps a few.
const STACK_BYTES: u64 = 1024 * 1024;

/// What a ref holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Object(ObjectId),
    Symbolic(Vec<u8>),
}

/// One entry of a reflog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) old: ObjectId,
    pub(crate) new: ObjectId,
    pub(crate) message: Vec<u8>,
}

/// All tables of a stack, laid over each other.
#[derive(Debug, Default)]
pub(crate) struct Stack {
    pub(crate) refs: BTreeMap<Vec<u8>, Value>,
    /// By name and update index, oldest first.
    pub(crate) logs: BTreeMap<(Vec<u8>, u64), Entry>,
}

impl Stack {
    /// Reads the tables below a git directory.
    pub(crate) fn read(git_dir: &Path, hash: gix_hash::Kind) -> Result<Self, String> {
        let dir = git_dir.join("reftable");
        let list = read_limited(&dir.join("tables.list"), STACK_BYTES)
            .map_err(|error| format!("cannot read tables.list: {error}"))?;
        let mut stack = Self::default();
        for name in list.lines() {
            if name.contains(&b'/') {
                return Err("tables.list names a table elsewhere".into());
            }
            let path = dir.join(name.to_path_lossy());
            let table = read_limited(&path, TABLE_BYTES)
                .map_err(|error| format!("cannot read reftable {}: {error}", name.escape_ascii()))?;
            stack.lay(&table, hash).map_err(|why| format!("reftable {}: {why}", name.escape_ascii()))?;
        }
        Ok(stack)
    }

    /// Lays a newer table over what is known.
    pub(crate) fn lay(&mut self, table: &[u8], hash: gix_hash::Kind) -> Result<(), String> {
        let table = Table::open(table, hash)?;
        table.refs(&mut self.refs)?;
        table.logs(&mut self.logs)
    }
}

/// One table.
struct Table<'t> {
    data: &'t [u8],
    hash: gix_hash::Kind,
    header: usize,
    block_size: usize,
    /// Where the blocks of refs end, and where those of logs begin and end.
    refs_end: usize,
    logs: Option<(usize, usize)>,
}

const MAGIC: &[u8] = b"REFT";

/// The bytes of a header of version 1; version 2 says which hash as well.
const HEADER: usize = 24;

impl<'t> Table<'t> {
    fn open(data: &'t [u8], hash: gix_hash::Kind) -> Result<Self, String> {
        let mut read = Reader { data, at: 0 };
        if read.bytes(4)? != MAGIC {
            return Err("it is none".into());
        }
        let header = match read.byte()? {
            1 if hash == gix_hash::Kind::Sha1 => HEADER,
            2 => HEADER + 4,
            version => return Err(format!("its version is {version}")),
        };
        let block_size = read.number(3)? as usize;
        read.bytes(16)?;
        if header > HEADER {
            let expected: &[u8] = if hash == gix_hash::Kind::Sha256 { b"s256" } else { b"sha1" };
            if read.bytes(4)? != expected {
                return Err("its hash is another one".into());
            }
        }
        let end = data.len().checked_sub(header + 44).filter(|end| *end >= header).ok_or("it is cut off")?;
        let footer = &data[end..];
        let (body, sum) = footer.split_at(footer.len() - 4);
        let sum = Reader { data: sum, at: 0 }.number(4)?;
        if footer[..header] != data[..header] || sum != u64::from(crc(body)) {
            return Err("its footer does not match".into());
        }
        let mut read = Reader { data: footer, at: header };
        let ref_index = read.position(end)?;
        let objects = (read.number(8)? >> 5) as usize;
        let object_index = read.position(end)?;
        let (log, log_index) = (read.position(end)?, read.position(end)?);
        let first = data.get(header).copied().filter(|_| end > header);
        let after = |at: usize| {
            [ref_index, objects, object_index, log, log_index, end]
                .into_iter()
                .filter(|found| *found > at)
                .min()
                .unwrap_or(end)
        };
        let refs_end = if first == Some(b'r') { after(0) } else { 0 };
        let logs = (log > 0 || first == Some(b'g')).then_some((log, if log_index > log { log_index } else { end }));
        if !matches!(first, None | Some(b'r' | b'g')) {
            return Err("it begins with a block of no known kind".into());
        }
        Ok(Self { data, hash, header, block_size, refs_end, logs })
    }

    fn refs(&self, into: &mut BTreeMap<Vec<u8>, Value>) -> Result<(), String> {
        let mut at = 0;
        while at < self.refs_end {
            let skipped = if at == 0 { self.header } else { 0 };
            let mut read = Reader { data: self.data, at: at + skipped };
            let (kind, length) = (read.byte()?, read.number(3)? as usize);
            let block = self.data.get(at..at + length).filter(|_| kind == b'r').ok_or("a block of refs is missing")?;
            let mut read = Reader { data: records(block, skipped + 4)?, at: 0 };
            let mut name = Vec::new();
            while !read.is_done() {
                let kind = read.key(&mut name)?;
                read.varint()?;
                let value = match kind {
                    0 => None,
                    1 => Some(Value::Object(read.object(self.hash)?)),
                    2 => {
                        let object = read.object(self.hash)?;
                        read.object(self.hash)?;
                        Some(Value::Object(object))
                    }
                    3 => Some(Value::Symbolic(read.text()?)),
                    kind => return Err(format!("a ref is of kind {kind}")),
                };
                match value {
                    Some(value) => into.insert(name.clone(), value),
                    None => into.remove(&name),
                };
            }
            at += if self.block_size > 0 { self.block_size.max(length) } else { length };
        }
        Ok(())
    }

    fn logs(&self, into: &mut BTreeMap<(Vec<u8>, u64), Entry>) -> Result<(), String> {
        let Some((mut at, end)) = self.logs else { return Ok(()) };
        while at < end {
            let skipped = if at == 0 { self.header } else { 0 };
            let mut read = Reader { data: self.data, at: at + skipped };
            let (kind, length) = (read.byte()?, read.number(3)? as usize);
            let inflated =
                length.checked_sub(skipped + 4).filter(|_| kind == b'g').ok_or("a block of logs is missing")?;
            let mut block = vec![0; inflated];
            let packed = self.data.get(read.at..end).ok_or("a block of logs is cut off")?;
            let (_, consumed, produced) = gix_zlib::Inflate::default()
                .once(packed, &mut block)
                .map_err(|error| format!("a block of logs cannot be inflated: {error}"))?;
            if produced != inflated || consumed == 0 {
                return Err("a block of logs is cut off".into());
            }
            self.log_block(records(&block, 0)?, into)?;
            at = read.at + consumed;
        }
        Ok(())
    }

    fn log_block(&self, block: &[u8], into: &mut BTreeMap<(Vec<u8>, u64), Entry>) -> Result<(), String> {
        let (mut read, mut key) = (Reader { data: block, at: 0 }, Vec::new());
        while !read.is_done() {
            let kind = read.key(&mut key)?;
            let (name, index) = key.split_last_chunk::<8>().ok_or("a log has no update index")?;
            let name = name.strip_suffix(b"\0").ok_or("a log has no name")?.to_vec();
            let key = (name, u64::MAX - u64::from_be_bytes(*index));
            match kind {
                0 => {
                    into.remove(&key);
                }
                1 => {
                    let (old, new) = (read.object(self.hash)?, read.object(self.hash)?);
                    read.text()?;
                    read.text()?;
                    read.varint()?;
                    read.bytes(2)?;
                    into.insert(key, Entry { old, new, message: read.text()? });
                }
                kind => return Err(format!("a log is of kind {kind}")),
            }
        }
        Ok(())
    }
}

/// The records of a block, between what precedes them and the list of restarts at its end.
fn records(block: &[u8], start: usize) -> Result<&[u8], String> {
    let count = block.split_last_chunk::<2>().map(|(_, count)| usize::from(u16::from_be_bytes(*count)));
    let end = count.and_then(|count| block.len().checked_sub(2 + 3 * count));
    end.and_then(|end| block.get(start..end)).ok_or_else(|| "a block has no records".into())
}

struct Reader<'r> {
    data: &'r [u8],
    at: usize,
}

impl<'r> Reader<'r> {
    fn is_done(&self) -> bool {
        self.at >= self.data.len()
    }

    fn bytes(&mut self, count: usize) -> Result<&'r [u8], String> {
        let end = self.at.checked_add(count);
        let found = end.and_then(|end| self.data.get(self.at..end)).ok_or("it is cut off")?;
        self.at += count;
        Ok(found)
    }

    fn byte(&mut self) -> Result<u8, String> {
        Ok(self.bytes(1)?[0])
    }

    /// A number of so many bytes, the most significant first.
    fn number(&mut self, bytes: usize) -> Result<u64, String> {
        Ok(self.bytes(bytes)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn position(&mut self, end: usize) -> Result<usize, String> {
        usize::try_from(self.number(8)?)
            .ok()
            .filter(|at| *at <= end)
            .ok_or_else(|| "a section is beyond its end".into())
    }

    fn object(&mut self, hash: gix_hash::Kind) -> Result<ObjectId, String> {
        Ok(ObjectId::from_bytes_or_panic(self.bytes(hash.len_in_bytes())?))
    }

    fn text(&mut self) -> Result<Vec<u8>, String> {
        let length = usize::try_from(self.varint()?).map_err(|_| "a text is too long")?;
        Ok(self.bytes(length)?.to_vec())
    }

    /// As in packs: seven bits at a time, each further byte counting from one more.
    fn varint(&mut self) -> Result<u64, String> {
        let mut byte = self.byte()?;
        let mut value = u64::from(byte & 0x7f);
        while byte & 0x80 != 0 {
            byte = self.byte()?;
            let more = value.checked_add(1).and_then(|value| value.checked_mul(128)).ok_or("a number is too large")?;
            value = more | u64::from(byte & 0x7f);
        }
        Ok(value)
    }

    /// A key that may begin like the one before; returns the kind of the record.
    fn key(&mut self, key: &mut Vec<u8>) -> Result<u8, String> {
        let prefix = usize::try_from(self.varint()?).ok().filter(|prefix| *prefix <= key.len());
        let (length, kind) = self.varint().map(|number| (number >> 3, (number & 7) as u8))?;
        key.truncate(prefix.ok_or("a name begins like none")?);
        key.extend_from_slice(self.bytes(usize::try_from(length).map_err(|_| "a name is too long")?)?);
        Ok(kind)
    }
}

/// A table with the footer that its header and its positions ask for, so that what is wrong with the rest is
/// not hidden by a checksum.
pub(crate) fn sealed(table: &[u8]) -> Vec<u8> {
    let mut table = table.to_vec();
    let header = if table.get(4) == Some(&2) { HEADER + 4 } else { HEADER };
    let Some(end) = table.len().checked_sub(header + 44).filter(|end| *end >= header) else { return table };
    table.copy_within(..header, end);
    let sum_at = table.len() - 4;
    let sum = crc(&table[end..sum_at]);
    table[sum_at..].copy_from_slice(&sum.to_be_bytes());
    table
}

/// The checksum of zlib and Ethernet.
fn crc(data: &[u8]) -> u32 {
    let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    !data.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_usual_one() {
        assert_eq!(crc(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn numbers_are_read_as_git_writes_them() {
        for (bytes, number) in
            [(&[0x7f][..], 0x7f), (&[0x80, 0][..], 0x80), (&[0x80, 0x09][..], 0x89), (&[0x81, 0x80, 0][..], 32_896)]
        {
            assert_eq!(Reader { data: bytes, at: 0 }.varint(), Ok(number), "{bytes:?}");
        }
        assert!(Reader { data: &[0xff; 20], at: 0 }.varint().is_err());
        assert!(Reader { data: &[0x80], at: 0 }.varint().is_err());
    }
}
