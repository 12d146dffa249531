//! A devlaunch cache of real clones with a stub `devpod`, in a directory of its own:
//!
//! ```text
//! cache/devlaunch/repos/<owner>/<repo>/{.bare,.lock,<id>}   cache/devlaunch/metadata.json
//! upstream/<owner>/<repo>.git   home  state  config  devpod  elsewhere
//! bin/devpod                     answers `list` from devpod-list.json, and logs its arguments
//! bin/{git,docker,ssh,…}         leave a mark: the product must never start them
//! ```
//!
//! What is changed is on disk at once. Not here: the states a clone can be in ([`crate::states`])
//! and the large cache of the acceptance test ([`crate::standard`]).

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::git::{git, shell, which};
use crate::records::{self, Record};
use crate::run::Run;
use crate::scratch::{Scratch, exists, mkdir, read, set_mode, write, write_script};

/// The repository that small worlds have their clones of.
pub const REPOSITORY: &str = "acme/w";

/// The files of a clone in a small world; enough for a directory of its own, few enough to be quick.
const FEW_FILES: usize = 4;

/// Programs that the product must never start.
const FORBIDDEN: [&str; 8] = ["git", "docker", "podman", "ssh", "gpg", "less", "git-lfs", "sudo"];

/// A cache and everything around it.
#[derive(Debug)]
pub struct Cache {
    records: Vec<Record>,
    living: Vec<Value>,
    // Dropped last of all.
    scratch: Scratch,
}

impl Cache {
    /// A cache without a repository and without a living workspace.
    #[must_use]
    pub fn empty() -> Self {
        let cache = Self { records: Vec::new(), living: Vec::new(), scratch: Scratch::new() };
        for dir in ["home", "config", "devpod", "bin", "upstream", "state", "elsewhere"] {
            mkdir(cache.root().join(dir));
        }
        mkdir(cache.repos());
        cache.install_devpod();
        for name in FORBIDDEN {
            let mark = cache.root().join(format!("STARTED-{name}"));
            write_script(cache.bin().join(name), &format!("echo \"$*\" >>'{}'\nexit 1\n", mark.display()));
        }
        cache.save_records();
        cache.save_listing();
        cache
    }

    /// A cache with one repository and one living workspace that is elsewhere, so that the owner
    /// source is not empty.
    #[must_use]
    pub fn small() -> Self {
        let mut cache = Self::empty();
        cache.add_repository(REPOSITORY, FEW_FILES);
        let elsewhere = cache.elsewhere();
        cache.add_living("other", &json!({ "localFolder": elsewhere }));
        cache
    }

    /// The directory all of it is in.
    #[must_use]
    pub fn root(&self) -> &Path {
        self.scratch.path()
    }

    /// devlaunch's cache directory.
    #[must_use]
    pub fn dir(&self) -> PathBuf {
        self.root().join("cache/devlaunch")
    }

    /// The directory of the repositories.
    #[must_use]
    pub fn repos(&self) -> PathBuf {
        self.dir().join("repos")
    }

    /// The directory of one repository's clones.
    #[must_use]
    pub fn repository(&self, name: &str) -> PathBuf {
        self.repos().join(name)
    }

    /// The upstream of a repository, which its clones push to.
    #[must_use]
    pub fn upstream(&self, name: &str) -> PathBuf {
        self.root().join("upstream").join(format!("{name}.git"))
    }

    /// Where a clone of the small world's repository is or would be.
    #[must_use]
    pub fn path_of(&self, id: &str) -> PathBuf {
        self.repository(REPOSITORY).join(id)
    }

    /// The record file.
    #[must_use]
    pub fn metadata(&self) -> PathBuf {
        self.dir().join("metadata.json")
    }

    /// A launch's lock.
    #[must_use]
    pub fn launch_lock(&self, id: &str) -> PathBuf {
        self.dir().join("launch-locks").join(format!("{id}.lock"))
    }

    /// A directory outside the cache.
    #[must_use]
    pub fn elsewhere(&self) -> PathBuf {
        self.root().join("elsewhere")
    }

