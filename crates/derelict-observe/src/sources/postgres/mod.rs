//! PostgreSQL: a session of ours with a server, and a table of owners read through it. What a row
//! means for a directory is decided in `derelict-core`.
//!
//! The client is asynchronous, and nobody else here is: a [`Session`] owns the runtime its client
//! runs on and blocks its caller. It must not be used from within another runtime.

mod columns;
mod failure;
mod lock;
mod owners;
mod pooled;
mod session;
mod settings;
mod tls;
mod values;

pub use owners::{Asking, PostgresOwners, Queries};
pub use session::{Access, Prepared, Session, SessionError};
pub use settings::{Parts, Secret, Server, Settings, SettingsError};
pub use tls::{SslMode, UnknownSslMode};
/// What rows are read and parameters are written with.
pub use tokio_postgres::Row;
pub use tokio_postgres::types;
