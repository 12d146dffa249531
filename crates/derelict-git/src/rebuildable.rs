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

/// Name endings of files that are worth a look inside, and what is found at their beginning.
const PRECIOUS: &[(&[u8], &[u8])] = &[
    (b".sqlite", b"SQLite format 3\0"),
    (b".sqlite3", b"SQLite format 3\0"),
    (b".db", b"SQLite format 3\0"),
    (b".kdbx", b""),
    (b".p12", b""),
    (b".pfx", b""),
    (b".jks", b""),
    (b".keystore", b""),
];

/// How much of a file that may hold a private key is read.
const KEY_BYTES: u64 = 16 * 1024;

/// Whether a file inside a rebuildable directory is something a person put there: a secret or a database.
pub(crate) fn is_precious(dir: BorrowedFd<'_>, name: &[u8]) -> bool {
    if name == b".env" || name.starts_with(b".env.") || name == b"PG_VERSION" || name == b"ibdata1" {
        return true;
    }
    if PRECIOUS.iter().any(|(ending, magic)| name.ends_with(ending) && starts_with(dir, name, magic) != Some(false)) {
        return true;
    }
    let may_be_key = name.ends_with(b".pem") || name.ends_with(b".key") || name.starts_with(b"id_");
    may_be_key && read_start(dir, name, KEY_BYTES).is_none_or(|text| text.contains_str("PRIVATE KEY-----"))
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
