//! States in which a loss is none because the content is provably elsewhere, each beside a look-alike that
//! has to stay. Not here: what proves it.

use crate::states::{State, keep, remove};

/// Relaxations and their look-alikes.
#[rustfmt::skip]
pub const PROOFS: [State; 47] = [
    // A file that saved history has, at any path.
    remove("file-of-older-commit", "echo 2 >a; commit 2; git push -q origin HEAD:refs/heads/fo; git fetch -q; git show HEAD~1:a >a"),
    remove("file-of-other-path", "cp a copy-of-a"),
    remove("directory-of-saved-files", "mkdir -p x/y; cp a x/y/a; cp b x/b"),
    remove("ignored-file-of-history", "cp a .env"),
    remove("staged-file-of-history", "cp b a; git add a"),
    remove("reset-soft-of-pushed", "echo s >a; echo t >t; commit s; git push -q origin HEAD:refs/heads/rs; git fetch -q; git reset -q --soft HEAD~1"),
    keep("file-of-unpushed-commit", "edit that only another branch has", "git checkout -q -b u; echo u >u; commit u; git checkout -q main; git show u:u >a; git branch -qD u"),
    keep("file-with-other-mode", "copy that is executable", "cp a run; chmod +x run"),
    keep("file-of-stray-object", "new file whose object nothing saved names", "echo stray >s; git hash-object -w s"),
    keep("file-of-fabricated-ref", "new file of a history that no remote has", "echo f >f; git add f; git commit -qm f; git update-ref refs/remotes/ghost/f HEAD;
        git reset -q --hard HEAD~1; git reflog expire --expire=now --all; rm -f .git/ORIG_HEAD; echo f >f"),
    keep("directory-with-one-new-file", "new file among copies", "mkdir x; cp a x/a; echo other >x/z"),
    keep("empty-file-elsewhere", "a name is all it says", ": >e; commit e; git push -q origin HEAD:refs/heads/em; git fetch -q; : >remember-the-milk"),
    keep("staged-deletion-of-saved", "index without a", "git rm -q --cached a; rm a"),
    keep("moved-file", "a is gone", "mv a moved"),
    // A branch that landed in other commits.
    remove("squash-with-merges", "echo 1 >s1; commit 1; git checkout -q -B m main; echo o >o; commit o; git push -q origin m:refs/heads/swm; git fetch -q;
        git checkout -q \"b-$NAME\"; git merge -q --no-edit origin/swm; echo 2 >s2; commit 2; git checkout -q m; git merge -q --squash \"b-$NAME\"; git commit -qm squashed;
        git push -q origin m:refs/heads/swm; git fetch -q; git checkout -q \"b-$NAME\"; git branch -qD m"),
    remove("squash-merged-back", "echo 1 >s1; commit 1; git checkout -q -B m main; git merge -q --squash \"b-$NAME\"; git commit -qm squashed; echo o >o; commit o;
        git push -q origin m:refs/heads/smb; git fetch -q; git checkout -q \"b-$NAME\"; git branch -qD m; git merge -q --no-edit origin/smb"),
    remove("squash-of-a-stacked-branch", "echo p >p; commit p; git push -q origin HEAD:refs/heads/st1; git fetch -q; echo q >q; commit q;
        git checkout -q -B m main; cp /dev/null x; git show \"b-$NAME\":p >p; git show \"b-$NAME\":q >q; rm x; commit 'both at once'; git push -q origin m:refs/heads/st2; git fetch -q;
        git checkout -q \"b-$NAME\"; git branch -qD m"),
    remove("squash-into-a-changed-file", "seq 1 20 >f; commit f; git push -q origin HEAD:refs/heads/scf; git fetch -q; sed -i 's/^5$/five/' f; commit five;
        git checkout -q -B m origin/scf; sed -i 's/^15$/fifteen/' f; commit fifteen; git merge -q --squash \"b-$NAME\"; git commit -qm squashed;
        git push -q origin m:refs/heads/scf; git fetch -q; git checkout -q \"b-$NAME\"; git branch -qD m"),
    remove("rebased-onto-a-changed-file", "seq 1 20 >f; commit f; git push -q origin HEAD:refs/heads/rcf; git fetch -q; sed -i 's/^5$/five/' f; commit five; sed -i 's/^5ive$/5/;s/^9$/nine/' f; commit nine;
        git checkout -q -B m origin/rcf; sed -i 's/^18$/eighteen/' f; commit 18; git cherry-pick \"b-$NAME~1\" \"b-$NAME\" >/dev/null; sed -i 's/^five$/FIVE/' f; commit later;
        git push -q origin m:refs/heads/rcf; git fetch -q; git checkout -q \"b-$NAME\"; git branch -qD m"),
    remove("amended-only-in-words", "echo 1 >n; commit one; git commit -q --amend -m uno; git push -q origin HEAD:refs/heads/aw; git fetch -q"),
    remove("amended-by-another-file", "echo 1 >n; commit one; echo 2 >o; git add o; git commit -q --amend -m one; git push -q origin HEAD:refs/heads/aa; git fetch -q"),
    keep("amended-content", "the version before the amendment", "echo ac1 >n; commit one; echo 2 >n; git add n; git commit -q --amend -m one; git push -q origin HEAD:refs/heads/ac; git fetch -q"),
    keep("squash-without-the-merge", "commit the merge brought after the squash", "echo 1 >s1; commit 1; git checkout -q -B m main; git merge -q --squash \"b-$NAME\"; git commit -qm squashed;
        git push -q origin m:refs/heads/swo; git fetch -q; git checkout -q \"b-$NAME\"; git branch -qD m; git merge -q --no-commit --no-ff -s ours origin/swo; echo evil >s1; git add s1; git commit -qm evil"),
    keep("merge-that-dropped-work", "work that a merge with -s ours dropped", "echo mine >w; commit mine; git checkout -q -B m main; echo theirs >w; commit theirs; git push -q origin m:refs/heads/mdw; git fetch -q;
        git checkout -q -B other origin/mdw; git merge -q -s ours --no-edit \"b-$NAME\"; git branch -qD m; git branch -qD \"b-$NAME\""),
    keep("squash-with-other-white-space", "indentation", "printf 'if x:\\n  y\\n' >p; commit p; git push -q origin HEAD:refs/heads/ws1; git fetch -q; printf 'if x:\\n  y\\n  z\\n' >p; commit z;
        git checkout -q -B m origin/ws1; printf 'if x:\\n  y\\nz\\n' >p; commit z; git push -q origin m:refs/heads/ws2; git fetch -q; git checkout -q \"b-$NAME\"; git branch -qD m"),
    keep("half-of-a-rebase", "one of two commits", "echo 1 >r1; commit 1; echo 2 >r2; commit 2; git checkout -q -B m main; echo o >o; commit o; git cherry-pick \"b-$NAME~1\" >/dev/null;
        git push -q origin m:refs/heads/hr; git fetch -q; git checkout -q \"b-$NAME\"; git branch -qD m"),
    keep("deletion-an-orphan-matches", "commit that deletes a", "git checkout -q --orphan p; git rm -qrf .; echo p >p; commit p; git push -q origin p:refs/heads/pages; git fetch -q; git checkout -qf main; git branch -qD p;
        git checkout -q \"b-$NAME\"; git rm -q a; git commit -qm 'drop a'"),
    keep("undone-and-merged-back", "work between", "echo 1 >n; commit n; git rm -q n; git commit -qm undo; git checkout -q -B m main; echo o >o; commit o; git push -q origin m:refs/heads/umb; git fetch -q;
        git checkout -q \"b-$NAME\"; git merge -q --no-edit origin/umb; git branch -qD m"),
    keep("merge-of-two-saved", "a merge and its message", "echo ma >ma; commit ma; git push -q origin HEAD:refs/heads/mts1; git checkout -q -B m main; echo mb >mb; commit mb; git push -q origin m:refs/heads/mts2; git fetch -q;
        git merge -q --no-edit origin/mts1"),
    // A stash of what has landed.
    remove("stash-that-landed", "echo 1 >n; git add n; git stash -q; git checkout -q -B m main; echo 1 >n; commit n; git push -q origin m:refs/heads/stl; git fetch -q; git checkout -q \"b-$NAME\"; git branch -qD m"),
    remove("stash-of-untracked-that-landed", "echo 1 >n; git stash -q -u; git checkout -q -B m main; echo 1 >other; commit n; git push -q origin m:refs/heads/stu; git fetch -q; git checkout -q \"b-$NAME\"; git branch -qD m"),
    keep("stash-with-another-index", "the staged version", "echo swi1 >a; git add a; echo 2 >a; git stash -q; git checkout -q -B m main; echo 2 >a; commit a; git push -q origin m:refs/heads/swi; git fetch -q; git checkout -q \"b-$NAME\"; git branch -qD m"),
    keep("stash-with-new-file", "the untracked file", "echo 2 >a; echo note >note; git stash -q -u; git checkout -q -B m main; echo 2 >a; commit a; git push -q origin m:refs/heads/swn; git fetch -q; git checkout -q \"b-$NAME\"; git branch -qD m"),
    keep("stash-on-unpushed-commit", "the commit below the stash", "echo u >u; commit u; echo 2 >a; git stash -q; git checkout -q -B m main; echo 2 >a; commit a; git push -q origin m:refs/heads/suc; git fetch -q;
        git checkout -q main; git branch -qD m; git branch -qD \"b-$NAME\"; rm -rf .git/logs/HEAD"),
    keep("older-stash-of-two", "the older stash", "echo 9 >a; git stash -q; echo 2 >a; git stash -q; git checkout -q -B m main; echo 2 >a; commit a; git push -q origin m:refs/heads/ost; git fetch -q; git checkout -q \"b-$NAME\"; git branch -qD m"),
    // Tags.
    remove("annotated-tag-of-the-cache", "git tag -a -m words \"v-$NAME\"; git push -q ../.bare \"v-$NAME\"; git remote set-url origin https://forge.example/w.git"),
    remove("annotated-tag-of-the-upstream", "git tag -a -m words \"v-$NAME\"; git push -q origin \"v-$NAME\""),
    keep("annotated-tag-moved", "the message of the tag", "git tag -a -m words \"v-$NAME\"; git push -q ../.bare \"v-$NAME\"; git tag -f -a -m other \"v-$NAME\""),
    keep("annotated-tag-of-nobody", "the message of the tag", "git tag -a -m words mine"),
    // Work trees that are gone.
    remove("worktree-gone", "git worktree add -q \"$ROOT/gone-wt\" -b gw origin/main; rm -rf \"$ROOT/gone-wt\""),
    remove("worktree-gone-inside", "echo .wt/ >>.git/info/exclude; git worktree add -q --detach .wt/x origin/main; rm -rf .wt/x"),
    keep("worktree-gone-detached", "commit on its HEAD", "git worktree add -q --detach \"$ROOT/gone-wt2\"; (cd \"$ROOT/gone-wt2\"; echo x >x; commit x); rm -rf \"$ROOT/gone-wt2\""),
    keep("worktree-gone-staged", "its index", "git worktree add -q --detach \"$ROOT/gone-wt3\"; (cd \"$ROOT/gone-wt3\"; echo x >x; git add x); rm -rf \"$ROOT/gone-wt3\""),
    keep("worktree-moved", "the work tree under its new name", "git worktree add -q \"$ROOT/wt-before\" -b mv origin/main; mv \"$ROOT/wt-before\" \"$ROOT/wt-after\""),
    keep("worktree-nowhere-to-be-seen", "a work tree whose disk is not here", "git worktree add -q \"$ROOT/wt-there\" -b nw origin/main; rm -rf \"$ROOT/wt-there\"; echo /no/such/disk/wt/.git >.git/worktrees/wt-there/gitdir"),
    // Submodules.
    remove("submodule-newer-pushed", "git submodule add -q \"$UP/sub.git\" sm; commit sm; git push -q origin HEAD:refs/heads/smn; git -c fetch.recurseSubmodules=false fetch -q;
        cd sm; echo 2 >s; commit w; git push -q origin HEAD:refs/heads/smn"),
    keep("submodule-newer-unpushed", "commit in sm", "git submodule add -q \"$UP/sub.git\" sm; commit sm; git push -q origin HEAD:refs/heads/smu; git -c fetch.recurseSubmodules=false fetch -q;
        cd sm; echo 3 >s; commit w"),
];
