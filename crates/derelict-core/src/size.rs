//! How much a removal frees. An inode counts once; an inode with a link outside the set that is
//! removed frees nothing; what could not be read makes a size "at least".

use std::collections::HashMap;

/// What one directory occupies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Size {
    /// Bytes on disk of inodes that have a single link.
    pub sole_bytes: u64,
    /// Directory entries below (and including) the directory.
    pub entries: u64,
    /// Inodes with several links, which free their bytes only when every link goes.
    pub linked: Vec<LinkedInode>,
    /// Whether everything below was read.
    pub completeness: Completeness,
}

/// What a directory was measured to hold that shares no inode with another: so many entries free so many
/// bytes. Whoever removes it has no need to ask of each entry what it frees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measured {
    entries: u64,
    bytes: u64,
}

impl Measured {
    /// The bytes that go with so many of the entries: all of them with all, and a part with a part.
    #[must_use]
    pub fn bytes_of(self, entries: u64) -> u64 {
        let part = u128::from(self.bytes) * u128::from(entries.min(self.entries)) / u128::from(self.entries.max(1));
        u64::try_from(part).unwrap_or(self.bytes)
    }
}

/// An inode with more than one link, as seen from one directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkedInode {
    /// Device number.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// How many names it has anywhere.
    pub links: u64,
    /// How many of them were seen below this directory.
    pub seen: u64,
    /// Bytes on disk.
    pub bytes: u64,
}

/// Whether a size is the whole truth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Completeness {
    /// All of it was read.
    Exact,
    /// Some of it could not be read; the number is a lower bound.
    AtLeast {
        /// The first thing that could not be read.
        why: String,
    },
}

/// What a set of directories frees together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Freed {
    /// Bytes on disk.
    pub bytes: u64,
    /// Inodes: the entries less those that are further links to an inode already counted, and less
    /// those that survive through a link outside.
    pub inodes: u64,
    /// Whether the number is a lower bound.
    pub completeness: Completeness,
}

impl Size {
    /// The measure by which a removal can be counted; none where inodes are shared or not all was read.
    #[must_use]
    pub fn measured(&self) -> Option<Measured> {
        match &self.completeness {
            Completeness::Exact if self.linked.is_empty() => {
                Some(Measured { entries: self.entries, bytes: self.sole_bytes })
            }
            Completeness::Exact | Completeness::AtLeast { .. } => None,
        }
    }

    /// What removing this directory alone would free.
    #[must_use]
    pub fn freed_alone(&self) -> Freed {
        freed_together([self])
    }
}

/// What removing all of `sizes` frees: an inode whose links are spread over several of them counts
/// once, and only if none is left outside.
pub fn freed_together<'a>(sizes: impl IntoIterator<Item = &'a Size>) -> Freed {
    let mut freed = Freed { bytes: 0, inodes: 0, completeness: Completeness::Exact };
    let mut linked: HashMap<(u64, u64), LinkedInode> = HashMap::new();
    for size in sizes {
        let linked_entries: u64 = size.linked.iter().map(|inode| inode.seen).sum();
        freed.bytes += size.sole_bytes;
        freed.inodes += size.entries.saturating_sub(linked_entries);
        if freed.completeness == Completeness::Exact {
            freed.completeness = size.completeness.clone();
        }
        for inode in &size.linked {
            linked.entry((inode.dev, inode.ino)).and_modify(|known| known.seen += inode.seen).or_insert(*inode);
        }
    }
    for inode in linked.values().filter(|inode| inode.seen >= inode.links) {
        freed.bytes += inode.bytes;
        freed.inodes += 1;
    }
    freed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(sole_bytes: u64, entries: u64, linked: Vec<LinkedInode>) -> Size {
        Size { sole_bytes, entries, linked, completeness: Completeness::Exact }
    }

    fn inode(ino: u64, links: u64, seen: u64) -> LinkedInode {
        LinkedInode { dev: 1, ino, links, seen, bytes: 4096 }
    }

    #[test]
    fn a_part_of_the_entries_frees_a_part_of_what_was_measured() {
        let completeness = Completeness::Exact;
        let size = Size { sole_bytes: 1000, entries: 10, linked: Vec::new(), completeness };
        let measured = size.measured().expect("because it is exact and shares nothing");
        assert_eq!([0, 1, 9, 10, 11].map(|entries| measured.bytes_of(entries)), [0, 100, 900, 1000, 1000]);
        let shared = LinkedInode { dev: 1, ino: 2, links: 2, seen: 1, bytes: 5 };
        assert_eq!(Size { linked: vec![shared], ..size.clone() }.measured(), None);
        let completeness = Completeness::AtLeast { why: "x".into() };
        assert_eq!(Size { completeness, ..size.clone() }.measured(), None);
        assert_eq!(Size { entries: 0, ..size }.measured().map(|measured| measured.bytes_of(3)), Some(0));
    }

    #[test]
    fn an_inode_with_a_link_outside_frees_nothing() {
        let freed = size(100, 3, vec![inode(7, 2, 1)]).freed_alone();
        assert_eq!((freed.bytes, freed.inodes), (100, 2));
    }

    #[test]
    fn an_inode_whose_links_are_all_inside_counts_once() {
        let freed = size(100, 4, vec![inode(7, 2, 2)]).freed_alone();
        assert_eq!((freed.bytes, freed.inodes), (4196, 3));
    }

    #[test]
    fn links_spread_over_the_set_free_their_bytes_only_together() {
        let (a, b) = (size(10, 2, vec![inode(7, 2, 1)]), size(20, 2, vec![inode(7, 2, 1)]));
        assert_eq!(a.freed_alone().bytes, 10);
        assert_eq!(b.freed_alone().bytes, 20);
        let both = freed_together([&a, &b]);
        assert_eq!((both.bytes, both.inodes), (4126, 3));
    }

    #[test]
    fn the_same_number_on_another_device_is_another_inode() {
        let a = size(0, 1, vec![inode(7, 2, 1)]);
        let b = size(0, 1, vec![LinkedInode { dev: 2, ..inode(7, 2, 1) }]);
        assert_eq!(freed_together([&a, &b]).bytes, 0);
    }

    #[test]
    fn one_unreadable_part_makes_the_whole_set_a_lower_bound() {
        let part = Completeness::AtLeast { why: "cannot list a/b".into() };
        let hidden = Size { completeness: part.clone(), ..size(1, 1, vec![]) };
        assert_eq!(freed_together([&size(1, 1, vec![]), &hidden, &size(1, 1, vec![])]).completeness, part);
    }
}
