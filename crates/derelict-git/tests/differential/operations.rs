//! What happens to a clone: snippets of shell, chosen and filled in by a seed. Not here: the world they
//! happen in, and what they destroy.
//!
//! A snippet may fail, wholly or in the middle: people's commands do, and the oracle looks only at
//! what is there afterwards. In a snippet `{f}` is a file, `{n}` a content, `{b}` a branch, `{t}` a
//! tag, `{w}` a work tree's name; each is the same throughout one snippet, `{g}` and `{m}` are a
//! second file and content.

use crate::random::Random;

const FILES: [&str; 8] = ["a", "b", "d/c", "e", "d/g/h", "new", "x.d/y", "run.sh"];
const BRANCHES: [&str; 5] = ["main", "b-c", "x1", "x2", "topic/y"];

/// How much is done to one clone.
const FEWEST: u64 = 2;
const MOST: u64 = 12;

/// Every so many snippets, one takes the whole work so far to a state where nothing is lost, so that
/// clean clones are not rare: a proof that always refuses would pass otherwise.
const SAVES: [&str; 9] = [
    "commit -{n}; git push -q -f origin HEAD:refs/heads/{b}; git fetch -q",
    "commit -{n}; git push -q -f --all origin; git push -q --tags origin",
    "git clean -fdxq; git reset -q --hard; commit -{m}; git push -q -f --all origin; git stash clear",
    "git push -q -f --all origin; git reset -q --hard; git clean -fdq",
    "commit -{n}; git push -q -f origin HEAD:refs/heads/{b}; land squash {b}; git fetch -q --prune",
    "commit -{n}; git push -q -f origin HEAD:refs/heads/{b}; land pick {b}; git fetch -q --prune",
    "commit -{n}; git fetch -q; git merge -q --no-edit origin/main; git push -q -f origin HEAD:refs/heads/{b}; land squash {b}; git fetch -q --prune",
    "commit -{n}; git push -q -f origin HEAD:refs/heads/{b}; land squash {b}; git fetch -q --prune; git merge -q --no-edit origin/main",
    "git stash -q -u; git stash apply -q; commit -{n}; git push -q -f origin HEAD:refs/heads/{b}; git fetch -q",
];

