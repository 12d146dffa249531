//! The words in which a table of owners is asked: rows by id, one snapshot per sweep and one row per
//! re-check. Which database answers is said in the files beside this one; what a row means for a
//! directory is decided in `derelict-core`.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fmt;

use derelict_core::ids::Timestamp;
use derelict_core::ports::{LockBusy, SourceLost};

/// One row, as its source gave it. One id may have several; each is a claim of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Whose directory it is, in the canonical form of the source's ids.
    pub id: String,
    /// When the owner last used it; `None` is a NULL: not known, and so kept.
    pub last_used_at: Option<Timestamp>,
    /// Why the source holds it whatever its age, in the source's own words. Then a last use that is not
    /// known adds nothing: the row may stand for a hold alone.
    pub held: Option<String>,
}

/// The rows of many ids, read at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Rows, in no particular order. Ids that were not asked for are left out.
    pub rows: Vec<Row>,
    /// The clock of the source when it answered; `None` where it has none of its own.
    pub clock: Option<Timestamp>,
}

/// How the ids of a source are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdScheme {
    /// A UUID of 32 hexadecimal digits in five groups; upper and lower case are the same.
    Uuid,
    /// Any text; upper and lower case differ.
    Text,
    /// Any text; upper and lower case of ASCII letters are the same.
    TextIgnoringCase,
}

impl IdScheme {
    /// The canonical form of a directory's name as an id of this source; `None` when it cannot be one,
    /// which makes its owner unknown and not absent.
    #[must_use]
    pub fn canonical(self, name: &[u8]) -> Option<String> {
        let name = std::str::from_utf8(name).ok()?;
        match self {
            Self::Uuid => is_uuid(name).then(|| name.to_ascii_lowercase()),
            Self::Text => Some(name.to_owned()),
            Self::TextIgnoringCase => Some(name.to_ascii_lowercase()),
        }
    }
}

/// Where the dashes of a UUID stand.
const DASHES: [usize; 4] = [8, 13, 18, 23];

/// How long a UUID is in text.
const UUID_LENGTH: usize = 36;

fn is_uuid(name: &str) -> bool {
    let fits = |(at, byte): (usize, u8)| if DASHES.contains(&at) { byte == b'-' } else { byte.is_ascii_hexdigit() };
    name.len() == UUID_LENGTH && name.bytes().enumerate().all(fits)
}

/// Who may sweep a root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leadership {
    /// We do, until the source is dropped or its session is lost.
    Ours,
    /// Somebody else does.
    Theirs,
    /// The source cannot tell; a lock on the machine has to do.
    NoneOfItsBusiness,
}

/// Held from the re-check to the settlement; released when dropped.
pub trait RowLock: fmt::Debug {}

/// A table of owners. Everything is read-only, and every call has a deadline of its own.
pub trait OwnerTable: fmt::Debug + Send {
    /// How its ids are written.
    fn ids(&self) -> IdScheme;

    /// Connects anew, with a bounded number of tries, if there is no session: once at the start of a
    /// sweep and never within one.
    ///
    /// # Errors
    /// [`SourceLost`] when it cannot be reached, or must not be asked (a read replica, another schema).
    fn connect(&mut self) -> Result<(), SourceLost>;

    /// Becomes the only sweeper that uses this key with this source, without waiting.
    ///
    /// # Errors
    /// [`SourceLost`] when that cannot be found out.
    fn lead(&mut self, key: &str) -> Result<Leadership, SourceLost>;

    /// The rows of all these canonical ids, in one query for each chunk, at one instant.
    ///
    /// # Errors
    /// [`SourceLost`] when the query fails, or what it returns is not what was agreed.
    fn rows(&mut self, ids: &[String]) -> Result<Snapshot, SourceLost>;

    /// The rows of one id, read now; tried once and never again.
    ///
    /// # Errors
    /// [`SourceLost`], which ends the sweep.
    fn row(&mut self, id: &str) -> Result<Vec<Row>, SourceLost>;

    /// Takes the lock under which the source's own program changes the life of this owner; `None` if
    /// the source has none. One bounded wait.
    ///
    /// # Errors
    /// [`LockBusy`] when somebody else holds it, or it cannot be taken.
    fn lock(&mut self, id: &str) -> Result<Option<Box<dyn RowLock>>, LockBusy>;
}

/// The ids that were asked for, sorted and each once.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    sorted: Vec<&'a str>,
}

impl<'a> Asked<'a> {
    pub(crate) fn of(ids: &'a [String]) -> Self {
        let mut sorted: Vec<&str> = ids.iter().map(String::as_str).collect();
        sorted.sort_unstable();
        sorted.dedup();
        Self { sorted }
    }

