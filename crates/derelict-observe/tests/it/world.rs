//! A small devlaunch cache with a devpod that is a shell script, and guards for what tests leave behind.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use derelict_core::evidence::{ClaimedPath, Evidence, Holder, Observed};
use derelict_core::ids::Timestamp;
use derelict_core::survey::Sighting;
use derelict_observe::{Cache, Depth, DevlaunchObserver, Environment, Located, Survey, Terms};

/// 2026-08-02 at 12:00 UTC.
pub(crate) const NOW: Timestamp = Timestamp::new(1_785_672_000, 0);

pub(crate) struct World {
    _directory: tempfile::TempDir,
    pub(crate) root: PathBuf,
}

impl World {
    /// A cache with these clones, as plain directories: `owner/repository/name`. Nobody is alive.
    pub(crate) fn new(clones: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("because a temporary directory can be made");
        let root = std::fs::canonicalize(directory.path()).unwrap();
        let world = Self { _directory: directory, root };
        for path in ["home", "bin", "cache/devlaunch/repos"] {
            std::fs::create_dir_all(world.root.join(path)).unwrap();
        }
        for clone in clones {
            std::fs::create_dir_all(world.clone(clone)).unwrap();
        }
        world.file("cache/devlaunch/metadata.json", r#"{"version":3,"repositories":{},"worktrees":{}}"#);
        world.devpod(&format!("echo \"$*\" >>{0}/asked; cat {0}/list.json", world.root.display()));
        world.list("[]");
        world
    }

    pub(crate) fn clone(&self, below: &str) -> PathBuf {
        self.root.join("cache/devlaunch/repos").join(below)
    }

    pub(crate) fn file(&self, path: impl AsRef<Path>, content: &str) {
        let path = self.root.join(path);
        std::fs::create_dir_all(path.parent().expect("because the root is above it")).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// What `devpod` does.
    pub(crate) fn devpod(&self, script: &str) {
        self.file("devpod.source", &format!("#!/bin/sh\n{script}\n"));
        let (source, program) = (self.root.join("devpod.source"), self.root.join("bin/devpod"));
        // A process of its own makes the copy that is run: what another thread of ours starts meanwhile
        // inherits our descriptors for an instant, and a file that is open for writing cannot be run.
        assert!(Command::new("cp").args([&source, &program]).status().unwrap().success());
        std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// What `devpod list --output json` prints.
    pub(crate) fn list(&self, content: &str) {
        self.file("list.json", content);
    }

    /// A listing of workspaces with folders.
    pub(crate) fn live(&self, workspaces: &[(&str, &Path)]) {
        let elements = workspaces.iter().map(|(id, folder)| workspace(id, folder));
        self.list(&format!("[{}]", elements.collect::<Vec<_>>().join(",")));
    }

    /// The workspace file of one context.
    pub(crate) fn workspace_file(&self, context: &str, id: &str, content: &str) {
        self.file(format!("home/.devpod/contexts/{context}/workspaces/{id}/workspace.json"), content);
    }

    /// Records: key, path, workspace id, devpod's id.
    pub(crate) fn records(&self, records: &[(&str, &Path, &str, &str)]) {
        let entries = records.iter().map(|(key, path, workspace, devpod)| {
            let path = path.display();
            format!(
                r#""{key}":{{"local_path":"{path}","workspace_id":"{workspace}","devpod_workspace_id":"{devpod}"}}"#
            )
        });
        let entries = entries.collect::<Vec<_>>().join(",");
        self.file("cache/devlaunch/metadata.json", &format!(r#"{{"version":3,"worktrees":{{{entries}}}}}"#));
    }

    pub(crate) fn environment(&self) -> Environment {
        let system = std::env::var_os("PATH").unwrap();
        let path = std::env::split_paths(&system);
        Environment {
            home: Some(self.root.join("home")),
            xdg_cache_home: Some(self.root.join("cache")),
            devpod_home: None,
            xdg_config_home: None,
            ssh_auth_sock: None,
            path: Some(std::env::join_paths(std::iter::once(self.root.join("bin")).chain(path)).unwrap()),
            uid: rustix::process::geteuid().as_raw(),
        }
    }

    pub(crate) fn cache(&self, argument: Option<&Path>) -> Cache {
        match Cache::locate(argument, &self.environment()).unwrap() {
            Located::Cache(cache) => cache,
            Located::Nothing { place } => panic!("no cache at {}", place.display()),
        }
    }

    pub(crate) fn observer(&self) -> DevlaunchObserver {
        DevlaunchObserver::new(self.cache(None), self.environment(), Terms::NONE, NOW)
    }

    pub(crate) fn survey(&self) -> Survey {
        self.observer().survey(Depth::Verdict, &|_| ()).unwrap()
    }

    /// What the owner sources make of each clone.
    pub(crate) fn owned(&self) -> BTreeMap<String, &'static str> {
        words(&self.survey())
    }
}

pub(crate) fn workspace(id: &str, folder: &Path) -> String {
    format!(r#"{{"id":"{id}","source":{{"localFolder":"{}"}},"context":"default"}}"#, folder.display())
}

pub(crate) fn words(survey: &Survey) -> BTreeMap<String, &'static str> {
    survey.sightings.iter().map(|seen| (leaf(seen), word(&seen.evidence))).collect()
}

fn leaf(seen: &Sighting) -> String {
    String::from_utf8_lossy(seen.candidate.name.as_bytes()).into_owned()
}

/// What core's `judge` would make of the owner sources alone.
pub(crate) fn word(evidence: &Evidence) -> &'static str {
    let mut claims = evidence.sources().iter().flat_map(|report| match &report.claims {
        Observed::Known(claims) => claims.as_slice(),
        Observed::Unknown(_) => &[],
    });
    let mut disputed = false;
    if claims.any(|claim| match &claim.at {
        ClaimedPath::Here | ClaimedPath::Within | ClaimedPath::Above => true,
        ClaimedPath::Elsewhere(_) => {
            disputed = true;
            false
        }
    }) {
        return "referenced";
    }
    if disputed {
        return "disputed";
    }
    let known = evidence.sources().iter().all(|report| matches!(report.claims, Observed::Known(_)));
    if known { "nobody" } else { "blind" }
}

/// The evidence of one clone.
pub(crate) fn of<'s>(survey: &'s Survey, name: &str) -> &'s Sighting {
    survey.sightings.iter().find(|seen| leaf(seen) == name).expect("because the clone exists")
}

/// Who uses a directory. The tests of this binary run beside each other and start children; between
/// fork and exec such a child has copies of all our descriptors, and the name of our thread. Only
/// processes that run what these tests run are asked about. A test's mount namespace has copies of the
/// mounts of all others: those are told by [`holders_in_namespace`].
pub(crate) fn holders(evidence: &Evidence) -> Vec<Holder> {
    let Observed::Known(holders) = &evidence.uses else { panic!("{:?}", evidence.uses) };
    let started = |holder: &&Holder| match holder {
        Holder::Process { by, .. } if by.ends_with(NAMESPACE) => false,
        Holder::Process { command, .. } => ["sleep", "program"].contains(&command.as_str()),
        Holder::System(_)
        | Holder::Mount(_)
        | Holder::DirectoryLock
        | Holder::GitLock(_)
        | Holder::Marker(_)
        | Holder::Dependent(_) => true,
    };
    holders.iter().filter(started).cloned().collect()
}

/// How the use by a mount in a process's namespace ends.
const NAMESPACE: &str = "in its namespace";

/// By what the mounts of one process's namespace use a directory.
pub(crate) fn holders_in_namespace(evidence: &Evidence, of: &Process) -> Vec<String> {
    let Observed::Known(holders) = &evidence.uses else { panic!("{:?}", evidence.uses) };
    let by = |holder: &Holder| match holder {
        Holder::Process { pid, by, .. } if *pid == of.pid() && by.ends_with(NAMESPACE) => Some(by.clone()),
        Holder::Process { .. }
        | Holder::System(_)
        | Holder::Mount(_)
        | Holder::DirectoryLock
        | Holder::GitLock(_)
        | Holder::Marker(_)
        | Holder::Dependent(_) => None,
    };
    holders.iter().filter_map(by).collect()
}

/// An environment in which nothing is to be found.
pub(crate) fn nowhere() -> Environment {
    Environment {
        home: None,
        xdg_cache_home: None,
        devpod_home: None,
        xdg_config_home: None,
        ssh_auth_sock: None,
        path: None,
        uid: 0,
    }
}

/// A child that ends with the test.
pub(crate) struct Process(Child);

impl Process {
    /// Starts a program and waits until it runs.
    pub(crate) fn start(command: &mut Command) -> Self {
        let name = Path::new(command.get_program()).file_name().expect("because it is a program").to_os_string();
        Self(command.spawn().unwrap()).running(name.to_str().expect("because its name is text"))
    }

