//! How ids, instants and reasons travel to the server and back: binary, without a crate for each.
//! What they are checked against beforehand is in `columns`.

use std::borrow::Cow;
use std::error::Error;

use derelict_core::ids::Timestamp;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

/// Seconds from 1970 to 2000, where the server's clock has its zero.
const SERVER_EPOCH: i64 = 946_684_800;

/// How many ids an array holds at most when it is sent. The server plans once for all chunks, and
/// one of these is a quarter of a megabyte on the wire.
pub(super) const CHUNK: usize = 50_000;

/// The digits of a UUID in its canonical form.
const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// The bytes of a UUID.
type Uuid = [u8; 16];

type Failure = Box<dyn Error + Sync + Send>;

/// Ids as one parameter: `uuid[]`, `text[]` or `varchar[]`, whichever the query takes.
#[derive(Debug)]
pub(super) struct Ids<'a>(pub(super) &'a [Cow<'a, str>]);

/// One id as a parameter: `uuid`, `text` or `varchar`.
#[derive(Debug)]
pub(super) struct Id<'a>(pub(super) &'a str);

impl ToSql for Ids<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Failure> {
        let element = match *ty {
            Type::UUID_ARRAY => Type::UUID,
            Type::VARCHAR_ARRAY => Type::VARCHAR,
            _ => Type::TEXT,
        };
        let count = i32::try_from(self.0.len())?;
        // One dimension, no NULL in it, and its index starts at one.
        for word in [1, 0, i32::from_be_bytes(element.oid().to_be_bytes()), count, 1] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        for id in self.0 {
            if element == Type::UUID {
                let uuid = uuid(id).ok_or("an id that is no UUID")?;
                out.extend_from_slice(&16_i32.to_be_bytes());
                out.extend_from_slice(&uuid);
            } else {
                out.extend_from_slice(&i32::try_from(id.len())?.to_be_bytes());
                out.extend_from_slice(id.as_bytes());
            }
        }
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        [Type::UUID_ARRAY, Type::TEXT_ARRAY, Type::VARCHAR_ARRAY].contains(ty)
    }

    to_sql_checked!();
}

impl ToSql for Id<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Failure> {
        if *ty == Type::UUID {
            out.extend_from_slice(&uuid(self.0).ok_or("an id that is no UUID")?);
        } else {
            out.extend_from_slice(self.0.as_bytes());
        }
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        [Type::UUID, Type::TEXT, Type::VARCHAR].contains(ty)
    }

    to_sql_checked!();
}

/// The bytes of a UUID in its canonical form.
fn uuid(text: &str) -> Option<Uuid> {
    let mut uuid = Uuid::default();
    let mut digits = text.bytes().filter(|byte| *byte != b'-').map(|byte| char::from(byte).to_digit(16));
    for byte in &mut uuid {
        *byte = u8::try_from(digits.next()?? << 4 | digits.next()??).ok()?;
    }
    digits.next().is_none().then_some(uuid)
}

/// An id in a row.
#[derive(Debug)]
pub(super) struct ReadId(pub(super) String);

impl<'r> FromSql<'r> for ReadId {
    fn from_sql(ty: &Type, raw: &'r [u8]) -> Result<Self, Failure> {
        if *ty != Type::UUID {
            return Ok(Self(std::str::from_utf8(raw)?.to_owned()));
        }
        let mut text = String::with_capacity(36);
        for (index, byte) in Uuid::try_from(raw)?.into_iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            text.push(char::from(DIGITS[usize::from(byte >> 4)]));
            text.push(char::from(DIGITS[usize::from(byte & 0xf)]));
        }
        Ok(Self(text))
    }

    fn accepts(ty: &Type) -> bool {
        <Id<'_> as ToSql>::accepts(ty)
    }
}

/// When an owner was active last, as the server has it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LastUse {
    At(Timestamp),
    /// Later than every instant.
    Infinity,
    /// Earlier than every instant, which is no instant of a use.
    MinusInfinity,
}

impl<'r> FromSql<'r> for LastUse {
    fn from_sql(_: &Type, raw: &'r [u8]) -> Result<Self, Failure> {
        Ok(match i64::from_be_bytes(raw.try_into()?) {
            i64::MAX => Self::Infinity,
            i64::MIN => Self::MinusInfinity,
            microseconds => {
                let nanoseconds = u32::try_from(microseconds.rem_euclid(1_000_000) * 1000)?;
                Self::At(Timestamp::new(microseconds.div_euclid(1_000_000) + SERVER_EPOCH, nanoseconds))
            }
        })
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::TIMESTAMPTZ
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_goes_and_comes_back_as_sixteen_bytes() {
        let text = "0188a3c2-7b1d-4c5e-9f00-00000000abcd";
        let bytes = uuid(text).unwrap();
        assert_eq!((bytes[0], bytes[1], bytes[15]), (0x01, 0x88, 0xcd));
        assert_eq!(ReadId::from_sql(&Type::UUID, &bytes).unwrap().0, text);
        assert_eq!(ReadId::from_sql(&Type::TEXT, b"Run-7").unwrap().0, "Run-7");
        assert!(ReadId::from_sql(&Type::UUID, b"short").is_err());
        for odd in ["", "0188a3c2", "0188a3c2-7b1d-4c5e-9f00-00000000abcdef", "zz88a3c2-7b1d-4c5e-9f00-00000000abcd"] {
            assert_eq!(uuid(odd), None, "{odd}");
        }
    }

    #[test]
    fn an_instant_keeps_its_microseconds_on_both_sides_of_the_servers_zero() {
        let read = |microseconds: i64| LastUse::from_sql(&Type::TIMESTAMPTZ, &microseconds.to_be_bytes()).unwrap();
        assert_eq!(read(1_500_000), LastUse::At(Timestamp::new(SERVER_EPOCH + 1, 500_000_000)));
        assert_eq!(read(-1), LastUse::At(Timestamp::new(SERVER_EPOCH - 1, 999_999_000)));
        assert_eq!((read(i64::MAX), read(i64::MIN)), (LastUse::Infinity, LastUse::MinusInfinity));
    }
}
