//! A real PostgreSQL for tests: a server of our own in a directory of its own, reached over a Unix
//! socket, and a fresh database for every test. Not here: any client but `psql`, and any table.
//!
//! [`Server::shared`] starts one server for the whole test binary; a test that stops or kills its
//! server starts one for itself with [`Server::start`]. However a test process ends, the server ends
//! with it and its directory goes: a watcher holds the reading end of a pipe whose writing end only
//! the test process has.

mod database;
mod encrypted;
mod pooler;
mod programs;

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub use self::database::Database;
pub use self::encrypted::Encrypted;
pub use self::pooler::{Lending, Pooler};
use self::programs::{WATCHER, clean, owner, run, server_programs, unprivileged};
use crate::scratch::{Scratch, read, write};

/// How long a server may take to start or to stop; it takes a second on an idle machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// How often is looked whether it has.
const GLANCE: Duration = Duration::from_millis(10);

/// What becomes of the directory when the server's watcher ends.
#[derive(Debug, Clone, Copy)]
enum AtEnd {
    Keep,
    Remove,
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    directory: PathBuf,
    /// Removes the directory of a server that is dropped; the watcher does it for the shared one.
    scratch: Option<Scratch>,
    bin: PathBuf,
    port: u16,
    options: Vec<String>,
    watcher: Option<Child>,
    databases: AtomicU32,
}

impl Server {
    /// The server that all tests of this binary share; started by the first that asks.
    ///
    /// # Panics
    /// When there is no PostgreSQL, or it does not start.
    #[must_use]
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Server> = OnceLock::new();
        SHARED.get_or_init(|| {
            let mut server = Self::prepare(&[]);
            // Nothing static is ever dropped, so the watcher removes what lies on the disk.
            std::mem::forget(server.scratch.take());
            server.launch(AtEnd::Remove);
            server
        })
    }

    /// A server for one test, reached over its socket only.
    ///
    /// # Panics
    /// When there is no PostgreSQL, or it does not start.
    #[must_use]
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// A server for one test with settings of its own, each as `name=value`.
    ///
    /// # Panics
    /// When there is no PostgreSQL, or it does not start.
    #[must_use]
    pub fn with(settings: &[&str]) -> Self {
        let mut server = Self::prepare(settings);
        server.launch(AtEnd::Keep);
        server
    }

    fn prepare(settings: &[&str]) -> Self {
        let scratch = Scratch::new();
        let directory = scratch.path().to_owned();
        if rustix::process::geteuid().is_root() {
            run(Command::new("chown").arg(owner()).arg(&directory));
        }
        let bin = server_programs();
        let data = directory.join("data");
        let mut initdb = unprivileged(&bin.join("initdb"));
        initdb.args(["--no-sync", "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C", "-D"]).arg(&data);
        run(initdb.current_dir(&directory).stdout(Stdio::null()));
        let mut server = Self {
            directory,
            scratch: Some(scratch),
            bin,
            // Names the socket; nothing listens at a port unless a test asks for it.
            port: 5432,
            options: Vec::new(),
            watcher: None,
            databases: AtomicU32::new(0),
        };
        // Durability is not what is tested, and a server that is killed starts from what the kernel has.
        for setting in ["fsync=off", "listen_addresses=", "max_connections=100"].iter().chain(settings) {
            if let Some(port) = setting.strip_prefix("port=") {
                server.port = port.parse().expect("because a port is a number");
            }
            server.options.extend(["-c".to_owned(), (*setting).to_owned()]);
        }
        server
    }

    fn launch(&mut self, at_end: AtEnd) {
        let mut command = clean(Path::new("sh"));
        command.args(["-c", WATCHER, "watcher"]);
        let server = unprivileged(&self.bin.join("postgres"));
        command.arg(server.get_program()).args(server.get_args());
        command.arg("-D").arg(self.data()).arg("-k").arg(&self.directory).args(&self.options);
        let at_end = match at_end {
            AtEnd::Keep => "keep",
            AtEnd::Remove => "remove",
        };
        command
            .env("AT_END", at_end)
            .env("END_BY", "QUIT")
            .env("DIRECTORY", &self.directory)
            .current_dir(&self.directory);
        let log = std::fs::File::options().append(true).create(true).open(self.directory.join("log"));
        let log = log.expect("because the directory was just made");
        let errors = log.try_clone().expect("because a descriptor can be copied");
        // A group of its own, so that what ends the tests leaves it the time to clean up.
        let child = command.process_group(0).stdin(Stdio::piped()).stdout(log).stderr(errors).spawn();
        self.watcher = Some(child.expect("because sh can be started"));
        self.await_ready();
    }

    fn await_ready(&self) {
        let begun = Instant::now();
        loop {
            let mut probe = clean(&self.bin.join("pg_isready"));
            probe.args(["-q", "-U", "postgres"]).arg("-h").arg(&self.directory).args([
                "-p",
                &self.port.to_string(),
                "-d",
                "postgres",
            ]);
            if probe.status().expect("because pg_isready can be started").success() {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "the server did not start: {}", self.log());
            std::thread::sleep(GLANCE);
        }
    }

    /// Starts it again after it was stopped or killed, with the same data.
    ///
    /// # Panics
    /// When it runs, or does not start.
    pub fn restart(&mut self) {
        assert!(self.watcher.is_none(), "it was not stopped");
        self.launch(AtEnd::Keep);
    }

    /// Ends it at once, as a crash would: no session is told goodbye. Returns when it is gone.
    ///
    /// # Panics
    /// When it does not end.
    pub fn kill(&mut self) {
        let Some(mut watcher) = self.watcher.take() else { return };
        drop(watcher.stdin.take());
        let begun = Instant::now();
        while watcher.try_wait().expect("because it is our child").is_none() {
            assert!(begun.elapsed() < PATIENCE, "the server does not end: {}", self.log());
            std::thread::sleep(GLANCE);
        }
    }

    /// Makes a fresh and empty database.
    ///
    /// # Panics
    /// When that fails.
    #[must_use]
    pub fn database(&self) -> Database {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        let database = self.named("postgres");
        database.sql(&format!("create database {name}"));
        self.named(&name)
    }

    fn named(&self, name: &str) -> Database {
        Database::at(self.bin.clone(), self.directory.clone(), self.port, name.to_owned())
    }

    /// Where its socket and its data lie.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Its cluster, to be copied or changed while it is stopped.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// Turns it into a read replica that replays its own log for ever: stops it, marks it as one,
    /// and starts it again.
    ///
    /// # Panics
    /// When that fails.
    pub fn become_replica(&mut self) {
        self.kill();
        let signal = self.data().join("standby.signal");
        write(&signal, "");
        if rustix::process::geteuid().is_root() {
            run(Command::new("chown").arg(owner()).arg(&signal));
        }
        self.restart();
    }

    /// Asks everybody but the superuser for a password from now on.
    ///
    /// # Panics
    /// When that fails.
    pub fn require_passwords(&self) {
        write(self.data().join("pg_hba.conf"), "local all postgres trust\nlocal all all scram-sha-256\n");
        self.named("postgres").sql("select pg_reload_conf()");
    }

    /// Stops all its processes in the middle of what they do, until the guard is dropped.
    ///
    /// # Panics
    /// When that fails.
    #[must_use]
    pub fn freeze(&self) -> Frozen {
        let pids = read(self.data().join("postmaster.pid"));
        let first = String::from_utf8_lossy(&pids).lines().next().map(str::to_owned);
        let postmaster = first.expect("because a running server says its number");
        let children = Command::new("ps").args(["-o", "pid=", "--ppid", &postmaster]).output();
        let children = children.expect("because ps can be started").stdout;
        let children = String::from_utf8_lossy(&children).split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let frozen = Frozen { pids: [vec![postmaster], children].concat() };
        frozen.signal("STOP");
        frozen
    }

    /// What it wrote to its log.
    #[must_use]
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.directory.join("log")).unwrap_or_default()).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The watcher goes on ending it; what failed must not be hidden by another failure.
            if let Some(mut watcher) = self.watcher.take() {
                drop(watcher.stdin.take());
                let _ = watcher.wait();
            }
        } else {
            self.kill();
        }
    }
}

