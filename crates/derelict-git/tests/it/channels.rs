//! One channel at a time: what is found, under which name, and what must not be found.

use crate::support::World;

const NOTHING: Vec<String> = Vec::new();

#[test]
fn an_index_of_every_version_and_kind_is_read_exactly() {
    for kind in [
        "git update-index --index-version 2",
        "git update-index --index-version 3; git update-index --skip-worktree b",
        "git update-index --index-version 4",
        "git update-index --split-index",
        "git update-index --force-untracked-cache",
        "git config index.skipHash true; touch a; git update-index --refresh",
        "git sparse-checkout set --cone d",
        "git sparse-checkout set --cone --sparse-index d",
        "rm .git/index; git read-tree HEAD",
    ] {
        assert_eq!(World::new().findings(kind), NOTHING, "{kind}");
        let changed = format!("{kind}; echo other >d/c");
        assert_eq!(World::new().findings(&changed), ["tracked: changed: d/c"], "{kind}");
        let staged = format!("{kind}; echo other >d/c; git add d/c");
        assert_eq!(World::new().findings(&staged), ["tracked: staged: d/c"], "{kind}");
    }
}

#[test]
fn a_file_next_to_a_directory_of_the_same_beginning_is_found_in_the_index() {
    let script = "mkdir d-e d0; echo 1 >d-e/x; echo 1 >d0/x; echo 1 >d.txt; commit more; git push -q origin HEAD:refs/heads/more; git fetch -q";
    assert_eq!(World::new().findings(script), NOTHING);
}

#[test]
fn repositories_of_every_supported_storage_are_read() {
    for script in [
        "git pack-refs --all; git gc -q",
        "git repack -adq --write-midx",
        "git commit-graph write --reachable",
        "git fetch -q --refetch --filter=blob:none 2>/dev/null || true",
        "git repack -Adq; git multi-pack-index write; git pack-refs --all --prune",
    ] {
        assert_eq!(World::new().findings(script), NOTHING, "{script}");
    }
}

#[test]
fn a_remote_that_goes_itself_saves_nothing() {
    for url in ["../other", ".", "$ROOT/repos/other", "file://$ROOT/repos/other", "$ROOT/gone", "ext::sh -c true"] {
        let world = World::new();
        world.run("git clone -q .bare other");
        let script = format!(
            "echo 1 >n; commit n; git push -q \"$ROOT/repos/other\" HEAD:refs/heads/n; git remote set-url origin \"{url}\"; \
             git update-ref refs/remotes/origin/n HEAD; rm -rf .git/logs/refs/remotes"
        );
        let findings = world.findings(&script);
        assert!(findings.iter().any(|finding| finding.contains("on branch b-c")), "{url}: {findings:?}");
    }
}

#[test]
fn a_forges_remote_tracking_ref_is_believed_unless_its_reflog_says_somebody_wrote_it() {
    let forge = "git remote set-url origin git@forge.example:w.git; echo 1 >n; commit n; git update-ref refs/remotes/origin/n HEAD";
    let findings = World::new().findings(forge);
    assert!(findings[0].contains("on branch b-c"), "{findings:?}");
    let fetched = format!(
        "{forge} ; printf '%s %s t <t@e> 1 +0000\\tfetch: storing head\\n' $(git rev-parse HEAD~1 HEAD) >.git/logs/refs/remotes/origin/n"
    );
    assert_eq!(World::new().findings(&fetched), NOTHING);
}

#[test]
fn what_the_bare_cache_holds_is_saved_even_when_the_clone_never_fetched_it() {
    let script = "echo 1 >n; commit n; git push -q ../.bare HEAD:refs/heads/n; git remote remove origin";
    assert_eq!(World::new().findings(script), NOTHING);
}

#[test]
fn a_branch_that_the_local_upstream_has_lost_is_saved_nowhere() {
    let script = "echo 1 >n; commit n; git push -q origin HEAD:refs/heads/n; git fetch -q; git -C \"$UP/w.git\" update-ref -d refs/heads/n";
    assert_eq!(World::new().findings(script).len(), 1);
}