    /// The product's own state directory.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.root().join("state/derelict")
    }

    /// The only directory on `PATH`.
    #[must_use]
    pub fn bin(&self) -> PathBuf {
        self.root().join("bin")
    }

    /// The environment a person would run the product in.
    #[must_use]
    pub fn env(&self) -> Vec<(OsString, OsString)> {
        let below = |name: &str| self.root().join(name).into_os_string();
        let variables = [
            ("HOME", "home"),
            ("XDG_CACHE_HOME", "cache"),
            ("XDG_CONFIG_HOME", "config"),
            ("XDG_STATE_HOME", "state"),
            ("DEVPOD_HOME", "devpod"),
            ("PATH", "bin"),
        ];
        variables.map(|(name, dir)| (name.into(), below(dir))).to_vec()
    }

    /// A program in that environment.
    #[must_use]
    pub fn run(&self, program: &str, arguments: &[&str]) -> Run {
        self.env().into_iter().fold(Run::new(program).args(arguments), |run, (name, value)| run.env(name, value))
    }

    /// Adds a repository with `files` files, its upstream and its bare cache.
    ///
    /// # Panics
    /// When `name` is not `owner/repo`, or git fails.
    pub fn add_repository(&mut self, name: &str, files: usize) {
        let (seed, upstream, dir) = (self.root().join("seed"), self.upstream(name), self.repository(name));
        mkdir(&dir);
        for number in 1..=files {
            write(seed.join(format!("src/f{number}.txt")), filler(name, number));
        }
        write(seed.join("pixi.lock"), "lock: 1\n");
        write(seed.join("pixi.toml"), "[workspace]\nname = \"x\"\n");
        write(seed.join("Cargo.toml"), "[package]\nname = \"x\"\n");
        write(seed.join(".gitignore"), ".pixi/\nnode_modules/\n.claude/worktrees/\ntarget/\n.env\n");
        let script =
            "git init -q -b main; commit seed; git clone -q --bare . \"$UP\"; git clone -q --bare \"$UP\" \"$BARE\"";
        shell(&seed, script, &[("UP", &upstream), ("BARE", &dir.join(".bare"))]);
        crate::scratch::remove(&seed);
        write(dir.join(".lock"), "");
    }

    /// Adds a clone that is clean and pushed, with a rebuildable environment in it and without a
    /// record.
    pub fn add_clone(&mut self, repository: &str, branch: &str, id: &str) -> PathBuf {
        let dir = self.repository(repository);
        let clone = dir.join(id);
        let script = "git clone -q \"$BARE\" \"$CLONE\"; cd \"$CLONE\"; git remote set-url origin \"$UP\"; \
                      git checkout -q -B \"$BRANCH\"";
        let variables = [
            ("BARE", dir.join(".bare")),
            ("UP", self.upstream(repository)),
            ("CLONE", clone.clone()),
            ("BRANCH", branch.into()),
        ];
        shell(&dir, script, &variables.each_ref().map(|(name, value)| (*name, value.as_path())));
        write(clone.join(".pixi/envs/env.bin"), vec![0; 20_000]);
        clone
    }

    /// Adds a record.
    pub fn add_record(&mut self, repository: &str, branch: &str, id: &str, devpod: Option<&str>) -> Record {
        let record = Record {
            repository: repository.into(),
            branch: branch.into(),
            id: id.into(),
            local_path: self.repository(repository).join(id),
            devpod: devpod.map(str::to_owned),
        };
        self.file_record(record.clone());
        record
    }

    /// Adds a record that is as wrong as the test wants it.
    pub fn file_record(&mut self, record: Record) {
        self.records.push(record);
        self.save_records();
    }

    /// The records there are, in the order of the file.
    #[must_use]
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Adds a living workspace to devpod's listing, with this source.
    pub fn add_living(&mut self, id: &str, source: &Value) {
        let number = self.living.len();
        self.living.push(workspace(id, number, source));
        self.save_listing();
    }

    /// Takes a living workspace out of devpod's listing.
    pub fn remove_living(&mut self, id: &str) {
        self.living.retain(|workspace| workspace["id"] != id);
        self.save_listing();
    }

    /// Adds a clone and its record, owned by nobody: it may go.
    pub fn clean(&mut self, id: &str) -> PathBuf {
        let clone = self.add_clone(REPOSITORY, &format!("b/{id}"), id);
        self.add_record(REPOSITORY, &format!("b/{id}"), id, None);
        clone
    }

    /// Adds a clone, its record and a living workspace that opens it.
    pub fn live(&mut self, id: &str) -> PathBuf {
        let clone = self.add_clone(REPOSITORY, &format!("b/{id}"), id);
        self.add_record(REPOSITORY, &format!("b/{id}"), id, Some(id));
        self.add_living(id, &json!({ "localFolder": clone }));
        clone
    }

    /// Adds a clone owned by nobody with a changed tracked file.
    pub fn dirty(&mut self, id: &str) -> PathBuf {
        let clone = self.clean(id);
        write(clone.join("pixi.lock"), format!("lock: churn {id}\n"));
        clone
    }

    /// Adds a clone owned by nobody with a commit that no remote has.
    pub fn unpushed(&mut self, id: &str) -> PathBuf {
        let clone = self.clean(id);
        write(clone.join("work"), "work\n");
        commit(&clone, "work");
        clone
    }

    /// Replaces what `devpod list` prints.
    pub fn set_listing(&self, text: &str) {
        write(self.root().join("devpod-list.json"), text);
    }

    /// Makes `devpod` fail with this exit code, saying this.
    pub fn fail_devpod(&self, code: u8, says: &str) {
        self.on_listing(&format!("echo '{says}' >&2; exit {code}"));
    }

    /// Takes `devpod` off `PATH`.
    pub fn uninstall_devpod(&self) {
        crate::scratch::remove(self.bin().join("devpod"));
    }

    /// Runs this shell snippet whenever devpod is asked, before it answers. `$CALL` is the number of
    /// the call, from 1; `$PPID` is who asked; programs need absolute paths.
    pub fn on_listing(&self, snippet: &str) {
        write(self.root().join("devpod-hook.sh"), snippet);
    }

    /// What devpod was asked so far, one line of arguments each.
    #[must_use]
    pub fn devpod_calls(&self) -> Vec<String> {
        let log = self.root().join("devpod.log");
        let text = if exists(&log) { read(log) } else { Vec::new() };
        String::from_utf8(text).expect("because the stub logs text").lines().map(str::to_owned).collect()
    }

    /// Writes devpod's own file of a workspace, in a context, as devpod would.
    pub fn write_workspace_file(&self, context: &str, id: &str, source: &Value) -> PathBuf {
        let path = self.workspace_file(context, id);
        write(&path, workspace(id, 0, source).to_string());
        path
    }

    /// Where devpod keeps its own file of a workspace.
    #[must_use]
    pub fn workspace_file(&self, context: &str, id: &str) -> PathBuf {
        self.root().join("devpod/contexts").join(context).join("workspaces").join(id).join("workspace.json")
    }

    /// The names of the forbidden programs that were started.
    #[must_use]
    pub fn started_programs(&self) -> Vec<&'static str> {
        FORBIDDEN.into_iter().filter(|name| exists(self.root().join(format!("STARTED-{name}")))).collect()
    }

    /// The leaves that lie in a repository's directory, sorted, without what starts with a dot.
    ///
    /// # Panics
    /// When it cannot be listed.
    #[must_use]
    pub fn leaves(&self, repository: &str) -> Vec<String> {
        let mut leaves = self.all_leaves(repository);
        leaves.retain(|leaf| !leaf.starts_with('.'));
        leaves
    }

    /// All that lies in a repository's directory, sorted; what is not UTF-8 is printed as far as it can be.
    ///
    /// # Panics
    /// When it cannot be listed.
    #[must_use]
    pub fn all_leaves(&self, repository: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.repository(repository)).expect("because the repository is there");
        let names = entries.map(|entry| entry.expect("because it is being listed").file_name());
        let mut leaves: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
        leaves.sort();
        leaves
    }

    fn install_devpod(&self) {
        let (root, cat) = (self.root().display(), which("cat"));
        let body = format!(
            "echo \"$*\" >>'{root}/devpod.log'\n\
             CALL=0; while read -r _; do CALL=$((CALL + 1)); done <'{root}/devpod.log'\n\
             [ \"$1\" = list ] || exit 1\n\
             [ ! -e '{root}/devpod-hook.sh' ] || . '{root}/devpod-hook.sh'\n\
             exec {} '{root}/devpod-list.json'\n",
            cat.display()
        );
        write_script(self.bin().join("devpod"), &body);
        set_mode(&self.bin(), 0o755);
    }

    fn save_records(&self) {
        write(self.metadata(), records::render(&self.records));
    }

    fn save_listing(&self) {
        self.set_listing(&Value::Array(self.living.clone()).to_string());
    }
}

