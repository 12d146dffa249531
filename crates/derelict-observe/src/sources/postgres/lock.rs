//! The lock under which the owner's own program changes the life of a row, taken in a transaction of
//! a second session and given up with it. Nothing is ever committed.

use std::sync::{Arc, Mutex, PoisonError};

use derelict_core::ports::LockBusy;
use tokio_postgres::error::SqlState;

use super::columns::{LOCK_QUERY, Unfit, takes_one_id};
use super::session::{Access, Prepared, Session, SessionError};
use super::settings::Settings;
use super::values::Id;
use crate::sources::table::{IdScheme, RowLock};

/// How long somebody else's lock is waited for, in the server's words.
const LOCK_TIMEOUT: &str = "2s";

/// A session that can take the lock.
#[derive(Debug)]
pub(super) struct Locker {
    session: Session,
    lock: Prepared,
}

/// Why there is no session to lock in.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoLocker {
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Unfit(#[from] Unfit),
}

impl Locker {
    pub(super) fn new(mut session: Session, query: &str, scheme: IdScheme) -> Result<Self, NoLocker> {
        let lock = session.prepare(LOCK_QUERY, query)?;
        takes_one_id(lock.statement(), scheme)?;
        Ok(Self { session, lock })
    }

    fn connect(settings: &Settings, query: &str, scheme: IdScheme) -> Result<Self, NoLocker> {
        // `FOR UPDATE` is refused in a read-only transaction.
        Self::new(Session::connect(settings, Access::ReadWrite)?, query, scheme)
    }

    /// Whether its session still answers.
    pub(super) fn answers(&mut self) -> bool {
        self.session.batch("the question whether it is there", "SELECT 1").is_ok()
    }

    fn take(&mut self, id: &str) -> Result<(), SessionError> {
        self.session
            .batch("the beginning of the lock", &format!("BEGIN; SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'"))?;
        self.session.execute(&self.lock, &[&Id(id)]).map(|_| ())
    }

    fn give_up(&mut self) -> Result<(), SessionError> {
        self.session.batch("the end of the lock", "ROLLBACK")
    }
}

/// Where the one locker is while no lock is held.
#[derive(Debug, Clone)]
pub(super) struct Lockers(Arc<Mutex<Option<Locker>>>);

impl Lockers {
    pub(super) fn none() -> Self {
        Self(Arc::new(Mutex::new(None)))
    }

    pub(super) fn keep(&self, locker: Option<Locker>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = locker;
    }

    pub(super) fn take_out(&self) -> Option<Locker> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Takes the lock of one id; one wait.
    pub(super) fn lock(
        &self,
        id: &str,
        query: &str,
        settings: &Settings,
        scheme: IdScheme,
    ) -> Result<PostgresLock, LockBusy> {
        let busy = |why: String| LockBusy { lock: format!("the owner's lock ({why})") };
        let mut locker = match self.take_out() {
            Some(locker) => locker,
            None => Locker::connect(settings, query, scheme).map_err(|error| busy(error.to_string()))?,
        };
        match locker.take(id) {
            Ok(()) => Ok(PostgresLock { locker: Some(locker), home: self.clone() }),
            Err(error) => {
                let why = match &error {
                    SessionError::Failed { code: Some(code), place, .. }
                        if code == SqlState::LOCK_NOT_AVAILABLE.code() =>
                    {
                        format!("{LOCK_QUERY} waited {LOCK_TIMEOUT} at {place}")
                    }
                    SessionError::Failed { .. }
                    | SessionError::Silent { .. }
                    | SessionError::Settings(_)
                    | SessionError::NotConnected { .. }
                    | SessionError::Replica { .. } => error.to_string(),
                };
                if locker.give_up().is_ok() {
                    self.keep(Some(locker));
                }
                Err(busy(why))
            }
        }
    }
}

/// A lock that is held; given up when dropped.
#[derive(Debug)]
pub(super) struct PostgresLock {
    locker: Option<Locker>,
    home: Lockers,
}

impl RowLock for PostgresLock {}

impl Drop for PostgresLock {
    fn drop(&mut self) {
        let Some(mut locker) = self.locker.take() else { return };
        // A session that cannot roll back is dropped, and the server gives the lock up with it.
        if locker.give_up().is_ok() {
            self.home.keep(Some(locker));
        }
    }
}
