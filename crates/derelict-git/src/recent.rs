//! What was just read from packs: an object that is kept as a chain of differences is made from those before it, which
//! the next one is made from, too. Without this a history in one chain is inflated again for each of its commits.

use std::collections::HashMap;

use gix_object::Kind;
use gix_odb::pack::cache::DecodeEntry;

/// Larger objects are made again: there are few of them in a chain.
const LARGEST: usize = 64 * 1024;

/// Bytes that are remembered before the older half is forgotten.
const MOST_BYTES: usize = 4 * 1024 * 1024;

#[derive(Default)]
pub(crate) struct Recent {
    young: HashMap<(u32, u64), Made>,
    old: HashMap<(u32, u64), Made>,
    /// Of the young ones.
    bytes: usize,
}

struct Made {
    kind: Kind,
    data: Vec<u8>,
    compressed: usize,
}

impl DecodeEntry for Recent {
    fn put(&mut self, pack_id: u32, offset: u64, data: &[u8], kind: Kind, compressed: usize) {
        if data.len() > LARGEST {
            return;
        }
        if self.bytes > MOST_BYTES / 2 {
            self.old = std::mem::take(&mut self.young);
            self.bytes = 0;
        }
        self.bytes += data.len();
        self.young.insert((pack_id, offset), Made { kind, data: data.to_vec(), compressed });
    }

    fn get(&mut self, pack_id: u32, offset: u64, out: &mut Vec<u8>) -> Option<(Kind, usize)> {
        let at = (pack_id, offset);
        let made = self.young.get(&at).or_else(|| self.old.get(&at))?;
        out.clear();
        out.extend_from_slice(&made.data);
        Some((made.kind, made.compressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_last_is_remembered_and_the_rest_forgotten_in_time() {
        let (mut recent, mut out) = (Recent::default(), Vec::new());
        let large = vec![7; LARGEST];
        for offset in 0..200 {
            recent.put(1, offset, &large, Kind::Blob, 9);
        }
        assert_eq!(recent.get(1, 199, &mut out), Some((Kind::Blob, 9)));
        assert_eq!(out, large);
        assert_eq!(recent.get(1, 0, &mut out), None);
        assert_eq!(recent.get(2, 199, &mut out), None);
        assert!(recent.young.len() + recent.old.len() <= MOST_BYTES / LARGEST + 2);
        recent.put(1, 500, &vec![7; LARGEST + 1], Kind::Blob, 9);
        assert_eq!(recent.get(1, 500, &mut out), None);
    }
}
