//! Ignored content that a tool makes again from what is saved: the output directory *and* its
//! witness beside or inside it. Everything else that is ignored is a loss.
//!
//! What is known lies in `rebuildable.table`, and an operator can add to it. Key material and databases inside such
//! a directory still count; a person put them there.

use std::io::Read;
use std::os::fd::BorrowedFd;

use bstr::ByteSlice;

use crate::stat::{open_file_at, stat_at};

/// What everybody has.
const TABLE: &str = include_str!("rebuildable.table");

/// Output directories, each with a file that must bear witness to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rebuildable {
    rules: Vec<Rule>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    /// As it was written.
    text: String,
    directory: Vec<u8>,
    witness: Witness,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Witness {
    /// One tool alone writes a directory of this name.
    None,
    Beside(Vec<u8>),
    Inside(Vec<u8>),
}

/// An entry that cannot be meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the entry {entry:?} of rebuildable directories {why}")]
pub struct BadRebuildable {
    entry: String,
    why: &'static str,
}

impl Rebuildable {
    /// Nothing beside what everybody has.
    pub const NONE: Self = Self { rules: Vec::new() };

    /// Reads entries of the form `DIR=WITNESS`: directories of this name count as rebuildable where a file of the
    /// witness's name lies beside them, or inside them when it is written as `DIR/FILE`.
    ///
    /// # Errors
    /// [`BadRebuildable`] names the first entry that lacks a part or that names no single directory.
    pub fn parse<T: AsRef<str>>(entries: &[T]) -> Result<Self, BadRebuildable> {
        let rules = entries.iter().map(|entry| {
            let rule = parsed(entry.as_ref())?;
            match rule.witness {
                Witness::None => Err(bad(entry.as_ref(), "has no witness; write DIR=WITNESS")),
                Witness::Beside(_) | Witness::Inside(_) => Ok(rule),
            }
        });
        Ok(Self { rules: rules.collect::<Result<_, _>>()? })
    }

    /// The entries as they were written, in their order.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().map(|rule| rule.text.as_str())
    }

    /// These, and what everybody has.
    pub(crate) fn with_table(&self) -> Self {
        let lines = TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let table = lines.map(|line| parsed(line).expect("because a test reads every line of the table"));
        Self { rules: table.chain(self.rules.iter().cloned()).collect() }
    }

    /// Whether the ignored directory `name` in `parent` is known to be made again.
    pub(crate) fn knows(&self, parent: BorrowedFd<'_>, name: &[u8]) -> bool {
        self.rules.iter().filter(|rule| rule.directory == name).any(|rule| match &rule.witness {
            Witness::None => true,
            Witness::Beside(witness) => is_file(parent, witness),
            Witness::Inside(witness) => bears_witness(parent, name, witness),
        })
    }
}

fn bad(entry: &str, why: &'static str) -> BadRebuildable {
    BadRebuildable { entry: entry.to_owned(), why }
}

fn parsed(entry: &str) -> Result<Rule, BadRebuildable> {
    let (directory, witness) = match entry.split_once('=') {
        Some((directory, witness)) => (directory.trim(), Some(witness.trim())),
        None => (entry.trim(), None),
    };
    if !is_plain(directory) {
        return Err(bad(entry, "does not begin with the name of one directory, as it is and without a pattern"));
    }
    let inside = witness.and_then(|witness| witness.strip_prefix(directory)?.strip_prefix('/'));
    let witness = match (witness, inside) {
        (None, _) => Witness::None,
        (_, Some(file)) if is_plain(file) => Witness::Inside(file.into()),
        (Some(file), None) if is_plain(file) => Witness::Beside(file.into()),
        (Some(_), _) => return Err(bad(entry, "names no witness: a file beside the directory, or DIR/FILE in it")),
    };
    Ok(Rule { text: entry.to_owned(), directory: directory.into(), witness })
}

/// One name of a file or directory; what looks like a pattern is a slip, for none is understood here.
fn is_plain(name: &str) -> bool {
    let odd = |c: char| c.is_control() || matches!(c, '/' | '*' | '?' | '[' | '=');
    !matches!(name, "" | "." | ".." | ".git") && !name.chars().any(odd)
}

/// The first line of a `CACHEDIR.TAG`, as its specification has it.
const CACHE_TAG: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";

fn is_file(dir: BorrowedFd<'_>, name: &[u8]) -> bool {
    stat_at(dir, name).is_ok_and(|stat| stat.kind() == rustix::fs::FileType::RegularFile)
}

fn bears_witness(parent: BorrowedFd<'_>, name: &[u8], witness: &[u8]) -> bool {
    let path = [name, b"/", witness].concat();
    if witness != b"CACHEDIR.TAG" {
        return is_file(parent, &path);
    }
    starts_with(parent, &path, CACHE_TAG) == Some(true)
}

