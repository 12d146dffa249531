//! What the configuration promises, on real files: precedence, bounds, floors, secrets, the preset and its variables.

use std::ffi::OsString;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use derelict_observe::postgres::Asking;
use derelict_observe::roots::Shape;
use derelict_observe::table::IdScheme;
use proptest::prelude::*;

use crate::config::layers::Layers;
use crate::config::{Config, Owner, Sources, load, schema};
use crate::reaper::record::Mode;

const DAY: u64 = 86_400;

/// A root that lacks nothing.
const ROOT: &str = "[roots.ws]\npath = \"/srv/ws\"\nlayout = \"checkout\"\nminimum_age = \"90d\"\nowner = \"none\"\n";

/// A root of the preset.
const PAPERCLIP: &str = "[roots.pc]\npath = \"/pc\"\npreset = \"paperclip\"\nowner = \"postgres\"\n";

struct World {
    directory: tempfile::TempDir,
    environment: Vec<(OsString, OsString)>,
}

impl World {
    fn new() -> Self {
        let environment = vec![("DATABASE_URL".into(), "postgres://u:hunter2@h/d".into())];
        Self { directory: tempfile::tempdir().expect("because a temporary directory can be made"), environment }
    }

    fn file(self, name: &str, content: &str) -> Self {
        std::fs::write(self.path(name), content).expect("because it can be written");
        std::fs::set_permissions(self.path(name), Permissions::from_mode(0o644)).expect("because it is ours");
        self
    }

