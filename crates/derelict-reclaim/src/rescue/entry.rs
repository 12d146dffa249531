//! One entry of a rescued directory: everything by which it is put back as it was, as a line of JSON. Its content is
//! elsewhere, in the archive or in the repository's objects.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use derelict_core::rescue::ObjectName;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags, XattrFlags};
use rustix::io::Errno;
use serde_json::{Value, json};

use crate::lines::{hex, path_of, path_value, unhex};

/// The longest value of an extended attribute that the kernel takes.
const XATTR_BYTES: usize = 64 * 1024;

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Below the rescued directory; empty for itself.
    pub(crate) path: PathBuf,
    pub(crate) what: What,
    /// The twelve lower bits of its mode.
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Seconds and nanoseconds.
    pub(crate) modified: (i64, u32),
    pub(crate) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    Directory,
    /// With its content in the archive.
    File {
        size: u64,
        sha256: Vec<u8>,
    },
    /// With the content of an object.
    Checkout {
        blob: ObjectName,
    },
    /// Where it leads.
    Symlink {
        target: PathBuf,
    },
    /// A symbolic link whose target an object holds.
    SymlinkCheckout {
        blob: ObjectName,
    },
    /// Another name of an entry before it.
    HardLink {
        to: PathBuf,
    },
    Fifo,
    Socket,
    Character {
        device: (u32, u32),
    },
    Block {
        device: (u32, u32),
    },
}

/// What the kernel says of an entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Status {
    pub(crate) kind: FileType,
    pub(crate) inode: (u64, u64),
    pub(crate) links: u32,
    pub(crate) size: u64,
    pub(crate) device: (u32, u32),
    mode: u32,
    uid: u32,
    gid: u32,
    modified: (i64, u32),
}

/// Looks at a name in a directory; at the directory itself with an empty name.
pub(crate) fn status(dir: BorrowedFd<'_>, name: &CStr) -> Result<Status, Errno> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::EMPTY_PATH;
    let told = rustix::fs::statx(dir, name, flags, StatxFlags::BASIC_STATS)?;
    Ok(Status {
        kind: FileType::from_raw_mode(u32::from(told.stx_mode)),
        inode: (rustix::fs::makedev(told.stx_dev_major, told.stx_dev_minor), told.stx_ino),
        links: told.stx_nlink,
        size: told.stx_size,
        device: (told.stx_rdev_major, told.stx_rdev_minor),
        mode: u32::from(told.stx_mode) & 0o7777,
        uid: told.stx_uid,
        gid: told.stx_gid,
        modified: (told.stx_mtime.tv_sec, told.stx_mtime.tv_nsec),
    })
}

impl Entry {
    pub(crate) fn new(path: PathBuf, what: What, status: &Status, xattrs: BTreeMap<Vec<u8>, Vec<u8>>) -> Self {
        let Status { mode, uid, gid, modified, .. } = *status;
        Self { path, what, mode, uid, gid, modified, xattrs }
    }

    pub(crate) fn to_json(&self) -> Value {
        let (seconds, nanoseconds) = self.modified;
        let mut line = json!({
            "path": path_value(&self.path),
            "type": self.what.name(),
            "mode": self.mode,
            "uid": self.uid,
            "gid": self.gid,
            "modified": [seconds, nanoseconds],
        });
        match &self.what {
            What::Directory | What::Fifo | What::Socket => {}
            What::File { size, sha256 } => {
                line["size"] = json!(size);
                line["sha256"] = json!(hex(sha256));
            }
            What::Checkout { blob } | What::SymlinkCheckout { blob } => line["blob"] = json!(blob.as_str()),
            What::Symlink { target } => line["target"] = path_value(target),
            What::HardLink { to } => line["target"] = path_value(to),
            What::Character { device } | What::Block { device } => line["device"] = json!([device.0, device.1]),
        }
        if !self.xattrs.is_empty() {
            let xattrs = self.xattrs.iter().map(|(name, value)| json!([hex(name), hex(value)]));
            line["xattrs"] = xattrs.collect();
        }
        line
    }