#[test]
fn a_forge_does_not_vouch_for_refs_that_another_remote_wrote() {
    let sib = "echo 1 >n; commit s; git init -q --bare ../sib; git remote add sib ../sib; git push -q sib HEAD:refs/heads/q; git fetch -q sib";
    for forge in [
        "git config remote.origin.fetch '+refs/*:refs/*'; git remote set-url origin https://forge.example/x",
        "git config remote.origin.fetch '+refs/heads/*:refs/remotes/*'; git remote set-url origin https://forge.example/x",
        "git config remote.zib.url https://forge.example/x; git config remote.zib.fetch '+refs/heads/*:refs/remotes/sib/*'",
    ] {
        let findings = World::new().findings(&format!("{sib}; {forge}"));
        assert!(findings.iter().any(|finding| finding.contains("on branch b-c")), "{forge}: {findings:?}");
    }
}

#[test]
fn an_annotated_tag_is_its_message_too() {
    let script = "git tag -a -m words v9";
    assert_eq!(World::new().findings(script), ["tags: the message of annotated tag v9"]);
    let saved = "git tag -a -m words v9; git push -q ../.bare v9";
    assert_eq!(World::new().findings(saved), NOTHING);
}

#[test]
fn what_looks_like_a_squash_and_is_none_is_kept() {
    let undone = "echo 1 >n; commit n; git rm -q n; commit undo";
    assert!(World::new().findings(undone)[0].contains("\"undo\" and 1 before it"), "work that was undone");
    let empty = "git commit -q --allow-empty -m 'only words'";
    assert!(World::new().findings(empty)[0].contains("only words"), "an empty commit");
    let part = "echo 1 >n; echo 1 >m; commit both; git checkout -q -B p main; echo 1 >n; commit part; git push -q origin p; git fetch -q; git checkout -q b-c";
    assert!(World::new().findings(part)[0].contains("\"both\""), "half of it landed");
    let older = "git rm -q d/c; commit 'drop c'";
    assert!(World::new().findings(older)[0].contains("drop c"), "a deletion that an older commit happens to match");
}

#[test]
fn a_branch_that_landed_by_squash_and_was_changed_again_later_is_saved() {
    let script = "echo 1 >n; commit one; echo 2 >>n; commit two; git checkout -q -B p main; git merge -q --squash b-c; git commit -qm squashed;
        echo 3 >>n; commit later; git push -q origin p; git fetch -q; git checkout -q b-c; git branch -q -D p";
    assert_eq!(World::new().findings(script), NOTHING);
}

#[test]
fn commits_amended_away_are_told_as_the_lesser_loss_of_the_reflog() {
    let script = "echo 1 >n; commit n; echo 2 >n; git add n; git commit -q --amend -m n; git push -q origin HEAD:refs/heads/n; git fetch -q";
    let findings = World::new().findings(script);
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(
        findings[0].starts_with("reflog: commit ") && findings[0].ends_with("on the reflog of HEAD"),
        "{findings:?}"
    );
}

#[test]
fn a_dropped_stash_is_told_as_the_lesser_loss_and_an_older_stash_as_a_stash() {
    let older = "echo 1 >a; git stash -q; echo 2 >a; git stash -q; git stash drop -q stash@{0}";
    let findings = World::new().findings(older);
    assert!(findings[0].starts_with("commits: ") && findings[0].ends_with("on the stash"), "{findings:?}");
    assert!(findings[1..].iter().all(|finding| finding.starts_with("reflog: ")), "{findings:?}");
    let dropped = World::new().findings("echo 1 >a; git stash -q; git stash drop -q");
    assert!(dropped[0].starts_with("reflog: ") && dropped[0].contains("on no ref any more"), "{dropped:?}");
}

