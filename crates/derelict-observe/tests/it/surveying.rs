//! The survey as a whole: what it looks at, what it passes over, what it leaves as it was.

use std::path::Path;
use std::sync::Mutex;

use derelict_core::evidence::{Observed, Signal};
use derelict_core::size::Completeness;
use derelict_observe::{Depth, DevlaunchObserver, Progress, SkipKind, Terms};

use crate::world::{NOW, World, git, of, words};

#[test]
fn one_clone_can_be_asked_for_and_its_owners_are_the_same() {
    let world = World::new(&["o/r/a", "o/r/b", "o/s/c"]);
    world.live(&[("a", &world.clone("o/r/a"))]);
    for argument in [Path::new("a"), &world.clone("o/r/a")] {
        let mut observer = DevlaunchObserver::new(world.cache(Some(argument)), world.environment(), Terms::NONE, NOW);
        let survey = observer.survey(Depth::Verdict, &|_| ()).unwrap();
        let expected: Vec<(String, &str)> = vec![("a".into(), "referenced")];
        assert_eq!(words(&survey).into_iter().collect::<Vec<_>>(), expected);
        assert_eq!(survey.stale_records, Vec::<String>::new());
    }
}

#[test]
fn a_claimed_clone_is_measured_and_examined_only_for_an_explanation() {
    let world = World::new(&["o/r/a"]);
    world.live(&[("a", &world.clone("o/r/a"))]);
    std::fs::write(world.clone("o/r/a/f"), vec![1; 8192]).unwrap();
    let survey = world.survey();
    let Observed::Unknown(blind) = &of(&survey, "a").evidence.proof else { panic!("it was examined") };
    assert_eq!((blind.signal, blind.why.as_str()), (Signal::Unsaved, "not examined: a living owner claims it"));
    let size = &of(&survey, "a").size;
    assert_eq!((size.entries, &size.completeness), (2, &Completeness::Exact));
    assert!(size.sole_bytes >= 8192);
    let survey = world.observer().survey(Depth::Everything, &|_| ()).unwrap();
    assert!(matches!(of(&survey, "a").evidence.proof, Observed::Known(_)));
}

#[test]
fn what_is_no_clone_is_passed_over_and_named() {
    let world = World::new(&["o/r/a", "o/r/.bare", "o/r/.derelict-trash-1-1"]);
    std::fs::write(world.clone("o/r/.lock"), "").unwrap();
    std::fs::write(world.clone("o/r/file"), "").unwrap();
    std::os::unix::fs::symlink(".bare", world.clone("o/r/link")).unwrap();
    let survey = world.survey();
    assert_eq!(words(&survey).len(), 1);
    let skipped: Vec<_> = survey.skipped.iter().map(|skipped| (skipped.path.clone(), skipped.kind)).collect();
    let expected = [(world.clone("o/r/file"), SkipKind::NotADirectory), (world.clone("o/r/link"), SkipKind::Symlink)];
    assert_eq!(skipped, expected);
}

#[test]
fn a_root_that_is_gone_is_told_and_not_taken_for_empty() {
    let world = World::new(&["o/r/a"]);
    let mut observer = world.observer();
    std::fs::rename(world.clone(""), world.root.join("away")).unwrap();
    let lost = observer.survey(Depth::Verdict, &|_| ()).expect_err("because the root is gone");
    assert!(lost.to_string().starts_with("cannot ask devlaunch: cannot read "), "{lost}");
}

#[test]
fn progress_ends_with_every_clone_done() {
    let world = World::new(&["o/r/a", "o/r/b", "o/r/c"]);
    let told = Mutex::new(Vec::new());
    world.observer().survey(Depth::Verdict, &|progress| told.lock().unwrap().push(progress)).unwrap();
    let told = told.into_inner().unwrap();
    assert_eq!(told.first(), Some(&Progress::Asking));
    assert_eq!(told.len(), 4);
    assert!(told.contains(&Progress::Examining { done: 3, total: 3 }));
}

#[test]
fn a_thousand_clones_and_owners_are_matched_in_one_pass() {
    let names: Vec<String> = (0..1000).map(|number| format!("o/r{}/w{number}", number % 7)).collect();
    let world = World::new(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let paths: Vec<_> = names.iter().map(|name| world.clone(name)).collect();
    let ids: Vec<String> = (0..1000).map(|number| format!("w{number}")).collect();
    let live: Vec<_> = ids.iter().zip(&paths).step_by(2).map(|(id, path)| (id.as_str(), path.as_path())).collect();
    world.live(&live);
    let survey = world.survey();
    assert_eq!((survey.sightings.len(), survey.owners), (1000, 500));
    assert_eq!(words(&survey).values().filter(|word| **word == "referenced").count(), 500);
}

#[test]
fn looking_changes_nothing() {
    let world = World::new(&["o/r/plain"]);
    git(&world.clone("o/r"), &["init", "-q", "-b", "main", "repository"]);
    git(&world.clone("o/r/repository"), &["commit", "-q", "--allow-empty", "-m", "one"]);
    let before = listed(&world.root.join("cache"));
    let mut observer = world.observer();
    observer.survey(Depth::Everything, &|_| ()).unwrap();
    observer.refresh().unwrap();
    assert_eq!(listed(&world.root.join("cache")), before);
}

/// Every path with its content's size and the times of its inode.
fn listed(root: &Path) -> Vec<(std::path::PathBuf, u64, i64, i64, i64)> {
    use std::os::unix::fs::MetadataExt as _;
    let mut found = Vec::new();
    let mut pending = vec![root.to_path_buf()];
    while let Some(path) = pending.pop() {
        let seen = std::fs::symlink_metadata(&path).unwrap();
        if seen.is_dir() {
            pending.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        found.push((path, seen.len(), seen.ctime(), seen.ctime_nsec(), seen.mtime_nsec()));
    }
    found.sort();
    found
}
