//! The world of one seed: a bare cache, two upstreams, a fork, and the clone that things happen to.
//! Not here: what happens.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use derelict_testkit::git::tool;
use derelict_testkit::scratch::{exists, mkdir, remove};

/// Builds the parts that all seeds share, below the working directory.
const TEMPLATE: &str = r#"
set -eu
mkdir -p up repos tmp
git init -q up/seed; git init -q up/subseed
cd up/seed
echo 0 >a; echo 0 >b; mkdir d; echo 1 >d/c; echo '{}' >package.json; printf '#!/bin/sh\n' >run.sh; chmod +x run.sh
printf 'ign/\n.env\nnode_modules/\ntarget/\n__pycache__/\n' >.gitignore
git add -A; git commit -qm seed; git tag v1; echo 1 >b; git commit -qam second; git tag -a -m release v2
git branch x1 HEAD~1; cd ../subseed
echo s >s; git add -A; git commit -qm sub; echo 1 >s; git commit -qam sub2
cd ../..
git clone -q --bare up/seed up/w.git; git clone -q --bare up/subseed up/sub.git; git clone -q --bare up/w.git up/fork.git
git clone -q --bare up/w.git repos/.bare
rm -rf up/seed up/subseed
"#;

/// What the snippets of shell use.
const PRELUDE: &str = r#"
at() { export GIT_COMMITTER_DATE="$1 +0000" GIT_AUTHOR_DATE="$1 +0000"; }
put() { case $1 in */*) d=${1%/*}; [ -d "$d" ] || { rm -rf -- "$d"; mkdir -p -- "$d"; };; esac; [ -d "./$1" ] && rm -rf -- "./$1"; echo "$2" >"./$1"; }
commit() { git add -A; git commit -qm "$1"; }
cachetag() { printf 'Signature: 8a477f597d28d172789f06886806bc55\n' >"$1/CACHEDIR.TAG"; }
cache() { git -C "$BARE" fetch -q "$1" -f "$UP/w.git" '+refs/heads/*:refs/heads/*' 'refs/tags/*:refs/tags/*'; }
landed() { T=$(git commit-tree -p main $2 -m "$1" "$3") && git update-ref refs/heads/main "$T"; }
land() { (
  cd "$UP/w.git"; [ "$2" != main ] || exit 1
  case $1 in
  squash) t=$(git merge-tree --write-tree main "$2") && landed squashed "" "$t" ;;
  keep) t=$(git merge-tree --write-tree main "$2") && landed squashed "" "$t"; exit ;;
  merge) t=$(git merge-tree --write-tree main "$2") && landed merged "-p $2" "$t" ;;
  pick) for c in $(git rev-list --reverse --no-merges "main..$2"); do
      t=$(git merge-tree --write-tree --merge-base="$c^" main "$c") && landed "picked $c" "" "$t"; done ;;
  esac && git update-ref -d "refs/heads/$2"
) }
upput() { (
  cd "$UP/w.git"; i=$(echo "$3" | git hash-object -w --stdin)
  export GIT_INDEX_FILE="$ROOT/tmp/up-index"; git read-tree "$1" && git update-index --add --cacheinfo "100644,$i,$2" &&
  git update-ref "refs/heads/$1" "$(git commit-tree -p "$1" -m "up $3" "$(git write-tree)")"
) }
upsed() { (
  cd "$UP/w.git"; i=$(git show "$1:$2" | sed "s/^$3\$/$3-$4/" | git hash-object -w --stdin)
  export GIT_INDEX_FILE="$ROOT/tmp/up-index"; git read-tree "$1" && git update-index --add --cacheinfo "100644,$i,$2" &&
  git update-ref "refs/heads/$1" "$(git commit-tree -p "$1" -m "upsed $3 $4" "$(git write-tree)")"
) }
begin() {
  cd "$REPOS"; case $1 in
  plain) git clone -q .bare c ;;
  shared) git clone -q --shared .bare c ;;
  upstream) git clone -q "$UP/w.git" c ;;
  shallow) git clone -q --depth 1 "file://$UP/w.git" c ;;
  esac; cd c; git remote set-url origin "$UP/w.git"; git checkout -q -B b-c; CLONE=$REPOS/c
}
"#;

/// One place where seeds are played, one after the other.
#[derive(Debug)]
pub(crate) struct World {
    base: PathBuf,
}

impl World {
    pub(crate) fn new(name: &str) -> Self {
        let memory = Path::new("/dev/shm");
        let below = if exists(memory) { memory.to_owned() } else { std::env::temp_dir() };
        let base = below.join(format!("derelict-differential-{}-{name}", std::process::id()));
        mkdir(base.join("template"));
        let world = Self { base };
        let built = tool("sh").current_dir(world.base.join("template")).args(["-c", TEMPLATE]).output();
        succeeded(built.expect("because sh can be started"), "template");
        world
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.base.join("w")
    }

    pub(crate) fn up(&self, name: &str) -> PathBuf {
        self.root().join("up").join(name)
    }

    pub(crate) fn bare(&self) -> PathBuf {
        self.root().join("repos/.bare")
    }

    pub(crate) fn clone(&self) -> PathBuf {
        self.root().join("repos/c")
    }

    /// Makes the world anew and does all this in it. Whether anything of it succeeded is not asked.
    pub(crate) fn play(&self, operations: &[String]) {
        let again = self.again().output().expect("because sh can be started");
        succeeded(again, "a fresh world");
        let (root, up, bare) = (self.root(), self.root().join("up"), self.bare());
        let mut script = PRELUDE.to_owned();
        for operation in operations {
            let back = if operation.starts_with("begin") { "" } else { "cd \"$CLONE\"\n" };
            script.push_str(&format!("{back}{operation}\n"));
        }
        let mut command = tool("sh");
        command.current_dir(&root).arg("-c").arg(script).env("GIT_EDITOR", "true").env("GIT_SSH_COMMAND", "false");
        command.env("ROOT", &root).env("UP", up).env("BARE", bare).env("REPOS", root.join("repos"));
        let played = command.env("T", root.join("tmp")).output().expect("because sh can be started");
        assert!(
            exists(self.clone()),
            "there is no clone after {operations:?}: {}",
            String::from_utf8_lossy(&played.stderr)
        );
    }

    fn again(&self) -> Command {
        let mut command = tool("sh");
        command.current_dir(&self.base).args(["-c", "rm -rf w && cp -a template w"]);
        command
    }
}

impl Drop for World {
    fn drop(&mut self) {
        remove(&self.base);
    }
}

fn succeeded(output: Output, what: &str) {
    assert!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
}
