//! A server that listens at a port of this machine and encrypts, with a certificate that an authority
//! of its own signed for `localhost`.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::programs::{owner, run};
use super::{AtEnd, Database, Server};
use crate::git::tool;
use crate::scratch::{Scratch, set_mode, write};

/// A server that encrypts, and those who could have signed its certificate.
#[derive(Debug)]
pub struct Encrypted {
    server: Server,
    authorities: Scratch,
}

impl Encrypted {
    /// Starts one.
    ///
    /// # Panics
    /// When there is no `openssl`, or the server does not start.
    #[must_use]
    pub fn start() -> Self {
        let authorities = Scratch::new();
        for name in ["its", "another"] {
            authority(authorities.path(), name);
        }
        certificate(authorities.path());
        let port = free_port();
        let mut server = Server::prepare(&["listen_addresses=127.0.0.1", &format!("port={port}"), "ssl=on"]);
        for name in ["server.crt", "server.key"] {
            let to = server.data().join(name);
            run(Command::new("cp").arg(authorities.path().join(name)).arg(&to));
            set_mode(&to, 0o600);
            if rustix::process::geteuid().is_root() {
                run(Command::new("chown").arg(owner()).arg(&to));
            }
        }
        server.launch(AtEnd::Keep);
        Self { server, authorities }
    }

    /// A fresh database.
    #[must_use]
    pub fn database(&self) -> Database {
        self.server.database()
    }

    /// The certificate of the authority that signed the server's, as PEM.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.authorities.path().join("its.pem")
    }

    /// The certificate of an authority that did not.
    #[must_use]
    pub fn other_authority(&self) -> PathBuf {
        self.authorities.path().join("another.pem")
    }
}

fn openssl(directory: &Path, arguments: &str) {
    run(tool("openssl").args(arguments.split(' ')).current_dir(directory).stdout(Stdio::null()));
}

const KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";

fn authority(directory: &Path, name: &str) {
    openssl(directory, &format!("req -x509 {KEY} -days 2 -subj /CN={name} -keyout {name}.key -out {name}.pem"));
}

fn certificate(directory: &Path) {
    write(directory.join("names"), "subjectAltName=DNS:localhost\n");
    openssl(directory, &format!("req {KEY} -subj /CN=server -keyout server.key -out server.csr"));
    let signing = "x509 -req -in server.csr -CA its.pem -CAkey its.key -CAcreateserial -days 2 -extfile names";
    openssl(directory, &format!("{signing} -out server.crt"));
}

/// One that nobody listens at now.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("because this machine has a loopback");
    listener.local_addr().expect("because it is bound").port()
}
