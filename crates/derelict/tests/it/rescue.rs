//! Unsaved work is carried out before its directory goes, by way of formats that stock tools read, and comes back as it
//! was in every channel. What cannot be carried out whole stays.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use derelict_testkit::git::{git, git_says, shell, tool};
use derelict_testkit::guards::Mounted;
use derelict_testkit::native::CRASH;
use derelict_testkit::scratch::{Scratch, exists, mkdir, read, remove, write};
use derelict_testkit::states::{FURTHER, STATES, State, build};
use derelict_testkit::{Cache, Snapshot};
use serde_json::{Value, json};

use crate::support::{DERELICT, derelict, prune, prune_json};

/// Everything of a clone that somebody could miss, as stock tools tell it. The object store is told by what is in it,
/// and what a tool makes again by its absence.
const PORTRAIT: &str = r#"
exec >"$OUT" 2>&1
left_out='( -path ./.git/objects -o -name node_modules -o -name target -o -name .pixi ) -prune -o'
find . $left_out ! -name 'sharedindex.*' -printf '%P %y %m %U %G %T@ %l\n' | LC_ALL=C sort
find . $left_out -type f -print0 | LC_ALL=C sort -z | xargs -0 -r sha256sum
find . $left_out -type f -links +1 ! -path '*/objects/*' -printf '%P has other names\n' | LC_ALL=C sort
getfattr -h -R -d -m - . 2>/dev/null | grep -v objects || true
export GIT_OPTIONAL_LOCKS=0
git for-each-ref; git rev-parse HEAD || true; git stash list; git reflog show --all | sort
git -c core.fsmonitor=false ls-files --stage
git fsck --full --no-dangling --no-progress | sort
git log --all --reflog --format='%H %T' | sort
"#;

fn portrait(clone: &Path, out: &Path) -> String {
    shell(clone, PORTRAIT, &[("OUT", out)]);
    String::from_utf8_lossy(&read(out)).into_owned()
}

/// The lines that only one of two portraits has.
fn differences<'p>(before: &'p str, now: &'p str) -> Vec<&'p str> {
    let (before, now): (BTreeSet<&str>, BTreeSet<&str>) = (before.lines().collect(), now.lines().collect());
    before.symmetric_difference(&now).copied().collect()
}

fn entries(cache: &Cache) -> Vec<Value> {
    let list = derelict(cache, &["rescued", "--json"]).finish();
    list.json()["rescued"].as_array().expect("because it is a list").clone()
}

fn entry_of(cache: &Cache, id: &str) -> String {
    let path = cache.path_of(id).display().to_string();
    let found = entries(cache).into_iter().find(|entry| entry["path"] == path.as_str());
    let found = found.unwrap_or_else(|| panic!("{id} was not rescued"));
    found["name"].as_str().expect("because it has a name").to_owned()
}

/// The reasons by which a clone is unsaved.
fn losses(cache: &Cache, id: &str) -> String {
    let report = prune_json(cache, &["-n", cache.path_of(id).to_str().expect("because it is text")], 0);
    report.reasons(id)
}

fn come_back(states: &'static [State], not_carried_out: &[&str]) {
    let cache = build(states);
    let report = prune_json(&cache, &["-n"], 1);
    let unsaved: Vec<&str> =
        states.iter().map(|state| state.name).filter(|name| report.verdict(name) == "unsaved").collect();
    assert!(unsaved.len() > 9, "{unsaved:?}");
    let out = cache.root().join("portrait");
    let before: BTreeMap<&str, (String, String)> =
        unsaved.iter().map(|name| (*name, (portrait(&cache.path_of(name), &out), losses(&cache, name)))).collect();
    prune_json(&cache, &["-y", "--rescue"], 1);
    let left: Vec<&str> = unsaved.iter().copied().filter(|name| exists(cache.path_of(name))).collect();
    assert_eq!(left, not_carried_out);
    for (name, (portrayed, lost)) in before.iter().filter(|(name, _)| !not_carried_out.contains(*name)) {
        derelict(&cache, &["restore", &entry_of(&cache, name)]).finish().expect_code(0).expect_stdout("given back");
        let now = portrait(&cache.path_of(name), &out);
        assert_eq!(differences(portrayed, &now), [""; 0], "{name}");
        assert_eq!(&losses(&cache, name), lost, "{name}");
    }
}

#[test]
fn every_state_with_unsaved_work_comes_back_as_it_was() {
    come_back(&STATES, &[]);
}

#[test]
fn every_further_state_with_unsaved_work_comes_back_as_it_was() {
    come_back(&FURTHER, &[]);
}

