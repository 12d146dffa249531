//! No clone that holds the only copy of anything goes, reading it runs nothing of it and changes nothing of
//! it, and force reaches unsaved work as it was shown and nothing else.

use std::collections::BTreeMap;

use derelict_testkit::devlaunch::REPOSITORY;
use derelict_testkit::git::shell;
use derelict_testkit::scratch::{exists, write};
use derelict_testkit::states::{Expected, FURTHER, STATES, State, build};
use derelict_testkit::{Cache, Snapshot};

use crate::support::{Report, derelict, everything, prune, prune_json};

fn kept(states: &'static [State]) -> Vec<String> {
    let kept = states.iter().filter(|state| state.expected != Expected::Remove).map(|state| state.name);
    let mut kept: Vec<String> = kept.chain(["a-symlink"]).map(str::to_owned).collect();
    kept.sort();
    kept
}

/// The states whose verdict is another than expected, with that verdict.
fn wrong<'s>(states: &'s [State], report: &Report) -> BTreeMap<&'s str, String> {
    let verdicts = states.iter().map(|state| (state, report.verdict(state.name)));
    let wrong = verdicts.filter(|(state, verdict)| (state.expected == Expected::Remove) != (verdict == "clean"));
    wrong.map(|(state, verdict)| (state.name, verdict)).collect()
}

fn programs_run(cache: &Cache) -> Vec<String> {
    let entries = std::fs::read_dir(cache.root()).expect("because the world is there");
    let names =
        entries.map(|entry| entry.expect("because it is being listed").file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("PWNED") || name.starts_with("STARTED")).collect()
}

#[test]
fn of_all_the_states_exactly_those_that_lose_nothing_go() {
    let cache = build(&STATES);
    let kept = kept(&STATES);
    let survivors: Vec<Snapshot> = kept.iter().map(|name| Snapshot::of(cache.path_of(name))).collect();
    let around: Vec<Snapshot> =
        ["outside-wt", "borrower", "upstream", "home"].iter().map(|dir| Snapshot::of(cache.root().join(dir))).collect();
    let bare = Snapshot::of(cache.path_of(".bare"));

    // Some of them cannot be decided.
    let report = prune_json(&cache, &["-y"], 1);
    assert_eq!(wrong(&STATES, &report), BTreeMap::new());
    assert_eq!(cache.leaves(REPOSITORY), kept);
    survivors.iter().chain(&around).chain([&bare]).for_each(Snapshot::assert_unchanged);
    assert_eq!(programs_run(&cache), [""; 0]);
}

#[test]
fn of_the_further_states_exactly_those_that_lose_nothing_go() {
    let cache = build(&FURTHER);
    let kept = kept(&FURTHER);
    let survivors: Vec<Snapshot> = kept.iter().map(|name| Snapshot::of(cache.path_of(name))).collect();
    let report = prune_json(&cache, &["-y"], 1);
    assert_eq!(wrong(&FURTHER, &report), BTreeMap::new());
    assert_eq!(cache.leaves(REPOSITORY), kept);
    survivors.iter().for_each(Snapshot::assert_unchanged);
    assert_eq!(programs_run(&cache), [""; 0]);
}

/// Names a program in every setting of a repository that would make git run one, and touches a tracked
/// file, so that its content has to be looked at.
const TRAPS: &str = r#"
for name in filter diff merge fsmonitor ssh pager editor askpass gpg hook credential; do
    printf '#!/bin/sh\necho >"%s/PWNED-%s"\ncat\n' "$ROOT" "$name" >".git/run-$name"; chmod +x ".git/run-$name"
done
printf '* filter=evil diff=evil merge=evil\n' >.git/info/attributes
git config filter.evil.clean "$PWD/.git/run-filter"; git config filter.evil.smudge "$PWD/.git/run-filter"
git config filter.evil.process "$PWD/.git/run-filter"; git config filter.evil.required true
git config diff.evil.command "$PWD/.git/run-diff"; git config diff.evil.textconv "$PWD/.git/run-diff"
git config merge.evil.driver "$PWD/.git/run-merge"; git config core.fsmonitor "$PWD/.git/run-fsmonitor"
git config core.sshCommand "$PWD/.git/run-ssh"; git config core.pager "$PWD/.git/run-pager"
git config core.editor "$PWD/.git/run-editor"; git config core.askPass "$PWD/.git/run-askpass"
git config gpg.program "$PWD/.git/run-gpg"; git config log.showSignature true
git config credential.helper "!$PWD/.git/run-credential"; git config core.hooksPath "$PWD/.git/hooks"
git config alias.status "!$PWD/.git/run-hook"; git config uploadpack.packObjectsHook "$PWD/.git/run-hook"
for hook in post-checkout post-index-change reference-transaction pre-auto-gc; do cp .git/run-hook ".git/hooks/$hook"; done
touch pixi.toml
"#;

