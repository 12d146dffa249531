//! The re-check, under the creators' lock: everything is read again; and the second look, behind the
//! fence: whoever came in between is seen.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::process::Command;

use derelict_core::evidence::{Evidence, Holder, Observed};
use derelict_core::ids::{IntentId, Timestamp};
use derelict_core::recheck::Grace;
use derelict_core::record::SetAside;
use derelict_observe::{Depth, DevlaunchObserver};

use crate::world::{Process, World, holders, of, word, workspace};

/// After everything that these tests write.
const LATER: Timestamp = Timestamp::new(i64::MAX, 0);

struct Rechecked {
    world: World,
    observer: DevlaunchObserver,
    candidate: derelict_core::evidence::Candidate,
    dir: File,
}

impl Rechecked {
    /// Surveyed and refreshed, with nobody alive.
    fn new() -> Self {
        let world = World::new(&["o/r/a", "o/r/b"]);
        let mut observer = world.observer();
        let survey = observer.survey(Depth::Verdict, &|_| ()).unwrap();
        observer.refresh().unwrap();
        let candidate = of(&survey, "a").candidate.clone();
        let dir = File::open(world.clone("o/r/a")).unwrap();
        Self { world, observer, candidate, dir }
    }

    fn look(&mut self) -> Evidence {
        self.observer.look_again(&self.candidate, self.dir.as_fd()).unwrap()
    }
}

impl Rechecked {
    /// Looks again, fences, lets something happen, and looks a second time.
    fn behind_the_fence(mut self, between: impl FnOnce(&Self, &std::path::Path)) -> Evidence {
        let first = self.look();
        assert_eq!(word(&first), "nobody");
        let trash = self.world.clone("o/r/.derelict-trash-x-1");
        std::fs::rename(self.world.clone("o/r/a"), &trash).unwrap();
        between(&self, &trash);
        self.observer.second_look(&self.candidate, self.dir.as_fd(), &first).unwrap()
    }
}

#[test]
fn a_second_look_at_a_fenced_clone_that_nobody_touched_sees_the_same() {
    let mut it = Rechecked::new();
    let first = it.look();
    assert_eq!(it.behind_the_fence(|_, _| ()), first);
}

#[test]
fn a_file_written_just_before_the_fence_is_seen_by_the_second_look() {
    let evidence = Rechecked::new().behind_the_fence(|_, trash| std::fs::write(trash.join("f"), "more").unwrap());
    assert!(matches!(evidence.proof, Observed::Unknown(_)));
    let evidence = Rechecked::new().behind_the_fence(|_, trash| std::fs::write(trash.join("new"), "new").unwrap());
    assert!(matches!(evidence.proof, Observed::Unknown(_)));
}

#[test]
fn a_process_that_entered_just_before_the_fence_is_seen_by_the_second_look() {
    let mut process = None;
    let evidence = Rechecked::new().behind_the_fence(|_, trash| {
        process = Some(Process::start(Command::new("sleep").arg("600").current_dir(trash)))
    });
    assert_eq!(holders(&evidence).len(), 1);
}

#[test]
fn an_owner_who_registers_just_before_the_fence_is_seen_by_the_second_look() {
    let evidence = Rechecked::new().behind_the_fence(|it, _| {
        it.world.workspace_file("default", "a", &workspace("a", &it.world.clone("o/r/a")));
    });
    assert_ne!(word(&evidence), "nobody");
}

#[test]
fn looking_again_at_an_unchanged_clone_sees_the_same() {
    let world = World::new(&["o/r/a"]);
    let mut observer = world.observer();
    let survey = observer.survey(Depth::Verdict, &|_| ()).unwrap();
    observer.refresh().unwrap();
    let dir = File::open(world.clone("o/r/a")).unwrap();
    let first = of(&survey, "a");
    let again = observer.look_again(&first.candidate, dir.as_fd()).unwrap();
    assert_eq!(again.sources(), first.evidence.sources());
    assert_eq!((again.touched, again.layout), (first.evidence.touched.clone(), first.evidence.layout.clone()));
    assert_eq!(again.proof, first.evidence.proof);
}

#[test]
fn a_workspace_that_was_registered_after_the_listing_saves_its_clone() {
    let mut it = Rechecked::new();
    assert_eq!(word(&it.look()), "nobody");
    it.world.workspace_file("default", "a", &workspace("a", &it.world.clone("o/r/a")));
    assert_eq!(word(&it.look()), "referenced");
}

#[test]
fn a_workspace_that_only_the_second_listing_knows_saves_its_clone() {
    let mut it = Rechecked::new();
    it.world.live(&[("a", &it.world.clone("o/r/a"))]);
    assert_eq!(word(&it.look()), "nobody");
    it.observer.refresh().unwrap();
    assert_eq!(word(&it.look()), "referenced");
}

