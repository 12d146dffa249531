//! What a failure of the server or of the client is called, without a value of anybody's data in it.
//! Which deed it ended is said by the session.

use std::error::Error as _;

use tokio_postgres::error::SqlState;

/// Classes of server errors whose own words quote values: bad input, a broken constraint, and what a
/// function of the database's owner raises.
const QUOTING_CLASSES: [&str; 3] = ["22", "23", "P0"];

/// The reason in words. Of a server's error only its message, never the detail, hint or context,
/// which quote rows and queries.
pub(super) fn reason(error: &tokio_postgres::Error) -> String {
    if let Some(server) = error.as_db_error() {
        let code = server.code().code();
        return if QUOTING_CLASSES.iter().any(|class| code.starts_with(class)) {
            format!("the server refused a value (SQLSTATE {code})")
        } else {
            format!("{} (SQLSTATE {code})", server.message())
        };
    }
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let text = inner.to_string();
        // Some wrap another error and print it, too.
        if !words.contains(&text) {
            words = format!("{words}: {text}");
        }
        cause = inner.source();
    }
    words
}

/// Whether another try could succeed: the server is starting, stopping or full, or was not reached.
pub(super) fn may_pass(error: &tokio_postgres::Error) -> bool {
    match error.code() {
        Some(code) => [
            SqlState::CANNOT_CONNECT_NOW,
            SqlState::ADMIN_SHUTDOWN,
            SqlState::CRASH_SHUTDOWN,
            SqlState::TOO_MANY_CONNECTIONS,
        ]
        .contains(code),
        None => {
            let mut cause = error.source();
            while let Some(inner) = cause {
                if inner.is::<std::io::Error>() && !inner.to_string().contains("certificate") {
                    return true;
                }
                cause = inner.source();
            }
            error.is_closed()
        }
    }
}
