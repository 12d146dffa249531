//! Roots whose owners are rows: what is seen of each kind of directory, and what is seen again. The table is one in
//! memory; real databases have tests of their own.

use std::collections::HashMap;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use derelict_core::evidence::{Candidate, Evidence, Holder, Layout, Lease, Observed};
use derelict_core::ids::{SourceId, Timestamp};
use derelict_core::outcome::{Fate, FateName};
use derelict_core::policy::{Policy, Window};
use derelict_core::ports::{LockBusy, SourceLost};
use derelict_core::verdict::judge;
use derelict_observe::Terms;
use derelict_observe::roots::{EntryKind, Expected, NotSurveyed, Owners, RootObserver, RootSpec, RootSurvey, Shape};
use derelict_observe::table::{IdScheme, Leadership, OwnerTable, Row, RowLock, Snapshot};

use crate::world::Shell;

const NOW: Timestamp = Timestamp::new(2_000_000_000, 0);
const DAY: Duration = Duration::from_secs(86_400);
const POLICY: Policy =
    Policy { window: Window::Idle(DAY.saturating_mul(30)), minimum_age: DAY.saturating_mul(30), clock_tolerance: DAY };

#[derive(Debug, Clone, Default)]
struct InMemory(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    rows: HashMap<String, Vec<Row>>,
    lost: bool,
    batches: usize,
}

impl InMemory {
    fn set(&self, id: &str, last_used_at: Option<Timestamp>, held: Option<&str>) {
        let row = Row { id: id.to_owned(), last_used_at, held: held.map(str::to_owned) };
        self.0.lock().unwrap().rows.entry(id.to_owned()).or_default().push(row);
    }

    fn lost(&self) -> Result<(), SourceLost> {
        let lost = SourceLost { source_id: SourceId("rows".into()), why: "gone".into() };
        if self.0.lock().unwrap().lost { Err(lost) } else { Ok(()) }
    }
}

impl OwnerTable for InMemory {
    fn ids(&self) -> IdScheme {
        IdScheme::Uuid
    }

    fn connect(&mut self) -> Result<(), SourceLost> {
        self.lost()
    }

    fn lead(&mut self, _: &str) -> Result<Leadership, SourceLost> {
        Ok(Leadership::NoneOfItsBusiness)
    }

    fn rows(&mut self, ids: &[String]) -> Result<Snapshot, SourceLost> {
        self.lost()?;
        let mut table = self.0.lock().unwrap();
        table.batches += 1;
        let rows = ids.iter().filter_map(|id| table.rows.get(id)).flatten().cloned().collect();
        Ok(Snapshot { rows, clock: Some(NOW) })
    }

    fn row(&mut self, id: &str) -> Result<Vec<Row>, SourceLost> {
        self.lost()?;
        Ok(self.0.lock().unwrap().rows.get(id).cloned().unwrap_or_default())
    }

    fn lock(&mut self, _: &str) -> Result<Option<Box<dyn RowLock>>, LockBusy> {
        Ok(None)
    }
}

struct World {
    directory: tempfile::TempDir,
    table: InMemory,
}

fn id(n: u32) -> String {
    format!("00000000-0000-4000-8000-{n:012}")
}

impl World {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), table: InMemory::default() }
    }

    fn root(&self) -> &Path {
        self.directory.path()
    }

    /// A workspace that was made this long ago.
    fn workspace(&self, name: &str, below: &[&str], age: Duration) -> PathBuf {
        let path = self.root().join(name);
        for below in below {
            std::fs::create_dir_all(path.join(below)).unwrap();
        }
        let made = std::time::UNIX_EPOCH + Duration::from_secs(u64::try_from(NOW.before(age).seconds()).unwrap());
        std::fs::File::open(&path).unwrap().set_modified(made).unwrap();
        path
    }

    fn plain(&self, n: u32) -> PathBuf {
        self.workspace(&id(n), &["home", "session"], 60 * DAY)
    }

    fn observer(&self, owners: Owners) -> RootObserver {
        let entry = |name: &str| Expected { name: name.into(), kind: EntryKind::Directory };
        let shape = Shape::Exactly { entries: vec![entry("home"), entry("session")], worktree_homes: Vec::new() };
        let spec = RootSpec {
            path: self.root().canonicalize().unwrap(),
            source: SourceId("rows".into()),
            shape,
            terms: Terms::NONE,
            environment: crate::world::nowhere(),
            cutoff: NOW.before(30 * DAY),
        };
        RootObserver::new(spec, owners, NOW)
    }

    fn table(&self) -> Owners {
        Owners::Table(Arc::new(Mutex::new(Box::new(self.table.clone()))))
    }

    fn survey(&self) -> (RootObserver, RootSurvey) {
        let mut observer = self.observer(self.table());
        let survey = observer.survey(|| NOW, &|_| {}).unwrap();
        (observer, survey)
    }
}

