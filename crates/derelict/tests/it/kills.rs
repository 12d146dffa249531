//! The real program, killed right before any of its changes: at every numbered point of the protocol and in
//! the middle of every discard. After each kill nothing that lives has changed; and whatever run comes next,
//! killed itself or not, at the end nothing is half removed, records and journal agree, and the exit code says so.
//!
//! `DERELICT_KILLS` says how many rounds of each are done, one if it is not set: each goes over the points once, and
//! kills the run that follows at another.

use std::path::Path;

use derelict_testkit::devlaunch::REPOSITORY;
use derelict_testkit::disks::{Disk, FileSystem};
use derelict_testkit::git::tool;
use derelict_testkit::native::CRASH;
use derelict_testkit::records::keys;
use derelict_testkit::scratch::{Scratch, exists, read, remove, write};
use derelict_testkit::{Cache, Finished, Snapshot};

use crate::support::{DERELICT, prune};

/// What lies in the clones that must never change.
const KEPT: [&str; 3] = ["dirty", "live", ".bare"];

/// What may go.
const GOING: [&str; 2] = ["a", "b"];

/// A cache that can be had again as it was, at the same place.
struct Again {
    // Dropped in this order: what lies on top goes first.
    _disk: Disk,
    cache: Cache,
    template: Scratch,
    kept: Vec<Snapshot>,
    going: Vec<(&'static str, Snapshot)>,
}

/// How a run under the tracer ended, and where.
struct Ended {
    finished: Finished,
    points: u64,
}

impl Again {
    fn new() -> Self {
        let mut cache = Cache::small();
        cache.dirty("dirty");
        cache.live("live");
        for id in GOING {
            let clone = cache.clean(id);
            for path in ["d1/f1", "d1/deep/f2", "d2/f3"] {
                write(clone.join(".pixi").join(path), "x");
            }
        }
        // What git puts there as an example is in nobody's way, and half of all files.
        for clone in KEPT.iter().chain(&GOING).map(|id| cache.path_of(id)) {
            ["hooks", ".git/hooks"].iter().for_each(|hooks| remove(clone.join(hooks)));
        }
        let template = Scratch::new();
        copy(cache.root(), template.path());
        // In memory: a killed process loses nothing that a disk would keep, and a disk would be waited for.
        let disk = Disk::in_memory(FileSystem::Ext4, cache.root());
        copy(template.path(), cache.root());
        Self { _disk: disk, cache, template, kept: Vec::new(), going: Vec::new() }
    }

    /// As it was in the beginning. What was set aside is known by its inode, so it is set aside anew.
    fn restore(&mut self, scenario: Scenario) {
        for changed in ["cache", "state"] {
            remove(self.cache.root().join(changed));
        }
        let again = ["cache", "state"].map(|changed| self.template.path().join(changed));
        let copied = tool("cp").args(["-a", "--"]).args(again).arg(self.cache.root()).status();
        assert!(copied.is_ok_and(|status| status.success()), "cannot copy the cache");
        scenario.prepare(&self.cache);
        let snapshot = |id| Snapshot::of(self.cache.path_of(id));
        let there = GOING.into_iter().filter(|id| exists(self.cache.path_of(id)));
        (self.kept, self.going) = (KEPT.map(snapshot).into(), there.map(|id| (id, snapshot(id))).collect());
    }

    /// Runs `derelict prune -y` and more, to be killed at a point; 0 is none.
    fn run(&self, kill_at: u64, more: &[&str]) -> Ended {
        let report = self.template.path().with_extension("report");
        let tracer = CRASH.path().to_str().expect("because its name is text");
        let kill_at = kill_at.to_string();
        let start = [&kill_at, report.to_str().expect("because its name is text"), DERELICT, "prune", "-y"];
        let finished = self.cache.run(tracer, &[&start, more].concat()).finish();
        let told = String::from_utf8(read(&report)).expect("because it is text");
        remove(&report);
        let points = told.split(' ').next().and_then(|points| points.parse().ok());
        Ended { finished, points: points.unwrap_or_else(|| panic!("not a report: {told}")) }
    }

    /// Whatever happened: what lives is as it was, and so are its records.
    fn assert_nothing_live_lost(&self, context: &str) {
        self.kept.iter().for_each(Snapshot::assert_unchanged);
        let keys = keys(&self.cache.metadata());
        for id in ["dirty", "live"] {
            assert!(keys.contains(&format!("acme/w/b/{id}")), "{context}: {keys:?}");
        }
        // A clone is whole under its name, or it is not there: nobody can ever meet half of one.
        for (id, whole) in &self.going {
            if exists(self.cache.path_of(id)) {
                whole.assert_unchanged();
            }
        }
    }
}

fn copy(from: &Path, to: &Path) {
    let copied = tool("cp").args(["-a", "--"]).arg(from.join(".")).arg(to).status();
    assert!(copied.is_ok_and(|status| status.success()), "cannot copy {}", from.display());
}

/// What is done again and again, and killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scenario {
    /// What may go is discarded.
    Discard,
    /// What may go is set aside.
    SetAside,
    /// What was set aside is discarded when its grace is over.
    Expire,
}

