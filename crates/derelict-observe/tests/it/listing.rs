//! devpod's own answers, good and bad.

use derelict_core::ids::SourceId;
use derelict_core::ports::SourceLost;
use derelict_observe::{Depth, DevlaunchObserver, Environment, Terms};

use crate::world::{NOW, World};

fn lost(world: &World) -> SourceLost {
    world.observer().survey(Depth::Verdict, &|_| ()).expect_err("because the source is lost")
}

#[test]
fn a_survey_asks_for_one_listing_and_starts_nothing_else() {
    let world = World::new(&["o/r/a", "o/r/b", "o/s/c"]);
    world.survey();
    assert_eq!(std::fs::read_to_string(world.root.join("asked")).unwrap(), "list --output json\n");
}

#[test]
fn a_devpod_that_fails_or_prints_something_else_is_a_lost_source() {
    let world = World::new(&["o/r/a"]);
    for (script, expected) in [
        ("echo oh no >&2; exit 3", "failed with exit status: 3: oh no"),
        ("echo not json", "printed no JSON"),
        ("echo null", "printed null instead of an array"),
        ("echo '[{}]'", "element 0 of `devpod list --output json` has no id"),
        ("kill -9 $$", "failed with signal: 9"),
    ] {
        world.devpod(script);
        let lost = lost(&world);
        assert_eq!(lost.source_id, SourceId("devpod".into()));
        assert!(lost.why.contains(expected), "{script}: {}", lost.why);
    }
}

#[test]
fn no_devpod_on_the_path_is_a_lost_source() {
    let world = World::new(&["o/r/a"]);
    let environment = Environment { path: Some("/nowhere".into()), ..world.environment() };
    let mut observer = DevlaunchObserver::new(world.cache(None), environment, Terms::NONE, NOW);
    let lost = observer.survey(Depth::Verdict, &|_| ()).expect_err("because there is no devpod");
    assert_eq!(lost.to_string(), "cannot ask devpod: no program devpod on PATH");
}

#[test]
fn a_context_that_cannot_be_listed_is_a_lost_source() {
    let world = World::new(&["o/r/a"]);
    std::os::unix::fs::symlink("loop", world.root.join("home/loop")).unwrap();
    std::fs::create_dir_all(world.root.join("home/.devpod")).unwrap();
    std::os::unix::fs::symlink("../loop", world.root.join("home/.devpod/contexts")).unwrap();
    let why = lost(&world).why;
    assert!(why.starts_with("cannot list ") && why.contains("home/.devpod/contexts"), "{why}");
}

#[test]
fn devpod_is_asked_about_the_same_home_whose_files_are_read() {
    let world = World::new(&["o/r/a"]);
    world.devpod(&format!("echo \"$HOME|${{DEVPOD_HOME-unset}}\" >{}/homes; echo '[]'", world.root.display()));
    world.survey();
    let home = world.root.join("home");
    assert_eq!(std::fs::read_to_string(world.root.join("homes")).unwrap(), format!("{}|unset\n", home.display()));
}
