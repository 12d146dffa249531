//! One session with a PostgreSQL server, for callers that wait. It knows nothing of owners: the
//! table of owners reads through it, and the front end's ledger, which is the only one that writes.

use std::fmt;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, SimpleQueryMessage, Statement};

use super::failure::{may_pass, reason};
use super::settings::{Settings, SettingsError};
use super::tls;

/// How much longer than a statement may take its answer is waited for: the server should be the one
/// to end it, because it says so. This is for a server or a network that says nothing any more.
const ANSWER_GRACE: Duration = Duration::from_secs(5);

/// How long a goodbye may take. A server that does not hear it notices the closed socket.
const GOODBYE: Duration = Duration::from_millis(200);

/// Waits between the tries to connect; one try more than there are waits.
const BACK_OFF: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(1)];

/// Whether a session may change anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Every transaction of it is read-only.
    ReadOnly,
    /// It may write.
    ReadWrite,
}

/// What went wrong, where, and in which deed; never a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The settings cannot be used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// No session came about.
    #[error("cannot connect to {place}: {why}")]
    NotConnected {
        /// Server and database.
        place: String,
        /// Why.
        why: String,
    },
    /// It is a read replica, whose rows are those of the past.
    #[error("{place} is a read replica, whose rows lag behind; name the primary server")]
    Replica {
        /// Server and database.
        place: String,
    },
    /// The server refused or broke off.
    #[error("{deed} failed at {place}: {why}")]
    Failed {
        /// Server and database.
        place: String,
        /// What was being done.
        deed: String,
        /// Why.
        why: String,
        /// The server's code for it, where it was the server that said no.
        code: Option<String>,
    },
    /// Nothing came back in time; the session is lost.
    #[error("{place} did not answer {deed} within {} seconds", .within.as_secs_f64())]
    Silent {
        /// Server and database.
        place: String,
        /// What was being done.
        deed: String,
        /// How long was waited.
        within: Duration,
    },
}

/// A statement that the server has parsed, and what it is for.
#[derive(Clone)]
pub struct Prepared {
    deed: String,
    statement: Statement,
}

impl Prepared {
    /// Its parameters and columns.
    #[must_use]
    pub fn statement(&self) -> &Statement {
        &self.statement
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Prepared").field(&self.deed).finish()
    }
}

/// A session. Dropping it says goodbye and gives up everything it held.
pub struct Session {
    place: String,
    deadline: Duration,
    client: Option<Client>,
    /// Carries the client's words to the server and back, while a call waits.
    carrier: Option<JoinHandle<Result<(), tokio_postgres::Error>>>,
    runtime: Option<Runtime>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Session {
    /// Connects, with a few tries where another try could succeed, refuses a read replica, and sets
    /// the session up: its statement timeout, plans that do not depend on values, no idle timeouts.
    ///
    /// # Errors
    /// A [`SessionError`] that says what was connected to and why it failed.
    pub fn connect(settings: &Settings, access: Access) -> Result<Self, SessionError> {
        let mut waits = BACK_OFF.iter();
        loop {
            let (error, again) = match Self::try_once(settings) {
                Ok(mut session) => {
                    session.set_up(settings, access)?;
                    return Ok(session);
                }
                Err(failed) => failed,
            };
            match waits.next() {
                Some(wait) if again => std::thread::sleep(*wait),
                Some(_) | None => return Err(error),
            }
        }
    }

    /// One try; with the error it says whether another one could succeed.
    fn try_once(settings: &Settings) -> Result<Self, (SessionError, bool)> {
        let resolved = settings.resolve().map_err(|error| (SessionError::Settings(error), false))?;
        let place = resolved.place;
        let failed = |why: String, again| (SessionError::NotConnected { place: place.clone(), why }, again);
        let connector = tls::connector(resolved.ssl_mode, resolved.ssl_root_cert.as_deref());
        let connector = connector.map_err(|error| failed(error.to_string(), false))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| failed(error.to_string(), false))?;
        let connecting =
            async { tokio::time::timeout(settings.connect_timeout, resolved.config.connect(connector)).await };
        let connected = runtime.block_on(connecting);
        let (client, connection) = match connected {
            Ok(Ok(connected)) => connected,
            Ok(Err(error)) => {
                // A name that is being looked up cannot be waited for.
                runtime.shutdown_background();
                return Err(failed(reason(&error), may_pass(&error)));
            }
            Err(_) => {
                runtime.shutdown_background();
                let seconds = settings.connect_timeout.as_secs_f64();
                return Err(failed(format!("no answer within {seconds} seconds"), true));
            }
        };
        let carrier = runtime.spawn(connection);
        let deadline = settings.statement_timeout.saturating_add(ANSWER_GRACE);
        Ok(Self { place, deadline, client: Some(client), carrier: Some(carrier), runtime: Some(runtime) })
    }

    /// Whether it is still there and its server no replica.
    pub(super) fn still_serves(&mut self) -> bool {
        self.refuse_replica().is_ok()
    }

    fn refuse_replica(&mut self) -> Result<(), SessionError> {
        let answer = self.text("the question whether it is a replica", "SELECT pg_is_in_recovery()")?;
        match answer.first().and_then(|row| row.first()) {
            Some(Some(answer)) if answer == "f" => Ok(()),
            Some(_) | None => Err(SessionError::Replica { place: self.place.clone() }),
        }
    }

