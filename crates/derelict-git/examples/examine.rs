//! Examines directories, by two threads when there are several, and says how many answers of each kind came out: the
//! proof alone, for measuring. `examine [--keeper BARE]… DIR…`

use std::fs::File;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use derelict_git::{Answer, Meter, Stat, Surroundings, examine};

/// Adds up what a survey adds up, so that nothing of the walk is saved.
#[derive(Default)]
struct Sum {
    entries: u64,
    blocks: u64,
}

impl Meter for Sum {
    fn seen(&mut self, _: &[u8], stat: &Stat) {
        self.entries += 1;
        self.blocks += stat.blocks;
    }
    fn unreadable(&mut self, _: &[u8], _: &std::io::Error) {}
    fn mount(&mut self, _: &[u8]) {}
}

fn main() {
    let (mut keepers, mut dirs) = (Vec::new(), Vec::new());
    let mut arguments = std::env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--keeper" {
            keepers.extend(arguments.next().map(PathBuf::from));
        } else {
            dirs.push(PathBuf::from(argument));
        }
    }
    let around = Surroundings::new(PathBuf::from("/nowhere"), keepers, Vec::new());
    let next = AtomicUsize::new(0);
    let work = || {
        let (mut losses, mut unknown, mut sum) = (0, 0, Sum::default());
        while let Some(dir) = dirs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let file = File::open(dir).expect("because the directories that are measured are there");
            for channel in examine(file.as_fd(), dir, &around, &mut sum).channels {
                match channel.answer {
                    Answer::Nothing => {}
                    Answer::Losses(found) => losses += found.len(),
                    Answer::Unknown(found) => unknown += found.len(),
                }
            }
        }
        (losses, unknown, sum.entries)
    };
    let (first, second) = std::thread::scope(|threads| {
        let second = (dirs.len() > 1).then(|| threads.spawn(work));
        (work(), second.map_or((0, 0, 0), |second| second.join().expect("because it only reads")))
    });
    let (losses, unknown, entries) = (first.0 + second.0, first.1 + second.1, first.2 + second.2);
    println!("{} directories, {entries} entries, {losses} losses, {unknown} unknown", dirs.len());
}
