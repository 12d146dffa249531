//! Tells a session from a pool of transactions: behind some poolers each transaction may run in
//! another session of the server, and a lock that we think is ours is anybody's. Two sessions of
//! ours that meet in one of the server's, or a lock that is gone in the next transaction, give it away.

use super::session::{Session, SessionError};

/// Why the connection cannot be relied on.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unreliable {
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(
        "{0} is behind a pooler that lends a session for one transaction only, so no lock in it lasts; \
         connect to the server itself or to a pool of sessions"
    )]
    Pooled(String),
}

const DEED: &str = "the check for a pooler";

/// Both are checked at once: the second is in a transaction while the first is asked.
pub(super) fn refuse(first: &mut Session, second: &mut Session) -> Result<(), Unreliable> {
    let pooled = |session: &Session| Unreliable::Pooled(session.place().to_owned());
    let key = "SELECT hashtextextended('derelict session:' || pg_backend_pid() || clock_timestamp(), 0)";
    let Some(key) = first.text(DEED, key)?.into_iter().flatten().flatten().next() else { return Err(pooled(first)) };
    let answer = |answer: Vec<Vec<Option<String>>>| answer.into_iter().flatten().flatten().next();
    first.text(DEED, &format!("SELECT pg_try_advisory_lock({key})"))?;
    second.batch(DEED, "BEGIN")?;
    let met = answer(second.text(DEED, &format!("SELECT pg_try_advisory_xact_lock({key})"))?);
    let held = answer(first.text(DEED, &held(&key))?);
    second.batch(DEED, "ROLLBACK")?;
    let released = answer(first.text(DEED, &format!("SELECT pg_advisory_unlock({key})"))?);
    match (met.as_deref(), held.as_deref(), released.as_deref()) {
        (Some("f"), Some("t"), Some("t")) => Ok(()),
        _ => Err(pooled(first)),
    }
}

/// Whether this very session of the server holds the advisory lock of a key.
pub(super) fn held(key: &str) -> String {
    format!(
        "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = pg_backend_pid() \
         AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
         AND objsubid = 1 AND ((classid::bigint << 32) | objid::bigint) = ({key}))"
    )
}
