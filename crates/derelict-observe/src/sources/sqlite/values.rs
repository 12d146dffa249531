//! What the queries to a SQLite database return, checked column by column when they are prepared and
//! value by value when they are read: its columns have no types that bind.

use derelict_core::ids::Timestamp;
use rusqlite::Statement;
use rusqlite::types::ValueRef;

use crate::sources::table::{IdScheme, Row};

/// The query for rows.
pub(super) const QUERY: &str = "the owner query";

/// The query for what is held.
pub(super) const HELD_QUERY: &str = "the held query";

/// What is said of a row that is held without words.
const HELD: &str = "held";

/// Seconds since 1970 of the years 2000 and 10000: the instants that a number may name.
const CREDIBLE_SECONDS: std::ops::Range<i64> = 946_684_800..253_402_300_800;

/// Why a query, or a value of its, cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unfit {
    #[error(
        "{query} takes {found} parameters instead of one, ?1: the ids as a JSON array, as in `FROM json_each(?1) AS asked JOIN workspaces AS w ON w.id = asked.value`"
    )]
    Parameters { query: &'static str, found: usize },
    #[error("{query} is no query that only reads")]
    Writes { query: &'static str },
    #[error("{query} returns no column `{column}`")]
    Missing { query: &'static str, column: &'static str },
    #[error("{query} returns the column `{column}` twice")]
    Twice { query: &'static str, column: String },
    #[error("{query} returns a column `{column}`, which is none of {known}")]
    Unknown { query: &'static str, column: String, known: String },
    #[error("{query} returns `reason` without `held`, which it would explain")]
    ReasonAlone { query: &'static str },
    #[error("{query} returned {found} as `{column}`, which has to be {expected}")]
    Value { query: &'static str, column: &'static str, found: &'static str, expected: &'static str },
}

/// Where the columns of the owner query are.
pub(super) struct OwnerColumns {
    id: usize,
    last_used_at: usize,
    held: Option<usize>,
    reason: Option<usize>,
}

/// Where the columns of the held query are.
pub(super) struct HeldColumns {
    id: usize,
    reason: Option<usize>,
}

impl OwnerColumns {
    pub(super) fn of(statement: &Statement<'_>) -> Result<Self, Unfit> {
        let find = columns(QUERY, statement, &["id", "last_used_at", "held", "reason"])?;
        let required = |column| find(column).ok_or(Unfit::Missing { query: QUERY, column });
        let columns = Self {
            id: required("id")?,
            last_used_at: required("last_used_at")?,
            held: find("held"),
            reason: find("reason"),
        };
        if columns.held.is_none() && columns.reason.is_some() {
            return Err(Unfit::ReasonAlone { query: QUERY });
        }
        Ok(columns)
    }

    /// One row as the table of owners has it; `None` when its id cannot be one of ours.
    pub(super) fn read(&self, row: &rusqlite::Row<'_>, scheme: IdScheme) -> Result<Option<Row>, Unfit> {
        let Some(id) = id(QUERY, at(row, self.id), scheme)? else { return Ok(None) };
        let last_used_at = last_use(at(row, self.last_used_at))?;
        let reason = self.reason.map(|column| text(QUERY, "reason", at(row, column))).transpose()?.flatten();
        let held = match self.held.map(|column| at(row, column)) {
            None | Some(ValueRef::Null | ValueRef::Integer(0)) => None,
            Some(ValueRef::Integer(1)) => Some(worded(reason)),
            Some(value @ ValueRef::Text(_)) => {
                let held = text(QUERY, "held", value)?;
                Some(worded(held.filter(|held| !held.is_empty()).or(reason)))
            }
            Some(value @ (ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Blob(_))) => {
                return Err(refuse(QUERY, "held", value, "text, 1, 0 or NULL"));
            }
        };
        Ok(Some(Row { id, last_used_at, held }))
    }
}

impl HeldColumns {
    pub(super) fn of(statement: &Statement<'_>) -> Result<Self, Unfit> {
        let find = columns(HELD_QUERY, statement, &["id", "reason"])?;
        let id = find("id").ok_or(Unfit::Missing { query: HELD_QUERY, column: "id" })?;
        Ok(Self { id, reason: find("reason") })
    }

    /// Whom a row holds, and why.
    pub(super) fn read(&self, row: &rusqlite::Row<'_>, scheme: IdScheme) -> Result<Option<(String, String)>, Unfit> {
        let Some(id) = id(HELD_QUERY, at(row, self.id), scheme)? else { return Ok(None) };
        let reason = self.reason.map(|column| text(HELD_QUERY, "reason", at(row, column))).transpose()?.flatten();
        Ok(Some((id, worded(reason))))
    }
}

/// Checks a statement, and hands back where each of its columns is.
fn columns(
    query: &'static str,
    statement: &Statement<'_>,
    known: &[&str],
) -> Result<impl Fn(&str) -> Option<usize> + use<>, Unfit> {
    if !statement.readonly() || statement.column_count() == 0 {
        return Err(Unfit::Writes { query });
    }
    if statement.parameter_count() != 1 {
        return Err(Unfit::Parameters { query, found: statement.parameter_count() });
    }
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    for (index, name) in names.iter().enumerate() {
        if !known.contains(&name.as_str()) {
            return Err(Unfit::Unknown { query, column: name.clone(), known: known.join(", ") });
        }
        if names[..index].contains(name) {
            return Err(Unfit::Twice { query, column: name.clone() });
        }
    }
    Ok(move |column: &str| names.iter().position(|name| name == column))
}

fn at<'r>(row: &'r rusqlite::Row<'_>, column: usize) -> ValueRef<'r> {
    row.get_ref(column).expect("because the column was found when the query was prepared")
}

fn id(query: &'static str, value: ValueRef<'_>, scheme: IdScheme) -> Result<Option<String>, Unfit> {
    match value {
        ValueRef::Text(bytes) => Ok(scheme.canonical(bytes)),
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Blob(_) => {
            Err(refuse(query, "id", value, "text: cast a number, and write a blob by lower(hex(…))"))
        }
    }
}

fn text(query: &'static str, column: &'static str, value: ValueRef<'_>) -> Result<Option<String>, Unfit> {
    match value {
        ValueRef::Null => Ok(None),
        ValueRef::Text(bytes) => Ok(Some(String::from_utf8_lossy(bytes).into_owned())),
        ValueRef::Integer(_) | ValueRef::Real(_) | ValueRef::Blob(_) => {
            Err(refuse(query, column, value, "text or NULL"))
        }
    }
}

const INSTANT: &str = "seconds since 1970 in the years 2000 to 9999, ISO 8601 text, or NULL when it is not known";

fn last_use(value: ValueRef<'_>) -> Result<Option<Timestamp>, Unfit> {
    let refused = || refuse(QUERY, "last_used_at", value, INSTANT);
    let read = match value {
        ValueRef::Null => return Ok(None),
        ValueRef::Integer(seconds) => CREDIBLE_SECONDS.contains(&seconds).then(|| Timestamp::new(seconds, 0)),
        ValueRef::Real(seconds) => of_real(seconds),
        ValueRef::Text(bytes) => std::str::from_utf8(bytes).ok().and_then(of_text),
        ValueRef::Blob(_) => None,
    };
    read.map(Some).ok_or_else(refused)
}

fn of_real(seconds: f64) -> Option<Timestamp> {
    let whole = seconds.floor();
    // Out of range, or no number at all, becomes one of the ends of the type and is refused for it.
    let credible = CREDIBLE_SECONDS.contains(&(whole as i64));
    credible.then(|| Timestamp::new(whole as i64, ((seconds - whole) * 1e9) as u32))
}

/// With an offset, or in UTC without one.
fn of_text(text: &str) -> Option<Timestamp> {
    let at = match text.parse::<jiff::Timestamp>() {
        Ok(at) => at,
        Err(_) => {
            let civil: jiff::civil::DateTime = text.parse().ok()?;
            civil.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp()
        }
    };
    let nanoseconds = at.as_nanosecond();
    let seconds = i64::try_from(nanoseconds.div_euclid(1_000_000_000)).ok()?;
    Some(Timestamp::new(seconds, u32::try_from(nanoseconds.rem_euclid(1_000_000_000)).ok()?))
}

fn worded(reason: Option<String>) -> String {
    reason.filter(|reason| !reason.is_empty()).unwrap_or_else(|| HELD.to_owned())
}

fn refuse(query: &'static str, column: &'static str, value: ValueRef<'_>, expected: &'static str) -> Unfit {
    let found = match value {
        ValueRef::Null => "NULL",
        ValueRef::Integer(_) => "an integer",
        ValueRef::Real(_) => "a real number",
        ValueRef::Text(_) => "a text",
        ValueRef::Blob(_) => "a blob",
    };
    Unfit::Value { query, column, found, expected }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_read_in_every_documented_form() {
        let then = Timestamp::new(1_700_000_000, 0);
        let half = Timestamp::new(1_700_000_000, 500_000_000);
        let read = |value| last_use(value).unwrap();
        assert_eq!(read(ValueRef::Null), None);
        assert_eq!(read(ValueRef::Integer(1_700_000_000)), Some(then));
        assert_eq!(read(ValueRef::Real(1_700_000_000.5)), Some(half));
        for text in [
            "2023-11-14T22:13:20Z",
            "2023-11-14T23:13:20+01:00",
            "2023-11-14 22:13:20",
            "2023-11-14T22:13:20",
            "2023-11-14 22:13:20.000",
        ] {
            assert_eq!(read(ValueRef::Text(text.as_bytes())), Some(then), "{text}");
        }
        assert_eq!(read(ValueRef::Text(b"2023-11-14T22:13:20.5Z")), Some(half));
    }

    #[test]
    fn a_number_that_is_no_unix_time_is_refused_and_not_read_as_a_date_long_past() {
        let milliseconds = 1_700_000_000_000;
        for value in [
            ValueRef::Integer(0),
            ValueRef::Integer(2_460_000),
            ValueRef::Integer(milliseconds),
            ValueRef::Integer(i64::MIN),
            ValueRef::Real(2_460_000.5),
            ValueRef::Real(f64::INFINITY),
            ValueRef::Real(f64::NAN),
            ValueRef::Text(b"yesterday"),
            ValueRef::Text(b"1700000000"),
            ValueRef::Text(b"\xff"),
            ValueRef::Text(b""),
            ValueRef::Blob(b"x"),
        ] {
            let refused = last_use(value).unwrap_err().to_string();
            assert!(
                refused.starts_with("the owner query returned ") && refused.contains("`last_used_at`"),
                "{refused}"
            );
        }
    }
}