#[test]
fn a_cache_that_does_not_really_hold_what_its_refs_name_saves_nothing() {
    let save = "object() { git rev-parse $1 | sed 's#^..#../.bare/objects/&/#'; }; echo 1 >n; commit n; git push -q ../.bare HEAD:refs/heads/n";
    assert_eq!(World::new().findings(save), NOTHING);
    for spoil in [
        "rm -f $(object HEAD^{tree})",
        "rm -f $(object HEAD:n)",
        "f=$(object HEAD:n); rm -f $f; echo garbage >$f",
        "f=$(object HEAD); rm -f $f; echo garbage >$f",
        "git repack -qad; rm -rf ../.bare/objects/pack; ln -s \"$PWD/.git/objects/pack\" ../.bare/objects/pack",
        "echo \"$PWD/.git/objects\" >../.bare/objects/info/alternates",
        "git -C ../.bare rev-parse n >../.bare/shallow",
        "git -C ../.bare config extensions.partialClone origin",
    ] {
        let findings = World::new().findings(&format!("{save}; {spoil}"));
        assert!(findings.iter().any(|finding| finding.contains("on branch b-c")), "{spoil}: {findings:?}");
    }
}

#[test]
fn a_remote_that_an_address_rewrite_leads_to_itself_saves_nothing() {
    let script = "git remote set-url origin https://forge.example/w.git; git config url.\"$PWD\".insteadOf https://forge.example/w.git;
        echo 1 >n; commit n; git update-ref refs/remotes/origin/n HEAD; rm -rf .git/logs/refs/remotes";
    assert!(World::new().findings(script)[0].contains("on branch b-c"));
}

#[test]
fn a_rewrite_in_an_included_file_makes_an_address_doubtful() {
    let forge = "git remote set-url origin https://forge.example/w.git; echo 1 >n; commit n; git update-ref refs/remotes/origin/n HEAD;
        rm -rf .git/logs/refs/remotes";
    assert_eq!(World::new().findings(forge), NOTHING);
    let rule = "git config -f .git/more url.\"$PWD\".insteadOf https://forge.example/w.git";
    for include in [
        "git config include.path more",
        "git config includeIf.gitdir:/nowhere/.path more",
        "git config include.path other; git config -f .git/other include.path more",
        "git config include.path '~/unknown'",
        "git config include.path more; git config -f .git/more remote.sib.fetch '+refs/heads/*:refs/remotes/origin/*'",
    ] {
        let findings = World::new().findings(&format!("{forge}; {rule}; {include}"));
        assert!(findings.iter().any(|finding| finding.contains("on branch b-c")), "{include}: {findings:?}");
    }
    let harmless = format!(
        "{forge}; git config include.path more; git config -f .git/more user.name x; git config --add include.path none"
    );
    assert_eq!(World::new().findings(&harmless), NOTHING);
}

#[test]
fn a_clean_checkout_with_converted_line_endings_is_clean_and_an_edited_one_is_not() {
    let clean = "printf 'x\\r\\ny\\r\\n' >r.bat; echo '*.bat text eol=crlf' >.gitattributes; commit bat; git push -q origin HEAD:refs/heads/bat; git fetch -q; touch r.bat";
    assert_eq!(World::new().findings(clean), NOTHING);
    let edited = format!("{clean}; printf 'x\\r\\nz\\r\\n' >r.bat");
    assert_eq!(World::new().findings(&edited), ["tracked: changed: r.bat"]);
}

#[test]
fn caches_that_ignore_themselves_are_as_good_as_ignored() {
    let cache = "mkdir .pytest_cache; printf 'Signature: 8a477f597d28d172789f06886806bc55\\n' >.pytest_cache/CACHEDIR.TAG; echo '*' >.pytest_cache/.gitignore; echo 1 >.pytest_cache/x";
    assert_eq!(World::new().findings(cache), NOTHING);
    let other = "mkdir mine; echo '*' >mine/.gitignore; echo 1 >mine/x";
    assert_eq!(World::new().findings(other), ["ignored: ignored: mine/ (2 files)"]);
}

