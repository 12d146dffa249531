//! Who uses a clone now.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use derelict_core::evidence::Holder;
use derelict_observe::{Depth, DevlaunchObserver, ProcessView, Survey, Terms};

use crate::world::{Mounted, NOW, Process, World, holders, of};

fn sleeping() -> Command {
    let mut command = Command::new("sleep");
    command.arg("600").stdin(Stdio::null());
    command
}

fn process(process: &Process, by: &str, command: &str) -> Holder {
    Holder::Process { pid: process.pid(), by: by.into(), command: command.into() }
}

#[test]
fn a_process_inside_holds_the_clone_until_it_ends() {
    let world = World::new(&["o/r/cwd/deep", "o/r/file", "o/r/exe", "o/r/free"]);
    let cwd = Process::start(sleeping().current_dir(world.clone("o/r/cwd/deep")));
    std::fs::write(world.clone("o/r/file/open"), "").unwrap();
    let open = File::open(world.clone("o/r/file/open")).unwrap();
    let file = Process::start(sleeping().stdin(open));
    let program = world.clone("o/r/exe/program");
    std::fs::copy("/bin/sleep", &program).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let exe = Process::start(Command::new(&program).arg("600"));
    let survey = world.survey();
    assert_eq!(holders(&of(&survey, "cwd").evidence), [process(&cwd, "cwd", "sleep")]);
    assert_eq!(holders(&of(&survey, "file").evidence), [process(&file, "fd 0", "sleep")]);
    assert_eq!(holders(&of(&survey, "exe").evidence), [process(&exe, "exe", "program")]);
    assert_eq!(holders(&of(&survey, "free").evidence), Vec::new());
    drop((cwd, file, exe));
    let survey = world.survey();
    for name in ["cwd", "file", "exe"] {
        assert_eq!(holders(&of(&survey, name).evidence), Vec::new(), "{name}");
    }
}

#[test]
fn a_process_in_another_mount_namespace_is_seen_by_identity() {
    let world = World::new(&["o/r/a/sub"]);
    let inside = world.root.join("inside");
    std::fs::create_dir(&inside).unwrap();
    let script = format!(
        "mount --bind {} {} && cd {}/sub && echo && exec sleep 600",
        world.clone("o/r/a").display(),
        inside.display(),
        inside.display()
    );
    let other = Process::ready(Command::new("unshare").args(["--mount", "sh", "-c", &script]));
    let survey = world.survey();
    assert_eq!(holders(&of(&survey, "a").evidence), [process(&other, "cwd", "sleep")]);
}

#[test]
fn a_mount_inside_or_at_the_clone_holds_it() {
    let world = World::new(&["o/r/inside/m", "o/r/at", "o/r/free"]);
    std::fs::create_dir(world.root.join("source")).unwrap();
    let inside = Mounted::bind(&world.root.join("source"), &world.clone("o/r/inside/m"));
    let at = Mounted::bind(&world.root.join("source"), &world.clone("o/r/at"));
    let survey = world.survey();
    assert_eq!(holders(&of(&survey, "inside").evidence), [Holder::Mount(world.clone("o/r/inside/m"))]);
    assert_eq!(holders(&of(&survey, "at").evidence), [Holder::Mount(world.clone("o/r/at"))]);
    assert_eq!(holders(&of(&survey, "free").evidence), Vec::new());
    drop((inside, at));
    let survey = world.survey();
    assert_eq!(holders(&of(&survey, "inside").evidence), Vec::new());
    assert_eq!(holders(&of(&survey, "at").evidence), Vec::new());
}

#[test]
fn a_lock_on_the_directory_holds_it_and_our_own_does_not() {
    let world = World::new(&["o/r/theirs", "o/r/ours"]);
    let ours = File::open(world.clone("o/r/ours")).unwrap();
    rustix::fs::flock(ours.as_fd(), rustix::fs::FlockOperation::LockExclusive).unwrap();
    let mut lock = Command::new("flock");
    lock.arg("--no-fork").arg(world.clone("o/r/theirs")).args(["sh", "-c", "echo; exec sleep 600"]);
    let theirs = Process::ready(&mut lock);
    let survey = world.survey();
    assert!(holders(&of(&survey, "theirs").evidence).contains(&Holder::DirectoryLock));
    assert_eq!(holders(&of(&survey, "ours").evidence), Vec::new());
    drop(theirs);
    assert_eq!(holders(&of(&world.survey(), "theirs").evidence), Vec::new());
}

#[test]
fn a_marker_holds_until_its_day() {
    let world = World::new(&["o/r/kept", "o/r/over", "o/r/free"]);
    std::fs::write(world.clone("o/r/kept/.derelict-keep"), "reason: demo\nuntil: 2026-08-02\n").unwrap();
    std::fs::write(world.clone("o/r/over/.derelict-keep"), "reason: demo\nuntil: 2026-08-01\n").unwrap();
    let survey = world.survey();
    assert_eq!(holders(&of(&survey, "kept").evidence), [Holder::Marker("demo".into())]);
    assert_eq!(holders(&of(&survey, "over").evidence), Vec::new());
    assert_eq!(holders(&of(&survey, "free").evidence), Vec::new());
}

#[test]
fn processes_that_may_not_be_inspected_are_counted() {
    let world = World::new(&["o/r/a"]);
    // A machine may have processes that even its root may not inspect.
    let before = unseen(&world.survey());
    for path in [world.root.clone(), world.root.join("asked")] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    let root = Process::start(sleeping().current_dir(world.clone("o/r/a")));
    let (cache, environment) = (world.cache(None), world.environment());
    // The credentials of a thread are its own on Linux, so only this one loses its rights.
    let looked = std::thread::spawn(move || {
        let nobody = rustix::fs::Uid::from_raw(65_534);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        DevlaunchObserver::new(cache, environment, Terms::NONE, NOW).survey(Depth::Verdict, &|_| ())
    });
    let survey = looked.join().unwrap().unwrap();
    assert!(unseen(&survey) > before);
    assert_eq!(holders(&of(&survey, "a").evidence), Vec::new());
    drop(root);
}

fn unseen(survey: &Survey) -> u64 {
    match survey.disclosures.processes {
        Some(ProcessView::Whole) => 0,
        Some(ProcessView::Partly { unseen }) => unseen,
        Some(ProcessView::Hidden) | None => panic!("{:?}", survey.disclosures.processes),
    }
}