fn fates(survey: &RootSurvey) -> Vec<(String, FateName)> {
    let fate = |evidence| Fate::Kept(judge(evidence, &POLICY, NOW)).name();
    let named = survey
        .sightings
        .iter()
        .map(|sighting| (sighting.candidate.below_root.to_str().unwrap().to_owned(), fate(&sighting.evidence)));
    named.collect()
}

fn look(observer: &mut RootObserver, candidate: &Candidate) -> Result<Evidence, SourceLost> {
    observer.look_again(candidate, std::fs::File::open(&candidate.path).unwrap().as_fd())
}

#[test]
fn each_kind_of_directory_is_named_for_what_keeps_it() {
    let world = World::new();
    for n in 0..9 {
        world.plain(n);
    }
    world.table.set(&id(1), Some(NOW.before(60 * DAY)), None);
    world.table.set(&id(2), Some(NOW.before(30 * DAY)), None);
    world.table.set(&id(3), None, None);
    world.table.set(&id(4), Some(NOW.before(60 * DAY)), Some("run 7 is running"));
    world.table.set(&id(5), Some(NOW.before(60 * DAY)), None);
    world.table.set(&id(5), Some(NOW), None);
    world.table.set(&id(6), None, Some("held"));
    world.table.set(&id(7), Some(NOW.before(60 * DAY)), None);
    world.table.set(&id(7), None, None);
    world.workspace(&id(8), &["home", "session", "wt-1"], 60 * DAY);
    world.workspace(&id(9), &["home/src/x/.git", "session"], 60 * DAY);
    world.workspace(&id(10), &["home", "session"], 2 * DAY);
    world.workspace("notes", &["home", "session"], 60 * DAY);
    std::fs::write(world.root().join("file"), "").unwrap();
    let (_, survey) = world.survey();
    let expected = [
        (id(0), FateName::Removable),
        (id(1), FateName::Removable),
        (id(2), FateName::Referenced),
        (id(3), FateName::Undetermined),
        (id(4), FateName::RetainedLeased),
        (id(5), FateName::Referenced),
        (id(6), FateName::RetainedLeased),
        (id(7), FateName::RetainedLeased),
        (id(8), FateName::SkippedLayout),
        (id(9), FateName::RetainedNestedCheckout),
        (id(10), FateName::RetainedFresh),
        ("notes".to_owned(), FateName::Undetermined),
    ];
    assert_eq!(fates(&survey), expected);
    assert_eq!((survey.owners, survey.skipped.len()), (Some(7), 1));
    assert_eq!(world.table.0.lock().unwrap().batches, 1);
}

#[test]
fn an_upper_case_directory_belongs_to_the_lower_case_row() {
    let world = World::new();
    let lower = "abcdef00-0000-4000-8000-000000000001";
    world.workspace(&lower.to_uppercase(), &["home", "session"], 60 * DAY);
    world.table.set(lower, Some(NOW), None);
    let (_, survey) = world.survey();
    assert_eq!(fates(&survey), [(lower.to_uppercase(), FateName::Referenced)]);
}

#[test]
fn a_row_that_was_refreshed_since_is_seen_by_the_re_check_and_by_the_second_look() {
    let world = World::new();
    world.plain(0);
    world.table.set(&id(0), Some(NOW.before(60 * DAY)), None);
    let (mut observer, survey) = world.survey();
    let candidate = survey.sightings[0].candidate.clone();
    let first = look(&mut observer, &candidate).unwrap();
    assert_eq!(Fate::Kept(judge(&first, &POLICY, NOW)).name(), FateName::Removable);
    world.table.0.lock().unwrap().rows.clear();
    world.table.set(&id(0), Some(NOW), None);
    let dir = std::fs::File::open(&candidate.path).unwrap();
    let second = observer.second_look(&candidate, dir.as_fd(), &first).unwrap();
    assert!(matches!(&second.sources()[0].claims, Observed::Known(claims) if claims[0].lease == Lease::LastUsed(NOW)));
    assert_eq!(Fate::Kept(judge(&second, &POLICY, NOW)).name(), FateName::Referenced);
    let again = look(&mut observer, &candidate).unwrap();
    assert_eq!(Fate::Kept(judge(&again, &POLICY, NOW)).name(), FateName::Referenced);
}