#[test]
fn what_git_keeps_for_itself_elsewhere_is_seen() {
    for (script, expected) in [
        ("mkdir -p .git/annex/objects/a; echo big >.git/annex/objects/a/k", "?lfs: 1 files of git-annex"),
        ("git config lfs.storage mylfs", "?lfs: lfs.storage"),
        ("git config extensions.preciousObjects true", "?repository: extensions.preciousObjects"),
        ("git init -q .git/cl", "?nested: .git/cl is a repository inside a git directory"),
        ("git worktree add -q node_modules/w -b w; git worktree lock node_modules/w", "lock: .git/worktrees/w/locked"),
        ("echo 1 >a; git stash create >.git/MERGE_AUTOSTASH; git checkout -q a", "MERGE_AUTOSTASH"),
        ("touch .git/gc.pid", "lock: .git/gc.pid"),
    ] {
        let findings = World::new().findings(script);
        assert!(findings.iter().any(|finding| finding.contains(expected)), "{script}: {findings:?}");
    }
}

#[test]
fn operations_in_progress_are_named() {
    let rebase = "echo 1 >a; commit 1; git push -q origin HEAD:refs/heads/r1; git checkout -q -B r main; echo 2 >a; commit 2;
        git push -q origin HEAD:refs/heads/r2; git fetch -q; if git rebase -q b-c 2>/dev/null; then exit 1; fi; git checkout -q -f HEAD -- a";
    assert!(
        World::new().findings(rebase).iter().any(|finding| finding == "operation: a rebase in progress (rebase-merge)")
    );
}

#[test]
fn git_locks_are_a_use_and_no_loss() {
    let world = World::new();
    let found = world.examine(&world.clone("touch .git/index.lock .git/refs/heads/b-c.lock"));
    assert_eq!(found.findings(), ["lock: .git/index.lock", "lock: .git/refs/heads/b-c.lock"]);
}

#[test]
fn a_fifo_or_a_link_inside_the_git_directory_is_not_read() {
    for script in [
        "mkfifo .git/objects/pack/x.idx",
        "rm .git/index; mkfifo .git/index",
        "mv .git/objects \"$ROOT/o\"; ln -s \"$ROOT/o\" .git/objects",
    ] {
        let findings = World::new().findings(script);
        assert!(findings.iter().any(|finding| finding.starts_with("?repository: ")), "{script}: {findings:?}");
    }
}

#[test]
fn a_work_tree_and_a_repository_that_disagree_are_not_believed() {
    let moved = "git worktree add -q wt -b wt; mv wt wt2";
    let findings = World::new().findings(moved);
    assert!(findings.iter().any(|finding| finding.contains("does not name this work tree as its own")), "{findings:?}");
}

#[test]
fn a_linked_work_tree_inside_is_judged_with_its_own_head_and_index() {
    let setup = "echo .wt/ >>.git/info/exclude; git worktree add -q .wt/x -b x";
    assert_eq!(World::new().findings(setup), NOTHING);
    let detached = format!("{setup}; cd .wt/x; git checkout -q --detach; echo 1 >n; commit n");
    assert!(World::new().findings(&detached)[0].contains("on detached HEAD"));
    let staged = format!("{setup}; cd .wt/x; echo 1 >a; git add a");
    assert_eq!(World::new().findings(&staged), ["nested: .wt/x: staged: a"]);
}

#[test]
fn the_shared_stash_of_a_linked_work_tree_whose_repository_stays_is_no_loss() {
    let world = World::new();
    world.run("git -C .bare worktree add -q ../c -b x; cd c; echo 1 >a; git stash -q");
    assert_eq!(world.examine(&world.root().join("repos/c")).findings(), NOTHING);
}