#[test]
fn reading_a_clone_runs_no_program_that_it_names() {
    let mut cache = Cache::small();
    for id in ["clean", "dirty"] {
        let clone = cache.clean(id);
        shell(&clone, TRAPS, &[("ROOT", cache.root())]);
    }
    write(cache.path_of("dirty").join("pixi.lock"), "lock: 2\n");
    assert_eq!(programs_run(&cache), [""; 0], "the traps are not sprung yet");
    let before = everything(&cache);
    prune(&cache, &["-n"]);
    before.assert_same(&everything(&cache));
    prune(&cache, &["-y"]);
    assert_eq!(programs_run(&cache), [""; 0]);
    assert!(exists(cache.path_of("dirty")));
}

#[test]
fn a_remote_inside_the_swept_root_saves_nothing() {
    let mut cache = Cache::small();
    let (a, b) = (cache.clean("a"), cache.clean("b"));
    write(b.join("work"), "w");
    let script = "commit w; git remote set-url origin \"$A\"; git push -q origin HEAD:refs/heads/saved; git fetch -q";
    shell(&b, script, &[("A", &a)]);
    prune(&cache, &["-y"]);
    assert_eq!(cache.leaves(REPOSITORY), ["a", "b"]);
}

#[test]
fn looking_at_all_the_states_changes_nothing_and_runs_nothing() {
    let cache = build(&STATES);
    let before = everything(&cache);
    let report = prune_json(&cache, &["--dry-run"], 1);
    for state in &STATES {
        let Expected::Keep(loss) = state.expected else { continue };
        let undetermined = loss.starts_with("undetermined");
        assert_eq!(
            report.verdict(state.name) == "undetermined",
            undetermined,
            "{}: {:#}",
            state.name,
            report.reasons(state.name)
        );
        assert_ne!(report.reasons(state.name), "", "{}", state.name);
        derelict(&cache, &["explain", &cache.path_of(state.name).display().to_string()])
            .finish()
            .expect_stdout(state.name);
    }
    before.assert_same(&everything(&cache));
    assert_eq!(programs_run(&cache), [""; 0]);
}

#[test]
fn force_promotes_unsaved_work_and_nothing_else() {
    let cache = build(&STATES);
    let plain = prune_json(&cache, &["-n"], 1).verdicts();
    let forced = prune_json(&cache, &["-n", "--force"], 1);
    let rows = forced.0["plan"]["removals"].as_array().expect("because a plan has removals").clone();
    let promoted = rows.iter().filter(|row| row["forced"] == true).count();
    assert_eq!(promoted, plain.values().filter(|verdict| *verdict == "unsaved").count());
    assert!(promoted > 25, "{promoted}");
    assert!(rows.iter().all(|row| (row["verdict"] == "unsaved") == (row["forced"] == true)));

    let report = prune_json(&cache, &["-y", "--force"], 1);
    let mut left: Vec<String> = plain
        .into_iter()
        .filter(|(_, verdict)| verdict != "clean" && verdict != "unsaved")
        .map(|(name, _)| name)
        .chain(["a-symlink".into()])
        .collect();
    left.sort();
    assert_eq!(cache.leaves(REPOSITORY), left);
    assert_eq!(report.verdict("index-lock"), "held");
    assert_eq!(report.verdict("git-missing"), "undetermined");
}

/// Asks with force, does something while the question is open, answers yes, and says whether the
/// clone is still there.
fn survives_force(cache: &Cache, id: &str, deed: impl FnOnce()) -> bool {
    let mut session = derelict(cache, &["prune", "--force"]).on_terminal();
    session.wait_for("[y/N]");
    deed();
    session.answer("y");
    session.finish().expect_code(0);
    exists(cache.path_of(id))
}

#[test]
fn force_takes_exactly_the_losses_that_were_shown() {
    let mut cache = Cache::small();
    let dirty = cache.dirty("d");
    assert!(!survives_force(&cache, "d", || {}));
    assert!(!exists(dirty));
}

#[test]
fn force_does_not_take_another_loss_than_was_shown() {
    let mut cache = Cache::small();
    let dirty = cache.dirty("d");
    let note = dirty.join("note");
    assert!(survives_force(&cache, "d", || write(&note, "new")));
    // Now it is shown.
    assert!(!survives_force(&cache, "d", || {}));
}

#[test]
fn force_does_not_take_other_content_under_the_name_that_was_shown() {
    let mut cache = Cache::small();
    let dirty = cache.dirty("d");
    let before = std::fs::read_to_string(dirty.join("pixi.lock")).expect("because it is there");
    assert!(survives_force(&cache, "d", || write(dirty.join("pixi.lock"), before.to_uppercase())));
}

#[test]
fn force_does_not_take_another_commit_than_was_shown() {
    let mut cache = Cache::small();
    let clone = cache.unpushed("u");
    assert!(survives_force(&cache, "u", || {
        write(clone.join("more"), "more");
        derelict_testkit::devlaunch::commit(&clone, "more");
    }));
}

#[test]
fn without_force_unsaved_work_stays_and_is_named() {
    let mut cache = Cache::small();
    cache.dirty("d");
    cache.unpushed("u");
    let before = Snapshot::of(cache.root().join("cache"));
    let report = prune_json(&cache, &["-y"], 0);
    assert!(report.reasons("d").contains("pixi.lock"), "{}", report.reasons("d"));
    assert!(report.reasons("u").contains("commit"), "{}", report.reasons("u"));
    before.assert_unchanged();
}