    fn var(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn sources(&self) -> Sources {
        Sources {
            system: self.path("system"),
            user: Some(self.path("user")),
            named: Some(self.path("named")).filter(|named| named.exists()),
            environment: self.environment.clone(),
            uid: rustix::process::geteuid().as_raw(),
        }
    }

    fn load(&self) -> Config {
        load(&self.sources()).unwrap_or_else(|errors| panic!("{errors}"))
    }

    /// What is wrong, with the names of files only.
    fn wrong(&self) -> Vec<String> {
        let told = load(&self.sources()).expect_err("because something is wrong").to_string();
        let here = format!("{}/", self.directory.path().display());
        told.lines().map(|line| line.replace(&here, "")).collect()
    }
}

/// What is wrong with one file.
fn wrong(content: &str) -> Vec<String> {
    World::new().file("user", content).wrong()
}

#[test]
fn the_environment_wins_over_a_named_file_that_over_the_users_and_that_over_the_systems() {
    let interval = |world: &World| world.load().roots[0].interval.as_secs() / 3600;
    let world = World::new().file("system", &format!("{ROOT}interval = \"1h\"\n"));
    assert_eq!(interval(&world), 1);
    let world = world.file("user", "[roots.ws]\ninterval = \"2h\"\n");
    assert_eq!(interval(&world), 2);
    let world = world.file("named", "[roots.ws]\ninterval = \"3h\"\n");
    assert_eq!(interval(&world), 3);
    assert_eq!(interval(&world.var("DERELICT_ROOTS_WS_INTERVAL", "4h")), 4);
}

#[test]
fn a_root_has_the_documented_defaults_and_only_reports() {
    let config = World::new().file("user", ROOT).load();
    let [root] = &config.roots[..] else { panic!("{:?}", config.roots) };
    assert_eq!((root.mode, root.limits.removals, root.grace), (Mode::Report, Some(200), Duration::ZERO));
    assert_eq!((root.idle.as_secs(), root.interval.as_secs(), root.deadline.as_secs()), (30 * DAY, DAY, 6 * 3600));
    assert_eq!((root.shape.clone(), root.lock_key.as_str()), (Shape::Checkout, "/srv/ws"));
    assert!(matches!(root.owner, Owner::Nobody));
    assert_eq!(World::new().load().roots.len(), 0);
}

#[test]
fn every_complaint_names_place_key_value_and_bound_and_all_are_told_at_once() {
    let text = format!(
        "{ROOT}interval = \"1m\"\nidel = \"3d\"\narmed = 1\ngrace = \"-1d\"\n[roots.ws.limits]\nremovals = 0\n"
    );
    let expected = [
        "user:6: roots.ws.interval = \"1m\": it has to be at least 5m",
        "user:7: roots.ws.idel: there is no such key; did you mean `roots.*.idle`?",
        "user:8: roots.ws.armed = 1: it has to be true or false",
        "user:9: roots.ws.grace = \"-1d\": it has to be a span of time such as 30d, 12h, 15m or 90s",
        "user:11: roots.ws.limits.removals = 0: it has to be a whole number from 1 to 1000000",
    ];
    let mut told = wrong(&text);
    told.sort_by_key(|line| line.split(':').nth(1).and_then(|number| number.parse::<u32>().ok()));
    assert_eq!(told, expected);
}

#[test]
fn what_only_looks_like_a_value_is_none() {
    let told = wrong(&format!("{ROOT}armed = \"true\"\nlock_key = \"\"\n"));
    assert_eq!(
        told,
        [
            "user:6: roots.ws.armed = \"true\": it has to be true or false, without quotation marks",
            "user:7: roots.ws.lock_key = \"\": it is empty",
        ]
    );
    let told = wrong(&ROOT.replace("90d", "0s"));
    assert_eq!(told[0], "user:4: roots.ws.minimum_age = \"0s\": it has to be at least 1h");
    for schema in ["public", "pg_catalog", "information_schema"] {
        let ledger = format!("{ROOT}[ledger]\nkind = \"postgres\"\nurl_file = \"/nowhere\"\nschema = \"{schema}\"\n");
        let told = wrong(&ledger);
        assert!(told.iter().any(|line| line.contains("a schema of the ledger's own")), "{told:?}");
    }
}

#[test]
fn what_has_to_be_there_is_asked_for() {
    let told = wrong("[roots.ws]\nlayout = \"checkout\"\nowner = \"none\"\n");
    assert_eq!(told, ["roots.ws.path: a root needs a path"]);
    let told = wrong("[roots.ws]\npath = \"/w\"\nlayout = \"checkout\"\n");
    assert_eq!(told, ["roots.ws.owner: a root needs an owner source; there is no default"]);
    let told = wrong("[roots.ws]\npath = \"/w\"\nlayout = \"checkout\"\nowner = \"none\"\n");
    assert_eq!(told, ["roots.ws.minimum_age: where nobody is asked the age decides, and has to be given"]);
    let told = wrong("[roots.ws]\npath = \"/w\"\nminimum_age = \"9d\"\nowner = \"none\"\n");
    assert_eq!(
        told,
        ["roots.ws.layout: a root needs a layout: `checkout`, or the directories and files it consists of"]
    );
}

#[test]
fn words_about_checkouts_are_checked_and_need_a_root_where_checkouts_lie() {
    let words = |root: &str, words: &str| format!("{root}{words}\n");
    let fine = words(ROOT, "ignore_changes = [\"pixi.lock\"]\nrebuildable = [\"out=BUILD\"]");
    let root = World::new().file("user", &fine).load().roots[0].clone();
    assert_eq!(root.ignored_changes.texts().collect::<Vec<_>>(), ["pixi.lock"]);
    assert_eq!(root.rebuildable.texts().collect::<Vec<_>>(), ["out=BUILD"]);
    let told = wrong(&words(ROOT, "ignore_changes = [\"a\", \"*\"]\nrebuildable = [\"out\"]"));
    assert!(told[0].ends_with("the pattern \"*\" of ignored changes would ignore every change"), "{told:?}");
    assert!(
        told[1].ends_with("the entry \"out\" of rebuildable directories has no witness; write DIR=WITNESS"),
        "{told:?}"
    );
    let told = wrong(&PAPERCLIP.replace("owner", "ignore_changes = [\"a\"]\nowner"));
    assert!(told[0].contains("only a checkout has changes to ignore"), "{told:?}");
}

#[test]
fn a_root_inside_another_would_be_judged_by_two_policies() {
    let told = wrong(&format!("{ROOT}{}", ROOT.replace("roots.ws", "roots.in").replace("/srv/ws", "/srv/ws/in")));
    assert_eq!(told, ["user:7: roots.in.path = \"/srv/ws/in\": it lies at or below the root ws"]);
}

#[test]
fn floors_stand_in_the_systems_file_only_and_nothing_weaker_gets_below_them() {
    let floors = "[floors]\nidle = \"20d\"\nminimum_age = \"100d\"\nremovals = 50\n";
    let world = World::new().file("system", floors).file("user", ROOT).var("DERELICT_ROOTS_WS_IDLE", "10d");
    assert_eq!(
        world.wrong(),
        [
            "DERELICT_ROOTS_WS_IDLE: roots.ws.idle = \"10d\": it has to be at least 20d, by system:2",
            "user:4: roots.ws.minimum_age = \"90d\": it has to be at least 100d, by system:3",
        ]
    );
    assert_eq!(
        wrong("[floors]\nidle = \"1d\"\n"),
        ["user:1: floors: floors can be set in /etc/derelict/config.toml only"]
    );
    let by_variable = World::new().var("DERELICT_FLOORS_IDLE", "1d").wrong();
    assert_eq!(by_variable, ["DERELICT_FLOORS_IDLE: floors can be set in /etc/derelict/config.toml only"]);
}

#[test]
fn a_ceiling_caps_what_nobody_asked_for_and_refuses_what_somebody_did() {
    let capped = World::new().file("system", "[floors]\nremovals = 50\n").file("user", ROOT);
    assert_eq!(capped.load().roots[0].limits.removals, Some(50));
    let asked = capped.var("DERELICT_ROOTS_WS_LIMITS_REMOVALS", "51").wrong();
    let why = "roots.ws.limits.removals = \"51\": it has to be at most 50, by system:2";
    assert_eq!(asked, [format!("DERELICT_ROOTS_WS_LIMITS_REMOVALS: {why}")]);
}

#[test]
fn a_unit_may_name_the_systems_file_which_keeps_its_floors() {
    let world = World::new().file("system", &format!("[floors]\nremovals = 50\n{ROOT}"));
    let sources = Sources { named: Some(world.path("system")), ..world.sources() };
    let config = load(&sources).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(config.roots[0].limits.removals, Some(50));
}

#[test]
fn a_file_that_others_can_write_is_not_read() {
    let world = World::new().file("user", ROOT);
    for mode in [0o664, 0o646, 0o666] {
        std::fs::set_permissions(world.path("user"), Permissions::from_mode(mode)).expect("because it is ours");
        let told = world.wrong();
        assert_eq!(told, ["user: others may write it; a tool that deletes does not take its orders from there"]);
    }
    std::fs::set_permissions(world.path("user"), Permissions::from_mode(0o600)).expect("because it is ours");
    std::os::unix::fs::chown(world.path("user"), Some(65_534), None).expect("because tests run as root");
    assert_eq!(world.wrong(), ["user: it belongs to user 65534; only root's files and your own are read"]);
}

#[test]
fn secrets_are_refused_in_files_and_never_repeated() {
    let text = format!("{PAPERCLIP}[roots.x.owner]\npassword = \"hunter2\"\nurl = \"postgres://u:hunter2@h/d\"\n");
    let told = wrong(&text).join("\n");
    assert!(told.contains("password: secrets do not belong into the configuration; use `password_file`"), "{told}");
    assert!(told.contains("url: secrets do not belong into the configuration; use `url_file` or `url_env`"), "{told}");
    assert!(!told.contains("hunter2"), "{told}");
    let world = World::new().file("user", PAPERCLIP);
    let shown = schema::as_toml(&schema::in_force(&Layers::read(&world.sources()))).join("\n");
    assert!(!format!("{shown}{:?}", world.load()).contains("hunter2"), "{shown}");
    let broken = World::new()
        .file("user", PAPERCLIP)
        .var("DERELICT_ROOTS_PC_OWNER_URL_ENV", "ODD")
        .var("ODD", "mysql://hunter2");
    assert!(!broken.wrong().join("\n").contains("hunter2"));
}

#[test]
fn the_preset_has_its_own_layout_ids_queries_and_floor() {
    let config = World::new().file("user", PAPERCLIP).load();
    let root = &config.roots[0];
    assert!(matches!(&root.owner, Owner::Postgres { asking: Asking::Paperclip { schema: None }, .. }));
    let Shape::Exactly { entries, worktree_homes } = &root.shape else { panic!("{:?}", root.shape) };
    assert_eq!(entries.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["home", "session"]);
    assert_eq!(worktree_homes.len(), 2);
    assert_eq!((root.idle, root.minimum_age), (Duration::from_secs(30 * DAY), Duration::from_secs(30 * DAY)));
    let told = wrong(&PAPERCLIP.replace("owner", "idle = \"6d\"\nids = \"text\"\nowner"));
    assert_eq!(
        told,
        [
            "user:4: roots.pc.idle = \"6d\": with a preset it has to be at least 7d",
            "user:5: roots.pc.ids = \"text\": the ids of the preset are uuids",
        ]
    );
}

#[test]
fn where_a_row_is_missing_the_age_has_the_presets_floor_too() {
    let told = wrong(&PAPERCLIP.replace("owner", "minimum_age = \"2h\"\nowner"));
    assert_eq!(told, ["user:4: roots.pc.minimum_age = \"2h\": with a preset it has to be at least 7d"]);
}

#[test]
fn what_looks_like_an_address_with_a_password_is_not_repeated() {
    let told = wrong(&PAPERCLIP.replace("\"postgres\"", "\"postgres://u:hunter2@h/d\""));
    assert!(told[0].contains("roots.pc.owner.kind = ***: it has to be one of"), "{told:?}");
}

#[test]
fn one_directory_under_two_names_is_one_root() {
    let world = World::new();
    std::fs::create_dir(world.path("ws")).expect("because it can be made");
    std::os::unix::fs::symlink("ws", world.path("link")).expect("because it can be made");
    let root = |name: &str, path: PathBuf| ROOT.replace("roots.ws", name).replace("/srv/ws", &path.to_string_lossy());
    let both = root("roots.a", world.path("ws")) + &root("roots.b", world.path("link"));
    let told = world.file("user", &both).wrong();
    assert_eq!(told.len(), 2, "each lies at the other: {told:?}");
}

#[test]
fn bounds_that_the_deployment_did_not_set_leave_those_of_the_file() {
    let text = PAPERCLIP.replace("owner", "idle = \"90d\"\nlimits = { removals = 3 }\nowner");
    let root = deployed(&[("ENABLED", "true")]).file("user", &text).load().roots[0].clone();
    assert_eq!((root.mode, root.idle.as_secs(), root.limits.removals), (Mode::Armed, 90 * DAY, Some(3)));
}

const PREFIX: &str = "PAPERCLIP_ISOLATION_WORKSPACE_REAPER_";

fn deployed(variables: &[(&str, &str)]) -> World {
    let world = World::new().file("user", PAPERCLIP);
    variables.iter().fold(world, |world, (name, value)| world.var(&format!("{PREFIX}{name}"), value))
}

#[test]
fn only_exactly_true_arms_that_deployments_reaper() {
    for (enabled, dry_run, mode) in [
        (Some("true"), None, Mode::Armed),
        (Some("true"), Some("false"), Mode::Armed),
        (Some("true"), Some("true"), Mode::Report),
        (Some("TRUE"), None, Mode::Report),
        (Some("1"), None, Mode::Report),
        (Some(""), None, Mode::Report),
        (None, Some("false"), Mode::Report),
    ] {
        let set = [("ENABLED", enabled), ("DRY_RUN", dry_run)];
        let set: Vec<_> = set.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        assert_eq!(deployed(&set).load().roots[0].mode, mode, "{set:?}");
    }
}

#[test]
fn that_deployments_numbers_have_its_defaults_its_floor_and_no_nonsense() {
    let root = deployed(&[("ENABLED", "true")]).load().roots[0].clone();
    assert_eq!((root.interval.as_secs(), root.idle.as_secs(), root.limits.removals), (DAY, 30 * DAY, Some(200)));
    let set = [("ENABLED", "true"), ("INTERVAL_MINUTES", "90"), ("MAX_AGE_DAYS", "3"), ("MAX_DELETES_PER_TICK", "5.9")];
    let root = deployed(&set).load().roots[0].clone();
    assert_eq!((root.interval.as_secs(), root.idle.as_secs(), root.limits.removals), (5400, 7 * DAY, Some(5)));
    for nonsense in ["0", "-1", "NaN", "inf", "Infinity", "", "ten", "0x10"] {
        let told = deployed(&[("ENABLED", "true"), ("MAX_AGE_DAYS", nonsense)]).wrong();
        let expected = format!("{PREFIX}MAX_AGE_DAYS = \"{nonsense}\": it has to be a finite positive number");
        assert_eq!(told, [expected], "{nonsense}");
    }
    let ours = deployed(&[("ENABLED", "true"), ("MAX_AGE_DAYS", "40")]).var("DERELICT_ROOTS_PC_IDLE", "50d").load();
    assert_eq!(ours.roots[0].idle.as_secs(), 50 * DAY, "our own variables are stronger");
}

#[test]
fn without_a_root_that_deployment_gets_the_one_it_is_meant_for() {
    let enabled = World::new().var(&format!("{PREFIX}ENABLED"), "true").load();
    let [root] = &enabled.roots[..] else { panic!("{:?}", enabled.roots) };
    assert_eq!(root.path, PathBuf::from("/paperclip/instances/default/data/k8s-isolation/workspaces"));
    assert_eq!((root.name.as_str(), root.mode), ("paperclip", Mode::Armed));
    assert_eq!(World::new().var(&format!("{PREFIX}ENABLED"), "false").load().roots.len(), 0);
}

#[test]
fn a_variable_that_no_key_has_is_refused_and_one_that_two_roots_have_too() {
    assert_eq!(World::new().var("DERELICT_LOG_COLOUR", "x").wrong(), ["DERELICT_LOG_COLOUR: no key has this variable"]);
    let twins = format!("{}{}", ROOT.replace("ws", "a-b"), ROOT.replace("ws", "a_b").replace("/srv/a_b", "/other"));
    let told = World::new().file("user", &twins).var("DERELICT_ROOTS_A_B_ARMED", "true").wrong();
    assert_eq!(told, ["DERELICT_ROOTS_A_B_ARMED: it could mean the roots a-b and a_b"]);
    let made = World::new()
        .var("DERELICT_ROOTS_NEW_PATH", "/new")
        .var("DERELICT_ROOTS_NEW_LAYOUT_DIRECTORIES", "home, session")
        .var("DERELICT_ROOTS_NEW_IDS", "uuid")
        .var("DERELICT_ROOTS_NEW_OWNER", "sqlite")
        .var("DERELICT_ROOTS_NEW_OWNER_PATH", "/db")
        .var("DERELICT_ROOTS_NEW_OWNER_QUERY", "select 1")
        .load();
    assert!(matches!(&made.roots[0].owner, Owner::Sqlite(sqlite) if sqlite.ids == IdScheme::Uuid));
}

#[test]
fn the_example_is_one() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/derelict.toml");
    let example = std::fs::read_to_string(example).expect("because it is part of the tree");
    let config = World::new().file("user", &example).load();
    let names: Vec<_> = config.roots.iter().map(|root| root.name.as_str()).collect();
    assert_eq!(names, ["ci", "paperclip", "sandboxes", "scratch"]);
    assert!(config.roots.iter().all(|root| root.mode == Mode::Report));
}

#[test]
fn the_schema_has_every_key_and_refuses_others() {
    let schema = schema::schema();
    let root = &schema["properties"]["roots"]["additionalProperties"];
    assert_eq!(root["properties"]["idle"]["default"], "30d");
    assert_eq!(root["properties"]["limits"]["properties"]["removals"]["maximum"], 1_000_000);
    assert_eq!(root["properties"]["armed"]["default"], false);
    assert_eq!((&schema["additionalProperties"], &root["additionalProperties"]), (&false.into(), &false.into()));
}

proptest! {
    #[test]
    fn no_bytes_at_all_make_the_loader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let world = World::new().file("user", "");
        std::fs::write(world.path("user"), bytes).expect("because it can be written");
        drop(load(&world.sources()));
    }

    #[test]
    fn no_text_in_the_place_of_a_value_makes_the_loader_panic(text in "\\PC{0,40}") {
        let world = World::new().file("user", ROOT).var("DERELICT_ROOTS_WS_IDLE", &text).var("DERELICT_ROOTS_WS_PATH", &text);
        drop(load(&world.sources()));
    }
}