#[rustfmt::skip]
const SNIPPETS: &[&str] = &[
    // Files of the work tree.
    "put {f} {n}", "put {f} {n}", "put {f} {n}", "put {f} {n}; put {g} {m}", "echo {n} >>{f}", "echo {n} >>{f}",
    "cp -p {f} \"$T/k\"; put {f} {n}; touch -r \"$T/k\" {f}",
    "cp -p {f} \"$T/k\"; echo 7 >{f}; touch -r \"$T/k\" {f}; git update-index -q --refresh",
    "git config core.trustctime false; git config core.checkStat minimal; cp -p {f} \"$T/k\"; echo {n} >{f}; touch -r \"$T/k\" {f}",
    "rm -rf {f}", "rm -rf d", "mv {f} moved-{n}", "git mv {f} moved-{n}", "chmod +x {f}", "chmod -x run.sh",
    "git config core.fileMode false; chmod +x {f}", "git config core.symlinks false; put {f} b",
    "rm -rf {f}; mkdir -p \"$(dirname {f})\"; ln -s {g} {f}", "rm -rf {f}; mkdir -p {f}; echo {n} >{f}/in",
    "rm -rf d; echo {n} >d", "mkdir -p empty/dir", "ln -s nowhere-{n} dangling",
    "put 'with space' {n}", "put '-rf' {n}", "put .gitignore {n}", "printf 'new\\n*.log\\n' >>.gitignore",
    "mkdir -p sub.d; printf 'y\\n' >sub.d/.gitignore; echo {n} >sub.d/y",
    // Files of several lines, changed here and there.
    "seq 1 20 >{f}", "seq 1 20 >{f}; commit s; git push -q -f --all origin", "sed -i 's/^5$/5-{n}/' {f}; commit five", "sed -i 's/^15$/15-{n}/' {f}; commit fifteen", "sed -i 's/^5$/5-{n}/' {f}", "sed -i '/^9$/d' {f}; commit nine",
    "upsed main {f} 15 {m}", "upsed {b} {f} 5 {m}", "sed -i 's/^5$/5-{n}/' {f}; commit five; git push -q -f origin HEAD:refs/heads/{b}; upsed main {f} 15 {m}; land squash {b}; git fetch -q --prune",
    "seq 1 20 >{f}; commit s; git push -q -f origin HEAD:refs/heads/main HEAD:refs/heads/{b}; sed -i 's/^5$/5-{n}/' {f}; commit five; git push -q -f origin HEAD:refs/heads/{b}; upsed main {f} 15 {m}; land pick {b}; git fetch -q --prune",
    "seq 1 20 >{f}; commit s; git push -q -f origin HEAD:refs/heads/main; sed -i 's/^5$/ 5/' {f}; commit five; upsed main {f} 5 {m}; git fetch -q", "sed -i 's/^/ /' {f}; commit indented", "seq 1 20 >{f}; commit s; git push -q -f origin HEAD:refs/heads/main; sed -i 's/^5$/5-{n}/' {f}; commit five; sed -i 's/^5-.*$/5/;s/^9$/9-{m}/' {f}; commit nine; upsed main {f} 9 {m}; git fetch -q",
    // What saved history has.
    "cp {f} copy-{n}", "mkdir -p cp; cp {f} cp/1; cp {g} cp/2", "git show HEAD~1:{f} >{f}", "git show {b}:{g} >{f}", "git show {b}:{g} >{f}; git add {f}", "cp {f} .env", ": >{f}", "cp {f} copy-{n}; chmod +x copy-{n}", "git reset -q --soft origin/main", "git reset -q --soft HEAD~1; git reset -q",
    // Ignored and rebuildable.
    "echo KEY={n} >.env", "mkdir -p ign; echo {n} >ign/plan.md", "echo {f} >>.git/info/exclude", "echo 'x.d/' >>.git/info/exclude",
    "mkdir -p node_modules/p; echo built >node_modules/p/i.js", "mkdir -p node_modules; echo built >node_modules/i; git rm -q package.json",
    "mkdir -p target/debug; echo built >target/debug/o; cachetag target", "mkdir -p target; echo built >target/o",
    "mkdir -p d/target; echo built >d/target/o; cachetag d/target", "mkdir -p __pycache__; echo built >__pycache__/m.pyc",
    "mkdir -p node_modules/p; printf 'SQLite format 3\\000' >node_modules/p/dev.db", "mkdir -p target; cachetag target; echo KEY={n} >target/.env",
    "mkdir -p node_modules; git init -q node_modules/r; (cd node_modules/r; put f {n}; commit r)",
    "mkdir -p node_modules; echo {n} >node_modules/kept; git add -f node_modules", "mkdir -p node_modules; echo {n} >node_modules/kept; git add -f node_modules; commit nm; put node_modules/kept {m}",
    // Index.
    "git add -A", "git add {f}", "put {f} {n}; git add {f}; put {f} {m}", "put {f} {n}; git add {f}; git show HEAD:{f} >{f}",
    "git rm -q --cached {f}", "git rm -qf {f}", "git add -N .", "git update-index --chmod=+x {f}", "git reset -q",
    "git update-index --skip-worktree {f}; put {f} {n}", "git update-index --assume-unchanged {f}; put {f} {n}",
    "git update-index --skip-worktree {f}; rm -f {f}", "put {f} {n}; git update-index --assume-unchanged {f}",
    "git update-index --split-index", "git update-index --split-index; put {f} {n}; git add {f}", "git update-index --no-split-index",
    "git update-index --index-version 4", "git update-index --untracked-cache; git status", "git config index.sparse true; git sparse-checkout set a",
    "git sparse-checkout set --no-cone /a /d; put {f} {n}", "git sparse-checkout set --cone d; put {f} {n}", "git sparse-checkout disable", "git config core.ignoreStat true; git checkout -q {b}; put {f} {n}",
    // Commits and branches.
    "commit -{n}", "put {f} {n}; commit -{n}", "put {f} {n}; commit -{n}", "put {f} {n}; git commit -qam -{n}", "put {f} {n}; git add {f}; git commit -q --amend --no-edit",
    "git commit -q --allow-empty -m empty", "git checkout -q -b {b}", "git checkout -q {b}", "git checkout -q {b}", "git checkout -q -B {b} origin/main",
    "git checkout -q --detach", "git checkout -qf --detach origin/main", "git checkout -q --orphan o{n}; put {f} {n}; commit o", "git branch -D {b}", "git branch -m {b} r{n}", "git branch {b}",
    "put {f} {n}; commit u; put {f} {m}; commit v", "put {f} {n}; commit u; git revert --no-edit HEAD", "put {f} {n}; git add -A; git commit -qm part; put {g} {m}; git add -A; git commit -qm rest",
    "git reset -q --hard HEAD~1", "git reset -q --soft HEAD~1", "git reset -q HEAD~1", "git reset -q --hard origin/main", "git checkout -q {b} -- {f}", "git checkout -qf", "git clean -fdxq", "git clean -fdq",
    "git merge -q --no-edit {b}", "git merge -q --no-edit origin/{b}", "git merge -q --no-commit --no-ff {b}", "git merge -q -s ours --no-edit {b}", "git rebase -q {b}", "git rebase -q origin/main", "git cherry-pick {b}", "git cherry-pick origin/{b}",
    "git merge --abort; git rebase --abort; git cherry-pick --abort", "git merge -q --squash {b}; git commit -qm squash", "git merge --no-commit --no-ff -q {b}; echo evil{n} >evil; commit m", "git pull -q --rebase origin main", "git bisect start; git bisect bad",
    // Put aside.
    "put {f} {n}; git stash -q", "put {f} {n}; git stash -q -u", "put {f} {n}; git add {f}; git stash -q; git stash pop -q --index", "git stash pop -q", "git stash drop -q", "git stash clear", "git stash apply -q",
    "put {f} {n}; git stash -q; git stash branch s{n}", "put {f} {n}; git update-ref refs/wip/{n} \"$(git stash create)\"", "git stash -q; git push -q origin stash:refs/heads/{b}",
    "put {f} {n}; git stash -q; put {f} {n}; commit -{m}; git push -q -f origin HEAD:refs/heads/{b}; git fetch -q", "put {f} {n}; git add {f}; put {f} {m}; git stash -q; put {f} {m}; commit -{m}; git push -q -f origin HEAD:refs/heads/{b}", "put new {n}; put {f} {m}; git stash -q -u; put {f} {m}; commit -{m}; git push -q -f origin HEAD:refs/heads/{b}",
    "put {f} {n}; commit u; put {f} {m}; git add -A; git commit -q --amend -m v; git push -q -f --all origin", "put {f} {n}; commit u; put {g} {m}; git add -A; git commit -q --amend -m v; git push -q -f --all origin",
    // Refs of all kinds.
    "git tag {t}", "git tag -f {t} {b}", "git tag -a -m {n} {t}", "git tag -a -m {n} -f {t} {b}", "git tag -d {t}", "git push -q origin {t}", "git push -q --tags -f origin", "git tag {t} \"$(git hash-object -w {f})\"", "git tag -a -m tree {t} HEAD^{tree}",
    "git tag {t}; git reset -q --hard HEAD~1", "git notes add -f -m {n}", "git notes add -f -m {n}; git push -q origin refs/notes/commits", "git update-ref refs/wip/mine HEAD", "git update-ref refs/remotes/ghost/x HEAD", "git update-ref refs/remotes/origin/fake HEAD",
    "git update-ref refs/remotes/origin/main HEAD", "git replace -f HEAD \"$(git commit-tree -m other-{n} HEAD^{tree})\"", "git symbolic-ref refs/heads/sym refs/heads/{b}", "git update-ref refs/wip/blob \"$(echo {n}{m} | git hash-object -w --stdin)\"", "git update-ref -d refs/heads/{b}",
    "git symbolic-ref HEAD refs/heads/{b}", "git update-ref ORIG_HEAD HEAD; git reset -q --hard HEAD~1",
    // Upstream and its cache.
    "git push -q origin HEAD:refs/heads/{b}", "git push -q -f origin HEAD:refs/heads/{b}", "git push -q -f origin HEAD:refs/heads/{b}; git fetch -q", "git push -q -f --all origin", "git push -q origin --delete {b}", "git push -q -f -u origin HEAD",
    "git -C \"$UP/w.git\" update-ref -d refs/heads/{b}", "git -C \"$UP/w.git\" update-ref -d refs/heads/{b}; git fetch -q --prune", "git fetch -q --prune", "git fetch -q", "git fetch -q --tags -f", "git pull -q --no-edit",
    "land squash {b}", "land pick {b}", "land merge {b}", "land keep {b}", "land squash {b}; git fetch -q --prune", "land pick {b}; git fetch -q --prune; git checkout -q main", "git push -q -f origin HEAD:refs/heads/{b}; land squash {b}; put {f} {n}; commit -{m}",
    "put {f} {n}; commit u; git push -q -f origin HEAD:refs/heads/{b}; land squash {b}", "put {f} {n}; commit u; put {g} {m}; commit v; git push -q -f origin HEAD:refs/heads/{b}; land squash {b}; git fetch -q --prune",
    "put {f} {n}; commit u; put {f} {m}; commit v; git push -q -f origin HEAD:refs/heads/{b}; land squash {b}", "put {f} {n}; commit u; git push -q -f origin HEAD~1:refs/heads/{b}; land squash {b}", "upput main {f} {n}", "upput main {f} {n}; git fetch -q", "upput {b} {f} {n}",
    "cache --prune", "cache --no-prune", "git push -q -f origin HEAD:refs/heads/{b}; cache --no-prune; git -C \"$UP/w.git\" update-ref -d refs/heads/{b}; git fetch -q --prune", "git push -q \"$BARE\" HEAD:refs/heads/only-here-{n}",
    "git push -q -f \"$UP/fork.git\" HEAD:refs/heads/{b}", "git fetch -q \"$UP/fork.git\" {b}", "git push -q -f \"$UP/fork.git\" HEAD:refs/heads/{b}; git fetch -q \"$UP/fork.git\" {b}; git -C \"$UP/fork.git\" update-ref -d refs/heads/{b}",
    "git remote add fork \"$UP/fork.git\"; git push -q -f fork HEAD:refs/heads/{b}", "git remote set-url origin ../../up/w.git", "git remote set-url origin \"file://$UP/w.git\"", "git remote set-url origin \"$UP/w\"", "git remote rename origin up", "git remote remove origin", "git remote set-url --push origin \"$UP/fork.git\"",
    "put {f} {n}; commit s; git init -q --bare ../sib; git config url.\"$REPOS/\".insteadOf https://forge.invalid/; git remote add sib https://forge.invalid/sib; git push -q -f sib HEAD:refs/heads/{b}; git fetch -q sib; rm -rf .git/logs .git/*_HEAD",
    "git remote add sib ../sib; git init -q --bare ../sib; git push -q -f sib HEAD:refs/heads/{b}; git fetch -q sib", "git init -q --bare ../sib; git config url.\"$REPOS/\".insteadOf https://forge.invalid/; git remote add sib https://forge.invalid/sib; git push -q -f sib HEAD:refs/heads/{b}; git fetch -q sib",
    "git config remote.origin.fetch +refs/heads/main:refs/remotes/origin/main", "git config remote.origin.mirror true; git config remote.origin.fetch '+refs/*:refs/*'", "git branch -q --set-upstream-to=origin/main", "git fetch -q origin {b}:refs/heads/f{n}", "echo inner.git/ >>.git/info/exclude; git init -q --bare inner.git; git push -q inner.git HEAD:refs/heads/{b}",
    "git checkout -q -B side main; put {f} {n}; commit side; git checkout -q b-c; put {g} {m}; commit main; git merge -q --no-edit side; git push -q -f origin HEAD:refs/heads/{b}; land squash {b}; git fetch -q --prune", "git checkout -q -B side main; put {f} {n}; commit side; git checkout -q b-c; put {f} {m}; commit main; git merge -q -s ours --no-edit side; git branch -D side; git push -q -f origin HEAD:refs/heads/{b}; land squash {b}; git fetch -q --prune",
    "git fetch -q; git merge -q --no-edit origin/main; put {f} {n}; commit -{n}; git push -q -f origin HEAD:refs/heads/{b}; land squash {b}; git fetch -q --prune", "git fetch -q; git merge -q -X theirs --no-edit origin/{b}", "git merge -q -X ours --no-edit {b}",
    // Housekeeping.
    "git gc -q", "git gc -q --prune=now", "git repack -adq", "git repack -dq", "git pack-refs --all", "git prune-packed", "git reflog expire --expire=now --all", "git reflog expire --expire=now --all; git gc -q --prune=now", "rm -rf .git/logs", "rm -f .git/ORIG_HEAD", "rm -f .git/logs/HEAD",
    "rm -rf .git/logs .git/ORIG_HEAD .git/FETCH_HEAD", "git reflog delete HEAD@{0}", "git commit-graph write --reachable", "git multi-pack-index write", "git status", "git config core.logAllRefUpdates false", "git reflog delete --updateref --rewrite HEAD@{0}",
    "touch .git/index.lock", "git remote prune origin",
    // Work trees and repositories inside.
    "echo .wt/ >>.git/info/exclude; git worktree add -q .wt/{w} -b wt-{w}", "git worktree add -q --detach .wt/{w}", "echo .wt/ >>.git/info/exclude; git worktree add -q --detach .wt/{w}; (cd .wt/{w}; put {f} {n}; commit w)", "(cd .wt/{w}; put {f} {n})", "(cd .wt/{w}; put {f} {n}; git add -A)",
    "(cd .wt/{w}; put {f} {n}; commit w)", "(cd .wt/{w}; put {f} {n}; commit w; git push -q -f origin HEAD:refs/heads/{b})", "(cd .wt/{w}; put {f} {n}; git stash -q)", "git worktree remove --force .wt/{w}", "rm -rf .wt/{w}", "rm -rf .wt/{w}", "git worktree add -q --detach .wt/{w}; rm -rf .wt/{w}", "git worktree add -q --detach .wt/{w}; (cd .wt/{w}; put {f} {n}; commit w); rm -rf .wt/{w}", "git worktree add -q --detach .wt/{w}; (cd .wt/{w}; put {f} {n}; git add -A); rm -rf .wt/{w}", "git worktree add -q -b wx \"$ROOT/outside\"; mv \"$ROOT/outside\" \"$ROOT/moved\"", "git gc -q --cruft", "git repack -q -d -a --cruft",
    "git worktree prune", "(cd .wt/{w}; git reset -q --hard origin/main)",
    "(cd .wt/{w}; git update-ref refs/worktree/mine HEAD; git reset -q --hard HEAD~1)", "(cd .wt/{w}; git bisect start; git bisect bad)", "git worktree lock .wt/{w}; rm -rf .wt/{w}", "git worktree move .wt/{w} moved-wt", "git worktree add -q --detach \"$ROOT/outside\"", "(cd .wt/{w}; git update-index --skip-worktree {f}; put {f} {n})",
    "git config extensions.worktreeConfig true; git worktree add -q .wt/{w}",
    "git submodule add -q \"$UP/sub.git\" sm; git commit -qm sm", "git submodule add -q \"$UP/sub.git\" sm; git commit -qm sm; git push -q -f --all origin", "git submodule add -q \"$UP/sub.git\" sm; commit sm; (cd sm; put s {n}; commit w)", "(cd sm; put {f} {n})", "(cd sm; put s {n}; commit w)", "(cd sm; put s {n}; commit w; git push -q origin HEAD:refs/heads/{b}); commit bump",
    "(cd sm; put s {n}; git stash -q)", "(cd sm; git checkout -q -b {b}; put s {n}; commit w; git checkout -q -)", "git submodule update -q --force", "git submodule deinit -q -f sm", "git submodule update -q --init", "git rm -qf sm; git commit -qm rm", "git config submodule.sm.ignore all", "(cd sm; echo {n} >ignored; echo ignored >>\"$(git rev-parse --git-dir)/info/exclude\")",
    "(cd sm; git reset -q --hard HEAD~1)", "(cd sm; git tag {t})", "(cd sm; git push -q -f --all origin)", "git submodule absorbgitdirs", "git clone -q \"$UP/sub.git\" sm; git submodule add -q ./sm sm; git commit -qm sm", "git clone -q \"$UP/sub.git\" nested", "git clone -q \"$UP/sub.git\" nested; (cd nested; put {f} {n}; commit n)", "git clone -q \"$UP/sub.git\" d/nested; echo nested >>.git/info/exclude; (cd d/nested; put s {n}; git stash -q)",
    "git init -q n; (cd n; put f {n}; commit n)", "git init -q ign/n; (cd ign/n; put f {n}; commit n)", "echo bare-inside/ >>.git/info/exclude; git clone -q --bare \"$UP/sub.git\" bare-inside", "git init -q n",
    "git clone -q . ign/copy; (cd ign/copy; git remote set-url origin \"$UP/w.git\"; put {f} {n}; commit c)", "git clone -q --shared \"$BARE\" node_modules/s; (cd node_modules/s; git remote set-url origin \"$UP/w.git\"; git checkout -q -b {b})",
];

