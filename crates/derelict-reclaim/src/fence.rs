//! The fence: one rename within the parent, after which no path that anybody knows leads to the
//! directory; and its way back. Trash names are made and read here, and nowhere else.
//!
//! A trash name carries the journal that knows it and the number of the intent, and ends in a mark
//! once discarding has begun: `.derelict-trash-<journal>-<intent>` is whole and may be put back,
//! `.derelict-trash-<journal>-<intent>-discard` is not. The mark is set by a rename that is durable
//! before the first unlink, so that a crash can never leave a half-empty tree that looks whole.

use std::ffi::{CStr, CString};
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};

use derelict_core::ids::{FileIdentity, IntentId};
use rustix::fs::RenameFlags;
use rustix::io::Errno;

use crate::stat::seen_at;

/// What every trash name begins with. A scan leaves such names out.
pub const TRASH_PREFIX: &[u8] = b".derelict-trash-";

/// What a trash name ends in once discarding has begun.
const DISCARD_MARK: &str = "-discard";

/// The name of a journal within trash names: sixteen hexadecimal digits, drawn when it was made.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct JournalId(String);

impl JournalId {
    /// Accepts sixteen lower-case hexadecimal digits, nothing else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (text.len() == 16 && text.bytes().all(is_digit)).then(|| Self(text.to_owned()))
    }

    /// From eight random bytes.
    pub(crate) fn from_random(bytes: [u8; 8]) -> Self {
        Self(format!("{:016x}", u64::from_be_bytes(bytes)))
    }
}

impl fmt::Display for JournalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How far a fenced directory has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Whole: it can be put back.
    Fenced,
    /// Discarding has begun: it can only be finished.
    Discarding,
}

/// The name of a fenced directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TrashName {
    pub(crate) journal: JournalId,
    pub(crate) intent: IntentId,
    pub(crate) stage: Stage,
}

impl TrashName {
    pub(crate) fn to_c(&self) -> CString {
        CString::new(self.to_string()).expect("because digits and dashes have no NUL byte")
    }

    /// Reads a trash name. `None` for what begins like one and is none of ours.
    pub(crate) fn parse(name: &[u8]) -> Option<Self> {
        let rest = std::str::from_utf8(name.strip_prefix(TRASH_PREFIX)?).ok()?;
        let (rest, stage) = match rest.strip_suffix(DISCARD_MARK) {
            Some(rest) => (rest, Stage::Discarding),
            None => (rest, Stage::Fenced),
        };
        let (journal, number) = rest.split_once('-')?;
        let parsed = Self { journal: JournalId::parse(journal)?, intent: IntentId(number.parse().ok()?), stage };
        // One spelling per name: `+7` and `007` parse as numbers, and are not what we write.
        (parsed.to_string().as_bytes() == name).then_some(parsed)
    }
}

impl fmt::Display for TrashName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = match self.stage {
            Stage::Fenced => "",
            Stage::Discarding => DISCARD_MARK,
        };
        let prefix = std::str::from_utf8(TRASH_PREFIX).expect("because the prefix is ASCII");
        write!(f, "{prefix}{}-{}{mark}", self.journal, self.intent)
    }
}

/// Whether a name is that of trash, ours or another journal's; no workspace is looked for there.
#[must_use]
pub fn is_trash_name(name: &[u8]) -> bool {
    name.starts_with(TRASH_PREFIX)
}

/// Why a directory was not renamed. In every case nothing has changed, or it was changed back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotMoved {
    /// The name leads to something else.
    Another,
    /// The new name is taken.
    Taken,
    /// It could not be renamed.
    Failed(Errno),
    /// Something else was renamed in its stead, and could not be renamed back.
    Astray(Errno),
}

/// Renames within one parent, if the old name still leads to `identity`, and makes sure afterwards
/// that it was that directory which was renamed.
pub(crate) fn rename_exactly(
    parent: BorrowedFd<'_>,
    from: &CStr,
    to: &CStr,
    identity: &FileIdentity,
) -> Result<(), NotMoved> {
    match seen_at(parent, from) {
        Ok(found) if found.identity == *identity => {}
        Ok(_) | Err(Errno::NOENT) => return Err(NotMoved::Another),
        Err(errno) => return Err(NotMoved::Failed(errno)),
    }
    rename_within(parent, from, to).map_err(|errno| match errno {
        Errno::EXIST | Errno::NOTEMPTY => NotMoved::Taken,
        Errno::NOENT => NotMoved::Another,
        errno => NotMoved::Failed(errno),
    })?;
    match seen_at(parent, to) {
        Ok(found) if found.identity == *identity => Ok(()),
        Ok(_) | Err(_) => match rename_within(parent, to, from) {
            Ok(()) => Err(NotMoved::Another),
            Err(errno) => Err(NotMoved::Astray(errno)),
        },
    }
}

