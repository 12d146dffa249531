//! A world of one bare cache and one upstream, and the probe applied to a clone in it.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use derelict_git::{Answer, Examination, Meter, Stat, Surroundings, examine};
use derelict_testkit::git::shell;
use derelict_testkit::{Scratch, Snapshot};

/// Counts what the walk sees.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    pub(crate) entries: u64,
    pub(crate) unreadable: Vec<String>,
    pub(crate) mounts: Vec<String>,
}

impl Meter for Counter {
    fn seen(&mut self, _: &[u8], _: &Stat) {
        self.entries += 1;
    }
    fn unreadable(&mut self, path: &[u8], error: &io::Error) {
        self.unreadable.push(format!("{}: {error}", path.escape_ascii()));
    }
    fn mount(&mut self, path: &[u8]) {
        self.mounts.push(path.escape_ascii().to_string());
    }
}

/// A root with `up/w.git`, `up/sub.git`, and `repos/.bare`; clones lie beside the latter.
pub(crate) struct World {
    scratch: Scratch,
}

impl World {
    pub(crate) fn new() -> Self {
        let scratch = Scratch::new();
        shell(
            scratch.path(),
            r#"
mkdir up repos
git init -q up/seed; git init -q up/subseed
(cd up/seed; echo a >a; echo b >b; mkdir d; echo c >d/c; printf 'ign/\n.env\nnode_modules/\ntarget/\n' >.gitignore; echo '{}' >package.json; commit seed; git tag v1)
(cd up/subseed; echo s >s; commit sub)
git clone -q --bare up/seed up/w.git; git clone -q --bare up/subseed up/sub.git
git clone -q --bare up/w.git repos/.bare
rm -rf up/seed up/subseed
"#,
            &[],
        );
        Self { scratch }
    }

    pub(crate) fn root(&self) -> &Path {
        self.scratch.path()
    }

    /// A fresh clone named `c`, with a script run in it.
    pub(crate) fn clone(&self, script: &str) -> PathBuf {
        let script = format!(
            "git clone -q .bare c; cd c; git remote set-url origin \"$UP/w.git\"; git checkout -q -B b-c\n{script}"
        );
        self.run(&script);
        self.root().join("repos/c")
    }

    /// Runs a script in the directory that holds the clones.
    pub(crate) fn run(&self, script: &str) {
        let up = self.root().join("up");
        shell(self.root().join("repos"), script, &[("UP", &up), ("ROOT", self.root())]);
    }

    pub(crate) fn around(&self) -> Surroundings {
        let repos = self.root().join("repos").canonicalize().expect("because the world has been built");
        let keeper = repos.join(".bare");
        Surroundings::new(repos, vec![keeper], Vec::new())
    }

    /// Examines a clone, and makes sure that not a byte of it has changed.
    pub(crate) fn examine(&self, path: &Path) -> Found {
        let before = Snapshot::of(path);
        let found = probe(path, &self.around());
        before.assert_unchanged();
        found
    }

    /// The findings of a fresh clone after a script.
    pub(crate) fn findings(&self, script: &str) -> Vec<String> {
        self.examine(&self.clone(script)).findings()
    }
}

/// What an examination found, and what the walk saw.
pub(crate) struct Found {
    pub(crate) examination: Examination,
    pub(crate) counter: Counter,
}

pub(crate) fn probe(path: &Path, around: &Surroundings) -> Found {
    let path = path.canonicalize().expect("because it has been built");
    let dir = std::fs::File::open(&path).expect("because it has been built");
    let mut counter = Counter::default();
    let examination = examine(dir.as_fd(), &path, around, &mut counter);
    Found { examination, counter }
}

impl Found {
    /// Every finding as `channel: text`, `?` before those that could not be told, `lock` for lock files.
    pub(crate) fn findings(&self) -> Vec<String> {
        let channels = self.examination.channels.iter().flat_map(|report| match &report.answer {
            Answer::Nothing => Vec::new(),
            Answer::Losses(losses) => losses.iter().map(|loss| format!("{}: {}", report.channel, loss.what)).collect(),
            Answer::Unknown(reasons) => reasons.iter().map(|why| format!("?{}: {why}", report.channel)).collect(),
        });
        let locks = self.examination.git_locks.iter().map(|lock| format!("lock: {}", lock.display()));
        channels.chain(locks).collect()
    }
}