    /// As they are.
    pub(crate) fn exact(&self) -> Vec<Cow<'a, str>> {
        self.sorted.iter().map(|id| Cow::Borrowed(*id)).collect()
    }

    /// What a column of text is asked for. Where case does not count it may have another one than the
    /// canonical, so it is asked for both; a query over mixed case has to compare `lower(id)`.
    pub(crate) fn spellings(&self, scheme: IdScheme) -> Vec<Cow<'a, str>> {
        let mut spellings = self.exact();
        match scheme {
            IdScheme::Text => {}
            IdScheme::Uuid | IdScheme::TextIgnoringCase => {
                spellings.extend(self.sorted.iter().map(|id| Cow::Owned(id.to_ascii_uppercase())));
                spellings.sort_unstable();
                spellings.dedup();
            }
        }
        spellings
    }

    /// Puts rows and what else is held together: rows of ids that were not asked for are left out, and
    /// who is held without a row gets one of its own.
    pub(crate) fn fold(&self, mut rows: Vec<Row>, holds: Vec<(String, String)>) -> Vec<Row> {
        // A source that reads by an index hands its rows back in the order in which they were asked for.
        let mut expected = 0;
        rows.retain(|row| {
            let next = self.sorted.get(expected).is_some_and(|next| *next == row.id);
            let place = if next { Ok(expected) } else { self.sorted.binary_search(&row.id.as_str()) };
            expected = place.map_or(expected, |place| place + 1);
            place.is_ok()
        });
        let mut reasons: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (id, reason) in holds {
            if self.sorted.binary_search(&id.as_str()).is_ok() {
                reasons.entry(id).or_default().push(reason);
            }
        }
        if reasons.is_empty() {
            return rows;
        }
        let mut reasons: BTreeMap<String, String> =
            reasons.into_iter().map(|(id, reasons)| (id, reasons.join("; "))).collect();
        let mut met = HashSet::new();
        for row in &mut rows {
            if let Some(reason) = reasons.get(&row.id) {
                met.insert(row.id.clone());
                row.held = Some(match row.held.take() {
                    Some(held) => format!("{held}; {reason}"),
                    None => reason.clone(),
                });
            }
        }
        reasons.retain(|id, _| !met.contains(id));
        rows.extend(reasons.into_iter().map(|(id, reason)| Row { id, last_used_at: None, held: Some(reason) }));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_joins_the_rows_of_its_id_or_stands_alone() {
        let row = |id: &str, held: Option<&str>| Row {
            id: id.into(),
            last_used_at: Some(Timestamp::new(7, 0)),
            held: held.map(Into::into),
        };
        let hold = |id: &str, reason: &str| (id.to_owned(), reason.to_owned());
        let asked = ["a", "b", "c", "d"].map(str::to_owned);
        let folded = Asked::of(&asked).fold(
            vec![row("a", None), row("a", Some("kept")), row("b", None), row("stranger", None)],
            vec![hold("a", "one"), hold("a", "two"), hold("c", "three"), hold("stranger", "four")],
        );
        let alone = Row { id: "c".into(), last_used_at: None, held: Some("three".into()) };
        assert_eq!(folded, [row("a", Some("one; two")), row("a", Some("kept; one; two")), row("b", None), alone]);
    }

    #[test]
    fn where_case_does_not_count_text_is_asked_for_in_both() {
        let ids = ["b".to_owned(), "a1".to_owned(), "7".to_owned(), "b".to_owned()];
        let asked = Asked::of(&ids);
        assert_eq!(asked.spellings(IdScheme::TextIgnoringCase), ["7", "A1", "B", "a1", "b"]);
        assert_eq!(asked.spellings(IdScheme::Text), ["7", "a1", "b"]);
        assert_eq!(asked.exact(), ["7", "a1", "b"]);
    }

    #[test]
    fn an_upper_case_uuid_is_the_same_id_and_anything_else_is_none() {
        let canonical = |name: &str| IdScheme::Uuid.canonical(name.as_bytes());
        let id = "0188a3c2-7b1d-4c5e-9f00-00000000abcd";
        assert_eq!(canonical(&id.to_uppercase()).as_deref(), Some(id));
        for odd in ["", "home", "0188a3c27b1d4c5e9f0000000000abcd", "{0188a3c2-7b1d-4c5e-9f00-00000000abcd}"] {
            assert_eq!(canonical(odd), None, "{odd}");
        }
        assert_eq!(canonical("0188a3c2-7b1d-4c5e-9f00-00000000abcg"), None);
        assert_eq!(IdScheme::Uuid.canonical(b"0188a3c2-7b1d-4c5e-9f00-00000000abc\xff"), None);
    }

    #[test]
    fn text_ids_keep_or_lose_their_case_as_the_source_says() {
        assert_eq!(IdScheme::Text.canonical(b"Run-7").as_deref(), Some("Run-7"));
        assert_eq!(IdScheme::TextIgnoringCase.canonical(b"Run-7").as_deref(), Some("run-7"));
        assert_eq!(IdScheme::Text.canonical(b"\xff"), None);
    }
}
