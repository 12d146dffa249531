//! How a PostgreSQL server is reached: a URL or its parts, the encryption, and the time everything
//! may take. Where the values come from is the front end's business; that none of the secret ones is
//! ever shown is this file's.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr as _;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::Host;

use super::tls::{SslMode, UnknownSslMode};

/// How long one try to connect may take when nobody says otherwise: name, socket, encryption and
/// password together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long one statement may take when nobody says otherwise.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);

/// How long sent bytes may stay unanswered before the connection counts as lost. Without it a server
/// that vanished from the network would be missed after some fifteen minutes.
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// The port of a server that nobody named one for.
const PORT: u16 = 5432;

/// A value that is never shown: neither by `Debug` nor in a message.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes a value in.
    #[must_use]
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    pub(super) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Which server, and who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Server {
    /// A `postgres://` URL; its `sslmode` and `sslrootcert` are read as libpq reads them.
    Url(Secret),
    /// One by one.
    Parts(Parts),
}

/// A server by its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    /// A name, an address, or the directory of a Unix socket.
    pub host: String,
    /// 5432 when nobody says otherwise.
    pub port: Option<u16>,
    /// The database; that of the user's name when nobody says otherwise.
    pub dbname: Option<String>,
    /// Who asks; the user that the program runs as when nobody says otherwise.
    pub user: Option<String>,
    /// What proves it.
    pub password: Option<Secret>,
}

/// Everything a session needs to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Which server.
    pub server: Server,
    /// How much encryption is asked for. `None`: what the URL says, else [`SslMode::Prefer`].
    pub ssl_mode: Option<SslMode>,
    /// The certificates that sign the server's, as PEM. `None`: what the URL says, else those of the
    /// system where the mode verifies anything.
    pub ssl_root_cert: Option<PathBuf>,
    /// How long one try to connect may take.
    pub connect_timeout: Duration,
    /// How long one statement may take.
    pub statement_timeout: Duration,
    /// What the server's list of sessions shows.
    pub application_name: String,
}

/// Why settings cannot be used. No value of a secret is in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The URL has another beginning.
    #[error("the database's URL does not start with `postgres://` or `postgresql://`")]
    NoUrl,
    /// Nobody can say where the password ends.
    #[error("the database's URL has more than one `@`; one inside a user or password is written `%40`")]
    TwoHosts,
    /// It does not parse, or has an option that is not known.
    #[error("cannot read the database's URL: {0}")]
    Malformed(String),
    /// It names no server.
    #[error("the database's URL names no host")]
    NoHost,
    /// Its `sslmode` is none.
    #[error(transparent)]
    SslMode(#[from] UnknownSslMode),
}

/// Settings that were understood.
pub(super) struct Resolved {
    pub(super) config: Config,
    pub(super) ssl_mode: SslMode,
    pub(super) ssl_root_cert: Option<PathBuf>,
    /// Server and database, for messages.
    pub(super) place: String,
}

impl Settings {
    /// Settings with the usual bounds: ten seconds to connect, thirty for a statement.
    #[must_use]
    pub fn new(server: Server) -> Self {
        Self {
            server,
            ssl_mode: None,
            ssl_root_cert: None,
            connect_timeout: CONNECT_TIMEOUT,
            statement_timeout: STATEMENT_TIMEOUT,
            application_name: "derelict".into(),
        }
    }

    /// Server and database in words, without user and password.
    ///
    /// # Errors
    /// A [`SettingsError`] when they cannot be used; nothing was connected to.
    pub fn place(&self) -> Result<String, SettingsError> {
        Ok(self.resolve()?.place)
    }

    pub(super) fn resolve(&self) -> Result<Resolved, SettingsError> {
        let (mut config, mode, root) = match &self.server {
            Server::Url(url) => from_url(url.expose())?,
            Server::Parts(parts) => (from_parts(parts), None, None),
        };
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(SettingsError::NoHost);
        }
        config.application_name(&self.application_name).connect_timeout(self.connect_timeout);
        config.tcp_user_timeout(UNACKNOWLEDGED);
        let mut ssl_mode = self.ssl_mode.or(mode).unwrap_or(SslMode::Prefer);
        // Nothing is encrypted on its way through a socket of this machine, whatever was asked for.
        if config.get_hosts().iter().all(|host| matches!(host, Host::Unix(_))) && !config.get_hosts().is_empty() {
            ssl_mode = SslMode::Disable;
        }
        config.ssl_mode(ssl_mode.of_client());
        let place = place(&config);
        Ok(Resolved { config, ssl_mode, ssl_root_cert: self.ssl_root_cert.clone().or(root), place })
    }
}

fn from_parts(parts: &Parts) -> Config {
    let mut config = Config::new();
    // A leading slash makes it the directory of a socket.
    config.host(&parts.host).port(parts.port.unwrap_or(PORT));
    if let Some(dbname) = &parts.dbname {
        config.dbname(dbname);
    }
    if let Some(user) = &parts.user {
        config.user(user);
    }
    if let Some(password) = &parts.password {
        config.password(password.expose());
    }
    config
}

