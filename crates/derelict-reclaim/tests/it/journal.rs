//! The journal: durable before the deed, readable after a crash, refused when it is not understood.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use derelict_core::ids::{Digest, IntentId};
use derelict_core::outcome::{Discarded, FateName, Outcome, Release, StopReason};
use derelict_core::ports::Journal as _;
use derelict_core::record::Intent;
use derelict_reclaim::journal::{JOURNAL_FILE, Journal, JournalError, unfinished};
use derelict_testkit::guards::{Flock, Mounted};
use derelict_testkit::scratch::{exists, mkdir, read, write};

use crate::kit::{NOW, World, outcome};

fn intent(world: &World, id: &str) -> Intent {
    crate::kit::intent(world.candidate(id), Some(Digest::of_bytes(b"x")))
}

fn removed() -> Outcome {
    Outcome::Removed {
        discarded: Discarded { entries: 5, bytes: 4096 },
        release: Release::NothingRecorded,
        rescued: None,
    }
}

fn numbers(journal: &Journal) -> Vec<u64> {
    journal.unfinished().map(|open| open.intent.0).collect()
}

/// A journal with one intent that is settled and one that is not, and its text.
fn two_intents(world: &World) -> String {
    for id in ["a", "b"] {
        world.make_clone(id);
    }
    let mut journal = world.journal();
    assert_eq!(journal.note_sweep(NOW), Ok(()));
    assert_eq!(journal.intend(&intent(world, "a")), Ok(IntentId(1)));
    assert_eq!(journal.intend(&intent(world, "b")), Ok(IntentId(2)));
    assert_eq!(journal.settle(IntentId(1), &removed()), Ok(()));
    assert_eq!(numbers(&journal), [2]);
    String::from_utf8(read(world.state().join(JOURNAL_FILE))).expect("because JSON is text")
}

#[test]
fn what_was_intended_and_not_settled_is_there_after_a_restart() {
    let world = World::new();
    let text = two_intents(&world);
    assert_eq!(text.lines().count(), 5);
    assert!(text.lines().all(|line| line.starts_with("{\"v\":2,\"kind\":")));
    let id = world.journal().id().to_string();
    assert!(text.contains(&format!("\"trash\":\".derelict-trash-{id}-2\"")));
    let open: Vec<_> = world.journal().unfinished().cloned().collect();
    assert_eq!(open.len(), 1);
    assert_eq!((open[0].intent, &open[0].candidate), (IntentId(2), &world.candidate("b")));
    assert_eq!(unfinished(&world.state()).unwrap(), open);
    assert_eq!(world.journal().intend(&intent(&world, "a")), Ok(IntentId(3)));
}

#[test]
fn only_its_owner_can_read_it() {
    let world = World::new();
    drop(world.journal());
    let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o7777;
    assert_eq!((mode(&world.state()), mode(&world.state().join(JOURNAL_FILE))), (0o700, 0o600));
}

#[test]
fn looking_at_what_is_unfinished_makes_and_changes_nothing() {
    let world = World::new();
    assert_eq!(unfinished(&world.state()).unwrap(), []);
    assert!(!exists(world.state()));
    let mut text = two_intents(&world).into_bytes();
    text.extend(b"{\"v\":1,\"kin");
    write(world.state().join(JOURNAL_FILE), &text);
    let _held = Flock::file(&world.state().join(JOURNAL_FILE));
    assert_eq!(unfinished(&world.state()).unwrap().len(), 1);
    assert_eq!(read(world.state().join(JOURNAL_FILE)), text);
}

#[test]
fn a_line_that_a_crash_tore_is_dropped() {
    let world = World::new();
    let whole = two_intents(&world);
    let settled = whole.trim_end().rfind('\n').unwrap() + 1;
    for torn in [settled + 1, whole.len() - 1] {
        write(world.state().join(JOURNAL_FILE), &whole[..torn]);
        assert_eq!(numbers(&world.journal()), [1, 2]);
        assert_eq!(read(world.state().join(JOURNAL_FILE)), &whole.as_bytes()[..settled]);
    }
    let with_a_hole = [&whole.as_bytes()[..settled], &[0; 40], b"}\n"].concat();
    write(world.state().join(JOURNAL_FILE), with_a_hole);
    assert_eq!(numbers(&world.journal()), [1, 2]);
    let header = whole.find('\n').unwrap();
    write(world.state().join(JOURNAL_FILE), &whole[..header]);
    assert_eq!(numbers(&world.journal()), [0; 0]);
}

