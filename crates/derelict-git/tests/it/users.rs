//! What the user's and the machine's configuration of git takes away, and what it makes exact.

use std::path::PathBuf;

use derelict_git::{GitFiles, Terms};
use derelict_testkit::scratch::write;

use crate::support::{World, probe};

/// A commit that only a remote-tracking ref of a forge saves, as far as the clone itself tells.
const AT_THE_FORGE: &str = "git remote set-url origin https://forge.example/w.git; echo 1 >n; commit n;
    git update-ref refs/remotes/origin/n HEAD; rm -rf .git/logs/refs/remotes";

/// The findings in a clone after a script, with this in the user's `.gitconfig`; `$ROOT` is the world.
fn findings(script: &str, configuration: &str) -> Vec<String> {
    let world = World::new();
    let clone = world.clone(script);
    let home = world.root().join("home");
    write(home.join(".gitconfig"), configuration.replace("$ROOT", &world.root().display().to_string()));
    let git = GitFiles { configuration: vec![home.join(".gitconfig")], home: Some(home), ..GitFiles::NONE };
    probe(&clone, &world.around().under(&Terms::of_git(git))).findings()
}

const NOTHING: [&str; 0] = [];

#[test]
fn an_address_that_the_users_configuration_leads_to_a_directory_is_no_forge() {
    assert_eq!(findings(AT_THE_FORGE, ""), NOTHING);
    for configuration in [
        "[url \"$ROOT/repos/\"]\n\tinsteadOf = https://forge.example/\n",
        "[remote \"origin\"]\n\turl = $ROOT/up/w.git\n",
        "[remote \"mirror\"]\n\turl = $ROOT/nowhere\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n",
        "[include]\n\tpath = ~stranger/config\n",
        "[url \"broken\n",
    ] {
        let found = findings(AT_THE_FORGE, configuration);
        assert!(found.iter().any(|finding| finding.ends_with("on branch b-c")), "{configuration}: {found:?}");
    }
}

#[test]
fn a_rule_that_may_hold_takes_away_as_well() {
    let include = "[includeIf \"gitdir:~/work/\"]\n\tpath = work\n";
    assert_eq!(findings(AT_THE_FORGE, include), NOTHING, "a file that is missing says nothing");
    let script = format!(
        "mkdir -p \"$ROOT/home\"; printf '[url \"/\"]\\ninsteadOf = https://forge.example/\\n' >\"$ROOT/home/work\"\n{AT_THE_FORGE}"
    );
    assert_ne!(findings(&script, include), NOTHING);
}

#[test]
fn a_remote_of_the_user_saves_nothing_by_itself() {
    let script = "echo 1 >n; commit n; git update-ref refs/remotes/ghost/n HEAD";
    let ghost =
        "[remote \"ghost\"]\n\turl = https://forge.example/g.git\n\tfetch = +refs/heads/*:refs/remotes/ghost/*\n";
    assert_ne!(findings(script, ghost), NOTHING);
    // More refs of a remote that the repository has are the remote's.
    let pulls = "[remote \"origin\"]\n\tfetch = +refs/pull/*/head:refs/remotes/origin/pull/*\n";
    assert_eq!(findings(AT_THE_FORGE, pulls), NOTHING);
    // An address for pushing and harmless rules change nothing.
    assert_eq!(
        findings(AT_THE_FORGE, "[url \"ssh://git@forge.example/\"]\n\tinsteadOf = https://forge.example/\n"),
        NOTHING
    );
}

#[test]
fn what_the_user_ignores_everywhere_is_ignored_and_still_has_to_be_rebuildable() {
    let everywhere = "[core]\n\texcludesFile = ~/ignore\n";
    let script =
        |made: &str| format!("mkdir -p \"$ROOT/home\"; printf '.venv/\\nnotes/\\n' >\"$ROOT/home/ignore\"\n{made}");
    let venv = script("mkdir .venv; echo >.venv/pyvenv.cfg; echo x >.venv/x");
    assert_eq!(findings(&venv, ""), ["untracked: new: .venv/ (2 files)"]);
    assert_eq!(findings(&venv, everywhere), NOTHING);
    assert_eq!(findings(&script("mkdir .venv; echo x >.venv/x"), everywhere), ["ignored: ignored: .venv/ (1 file)"]);
    assert_eq!(findings(&script("mkdir notes; echo x >notes/x"), everywhere), ["ignored: ignored: notes/ (1 file)"]);
    // The repository's own rules are stronger.
    let shown = script("echo '!.venv/' >>.git/info/exclude; mkdir .venv; echo >.venv/pyvenv.cfg");
    assert_eq!(findings(&shown, everywhere), ["untracked: new: .venv/ (1 file)"]);
}

#[test]
fn line_endings_that_the_user_converts_are_no_change_unless_the_repository_says_otherwise() {
    let crlf = "printf 'b\\r\\n' >b";
    assert_eq!(findings(crlf, ""), ["tracked: changed: b"]);
    assert_eq!(findings(crlf, "[core]\n\tautocrlf = true\n"), NOTHING);
    let other = format!("git config core.autocrlf false; {crlf}");
    assert_eq!(findings(&other, "[core]\n\tautocrlf = true\n"), ["tracked: changed: b"]);
    assert_eq!(findings(&format!("git config core.eol lf; {crlf}"), ""), ["tracked: changed: b"]);
    assert_eq!(findings("printf 'c\\r\\n' >b", "[core]\n\tautocrlf = true\n"), ["tracked: changed: b"]);
}

#[test]
fn large_files_that_the_users_attributes_name_are_looked_for() {
    let script = "mkdir -p \"$ROOT/home\"; echo '*.bin filter=lfs' >\"$ROOT/home/attributes\"; printf big >x.bin;
        H=$(sha256sum <x.bin | cut -c1-64); printf 'version https://git-lfs.github.com/spec/v1\\noid sha256:%s\\nsize 3\\n' $H >p;
        O=$(git hash-object -w p); rm p; git update-index --add --cacheinfo 100644,$O,x.bin; git commit -qm big;
        git push -q origin HEAD:refs/heads/big; git fetch -q";
    assert_eq!(findings(script, ""), ["tracked: changed: x.bin"]);
    let attributes = "[core]\n\tattributesFile = ~/attributes\n";
    assert_eq!(findings(script, attributes), ["?lfs: 1 objects of git-lfs, which may not have been uploaded"]);
}

#[test]
fn files_in_the_usual_places_need_not_be_named() {
    let world = World::new();
    let clone = world.clone("mkdir .venv; echo >.venv/pyvenv.cfg; printf 'b\\r\\n' >b");
    let config: PathBuf = world.root().join("config");
    write(config.join("git/ignore"), ".venv/\n");
    write(config.join("git/attributes"), "* text=auto\n");
    let usual = GitFiles::usual(Some(world.root().join("home")), Some(config));
    let git = GitFiles { configuration: usual.configuration[1..].to_vec(), system_attributes: None, ..usual };
    assert_eq!(probe(&clone, &world.around().under(&Terms::of_git(git))).findings(), NOTHING);
}
