//! The index: found by path while the work tree is walked, and compared with HEAD.

use std::ops::Range;
use std::path::Path;

use bstr::ByteSlice;
use gix_hash::ObjectId;
use gix_index::entry::{Flags, Mode};
use rustix::fs::FileType;

use crate::commits::Stores;
use crate::stat::Stat;
use crate::trees::{Held, list};

/// An index, and which of its entries the walk has met.
pub(crate) struct Index {
    file: gix_index::File,
    /// Modification time of the index file itself: seconds and nanoseconds.
    written: (i64, u32),
    met: Vec<u64>,
}

/// What the index has for a path.
pub(crate) enum Found {
    /// A file, symlink or submodule.
    Entry(usize),
    /// A directory with these entries below it.
    Directory(Range<usize>),
    Nothing,
}

/// How a file on disk compares with its entry by stat data alone.
pub(crate) enum ByStat {
    /// Untouched since git looked.
    Same,
    /// The content must be read.
    Read,
    /// Not even the same kind of file.
    OtherKind,
}

impl Index {
    /// Reads an index of version 2, 3 or 4, split or sparse. `None` when there is none.
    pub(crate) fn read(path: &Path, hash: gix_hash::Kind) -> Result<Option<Self>, String> {
        match std::fs::symlink_metadata(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("cannot read the index: {error}")),
            Ok(metadata) if !metadata.is_file() => return Err("the index is not a regular file".into()),
            Ok(_) => {}
        }
        let options = gix_index::decode::Options { thread_limit: Some(1), ..Default::default() };
        let file = gix_index::File::at(path, hash, false, options)
            .map_err(|error| format!("cannot read the index: {error}"))?;
        let written = (file.timestamp().unix_seconds(), file.timestamp().nanoseconds());
        let met = vec![0; file.entries().len().div_ceil(64)];
        Ok(Some(Self { file, written, met }))
    }

    pub(crate) fn entries(&self) -> usize {
        self.file.entries().len()
    }

    pub(crate) fn path(&self, entry: usize) -> &[u8] {
        self.file.entry(entry).path(&self.file)
    }

    /// What changes whenever git writes it.
    pub(crate) fn print(&self) -> Vec<u8> {
        let (seconds, nanoseconds) = self.written;
        let checksum = self.file.checksum().map_or_else(Vec::new, |checksum| checksum.as_slice().to_vec());
        [checksum, seconds.to_le_bytes().to_vec(), nanoseconds.to_le_bytes().to_vec()].concat()
    }

    /// The entry of a path, if it has one that is merged.
    pub(crate) fn position(&self, path: &[u8]) -> Option<usize> {
        self.file.entry_index_by_path(path.as_bstr()).ok()
    }

    pub(crate) fn id(&self, entry: usize) -> ObjectId {
        self.file.entry(entry).id
    }

    /// Whether the file is left out of the work tree on purpose.
    pub(crate) fn is_left_out(&self, entry: usize) -> bool {
        self.file.entry(entry).flags.contains(Flags::SKIP_WORKTREE)
    }

    pub(crate) fn is_submodule(&self, entry: usize) -> bool {
        self.file.entry(entry).mode == Mode::COMMIT
    }

    /// Looks a path up among the entries of its directory, and marks what it finds as met.
    pub(crate) fn find(&mut self, path: &[u8], within: &Range<usize>) -> Found {
        let entries = &self.file.entries()[within.clone()];
        let backing = self.file.path_backing();
        let start = within.start + entries.partition_point(|entry| entry.path_in(backing).as_bytes() < path);
        let at = |index: usize| (index < within.end).then(|| self.path(index));
        if at(start) == Some(path) {
            // Unmerged stages of one path stand next to each other.
            let end = (start..within.end).find(|index| at(*index) != Some(path)).unwrap_or(within.end);
            (start..end).for_each(|index| self.met[index / 64] |= 1 << (index % 64));
            return Found::Entry(start);
        }
        // `a-b` sorts before `a/`, so the directory may begin further on.
        let below = |candidate: &[u8]| {
            candidate.len() > path.len() && candidate.starts_with(path) && candidate[path.len()] == b'/'
        };
        let past = |candidate: &[u8]| {
            candidate.strip_prefix(path).is_some_and(|rest| rest.first().is_some_and(|byte| *byte < b'/'))
        };
        let rest = &self.file.entries()[start..within.end];
        let begin = start + rest.partition_point(|entry| past(entry.path_in(backing)));
        let length = self.file.entries()[begin..within.end].partition_point(|entry| below(entry.path_in(backing)));
        if length == 0 { Found::Nothing } else { Found::Directory(begin..begin + length) }
    }

    /// Compares by stat data, as git does, but every field counts: none may be configured away.
    pub(crate) fn by_stat(&self, entry: usize, stat: &Stat) -> ByStat {
        let entry = self.file.entry(entry);
        let kind = match entry.mode {
            Mode::SYMLINK => FileType::Symlink,
            Mode::COMMIT | Mode::DIR => FileType::Directory,
            _ => FileType::RegularFile,
        };
        if stat.kind() != kind {
            return ByStat::OtherKind;
        }
        if entry.mode == Mode::FILE || entry.mode == Mode::FILE_EXECUTABLE {
            let executable = stat.mode & 0o100 != 0;
            if executable != (entry.mode == Mode::FILE_EXECUTABLE) {
                return ByStat::OtherKind;
            }
        }
        let known = &entry.stat;
        let time = |time: &gix_index::entry::stat::Time| (i64::from(time.secs), time.nsecs);
        let truncated = |value: u64| value as u32;
        let same = time(&known.mtime) == stat.mtime
            && time(&known.ctime) == stat.ctime
            && known.ino == truncated(stat.ino)
            && known.size == truncated(stat.size)
            && (known.size != 0 || stat.size == 0)
            && known.uid == stat.uid
            && known.gid == stat.gid;
        // Written in the same instant as the index: it may have changed again without a trace.
        let racy = stat.mtime >= self.written;
        if same && !racy { ByStat::Same } else { ByStat::Read }
    }

    /// Entries the walk did not meet, and that are not left out on purpose (a sparse checkout).
    pub(crate) fn missing(&self) -> impl Iterator<Item = usize> {
        (0..self.entries()).filter(|index| {
            let met = self.met[index / 64] & (1 << (index % 64)) != 0;
            let entry = self.file.entry(*index);
            !met && !entry.flags.contains(Flags::SKIP_WORKTREE) && entry.mode != Mode::COMMIT
        })
    }

    /// Paths with unmerged stages, each once.
    pub(crate) fn unmerged(&self) -> Vec<&[u8]> {
        let mut paths: Vec<&[u8]> = (0..self.entries())
            .filter(|index| self.file.entry(*index).stage_raw() != 0)
            .map(|index| self.path(index))
            .collect();
        paths.dedup();
        paths
    }

    /// Paths at which the index differs from a tree, at most `most` of them.
    ///
    /// Where the index's own cached tree is valid and names the tree, nothing below is read.
    pub(crate) fn differences(&self, stores: &Stores, tree: &ObjectId, most: usize) -> Result<Vec<Vec<u8>>, String> {
        let mut found = Vec::new();
        let mut pending = vec![(Vec::new(), *tree, 0..self.entries(), self.file.tree())];
        while let Some((prefix, tree, range, cached)) = pending.pop() {
            let valid =
                cached.is_some_and(|cached| cached.id == tree && cached.num_entries == u32::try_from(range.len()).ok());
            if valid {
                continue;
            }
            if found.len() >= most {
                break;
            }
            self.compare_level(stores, &prefix, &tree, range, cached, &mut found, &mut pending)?;
        }
        found.sort();
        found.truncate(most);
        Ok(found)
    }

    #[expect(clippy::too_many_arguments, reason = "one level of an iterative descent, with both of its outputs")]
    fn compare_level<'i>(
        &'i self,
        stores: &Stores,
        prefix: &[u8],
        tree: &ObjectId,
        range: Range<usize>,
        cached: Option<&'i gix_index::extension::Tree>,
        found: &mut Vec<Vec<u8>>,
        pending: &mut Vec<Level<'i>>,
    ) -> Result<(), String> {
        let mut listing = list(stores, tree)?;
        let mut index = range.start;
        while index < range.end {
            let path = self.path(index);
            let rest = &path[prefix.len()..];
            let (name, end, whole) = match rest.find_byte(b'/') {
                // A sparse index names a whole directory, with a slash at its end.
                Some(slash) if slash + 1 == rest.len() => (&rest[..slash], index + 1, true),
                Some(slash) => {
                    let below = &path[..prefix.len() + slash + 1];
                    let length = self.file.entries()[index..range.end]
                        .partition_point(|entry| entry.path(&self.file).starts_with(below));
                    (&rest[..slash], index + length, false)
                }
                None => (rest, index + 1, true),
            };
            let held = listing.remove(name);
            match held {
                Some((0o040_000, below)) if !whole => {
                    let cached =
                        cached.and_then(|cached| cached.children.iter().find(|child| child.name.as_slice() == name));
                    pending.push(([prefix, name, b"/"].concat(), below, index..end, cached));
                }
                Some(held) if whole && held == self.held(index) => {}
                Some(_) | None => found.push(path.to_vec()),
            }
            index = end;
        }
        found.extend(listing.into_keys().map(|name| [prefix, &name].concat()));
        Ok(())
    }

    /// What the index has for an entry; of mode 0 if it is a mere intent to add.
    pub(crate) fn held(&self, entry: usize) -> Held {
        let entry = self.file.entry(entry);
        // An intent to add is not what HEAD holds, whatever object stands in for it.
        let mode = if entry.flags.contains(Flags::INTENT_TO_ADD) { 0 } else { entry.mode.bits() as u16 };
        (mode, entry.id)
    }
}

type Level<'i> = (Vec<u8>, ObjectId, Range<usize>, Option<&'i gix_index::extension::Tree>);