    /// The same for a script that prints a byte when it is about to become `sleep`.
    pub(crate) fn ready(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdout.as_mut().expect("because it is a pipe").read_exact(&mut [0]).unwrap();
        Self(child).running("sleep")
    }

    /// A child is handed out a little before the kernel gives it its new name.
    fn running(self, name: &str) -> Self {
        let comm = format!("/proc/{}/comm", self.pid());
        while std::fs::read_to_string(&comm).unwrap().trim_end() != name {
            std::thread::yield_now();
        }
        self
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A shell that does one thing after another and sleeps in between; it ends with the test.
pub(crate) struct Shell(Child);

impl Shell {
    pub(crate) fn start() -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", "while read -r line; do eval \"$line\"; echo; done"]);
        Self(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap())
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Returns when it is done.
    pub(crate) fn does(&mut self, what: &str) {
        writeln!(self.0.stdin.as_mut().unwrap(), "{what}").unwrap();
        self.0.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A bind mount that ends with the test.
pub(crate) struct Mounted(PathBuf);

impl Mounted {
    pub(crate) fn bind(source: &Path, target: &Path) -> Self {
        rustix::mount::mount_bind(source, target).unwrap();
        Self(target.to_path_buf())
    }

    /// An overlay, by the words of `mount -o`.
    pub(crate) fn overlay(options: &str, target: &Path) -> Self {
        let mut mount = Command::new("mount");
        assert!(mount.args(["-t", "overlay", "-o", options, "none"]).arg(target).status().unwrap().success());
        Self(target.to_path_buf())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // The temporary directory could not be removed below a mount that stayed; that would show.
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

/// A loop device that is detached with the test.
pub(crate) struct LoopDevice(String);

impl LoopDevice {
    pub(crate) fn of(image: &Path) -> Self {
        let found = Command::new("losetup").args(["--find", "--show"]).arg(image).output().unwrap();
        assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
        Self(String::from_utf8(found.stdout).unwrap().trim_end().to_owned())
    }

    /// Its name without the directory of devices.
    pub(crate) fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        // One that stayed would show: its image's clone would be held.
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

/// Stock git, without anybody's configuration.
pub(crate) fn git(directory: &Path, arguments: &[&str]) {
    let mut command = Command::new("git");
    command
        .current_dir(directory)
        .args(arguments)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null");
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "t").env(format!("GIT_{who}_EMAIL"), "t@example.org");
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}
