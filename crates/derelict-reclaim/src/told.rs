//! Trash names that carry their own intent, for the one case in which it can stand nowhere else: a
//! disk without a single free block, where the journal has no room. The fence is then the intent: one
//! rename, atomic and durable, whose new name says which directory it is and where it belongs.
//!
//! `.derelict-trash-0-<inode>-<birth>-<stage>-<name>`: numbers in hexadecimal, the birth as seconds and
//! nanoseconds or `none`, the stage `whole` or `discard`, and the name it had, byte for byte. Journals
//! have sixteen digits, so no other trash name begins like that. Whoever finds such a name believes it
//! only if the directory under it has that inode and that birth.

use std::ffi::{CStr, CString};

use derelict_core::ids::{FileIdentity, Timestamp};

use crate::fence::{Stage, TRASH_PREFIX};

/// What stands where other trash names have their journal.
const NO_JOURNAL: &[u8] = b"0-";

/// What a trash name says by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToldName {
    /// The inode of the directory, and its birth. A name cannot carry a device that lasts.
    pub(crate) ino: u64,
    pub(crate) birth: Option<Timestamp>,
    pub(crate) stage: Stage,
    /// The name it had.
    pub(crate) name: CString,
}

impl ToldName {
    /// The trash name of a directory.
    pub(crate) fn of(identity: &FileIdentity, name: &CStr, stage: Stage) -> Self {
        Self { ino: identity.ino, birth: identity.birth, stage, name: name.to_owned() }
    }

    pub(crate) fn to_c(&self) -> CString {
        let birth = match self.birth {
            Some(birth) => format!("{:x}.{:x}", birth.seconds(), birth.subsecond_nanoseconds()),
            None => "none".to_owned(),
        };
        let stage = match self.stage {
            Stage::Fenced => "whole",
            Stage::Discarding => "discard",
        };
        let mut bytes = [TRASH_PREFIX, NO_JOURNAL].concat();
        bytes.extend(format!("{:x}-{birth}-{stage}-", self.ino).bytes());
        bytes.extend(self.name.to_bytes());
        CString::new(bytes).expect("because neither the digits nor the name has a NUL byte")
    }

    /// Reads such a name; `None` for any other, and for another spelling of one.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(TRASH_PREFIX)?.strip_prefix(NO_JOURNAL)?;
        let mut parts = rest.splitn(4, |byte| *byte == b'-');
        let (ino, birth, stage, name) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let stage = match stage {
            b"whole" => Stage::Fenced,
            b"discard" => Stage::Discarding,
            _ => return None,
        };
        let ino = u64::from_str_radix(std::str::from_utf8(ino).ok()?, 16).ok()?;
        let birth = match birth {
            b"none" => None,
            birth => {
                let (seconds, nanoseconds) = std::str::from_utf8(birth).ok()?.split_once('.')?;
                let seconds = i64::from_str_radix(seconds, 16).ok()?;
                Some(Timestamp::new(seconds, u32::from_str_radix(nanoseconds, 16).ok()?))
            }
        };
        if name.is_empty() {
            return None;
        }
        let told = Self { ino, birth, stage, name: CString::new(name).ok()? };
        (told.to_c().as_bytes() == bytes).then_some(told)
    }

    /// Whether a directory is the one the name was made for. The directory it lies in gives the device.
    pub(crate) fn is_of(&self, identity: &FileIdentity) -> bool {
        (self.ino, self.birth) == (identity.ino, identity.birth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(birth: Option<Timestamp>) -> FileIdentity {
        FileIdentity { dev: 1, ino: 0xabc, birth }
    }

    #[test]
    fn a_name_carries_its_directory_and_its_place_whatever_bytes_that_has() {
        for name in [c"a", c"a-discard-whole-x", c"-rf", c"\xff\n", c"\xe9-"] {
            for birth in [None, Some(Timestamp::new(0x65f0_c0de, 999_999_999))] {
                for stage in [Stage::Fenced, Stage::Discarding] {
                    let told = ToldName::of(&identity(birth), name, stage);
                    assert_eq!(ToldName::parse(told.to_c().as_bytes()), Some(told.clone()));
                    assert!(told.is_of(&identity(birth)));
                    assert!(!told.is_of(&FileIdentity { ino: 1, ..identity(birth) }));
                    assert!(!told.is_of(&identity(Some(Timestamp::new(1, 0)))));
                }
            }
        }
        let told = ToldName::of(&identity(Some(Timestamp::new(16, 1))), c"main", Stage::Fenced);
        assert_eq!(told.to_c().as_c_str(), c".derelict-trash-0-abc-10.1-whole-main");
    }

    #[test]
    fn what_only_looks_like_one_is_none() {
        for odd in
            ["", "1-none-whole-", "1-none-half-a", "01-none-whole-a", "A-none-whole-a", "1-1.x-whole-a", "1-none-whole"]
        {
            let name = [TRASH_PREFIX, NO_JOURNAL, odd.as_bytes()].concat();
            assert_eq!(ToldName::parse(&name), None, "{odd}");
        }
        assert_eq!(ToldName::parse(b".derelict-trash-00010203040506ab-7"), None);
    }
}