    fn set_up(&mut self, settings: &Settings, access: Access) -> Result<(), SessionError> {
        self.refuse_replica()?;
        let read_only = match access {
            Access::ReadOnly => "on",
            Access::ReadWrite => "off",
        };
        // A plan for all values: with one for the values at hand, a query of ten thousand ids falls off a
        // cliff. The timeouts of idle sessions are not known to every server, so they are set where they are.
        let timeout = settings.statement_timeout.as_millis();
        self.batch(
            "setting the session up",
            &format!(
                "SET statement_timeout = {timeout}; SET plan_cache_mode = force_generic_plan; SET jit = off; \
                 SET default_transaction_read_only = {read_only}; SET row_security = off; \
                 SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN \
                 ('idle_session_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')"
            ),
        )
    }

    /// Server and database, for messages.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Has a statement parsed; `deed` is what it is called when it fails.
    ///
    /// # Errors
    /// A [`SessionError`], among others when the statement makes no sense to the server.
    pub fn prepare(&mut self, deed: &str, statement: &str) -> Result<Prepared, SessionError> {
        let statement = self.call(deed, async |client| client.prepare(statement).await)?;
        Ok(Prepared { deed: deed.to_owned(), statement })
    }

    /// Runs a prepared statement and returns its rows.
    ///
    /// # Errors
    /// A [`SessionError`].
    pub fn query(&mut self, prepared: &Prepared, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, SessionError> {
        self.call(&prepared.deed, async |client| client.query(&prepared.statement, values).await)
    }

    /// Runs two prepared statements, each with its values, on one way to the server and back.
    pub(super) fn query_both(
        &mut self,
        first: (&Prepared, &[&(dyn ToSql + Sync)]),
        second: (&Prepared, &[&(dyn ToSql + Sync)]),
    ) -> Result<[Vec<Row>; 2], SessionError> {
        let (one, other) = self.call(&first.0.deed, async |client| {
            let (one, other) = (client.query(&first.0.statement, first.1), client.query(&second.0.statement, second.1));
            Ok(tokio::join!(one, other))
        })?;
        let one = one.map_err(|error| self.failed(&first.0.deed, &error))?;
        Ok([one, other.map_err(|error| self.failed(&second.0.deed, &error))?])
    }

    /// Runs a prepared statement and returns how many rows it changed.
    ///
    /// # Errors
    /// A [`SessionError`].
    pub fn execute(&mut self, prepared: &Prepared, values: &[&(dyn ToSql + Sync)]) -> Result<u64, SessionError> {
        self.call(&prepared.deed, async |client| client.execute(&prepared.statement, values).await)
    }

    /// Runs statements without values and without looking at their rows. Unless they say otherwise,
    /// all of them are one transaction.
    ///
    /// # Errors
    /// A [`SessionError`].
    pub fn batch(&mut self, deed: &str, statements: &str) -> Result<(), SessionError> {
        self.call(deed, async |client| client.batch_execute(statements).await)
    }

    /// Runs a statement that need not be prepared and returns its rows as text.
    pub(super) fn text(&mut self, deed: &str, statement: &str) -> Result<Vec<Vec<Option<String>>>, SessionError> {
        let messages = self.call(deed, async |client| client.simple_query(statement).await)?;
        let mut rows = Vec::new();
        for message in messages {
            if let SimpleQueryMessage::Row(row) = message {
                rows.push((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect());
            }
        }
        Ok(rows)
    }

    /// Asks, and waits for the answer no longer than an answer may take. A session that was silent is
    /// lost: its answer could still come, and be taken for that of the next question.
    fn call<T>(
        &mut self,
        deed: &str,
        ask: impl AsyncFnOnce(&Client) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, SessionError> {
        let (Some(client), Some(runtime)) = (self.client.take(), &self.runtime) else {
            let why = "the session was lost before".to_owned();
            return Err(SessionError::Failed { place: self.place.clone(), deed: deed.to_owned(), why, code: None });
        };
        let within = self.deadline;
        let asking = async {
            // Lets the carrier read first what the server said while nobody listened: why it closed.
            tokio::task::yield_now().await;
            ask(&client).await
        };
        match runtime.block_on(async { tokio::time::timeout(within, asking).await }) {
            Ok(answer) => {
                self.client = Some(client);
                answer.map_err(|error| self.failed(deed, &error))
            }
            Err(_) => Err(SessionError::Silent { place: self.place.clone(), deed: deed.to_owned(), within }),
        }
    }

    fn failed(&mut self, deed: &str, error: &tokio_postgres::Error) -> SessionError {
        let mut why = reason(error);
        if error.is_closed()
            && let (Some(carrier), Some(runtime)) = (self.carrier.take(), &self.runtime)
        {
            // What the server said when it closed reached the carrier and not the question.
            let ended = runtime.block_on(async { tokio::time::timeout(GOODBYE, carrier).await });
            if let Ok(Ok(Err(last))) = ended {
                why = format!("{why}: {}", reason(&last));
            }
        }
        let code = error.code().map(|code| code.code().to_owned());
        SessionError::Failed { place: self.place.clone(), deed: deed.to_owned(), why, code }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        drop(self.client.take());
        if let Some(carrier) = self.carrier.take() {
            // However the goodbye ends, the socket is closed next, and the server gives up what we held.
            let _ = runtime.block_on(async { tokio::time::timeout(GOODBYE, carrier).await });
        }
        runtime.shutdown_background();
    }
}
