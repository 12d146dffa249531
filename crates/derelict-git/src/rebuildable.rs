//! Ignored content that a tool makes again from what is saved: the output directory *and* its
//! witness beside or inside it. Everything else that is ignored is a loss.
//!
//! Key material and databases inside such a directory still count; a person put them there.

use std::io::Read;
use std::os::fd::BorrowedFd;

use bstr::ByteSlice;

use crate::stat::{open_file_at, stat_at};

/// An output directory and the files one of which must bear witness to it.
struct Rule {
    directory: &'static [u8],
    /// Beside the directory.
    beside: &'static [&'static [u8]],
    /// Inside the directory.
    inside: &'static [&'static [u8]],
}

const NODE: &[&[u8]] = &[b"package.json"];
const CARGO: &[&[u8]] = &[b"Cargo.toml"];
const PYTHON: &[&[u8]] =
    &[b"pyproject.toml", b"setup.py", b"setup.cfg", b"requirements.txt", b"tox.ini", b"noxfile.py"];
const PIXI: &[&[u8]] = &[b"pixi.toml", b"pyproject.toml", b"pixi.lock"];
const GRADLE: &[&[u8]] = &[b"build.gradle", b"build.gradle.kts", b"settings.gradle", b"settings.gradle.kts"];
const TAG: &[&[u8]] = &[b"CACHEDIR.TAG"];
const NONE: &[&[u8]] = &[];

const RULES: &[Rule] = &[
    Rule { directory: b"node_modules", beside: NODE, inside: NONE },
    Rule { directory: b".next", beside: NODE, inside: NONE },
    Rule { directory: b".nuxt", beside: NODE, inside: NONE },
    Rule { directory: b".turbo", beside: NODE, inside: NONE },
    Rule { directory: b".parcel-cache", beside: NODE, inside: NONE },
    Rule { directory: b"target", beside: CARGO, inside: TAG },
    Rule { directory: b"target", beside: &[b"pom.xml"], inside: NONE },
    Rule { directory: b".venv", beside: NONE, inside: &[b"pyvenv.cfg"] },
    Rule { directory: b"venv", beside: NONE, inside: &[b"pyvenv.cfg"] },
    Rule { directory: b".tox", beside: PYTHON, inside: NONE },
    Rule { directory: b".nox", beside: PYTHON, inside: NONE },
    Rule { directory: b".pixi", beside: PIXI, inside: NONE },
    Rule { directory: b"__pycache__", beside: NONE, inside: NONE },
    Rule { directory: b".pytest_cache", beside: NONE, inside: TAG },
    Rule { directory: b".mypy_cache", beside: NONE, inside: TAG },
    Rule { directory: b".ruff_cache", beside: NONE, inside: TAG },
    Rule { directory: b".gradle", beside: GRADLE, inside: NONE },
    Rule { directory: b".dart_tool", beside: &[b"pubspec.yaml"], inside: NONE },
    Rule { directory: b"_build", beside: &[b"mix.exs", b"dune-project"], inside: NONE },
    Rule { directory: b"deps", beside: &[b"mix.exs"], inside: NONE },
    Rule { directory: b"zig-cache", beside: &[b"build.zig"], inside: NONE },
    Rule { directory: b".zig-cache", beside: &[b"build.zig"], inside: NONE },
    Rule { directory: b"build", beside: NONE, inside: &[b"CMakeCache.txt"] },
];

/// The first line of a `CACHEDIR.TAG`, as its specification has it.
const CACHE_TAG: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";

/// Whether the ignored directory `name` in `parent` is known to be made again.
///
/// `__pycache__` needs no witness: Python alone writes it. A rule with witnesses both beside and
/// inside is content with either.
pub(crate) fn is_rebuildable(parent: BorrowedFd<'_>, name: &[u8]) -> bool {
    RULES.iter().filter(|rule| rule.directory == name).any(|rule| {
        let needs_none = rule.beside.is_empty() && rule.inside.is_empty();
        let beside = rule.beside.iter().any(|witness| is_file(parent, witness));
        let inside = rule.inside.iter().any(|witness| bears_witness(parent, name, witness));
        needs_none || beside || inside
    })
}

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