#[test]
fn a_new_clone_with_its_workspace_does_not_stand_in_the_way_of_the_others() {
    let mut it = Rechecked::new();
    std::fs::create_dir(it.world.clone("o/r/new")).unwrap();
    it.world.workspace_file("default", "new", &workspace("new", &it.world.clone("o/r/new")));
    assert_eq!(word(&it.look()), "nobody");
}

#[test]
fn a_record_that_turns_up_or_cannot_be_read_any_more_counts() {
    let mut it = Rechecked::new();
    it.world.workspace_file("default", "x", &workspace("x", &it.world.root.join("home")));
    it.world.records(&[("k", &it.world.clone("o/r/a"), "x", "x")]);
    assert_eq!(word(&it.look()), "disputed");
    it.world.file("cache/devlaunch/metadata.json", "{");
    assert_eq!(word(&it.look()), "blind");
}

#[test]
fn whoever_enters_after_the_survey_holds_the_clone() {
    let mut it = Rechecked::new();
    let process = Process::start(Command::new("sleep").arg("600").current_dir(it.world.clone("o/r/a")));
    let expected = Holder::Process { pid: process.pid(), by: "cwd".into(), command: "sleep".into() };
    assert_eq!(holders(&it.look()), [expected]);
    drop(process);
    assert_eq!(holders(&it.look()), Vec::new());
}

#[test]
fn another_directory_under_the_same_name_is_unknown_through_and_through() {
    let mut it = Rechecked::new();
    let other = File::open(it.world.clone("o/r/b")).unwrap();
    let evidence = it.observer.look_again(&it.candidate, other.as_fd()).unwrap();
    assert!(matches!(evidence.uses, Observed::Unknown(_)));
    assert!(matches!(evidence.proof, Observed::Unknown(_)));
    assert!(matches!(evidence.touched, Observed::Unknown(_)));
}

#[test]
fn a_source_that_is_lost_between_the_looks_is_told() {
    let mut it = Rechecked::new();
    it.world.devpod("exit 1");
    assert!(it.observer.refresh().is_err());
    std::fs::create_dir_all(it.world.root.join("home/.devpod")).unwrap();
    std::os::unix::fs::symlink("contexts", it.world.root.join("home/.devpod/contexts")).unwrap();
    assert!(it.observer.look_again(&it.candidate, it.dir.as_fd()).is_err());
}

/// What is seen of a clone that was set aside, after something happened.
fn set_aside(between: impl FnOnce(&World)) -> Evidence {
    let mut it = Rechecked::new();
    std::fs::rename(it.world.clone("o/r/a"), it.world.clone("o/r/.derelict-trash-x-1")).unwrap();
    between(&it.world);
    it.observer.refresh().unwrap();
    look_at(&it, LATER)
}

fn look_at(it: &Rechecked, since: Timestamp) -> Evidence {
    let grace = Grace { until: LATER, accepted_losses: None };
    let set_aside =
        SetAside { intent: IntentId(1), candidate: it.candidate.clone(), since, grace, bytes: 0, inodes: 0 };
    it.observer.look_at_set_aside(&set_aside, it.dir.as_fd()).unwrap()
}

#[test]
fn what_is_written_in_a_clone_after_it_was_set_aside_holds_it() {
    let mut it = Rechecked::new();
    std::fs::write(it.world.clone("o/r/a/late"), "").unwrap();
    it.observer.refresh().unwrap();
    assert_eq!(holders(&look_at(&it, LATER)), []);
    let written = Holder::System("something in it was written after it was set aside".into());
    assert_eq!(holders(&look_at(&it, Timestamp::new(0, 0))), [written]);
}

#[test]
fn a_clone_that_was_set_aside_is_judged_by_who_names_it_or_the_place_it_had() {
    assert_eq!(word(&set_aside(|_| ())), "nobody");
    // Its owner is back, and says that it lives where nothing lies.
    assert_eq!(word(&set_aside(|world| world.live(&[("a", &world.clone("o/r/a"))]))), "disputed");
    // Its owner is back and lives in the trash, or in a new clone under the old name.
    let trash = |world: &World| world.live(&[("other", &world.clone("o/r/.derelict-trash-x-1"))]);
    assert_eq!(word(&set_aside(trash)), "referenced");
    let anew = |world: &World| {
        std::fs::create_dir(world.clone("o/r/a")).unwrap();
        world.live(&[("a", &world.clone("o/r/a"))]);
    };
    assert_eq!(word(&set_aside(anew)), "disputed");
}

#[test]
fn a_clone_that_was_set_aside_is_examined_and_its_users_are_seen() {
    let evidence = set_aside(|_| ());
    assert!(matches!(evidence.proof, Observed::Known(_)));
    let mut process = None;
    let evidence = set_aside(|world| {
        let trash = world.clone("o/r/.derelict-trash-x-1");
        process = Some(Process::start(Command::new("sleep").arg("600").current_dir(trash)));
    });
    assert_eq!(holders(&evidence).len(), 1);
}
