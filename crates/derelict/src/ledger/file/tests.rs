//! The promises of the record of sweeps, on real files.

use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, symlink};

use super::*;
use crate::ledger::samples::{began, id, many, sweep, three};

struct World {
    dir: tempfile::TempDir,
    record: Record,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let record = Record::of(&dir.path().join("state/derelict"));
        Self { dir, record }
    }

    fn with(sweeps: &[SweepRecord]) -> Self {
        let world = Self::new();
        sweeps.iter().for_each(|sweep| world.record.append(sweep).unwrap());
        world
    }

    fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.record.path).unwrap()
    }

    fn set(&self, bytes: &[u8]) {
        std::fs::write(&self.record.path, bytes).unwrap();
    }

    /// All sweeps, and everything that is not understood.
    fn read(&self) -> (Vec<SweepRecord>, Vec<String>) {
        let contents = self.record.open().unwrap().expect("because there is a record");
        let mut troubles: Vec<String> = contents.troubles.clone().sentences().collect();
        let sweeps = contents.spans.iter().map(|span| {
            let (sweep, more) = contents.sweep(span).unwrap();
            troubles.extend(more.sentences());
            sweep
        });
        (sweeps.collect(), troubles)
    }

    fn ids(&self) -> Vec<String> {
        self.read().0.into_iter().map(|sweep| sweep.id).collect()
    }

    fn trouble(&self, line: u64, why: &str) -> String {
        format!("{}, line {line}, is skipped: {why}", self.record.path.display())
    }
}

#[test]
fn sweeps_come_back_as_they_were_in_the_order_in_which_they_were_written() {
    let world = World::with(&three());
    assert_eq!(world.read(), (three().to_vec(), vec![]));
    assert_eq!(std::fs::metadata(&world.record.path).unwrap().mode() & 0o7777, 0o600);
    assert_eq!(std::fs::metadata(&world.record.state).unwrap().mode() & 0o7777, 0o700);
}

#[test]
fn where_no_sweep_ever_ran_there_is_no_record_and_reading_makes_none() {
    let world = World::new();
    assert!(world.record.open().unwrap().is_none());
    assert_eq!(world.record.forget_before(began(9)).unwrap(), 0);
    assert_eq!(std::fs::read_dir(world.dir.path()).unwrap().count(), 0);
}

#[test]
fn a_sweep_is_written_once() {
    let world = World::with(&three());
    let before = world.bytes();
    world.record.append(&three()[1]).unwrap();
    assert_eq!(world.bytes(), before);
}

#[test]
fn a_last_sweep_that_was_torn_anywhere_is_ignored_and_the_next_one_is_complete() {
    let [first, _, last] = three();
    let world = World::with(std::slice::from_ref(&first));
    let start = world.bytes().len();
    world.record.append(&last).unwrap();
    let whole = world.bytes();
    for cut in (start..whole.len() - 1).step_by(37) {
        world.set(&whole[..cut]);
        assert_eq!(world.read(), (vec![first.clone()], vec![]), "cut at {cut}");
        world.record.append(&sweep(7, Vec::new())).unwrap();
        let (sweeps, troubles) = world.read();
        assert_eq!(sweeps, [first.clone(), sweep(7, Vec::new())], "cut at {cut}");
        assert!(troubles.len() <= 1, "cut at {cut}: {troubles:?}");
        assert_eq!(&world.bytes()[..cut], &whole[..cut], "cut at {cut}: what was there is not rewritten");
    }
}

#[test]
fn a_sweep_that_lacks_nothing_but_the_end_of_its_last_line_is_complete_with_the_next() {
    let world = World::with(&three());
    let whole = world.bytes();
    world.set(&whole[..whole.len() - 1]);
    assert_eq!(world.read(), (three()[..2].to_vec(), vec![]));
    world.record.append(&sweep(7, Vec::new())).unwrap();
    assert_eq!(world.read(), ([&three()[..], &[sweep(7, Vec::new())]].concat(), vec![]));
}

#[test]
fn a_torn_sweep_that_is_not_the_last_is_named_by_the_line_of_its_head() {
    let [first, _, last] = three();
    let world = World::with(std::slice::from_ref(&first));
    let torn = world.bytes().len() + 2_000;
    world.record.append(&last).unwrap();
    let whole = world.bytes();
    world.set(&whole[..torn]);
    world.record.append(&sweep(7, Vec::new())).unwrap();
    let why = format!("the sweep {} was not written to its end", last.id);
    assert_eq!(world.read().1, [world.trouble(5, &why)]);
}

#[test]
fn a_line_that_is_damaged_within_a_sweep_is_named_and_the_others_are_read() {
    let world = World::with(&three());
    let whole = world.bytes();
    let text = String::from_utf8(whole).unwrap();
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    // Of the same length, so that the sweep ends where it says; and shorter, so that it does not.
    let first = lines[1];
    for damaged in [&format!("x{}", &first[1..]), "x\n"] {
        lines[1] = damaged;
        world.set(lines.concat().as_bytes());
        let (sweeps, troubles) = world.read();
        assert_eq!(sweeps[0].directories, three()[0].directories[1..]);
        assert_eq!(sweeps[1..], three()[1..]);
        assert_eq!(troubles, [world.trouble(2, "expected value at line 1 column 1")]);
    }
}