/// Takes out of a URL what the client library does not know, and leaves the rest to it.
fn from_url(url: &str) -> Result<(Config, Option<SslMode>, Option<PathBuf>), SettingsError> {
    if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
        return Err(SettingsError::NoUrl);
    }
    // With two of them, part of a password would be taken for a host, and be shown as one.
    if url.matches('@').count() > 1 {
        return Err(SettingsError::TwoHosts);
    }
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let (mut mode, mut root, mut rest) = (None, None, Vec::new());
    for option in query.split('&').filter(|option| !option.is_empty()) {
        match option.split_once('=') {
            Some(("sslmode", value)) => mode = Some(value.parse()?),
            Some(("sslrootcert", value)) => root = Some(PathBuf::from(decoded(value)?)),
            Some(_) | None => rest.push(option),
        }
    }
    let query = if rest.is_empty() { String::new() } else { format!("?{}", rest.join("&")) };
    let config = Config::from_str(&format!("{base}{query}"));
    let config = config.map_err(|error| SettingsError::Malformed(super::failure::reason(&error)))?;
    Ok((config, mode, root))
}

/// Undoes the percent signs of a URL.
fn decoded(text: &str) -> Result<String, SettingsError> {
    let malformed = || SettingsError::Malformed("a `%` is not followed by two hexadecimal digits of UTF-8".into());
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let (byte, after) = match byte {
            b'%' => {
                let digits =
                    after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok()).ok_or_else(malformed)?;
                (u8::from_str_radix(digits, 16).map_err(|_| malformed())?, &after[2..])
            }
            other => (*other, after),
        };
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| malformed())
}

fn place(config: &Config) -> String {
    let port = |index: usize| config.get_ports().get(index).or(config.get_ports().first()).copied().unwrap_or(PORT);
    let hosts = config.get_hosts().iter().enumerate().map(|(index, host)| match host {
        Host::Tcp(name) => format!("{name}:{}", port(index)),
        Host::Unix(directory) => format!("{}:{}", derelict_core::ids::escaped(directory), port(index)),
    });
    let mut hosts: Vec<String> = hosts.collect();
    if hosts.is_empty() {
        hosts = config.get_hostaddrs().iter().enumerate().map(|(index, at)| format!("{at}:{}", port(index))).collect();
    }
    match config.get_dbname() {
        Some(dbname) => format!("PostgreSQL at {}, database {dbname}", hosts.join(",")),
        None => format!("PostgreSQL at {}", hosts.join(",")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(url: &str) -> Settings {
        Settings::new(Server::Url(Secret::new(url)))
    }

    #[test]
    fn a_secret_is_in_no_message_and_in_no_debug_form() {
        let settings = url("postgres://u:hunter2@db.example:5433/app?sslmode=disable");
        assert!(!format!("{settings:?}").contains("hunter2"));
        assert_eq!(settings.place().unwrap(), "PostgreSQL at db.example:5433, database app");
        let parts = Parts {
            host: "db.example".into(),
            port: None,
            dbname: Some("app".into()),
            user: Some("u".into()),
            password: Some(Secret::new("hunter2")),
        };
        let settings = Settings::new(Server::Parts(parts));
        assert!(!format!("{settings:?}").contains("hunter2"));
        assert_eq!(settings.place().unwrap(), "PostgreSQL at db.example:5432, database app");
        for bad in [
            "mysql://u:hunter2@h/db",
            "host=h password=hunter2",
            "postgres://u:hunt@er2@h/db",
            "postgres://u:hunter2@h:port/db",
            "postgres://u:hunter2@h/db?sslmode=hunter",
            "postgres://u:hunter2@h/db?schema=public",
            "postgres://u:hunter2@/db",
        ] {
            let error = url(bad).place().unwrap_err().to_string();
            assert!(!error.contains("hunt") && !error.contains("er2") || error.contains("sslmode"), "{bad}: {error}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_url_is_named() {
        let error = |text: &str| url(text).place().unwrap_err().to_string();
        assert_eq!(
            error("postgres://u@h/db?schema=public"),
            "cannot read the database's URL: invalid connection string: unknown option `schema`"
        );
        assert_eq!(error("postgres://u@/db"), "the database's URL names no host");
        assert_eq!(
            error("postgres://u@h/db?sslmode=allow"),
            "sslmode `allow` is none of disable, prefer, require, verify-ca, verify-full"
        );
        assert_eq!(
            error("postgres://u@h/db?sslrootcert=%zz"),
            "cannot read the database's URL: a `%` is not followed by two hexadecimal digits of UTF-8"
        );
    }

    #[test]
    fn encryption_is_read_from_the_url_unless_it_is_set_beside_it() {
        let resolved = url("postgres://u@h/db?sslmode=verify-full&connect_timeout=3&sslrootcert=%2Fetc%2Fca.pem");
        let resolved = resolved.resolve().unwrap();
        assert_eq!(resolved.ssl_mode, SslMode::VerifyFull);
        assert_eq!(resolved.ssl_root_cert, Some(PathBuf::from("/etc/ca.pem")));
        let mut settings = url("postgres://u@h/db?sslmode=disable");
        settings.ssl_mode = Some(SslMode::Require);
        assert_eq!(settings.resolve().unwrap().ssl_mode, SslMode::Require);
        assert_eq!(url("postgres://u@h/db").resolve().unwrap().ssl_mode, SslMode::Prefer);
    }

    #[test]
    fn a_socket_of_this_machine_is_not_encrypted() {
        let settings = url("postgres://u@%2Frun%2Fpostgresql/db?sslmode=require");
        assert_eq!(settings.resolve().unwrap().ssl_mode, SslMode::Disable);
        assert_eq!(settings.place().unwrap(), "PostgreSQL at /run/postgresql:5432, database db");
    }
}
