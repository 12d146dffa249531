//! Owners that a real command prints.

use std::path::PathBuf;
use std::time::Duration;

use derelict_core::ids::{SourceId, Timestamp};
use derelict_observe::command::{CommandOwners, CommandSettings};
use derelict_observe::table::{IdScheme, Leadership, OwnerTable as _, Row};
use derelict_testkit::Scratch;
use derelict_testkit::scratch::{read, write, write_script};

const SOON: Duration = Duration::from_secs(20);

struct World {
    scratch: Scratch,
}

impl World {
    /// A command that does this.
    fn new(body: &str) -> Self {
        let world = Self { scratch: Scratch::new() };
        write_script(world.program(), body);
        world
    }

    fn program(&self) -> PathBuf {
        self.scratch.path().join("owners")
    }

    fn settings(&self) -> CommandSettings {
        CommandSettings {
            program: self.program(),
            arguments: vec!["--all of them".into(), "$(id)".into()],
            ids: IdScheme::Text,
            timeout: SOON,
            output_limit: 1 << 20,
        }
    }

    fn owners(&self) -> CommandOwners {
        CommandOwners::new(SourceId("rows".into()), self.settings())
    }

    fn refusal(&self, settings: CommandSettings) -> String {
        let mut owners = CommandOwners::new(SourceId("rows".into()), settings);
        let lost = owners.connect().and_then(|()| owners.row("a")).unwrap_err();
        assert_eq!(lost.source_id, SourceId("rows".into()));
        lost.why.replace(&self.program().display().to_string(), "PROGRAM")
    }
}

fn row(id: &str, seconds: Option<i64>, held: Option<&str>) -> Row {
    let last_used_at = seconds.map(|seconds| Timestamp::new(seconds, 0));
    Row { id: id.into(), last_used_at, held: held.map(Into::into) }
}

#[test]
fn the_list_is_printed_anew_for_the_sweep_and_for_each_re_check() {
    let world = World::new("cat; cat \"${0%/*}/list\"; printf '%s,' \"$@\" >> \"${0%/*}/calls\"\n");
    let list = world.scratch.path().join("list");
    write(
        &list,
        "{\"id\":\"a\",\"last_used_at\":\"2023-11-14T22:13:20Z\"}\n{\"id\":\"b\",\"last_used_at\":null,\"held\":true}\n",
    );
    let mut owners = world.owners();
    owners.connect().unwrap();
    let ids = ["a", "b", "c"].map(str::to_owned);
    let snapshot = owners.rows(&ids).unwrap();
    assert_eq!(
        (snapshot.rows, snapshot.clock),
        (vec![row("a", Some(1_700_000_000), None), row("b", None, Some("held"))], None)
    );
    write(&list, "{\"id\":\"a\",\"last_used_at\":\"2023-11-14T22:13:21Z\"}\n");
    assert_eq!(owners.row("a").unwrap(), [row("a", Some(1_700_000_001), None)]);
    assert_eq!(owners.row("b").unwrap(), []);
    assert_eq!(owners.lead("/srv").unwrap(), Leadership::NoneOfItsBusiness);
    assert!(owners.lock("a").unwrap().is_none());
    // Arguments go as they are: no shell reads them.
    assert_eq!(String::from_utf8(read(world.scratch.path().join("calls"))).unwrap(), "--all of them,$(id),".repeat(3));
}

#[test]
fn a_command_that_fails_hangs_or_prints_too_much_loses_the_source() {
    let world = World::new("echo '{\"id\":\"a\",\"last_used_at\":null}'; echo 'no route' >&2; exit 3\n");
    assert_eq!(world.refusal(world.settings()), "PROGRAM failed with exit status: 3: no route");
    let world = World::new("exec sleep 600\n");
    let hasty = CommandSettings { timeout: Duration::from_millis(200), ..world.settings() };
    assert_eq!(world.refusal(hasty), "PROGRAM did not finish within 0.2 seconds and was ended");
    let world = World::new("while :; do echo '{\"id\":\"a\",\"last_used_at\":null}'; done\n");
    let tight = CommandSettings { output_limit: 1000, ..world.settings() };
    assert_eq!(world.refusal(tight), "PROGRAM printed more than 1000 bytes and was ended");
    let nowhere = CommandSettings { program: "/nowhere/owners".into(), ..world.settings() };
    assert_eq!(world.refusal(nowhere), "cannot start /nowhere/owners: No such file or directory (os error 2)");
    let relative = CommandSettings { program: "./owners".into(), ..world.settings() };
    assert_eq!(world.refusal(relative), "./owners is neither an absolute path nor a name without a slash");
}

#[test]
fn a_bad_line_loses_the_source_by_its_number() {
    let world = World::new("echo '{\"id\":\"a\",\"last_used_at\":null}'; echo 'cannot list b'; exit 0\n");
    let why = world.refusal(world.settings());
    assert_eq!(why, "line 2 of what PROGRAM printed is no JSON: a syntax error at column 1");
    let world = World::new("printf '{\"id\":\"a\",\"last_used_at\":null,\"hold\":1}'\n");
    let why = world.refusal(world.settings());
    assert_eq!(why, "line 1 of what PROGRAM printed has a key `hold`, which is none of id, last_used_at, held, reason");
}