/// Files that tools make again or that hold nothing: compiled Python, and what file managers leave.
pub(crate) fn is_rebuildable_file(name: &[u8]) -> bool {
    let compiled = [&b".pyc"[..], b".pyo", b".nbi", b".nbc"].iter().any(|ending| name.ends_with(ending));
    compiled || name == b".DS_Store" || name == b"Thumbs.db"
}

/// Names of secrets and databases, in lower case.
const NAMES: &[&[u8]] = &[
    b".env",
    b".netrc",
    b".pgpass",
    b".git-credentials",
    b".htpasswd",
    b"pg_version",
    b"ibdata1",
    b"dump.rdb",
    b"wiredtiger",
    b"terraform.tfstate",
    b"credentials",
    b"deploy_key",
];

/// What such names end in, in lower case.
const ENDINGS: &[&[u8]] = &[
    b".env",
    b".kdbx",
    b".p12",
    b".pfx",
    b".jks",
    b".keystore",
    b".ppk",
    b".duckdb",
    b".mdb",
    b".rdb",
    b".tfstate",
    b".appendonly.aof",
    b".mv.db",
    b".h2.db",
    b".sql",
    b".sst",
    b".wt",
];

/// The first bytes of an SQLite database.
const SQLITE: &[u8] = b"SQLite format 3\0";

/// Name endings of files that build tools make too, so that the beginning decides.
const MAYBE_DATABASE: &[&[u8]] = &[b".sqlite", b".sqlite3", b".db", b".db3", b".vscdb", b".gpkg", b".dat", b".bin"];

/// Name endings of files that may hold a private key.
const MAYBE_KEY: &[&[u8]] = &[b".pem", b".key", b".asc", b".gpg", b".age", b".txt"];

/// How much of a file that may hold a private key is read.
const KEY_BYTES: u64 = 16 * 1024;

/// Whether a file inside a rebuildable directory is something a person put there: a secret or a
/// database. What cannot be read might be one.
///
/// By name first: a build directory holds a hundred thousand files, and reading each would cost more
/// than the walk. One with an ending that keys and
/// databases have is looked into; program code and object files are not.
pub(crate) fn is_precious(dir: BorrowedFd<'_>, name: &[u8]) -> bool {
    let name_in_lower = name.to_ascii_lowercase();
    let ends = |endings: &[&[u8]]| endings.iter().any(|ending| name_in_lower.ends_with(ending));
    if NAMES.contains(&name_in_lower.as_slice()) || name_in_lower.starts_with(b".env.") || ends(ENDINGS) {
        return true;
    }
    if ends(MAYBE_DATABASE) {
        return read_start(dir, name, SQLITE.len() as u64).is_none_or(|start| start == SQLITE);
    }
    if ends(MAYBE_KEY) || name_in_lower.starts_with(b"id_") {
        return read_start(dir, name, KEY_BYTES).is_none_or(|text| is_key(&text));
    }
    false
}

fn is_key(text: &[u8]) -> bool {
    text.contains_str("PRIVATE KEY") && text.contains_str("-----BEGIN") || text.starts_with(b"AGE-SECRET-KEY")
}

/// `None` when the file cannot be read: it might begin with anything.
fn starts_with(dir: BorrowedFd<'_>, name: &[u8], magic: &[u8]) -> Option<bool> {
    read_start(dir, name, magic.len() as u64).map(|text| text == magic)
}

fn read_start(dir: BorrowedFd<'_>, name: &[u8], limit: u64) -> Option<Vec<u8>> {
    let file = open_file_at(dir, name).ok().filter(|file| file.metadata().is_ok_and(|metadata| metadata.is_file()))?;
    let mut start = Vec::new();
    file.take(limit).read_to_end(&mut start).ok()?;
    Some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_well_formed_and_has_no_line_twice() {
        let table = Rebuildable::NONE.with_table();
        let mut texts: Vec<&str> = table.texts().collect();
        assert!(texts.len() > 40);
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), table.rules.len());
        let alone = table.rules.iter().filter(|rule| rule.witness == Witness::None);
        assert_eq!(alone.map(|rule| rule.text.as_str()).collect::<Vec<_>>(), ["__pycache__"]);
    }

    #[test]
    fn an_entry_that_cannot_be_meant_is_refused_by_name() {
        let read = Rebuildable::parse(&["out=BUILD", ".cache = .cache/mark"]).expect("because they are well-formed");
        assert_eq!(read.rules[0].witness, Witness::Beside(b"BUILD".to_vec()));
        assert_eq!(read.rules[1].witness, Witness::Inside(b"mark".to_vec()));
        let refused = |entry: &str| Rebuildable::parse(&["out=BUILD", entry]).map_err(|error| error.to_string());
        let expected = "the entry \"out\" of rebuildable directories has no witness; write DIR=WITNESS";
        assert_eq!(refused("out"), Err(expected.to_owned()));
        for entry in
            ["", "=", "=x", "out=", "a/b=x", "*=x", ".git=x", "..=x", "out=../x", "out=out/", "out=a/b", "out=out/a/b"]
        {
            assert!(refused(entry).is_err(), "{entry}");
        }
    }
}