/// A cache with one clone that has a commit of its own, a stash, and files of every kind that no commit knows.
fn worked_in() -> Cache {
    let mut cache = Cache::small();
    let clone = cache.unpushed("a");
    let script = r#"
        echo stashed >>pixi.toml; git stash -q; echo staged >new; git add new
        mkdir -p notes/empty deep/er; echo secret >notes/.env; chmod 600 notes/.env; ln -s ../nowhere notes/link
        ln notes/.env notes/again; mkfifo notes/pipe; printf 'x' >"$(printf 'deep/er/\303\050 name\n')"
        dd if=/dev/zero of=holes bs=1 count=1 seek=5M 2>/dev/null; touch -d '2001-02-03 04:05:06.789' notes/empty
        setfattr -n user.note -v 'two
lines' notes/.env; chmod 2750 notes; long=$(printf 'n%.0s' $(seq 200)); echo l >"$long"; ln -s "$long" points
    "#;
    shell(&clone, script, &[]);
    cache
}

#[test]
fn what_no_commit_knows_comes_back_with_its_modes_times_links_and_attributes() {
    let cache = worked_in();
    let (clone, out) = (cache.path_of("a"), cache.root().join("portrait"));
    let before = portrait(&clone, &out);
    let report = prune_json(&cache, &["-y", "--rescue"], 0);
    assert_eq!(report.fate("a"), "removed");
    assert!(!exists(&clone));
    let elsewhere = cache.root().join("elsewhere-again");
    let given =
        derelict(&cache, &["restore", &entry_of(&cache, "a"), "--to", elsewhere.to_str().expect("because it is text")]);
    given.finish().expect_code(0).expect_stdout("given back");
    assert_eq!(differences(&before, &portrait(&elsewhere, &out)), [""; 0]);
    assert!(!exists(&clone), "it was wanted elsewhere");
    let blocks = std::os::unix::fs::MetadataExt::blocks(
        &std::fs::metadata(elsewhere.join("holes")).expect("because it is there"),
    );
    assert!(blocks < 64, "its holes are filled: {blocks}");
}

#[test]
fn stock_git_and_stock_tar_read_what_was_rescued() {
    let cache = worked_in();
    let commit = git_says(cache.path_of("a"), &["rev-parse", "HEAD"]);
    let stash = git_says(cache.path_of("a"), &["rev-parse", "stash@{0}"]);
    let place = cache.root().join("place");
    prune_json(&cache, &["-y", &format!("--rescue={}", place.display())], 0);
    let list = derelict(&cache, &["rescued", "--json", "--from", place.to_str().expect("because it is text")]).finish();
    let entry = list.json()["rescued"][0]["entry"].as_str().expect("because it is a path").to_owned();
    let bundle = format!("{entry}/objects.bundle");
    let bare = cache.path_of(".bare");
    git(&bare, &["bundle", "verify", "-q", &bundle]);
    git(&bare, &["fetch", "-q", &bundle, "+refs/*:refs/rescued/*"]);
    for id in [commit.trim(), stash.trim()] {
        git(&bare, &["cat-file", "-e", &format!("{id}^{{commit}}")]);
        assert!(!git_says(&bare, &["for-each-ref", "--contains", id]).is_empty(), "{id} has no name");
    }
    git(&bare, &["fsck", "--full", "--no-dangling", "--no-progress"]);
    let unpacked = cache.root().join("unpacked");
    mkdir(&unpacked);
    shell(&unpacked, &format!("zstd -dc '{entry}/files.tar.zst' | tar -x --xattrs"), &[]);
    shell(
        &unpacked,
        "test \"$(cat notes/.env)\" = secret; test -L points; test \"$(cat points)\" = l; test notes/.env -ef notes/again",
        &[],
    );
}

#[test]
fn a_rescue_that_cannot_be_written_keeps_the_directory() {
    let cache = worked_in();
    shell(cache.path_of("a"), "head -c 9000000 /dev/urandom >big", &[]);
    let before = Snapshot::of(cache.path_of("a"));
    let place = cache.root().join("small");
    mkdir(&place);
    let _small = Mounted::small_tmpfs(&place, 4 * 1024 * 1024);
    let report = prune_json(&cache, &["-y", &format!("--rescue={}", place.display())], 1);
    assert_eq!(report.fate("a"), "refused");
    before.assert_unchanged();
    let list = derelict(&cache, &["rescued", "--json", "--from", place.to_str().expect("because it is text")]).finish();
    assert_eq!(list.json()["rescued"], json!([]), "nothing of it is left");
}

#[test]
fn an_entry_that_was_tampered_with_is_refused_and_makes_nothing() {
    let cache = worked_in();
    prune_json(&cache, &["-y", "--rescue"], 0);
    let name = entry_of(&cache, "a");
    let entry = cache.state().join("rescued").join(&name);
    for file in ["objects.bundle", "files.tar.zst", "entries.ndjson.zst"] {
        let whole = read(entry.join(file));
        let mut broken = whole.clone();
        *broken.last_mut().expect("because it is not empty") ^= 1;
        write(entry.join(file), &broken);
        let told = format!("{file} is not what was written");
        derelict(&cache, &["restore", &name]).finish().expect_code(1).expect_stderr(&told);
        assert!(!exists(cache.path_of("a")));
        write(entry.join(file), &whole);
    }
    derelict(&cache, &["restore", &name]).finish().expect_code(0);
    derelict(&cache, &["restore", &name])
        .finish()
        .expect_code(1)
        .expect_stderr("is there; name another place with --to");
}

