//! The demo's estate: an upstream, a devlaunch cache with one clone for each thing a clone can be, and a `devpod` that
//! lists who lives. All in one temporary directory. Not here: what becomes of it.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use derelict_observe::{Environment, GitFiles};
use serde_json::{Value, json};

use super::git::git;
use crate::host::Host;

/// The one repository of the estate.
const REPOSITORY: &str = "acme/shop";

/// A build output that can be built again, so that there is something to reclaim: its size in bytes.
const REBUILDABLE: usize = 3_000_000;

/// How often a free name in the temporary directory is looked for.
const ATTEMPTS: u32 = 100;

/// Room for the longest id.
pub(crate) const ID_COLUMNS: usize = 14;

/// One clone of the estate.
pub(crate) struct Workspace {
    /// Its name.
    pub(crate) id: &'static str,
    /// What it is, for people.
    pub(crate) story: &'static str,
    kind: Kind,
}

enum Kind {
    Living,
    Finished,
    Changed,
    Moved,
    Nested,
    Secret,
}

/// What the estate consists of.
pub(crate) const WORKSPACES: [Workspace; 7] = [
    Workspace { id: "shop-main", story: "a living workspace opens it", kind: Kind::Living },
    Workspace { id: "shop-checkout", story: "its workspace is gone, everything was pushed", kind: Kind::Finished },
    Workspace { id: "shop-search", story: "its workspace is gone, everything was pushed", kind: Kind::Finished },
    Workspace {
        id: "shop-idea",
        story: "its workspace is gone, a file was changed and another added",
        kind: Kind::Changed,
    },
    Workspace { id: "shop-moved", story: "its workspace lives, but says it lives elsewhere", kind: Kind::Moved },
    Workspace { id: "shop-vendored", story: "another repository inside has a commit of its own", kind: Kind::Nested },
    Workspace { id: "shop-secret", story: "everything was pushed but an ignored .env", kind: Kind::Secret },
];

/// An estate that was built.
#[derive(Debug)]
pub(crate) struct Estate {
    /// The directory that holds all of it.
    pub(crate) root: PathBuf,
}

impl Estate {
    /// A machine on which nothing but the estate exists.
    pub(crate) fn host(&self) -> Host {
        Host {
            environment: Environment {
                home: Some(self.root.join("home")),
                xdg_cache_home: Some(self.root.join("cache")),
                devpod_home: Some(self.root.join("devpod")),
                xdg_config_home: None,
                ssh_auth_sock: None,
                path: Some(self.root.join("bin").into_os_string()),
                uid: rustix::process::geteuid().as_raw(),
            },
            git: GitFiles::NONE,
            state_home: Some(self.root.join("state")),
            state_directory: None,
        }
    }

    fn cache(&self) -> PathBuf {
        self.root.join("cache/devlaunch")
    }

    fn repository(&self) -> PathBuf {
        self.cache().join("repos").join(REPOSITORY)
    }

    fn clone_of(&self, workspace: &Workspace) -> PathBuf {
        self.repository().join(workspace.id)
    }

    fn upstream(&self) -> PathBuf {
        self.root.join("upstream/shop.git")
    }

    fn elsewhere(&self) -> PathBuf {
        self.root.join("home/shop-moved")
    }
}

/// Builds it.
///
/// # Errors
/// When there is no git, or when something cannot be written.
pub(crate) fn build() -> anyhow::Result<Estate> {
    let root = fresh_directory(&std::env::temp_dir())?;
    let estate = Estate { root };
    for directory in ["home/shop-moved", "devpod", "bin", "state", "upstream", "seed"] {
        create(&estate.root.join(directory))?;
    }
    create(&estate.repository())?;
    build_upstream(&estate)?;
    for workspace in &WORKSPACES {
        build_clone(&estate, workspace)?;
    }
    write(&estate.cache().join("metadata.json"), &pretty(&records(&estate)))?;
    write(&estate.root.join("bin/living.json"), &living(&estate).to_string())?;
    install_devpod(&estate.root.join("bin/devpod"))?;
    Ok(estate)
}

fn fresh_directory(parent: &Path) -> anyhow::Result<PathBuf> {
    let parent = parent.canonicalize().with_context(|| format!("cannot find {}", parent.display()))?;
    let mut last = None;
    for attempt in 0..ATTEMPTS {
        let path = parent.join(format!("derelict-demo-{}-{attempt}", std::process::id()));
        // Nobody else's directory is ever taken over: creating fails if there is one, a symbolic link included.
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) => last = Some(error),
        }
    }
    let error = last.expect("because at least one attempt was made");
    Err(error).with_context(|| format!("cannot make a directory in {}", parent.display()))
}

