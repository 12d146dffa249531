//! The acceptance list on the 54-clone cache. Everything that can be shown on a small cache is in the
//! other files; building this one takes seconds.

use std::collections::BTreeMap;

use derelict_testkit::records::keys;
use derelict_testkit::scratch::{exists, read, symlink};
use derelict_testkit::standard::STANDARD;
use derelict_testkit::{Cache, Snapshot};

use crate::support::{BOUNDARY, QUESTION, derelict, everything, prune, prune_json};

/// The most memory a run on this cache may take.
const MEMORY: u64 = 64 * 1024 * 1024;

const REPOSITORIES: [&str; 7] =
    ["acme/api", "acme/web", "acme/ros", "tools/launch", "tools/bench", "tools/way", "tools/rock"];

fn clones(cache: &Cache) -> Vec<String> {
    let clones = REPOSITORIES.iter().flat_map(|repository| {
        let leaves = cache.leaves(repository).into_iter();
        leaves.map(move |leaf| format!("{repository}/{leaf}"))
    });
    let mut clones: Vec<String> = clones.collect();
    clones.sort();
    clones
}

/// What must be the same afterwards: the bare repositories, the survivors, and everything outside.
fn survivors(cache: &Cache) -> Vec<Snapshot> {
    let removable = STANDARD.removable();
    let kept = clones(cache).into_iter().filter(|clone| !removable.contains(clone));
    let bare = REPOSITORIES.iter().map(|repository| format!("{repository}/.bare"));
    let mut snapshots: Vec<Snapshot> = kept.chain(bare).map(|path| Snapshot::of(cache.repos().join(path))).collect();
    snapshots.extend(["upstream", "home", "devpod", "elsewhere"].map(|dir| Snapshot::of(cache.root().join(dir))));
    snapshots
}

/// Runs `prune -y` and checks that exactly the 24 are gone and everything else is as it was.
fn prunes_exactly_the_24(cache: &Cache, variables: &[(&str, &std::path::Path)]) {
    let (before, survivors) = (clones(cache), survivors(cache));
    let removable = STANDARD.removable();
    let run = derelict(cache, &["prune", "-y"]);
    let finished = variables.iter().fold(run, |run, (name, value)| run.env(name, value)).finish();
    finished.expect_code(0);

    let expected: Vec<String> = before.into_iter().filter(|clone| !removable.contains(clone)).collect();
    assert_eq!(clones(cache), expected);
    survivors.iter().for_each(Snapshot::assert_unchanged);
    for repository in REPOSITORIES {
        let hidden: Vec<String> =
            cache.all_leaves(repository).into_iter().filter(|leaf| leaf.starts_with('.')).collect();
        assert_eq!(hidden, [".bare", ".lock"], "nothing of the removal is left behind");
    }
    assert_eq!(keys(&cache.metadata()).len(), 30);
    let text = String::from_utf8(read(cache.metadata())).expect("because it was text");
    let kept = cache.records().iter().filter(|record| exists(&record.local_path));
    assert_eq!(kept.clone().count(), 30);
    for record in kept {
        assert!(text.contains(&record.text()), "the record of {} is not as it was", record.id);
    }
    assert_eq!(cache.devpod_calls(), ["list --output json"; 2], "one listing for the plan, one before acting");
    assert_eq!(cache.started_programs(), [""; 0]);
}

#[test]
fn exactly_the_24_clean_orphans_go_and_a_second_run_has_nothing_to_prune() {
    let mut cache = STANDARD.build();
    prunes_exactly_the_24(&cache, &[]);

    let before = Snapshot::of(cache.root().join("cache"));
    prune(&cache, &["-y"]).expect_code(0).expect_stdout("Nothing to prune.");
    before.assert_unchanged();

    // Most of the owners are gone from the list at once: that is a broken list, not a clean desk.
    let living: Vec<String> = cache.records().iter().filter_map(|record| record.devpod.clone()).collect();
    living.iter().skip(3).for_each(|id| cache.remove_living(id));
    prune(&cache, &["-y"]).expect_code(3).expect_stdout("source-shrank");
    before.assert_unchanged();
}

#[test]
fn exactly_the_24_clean_orphans_go_from_a_cache_reached_through_a_symlink() {
    let cache = STANDARD.build();
    let link = cache.root().join("link");
    symlink("cache", &link);
    prunes_exactly_the_24(&cache, &[("XDG_CACHE_HOME", &link)]);
}

#[test]
fn the_report_names_all_54_and_answered_no_leaves_every_byte_as_it_was() {
    let cache = STANDARD.build();
    let before = everything(&cache);

    let report = prune_json(&cache, &["--dry-run"], 0);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    report.verdicts().into_values().for_each(|verdict| *counts.entry(verdict).or_insert(0) += 1);
    let expected = [("clean", 24), ("referenced", 17), ("unsaved", 13)];
    assert_eq!(counts, expected.map(|(verdict, count)| (verdict.to_owned(), count)).into());
    let unsaved: Vec<String> = STANDARD.unsaved();
    let leaf = |path: &String| path.rsplit('/').next().map(str::to_owned);
    let reasons: Vec<String> = unsaved.iter().filter_map(leaf).map(|leaf| report.reasons(&leaf)).collect();
    assert_eq!(reasons.iter().filter(|reason| reason.contains("pixi.lock")).count(), 11);
    before.assert_same(&everything(&cache));

    let mut session = derelict(&cache, &["prune"]).on_terminal();
    session.wait_for(QUESTION);
    let peak = session.peak_memory();
    session.answer("n");
    let finished = session.finish();
    finished.expect_code(0).expect_stdout("Nothing was removed.").expect_stderr("Remove 24 directories (");
    for clone in clones(&cache) {
        let (_, leaf) = clone.rsplit_once('/').expect("because it is a path");
        finished.expect_stdout(leaf);
    }
    for words in BOUNDARY {
        finished.expect_stdout(words);
    }
    assert!(peak < MEMORY, "{peak} bytes");
    before.assert_same(&everything(&cache));
    assert_eq!(cache.devpod_calls(), ["list --output json"; 2], "one listing each");
    assert_eq!(cache.started_programs(), [""; 0]);
}

#[test]
fn an_empty_list_where_everything_was_live_a_moment_ago_removes_nothing() {
    let cache = STANDARD.build();
    cache.set_listing("[]");
    let before = Snapshot::of(cache.root().join("cache"));
    prune(&cache, &["-y"]).expect_code(3).expect_stdout("empty-source");
    prune(&cache, &["--dry-run"]).expect_code(3);
    prune(&cache, &["-y", "--force"]).expect_code(3);
    before.assert_unchanged();
}