/// Renames without replacing anything. A file system that cannot promise that is asked first
/// whether the new name is free: in between, only somebody who makes up that very name could lose
/// something, and only an empty directory.
fn rename_within(parent: BorrowedFd<'_>, from: &CStr, to: &CStr) -> Result<(), Errno> {
    match rustix::fs::renameat_with(parent, from, parent, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => rename_after_asking(parent, from, to),
        told => told,
    }
}

fn rename_after_asking(parent: BorrowedFd<'_>, from: &CStr, to: &CStr) -> Result<(), Errno> {
    match seen_at(parent, to) {
        Err(Errno::NOENT) => rustix::fs::renameat(parent, from, parent, to),
        Ok(_) => Err(Errno::EXIST),
        Err(errno) => Err(errno),
    }
}

/// Makes a rename durable before anything that relies on it.
pub(crate) fn make_durable(parent: impl AsFd) -> Result<(), Errno> {
    match rustix::fs::fsync(parent) {
        // Some network file systems cannot sync a directory: their renames are synchronous.
        Err(Errno::INVAL) => Ok(()),
        told => told,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{File, create_dir, exists};

    use super::*;
    use crate::stat::seen;

    fn trash(stage: Stage) -> TrashName {
        TrashName { journal: JournalId::from_random([0, 1, 2, 3, 4, 5, 6, 0xab]), intent: IntentId(7), stage }
    }

    #[test]
    fn a_trash_name_says_whose_it_is_and_how_far_it_came() {
        for stage in [Stage::Fenced, Stage::Discarding] {
            let name = trash(stage);
            assert_eq!(TrashName::parse(name.to_c().to_bytes()), Some(name.clone()));
            assert!(is_trash_name(name.to_c().to_bytes()));
        }
        assert_eq!(trash(Stage::Fenced).to_string(), ".derelict-trash-00010203040506ab-7");
        assert_eq!(trash(Stage::Discarding).to_string(), ".derelict-trash-00010203040506ab-7-discard");
    }

    #[test]
    fn what_only_looks_like_trash_is_not_read_as_ours() {
        for odd in
            ["", "x-7", "00010203040506ab-007", "00010203040506ab-+7", "00010203040506AB-7", "00010203040506ab-7-x"]
        {
            let name = [TRASH_PREFIX, odd.as_bytes()].concat();
            assert_eq!(TrashName::parse(&name), None, "{odd}");
            assert!(is_trash_name(&name), "{odd}");
        }
        assert!(!is_trash_name(b"derelict-trash-1"));
    }

    #[test]
    fn only_the_directory_that_was_meant_is_renamed_and_nothing_is_replaced() {
        let world = tempfile::tempdir().unwrap();
        let at = |name: &str| world.path().join(name);
        for name in ["mine", "taken"] {
            create_dir(at(name)).unwrap();
        }
        let parent = File::open(world.path()).unwrap();
        let identity = seen(File::open(at("mine")).unwrap()).unwrap().identity;
        let rename = |from: &CStr, to: &CStr| rename_exactly(parent.as_fd(), from, to, &identity);
        let changed = || parent.metadata().unwrap().modified().unwrap();
        let before = changed();
        assert_eq!(rename(c"taken", c"new"), Err(NotMoved::Another));
        assert_eq!(changed(), before, "it was not even tried");
        assert_eq!(rename(c"absent", c"new"), Err(NotMoved::Another));
        assert_eq!(rename(c"mine", c"taken"), Err(NotMoved::Taken));
        assert!(exists(at("mine")).unwrap() && exists(at("taken")).unwrap() && !exists(at("new")).unwrap());
        assert_eq!(rename(c"mine", c"new"), Ok(()));
        assert!(!exists(at("mine")).unwrap() && exists(at("new")).unwrap());
    }

    #[test]
    fn without_the_kernels_promise_nothing_is_replaced_either() {
        let world = tempfile::tempdir().unwrap();
        create_dir(world.path().join("mine")).unwrap();
        create_dir(world.path().join("taken")).unwrap();
        let parent = File::open(world.path()).unwrap();
        assert_eq!(rename_after_asking(parent.as_fd(), c"mine", c"taken"), Err(Errno::EXIST));
        assert_eq!(rename_after_asking(parent.as_fd(), c"mine", c"new"), Ok(()));
    }
}
