//! What a file system gives back for one inode. `stat` tells the blocks of its content; what the inode
//! itself costs, and what of the content lies within it, is each file system's own business. Which one
//! it is is asked once a directory; what a directory holds is counted by `gauge`.
//!
//! Extents that several files share (reflinks, snapshots) are counted in each: telling them needs
//! `FIEMAP`, an ioctl that cannot be asked for without unsafe code. Where files can share, a size is
//! an upper bound.

use std::os::fd::BorrowedFd;

use derelict_git::Stat;
use rustix::fs::FileType;

/// Bytes of the blocks that `stat` counts.
const BLOCK: u64 = 512;

/// The magic numbers of `statfs`, as in the kernel's `magic.h`.
const XFS: u64 = 0x5846_5342;
const BTRFS: u64 = 0x9123_683e;

/// XFS makes room for inodes when they come and gives it back when they go; this is the size of one
/// unless whoever made the file system asked for another.
const XFS_INODE: u64 = 512;

/// btrfs keeps up to so many bytes of content beside the inode, and `stat` tells a whole block.
const BTRFS_INLINE: u64 = 2048;

/// What an inode with its names takes in the trees of btrfs; measured, since it depends on how full
/// their nodes are. Content that lies there takes three bytes for two.
const BTRFS_INODE: u64 = 450;
const BTRFS_INLINE_TAKES: (u64, u64) = (3, 2);

/// btrfs keeps its trees twice unless it was told otherwise.
const BTRFS_COPIES: u64 = 2;

/// How a file system accounts for an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accounting {
    /// Room for inodes was set aside when the file system was made, or nobody tells.
    Content,
    /// Inodes come and go with their files.
    ContentAndInode,
    /// Inodes and small content lie in trees.
    Trees,
}

impl Accounting {
    /// How the file system accounts that a directory lies on. One that does not answer is taken by
    /// what `stat` says: a size is a promise to nobody, and the free space is measured afterwards.
    pub(crate) fn of(dir: BorrowedFd<'_>) -> Self {
        match rustix::fs::fstatfs(dir).map(|told| told.f_type as u64 & 0xffff_ffff) {
            Ok(XFS) => Self::ContentAndInode,
            Ok(BTRFS) => Self::Trees,
            Ok(_) | Err(_) => Self::Content,
        }
    }

    /// What comes back when the last name of an inode goes.
    pub(crate) fn bytes(self, stat: &Stat) -> u64 {
        let content = stat.blocks.saturating_mul(BLOCK);
        match self {
            Self::Content => content,
            Self::ContentAndInode => content.saturating_add(XFS_INODE),
            Self::Trees if is_inline(stat) => {
                let (takes, for_each) = BTRFS_INLINE_TAKES;
                (BTRFS_INODE + stat.size * takes / for_each) * BTRFS_COPIES
            }
            Self::Trees => content.saturating_add(BTRFS_INODE * BTRFS_COPIES),
        }
    }
}

fn is_inline(stat: &Stat) -> bool {
    stat.kind() != FileType::Directory && stat.size <= BTRFS_INLINE
}
