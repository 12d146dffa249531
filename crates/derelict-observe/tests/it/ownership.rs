//! Who owns a clone, by every way an owner source can say so.

use std::collections::BTreeMap;
use std::path::Path;

use derelict_core::evidence::{ClaimedPath, Observed};
use derelict_observe::{Depth, DevlaunchObserver, Terms};

use crate::world::{Mounted, NOW, World, git, of, words, workspace};

fn said<const N: usize>(expected: [(&str, &'static str); N]) -> BTreeMap<String, &'static str> {
    expected.into_iter().map(|(name, word)| (name.to_owned(), word)).collect()
}

#[test]
fn a_live_source_at_in_or_above_a_clone_references_it() {
    let world = World::new(&["o/r/at", "o/r/within/sub", "o/r/free", "o/s/below", "p/t/deep"]);
    world.live(&[
        ("1", &world.clone("o/r/at/")),
        ("2", &world.clone("o/r/within/sub")),
        ("3", &world.clone("o/s")),
        ("4", &world.clone("p")),
    ]);
    let expected = said([
        ("at", "referenced"),
        ("within", "referenced"),
        ("free", "nobody"),
        ("below", "referenced"),
        ("deep", "referenced"),
    ]);
    assert_eq!(world.owned(), expected);
    for above in ["cache/devlaunch/repos", "cache/devlaunch"] {
        world.live(&[("all", &world.root.join(above))]);
        assert!(world.owned().values().all(|word| *word == "referenced"), "{above}");
    }
    world.live(&[("home", &world.root)]);
    assert!(world.owned().values().all(|word| *word == "nobody"));
}

#[test]
fn a_cache_behind_a_symlink_and_sources_through_symlinks_classify_the_same() {
    let world = World::new(&["o/r/a", "o/r/b", "o/r/c"]);
    std::os::unix::fs::symlink("cache", world.root.join("link")).unwrap();
    std::os::unix::fs::symlink(world.clone("o/r/b"), world.root.join("shortcut")).unwrap();
    world.live(&[("1", &world.root.join("link/devlaunch/repos/o/r/a")), ("2", &world.root.join("shortcut"))]);
    let expected = said([("a", "referenced"), ("b", "referenced"), ("c", "nobody")]);
    assert_eq!(world.owned(), expected);
    let cache = world.cache(Some(&world.root.join("link/devlaunch")));
    let mut observer = DevlaunchObserver::new(cache, world.environment(), Terms::NONE, NOW);
    assert_eq!(words(&observer.survey(Depth::Verdict, &|_| ()).unwrap()), expected);
}

#[test]
fn a_source_that_is_a_mount_of_a_clones_inside_references_it() {
    let world = World::new(&["o/r/whole", "o/r/part/sub", "o/r/free"]);
    for mount in ["m1", "m2"] {
        std::fs::create_dir(world.root.join(mount)).unwrap();
    }
    let _whole = Mounted::bind(&world.clone("o/r/whole"), &world.root.join("m1"));
    let _part = Mounted::bind(&world.clone("o/r/part/sub"), &world.root.join("m2"));
    world.live(&[("1", &world.root.join("m1")), ("2", &world.root.join("m2"))]);
    assert_eq!(world.owned(), said([("whole", "referenced"), ("part", "referenced"), ("free", "nobody")]));
}

#[test]
fn a_record_of_a_live_owner_elsewhere_disputes_the_clone() {
    let world = World::new(&["o/r/path", "o/r/by-id", "o/r/leaf", "o/r/free", "o/r/home"]);
    let elsewhere = world.root.join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    world.records(&[
        ("o/r/1", &world.clone("o/r/path"), "w1", "alive-1"),
        ("o/r/2", Path::new("relative"), "by-id", "alive-2"),
        ("o/r/3", &world.clone("o/r/home"), "home", "home"),
        ("o/r/4", &world.clone("o/r/free"), "free", "dead"),
    ]);
    world.live(&[
        ("alive-1", &elsewhere),
        ("alive-2", &world.root.join("gone")),
        ("leaf", &elsewhere),
        ("home", &world.clone("o/r/home")),
    ]);
    let expected =
        [("path", "disputed"), ("by-id", "disputed"), ("leaf", "disputed"), ("free", "nobody"), ("home", "referenced")];
    assert_eq!(world.owned(), said(expected));
    let survey = world.survey();
    let claims = of(&survey, "path").evidence.sources().iter().find(|report| &*report.source.0 == "devlaunch");
    let Observed::Known(claims) = &claims.expect("because records were read").claims else {
        panic!("records are readable")
    };
    let expected = format!(
        "{} (tied to this directory by the record o/r/1 in {})",
        elsewhere.display(),
        world.root.join("cache/devlaunch/metadata.json").display()
    );
    assert_eq!(claims[0].at, ClaimedPath::Elsewhere(expected));
}

#[test]
fn a_live_owner_behind_a_url_disputes_the_clone_of_its_name() {
    let world = World::new(&["o/r/a", "o/r/b"]);
    world
        .list(r#"[{"id":"a","source":{"gitRepository":"https://example.org/o/r"}},{"id":"x","source":{"image":"i"}}]"#);
    assert_eq!(world.owned(), said([("a", "disputed"), ("b", "nobody")]));
}

#[test]
fn an_owner_of_another_context_is_alive_though_the_listing_does_not_know_it() {
    let world = World::new(&["o/r/a", "o/r/b"]);
    world.workspace_file("work", "a", &workspace("a", &world.clone("o/r/a")));
    assert_eq!(world.owned(), said([("a", "referenced"), ("b", "nobody")]));
    assert_eq!(world.survey().owners, 1);
}

#[test]
fn a_torn_workspace_file_blinds_to_its_clone_or_to_all() {
    let world = World::new(&["o/r/a", "o/r/b"]);
    world.workspace_file("default", "a", r#"{"id":"#);
    assert_eq!(world.owned(), said([("a", "blind"), ("b", "nobody")]));
    world.workspace_file("default", "unrelated", "");
    assert_eq!(world.owned(), said([("a", "blind"), ("b", "blind")]));
    assert_eq!(world.survey().owners, 2);
}

#[test]
fn a_workspace_directory_without_a_file_keeps_only_its_name() {
    let world = World::new(&["o/r/a", "o/r/b"]);
    for id in ["a", "unrelated"] {
        std::fs::create_dir_all(world.root.join("home/.devpod/contexts/default/workspaces").join(id)).unwrap();
    }
    assert_eq!(world.owned(), said([("a", "blind"), ("b", "nobody")]));
    assert_eq!(world.survey().owners, 0);
}

#[test]
fn a_source_in_the_cache_at_no_clone_keeps_everything_it_could_be() {
    let world = World::new(&["o/r/a", "o/r/.bare", "o/s/b", "p/t/c"]);
    for (place, expected) in [
        ("o/r/.bare", [("a", "blind"), ("b", "nobody"), ("c", "nobody")]),
        ("o/r/gone", [("a", "blind"), ("b", "nobody"), ("c", "nobody")]),
        ("o/gone/x", [("a", "blind"), ("b", "blind"), ("c", "nobody")]),
        ("gone", [("a", "blind"), ("b", "blind"), ("c", "blind")]),
        ("../other", [("a", "blind"), ("b", "blind"), ("c", "blind")]),
    ] {
        world.live(&[("x", &world.clone(place))]);
        assert_eq!(world.owned(), said(expected), "{place}");
    }
    world.records(&[("o/r/x", &world.clone("o/r/gone"), "x", "x")]);
    world.live(&[("x", &world.clone("o/r/gone"))]);
    assert_eq!(world.owned(), said([("a", "disputed"), ("b", "nobody"), ("c", "nobody")]));
    assert_eq!(world.survey().stale_records, Vec::<String>::new());
}

#[test]
fn records_that_cannot_be_read_blind_to_every_clone_and_are_told() {
    let world = World::new(&["o/r/a", "o/r/b"]);
    world.live(&[("b", &world.clone("o/r/b"))]);
    for content in ["{ torn", r#"{"version":9,"worktrees":{}}"#] {
        world.file("cache/devlaunch/metadata.json", content);
        assert_eq!(world.owned(), said([("a", "blind"), ("b", "referenced")]), "{content}");
        assert!(world.survey().disclosures.records.is_some());
    }
    std::fs::remove_file(world.root.join("cache/devlaunch/metadata.json")).unwrap();
    assert_eq!(world.owned(), said([("a", "nobody"), ("b", "referenced")]));
}

#[test]
fn records_of_vanished_clones_are_stale_unless_their_owner_lives() {
    let world = World::new(&["o/r/here"]);
    let gone = |name: &str| world.clone("o/r").join(name);
    world.records(&[
        ("here", &world.clone("o/r/here"), "here", "here"),
        ("stale", &gone("stale"), "stale", "stale"),
        ("alive", &gone("alive"), "x", "alive-id"),
        ("by-name", &gone("by-name"), "", ""),
        ("no-parent", &world.clone("o/none/a"), "n", "n"),
        ("outside", &world.root.join("gone"), "o", "o"),
        ("bare", &gone(".bare"), "b", "b"),
        ("relative", Path::new("o/r/z"), "z", "z"),
    ]);
    world.live(&[("alive-id", &world.root.join("home")), ("by-name", &world.root.join("home"))]);
    assert_eq!(world.survey().stale_records, Vec::<String>::new(), "a repository without its cache is not mounted");
    std::fs::create_dir(gone(".bare")).unwrap();
    assert_eq!(world.survey().stale_records, ["stale"]);
    std::fs::create_dir(gone(".derelict-trash-x-1")).unwrap();
    assert_eq!(world.survey().stale_records, Vec::<String>::new(), "it may lie whole in the trash");
}

#[test]
fn a_repository_that_borrows_a_clones_objects_is_searched_for() {
    let world = World::new(&["o/r/free"]);
    git(&world.clone("o/r"), &["init", "-q", "-b", "main", "lender"]);
    git(&world.clone("o/r/lender"), &["commit", "-q", "--allow-empty", "-m", "one"]);
    assert_eq!(world.survey().disclosures.borrowers.found, 0);
    git(&world.root, &["clone", "-q", "--shared", "cache/devlaunch/repos/o/r/lender", "borrower"]);
    git(&world.clone("o/r/lender"), &["worktree", "add", "-q", "../../../../../../tree"]);
    assert_eq!(world.survey().disclosures.borrowers.found, 2);
}
