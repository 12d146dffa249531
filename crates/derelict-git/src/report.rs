//! Where a finding belongs: the same examination serves the workspace itself, its submodules and the
//! repositories nested in it, and says for each finding whose it is.

use bstr::ByteSlice;

use crate::proof::{Channel, Findings};

/// Findings of one repository, told under its place.
pub(crate) struct Report<'f> {
    findings: &'f mut Findings,
    place: Place,
}

/// Which repository a finding is about.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// The workspace's own.
    Top,
    /// A repository or work tree inside, at this path.
    Nested(Vec<u8>),
    /// A submodule, at this path.
    Submodule(Vec<u8>),
}

impl<'f> Report<'f> {
    pub(crate) fn new(findings: &'f mut Findings, place: Place) -> Self {
        Self { findings, place }
    }

    pub(crate) fn examined(&mut self, channel: Channel, what: &'static str, count: u64) {
        self.findings.examined(self.place.channel(channel), what, count);
    }

    /// Something would be lost. `content` is whatever tells this content from a later one.
    pub(crate) fn loss(&mut self, channel: Channel, what: impl FnOnce() -> String, content: &[&[u8]]) {
        let place = &self.place;
        self.findings.loss(place.channel(channel), || place.prefixed(&what()), content);
    }

    /// Something would be lost, and the operator lets it go.
    pub(crate) fn allowed(&mut self, what: impl FnOnce() -> String, content: &[&[u8]]) {
        let place = &self.place;
        self.findings.allowed(|| place.prefixed(&what()), content);
    }

    /// The answer rests on this, read in this order.
    pub(crate) fn rests_on(&mut self, channel: Channel, content: &[u8]) {
        self.findings.rests_on(self.place.channel(channel), content);
    }

    /// The answer rests on what was met, in any order.
    pub(crate) fn rests_on_met(&mut self, channel: Channel, met: impl IntoIterator<Item = u64>) {
        let sum = met.into_iter().fold(0_u64, u64::wrapping_add);
        self.findings.rests_on_met(self.place.channel(channel), sum);
    }

    pub(crate) fn unknown(&mut self, channel: Channel, why: &str) {
        let why = self.place.prefixed(why);
        self.findings.unknown(self.place.channel(channel), why);
    }

    /// Something elsewhere would break: a loss, and more than that, for no force may take it.
    pub(crate) fn dependent(&mut self, channel: Channel, what: &str) {
        let what = self.place.prefixed(what);
        self.findings.loss(self.place.channel(channel), || what.clone(), &[what.as_bytes()]);
        self.findings.dependents.push(what);
    }

    pub(crate) fn git_lock(&mut self, path: &[u8]) {
        use std::os::unix::ffi::OsStrExt;
        self.findings.git_locks.push(std::path::PathBuf::from(std::ffi::OsStr::from_bytes(path)));
    }
}

impl Place {
    fn channel(&self, channel: Channel) -> Channel {
        match self {
            Self::Top => channel,
            Self::Nested(_) => Channel::Nested,
            Self::Submodule(_) => Channel::Submodules,
        }
    }

    fn prefixed(&self, text: &str) -> String {
        match self {
            Self::Top => text.to_owned(),
            Self::Nested(path) => format!("{}: {text}", shown(path)),
            Self::Submodule(path) => format!("submodule {}: {text}", shown(path)),
        }
    }
}

/// A path as text: other bytes than printable UTF-8 are escaped, never replaced.
pub(crate) fn shown(path: &[u8]) -> String {
    match path.to_str() {
        // A space at either end is invisible in a list of names.
        Ok(text) if text.trim() != text => format!("\"{}\"", text.escape_debug()),
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        Ok(_) | Err(_) => path.escape_ascii().to_string(),
    }
}
