//! What an operator's words let go, and what looks like that and stays.

use derelict_git::{IgnoredChanges, Rebuildable, Terms};

use crate::support::{World, probe};

/// The findings in a clone after a script, and what was let go.
fn told(script: &str, changes: &[&str], rebuildable: &[&str]) -> (Vec<String>, Vec<String>) {
    let world = World::new();
    let clone = world.clone(script);
    let ignored_changes = IgnoredChanges::parse(changes).expect("because it is well-formed");
    let rebuildable = Rebuildable::parse(rebuildable).expect("because it is well-formed");
    let found = probe(&clone, &world.around().under(&Terms { ignored_changes, rebuildable, ..Terms::NONE }));
    let allowed = found.examination.allowed.iter().map(|loss| loss.what.clone()).collect();
    (found.findings(), allowed)
}

const NOTHING: [&str; 0] = [];

#[test]
fn changes_of_tracked_files_that_match_are_let_go_and_told() {
    for (script, expected) in [
        ("echo z >>a", "changed: a"),
        ("rm a", "deleted: a"),
        ("chmod +x a", "changed: a"),
        ("echo z >>a; git add a", "staged: a"),
        ("git rm -q --cached a; rm a", "staged: a"),
        ("git update-index --skip-worktree a; echo z >>a", "changed: a"),
        ("git config filter.f.clean cat; echo 'a filter=f' >.git/info/attributes; echo z >>a", "changed: a"),
    ] {
        let (findings, allowed) = told(script, &["/a"], &[]);
        assert_eq!((findings, allowed), (Vec::new(), vec![expected.to_owned()]), "{script}");
        assert_ne!(told(script, &["/b", "a/"], &[]).0, NOTHING, "{script}");
    }
}

#[test]
fn what_no_commit_has_is_not_covered_by_ignored_changes() {
    for script in [
        "echo n >new",
        "echo n >new; git add new",
        "echo n >new; git add -N new",
        "echo new >.git/info/exclude; echo n >new",
        "echo n >new; commit n",
        "echo z >>a; git stash -q; echo n >new",
        "rm a; ln -s b a; echo n >new",
    ] {
        assert_ne!(told(script, &["new"], &[]).0, NOTHING, "{script}");
    }
    // More than a change: something else is there now, or two versions contend.
    for script in [
        "rm a; ln -s b a",
        "rm a; mkdir a; echo n >a/x",
        "echo z >>a; commit z; git checkout -q -b o HEAD~1; echo y >>a; commit y; git push -q origin b-c:refs/heads/z o; git fetch -q; git merge -q b-c || true",
    ] {
        assert_ne!(told(script, &["a"], &[]).0, NOTHING, "{script}");
    }
}

#[test]
fn a_pattern_reaches_into_submodules_and_work_trees_inside() {
    let script = "git submodule add -q \"$UP/sub.git\" sm; commit sm; git push -q origin HEAD:refs/heads/sm;
        git -c fetch.recurseSubmodules=false fetch -q; echo z >>sm/s";
    assert_eq!(told(script, &["s"], &[]), (Vec::new(), vec!["submodule sm: changed: s".to_owned()]));
    assert_ne!(told(script, &["sm"], &[]).0, NOTHING, "a pattern is about the files of one work tree");
}

#[test]
fn a_directory_that_the_operator_knows_is_rebuildable_with_its_witness_only() {
    let made = |witness: &str| format!("echo out/ >>.git/info/exclude; mkdir out; echo x >out/x; {witness}");
    let known = &["out=BUILD", "out=out/stamp"];
    assert_eq!(
        told(
            &made("echo b >BUILD; git add BUILD; commit b; git push -q origin HEAD:refs/heads/b; git fetch -q"),
            &[],
            known
        )
        .0,
        NOTHING
    );
    assert_eq!(told(&made("echo s >out/stamp"), &[], known).0, NOTHING);
    assert_eq!(told(&made(""), &[], known).0, ["ignored: ignored: out/ (1 file)"]);
    assert_eq!(told(&made("mkdir BUILD"), &[], known).0, ["ignored: ignored: out/ (1 file)"]);
    let key =
        made("echo s >out/stamp; printf -- '-----BEGIN OPENSSH PRIVATE KEY-----\\n' >out/id_x; echo K=1 >out/.env");
    let stray = ["ignored: not what a build makes: out/.env", "ignored: not what a build makes: out/id_x"];
    assert_eq!(told(&key, &[], known).0, stray);
    let repository = made("echo s >out/stamp; git init -q out/r; cd out/r; echo w >w; commit w");
    assert_ne!(told(&repository, &[], known).0, NOTHING);
    // Not ignored, it is new, whatever it is made by.
    assert_eq!(told("mkdir out; echo s >out/stamp", &[], known).0, ["untracked: new: out/ (1 file)"]);
}
