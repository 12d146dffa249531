//! What an operator's queries take and return, checked when the server has parsed them and before
//! anything is asked; and the rows that come back, as values. A column that is not known is an error:
//! a misspelt `held` would be a reason to keep that nobody reads.

use derelict_core::ids::Timestamp;
use tokio_postgres::types::{Kind, Type};
use tokio_postgres::{Column, Statement};

use super::values::{LastUse, ReadId};
use crate::sources::table::{IdScheme, Row};

/// Why a query cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unfit {
    #[error("{query} takes {found} instead of one parameter, $1: {expected}")]
    Parameters { query: &'static str, found: String, expected: &'static str },
    #[error("{query} compares UUIDs, but the ids of this root are text; cast its column to text")]
    TextIds { query: &'static str },
    #[error("{query} returns no column `{column}`")]
    Missing { query: &'static str, column: &'static str },
    #[error("{query} returns the column `{column}` twice")]
    Twice { query: &'static str, column: String },
    #[error("{query} returns a column `{column}`, which is none of {known}")]
    Unknown { query: &'static str, column: String, known: String },
    #[error("the column `{column}` of {query} is {found}, and has to be {expected}")]
    Type { query: &'static str, column: &'static str, found: String, expected: &'static str },
    #[error("{query} returns `reason` without `held`, which it would explain")]
    ReasonAlone { query: &'static str },
    #[error("{query} returned a row without an id")]
    NoId { query: &'static str },
    #[error("the column `{column}` of {query} cannot be read: {why}")]
    Unreadable { query: &'static str, column: &'static str, why: String },
}

/// The columns of the query for rows.
pub(super) const QUERY: &str = "the owner query";

/// The query for what is held.
pub(super) const HELD_QUERY: &str = "the held query";

/// The query that takes the owner's lock.
pub(super) const LOCK_QUERY: &str = "the lock query";

/// What is said of a row that is held without words.
const HELD: &str = "held";

const ID_TYPES: [Type; 3] = [Type::UUID, Type::TEXT, Type::VARCHAR];
const WHEN_TYPES: [Type; 1] = [Type::TIMESTAMPTZ];
const TEXT_TYPES: [Type; 2] = [Type::TEXT, Type::VARCHAR];
const HELD_TYPES: [Type; 3] = [Type::BOOL, Type::TEXT, Type::VARCHAR];

/// Where the columns of the owner query are.
#[derive(Debug, Clone)]
pub(super) struct OwnerColumns {
    id: usize,
    last_used_at: usize,
    held: Option<(usize, Type)>,
    reason: Option<usize>,
}

/// Where the columns of the held query are.
#[derive(Debug, Clone)]
pub(super) struct HeldColumns {
    id: usize,
    reason: Option<usize>,
}

impl OwnerColumns {
    pub(super) fn of(statement: &Statement, scheme: IdScheme) -> Result<Self, Unfit> {
        takes_ids(QUERY, statement, scheme)?;
        let found = Found { query: QUERY, columns: statement.columns() };
        found.only(&["id", "last_used_at", "held", "reason"])?;
        let id = found.required("id", &ID_TYPES, "uuid, text or varchar")?;
        let last_used_at = found.required(
            "last_used_at",
            &WHEN_TYPES,
            "timestamptz: of a timestamp without time zone say the zone, for example `last_used_at AT TIME ZONE 'UTC'`",
        )?;
        let held = found.optional("held", &HELD_TYPES, "boolean or text")?;
        let reason = found.optional("reason", &TEXT_TYPES, "text")?;
        if held.is_none() && reason.is_some() {
            return Err(Unfit::ReasonAlone { query: QUERY });
        }
        let held = held.map(|at| (at, found.columns[at].type_().clone()));
        Ok(Self { id, last_used_at, held, reason })
    }

    /// One row as the table of owners has it.
    pub(super) fn read(&self, row: &tokio_postgres::Row, scheme: IdScheme) -> Result<Option<Row>, Unfit> {
        let unreadable = |column| move |why: tokio_postgres::Error| unreadable(QUERY, column, &why);
        let Some(id) = id(QUERY, row, self.id, scheme)? else { return Ok(None) };
        let last_use: Option<LastUse> = row.try_get(self.last_used_at).map_err(unreadable("last_used_at"))?;
        let reason: Option<String> = match self.reason {
            Some(at) => row.try_get(at).map_err(unreadable("reason"))?,
            None => None,
        };
        let held = match &self.held {
            None => None,
            Some((at, ty)) if *ty == Type::BOOL => {
                let held: Option<bool> = row.try_get(*at).map_err(unreadable("held"))?;
                (held == Some(true)).then(|| worded(reason))
            }
            Some((at, _)) => {
                let held: Option<String> = row.try_get(*at).map_err(unreadable("held"))?;
                held.map(|held| worded(Some(held).filter(|held| !held.is_empty()).or(reason)))
            }
        };
        let (last_used_at, for_ever) = settled(last_use);
        Ok(Some(Row { id, last_used_at, held: held.or(for_ever) }))
    }
}

impl HeldColumns {
    pub(super) fn of(statement: &Statement, scheme: IdScheme) -> Result<Self, Unfit> {
        takes_ids(HELD_QUERY, statement, scheme)?;
        let found = Found { query: HELD_QUERY, columns: statement.columns() };
        found.only(&["id", "reason"])?;
        let id = found.required("id", &ID_TYPES, "uuid, text or varchar")?;
        Ok(Self { id, reason: found.optional("reason", &TEXT_TYPES, "text")? })
    }

    /// Whom a row of it holds, and why.
    pub(super) fn read(&self, row: &tokio_postgres::Row, scheme: IdScheme) -> Result<Option<(String, String)>, Unfit> {
        let Some(id) = id(HELD_QUERY, row, self.id, scheme)? else { return Ok(None) };
        let reason: Option<String> = match self.reason {
            Some(at) => row.try_get(at).map_err(|why| unreadable(HELD_QUERY, "reason", &why))?,
            None => None,
        };
        Ok(Some((id, worded(reason))))
    }
}

/// Checks the one parameter of the lock query.
pub(super) fn takes_one_id(statement: &Statement, scheme: IdScheme) -> Result<(), Unfit> {
    match statement.params() {
        [Type::UUID] if scheme != IdScheme::Uuid => Err(Unfit::TextIds { query: LOCK_QUERY }),
        [ty] if ID_TYPES.contains(ty) => Ok(()),
        other => Err(Unfit::Parameters {
            query: LOCK_QUERY,
            found: listed(other),
            expected: "one id as uuid, text or varchar",
        }),
    }
}

fn takes_ids(query: &'static str, statement: &Statement, scheme: IdScheme) -> Result<(), Unfit> {
    match statement.params() {
        [Type::UUID_ARRAY] if scheme != IdScheme::Uuid => Err(Unfit::TextIds { query }),
        [Type::UUID_ARRAY | Type::TEXT_ARRAY | Type::VARCHAR_ARRAY] => Ok(()),
        other => Err(Unfit::Parameters {
            query,
            found: listed(other),
            expected: "the ids as an array of uuid, text or varchar, as in `id = ANY($1)`",
        }),
    }
}

fn listed(types: &[Type]) -> String {
    if types.is_empty() { "no parameter".into() } else { types.iter().map(named).collect::<Vec<_>>().join(", ") }
}

/// The name of a type as people write it.
fn named(ty: &Type) -> String {
    if let Kind::Array(element) = ty.kind() {
        format!("{}[]", element.name())
    } else if *ty == Type::TIMESTAMP {
        "timestamp without time zone".to_owned()
    } else {
        ty.name().to_owned()
    }
}

struct Found<'s> {
    query: &'static str,
    columns: &'s [Column],
}

impl Found<'_> {
    fn only(&self, known: &[&str]) -> Result<(), Unfit> {
        for (at, column) in self.columns.iter().enumerate() {
            let name = || column.name().to_owned();
            if !known.contains(&column.name()) {
                return Err(Unfit::Unknown { query: self.query, column: name(), known: known.join(", ") });
            }
            if self.columns[..at].iter().any(|earlier| earlier.name() == column.name()) {
                return Err(Unfit::Twice { query: self.query, column: name() });
            }
        }
        Ok(())
    }

    fn required(&self, column: &'static str, types: &[Type], expected: &'static str) -> Result<usize, Unfit> {
        let found = self.optional(column, types, expected)?;
        found.ok_or(Unfit::Missing { query: self.query, column })
    }

    fn optional(&self, column: &'static str, types: &[Type], expected: &'static str) -> Result<Option<usize>, Unfit> {
        let Some(at) = self.columns.iter().position(|found| found.name() == column) else { return Ok(None) };
        let ty = self.columns[at].type_();
        if types.contains(ty) {
            Ok(Some(at))
        } else {
            Err(Unfit::Type { query: self.query, column, found: named(ty), expected })
        }
    }
}

/// The id of a row in its canonical form; `None` when it cannot be one of ours.
fn id(query: &'static str, row: &tokio_postgres::Row, at: usize, scheme: IdScheme) -> Result<Option<String>, Unfit> {
    let read: Option<ReadId> = row.try_get(at).map_err(|why| unreadable(query, "id", &why))?;
    let ReadId(id) = read.ok_or(Unfit::NoId { query })?;
    Ok(scheme.canonical(id.as_bytes()))
}

fn unreadable(query: &'static str, column: &'static str, why: &tokio_postgres::Error) -> Unfit {
    Unfit::Unreadable { query, column, why: super::failure::reason(why) }
}

fn worded(reason: Option<String>) -> String {
    reason.filter(|reason| !reason.is_empty()).unwrap_or_else(|| HELD.to_owned())
}

/// An instant without end holds; one before all others says nothing of a use.
fn settled(last_use: Option<LastUse>) -> (Option<Timestamp>, Option<String>) {
    match last_use {
        Some(LastUse::At(at)) => (Some(at), None),
        Some(LastUse::Infinity) => (None, Some("its last use is infinity".to_owned())),
        Some(LastUse::MinusInfinity) | None => (None, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_without_end_holds_and_one_before_all_is_not_known() {
        let at = Timestamp::new(7, 0);
        assert_eq!(settled(Some(LastUse::At(at))), (Some(at), None));
        assert_eq!(settled(Some(LastUse::Infinity)), (None, Some("its last use is infinity".into())));
        assert_eq!(settled(Some(LastUse::MinusInfinity)), (None, None));
        assert_eq!(settled(None), (None, None));
    }

    #[test]
    fn a_hold_without_words_is_a_hold() {
        assert_eq!(worded(None), "held");
        assert_eq!(worded(Some(String::new())), "held");
        assert_eq!(worded(Some("in review".into())), "in review");
    }

    #[test]
    fn types_are_called_what_people_call_them() {
        assert_eq!(named(&Type::TIMESTAMP), "timestamp without time zone");
        assert_eq!(named(&Type::INT8_ARRAY), "int8[]");
        assert_eq!(listed(&[]), "no parameter");
        assert_eq!(listed(&[Type::UUID, Type::BOOL]), "uuid, bool");
    }
}