#[test]
fn what_is_written_between_the_re_check_and_the_second_look_keeps_it() {
    let world = World::new();
    let path = world.plain(0);
    let (mut observer, survey) = world.survey();
    let candidate = survey.sightings[0].candidate.clone();
    let first = look(&mut observer, &candidate).unwrap();
    let dir = std::fs::File::open(&path).unwrap();
    let quiet = observer.second_look(&candidate, dir.as_fd(), &first).unwrap();
    assert_eq!((&quiet.layout, quiet.digest()), (&Observed::Known(Layout::Expected), first.digest()));
    std::fs::write(path.join("home/late"), "work").unwrap();
    let second = observer.second_look(&candidate, dir.as_fd(), &first).unwrap();
    assert_eq!(Fate::Kept(judge(&second, &POLICY, NOW)).name(), FateName::Undetermined);
}

#[test]
fn a_process_that_slept_through_every_look_is_seen_when_it_opens_something() {
    let world = World::new();
    let path = world.plain(0);
    let mut shell = Shell::start();
    let (mut observer, survey) = world.survey();
    let candidate = survey.sightings[0].candidate.clone();
    let first = look(&mut observer, &candidate).unwrap();
    let dir = std::fs::File::open(&path).unwrap();
    let used = [Holder::Process { pid: shell.pid(), by: "fd 3".into(), command: "sh".into() }];
    // Children of other tests have copies of our descriptors for an instant.
    let mut users = || match observer.second_look(&candidate, dir.as_fd(), &first).unwrap().uses {
        Observed::Known(users) => users.into_iter().filter(|user| used.contains(user)).collect::<Vec<_>>(),
        Observed::Unknown(blind) => panic!("{blind:?}"),
    };
    for _ in 0..20 {
        assert_eq!((users(), users()), (vec![], vec![]));
        shell.does(&format!("exec 3< {}/home", path.display()));
        assert_eq!((users().as_slice(), users().as_slice()), (&used[..], &used[..]));
        shell.does("exec 3<&-");
    }
}

#[test]
fn a_lost_source_and_an_absent_root_are_two_things() {
    let world = World::new();
    world.plain(0);
    let (mut observer, survey) = world.survey();
    world.table.0.lock().unwrap().lost = true;
    assert!(look(&mut observer, &survey.sightings[0].candidate).is_err());
    let lost = world.observer(world.table()).survey(|| NOW, &|_| {}).unwrap_err();
    assert!(matches!(lost, NotSurveyed::SourceLost(_)), "{lost}");
    let mut observer = world.observer(Owners::Nobody);
    std::fs::remove_dir_all(world.root()).unwrap();
    let absent = observer.survey(|| NOW, &|_| {}).unwrap_err();
    assert!(matches!(absent, NotSurveyed::RootAbsent { .. }), "{absent}");
}

#[test]
fn where_nobody_is_asked_age_and_layout_decide() {
    let world = World::new();
    world.plain(0);
    world.workspace("any name", &["home", "session"], 31 * DAY);
    world.workspace("young", &["home", "session"], 29 * DAY);
    let survey = world.observer(Owners::Nobody).survey(|| NOW, &|_| {}).unwrap();
    let expected = [
        (id(0), FateName::Removable),
        ("any name".to_owned(), FateName::Removable),
        ("young".to_owned(), FateName::RetainedFresh),
    ];
    assert_eq!((fates(&survey).as_slice(), survey.owners), (&expected[..], None));
}

#[test]
fn a_mount_or_a_process_inside_keeps_it() {
    let world = World::new();
    let path = world.plain(0);
    let mut inside = std::process::Command::new("cat")
        .current_dir(path.join("home"))
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let (_, survey) = world.survey();
    drop(inside.stdin.take());
    inside.wait().unwrap();
    assert_eq!(fates(&survey), [(id(0), FateName::RetainedInUse)]);
    let (_, survey) = world.survey();
    assert_eq!(fates(&survey), [(id(0), FateName::Removable)]);
}