    /// `None` when it is no such line.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let line: Value = serde_json::from_slice(text).ok()?;
        let number = |key: &str| line.get(key)?.as_u64();
        let small = |key: &str| number(key)?.try_into().ok();
        let blob = || ObjectName::parse(line.get("blob")?.as_str()?);
        let target = || path_of(&line, "target").ok();
        let device = || {
            let [major, minor] = line.get("device")?.as_array()?.as_slice() else { return None };
            Some((major.as_u64()?.try_into().ok()?, minor.as_u64()?.try_into().ok()?))
        };
        let what = match line.get("type")?.as_str()? {
            "directory" => What::Directory,
            "file" => What::File { size: number("size")?, sha256: unhex(line.get("sha256")?.as_str()?)? },
            "checkout" => What::Checkout { blob: blob()? },
            "symlink" => What::Symlink { target: target()? },
            "symlink checkout" => What::SymlinkCheckout { blob: blob()? },
            "hard link" => What::HardLink { to: target()? },
            "fifo" => What::Fifo,
            "socket" => What::Socket,
            "character device" => What::Character { device: device()? },
            "block device" => What::Block { device: device()? },
            _ => return None,
        };
        let [seconds, nanoseconds] = line.get("modified")?.as_array()?.as_slice() else { return None };
        let pair = |pair: &Value| {
            let [name, value] = pair.as_array()?.as_slice() else { return None };
            Some((unhex(name.as_str()?)?, unhex(value.as_str()?)?))
        };
        let xattrs = match line.get("xattrs") {
            None => BTreeMap::new(),
            Some(all) => all.as_array()?.iter().map(pair).collect::<Option<_>>()?,
        };
        Some(Self {
            path: path_of(&line, "path").ok()?,
            what,
            mode: small("mode")?,
            uid: small("uid")?,
            gid: small("gid")?,
            modified: (seconds.as_i64()?, nanoseconds.as_u64()?.try_into().ok()?),
            xattrs,
        })
    }
}

impl What {
    fn name(&self) -> &'static str {
        match self {
            Self::Directory => "directory",
            Self::File { .. } => "file",
            Self::Checkout { .. } => "checkout",
            Self::Symlink { .. } => "symlink",
            Self::SymlinkCheckout { .. } => "symlink checkout",
            Self::HardLink { .. } => "hard link",
            Self::Fifo => "fifo",
            Self::Socket => "socket",
            Self::Character { .. } => "character device",
            Self::Block { .. } => "block device",
        }
    }
}

/// Opens a regular file for reading: never through a symbolic link, never waiting for anybody.
pub(crate) fn open_file(dir: BorrowedFd<'_>, name: &CStr) -> Result<File, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    rustix::fs::openat(dir, name, flags, Mode::empty()).map(File::from)
}

/// Where a symbolic link leads.
pub(crate) fn target(dir: BorrowedFd<'_>, name: &CStr) -> Result<PathBuf, Errno> {
    let target = rustix::fs::readlinkat(dir, name, Vec::new())?;
    Ok(std::ffi::OsString::from_vec(target.into_bytes()).into())
}

/// The extended attributes of an open file or directory. A file system that has none has none.
pub(crate) fn xattrs(file: impl AsFd) -> io::Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let file = file.as_fd();
    let mut names = vec![0_u8; XATTR_BYTES];
    let length = match rustix::fs::flistxattr(file, &mut names[..]) {
        Ok(length) => length,
        Err(Errno::NOTSUP) => return Ok(BTreeMap::new()),
        Err(errno) => return Err(errno.into()),
    };
    let mut found = BTreeMap::new();
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let c_name = CString::new(name).expect("because it was split at every NUL");
        let mut value = vec![0_u8; XATTR_BYTES];
        let length = rustix::fs::fgetxattr(file, &c_name, &mut value[..])?;
        value.truncate(length);
        found.insert(name.to_vec(), value);
    }
    Ok(found)
}

/// Gives an open file or directory its extended attributes.
pub(crate) fn set_xattrs(file: BorrowedFd<'_>, xattrs: &BTreeMap<Vec<u8>, Vec<u8>>) -> io::Result<()> {
    for (name, value) in xattrs {
        let name = CString::new(name.as_slice())?;
        rustix::fs::fsetxattr(file, &name, value, XattrFlags::empty())?;
    }
    Ok(())
}

/// The name of an entry in its directory, and that directory below the rescued one.
pub(crate) fn split(path: &Path) -> Option<(&Path, CString)> {
    let name = CString::new(path.file_name().map(OsStr::as_bytes)?).ok()?;
    Some((path.parent()?, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_entry_comes_back_as_it_was() {
        let blob = ObjectName::parse(&"0a".repeat(20)).unwrap();
        let all = [
            What::Directory,
            What::File { size: 7, sha256: vec![1; 32] },
            What::Checkout { blob: blob.clone() },
            What::Symlink { target: "../x".into() },
            What::SymlinkCheckout { blob },
            What::HardLink { to: OsStr::from_bytes(b"a/\xff").into() },
            What::Fifo,
            What::Socket,
            What::Character { device: (1, 3) },
            What::Block { device: (7, 0) },
        ];
        for what in all {
            let xattrs = BTreeMap::from([(b"user.x".to_vec(), b"\n\0\xff".to_vec())]);
            let path = OsStr::from_bytes(b"d/\n\xff").into();
            let entry = Entry { path, what, mode: 0o4755, uid: 1, gid: 2, modified: (-1, 999_999_999), xattrs };
            assert_eq!(Entry::parse(entry.to_json().to_string().as_bytes()), Some(entry));
        }
        assert_eq!(Entry::parse(b"{}"), None);
        assert_eq!(Entry::parse(br#"{"path":"a","type":"other","mode":1,"uid":1,"gid":1,"modified":[1,1]}"#), None);
    }
}
