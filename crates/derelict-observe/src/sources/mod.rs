//! Who owns what, as the systems themselves say it. Each source reads its own format and hands on
//! owners or records as values; which directory they mean is found out in `place`, and what follows
//! from that in `claims`.

pub mod command;
pub(crate) mod devlaunch;
pub(crate) mod devpod;
pub(crate) mod paperclip;
pub mod postgres;
pub mod sqlite;
pub mod table;

use derelict_core::ids::SourceId;

/// The list of live workspaces.
pub(crate) const DEVPOD: &str = "devpod";

/// The launcher's records.
pub(crate) const DEVLAUNCH: &str = "devlaunch";

/// A source by its name.
pub(crate) fn id(name: &str) -> SourceId {
    SourceId(name.into())
}
