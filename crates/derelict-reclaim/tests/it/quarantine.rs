//! What is set aside stays whole for its grace, goes back when somebody wants it, and goes for good when
//! its grace is over and nobody does.

use std::path::PathBuf;
use std::time::Duration;

use derelict_core::evidence::{
    Answer, Blind, Channel, ChannelReport, Claim, ClaimedPath, Evidence, Layout, Lease, Loss, Observed, Proof, Signal,
    SourceReport,
};
use derelict_core::ids::{Digest, IntentId, NonEmpty, OwnerId, SourceId, Timestamp};
use derelict_core::outcome::{Outcome, Release, StopReason};
use derelict_core::ports::SourceLost;
use derelict_core::record::{Disposal, SetAside};
use derelict_core::verdict::Verdict;
use derelict_reclaim::lock::DevlaunchLocks;
use derelict_reclaim::quarantine::{End, Expiries, NotRestored, expire, list, restore};
use derelict_reclaim::reclaimer::OpenWorkspace;
use derelict_reclaim::recover::Recovered;
use derelict_testkit::guards::{Flock, Immutable, Mounted};
use derelict_testkit::scratch::{exists, mkdir, read, remove, rename, write};
use derelict_testkit::tree::Snapshot;

use crate::kit::{NOW, World, clean, outcome, policy, refusal};

const GRACE: Duration = Duration::from_secs(86_400);
const UNTIL: Timestamp = NOW.after(GRACE);
const QUARANTINE: Disposal = Disposal::Quarantine { until: UNTIL };

/// A world whose clone `a`, which has a record, was set aside.
struct Aside {
    world: World,
    before: Snapshot,
    trash: PathBuf,
}

fn set_aside() -> Aside {
    let world = World::new();
    let clone = world.make_clone("a");
    write(
        world.cache().join("metadata.json"),
        format!("{{\"version\":3,\"worktrees\":{{\"k\":{{\"local_path\":{clone:?}}}}}}}"),
    );
    let before = Snapshot::of(&clone);
    let report = world.sweep_with(QUARANTINE, vec![world.candidate("a")], |_| {});
    assert_eq!(outcome(report), Outcome::Quarantined);
    let trash = world.clone(format!(".derelict-trash-{}-1", world.journal().id()));
    Aside { world, before, trash }
}

impl Aside {
    fn expire(&self, now: Timestamp, mut look: impl FnMut() -> Result<Evidence, SourceLost>) -> Expiries {
        let mut journal = self.world.journal();
        let reclaimer = self.world.reclaimer(&journal);
        let mut locks = DevlaunchLocks::new(&self.world.cache());
        let look = |set_aside: &SetAside, open: &OpenWorkspace| {
            assert_eq!(set_aside.candidate.path, self.world.clone("a"));
            rustix::fs::fstat(open.dir()).expect("because the directory is open");
            look()
        };
        expire(&mut journal, &reclaimer, &mut locks, (&policy(), now), look, || None)
    }

    fn end(&self, evidence: Evidence) -> End {
        let expiries = self.expire(UNTIL, || Ok(evidence.clone()));
        assert_eq!(expiries.stop, None);
        match <[_; 1]>::try_from(expiries.expired) {
            Ok([expired]) => {
                assert_eq!(expired.trash, self.trash);
                expired.end
            }
            Err(other) => panic!("{other:?}"),
        }
    }

    fn restore(&self) -> Result<SetAside, NotRestored> {
        let mut journal = self.world.journal();
        let reclaimer = self.world.reclaimer(&journal);
        restore(&mut journal, &reclaimer, &mut DevlaunchLocks::new(&self.world.cache()), IntentId(1))
    }

    fn has_record(&self) -> bool {
        read(self.world.cache().join("metadata.json")).windows(10).any(|text| text == b"local_path")
    }

    fn listed(&self) -> Vec<SetAside> {
        list(&self.world.state()).expect("because the journal can be read")
    }

    /// Nothing has changed: it lies in the trash, whole, and is known.
    fn assert_still_aside(&self) {
        let trash = self.trash.file_name().map(|name| name.to_string_lossy().into_owned());
        assert_eq!(self.world.names(), trash.into_iter().collect::<Vec<_>>());
        rename(&self.trash, self.world.clone("a"));
        self.before.assert_unchanged();
        rename(self.world.clone("a"), &self.trash);
        assert_eq!((self.listed().len(), self.has_record()), (1, true));
    }

    fn assert_back(&self) {
        self.before.assert_unchanged();
        assert_eq!((self.world.names(), self.listed().len(), self.has_record()), (vec!["a".to_owned()], 0, true));
        assert_eq!(self.world.recover().recovered, []);
    }
}

fn owned() -> Evidence {
    let claim = Claim {
        source: SourceId("test".into()),
        owner: OwnerId("a".into()),
        at: ClaimedPath::Here,
        lease: Lease::Standing,
    };
    evidence(Observed::Known(vec![claim]), Answer::Nothing)
}

