//! The report for people: [`plan()`] before anything is done, [`aftermath()`] when it is.
//!
//! The words come from [`crate::words`], names pass through [`crate::text`], nothing is decided here.

mod after;
mod plan;

pub(crate) use after::aftermath;
pub(crate) use plan::plan;

use crate::out::{Out, Paint};

/// The last line of every report of `prune`: a person who runs out of disk should know where else to look.
const BOUNDARY: &str =
    "Note: container images and volumes are not managed here; `docker system df` shows what Docker holds.";

/// How much is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// What matters.
    Usual,
    /// Also what was not looked at.
    Verbose,
}

/// Ends the report.
pub(crate) fn boundary(out: &mut Out, paint: Paint) {
    out.line(paint.aside(BOUNDARY));
}