/// What may be done last: the remote becomes one that cannot be asked.
const FORGES: [&str; 3] =
    ["https://forge.invalid/acme/w.git", "git@forge.invalid:acme/w.git", "ssh://git@forge.invalid/acme/w"];

/// One in so many clones belongs to a forge.
const FORGE_ONE_IN: u64 = 5;

/// How the clone came to be.
const ORIGINS: [&str; 6] = ["plain", "plain", "plain", "shared", "upstream", "shallow"];

/// What is done to a seed's clone, in order; the first says how it is made.
pub(crate) fn operations(seed: u64) -> Vec<String> {
    let mut random = Random::new(seed);
    let mut done = vec![format!("begin {}", random.pick(&ORIGINS))];
    if random.below(4) > 0 {
        done.push("git update-index -q --refresh".into());
    }
    for _ in 0..FEWEST + random.below(MOST - FEWEST) {
        let snippet = if random.below(7) == 0 { *random.pick(&SAVES) } else { *random.pick(SNIPPETS) };
        done.push(fill(snippet, &mut random));
    }
    // Half of the clones have been tidied: what is lost then is in fewer, more hidden places.
    if random.below(2) == 0 {
        done.push("git clean -fdxq; git reset -q --hard".into());
    }
    if random.below(3) == 0 {
        done.push("git push -q -f --all origin".into());
    }
    if random.below(3) == 0 {
        done.push("rm -rf .git/logs .git/*_HEAD".into());
    }
    if random.below(3) == 0 {
        let last: &str = random.pick::<&str>(SNIPPETS);
        done.push(fill(last, &mut random));
    }
    if random.below(FORGE_ONE_IN) == 0 {
        done.push(format!("git remote set-url origin {}", random.pick(&FORGES)));
    }
    done
}

fn fill(snippet: &str, random: &mut Random) -> String {
    let time = 1_780_000_000 + random.below(9) * 1_000 - random.below(2) * 5_000;
    let numbers = [random.below(5), random.below(5)].map(|number| number.to_string());
    let pairs = [
        ("{f}", *random.pick(&FILES)),
        ("{g}", *random.pick(&FILES)),
        ("{b}", *random.pick(&BRANCHES)),
        ("{n}", &numbers[0]),
        ("{m}", &numbers[1]),
        ("{t}", *random.pick(&["t1", "t2"])),
        ("{w}", *random.pick(&["w1", "w2"])),
    ];
    let filled = pairs.iter().fold(snippet.to_owned(), |text, (name, value)| text.replace(name, value));
    format!("at {time}; {filled}")
}