/// The upstream and the bare cache that the clones share.
fn build_upstream(estate: &Estate) -> anyhow::Result<()> {
    let seed = estate.root.join("seed");
    git(&seed, &["init", "-q", "-b", "main"])?;
    write(&seed.join("shop.txt"), "apples\npears\n")?;
    write(&seed.join("package.json"), "{ \"name\": \"shop\" }\n")?;
    write(&seed.join(".gitignore"), "node_modules/\nvendor/\n.env\n")?;
    git(&seed, &["add", "-A"])?;
    git(&seed, &["commit", "-q", "-m", "Open the shop"])?;
    let (seed, upstream) = (seed.as_os_str(), estate.upstream());
    git(&estate.root, &["clone".as_ref(), "-q".as_ref(), "--bare".as_ref(), seed, upstream.as_os_str()])?;
    let bare = estate.repository().join(".bare");
    git(&estate.root, &["clone".as_ref(), "-q".as_ref(), "--bare".as_ref(), upstream.as_os_str(), bare.as_os_str()])?;
    write(&estate.repository().join(".lock"), "")
}

fn build_clone(estate: &Estate, workspace: &Workspace) -> anyhow::Result<()> {
    let clone = estate.clone_of(workspace);
    let bare = estate.repository().join(".bare");
    git(&estate.root, &["clone".as_ref(), "-q".as_ref(), bare.as_os_str(), clone.as_os_str()])?;
    let upstream = estate.upstream();
    git(&clone, &["remote".as_ref(), "set-url".as_ref(), "origin".as_ref(), upstream.as_os_str()])?;
    match workspace.kind {
        Kind::Living | Kind::Moved => Ok(()),
        Kind::Finished => write(&clone.join("node_modules/built.bin"), &"x".repeat(REBUILDABLE)),
        Kind::Changed => {
            write(&clone.join("shop.txt"), "apples\npears\nplums\n")?;
            write(&clone.join("plan.txt"), "sell plums\n")
        }
        Kind::Nested => {
            let nested = clone.join("vendor/till");
            create(&nested)?;
            git(&nested, &["init", "-q", "-b", "main"])?;
            write(&nested.join("till.txt"), "counts\n")?;
            git(&nested, &["add", "-A"])?;
            git(&nested, &["commit", "-q", "-m", "Count the money"])
        }
        Kind::Secret => write(&clone.join(".env"), "SHOP_TOKEN=only-here\n"),
    }
}

/// devlaunch's records: one for each clone.
fn records(estate: &Estate) -> Value {
    let (owner, repo) = REPOSITORY.split_once('/').expect("because the name has an owner");
    let record = |workspace: &Workspace| {
        let devpod = match workspace.kind {
            Kind::Living | Kind::Moved => Some(workspace.id),
            Kind::Finished | Kind::Changed | Kind::Nested | Kind::Secret => None,
        };
        let value = json!({
            "owner": owner, "repo": repo, "branch": workspace.id,
            "local_path": estate.clone_of(workspace), "workspace_id": workspace.id,
            "created_at": "2026-07-01T00:00:00", "last_used": "2026-07-01T00:00:00",
            "devpod_workspace_id": devpod,
        });
        (format!("{REPOSITORY}/{}", workspace.id), value)
    };
    let worktrees: serde_json::Map<_, _> = WORKSPACES.iter().map(record).collect();
    json!({ "version": 3, "repositories": {}, "worktrees": worktrees })
}

/// What the estate's `devpod` lists.
fn living(estate: &Estate) -> Value {
    let living = WORKSPACES.iter().filter_map(|workspace| {
        let place = match workspace.kind {
            Kind::Living => estate.clone_of(workspace),
            Kind::Moved => estate.elsewhere(),
            Kind::Finished | Kind::Changed | Kind::Nested | Kind::Secret => return None,
        };
        Some(json!({ "id": workspace.id, "source": { "localFolder": place }, "context": "default" }))
    });
    living.collect()
}

/// A `devpod` that needs nothing but a shell: it prints the list beside it.
fn install_devpod(path: &Path) -> anyhow::Result<()> {
    write(
        path,
        "#!/bin/sh\nwhile IFS= read -r line || [ -n \"$line\" ]; do printf '%s\\n' \"$line\"; done <\"${0%/*}/living.json\"\n",
    )?;
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(path, mode).with_context(|| format!("cannot make {} executable", path.display()))
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

fn create(path: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))
}

fn write(path: &Path, content: &str) -> anyhow::Result<()> {
    if let Some(parent) = path.parent() {
        create(parent)?;
    }
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_fits_its_column_and_is_there_once() {
        let mut ids: Vec<_> = WORKSPACES.iter().map(|workspace| workspace.id).collect();
        assert!(ids.iter().all(|id| id.len() <= ID_COLUMNS));
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), WORKSPACES.len());
    }

    #[test]
    fn a_directory_that_is_taken_is_not_taken_over() {
        let parent = tempfile::tempdir().unwrap();
        let [first, second] = [(); 2].map(|()| fresh_directory(parent.path()).unwrap());
        assert_ne!(first, second);
    }
}