/// A server that does nothing and closes nothing.
#[derive(Debug)]
pub struct Frozen {
    pids: Vec<String>,
}

impl Frozen {
    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").arg(format!("-{signal}")).args(&self.pids).status();
        assert!(sent.is_ok_and(|status| status.success()), "cannot send {signal} to {:?}", self.pids);
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        // One of them may have ended, and a failing test must not fail a second time here.
        let _ = Command::new("kill").arg("-CONT").args(&self.pids).stderr(Stdio::null()).status();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::exists;

    #[test]
    fn every_test_has_a_database_of_its_own() {
        let (one, two) = (Server::shared().database(), Server::shared().database());
        one.sql("create table t (x int); insert into t values (7);");
        assert_eq!(one.sql("select x, x + 1 from t"), "7|8");
        assert_eq!(two.sql("select count(*) from pg_tables where tablename = 't'"), "0");
        assert!(two.url().starts_with("postgres://postgres@%2F"), "{}", two.url());
    }

    #[test]
    fn a_killed_server_comes_back_with_what_was_committed_and_leaves_nothing() {
        let mut server = Server::start();
        let database = server.database();
        database.sql("create table t as select 7 as x");
        server.kill();
        let refused = std::panic::catch_unwind(|| database.sql("select 1"));
        assert!(refused.is_err());
        server.restart();
        assert_eq!(database.sql("select x from t"), "7");
        let directory = server.directory().to_owned();
        drop(server);
        assert!(!exists(directory));
    }

    #[test]
    fn a_replica_says_that_it_is_one() {
        let mut server = Server::start();
        let database = server.database();
        server.become_replica();
        assert_eq!(database.sql("select pg_is_in_recovery()"), "t");
    }
}
