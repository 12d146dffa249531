//! Who uses a clone now.

use std::fs::File;
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use derelict_core::evidence::Holder;
use derelict_observe::{Depth, DevlaunchObserver, ProcessView, Survey, Terms};

use crate::world::{LoopDevice, Mounted, NOW, Process, World, holders, holders_in_namespace, of};

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
    assert!(holders(&of(&survey, "inside").evidence).contains(&Holder::Mount(world.clone("o/r/inside/m"))));
    assert!(holders(&of(&survey, "at").evidence).contains(&Holder::Mount(world.clone("o/r/at"))));
    assert_eq!(holders(&of(&survey, "free").evidence), Vec::new());
    drop((inside, at));
    let survey = world.survey();
    assert_eq!(holders(&of(&survey, "inside").evidence), Vec::new());
    assert_eq!(holders(&of(&survey, "at").evidence), Vec::new());
}

#[test]
fn a_directory_that_is_only_mounted_elsewhere_is_in_use() {
    let world = World::new(&["o/r/whole", "o/r/part/deep", "o/r/theirs", "o/r/free"]);
    let points: Vec<_> = ["whole", "part", "theirs"].map(|name| world.root.join(name)).into();
    points.iter().for_each(|point| std::fs::create_dir(point).unwrap());
    let whole = Mounted::bind(&world.clone("o/r/whole"), &points[0]);
    let part = Mounted::bind(&world.clone("o/r/part/deep"), &points[1]);
    let script = format!(
        "mount --bind {} {} && cd / && echo && exec sleep 600",
        world.clone("o/r/theirs").display(),
        points[2].display()
    );
    let other = Process::ready(Command::new("unshare").args(["--mount", "sh", "-c", &script]));
    let survey = world.survey();
    let shown = |point: &std::path::Path| Holder::System(format!("something of it is mounted at {}", point.display()));
    assert_eq!(holders(&of(&survey, "whole").evidence), [shown(&points[0])]);
    assert_eq!(holders(&of(&survey, "part").evidence), [shown(&points[1])]);
    assert_eq!(holders_in_namespace(&of(&survey, "theirs").evidence, &other), ["a mount of it in its namespace"]);
    assert_eq!(holders(&of(&survey, "free").evidence), Vec::new());
    drop((whole, part, other));
    for name in ["whole", "part", "theirs"] {
        assert_eq!(holders(&of(&world.survey(), name).evidence), Vec::new(), "{name}");
    }
}

#[test]
fn a_layer_of_an_overlay_holds_the_clone() {
    let world = World::new(&["o/r/lower/deep", "o/r/upper", "o/r/theirs", "o/r/free"]);
    for name in ["point", "work", "there"] {
        std::fs::create_dir(world.root.join(name)).unwrap();
    }
    std::fs::create_dir(world.clone("o/r/upper/up")).unwrap();
    std::fs::create_dir(world.clone("o/r/upper/work")).unwrap();
    let point = world.root.join("point");
    let (lower, upper) = (world.clone("o/r/lower/deep"), world.clone("o/r/upper"));
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        lower.display(),
        upper.join("up").display(),
        upper.join("work").display()
    );
    let overlay = Mounted::overlay(&options, &point);
    let theirs = world.clone("o/r/theirs");
    let script = format!(
        "mount -t overlay -o lowerdir={}:{} none {} && cd / && echo && exec sleep 600",
        theirs.display(),
        world.root.join("work").display(),
        world.root.join("there").display()
    );
    let other = Process::ready(Command::new("unshare").args(["--mount", "sh", "-c", &script]));
    let survey = world.survey();
    let held = Holder::System(format!("the overlay at {} has a layer in it", point.display()));
    assert_eq!(holders(&of(&survey, "lower").evidence), std::slice::from_ref(&held));
    assert!(holders(&of(&survey, "upper").evidence).contains(&held));
    let layer = ["a layer of an overlay in its namespace"];
    assert_eq!(holders_in_namespace(&of(&survey, "theirs").evidence, &other), layer);
    assert_eq!(holders(&of(&survey, "free").evidence), Vec::new());
    drop((overlay, other));
}

#[test]
fn a_file_under_a_loop_device_and_a_bound_socket_hold_the_clone() {
    let world = World::new(&["o/r/looped", "o/r/bound", "o/r/stale", "o/r/free"]);
    let image = world.clone("o/r/looped/image");
    File::create(&image).unwrap().set_len(1 << 20).unwrap();
    let device = LoopDevice::of(&image);
    let bound = std::os::unix::net::UnixListener::bind(world.clone("o/r/bound/s")).unwrap();
    drop(std::os::unix::net::UnixListener::bind(world.clone("o/r/stale/s")).unwrap());
    let survey = world.survey();
    let held = Holder::System(format!("the device {} stands on a file in it", device.name()));
    assert_eq!(holders(&of(&survey, "looped").evidence), [held]);
    let held = Holder::System("a program has bound a socket in it".into());
    assert_eq!(holders(&of(&survey, "bound").evidence), [held]);
    assert_eq!(holders(&of(&survey, "stale").evidence), Vec::new());
    assert_eq!(holders(&of(&survey, "free").evidence), Vec::new());
    drop((device, bound));
    for name in ["looped", "bound"] {
        assert_eq!(holders(&of(&world.survey(), name).evidence), Vec::new(), "{name}");
    }
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