/// Commits everything there is in a clone.
pub fn commit(clone: &Path, message: &str) {
    git(clone, &["add", "-A"]);
    git(clone, &["commit", "-qm", message]);
}

/// A workspace as devpod describes it.
#[must_use]
pub fn workspace(id: &str, number: usize, source: &Value) -> Value {
    json!({
        "id": id, "uid": format!("default-{id}-{number}"), "provider": {"name": "docker", "options": {}},
        "machine": {}, "ide": {"name": "none"}, "source": source, "creationTimestamp": "2026-07-01T00:00:00Z",
        "lastUsed": "2026-07-20T00:00:00Z", "context": "default",
    })
}

/// Some kilobytes that are the same at each build and compress badly: a xorshift over the name.
fn filler(name: &str, number: usize) -> String {
    let mut state =
        name.bytes().fold(number as u64 + 1, |state, byte| state.wrapping_mul(31).wrapping_add(byte.into()));
    let length = 500 + number * 182 % 12_000;
    let mut text = String::with_capacity(length + length / 76);
    while text.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text.push_str(&format!("{state:016x}"));
        if text.len() % 76 < 16 {
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::git_says;

    #[test]
    fn a_small_cache_is_made_of_valid_clones() {
        let mut cache = Cache::small();
        let (clean, dirty, unpushed) = (cache.clean("c"), cache.dirty("d"), cache.unpushed("u"));
        let live = cache.live("l");
        assert_eq!(cache.leaves(REPOSITORY), ["c", "d", "l", "u"]);
        assert_eq!(git_says(&clean, &["status", "--porcelain"]), "");
        assert_eq!(git_says(&dirty, &["status", "--porcelain"]), " M pixi.lock");
        assert_eq!(git_says(&unpushed, &["log", "--format=%s", "HEAD", "--not", "--remotes"]), "work");
        assert_eq!(git_says(&live, &["branch", "--show-current"]), "b/l");
        assert_eq!(crate::records::keys(&cache.metadata()), ["acme/w/b/c", "acme/w/b/d", "acme/w/b/u", "acme/w/b/l"]);
    }

    #[test]
    fn the_stub_answers_logs_and_does_as_it_is_told() {
        let mut cache = Cache::small();
        cache.add_living("x", &json!({ "gitRepository": "https://example.org/x" }));
        let devpod = cache.bin().join("devpod").display().to_string();
        let listed = cache.run(&devpod, &["list", "--output", "json"]).finish();
        let listed: Value = serde_json::from_str(&listed.stdout).expect("because the stub prints JSON");
        let ids = [&listed[0]["id"], &listed[1]["id"]];
        assert_eq!(ids, ["other", "x"]);
        cache.on_listing("[ \"$CALL\" = 1 ] || { echo broken >&2; exit 9; }");
        assert_eq!(cache.run(&devpod, &["list"]).finish().expect_code(9).stderr, "broken\n");
        assert_eq!(cache.devpod_calls(), ["list --output json", "list"]);
        let git = cache.bin().join("git").display().to_string();
        assert_eq!(cache.run(&git, &["status"]).finish().code(), 1);
        assert_eq!(cache.started_programs(), ["git"]);
    }
}
