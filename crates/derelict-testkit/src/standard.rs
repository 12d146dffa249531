//! The cache of the acceptance test: 54 clones of seven repositories, of which 17 are opened by a
//! living workspace, 13 hold unsaved work and 24 may go; 51 records. Not here: how a clone is made.

use serde_json::json;

use crate::devlaunch::{Cache, commit};
use crate::scratch::write;

const REPOSITORIES: [&str; 7] =
    ["acme/api", "acme/web", "acme/ros", "tools/launch", "tools/bench", "tools/way", "tools/rock"];

/// How many clones of each kind a cache has.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Clones that no living workspace opens; the last three have no record.
    pub stale: usize,
    /// Clones that one opens.
    pub live: usize,
    /// How many of the stale ones have one changed tracked file, `pixi.lock`.
    pub dirty: usize,
    /// How many of the stale ones have two commits that no remote has; the last of them has an
    /// untracked file too.
    pub unpushed: usize,
    /// Files in each repository.
    pub files: usize,
}

/// The measured cache: 54 clones.
pub const STANDARD: Shape = Shape { stale: 37, live: 17, dirty: 11, unpushed: 2, files: 60 };

/// Stale clones without a record.
const UNRECORDED: usize = 3;

impl Shape {
    /// Builds it.
    #[must_use]
    pub fn build(self) -> Cache {
        let mut cache = Cache::empty();
        for repository in REPOSITORIES {
            cache.add_repository(repository, self.files);
        }
        for number in 1..=self.stale {
            self.add_stale(&mut cache, number);
        }
        for number in 1..=self.live {
            let (repository, id) = place("live", number, 7561);
            let branch = format!("live/{number}");
            let clone = cache.add_clone(repository, &branch, &id);
            cache.add_record(repository, &branch, &id, Some(&id));
            cache.add_living(&id, &json!({ "localFolder": clone }));
        }
        cache
    }

    /// The clones that may go, as `owner/repo/id`, sorted.
    #[must_use]
    pub fn removable(self) -> Vec<String> {
        let mut removable: Vec<String> = (self.dirty + self.unpushed + 1..=self.stale).map(stale_path).collect();
        removable.sort();
        removable
    }

    /// The clones with unsaved work, as `owner/repo/id`, sorted.
    #[must_use]
    pub fn unsaved(self) -> Vec<String> {
        let mut unsaved: Vec<String> = (1..=self.dirty + self.unpushed).map(stale_path).collect();
        unsaved.sort();
        unsaved
    }

    fn add_stale(self, cache: &mut Cache, number: usize) {
        let (repository, id) = place("stale", number, 7919);
        let branch = format!("stale/{number}");
        let clone = cache.add_clone(repository, &branch, &id);
        if number <= self.dirty {
            write(clone.join("pixi.lock"), format!("lock: churn {number}\n"));
        } else if number <= self.dirty + self.unpushed {
            for work in ["1", "2"] {
                write(clone.join(format!("work{work}")), work);
                commit(&clone, work);
            }
            if number == self.dirty + self.unpushed {
                write(clone.join("scratch.txt"), "note\n");
            }
        }
        if number + UNRECORDED <= self.stale {
            cache.add_record(repository, &branch, &id, None);
        }
    }
}

fn stale_path(number: usize) -> String {
    let (repository, id) = place("stale", number, 7919);
    format!("{repository}/{id}")
}

/// The repository and the id of a clone: ids look like those that devlaunch makes.
fn place(kind: &str, number: usize, factor: usize) -> (&'static str, String) {
    let repository = REPOSITORIES[number % REPOSITORIES.len()];
    let (_, repo) = repository.split_once('/').expect("because a repository has an owner");
    (repository, format!("{repo}-{kind}-{number}-{:04x}", number * factor % 65_536))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_cache_has_the_numbers_of_the_acceptance_test() {
        let cache = STANDARD.build();
        let clones: usize = REPOSITORIES.iter().map(|repository| cache.leaves(repository).len()).sum();
        assert_eq!((clones, cache.records().len()), (54, 51));
        assert_eq!((STANDARD.removable().len(), STANDARD.unsaved().len()), (24, 13));
    }
}
