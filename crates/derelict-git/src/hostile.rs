//! Our own parsers, each given any bytes at all: for fuzzing, and for the test that runs the corpus through
//! them. A parser may refuse, and must come back.

use std::collections::HashSet;
use std::path::Path;

use bstr::ByteSlice;
use gix_hash::ObjectId;

use crate::attributes::{Attributes, LineEndings};
use crate::conversion::compare;
use crate::ignore::{IsDir, Rules};
use crate::lfs::{Pointer, parse_oid};
use crate::lines::{carries, same_change};
use crate::refs::{Refs, parse_ref, parse_reflog};
use crate::reftable::Stack;
use crate::repository::path_line;
use crate::rewrites::Rewrites;
use crate::settings::Settings;

/// A parser by the name of its fuzz target.
pub type Parser = fn(&[u8]);

/// All of them.
pub const PARSERS: [(&str, Parser); 7] = [
    ("reftable", reftable),
    ("refs", refs),
    ("attributes", attributes),
    ("conversion", conversion),
    ("lfs", lfs),
    ("lines", lines),
    ("settings", settings),
];

const HASHES: [gix_hash::Kind; 2] = [gix_hash::Kind::Sha1, gix_hash::Kind::Sha256];

fn reftable(bytes: &[u8]) {
    let sealed = crate::reftable::sealed(bytes);
    for (hash, bytes) in HASHES.iter().flat_map(|hash| [(*hash, bytes), (*hash, &sealed)]) {
        let mut stack = Stack::default();
        // Twice, so that a table is laid over what it says itself.
        if stack.lay(bytes, hash).is_ok() {
            let once = (stack.refs.clone(), stack.logs.clone());
            let again = stack.lay(bytes, hash);
            assert!(again.is_ok() && (stack.refs, stack.logs) == once, "the same table says something else");
        }
    }
}

fn refs(bytes: &[u8]) {
    for hash in HASHES {
        let (mut refs, mut unreadable) = (Refs::default(), Vec::new());
        refs.parse_packed(bytes, hash, &HashSet::new());
        let lines = bytes.lines().filter(|line| !line.is_empty() && !line.starts_with(b"#") && !line.starts_with(b"^"));
        assert_eq!(lines.count(), refs.direct.len() + refs.unreadable.len(), "a line was passed over");
        let log = parse_reflog(b"HEAD".to_vec(), bytes, hash, &mut unreadable);
        let said = !log.objects.is_empty() || log.last.is_some() || !unreadable.is_empty();
        assert!(bytes.is_empty() || said, "a reflog was passed over");
        if let Some(head) = parse_ref(bytes, hash) {
            assert!(!format!("{head:?}").is_empty());
        }
    }
    assert!(path_line(bytes).as_os_str().len() <= bytes.len());
}

fn attributes(bytes: &[u8]) {
    let (info, rest) = halves(bytes);
    let mut attributes = Attributes::new(&[], Some(info));
    attributes.push(rest, b"");
    attributes.push(info, b"d");
    let mut rules = Rules::default();
    rules.push(rest, b"");
    for path in [&b"a"[..], b"d/a.bin", b"d/e/\xff"] {
        let one = attributes.of(path, LineEndings::Kept);
        assert!(one.filter.as_deref() != Some(b"lfs") || attributes.mention_lfs(), "git-lfs was passed over");
        rules.ignores(path, IsDir::No);
    }
}

fn conversion(bytes: &[u8]) {
    let (text, file) = halves(bytes);
    let mut attributes = Attributes::default();
    attributes.push(text, b"");
    let id = ObjectId::empty_blob(gix_hash::Kind::Sha1);
    compare(file, &id, Some(text), &attributes.of(b"a", LineEndings::Converted));
}

fn lfs(bytes: &[u8]) {
    if let Some(pointer) = Pointer::parse(bytes) {
        let hex: String = pointer.oid.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(parse_oid(hex.as_bytes()), Some(pointer.oid));
        assert!(bytes.contains_str(&hex));
    }
    parse_oid(bytes);
}

fn lines(bytes: &[u8]) {
    let (base, rest) = halves(bytes);
    let (ours, theirs) = halves(rest);
    if carries(base, ours, theirs) {
        let known: HashSet<&[u8]> = base.lines_with_terminator().chain(ours.lines_with_terminator()).collect();
        assert!(theirs.lines_with_terminator().all(|line| known.contains(line)), "a line is nowhere else");
    }
    assert!(base == ours || carries(base, ours, ours) || base.len() + ours.len() > 1_000, "a text carries itself");
    same_change((base, ours), (base, theirs));
}

fn settings(bytes: &[u8]) {
    if let Ok(settings) = Settings::parse(bytes, Path::new("config")) {
        let rewrites = Rewrites::of(&settings, Path::new("/nonexistent"), None);
        for remote in &settings.remotes {
            assert!(!remote.maps(b"refs/heads/main"), "a local branch is no remote's");
            if let Some(url) = &remote.url {
                rewrites.addresses(url, &Rewrites::default());
            }
        }
    }
}

/// What precedes the first byte 0, and what follows it.
fn halves(bytes: &[u8]) -> (&[u8], &[u8]) {
    bytes.split_once_str("\0").unwrap_or((bytes, b""))
}