#[test]
fn a_submodule_is_judged_whatever_its_ignore_setting_says() {
    let setup = "git submodule add -q \"$UP/sub.git\" sm; git config submodule.sm.ignore all; commit sm; git push -q origin HEAD:refs/heads/sm;
        git -c fetch.recurseSubmodules=false fetch -q";
    assert_eq!(World::new().findings(setup), NOTHING);
    for (script, expected) in [
        ("echo n >sm/n", "submodules: submodule sm: new: n"),
        ("echo n >sm/s", "submodules: submodule sm: changed: s"),
        ("(cd sm; echo n >s; git stash -q)", "on the stash"),
        ("(cd sm; git checkout -q -b o; echo n >s; commit n; git checkout -q -)", "on branch o"),
    ] {
        let findings = World::new().findings(&format!("{setup}; {script}"));
        assert!(findings.iter().any(|finding| finding.contains(expected)), "{script}: {findings:?}");
    }
}

#[test]
fn an_ignored_file_is_a_loss_and_build_output_with_its_witness_is_none() {
    assert_eq!(World::new().findings("mkdir -p node_modules/p; echo 1 >node_modules/p/x"), NOTHING);
    for (script, expected) in [
        ("echo 1 >.env", "ignored: ignored: .env"),
        ("mkdir -p ign/deep; echo 1 >ign/x; echo 1 >ign/deep/y", "ignored: ignored: ign/ (2 files)"),
        ("mkdir -p target; echo 1 >target/x", "ignored: ignored: target/ (1 file)"),
        ("mkdir -p d/node_modules; echo 1 >d/node_modules/x", "ignored: ignored: d/node_modules/ (1 file)"),
        (
            "mkdir -p node_modules/p; echo 1 >node_modules/p/.env",
            "ignored: not what a build makes: node_modules/p/.env",
        ),
        (
            "mkdir -p node_modules/p/.jj; echo 1 >node_modules/p/.jj/x",
            "?nested: node_modules/p/.jj is a checkout of jj, which cannot be judged",
        ),
    ] {
        assert_eq!(World::new().findings(script), [expected], "{script}");
    }
}

#[test]
fn names_that_begin_or_end_in_a_space_are_quoted() {
    assert_eq!(World::new().findings("touch ' ' ' x'"), ["untracked: new: \" \"", "untracked: new: \" x\""]);
}

#[test]
fn our_own_marker_is_no_work_at_the_top_and_somebody_elses_file_below() {
    assert_eq!(World::new().findings("printf 'reason: x\\nuntil: 2020-01-01\\n' >.derelict-keep"), NOTHING);
    assert_eq!(World::new().findings("echo 'my notes' >.derelict-keep"), ["untracked: new: .derelict-keep"]);
    assert_eq!(World::new().findings("touch d/.derelict-keep"), ["untracked: new: d/.derelict-keep"]);
}

#[test]
fn what_lives_off_the_repository_from_elsewhere_is_a_dependent_and_no_mere_loss() {
    let world = World::new();
    let found = world.examine(&world.clone("git worktree add -q \"$ROOT/out\" -b out"));
    let [dependent] = found.examination.dependents.as_slice() else { panic!("one work tree") };
    assert!(dependent.starts_with("the work tree out at "), "{dependent}");
}

#[test]
fn an_empty_untracked_directory_holds_nothing() {
    assert_eq!(World::new().findings("mkdir -p empty/deeper"), NOTHING);
}

#[test]
fn a_directory_in_a_repository_above_is_not_judged_by_that_repository() {
    let world = World::new();
    world.run("git init -q; mkdir c; echo 1 >c/x");
    let findings = world.examine(&world.root().join("repos/c")).findings();
    assert!(findings.contains(&"?repository: not a repository: it has no .git".to_owned()), "{findings:?}");
}

#[test]
fn a_foreign_owned_repository_is_read_and_not_obeyed() {
    let script = "echo n >n; chown -R 65534:65534 .";
    let findings = World::new().findings(script);
    assert_eq!(findings, ["untracked: new: n"]);
}

#[test]
fn objects_of_git_lfs_cannot_be_told() {
    let findings = World::new().findings("mkdir -p .git/lfs/objects/aa/bb; echo big >.git/lfs/objects/aa/bb/aabb");
    assert_eq!(findings.len(), 1);
    assert!(findings[0].starts_with("?lfs: "), "{findings:?}");
}