#[test]
fn a_line_that_is_not_understood_is_refused_by_its_number_and_left() {
    let world = World::new();
    let whole = two_intents(&world);
    let path = world.state().join(JOURNAL_FILE);
    let shown = path.display();
    let lines: Vec<&str> = whole.lines().collect();
    let refuse = |text: String| {
        write(&path, &text);
        let told = Journal::open(&world.state()).unwrap_err().to_string();
        assert_eq!(unfinished(&world.state()).unwrap_err().to_string(), told);
        assert_eq!(read(&path), text.as_bytes());
        told
    };
    let tail = "nothing is removed while the journal is not understood";
    let newer = whole.replace("{\"v\":2,\"kind\":\"settled\"", "{\"v\":3,\"kind\":\"settled\"");
    assert_eq!(
        refuse(newer),
        format!("{shown}, line 5: version 3 is newer than this program, which reads up to version 2")
    );
    let corrupt = whole.replace("\"kind\":\"sweep\"", "kind:sweep");
    assert_eq!(refuse(corrupt), format!("{shown}, line 2: key must be a string at line 1 column 8; {tail}"));
    let headless = lines[1..].join("\n") + "\n";
    assert_eq!(refuse(headless), format!("{shown}, line 1: the journal's first line is missing; {tail}"));
    let twice = format!("{whole}{}\n", lines[2]);
    assert_eq!(refuse(twice), format!("{shown}, line 6: intent 1 comes a second time, or out of order; {tail}"));
    let unknown = format!("{whole}{}\n", lines[4].replace("\"intent\":1", "\"intent\":7"));
    assert_eq!(refuse(unknown), format!("{shown}, line 6: there is no intent 7 before this line; {tail}"));
}

#[test]
fn a_second_process_waits_a_little_and_is_then_told_which_file_is_in_use() {
    let world = World::new();
    let first = world.journal();
    let second = Journal::open_waiting(&world.state(), Duration::from_millis(50)).unwrap_err();
    let path = world.state().join(JOURNAL_FILE);
    assert!(matches!(&second, JournalError::Busy { path: busy } if *busy == path));
    assert_eq!(second.to_string(), format!("{} is in use by another derelict", path.display()));
    drop(first);
    // A child that another test starts may hold a copy of the descriptor, and the lock, for an instant.
    drop(Journal::open(&world.state()).unwrap());
}

#[test]
fn a_journal_that_is_a_link_is_refused() {
    let world = World::new();
    mkdir(world.state());
    write(world.base().join("outside"), "");
    derelict_testkit::scratch::symlink(world.base().join("outside"), world.state().join(JOURNAL_FILE));
    assert!(matches!(Journal::open(&world.state()), Err(JournalError::Io { deed: "open", .. })));
}

/// Fills the file system that `dir` lies on to the last byte.
fn fill(dir: &Path) {
    use std::io::Write;
    let mut ballast = std::fs::File::create(dir.join("ballast")).expect("because an empty file takes no block");
    while ballast.write_all(&[0; 4096]).is_ok() {}
}

#[test]
fn a_deletion_can_be_written_down_on_a_full_disk() {
    let world = World::new();
    world.make_clone("a");
    mkdir(world.state());
    let _disk = Mounted::tmpfs(&world.state());
    rustix::mount::mount_remount(world.state(), rustix::mount::MountFlags::empty(), "size=1m").unwrap();
    drop(world.journal());
    // Without what was reserved when it was made, as after restoring a backup, and with its last
    // block as good as full.
    let journal = world.state().join(JOURNAL_FILE);
    let mut text = read(&journal);
    let sweep = b"{\"v\":2,\"kind\":\"sweep\"}\n";
    while text.len() + sweep.len() < 4096 {
        text.extend(sweep);
    }
    derelict_testkit::scratch::remove(&journal);
    write(&journal, text);
    drop(world.journal());
    fill(&world.state());
    assert!(matches!(world.remove("a"), Outcome::Removed { .. }));
    assert!(!exists(world.clone("a")));
}

#[test]
fn a_journal_that_cannot_be_written_stops_the_sweep_before_the_deed() {
    let world = World::new();
    for id in ["a", "b"] {
        world.make_clone(id);
    }
    mkdir(world.state());
    let _disk = Mounted::tmpfs(&world.state());
    rustix::mount::mount_remount(world.state(), rustix::mount::MountFlags::empty(), "size=1m").unwrap();
    let mut journal = world.journal();
    fill(&world.state());
    let written = std::iter::from_fn(|| journal.intend(&intent(&world, "a")).ok()).count();
    assert!(written > 20, "the reserve holds {written} intents");
    drop(journal);
    // Every line that was promised is there, and nothing else.
    assert_eq!(numbers(&world.journal()).len(), written);
    let report = world.sweep(vec![world.candidate("a"), world.candidate("b")], |_| {});
    assert!(matches!(&report.stop, StopReason::JournalLost(why) if why.contains(JOURNAL_FILE)), "{:?}", report.stop);
    assert_eq!((report.tally().of(FateName::Interrupted), report.tally().of(FateName::NotReached)), (1, 1));
    assert!(exists(world.clone("a/file")) && exists(world.clone("b/file")));
}

#[test]
fn a_refusal_stays_unfinished_and_a_removal_does_not() {
    let world = World::new();
    let clone = world.make_clone("a");
    let frozen = derelict_testkit::guards::Immutable::set(&clone.join("file"), world.base());
    assert!(matches!(outcome(world.sweep(vec![world.candidate("a")], |_| {})), Outcome::Refused { .. }));
    assert_eq!(numbers(&world.journal()), [1]);
    drop(frozen);
    world.recover();
    assert_eq!(numbers(&world.journal()), [0; 0]);
}