fn evidence(claims: Observed<Vec<Claim>>, answer: Answer) -> Evidence {
    let source = SourceReport { source: SourceId("test".into()), claims };
    let channel = ChannelReport::new(Channel("untracked"), "1 file".into(), answer);
    let proof = Observed::Known(Proof::of(vec![channel]));
    let touched = Observed::Known(Timestamp::new(0, 0));
    Evidence::new(vec![source], touched, Observed::Known(Layout::Any), Observed::Known(Vec::new()), proof)
        .expect("because a source was asked")
}

#[test]
fn what_is_set_aside_lies_whole_in_the_trash_and_is_listed_with_its_times_and_size() {
    let aside = set_aside();
    aside.assert_still_aside();
    let listed = aside.listed();
    assert_eq!((listed[0].intent, listed[0].since, listed[0].grace.until), (IntentId(1), NOW, UNTIL));
    assert_eq!((listed[0].bytes, listed[0].inodes), (0, 1), "as the plan had it");
    assert_eq!(list(&aside.world.base().join("no-state")).unwrap(), []);
}

#[test]
fn recovery_leaves_what_was_set_aside_on_purpose() {
    let aside = set_aside();
    for _ in 0..2 {
        assert_eq!(aside.world.recover().recovered, []);
    }
    aside.assert_still_aside();
    // Even while a launch of the same name runs: nothing is to be done, so nobody is asked.
    let _held = Flock::file(&aside.world.cache().join("launch-locks/a.lock"));
    assert_eq!(aside.world.recover().recovered, []);
}

#[test]
fn before_its_grace_is_over_nothing_happens_and_nobody_is_asked() {
    let aside = set_aside();
    let before = UNTIL.before(Duration::from_nanos(1));
    let expiries = aside.expire(before, || panic!("asked"));
    assert_eq!((expiries.expired.len(), expiries.stop), (0, None));
    aside.assert_still_aside();
}

