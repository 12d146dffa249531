//! A real connection pooler in front of a server: what stands between a client and its session on many
//! hosted databases.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::programs::{WATCHER, clean, owner, run, unprivileged};
use super::{Database, GLANCE, PATIENCE, Server};
use crate::git::which;
use crate::scratch::{Scratch, exists, write};

/// The port that names the pooler's socket.
const PORT: u16 = 6432;

/// For how long the pooler lends a session of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lending {
    /// For one transaction.
    Transaction,
    /// As long as the client stays.
    Session,
}

/// A running PgBouncer; it ends when dropped, and with the test process at the latest.
#[derive(Debug)]
pub struct Pooler {
    scratch: Scratch,
    watcher: Child,
}

impl Pooler {
    /// Starts one in front of a server.
    ///
    /// # Panics
    /// When there is no `pgbouncer`, or it does not start.
    #[must_use]
    pub fn start(server: &Server, lending: Lending) -> Self {
        let scratch = Scratch::new();
        let directory = scratch.path();
        let mode = match lending {
            Lending::Transaction => "transaction",
            Lending::Session => "session",
        };
        let (host, here) = (server.directory().display(), directory.display());
        write(
            directory.join("ini"),
            format!(
                "[databases]\n* = host={host} port={} user=postgres\n[pgbouncer]\nlisten_addr =\nlisten_port = {PORT}\n\
                 unix_socket_dir = {here}\nauth_type = any\npool_mode = {mode}\nlogfile = {here}/log\n",
                server.port
            ),
        );
        if rustix::process::geteuid().is_root() {
            run(Command::new("chown").args(["-R", owner()]).arg(directory));
        }
        let mut command = clean(Path::new("sh"));
        command.args(["-c", WATCHER, "watcher"]);
        let program = unprivileged(&which("pgbouncer"));
        command.arg(program.get_program()).args(program.get_args()).arg("-q").arg(directory.join("ini"));
        command.env("AT_END", "keep").env("END_BY", "TERM").current_dir(directory).process_group(0);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let pooler = Self { watcher: child.expect("because sh can be started"), scratch };
        let (begun, socket) = (Instant::now(), pooler.scratch.path().join(format!(".s.PGSQL.{PORT}")));
        while !exists(&socket) {
            assert!(begun.elapsed() < PATIENCE, "the pooler did not start");
            std::thread::sleep(GLANCE);
        }
        pooler
    }

    /// The same database through the pooler.
    #[must_use]
    pub fn database(&self, database: &Database) -> Database {
        database.through(self.scratch.path(), PORT)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        drop(self.watcher.stdin.take());
        // A failing test must not fail a second time here, and there is nothing else to be done.
        let _ = self.watcher.wait();
    }
}
