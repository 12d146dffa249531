//! Losses that are none if saved history turns out to have the very content: collected while a work tree
//! is looked at, and settled by one search for all of them.

use gix_hash::ObjectId;

use crate::proof::Channel;
use crate::report::Report;
use crate::saved::Saved;
use crate::saved_files::{Sought, saved_files};

/// Files of one work tree that are looked for; the rest is told without being looked for.
const MOST_SOUGHT: usize = 5_000;

/// The mode of a submodule's commit.
pub(crate) const GITLINK: u16 = 0o160_000;

/// Something that would be lost, unless all of it is found.
pub(crate) struct Doubt {
    pub(crate) channel: Channel,
    pub(crate) what: String,
    /// Tells this content from a later one.
    pub(crate) content: Vec<Vec<u8>>,
    /// All that it consists of.
    pub(crate) sought: Vec<Sought>,
}

/// Collects, and settles at the end.
#[derive(Default)]
pub(crate) struct Doubts {
    doubts: Vec<Doubt>,
    sought: usize,
}

impl Doubts {
    /// Whether more can be looked for.
    pub(crate) fn has_room(&self) -> bool {
        self.sought < MOST_SOUGHT
    }

    pub(crate) fn add(&mut self, doubt: Doubt) {
        self.sought += doubt.sought.len();
        self.doubts.push(doubt);
    }

    /// Tells what is not saved. `submodule` says whether the submodule at a path stands on this commit and
    /// has it saved.
    pub(crate) fn settle(self, saved: &Saved, submodule: impl Fn(&[u8], &ObjectId) -> bool, report: &mut Report<'_>) {
        let sought: Vec<Sought> = self.doubts.iter().flat_map(|doubt| doubt.sought.iter().cloned()).collect();
        let mut found = saved_files(saved, &sought).into_iter();
        for doubt in self.doubts {
            let mut all = !doubt.sought.is_empty();
            for sought in &doubt.sought {
                let is_file = found.next().unwrap_or(false);
                let is_submodule = sought.held.0 == GITLINK && submodule(&sought.path, &sought.held.1);
                all &= is_file || is_submodule;
            }
            if all {
                report.examined(doubt.channel, "files whose content is saved", doubt.sought.len() as u64);
                continue;
            }
            let content: Vec<&[u8]> = doubt.content.iter().map(Vec::as_slice).collect();
            report.loss(doubt.channel, || doubt.what.clone(), &content);
        }
    }
}
