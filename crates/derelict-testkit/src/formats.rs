//! States in which something is stored in one of the less common ways that git has: read exactly, they go or
//! stay like any other clone. Not here: how they are read.

use crate::states::{State, keep, remove};

/// Formats of index, refs, objects and files.
#[rustfmt::skip]
pub const FORMATS: [State; 61] = [
    // The index.
    remove("index-v4", "git update-index --index-version 4"),
    keep("index-v4-edited", "edit", "git update-index --index-version 4; echo fmt1 >>b"),
    remove("index-split", "git update-index --split-index"),
    keep("index-split-staged", "staged edit", "git update-index --split-index; echo fmt2 >>b; git add b"),
    remove("index-untracked-cache", "git update-index --force-untracked-cache; git status >/dev/null"),
    keep("index-untracked-cache-new", "new file", "git update-index --force-untracked-cache; git status >/dev/null; echo fmt3 >new"),
    keep("index-fsmonitor-valid", "edit of a file that the monitor vouches for", "git config core.fsmonitor true; git update-index --fsmonitor-valid a; echo fmt4 >>a"),
    remove("index-skip-hash", "git config index.skipHash true; touch a; git update-index --refresh"),
    remove("sparse-index", "mkdir s; echo fmt5 >s/f; commit s; git push -q origin HEAD:refs/heads/fmt5; git fetch -q; git sparse-checkout set --cone --sparse-index"),
    keep("sparse-index-new", "new file where the index names a directory only", "mkdir s; echo fmt6 >s/f; commit s; git push -q origin HEAD:refs/heads/fmt6; git fetch -q; git sparse-checkout set --cone --sparse-index; mkdir s; echo fmt6n >s/n"),
    remove("sparse-ignore-in-index", "git sparse-checkout set --no-cone /a; mkdir target; echo x >target/x; printf 'Signature: 8a477f597d28d172789f06886806bc55\\n' >target/CACHEDIR.TAG"),
    keep("sparse-ignored-in-index", "an ignored directory that nobody makes again", "git sparse-checkout set --no-cone /a; mkdir ign; echo fmt7 >ign/plan.md"),
    // Refs and reflogs.
    remove("packed-refs", "git pack-refs --all --prune"),
    keep("packed-refs-unpushed", "commit", "echo fmt8 >>a; commit x; git pack-refs --all --prune"),
    remove("reftable-clean", "cd ..; rm -rf \"$NAME\"; git clone -q --ref-format=reftable .bare \"$NAME\"; cd \"$NAME\"; git remote set-url origin \"$UP/w.git\""),
    remove("reftable-pushed", "cd ..; rm -rf \"$NAME\"; git clone -q --ref-format=reftable .bare \"$NAME\"; cd \"$NAME\"; git remote set-url origin \"$UP/w.git\"; echo fmt9 >n; commit n; git push -q origin HEAD:refs/heads/fmt9; git fetch -q"),
    keep("reftable-branch", "commit on another branch", "cd ..; rm -rf \"$NAME\"; git clone -q --ref-format=reftable .bare \"$NAME\"; cd \"$NAME\"; git remote set-url origin \"$UP/w.git\"; git checkout -q -b o; echo fmt10 >n; commit n; git checkout -q main"),
    keep("reftable-stash", "stash", "cd ..; rm -rf \"$NAME\"; git clone -q --ref-format=reftable .bare \"$NAME\"; cd \"$NAME\"; git remote set-url origin \"$UP/w.git\"; echo fmt11 >a; git stash -q"),
    keep("reftable-older-stash", "older stash", "cd ..; rm -rf \"$NAME\"; git clone -q --ref-format=reftable .bare \"$NAME\"; cd \"$NAME\"; git remote set-url origin \"$UP/w.git\"; echo fmt12 >a; git stash -q; git checkout -q HEAD -- .; cp b a; git stash -q"),
    keep("reftable-reflog", "commit only the reflog holds", "cd ..; rm -rf \"$NAME\"; git clone -q --ref-format=reftable .bare \"$NAME\"; cd \"$NAME\"; git remote set-url origin \"$UP/w.git\"; echo fmt13 >n; commit n; git reset -q --hard HEAD~1; git pack-refs --all"),
    keep("reftable-detached", "commit on a detached HEAD", "cd ..; rm -rf \"$NAME\"; git clone -q --ref-format=reftable .bare \"$NAME\"; cd \"$NAME\"; git remote set-url origin \"$UP/w.git\"; git checkout -q --detach; echo fmt14 >n; commit n"),
    keep("reftable-worktree", "commit on a linked work tree's HEAD", "cd ..; rm -rf \"$NAME\"; git clone -q --ref-format=reftable .bare \"$NAME\"; cd \"$NAME\"; git remote set-url origin \"$UP/w.git\"; echo .wt/ >>.git/info/exclude; git worktree add -q --detach .wt/w; cd .wt/w; echo fmt15 >n; commit n"),
    remove("reftable-deleted-branch", "cd ..; rm -rf \"$NAME\"; git clone -q --ref-format=reftable .bare \"$NAME\"; cd \"$NAME\"; git remote set-url origin \"$UP/w.git\"; git branch gone; git branch -D gone; git branch x; git branch -m x y"),
    keep("reftable-broken", "undetermined: a table that is cut off", "cd ..; rm -rf \"$NAME\"; git clone -q --ref-format=reftable .bare \"$NAME\"; cd \"$NAME\"; for t in .git/reftable/*.ref; do head -c 100 \"$t\" >t; mv t \"$t\"; done"),
    keep("reftable-missing-table", "undetermined: a table that is missing", "cd ..; rm -rf \"$NAME\"; git clone -q --ref-format=reftable .bare \"$NAME\"; rm \"$NAME\"/.git/reftable/*.ref"),
    keep("replace-ref-unpushed", "object only a replace ref holds", "echo fmt16 >b; git add b; T=$(git write-tree); git reset -q --hard; git replace HEAD \"$(git commit-tree -m other \"$T\")\""),
    keep("grafted", "commit that a graft hides", "echo fmt17 >n; commit n; echo fmt17b >m; commit m; git push -q origin HEAD:refs/heads/fmt17; git fetch -q; git update-ref -d refs/remotes/origin/fmt17; git -C \"$UP/w.git\" update-ref -d refs/heads/fmt17;
        git rev-parse HEAD >.git/info/grafts"),
    remove("notes-pushed", "git notes add -m fmt18; git push -q origin refs/notes/commits:refs/heads/fmt18; git push -q ../.bare refs/notes/commits:refs/heads/fmt18"),
    keep("per-worktree-ref", "commit under refs/worktree", "echo fmt19 >n; commit n; git update-ref refs/worktree/mine HEAD; git reset -q --hard HEAD~1; rm -rf .git/logs .git/ORIG_HEAD"),
    keep("bisect-ref", "commit under refs/bisect", "echo fmt20 >n; commit n; git update-ref refs/bisect/bad HEAD; git reset -q --hard HEAD~1; rm -rf .git/logs .git/ORIG_HEAD"),
    keep("symbolic-branch", "commit under a symbolic ref", "git checkout -q -b o; echo fmt21 >n; commit n; git checkout -q main; git symbolic-ref refs/heads/s refs/heads/o"),
    // Objects.
    remove("multi-pack-index", "git repack -Adq; git multi-pack-index write"),
    keep("multi-pack-index-unpushed", "commit", "echo fmt22 >n; commit n; git repack -dq; git multi-pack-index write --bitmap"),
    remove("commit-graph", "git commit-graph write --reachable --changed-paths"),
    keep("commit-graph-lies", "commit below one that a graph makes a root", "echo fmt23 >n; commit n; git commit-graph write --reachable; git checkout -q -b o; echo fmt23b >m; commit m"),
    remove("commit-graph-broken", "git commit-graph write --reachable; chmod u+w .git/objects/info/commit-graph; echo garbage >.git/objects/info/commit-graph"),
    remove("alternates-of-the-cache", "cd ..; rm -rf \"$NAME\"; git clone -q --shared .bare \"$NAME\"; cd \"$NAME\"; git remote set-url origin \"$UP/w.git\""),
    remove("alternates-in-a-chain", "git clone -q --bare --shared ../.bare \"$ROOT/chain.git\"; cd ..; rm -rf \"$NAME\"; git clone -q --shared \"$ROOT/chain.git\" \"$NAME\"; cd \"$NAME\"; git remote set-url origin \"$UP/w.git\""),
    keep("alternates-unpushed", "commit in a clone that borrows the rest", "cd ..; rm -rf \"$NAME\"; git clone -q --shared .bare \"$NAME\"; cd \"$NAME\"; git remote set-url origin \"$UP/w.git\"; echo fmt24 >n; commit n"),
    keep("alternates-gone", "undetermined: what it borrows is gone", "git clone -q --bare ../.bare \"$ROOT/lost.git\"; cd ..; rm -rf \"$NAME\"; git clone -q --shared \"$ROOT/lost.git\" \"$NAME\"; rm -rf \"$ROOT/lost.git\""),
    keep("shallow-unpushed", "commit on a shallow history", "cd ..; rm -rf \"$NAME\"; git clone -q --depth 1 \"file://$UP/w.git\" \"$NAME\"; cd \"$NAME\"; echo fmt25 >n; commit n"),
    remove("partial", "git -C \"$UP/w.git\" config uploadpack.allowFilter true; cd ..; rm -rf \"$NAME\"; git clone -q --filter=blob:none \"file://$UP/w.git\" \"$NAME\""),
    keep("partial-unpushed", "commit", "git -C \"$UP/w.git\" config uploadpack.allowFilter true; cd ..; rm -rf \"$NAME\"; git clone -q --filter=blob:none \"file://$UP/w.git\" \"$NAME\"; cd \"$NAME\"; echo fmt26 >n; commit n"),
    remove("sha256-pushed", "git init -q --bare --object-format=sha256 \"$ROOT/sha.git\"; cd ..; rm -rf \"$NAME\"; git clone -q \"$ROOT/sha.git\" \"$NAME\" 2>/dev/null; cd \"$NAME\"; echo fmt27 >n; commit n; git push -q origin HEAD:refs/heads/main; git fetch -q"),
    remove("sha256-reftable-pushed", "git init -q --bare --object-format=sha256 --ref-format=reftable \"$ROOT/shart.git\"; cd ..; rm -rf \"$NAME\"; git init -q --object-format=sha256 --ref-format=reftable \"$NAME\"; cd \"$NAME\";
        git remote add origin \"$ROOT/shart.git\"; echo fmt28 >n; commit n; git push -q origin HEAD:refs/heads/main; git fetch -q"),
    keep("cruft-pack", "dropped stash that git has put aside", "echo fmt29 >a; git stash -q; git stash drop -q; git reflog expire --expire=now --all; git repack -q -a -d --cruft"),
    remove("adrift-and-held", "echo fmt30 >n; commit n; git push -q ../.bare HEAD:refs/heads/fmt30; git -C ../.bare update-ref -d refs/heads/fmt30; git reset -q --hard HEAD~1; rm -rf .git/logs .git/ORIG_HEAD"),
    keep("adrift-and-half-held", "commit of which the cache lacks the files", "echo fmt31 >n; commit n; C=$(git rev-parse HEAD | sed 's#^..#&/#'); mkdir -p \"../.bare/objects/${C%/*}\"; cp \".git/objects/$C\" \"../.bare/objects/$C\";
        git reset -q --hard HEAD~1; rm -rf .git/logs .git/ORIG_HEAD"),
    // Conversions.
    remove("ident-clean", "echo '*.c ident' >.gitattributes; echo 'fmt32 $Id$' >x.c; commit c; git push -q origin HEAD:refs/heads/fmt32; git fetch -q; rm x.c; git checkout -q x.c; grep -q 'Id: ' x.c; touch x.c"),
    keep("ident-edited", "edit", "echo '*.c ident' >.gitattributes; echo 'fmt33 $Id$' >x.c; commit c; git push -q origin HEAD:refs/heads/fmt33; git fetch -q; rm x.c; git checkout -q x.c; echo more >>x.c"),
    remove("encoding-clean", "echo '*.t working-tree-encoding=UTF-16LE' >.gitattributes; printf 'f\\0m\\0t\\0' >x.t; commit t; git push -q origin HEAD:refs/heads/fmt34; git fetch -q; touch x.t"),
    keep("encoding-edited", "edit", "echo '*.t working-tree-encoding=UTF-16LE' >.gitattributes; printf 'f\\0m\\0t\\0' >x.t; commit t; git push -q origin HEAD:refs/heads/fmt35; git fetch -q; printf 'g\\0' >x.t"),
    remove("line-endings-deep", "mkdir e; echo '*.bat eol=crlf' >e/.gitattributes; printf 'fmt36\\r\\n' >e/x.bat; commit t; git push -q origin HEAD:refs/heads/fmt36; git fetch -q; touch e/x.bat"),
    keep("line-endings-elsewhere", "a line ending that nothing converts", "mkdir e; echo '*.bat eol=crlf' >e/.gitattributes; echo fmt37 >y.bat; commit t; git push -q origin HEAD:refs/heads/fmt37; git fetch -q; printf 'fmt37\\r\\n' >y.bat"),
    remove("filter-clean-by-stat", "git config filter.rot.clean 'tr a-z n-za-m'; git config filter.rot.smudge 'tr a-z n-za-m'; echo '*.r filter=rot' >.gitattributes; echo fmt38 >x.r; commit r; git push -q origin HEAD:refs/heads/fmt38; git fetch -q;
        touch -d '1 hour ago' x.r; git update-index -q --refresh; git config filter.rot.clean \"touch '$ROOT/PWNED-filter'; cat\""),
    keep("filter-touched", "undetermined: only the filter would tell", "git config filter.rot.clean 'tr a-z n-za-m'; git config filter.rot.smudge 'tr a-z n-za-m'; echo '*.r filter=rot' >.gitattributes; echo fmt39 >x.r; commit r; git push -q origin HEAD:refs/heads/fmt39; git fetch -q;
        git config filter.rot.clean \"touch '$ROOT/PWNED-filter2'; cat\"; touch x.r"),
    // git-lfs.
    remove("lfs-pointers-only", "echo '*.bin filter=lfs' >.gitattributes; printf 'version https://git-lfs.github.com/spec/v1\\noid sha256:%064d\\nsize 5\\n' 40 >x.bin; commit l; git push -q origin HEAD:refs/heads/fmt40; git fetch -q; touch x.bin"),
    keep("lfs-store", "content only this store holds", "mkdir -p .git/lfs/objects/aa/bb; echo big >.git/lfs/objects/aa/bb/aabb000000000000000000000000000000000000000000000000000000000000"),
    remove("lfs-in-the-cache", "printf fmt41 >big; H=$(sha256sum <big | cut -c1-64); D=lfs/objects/$(echo $H | cut -c1-2)/$(echo $H | cut -c3-4); mkdir -p \"../.bare/$D\" \".git/$D\"; cp big \"../.bare/$D/$H\"; mv big \".git/$D/$H\""),
    keep("lfs-not-the-same-in-the-cache", "content that the cache has under its name only", "printf fmt42 >big; H=$(sha256sum <big | cut -c1-64); D=lfs/objects/$(echo $H | cut -c1-2)/$(echo $H | cut -c3-4); mkdir -p \"../.bare/$D\" \".git/$D\"; printf fmt99 >\"../.bare/$D/$H\"; mv big \".git/$D/$H\""),
    keep("lfs-smudged-without-store", "content only the work tree holds", "git config filter.lfs.clean 'cat >t; printf \"version https://git-lfs.github.com/spec/v1\\noid sha256:%s\\nsize %s\\n\" $(sha256sum <t | cut -c1-64) $(wc -c <t); rm t';
        echo '*.bin filter=lfs' >.gitattributes; printf fmt43 >x.bin; commit l; git push -q origin HEAD:refs/heads/fmt43; git fetch -q; git show HEAD:x.bin | grep -q oid; git status --porcelain | grep . && exit 1; git update-index -q --refresh"),
];