#[test]
fn entries_are_listed_with_age_and_size_and_expire_by_a_persons_word_only() {
    let cache = worked_in();
    derelict(&cache, &["rescued"]).finish().expect_code(0).expect_stdout("Nothing was rescued to");
    let report = prune(&cache, &["-y", "--rescue"]);
    report.expect_code(0).expect_stdout("after rescue of").expect_stdout("removed once rescued as");
    let list = derelict(&cache, &["rescued"]).finish();
    list.expect_code(0).expect_stdout("1 entry").expect_stdout("0 min old").expect_stdout("acme/w/a");
    derelict(&cache, &["rescued", "--expire", "1h", "-y"]).finish().expect_code(0).expect_stdout("Nothing in");
    let name = entry_of(&cache, "a");
    let manifest = cache.state().join("rescued").join(&name).join("manifest.json");
    let mut value: Value = serde_json::from_slice(&read(&manifest)).expect("because it is JSON");
    value["at"] = json!([1_000_000_000, 0]);
    write(&manifest, value.to_string());
    let asked = derelict(&cache, &["rescued", "--expire", "1h"]).finish();
    asked.expect_code(1).expect_stderr("Nothing was deleted: there is no terminal");
    assert_eq!(entries(&cache).len(), 1);
    derelict(&cache, &["rescued", "--expire", "1h", "-y"]).finish().expect_code(0).expect_stderr("Deleted 1 entry");
    assert_eq!(entries(&cache), [] as [Value; 0]);
}

#[test]
fn what_is_rescued_must_not_lie_in_what_may_be_removed() {
    let cache = worked_in();
    let before = Snapshot::of(cache.path_of("a"));
    let inside = format!("--rescue={}", cache.path_of("rescued").display());
    prune(&cache, &["-y", &inside]).expect_code(2).expect_stderr("must not lie in what may be removed");
    prune(&cache, &["-n", &inside]).expect_code(2);
    before.assert_unchanged();
}

#[test]
fn a_dry_run_shows_what_would_be_rescued_and_writes_nothing() {
    let cache = worked_in();
    let before = crate::support::everything(&cache);
    prune(&cache, &["-n", "--rescue"]).expect_code(0).expect_stdout("after rescue of");
    before.assert_same(&crate::support::everything(&cache));
}

/// Kills a run before its change of this number, and says before how many it could have been; 0 kills none.
fn killed_at(cache: &Cache, point: u64, report: &Path) -> u64 {
    let tracer = CRASH.path().to_str().expect("because its name is text");
    let code = if point == 0 { 0 } else { 137 };
    let (point, told) = (point.to_string(), report.to_str().expect("because its name is text"));
    cache.run(tracer, &[&point, told, DERELICT, "prune", "-y", "--rescue"]).finish().expect_code(code);
    let points = String::from_utf8(read(report)).expect("because it is text");
    remove(report);
    points.split(' ').next().and_then(|points| points.parse().ok()).expect("because it begins with their number")
}

#[test]
fn a_run_killed_while_it_rescues_loses_nothing_and_the_next_one_finishes() {
    let cache = worked_in();
    let (template, out) = (Scratch::new(), Scratch::new());
    let (report, out) = (template.path().with_extension("report"), out.path().join("portrait"));
    let copy = |from: &Path, to: &Path| {
        let copied = tool("cp").args(["-a", "--"]).arg(from.join("cache")).arg(to).status();
        assert!(copied.is_ok_and(|status| status.success()), "cannot copy {}", from.display());
    };
    copy(cache.root(), template.path());
    let before = portrait(&cache.path_of("a"), &out);
    let again = || {
        ["cache", "state"].iter().for_each(|changed| remove(cache.root().join(changed)));
        copy(template.path(), cache.root());
    };
    let points = killed_at(&cache, 0, &report);
    assert!(points > 30, "{points}");
    // Every change of the rescue itself is one of writing; how the discard ends is for the tests of that.
    let stride = points.div_ceil(16);
    for point in (1..=points).step_by(usize::try_from(stride).expect("because it is small")) {
        again();
        killed_at(&cache, point, &report);
        let whole = entries(&cache).iter().any(|entry| entry["problem"].is_null());
        let gone_whole = exists(cache.path_of("a")) || whole || cache.all_leaves("acme/w").len() > 2;
        assert!(gone_whole, "killed at {point} of {points}: neither the clone nor an entry is there");
        prune_json(&cache, &["-y", "--rescue"], 0);
        assert!(!exists(cache.path_of("a")), "killed at {point} of {points}");
        derelict(&cache, &["restore", &entry_of(&cache, "a")]).finish().expect_code(0);
        let now = portrait(&cache.path_of("a"), &out);
        assert_eq!(differences(&before, &now), [""; 0], "killed at {point} of {points}");
    }
}
