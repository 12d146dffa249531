//! Names of one directory, many of them in little memory, in the order of their inodes. Disks keep
//! inodes together that were made together, whatever order a listing tells names in.

use std::ffi::CStr;
use std::ops::Range;

#[derive(Debug, Default)]
pub(crate) struct Names {
    /// Each name with its NUL.
    bytes: Vec<u8>,
    /// Inode, and where the name begins.
    order: Vec<(u64, u32)>,
}

impl Names {
    pub(crate) fn add(&mut self, ino: u64, name: &CStr) {
        let begins = u32::try_from(self.bytes.len()).expect("because a batch is a few megabytes");
        self.bytes.extend_from_slice(name.to_bytes_with_nul());
        self.order.push((ino, begins));
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    pub(crate) fn sort(&mut self) {
        self.order.sort_unstable();
    }

    pub(crate) fn range(&self, range: Range<usize>) -> impl Iterator<Item = &CStr> {
        self.order[range].iter().map(|(_, begins)| {
            let bytes = &self.bytes[*begins as usize..];
            CStr::from_bytes_until_nul(bytes).expect("because each name is kept with its NUL")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_in_the_order_of_their_inodes() {
        let mut names = Names::default();
        for (ino, name) in [(7, c"seven"), (3, c"three"), (9, c""), (3, c"again")] {
            names.add(ino, name);
        }
        names.sort();
        let all: Vec<&CStr> = names.range(0..4).collect();
        assert_eq!(all, [c"three", c"again", c"seven", c""]);
        assert_eq!(names.range(1..2).collect::<Vec<_>>(), [c"again"]);
        assert_eq!((names.len(), names.bytes()), (4, 19));
    }
}
