//! The states a clone can be in, one line each, with what has to become of it. Not here: how a state
//! is recognised.
//!
//! A state is a snippet of shell in a fresh clone of the world's repository: on a branch of its own,
//! with its remote set to the upstream. Every command has to succeed. `commit MESSAGE` commits
//! everything; `$ROOT` is the world's directory, `$UP` holds the upstreams `w.git` and `sub.git`.
//! A program that reading must not run is made to leave `$ROOT/PWNED-<what>`.

use std::path::Path;

use serde_json::json;

use crate::devlaunch::{Cache, REPOSITORY};
use crate::git::shell;
use crate::scratch::{mkdir, symlink, write};

/// A state, and what has to become of a clone that is in it.
#[derive(Debug, Clone, Copy)]
pub struct State {
    /// Its name, which is the leaf of its clone.
    pub name: &'static str,
    /// What has to become of it.
    pub expected: Expected,
    make: Make,
}

/// What has to become of a clone that nobody owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// Nothing would be lost: it goes.
    Remove,
    /// It stays; this is what would be lost, or why it must stay undecided.
    Keep(&'static str),
}

#[derive(Debug, Clone, Copy)]
enum Make {
    /// The snippet runs in a fresh clone.
    Clone(&'static str),
    /// The snippet runs in an empty directory.
    Directory(&'static str),
}

pub(crate) const fn remove(name: &'static str, script: &'static str) -> State {
    State { name, expected: Expected::Remove, make: Make::Clone(script) }
}

pub(crate) const fn keep(name: &'static str, loss: &'static str, script: &'static str) -> State {
    State { name, expected: Expected::Keep(loss), make: Make::Clone(script) }
}

const fn keep_directory(name: &'static str, loss: &'static str, script: &'static str) -> State {
    State { name, expected: Expected::Keep(loss), make: Make::Directory(script) }
}

/// The states that every release must tell apart.
#[rustfmt::skip]
pub const STATES: [State; 44] = [
    remove("clean", ""),
    keep("modified", "changed tracked file", "echo b >>a"),
    keep("mode-changed", "mode of a tracked file", "chmod +x a"),
    keep("staged-deletion", "index differs from HEAD", "git rm -q a"),
    keep("untracked", "new file", "echo x >new"),
    keep("untracked-excluded", "file hidden by info/exclude", "echo hidden >>.git/info/exclude; echo x >hidden"),
    keep("ignored-env", ".env", "echo KEY=1 >.env"),
    remove("ignored-rebuildable", "mkdir -p node_modules/p target/debug; echo x >node_modules/p/i.js; echo x >target/debug/x;
        printf 'Signature: 8a477f597d28d172789f06886806bc55\n' >target/CACHEDIR.TAG"),
    keep("ignored-unknown-dir", "ign/", "mkdir ign; echo note >ign/plan.md"),
    keep("nested-ignored-repo", "commits of vendor/n", "git init -q vendor/n; cd vendor/n; echo w >w; commit work"),
    keep("nested-untracked-repo", "commits of n", "git init -q n; cd n; echo w >w; commit work"),
    keep("skip-worktree", "edit under skip-worktree", "git update-index --skip-worktree a; echo b >>a"),
    keep("unpushed", "commit", "echo b >>a; commit x"),
    keep("unpushed-other-branch", "commit on wip", "git checkout -q -b wip; echo b >>a; commit x; git checkout -q main"),
    keep("detached-unpushed", "commit on detached HEAD", "git checkout -q --detach; echo b >>a; commit x"),
    remove("pushed", "echo p >p; commit p; git push -q origin HEAD:refs/heads/pushed; git fetch -q"),
    remove("pushed-other-name", "echo q >q; commit q; git push -q origin HEAD:refs/heads/other-name; git fetch -q"),
    keep("stash", "stash", "echo b >>a; git stash -q"),
    keep("local-tag", "commit only a local tag holds", "echo b >>a; commit x; git tag keepme; git reset -q --hard HEAD~1"),
    remove("released-tag", "git fetch -q --tags"),
    keep("notes", "note", "git notes add -m hello"),
    keep("custom-ref", "refs/wip/mine", "echo b >>a; commit x; git update-ref refs/wip/mine HEAD; git reset -q --hard HEAD~1"),
    keep("fabricated-remote-ref", "commit under a remote that is not", "echo b >>a; commit x; git update-ref refs/remotes/ghost/x HEAD"),
    keep("reflog-only", "commit only the reflog holds", "echo b >>a; commit x; git reset -q --hard HEAD~1"),
    keep("merge-conflict", "unmerged entries", "git checkout -q -b x; echo 1 >a; commit 1; git checkout -q main; echo 2 >a; commit 2;
        if git merge x; then exit 1; fi"),
    keep("merge-in-progress", "operation in progress", "git checkout -q -b y; echo 3 >c; commit 3; git push -q origin y; git fetch -q;
        git checkout -q main; git merge -q --no-commit --no-ff -s ours y"),
    keep("bisect", "refs/bisect, operation in progress", "git bisect start; git bisect bad"),
    keep("index-lock", "a git operation is running", "touch .git/index.lock"),
    keep("linked-worktree-elsewhere", "work tree of another directory", "git worktree add -q \"$ROOT/outside-wt\" -b ow"),
    keep("agent-worktree-dirty", "file in .claude/worktrees/agent-1", "echo .claude/ >>.git/info/exclude;
        git worktree add -q .claude/worktrees/agent-1 -b ag; echo x >.claude/worktrees/agent-1/new"),
    keep("lender", "objects another clone borrows", "git clone -q --shared . \"$ROOT/borrower\""),
    keep("submodule-commit", "commit in sm", "git submodule add -q \"$UP/sub.git\" sm; (cd sm; echo 2 >s; commit w); commit sm;
        git push -q origin HEAD:refs/heads/sm1; git -c fetch.recurseSubmodules=false fetch -q"),
    remove("submodule-clean", "git submodule add -q \"$UP/sub.git\" sm; commit sm;
        git push -q origin HEAD:refs/heads/sm2; git -c fetch.recurseSubmodules=false fetch -q"),
    remove("squash-merged", "echo 1 >s1; commit 1; echo 2 >>s1; commit 2; git checkout -q -B m origin/main;
        git merge -q --squash b-squash-merged; git commit -qm squashed; git push -q origin m:refs/heads/landed; git fetch -q;
        git checkout -q b-squash-merged; git branch -D -q m"),
    keep("evil-merge", "content only the merge has", "git checkout -q -b e1; echo 1 >e1; commit 1; git push -q origin e1; git fetch -q;
        git checkout -q main; git merge -q --no-ff --no-commit e1; echo evil >evil; commit m"),
    remove("fsmonitor", "printf \"#!/bin/sh\ntouch '$ROOT/PWNED-fsmonitor'\n\" >.git/evil; chmod +x .git/evil;
        git config core.fsmonitor \"$PWD/.git/evil\""),
    remove("shallow", "cd ..; rm -rf shallow; git clone -q --depth 1 \"file://$UP/w.git\" shallow"),
    keep("git-file-broken", "undetermined: .git names nothing", "rm -rf .git; echo 'gitdir: /nowhere/at/all' >.git"),
    keep("git-missing", "undetermined: not a repository", "rm -rf .git"),
    keep("git-empty", "undetermined: broken repository", "rm -rf .git; mkdir .git"),
    keep("odd-names", "untracked names with newline, bytes", r#"touch -- "$(printf 'a\nb')" "$(printf 'bad-\377')" -rf ' '"#),
    keep_directory("empty-dir", "undetermined: not a repository", ""),
    keep_directory("plain-files", "undetermined: not a repository", "echo x >x"),
    keep_directory("unborn", "untracked file, no commit", "git init -q; echo x >f"),
];

/// States beyond those: each holds the only copy of something in a way that is easily overlooked, or
/// cannot be read for certain. The few that may go show that a proof is a proof and not a guess.
#[rustfmt::skip]
pub const FURTHER: [State; 45] = [
    keep("assume-unchanged", "edit under assume-unchanged", "git update-index --assume-unchanged a; echo b >>a"),
    keep("staged-new", "new file in the index", "echo n >n; git add n"),
    keep("staged-only-in-index", "content only the index has", "echo u >>a; git add a; git show HEAD:a >a"),
    keep("intent-to-add", "new file", "echo n >n; git add -N n"),
    keep("type-changed", "a is a link now", "rm a; ln -s b a"),
    keep("deleted", "a is gone", "rm a"),
    keep("same-size-and-mtime", "edit that keeps size and time", "cp -p a \"$ROOT/a-time\"; echo z >a; touch -r \"$ROOT/a-time\" a"),
    keep("untrusted-ctime", "edit that keeps size and time", "git config core.trustctime false; cp -p a \"$ROOT/b-time\";
        echo z >a; touch -r \"$ROOT/b-time\" a"),
    keep("split-index", "edit beside a split index", "git update-index --split-index; echo b >>a"),
    keep("sparse", "edit in a sparse work tree", "git sparse-checkout set --no-cone /a; echo b >>a"),
    keep("sparse-unpushed", "commit in a sparse work tree", "git sparse-checkout set --no-cone /a; echo b >>a; git commit -qam x"),
    keep("index-corrupt", "undetermined: unreadable index", "echo garbage >.git/index"),
    keep("objects-missing", "undetermined: no objects", "rm -rf .git/objects/?? .git/objects/pack/*"),
    keep("ref-broken", "undetermined: a ref that names nothing", "echo zzz >.git/refs/heads/bad"),
    keep("two-stashes", "stashes", "echo 1 >>a; git stash -q; echo 2 >>a; git stash -q"),
    keep("orig-head-only", "commit only ORIG_HEAD names", "echo b >>a; commit x; git reset -q --hard HEAD~1; rm -rf .git/logs"),
    keep("orphan-branch", "index of a branch without a commit", "git checkout -q --orphan o"),
    keep("rebase-conflict", "operation in progress", "echo 1 >a; commit 1; git push -q origin HEAD:refs/heads/rc1; git fetch -q;
        git checkout -q -B rc main; echo 2 >a; commit 2; git push -q origin HEAD:refs/heads/rc2; git fetch -q;
        if git rebase -q origin/rc1; then exit 1; fi; git reset -q --hard"),
    keep("cherry-pick-conflict", "operation in progress", "echo 1 >a; commit 1; git push -q origin HEAD:refs/heads/cp1; git fetch -q;
        git checkout -q -B cp main; echo 2 >a; commit 2; git push -q origin HEAD:refs/heads/cp2; git fetch -q;
        if git cherry-pick origin/cp1; then exit 1; fi; git checkout -q -f HEAD -- a"),
    keep("replace-ref", "object only a replace ref holds", "git replace HEAD \"$(git commit-tree -m other HEAD^{tree})\""),
    keep("unmapped-remote-ref", "commit under a ref that no refspec maps", "echo b >>a; commit x;
        git config remote.origin.fetch +refs/heads/main:refs/remotes/origin/main; git update-ref refs/remotes/origin/fake HEAD"),
    keep("worktree-ref", "commit on a linked work tree's detached HEAD", "echo .claude/ >>.git/info/exclude;
        git worktree add -q --detach .claude/worktrees/w; cd .claude/worktrees/w; echo x >x; commit x"),
    keep("linked-worktree-dirty", "file in a work tree of the bare cache", "cd ..; rm -rf \"$NAME\";
        git -C .bare worktree add -q \"../$NAME\" -b \"wt-$NAME\"; echo x >\"$NAME/new\""),
    keep("show-untracked-no", "new file", "git config status.showUntrackedFiles no; echo x >new"),
    keep("excludes-all", "file that a configured file ignores", "echo '*' >.git/all; git config core.excludesFile \"$PWD/.git/all\"; echo x >new"),
    keep("work-tree-elsewhere", "new file beside a configured work tree", "git config core.worktree \"$ROOT/elsewhere\"; echo x >new"),
    keep("configured-bare", "edit in a repository that says it is bare", "git config core.bare true; echo b >>a"),
    keep("git-symlink", "undetermined: .git is a link", "mv .git \"$ROOT/git-elsewhere\"; ln -s \"$ROOT/git-elsewhere\" .git"),
    keep("git-separate", "undetermined: .git is elsewhere", "git init -q --separate-git-dir \"$ROOT/git-separate\""),
    keep("reftable-unpushed", "commit in a repository with reftables", "cd ..; rm -rf \"$NAME\";
        git clone -q --ref-format=reftable .bare \"$NAME\"; cd \"$NAME\"; git remote set-url origin \"$UP/w.git\"; echo b >>a; commit x"),
    keep("sha256", "commit in a repository with SHA-256", "cd ..; rm -rf \"$NAME\"; git init -q --object-format=sha256 \"$NAME\";
        cd \"$NAME\"; echo x >x; commit x"),
    keep("unknown-extension", "undetermined: an extension nobody knows", "git config core.repositoryFormatVersion 1; git config extensions.nobodyKnows 1"),
    keep("submodule-untracked", "file in sm, which ignore=all hides", "git submodule add -q \"$UP/sub.git\" sm; commit sm;
        git push -q origin HEAD:refs/heads/sm3; git -c fetch.recurseSubmodules=false fetch -q; git config submodule.sm.ignore all; echo x >sm/new"),
    keep("submodule-stash", "stash in sm", "git submodule add -q \"$UP/sub.git\" sm; commit sm;
        git push -q origin HEAD:refs/heads/sm4; git -c fetch.recurseSubmodules=false fetch -q; cd sm; echo 2 >>s; git stash -q"),
    keep("submodule-deinited", "commit in the store of sm", "git submodule add -q \"$UP/sub.git\" sm; commit sm;
        git push -q origin HEAD:refs/heads/sm5; git -c fetch.recurseSubmodules=false fetch -q;
        (cd sm; echo 2 >s; commit w; git checkout -q HEAD~1); git submodule deinit -q -f sm"),
    keep("target-without-witness", "target/ of nothing", "git rm -q Cargo.toml; commit x; git push -q origin HEAD:refs/heads/nw; git fetch -q;
        mkdir target; echo x >target/x"),
    keep("modules-without-witness", "node_modules/ of nothing", "git rm -q package.json; commit x; git push -q origin HEAD:refs/heads/np; git fetch -q;
        mkdir node_modules; echo x >node_modules/x"),
    keep("repository-in-target", "commits of target/r", "git init -q target/r; cd target/r; echo w >w; commit work"),
    keep("bare-in-modules", "commits of node_modules/r.git", "git init -q \"$ROOT/r\"; (cd \"$ROOT/r\"; echo w >w; commit work);
        mkdir node_modules; git clone -q --bare \"$ROOT/r\" node_modules/r.git; rm -rf \"$ROOT/r\""),
    keep("database-in-target", "database in target/", "mkdir target; printf 'SQLite format 3\\000' >target/dev.db"),
    keep("key-in-target", "key in target/", "mkdir target; printf -- '-----BEGIN OPENSSH PRIVATE KEY-----\n' >target/id_ed25519"),
    keep("ignored-deep-env", "vendor/x/.env", "mkdir -p vendor/x; echo KEY=1 >vendor/x/.env"),
    keep("ignored-database", "pgdata/", "mkdir -p pgdata/base; echo 15 >pgdata/PG_VERSION"),
    remove("rebased-and-landed", "echo r >r; commit r; git checkout -q -B m main; echo o >o; commit o;
        git cherry-pick \"b-$NAME\" >/dev/null; git push -q origin m:refs/heads/rebased; git fetch -q; git checkout -q \"b-$NAME\"; git branch -q -D m"),
    remove("nested-clean-worktree", "echo .claude/ >>.git/info/exclude; git worktree add -q .claude/worktrees/w -b nw origin/main"),
];

/// Builds a cache with a clone for each of these states, none of them referenced. One living
/// workspace is elsewhere, and a symbolic link lies among the clones.
#[must_use]
pub fn build(states: &[State]) -> Cache {
    let mut cache = Cache::empty();
    let (upstreams, dir) = (cache.root().join("upstream/acme"), cache.repository(REPOSITORY));
    mkdir(&dir);
    make_upstreams(&upstreams);
    shell(&dir, "git clone -q --bare \"$UP/w.git\" .bare", &[("UP", &upstreams)]);
    write(dir.join(".lock"), "");
    for state in states {
        add(&cache, state);
    }
    symlink(dir.join(".bare"), dir.join("a-symlink"));
    let elsewhere = cache.elsewhere();
    cache.add_living("other", &json!({ "localFolder": elsewhere }));
    cache
}

fn make_upstreams(upstreams: &Path) {
    mkdir(upstreams);
    let script = r#"
git init -q seed; git init -q subseed
(cd seed; echo a >a; echo b >b; echo '{}' >package.json; printf '[package]\nname = "x"\n' >Cargo.toml
 printf 'ign/\n.env\nvendor/\nnode_modules/\ntarget/\npgdata/\n' >.gitignore; commit seed; git tag v1)
(cd subseed; echo s >s; commit sub)
git clone -q --bare seed w.git; git clone -q --bare subseed sub.git
rm -rf seed subseed
"#;
    shell(upstreams, script, &[]);
}

fn add(cache: &Cache, state: &State) {
    let (dir, upstreams) = (cache.repository(REPOSITORY), cache.root().join("upstream/acme"));
    let variables = [("ROOT", cache.root()), ("UP", &upstreams), ("NAME", Path::new(state.name))];
    let script = match state.make {
        Make::Directory(script) => format!("mkdir -- \"$NAME\"; cd -- \"$NAME\"\n{script}"),
        Make::Clone(script) => format!(
            "git clone -q .bare \"$NAME\"; cd -- \"$NAME\"; git remote set-url origin \"$UP/w.git\"; \
             git checkout -q -B \"b-$NAME\"\n{script}"
        ),
    };
    shell(&dir, &script, &variables);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::FORMATS;
    use crate::git::git_says;
    use crate::proofs::PROOFS;
    use std::collections::BTreeSet;

    #[test]
    fn every_state_has_a_name_of_its_own_and_can_be_built() {
        let names: BTreeSet<&str> = STATES.iter().map(|state| state.name).collect();
        assert_eq!(names.len(), STATES.len());
        let removable = STATES.iter().filter(|state| state.expected == Expected::Remove).count();
        assert_eq!(removable, 9);
        let cache = build(&STATES);
        assert_eq!(cache.leaves(REPOSITORY).len(), STATES.len() + 1);
        let pwned = std::fs::read_dir(cache.root()).expect("because the world is there");
        let pwned =
            pwned.filter(|entry| entry.as_ref().is_ok_and(|e| e.file_name().to_string_lossy().starts_with("PWNED")));
        assert_eq!(pwned.count(), 0);
        let log = git_says(cache.path_of("evil-merge"), &["log", "--format=%s", "-1"]);
        assert_eq!(log, "m");
    }

    #[test]
    fn every_further_state_can_be_built_beside_the_others() {
        let names: BTreeSet<&str> = STATES.iter().chain(&FURTHER).map(|state| state.name).collect();
        assert_eq!(names.len(), STATES.len() + FURTHER.len());
        assert_eq!(build(&FURTHER).leaves(REPOSITORY).len(), FURTHER.len() + 1);
        let all = STATES.iter().chain(&FURTHER).chain(&PROOFS).chain(&FORMATS);
        let names: BTreeSet<&str> = all.clone().map(|state| state.name).collect();
        assert_eq!(names.len(), all.count());
    }
}
