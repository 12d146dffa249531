//! A run that is killed leaves nothing that the next one does not settle. Where exactly it is killed is for the
//! tests of the journal and of the recovery; here it is somewhere after the first intent.

use derelict_testkit::devlaunch::REPOSITORY;
use derelict_testkit::records::keys;
use derelict_testkit::scratch::{exists, read, write};
use derelict_testkit::{Cache, Snapshot};

use crate::support::{derelict, prune};

/// Files in each clone that goes, so that a removal takes a while.
const FILES: usize = 400;

fn world() -> Cache {
    let mut cache = Cache::small();
    cache.dirty("dirty");
    cache.live("live");
    for id in ["a", "b", "c"] {
        let clone = cache.clean(id);
        for number in 0..FILES {
            write(clone.join(format!(".pixi/d{}/f{number}", number % 7)), "x");
        }
    }
    cache
}

/// Waits until the journal of a run has this many lines more than it starts with, or the run has ended.
fn kill_after_lines(cache: &Cache, lines: usize) {
    let journal = cache.state().join("journal.ndjson");
    let mut running = derelict(cache, &["prune", "-y"]).start();
    let written = || if exists(&journal) { read(&journal).iter().filter(|byte| **byte == b'\n').count() } else { 0 };
    while written() < lines && !running.has_ended() {
        std::thread::yield_now();
    }
    running.kill();
}

#[test]
fn after_a_kill_at_any_line_of_the_journal_the_next_run_settles_everything() {
    for lines in 1..=7 {
        let cache = world();
        let kept = ["dirty", "live", ".bare"].map(|id| Snapshot::of(cache.path_of(id)));
        kill_after_lines(&cache, lines);
        kept.iter().for_each(Snapshot::assert_unchanged);

        prune(&cache, &["-y"]).expect_code(0);
        kept.iter().for_each(Snapshot::assert_unchanged);
        assert_eq!(cache.all_leaves(REPOSITORY), [".bare", ".lock", "dirty", "live"], "after {lines} lines");
        assert_eq!(keys(&cache.metadata()), ["acme/w/b/dirty", "acme/w/b/live"], "after {lines} lines");
        prune(&cache, &["-y"]).expect_code(0).expect_stdout("Nothing to prune.");
    }
}

#[test]
fn a_run_that_only_looks_says_what_a_killed_one_left_and_leaves_it() {
    let cache = world();
    kill_after_lines(&cache, 2);
    let before = crate::support::everything(&cache);
    let finished = prune(&cache, &["-n"]);
    assert!(finished.code() <= 1, "{finished}");
    before.assert_same(&crate::support::everything(&cache));
}
