//! One database of a test, asked through `psql`. Not here: the server it is in.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::programs::clean;

/// A database of its own for one test.
#[derive(Debug, Clone)]
pub struct Database {
    bin: PathBuf,
    directory: PathBuf,
    port: u16,
    name: String,
}

impl Database {
    pub(super) fn at(bin: PathBuf, directory: PathBuf, port: u16, name: String) -> Self {
        Self { bin, directory, port, name }
    }

    /// The same database behind another socket.
    pub(super) fn through(&self, directory: &Path, port: u16) -> Self {
        Self { directory: directory.to_owned(), port, ..self.clone() }
    }

    /// How a client is told to connect: a `postgres://` URL over the Unix socket.
    #[must_use]
    pub fn url(&self) -> String {
        let mut host = String::new();
        for byte in self.directory.as_os_str().as_encoded_bytes() {
            write!(host, "%{byte:02X}").expect("because a string takes everything");
        }
        format!("postgres://postgres@{host}:{}/{}", self.port, self.name)
    }

    /// The directory of the server's socket: the `host` of a client that takes parts.
    #[must_use]
    pub fn host(&self) -> &Path {
        &self.directory
    }

    /// The port that names the socket.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs statements, each on its own, and returns what they print: columns separated by
    /// `|`, one row a line.
    ///
    /// # Panics
    /// When one fails.
    pub fn sql(&self, statements: &str) -> String {
        let mut child = self.psql().spawn().expect("because psql can be started");
        let mut input = child.stdin.take().expect("because it is a pipe");
        // It may end at an error before it has read everything; what it says then is what counts.
        let _ = input.write_all(statements.as_bytes());
        drop(input);
        let output = child.wait_with_output().expect("because it is our child");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "psql: {errors}");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// A client that reads its statements from a pipe.
    pub(crate) fn psql(&self) -> Command {
        let mut psql = clean(&self.bin.join("psql"));
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-f", "-"]);
        psql.arg("-h").arg(&self.directory).args(["-p", &self.port.to_string(), "-d", &self.name]);
        psql.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        psql
    }

    /// Ends every session with this database, as an administrator would.
    ///
    /// # Panics
    /// When that fails.
    pub fn end_sessions(&self) {
        self.sql(
            "select pg_terminate_backend(pid, 60000) from pg_stat_activity \
             where datname = current_database() and pid <> pg_backend_pid()",
        );
    }
}
