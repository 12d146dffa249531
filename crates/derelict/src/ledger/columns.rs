//! Values on their way into and out of a store, and the meaning of its columns.
//!
//! A time is two columns, seconds since 1970 and nanoseconds (`…_ns`), for no type of either database holds both. A
//! number that may use all 64 bits is kept as the signed one with the same bits. Paths are bytes.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use derelict_core::ids::{Digest, Timestamp};

/// A value that goes into a statement. What is missing has a type, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Parameter {
    Number(Option<i64>),
    Text(Option<String>),
    Bytes(Option<Vec<u8>>),
}

/// A value in a column of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Column {
    Null,
    Number(i64),
    Text(String),
    Bytes(Vec<u8>),
}

/// A time as its two columns.
pub(super) fn time(at: Option<Timestamp>) -> [Parameter; 2] {
    [at.map(Timestamp::seconds), at.map(|at| at.subsecond_nanoseconds().into())].map(Parameter::Number)
}

pub(super) fn string(text: &str) -> Parameter {
    Parameter::Text(Some(text.to_owned()))
}

pub(super) fn unsigned(number: u64) -> Parameter {
    Parameter::Number(Some(number.cast_signed()))
}

pub(super) fn bytes(path: &Path) -> Parameter {
    Parameter::Bytes(Some(path.as_os_str().as_encoded_bytes().to_vec()))
}

/// A row that is read from left to right.
pub(super) struct Row(std::vec::IntoIter<Column>);

impl Row {
    pub(super) fn of(columns: Vec<Column>) -> Self {
        Self(columns.into_iter())
    }

    fn next(&mut self) -> anyhow::Result<Column> {
        self.0.next().context("the ledger answered with too few columns")
    }

    pub(super) fn text(&mut self) -> anyhow::Result<String> {
        match self.next()? {
            Column::Text(text) => Ok(text),
            other @ (Column::Null | Column::Number(_) | Column::Bytes(_)) => Err(not_a("text", &other)),
        }
    }

    pub(super) fn number(&mut self) -> anyhow::Result<i64> {
        match self.next()? {
            Column::Number(number) => Ok(number),
            other @ (Column::Null | Column::Text(_) | Column::Bytes(_)) => Err(not_a("number", &other)),
        }
    }

    pub(super) fn unsigned(&mut self) -> anyhow::Result<u64> {
        Ok(self.number()?.cast_unsigned())
    }

    fn bytes(&mut self) -> anyhow::Result<Vec<u8>> {
        match self.next()? {
            Column::Bytes(bytes) => Ok(bytes),
            other @ (Column::Null | Column::Number(_) | Column::Text(_)) => Err(not_a("byte string", &other)),
        }
    }

    pub(super) fn path(&mut self) -> anyhow::Result<PathBuf> {
        Ok(PathBuf::from(OsString::from_vec(self.bytes()?)))
    }

    pub(super) fn digest(&mut self) -> anyhow::Result<Digest> {
        let bytes: [u8; 32] =
            self.bytes()?.try_into().map_err(|_| anyhow!("the ledger has a digest of another length"))?;
        Ok(Digest::from_bytes(bytes))
    }

    pub(super) fn time(&mut self) -> anyhow::Result<Timestamp> {
        self.maybe_time()?.context("the ledger lacks a time")
    }

    pub(super) fn maybe_time(&mut self) -> anyhow::Result<Option<Timestamp>> {
        let (seconds, nanoseconds) = (self.maybe(Self::number)?, self.maybe(Self::number)?);
        let Some(seconds) = seconds else { return Ok(None) };
        let nanoseconds = nanoseconds.and_then(|n| u32::try_from(n).ok()).filter(|n| *n < 1_000_000_000);
        let nanoseconds = nanoseconds.context("the ledger has a time whose nanoseconds are none")?;
        Ok(Some(Timestamp::new(seconds, nanoseconds)))
    }

    pub(super) fn maybe<T>(&mut self, read: impl FnOnce(&mut Self) -> anyhow::Result<T>) -> anyhow::Result<Option<T>> {
        match self.0.as_slice().first() {
            Some(Column::Null) => {
                self.next()?;
                Ok(None)
            }
            Some(Column::Number(_) | Column::Text(_) | Column::Bytes(_)) | None => read(self).map(Some),
        }
    }
}

fn not_a(wanted: &str, found: &Column) -> anyhow::Error {
    let found = match found {
        Column::Null => "nothing",
        Column::Number(_) => "a number",
        Column::Text(_) => "a text",
        Column::Bytes(_) => "a byte string",
    };
    anyhow!("the ledger has {found} where a {wanted} belongs")
}