impl Scenario {
    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Discard | Self::Expire => &[],
            Self::SetAside => &["--quarantine"],
        }
    }

    /// Of how many points one is taken. What is discarded late is discarded as what is discarded at once.
    fn stride(self) -> u64 {
        match self {
            Self::Discard | Self::SetAside => 1,
            Self::Expire => 2,
        }
    }

    fn prepare(self, cache: &Cache) {
        match self {
            Self::Discard | Self::SetAside => {}
            Self::Expire => {
                prune(cache, &["-y", "--quarantine"]).expect_code(0);
                crate::quarantine::let_the_grace_pass(cache);
            }
        }
    }

    /// Everything that may go is where it should be, and nothing is in anybody's hand.
    fn assert_settled(self, again: &Again, context: &str) {
        again.assert_nothing_live_lost(context);
        let set_aside = derelict_reclaim::quarantine::list(&again.cache.state());
        let set_aside = set_aside.unwrap_or_else(|error| panic!("{context}: {error}"));
        let open = derelict_reclaim::journal::unfinished(&again.cache.state());
        let open = open.unwrap_or_else(|error| panic!("{context}: {error}"));
        let leaves = again.cache.all_leaves(REPOSITORY);
        let (trash, others): (Vec<_>, Vec<_>) = leaves.iter().partition(|name| name.starts_with(".derelict-trash-"));
        assert_eq!(others, [".bare", ".lock", "dirty", "live"], "{context}");
        let going = match self {
            Self::Discard | Self::Expire => 0,
            Self::SetAside => GOING.len(),
        };
        assert_eq!((trash.len(), set_aside.len(), open.len()), (going, going, going), "{context}");
        assert_eq!(keys(&again.cache.metadata()).len(), 2 + going, "{context}");
    }
}

/// How often all points are gone over.
fn rounds() -> u64 {
    let given = std::env::var("DERELICT_KILLS").ok();
    given.map_or(1, |rounds| rounds.parse().expect("because DERELICT_KILLS is a number of rounds"))
}

/// Another point for every point and round, the same in every run of the tests: in the first half, for the run
/// that follows has less to do.
fn other_point(point: u64, round: u64, points: u64) -> u64 {
    let mixed = (point ^ round.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    1 + (mixed >> 33) % (points / 2)
}

/// Kills a run at every point, and the one after it at another, and lets the third end: two threads share the
/// points. Returns how many runs were killed.
fn kill_at_every_point(scenario: Scenario) -> u64 {
    let mut first = Again::new();
    first.restore(scenario);
    let Ended { finished, points } = first.run(0, scenario.flags());
    finished.expect_code(0);
    scenario.assert_settled(&first, "without a kill");
    let half = |half: u64, mut again: Again| {
        let rounds = (0..rounds()).flat_map(|round| (1..=points).map(move |point| (point, round)));
        let stride = scenario.stride();
        let mine = rounds.filter(|(point, round)| (point + round) % stride == 0 && point / stride % 2 == half);
        mine.map(|(point, round)| kill_twice(scenario, &mut again, (point, points), round)).sum::<u64>()
    };
    let killed = std::thread::scope(|threads| {
        let other = threads.spawn(|| half(1, Again::new()));
        half(0, first) + other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    println!("{scenario:?}: {killed} kills over {points} points");
    killed
}

fn kill_twice(scenario: Scenario, again: &mut Again, (point, points): (u64, u64), round: u64) -> u64 {
    again.restore(scenario);
    let context = format!("{scenario:?}, killed at {point} of {points}");
    assert_eq!(again.run(point, scenario.flags()).finished.status.code(), Some(137), "{context}");
    again.assert_nothing_live_lost(&context);
    let second = other_point(point, round, points);
    let context = format!("{context}, the next run at {second}");
    // The second run may have less to do, and end before its point.
    let code = again.run(second, scenario.flags()).finished.status.code();
    assert!([Some(137), Some(0)].contains(&code), "{context}: {code:?}");
    again.assert_nothing_live_lost(&context);
    let last = prune(&again.cache, &[&["-y"], scenario.flags()].concat());
    last.expect_code(0);
    scenario.assert_settled(again, &format!("{context}\n{last}"));
    1 + u64::from(code == Some(137))
}

#[test]
fn a_run_killed_before_any_of_its_changes_is_settled_by_the_next_and_so_is_that_one() {
    // Once at the point itself, and often once more in what follows.
    let killed: u64 = [Scenario::Discard, Scenario::SetAside, Scenario::Expire].map(kill_at_every_point).iter().sum();
    assert!(killed >= 500 * rounds(), "{killed} kills");
}