#[test]
fn a_head_that_is_damaged_costs_its_sweep_and_no_other() {
    let world = World::with(&three());
    let damaged = String::from_utf8(world.bytes()).unwrap().replacen("\"mode\":\"armed\"", "\"mode\":\"harmed\"", 1);
    world.set(damaged.as_bytes());
    let (sweeps, troubles) = world.read();
    assert_eq!(sweeps, three()[1..]);
    assert_eq!(troubles[0], world.trouble(1, "`mode` is missing or wrong"));
    assert_eq!(troubles.len(), 4, "the head, two directories and the end");
}

#[test]
fn a_length_that_is_damaged_is_not_believed() {
    let world = World::with(&three());
    let text = String::from_utf8(world.bytes()).unwrap();
    let at = text.find(",\"bytes\":").into_iter().chain(text.find("\"counts\":")).max().unwrap();
    let at = at + text[at..].find("},\"bytes\":").unwrap() + "},\"bytes\":".len();
    let digits = text[at..].find('}').unwrap();
    for wrong in ["0", "1", "18446744073709551615", "9223372036854775807", "700"] {
        world.set([&text[..at], wrong, &text[at + digits..]].concat().as_bytes());
        assert_eq!(world.read(), (three().to_vec(), vec![]), "{wrong}");
    }
}

#[test]
fn a_record_of_a_newer_program_is_refused_and_not_written_to() {
    let world = World::with(&three());
    let mut bytes = world.bytes();
    bytes.extend_from_slice(b"{\"v\":2,\"kind\":\"sweep\"}\n");
    world.set(&bytes);
    let line = bytes.iter().filter(|byte| **byte == b'\n').count();
    let newer = format!("line {line}: version 2 is newer than this program, which reads version 1");
    let told = |error: anyhow::Error| format!("{error:#}");
    assert!(told(world.record.open().unwrap_err()).ends_with(&newer));
    assert!(told(world.record.append(&sweep(9, Vec::new())).unwrap_err()).ends_with(&newer));
    assert!(told(world.record.forget_before(began(9)).unwrap_err()).ends_with(&newer));
    assert_eq!(world.bytes(), bytes);
}

#[test]
fn what_is_old_is_forgotten_and_everything_else_stays_byte_for_byte() {
    let world = World::with(&[sweep(0, Vec::new()), sweep(1, Vec::new())]);
    let old = world.bytes();
    let mut file = File::options().append(true).open(&world.record.path).unwrap();
    file.write_all(b"damaged\n").unwrap();
    world.record.append(&three()[2]).unwrap();
    let torn = b"{\"v\":1,\"kind\":\"sw";
    file.write_all(torn).unwrap();
    let all = world.bytes();
    let reader = world.record.open().unwrap().unwrap();
    assert_eq!(world.record.forget_before(began(2)).unwrap(), 2);
    assert_eq!(world.bytes(), all[old.len()..]);
    assert_eq!(world.ids(), [id(2)]);
    assert_eq!(reader.sweep(&reader.spans[0]).unwrap().0, sweep(0, Vec::new()), "a reader keeps what it opened");
    assert_eq!(world.record.forget_before(began(2)).unwrap(), 0);
}

#[test]
fn two_derelicts_that_write_at_once_do_not_tear_each_other() {
    let world = World::new();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let record = world.record.clone();
            scope.spawn(move || (0..5).for_each(|n| record.append(&many(writer * 5 + n, 50)).unwrap()));
        }
    });
    let (mut sweeps, troubles) = world.read();
    sweeps.sort_by(|a, b| a.id.cmp(&b.id));
    assert_eq!((sweeps, troubles), ((0..20).map(|n| many(n, 50)).collect(), vec![]));
}

#[test]
fn a_full_disk_leaves_the_record_as_it_was() {
    let world = World::new();
    let _small = derelict_testkit::guards::Mounted::small_tmpfs(world.dir.path(), 256 << 10);
    world.record.append(&sweep(0, Vec::new())).unwrap();
    let before = world.bytes();
    let error = world.record.append(&many(1, 5_000)).unwrap_err();
    assert!(format!("{error:#}").contains("No space left on device"), "{error:#}");
    assert_eq!(world.bytes(), before);
    world.record.append(&sweep(2, Vec::new())).unwrap();
    assert_eq!(world.ids(), [id(0), id(2)]);
}

#[test]
fn what_is_no_regular_file_is_not_waited_for() {
    let world = World::new();
    std::fs::create_dir_all(&world.record.state).unwrap();
    symlink("elsewhere", &world.record.path).unwrap();
    assert!(world.record.open().is_err());
    assert!(world.record.append(&sweep(0, Vec::new())).is_err());
    assert!(!world.record.state.join("elsewhere").exists());
}

#[test]
fn an_endless_heap_of_damage_is_counted_and_not_listed() {
    let world = World::with(&[sweep(0, Vec::new())]);
    let mut bytes = world.bytes();
    bytes.extend("damaged\n".repeat(500).into_bytes());
    world.set(&bytes);
    let (sweeps, troubles) = world.read();
    assert_eq!((sweeps.len(), troubles.len()), (1, MOST_TROUBLES + 1));
    assert_eq!(troubles[MOST_TROUBLES], "480 more lines are not understood");
}