#[test]
fn when_its_grace_is_over_and_nobody_wants_it_it_goes_with_its_record() {
    let aside = set_aside();
    match aside.end(clean()) {
        End::Removed { discarded, release } => {
            assert_eq!((discarded.entries, release), (5, Release::Dropped(NonEmpty::of("k".into()))));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!((aside.world.names().len(), aside.listed().len(), aside.has_record()), (0, 0, false));
    assert_eq!(aside.world.recover().recovered, []);
}

#[test]
fn an_owner_that_came_back_gets_it_back() {
    let aside = set_aside();
    assert!(matches!(aside.end(owned()), End::PutBack(Verdict::Referenced(_))));
    aside.assert_back();
}

#[test]
fn what_was_written_meanwhile_goes_back_too() {
    let aside = set_aside();
    let loss = Loss { channel: Channel("untracked"), what: "new".into(), fingerprint: Digest::of_bytes(b"new") };
    let unsaved = evidence(Observed::Known(Vec::new()), Answer::Losses(NonEmpty::of(loss)));
    assert!(matches!(aside.end(unsaved), End::PutBack(Verdict::Orphaned(_))));
    aside.assert_back();
}

#[test]
fn an_owner_that_came_back_and_began_anew_keeps_both() {
    let aside = set_aside();
    let fresh = aside.world.make_clone("a");
    assert!(matches!(aside.end(owned()), End::Occupied(Verdict::Referenced(_))));
    assert!(exists(fresh.join("file")) && exists(aside.trash.join("file")));
    assert_eq!(aside.listed().len(), 1);
    remove(fresh);
    assert!(matches!(aside.end(owned()), End::PutBack(_)));
    aside.assert_back();
}

#[test]
fn an_owner_that_cannot_be_asked_keeps_it_where_it_is() {
    let aside = set_aside();
    let blind = Blind { signal: Signal::Owner, why: "locked".into() };
    let unseen = aside.end(evidence(Observed::Unknown(blind), Answer::Nothing));
    assert!(matches!(unseen, End::Unseen(Verdict::Undetermined(_))));
    aside.assert_still_aside();
    let lost = || SourceLost { source_id: SourceId("test".into()), why: "gone".into() };
    let expiries = aside.expire(UNTIL, || Err(lost()));
    assert_eq!(expiries.stop, Some(StopReason::SourceLost { source: lost().source_id, why: "gone".into() }));
    assert_eq!(expiries.expired[0].end, End::Left("cannot ask test: gone".into()));
    aside.assert_still_aside();
}

#[test]
fn a_launch_in_progress_and_a_lock_on_the_tree_keep_it_where_it_is() {
    let aside = set_aside();
    let lock = aside.world.cache().join("launch-locks/a.lock");
    let held = Flock::file(&lock);
    let why = format!("{} is held by somebody else", lock.display());
    assert_eq!(aside.end(clean()), End::Left(why));
    assert_eq!(aside.restore(), Err(NotRestored::Busy { lock: lock.display().to_string() }));
    drop(held);
    let held = Flock::directory(&aside.trash);
    assert_eq!(aside.end(clean()), End::Left("somebody holds a lock (flock) on it".into()));
    drop(held);
    aside.assert_still_aside();
}

#[test]
fn a_mount_inside_keeps_it_where_it_is() {
    let aside = set_aside();
    write(aside.world.base().join("outside/precious"), "only copy");
    let at = aside.trash.join("dir");
    let mounted = Mounted::bind(&aside.world.base().join("outside"), &at);
    assert_eq!(aside.end(clean()), End::Left(format!("{}: something is mounted here", at.display())));
    drop(mounted);
    aside.assert_still_aside();
    assert!(exists(aside.world.base().join("outside/precious")));
}

#[test]
fn what_is_stuck_when_its_grace_is_over_is_named_and_the_next_start_finishes_it() {
    let aside = set_aside();
    let frozen = Immutable::set(&aside.trash.join("dir/inner"), aside.world.base());
    let begun = format!("{}-discard", aside.trash.display());
    match aside.end(clean()) {
        End::Refused { discarded, refusals } => {
            let why = "Operation not permitted (os error 1): it is immutable";
            assert_eq!(refusals, NonEmpty::of(refusal(PathBuf::from(&begun).join("dir/inner"), why)));
            assert_eq!(discarded.entries, 2);
        }
        other => panic!("{other:?}"),
    }
    assert!(aside.has_record());
    assert!(matches!(aside.world.recover().recovered[..], [Recovered::Unfinished { .. }]));
    drop(frozen);
    assert!(matches!(aside.world.recover().recovered[..], [Recovered::Finished { .. }]));
    assert_eq!((aside.world.names().len(), aside.listed().len(), aside.has_record()), (0, 0, false));
}

#[test]
fn a_person_gets_it_back_at_any_time() {
    let aside = set_aside();
    assert_eq!(aside.restore().map(|set_aside| set_aside.candidate.path), Ok(aside.world.clone("a")));
    aside.assert_back();
    assert_eq!(aside.restore(), Err(NotRestored::Unknown(IntentId(1))));
}

#[test]
fn what_took_its_name_is_not_replaced() {
    let aside = set_aside();
    let fresh = aside.world.clone("a");
    for make in [mkdir, |path: PathBuf| write(path, "")] {
        make(fresh.clone());
        let occupied = NotRestored::Occupied { path: fresh.clone(), trash: aside.trash.clone() };
        assert_eq!(aside.restore(), Err(occupied));
        remove(&fresh);
    }
    aside.assert_still_aside();
}

#[test]
fn another_directory_in_its_place_is_neither_restored_nor_discarded() {
    let aside = set_aside();
    rename(&aside.trash, aside.world.base().join("moved"));
    write(aside.trash.join("precious"), "only copy");
    let why = "it is not the directory the journal names".to_owned();
    assert_eq!(aside.end(clean()), End::Left(why.clone()));
    assert_eq!(aside.restore(), Err(NotRestored::Odd { trash: aside.trash.clone(), why: why.clone() }));
    let told = aside.world.recover().recovered;
    assert_eq!(told, [Recovered::Undecided { path: aside.trash.clone(), why }]);
    assert!(exists(aside.trash.join("precious")));
}

#[test]
fn what_was_put_back_or_removed_by_hand_is_written_off() {
    let aside = set_aside();
    rename(&aside.trash, aside.world.clone("a"));
    assert_eq!(aside.world.recover().recovered, [Recovered::PutBack { path: aside.world.clone("a") }]);
    aside.assert_back();
    let aside = set_aside();
    remove(&aside.trash);
    let release = Release::Dropped(NonEmpty::of("k".into()));
    assert_eq!(aside.world.recover().recovered, [Recovered::Gone { path: aside.world.clone("a"), release }]);
    assert_eq!(aside.listed().len(), 0);
}

#[test]
fn a_crash_between_the_second_look_and_its_record_puts_it_back() {
    let aside = set_aside();
    // As if the line that says so had never been written.
    let journal = aside.world.state().join("journal.ndjson");
    let text = String::from_utf8(read(&journal)).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.contains("\"settled\"")).collect();
    write(&journal, lines.join("\n") + "\n");
    assert_eq!(aside.listed(), []);
    assert_eq!(aside.world.recover().recovered, [Recovered::PutBack { path: aside.world.clone("a") }]);
    aside.assert_back();
}

#[test]
fn a_halt_ends_the_pass_before_the_next() {
    let aside = set_aside();
    let mut journal = aside.world.journal();
    let reclaimer = aside.world.reclaimer(&journal);
    let mut locks = DevlaunchLocks::new(&aside.world.cache());
    let look = |_: &SetAside, _: &OpenWorkspace| panic!("asked");
    let halt = || Some(StopReason::Cancelled);
    let expiries = expire(&mut journal, &reclaimer, &mut locks, (&policy(), UNTIL), look, halt);
    assert_eq!((expiries.expired.len(), expiries.stop), (0, Some(StopReason::Cancelled)));
}
