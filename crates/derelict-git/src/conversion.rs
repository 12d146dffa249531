//! Whether a file that differs from its object is what git made of the object when it checked it out: by
//! the conversions that are built into git, and by that of git-lfs, none of which runs anything. Any other
//! filter would have to be run to tell, and is not.

use bstr::ByteSlice;
use gix_hash::ObjectId;

use crate::attributes::Conversion;
use crate::lfs::{Pointer, digest};

/// Files larger than this are not converted to be compared; no text that anybody edits is.
pub(crate) const CONVERTED_BYTES: u64 = 64 * 1024 * 1024;

/// What a file is, compared with an object that it is not byte for byte.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    /// What git made of it.
    Converted,
    Different,
    /// Only running something would tell; this is what.
    Undecided(String),
}

/// Compares the bytes of a file with the object `id`, whose bytes are `object` if it is a small one.
pub(crate) fn compare(file: &[u8], id: &ObjectId, object: Option<&[u8]>, conversion: &Conversion) -> Compared {
    match conversion.filter.as_deref() {
        None => {}
        Some(b"lfs") => {
            // A pointer that a person edited is a changed file like any other.
            let pointer = object.and_then(Pointer::parse);
            let same = pointer.is_some_and(|pointer| {
                pointer.size == file.len() as u64 && digest(file).as_slice() == pointer.oid.as_slice()
            });
            return if same { Compared::Converted } else { Compared::Different };
        }
        Some(name) => return Compared::Undecided(format!("the filter {}", name.escape_ascii())),
    }
    let text = match &conversion.encoding {
        None => file.to_vec(),
        Some(encoding) => match decoded(file, encoding) {
            Decoded::Text(text) => text,
            Decoded::Broken => return Compared::Different,
            Decoded::Unknown => return Compared::Undecided(format!("the encoding {}", encoding.escape_ascii())),
        },
    };
    let is_object =
        |text: &[u8]| gix_object::compute_hash(id.kind(), gix_object::Kind::Blob, text).is_ok_and(|hash| hash == *id);
    let endings = conversion.line_endings.then(|| text.replace(b"\r\n", b"\n"));
    let idents = |text: &[u8]| conversion.ident && is_object(&collapsed(text));
    let versions = [Some(text), endings];
    let same = versions.iter().flatten().any(|text| is_object(text) || idents(text));
    if same { Compared::Converted } else { Compared::Different }
}

enum Decoded {
    Text(Vec<u8>),
    /// Not of this encoding.
    Broken,
    /// An encoding that is not known here.
    Unknown,
}

/// As UTF-8, as git does with `working-tree-encoding` when a file is added.
fn decoded(file: &[u8], encoding: &[u8]) -> Decoded {
    let name = encoding.to_ascii_uppercase();
    match name.as_slice() {
        b"UTF-8" | b"UTF8" => Decoded::Text(file.to_vec()),
        b"UTF-16LE" => utf_16(file, u16::from_le_bytes),
        b"UTF-16BE" => utf_16(file, u16::from_be_bytes),
        b"UTF-16" | b"UTF-16LE-BOM" | b"UTF-16BE-BOM" => {
            match (file.strip_prefix(b"\xff\xfe"), file.strip_prefix(b"\xfe\xff")) {
                (Some(rest), _) => utf_16(rest, u16::from_le_bytes),
                (None, Some(rest)) => utf_16(rest, u16::from_be_bytes),
                (None, None) => Decoded::Unknown,
            }
        }
        b"ISO-8859-1" | b"LATIN1" | b"LATIN-1" => {
            Decoded::Text(file.iter().map(|byte| char::from(*byte)).collect::<String>().into_bytes())
        }
        _ => Decoded::Unknown,
    }
}

fn utf_16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Decoded {
    let (pairs, rest) = bytes.as_chunks::<2>();
    if !rest.is_empty() {
        return Decoded::Broken;
    }
    let text = char::decode_utf16(pairs.iter().map(|pair| unit(*pair))).collect::<Result<String, _>>();
    text.map_or(Decoded::Broken, |text| Decoded::Text(text.into_bytes()))
}

/// `$Id: anything$` on one line becomes `$Id$` again.
fn collapsed(text: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some(at) = rest.find(b"$Id:") {
        let (before, from) = rest.split_at(at);
        out.extend_from_slice(before);
        let value = &from[4..];
        match value.find_byteset(b"$\n").filter(|end| value[*end] == b'$') {
            Some(end) => {
                out.extend_from_slice(b"$Id$");
                rest = &value[end + 1..];
            }
            None => {
                out.extend_from_slice(b"$Id:");
                rest = value;
            }
        }
    }
    out.extend_from_slice(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &[u8]) -> ObjectId {
        gix_object::compute_hash(gix_hash::Kind::Sha1, gix_object::Kind::Blob, text).expect("because it can be hashed")
    }

    #[test]
    fn each_built_in_conversion_is_undone_where_it_is_assigned_and_nowhere_else() {
        let none = Conversion::default();
        let endings = Conversion { line_endings: true, ..none.clone() };
        let ident = Conversion { ident: true, ..none.clone() };
        let wide = Conversion { encoding: Some(b"utf-16le".to_vec()), ..none.clone() };
        for (file, object, conversion) in [
            (&b"a\r\nb\r\n"[..], &b"a\nb\n"[..], &endings),
            (b"x $Id: 12ab $ y", b"x $Id$ y", &ident),
            (b"a\0b\0", b"ab", &wide),
        ] {
            assert_eq!(compare(file, &id(object), None, conversion), Compared::Converted);
            assert_eq!(compare(file, &id(object), None, &none), Compared::Different);
            assert_eq!(compare(file, &id(b"other"), None, conversion), Compared::Different);
        }
        assert_eq!(compare(b"$Id: x\n$", &id(b"$Id$"), None, &ident), Compared::Different);
    }

    #[test]
    fn what_only_running_something_would_tell_is_not_decided() {
        let filter = Conversion { filter: Some(b"crypt".to_vec()), ..Conversion::default() };
        assert_eq!(compare(b"x", &id(b"y"), None, &filter), Compared::Undecided("the filter crypt".into()));
        let encoding = Conversion { encoding: Some(b"SHIFT-JIS".to_vec()), ..Conversion::default() };
        assert_eq!(compare(b"x", &id(b"y"), None, &encoding), Compared::Undecided("the encoding SHIFT-JIS".into()));
    }
}
