//! What a remote that is asked takes back, and what it vouches for. How it is asked is the observer's; here it answers
//! what a repository beside the world has.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use derelict_git::{ListRemote, RemoteRefs};
use derelict_testkit::git::git_says;

use crate::support::{World, probe};

/// A forge, or one that does not answer.
#[derive(Debug)]
struct Forge {
    repository: Option<PathBuf>,
    asked: AtomicU64,
}

impl ListRemote for Forge {
    fn list(&self, address: &str) -> Result<Arc<RemoteRefs>, String> {
        assert_eq!(address, "https://forge.example/w.git");
        self.asked.fetch_add(1, Ordering::Relaxed);
        let repository = self.repository.as_ref().ok_or("no answer")?;
        let told = git_says(repository, &["ls-remote", "--refs", "."]);
        RemoteRefs::parse(told.as_bytes()).map(Arc::new)
    }
}

/// A clone of which the forge has a branch that the cache has not, and what a script does afterwards, `up` being a
/// clone beside it that can push.
fn findings(answers: bool, afterwards: &str) -> (Vec<String>, u64) {
    let world = World::new();
    let script = format!(
        "git clone -q \"$UP/w.git\" \"$ROOT/up/pusher\"; echo 1 >n; commit n; git push -q origin HEAD:refs/heads/topic; git fetch -q
        git remote set-url origin https://forge.example/w.git; up() {{ git -C \"$ROOT/up/pusher\" \"$@\"; }}; up fetch -q\n{afterwards}"
    );
    let clone = world.clone(&script);
    let forge =
        Arc::new(Forge { repository: answers.then(|| world.root().join("up/w.git")), asked: AtomicU64::new(0) });
    let found = probe(&clone, &world.around().asking(Some(forge.clone()))).findings();
    (found, forge.asked.load(Ordering::Relaxed))
}

#[test]
fn a_branch_that_the_remote_still_has_saves_and_one_that_it_dropped_does_not() {
    assert_eq!(findings(true, ""), (Vec::new(), 1));
    let (found, _) = findings(true, "up push -q origin :topic");
    assert!(found[0].starts_with("commits: commit ") && found[0].ends_with("\"n\" on branch b-c"), "{found:?}");
    let (found, _) = findings(
        true,
        "git checkout -q --detach origin/main; git branch -q -D b-c; rm -rf .git/logs; up push -q origin :topic",
    );
    assert!(found[0].ends_with("on refs/remotes/origin/topic"), "{found:?}");
}

#[test]
fn a_tip_that_another_branch_of_the_remote_reaches_is_saved() {
    let landed = "up push -q origin origin/topic:refs/heads/landed :topic; git update-ref refs/remotes/origin/landed origin/topic";
    assert_eq!(findings(true, landed).0, [""; 0]);
    // Held here under any name, or in the cache.
    let merged = "up checkout -q -b m origin/topic; up -c user.name=x -c user.email=x commit -q --allow-empty -m on; up push -q origin m:topic
        git fetch -q \"$UP/w.git\" topic:refs/keep/topic; git update-ref -d refs/keep/topic; rm -f .git/FETCH_HEAD";
    assert_eq!(findings(true, merged).0, [""; 0]);
    let tagged = "up tag -a -m t t origin/topic; up push -q origin t :topic; git fetch -q \"$UP/w.git\" tag t";
    assert_eq!(findings(true, tagged).0, [""; 0]);
}

#[test]
fn a_branch_that_was_set_back_or_rewritten_saves_no_more_than_it_has() {
    let back = "up push -q -f origin origin/main:topic";
    assert!(findings(true, back).0[0].ends_with("on branch b-c"));
    let moved = "up checkout -q -b m origin/main; up -c user.name=x -c user.email=x commit -q --allow-empty -m other; up push -q -f origin m:topic";
    let why = "?commits: refs/remotes/origin/topic has moved to a commit that is not here; fetch, and ask again";
    assert_eq!(findings(true, moved).0, [why]);
}

#[test]
fn a_remote_that_does_not_answer_leaves_it_untold_and_is_not_asked_without_need() {
    let why = "?commits: https://forge.example/w.git could not be asked: no answer";
    assert_eq!(findings(false, ""), (vec![why.to_owned()], 1));
    let cached = "git push -q ../.bare origin/topic:refs/heads/topic";
    assert_eq!(findings(false, cached), (Vec::new(), 0));
    // What is lost in any case is not told, for a doubt keeps all.
    assert_eq!(findings(false, "echo z >>a").0, ["tracked: changed: a", why]);
}
