//! Every key of the configuration, once: its type, default, bounds and meaning. Parsing, environment names, the schema
//! and `config show` are made from this table; what a value leads to is in `resolve`.

/// The name of a root, in a key.
pub(super) const NAME: &str = "*";

/// One key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    /// Its place, with `*` for the name of a root: `roots.*.limits.removals`.
    pub(super) path: &'static str,
    /// What its values are.
    pub(super) kind: Kind,
    /// What holds when nobody says anything; `None` where something depends on it, or nothing holds.
    pub(super) default: Option<&'static str>,
    /// What it means, in a sentence.
    pub(super) doc: &'static str,
}

/// What the values of a key are, with their bounds.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// Any text but an empty one.
    Text,
    /// Any text; an empty one stands for nothing.
    TextOrNothing,
    /// An absolute path.
    Path,
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A span of time such as `30d`, in seconds from the first to the second.
    Span(u64, u64),
    /// A number from the first to the second.
    Count(u64, u64),
    /// A size such as `100GiB`, of one byte at least.
    Size,
    /// A list of texts.
    Texts,
    /// A list of these words.
    Choices(&'static [&'static str]),
}

/// Seconds of a minute, an hour and a day.
pub(super) const MINUTE: u64 = 60;
pub(super) const HOUR: u64 = 60 * MINUTE;
pub(super) const DAY: u64 = 24 * HOUR;

/// No window, retention or grace is longer than ten years: it would be a slip of the pen.
const LONGEST: u64 = 3660 * DAY;

/// The breakers that can be acknowledged.
pub(super) const BREAKERS: [&str; 6] =
    ["empty-source", "source-shrank", "mass-orphaning", "clock-stepped", "root-replaced", "source-clock"];

const fn key(path: &'static str, kind: Kind, default: Option<&'static str>, doc: &'static str) -> Key {
    Key { path, kind, default, doc }
}

/// The table.
pub(super) const KEYS: &[Key] = &[
    key(
        "state",
        Kind::Path,
        None,
        "Where journals, records and the ledger are. Default: `$STATE_DIRECTORY`, else `$XDG_STATE_HOME/derelict`, else `~/.local/state/derelict`; for root without a home, `/var/lib/derelict`.",
    ),
    key("log.format", Kind::Choice(&["human", "json"]), Some("human"), "How log lines are written to stderr."),
    key(
        "log.level",
        Kind::Choice(&["error", "warn", "info", "debug"]),
        Some("info"),
        "The least important event that is logged.",
    ),
    key(
        "stop_within",
        Kind::Span(1, DAY),
        Some("4m"),
        "How long a sweep may take to end after SIGTERM; then the program ends without it, and the next start settles.",
    ),
    key(
        "serve.listen",
        Kind::TextOrNothing,
        Some("127.0.0.1:9464"),
        "Where `serve` answers `/metrics`, `/healthz` and `/readyz`; empty for nowhere.",
    ),
    key(
        "serve.stalled_after",
        Kind::Span(10, DAY),
        Some("15m"),
        "A sweep without progress for so long makes `/healthz` fail.",
    ),
    key(
        "ledger.kind",
        Kind::Choice(&["sqlite", "postgres"]),
        Some("sqlite"),
        "Where sweeps are kept beside the local record.",
    ),
    key("ledger.url_env", Kind::Text, None, "The environment variable that holds the ledger's `postgres://` URL."),
    key("ledger.url_file", Kind::Path, None, "The file that holds it."),
    key(
        "ledger.schema",
        Kind::Text,
        Some(crate::ledger::postgres::SCHEMA),
        "The PostgreSQL schema of the ledger, which is ours alone.",
    ),
    key("ledger.retention", Kind::Span(DAY, LONGEST), Some("180d"), "How long sweeps are remembered."),
    key(
        "floors.idle",
        Kind::Span(0, LONGEST),
        None,
        "In `/etc/derelict/config.toml` only: no root may have a shorter window.",
    ),
    key(
        "floors.minimum_age",
        Kind::Span(0, LONGEST),
        None,
        "In `/etc/derelict/config.toml` only: no root may have a lower age.",
    ),
    key(
        "floors.removals",
        Kind::Count(1, 1_000_000),
        None,
        "In `/etc/derelict/config.toml` only: no sweep may take more directories.",
    ),
    key("roots.*.path", Kind::Path, None, "The directory below which the workspaces lie. Required."),
    key("roots.*.preset", Kind::Choice(&["paperclip"]), None, "Fills in layout, ids and the owner's queries."),
    key(
        "roots.*.layout.kind",
        Kind::Choice(&["exactly", "checkout"]),
        None,
        "`exactly`: the entries below and no checkout anywhere in them, declared expendable; `checkout`: anything, and what would be lost is found out.",
    ),
    key("roots.*.layout.directories", Kind::Texts, None, "The directories a workspace consists of."),
    key("roots.*.layout.files", Kind::Texts, None, "The files beside them."),
    key(
        "roots.*.layout.worktree_homes",
        Kind::Texts,
        None,
        "Directories, by the ends of their paths, that hold work trees when they are not empty.",
    ),
    key(
        "roots.*.ignore_changes",
        Kind::Texts,
        None,
        "Where checkouts lie: changes of tracked files that match are no loss; patterns as in a `.gitignore`.",
    ),
    key(
        "roots.*.rebuildable",
        Kind::Texts,
        None,
        "Where checkouts lie: ignored directories that are made again, each as `DIR=WITNESS`, beside those that are known.",
    ),
    key(
        "roots.*.ask_remote",
        Kind::Flag,
        Some("false"),
        "Where checkouts lie: remotes are asked, with `git ls-remote`, whether they still have what saves a commit.",
    ),
    key(
        "roots.*.ids",
        Kind::Choice(&["uuid", "text", "text-ignoring-case"]),
        Some("text"),
        "How the owner source writes its ids, which are the names of the directories.",
    ),
    key(
        "roots.*.idle",
        Kind::Span(HOUR, LONGEST),
        Some("30d"),
        "An owner that was active within this window keeps its directory. At least 7d with a preset.",
    ),
    key(
        "roots.*.minimum_age",
        Kind::Span(HOUR, LONGEST),
        None,
        "A younger directory stays whatever its owner's row says. Default: as `idle`.",
    ),
    key("roots.*.limits.removals", Kind::Count(1, 1_000_000), Some("200"), "At most so many directories a sweep."),
    key("roots.*.limits.entries", Kind::Count(1, u64::MAX >> 1), None, "At most so many directory entries a sweep."),
    key("roots.*.limits.bytes", Kind::Size, None, "At most so many bytes a sweep."),
    key(
        "roots.*.limits.operations_per_second",
        Kind::Count(1, 1_000_000),
        None,
        "At most so many metadata operations a second while removing.",
    ),
    key(
        "roots.*.deadline",
        Kind::Span(MINUTE, 7 * DAY),
        Some("6h"),
        "A sweep begins no further removal after this time.",
    ),
    key("roots.*.interval", Kind::Span(5 * MINUTE, 30 * DAY), Some("24h"), "How often `serve` sweeps."),
    key("roots.*.armed", Kind::Flag, Some("false"), "Whether anything is removed; otherwise sweeps only report."),
    key(
        "roots.*.grace",
        Kind::Span(0, 90 * DAY),
        Some("0s"),
        "How long what was removed waits beside its place and can be restored.",
    ),
    key(
        "roots.*.acknowledge",
        Kind::Choices(&BREAKERS),
        Some(""),
        "Circuit breakers that do not stop a sweep of this root.",
    ),
    key("roots.*.lock_key", Kind::Text, None, "By this the sweepers of one root know each other. Default: its path."),
    key(
        "roots.*.owner.kind",
        Kind::Choice(&["none", "postgres", "sqlite", "command"]),
        None,
        "Who knows the owners. Required; `none` needs a `minimum_age` of its own.",
    ),
    key(
        "roots.*.owner.url_env",
        Kind::Text,
        None,
        "The environment variable that holds the `postgres://` URL. Default: `DATABASE_URL`.",
    ),
    key("roots.*.owner.url_file", Kind::Path, None, "The file that holds it."),
    key(
        "roots.*.owner.host",
        Kind::Text,
        None,
        "The server, when it is given by its parts: a name, or the directory of a socket.",
    ),
    key("roots.*.owner.port", Kind::Count(1, 65_535), None, "Its port."),
    key("roots.*.owner.dbname", Kind::Text, None, "The database."),
    key("roots.*.owner.user", Kind::Text, None, "Who asks."),
    key("roots.*.owner.password_file", Kind::Path, None, "The file that holds the password."),
    key(
        "roots.*.owner.sslmode",
        Kind::Choice(&["disable", "prefer", "require", "verify-ca", "verify-full"]),
        None,
        "How much encryption is asked for, as libpq names it.",
    ),
    key("roots.*.owner.sslrootcert", Kind::Path, None, "The certificates that sign the server's."),
    key(
        "roots.*.owner.connect_timeout",
        Kind::Span(1, 5 * MINUTE),
        Some("10s"),
        "How long one try to connect may take.",
    ),
    key("roots.*.owner.statement_timeout", Kind::Span(1, HOUR), Some("30s"), "How long one statement may take."),
    key("roots.*.owner.path", Kind::Path, None, "The SQLite database."),
    key(
        "roots.*.owner.query",
        Kind::Text,
        None,
        "Rows by ids: `id`, `last_used_at` and, if there are any, `held` and `reason`.",
    ),
    key("roots.*.owner.held_query", Kind::Text, None, "Who is held by ids: `id` and, if there is one, `reason`."),
    key(
        "roots.*.owner.lock_query",
        Kind::Text,
        None,
        "Takes the owner's lock by one id, from the re-check to the end.",
    ),
    key(
        "roots.*.owner.schema",
        Kind::Text,
        None,
        "The schema of the preset's tables; needed where several schemas have such tables.",
    ),
    key("roots.*.owner.argv", Kind::Texts, None, "The program that prints claims as lines of JSON, and its arguments."),
    key("roots.*.owner.timeout", Kind::Span(1, HOUR), Some("30s"), "How long it may take."),
    key("roots.*.owner.output_limit", Kind::Size, Some("64MiB"), "How much it may print."),
];

/// The key that a written path means: `roots.ws.idle` is `roots.*.idle`.
pub(super) fn find(path: &str) -> Option<&'static Key> {
    let general = general(path);
    KEYS.iter().find(|key| key.path == general)
}

/// The path with the name of its root made general.
fn general(path: &str) -> String {
    match path.strip_prefix("roots.").and_then(|rest| rest.split_once('.')) {
        Some((_, rest)) => format!("roots.{NAME}.{rest}"),
        None => path.to_owned(),
    }
}

/// The known key that is nearest to a mistaken one, if any is near.
pub(super) fn nearest(path: &str) -> Option<&'static str> {
    let general = general(path);
    let nearest = KEYS.iter().map(|key| (distance(key.path, &general), key.path)).min()?;
    (nearest.0 <= 3).then_some(nearest.1)
}

/// How many letters have to be added, dropped or changed.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let replaced = corner + usize::from(x != y);
            corner = row[j + 1];
            row[j + 1] = replaced.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// The environment variable of a path: `DERELICT_ROOTS_WS_LIMITS_REMOVALS`.
pub(super) fn variable(path: &str) -> String {
    format!("DERELICT_{}", upper(path))
}

/// The form of a key or a name in environment variables.
pub(super) fn upper(text: &str) -> String {
    text.chars().map(|c| if matches!(c, '.' | '-') { '_' } else { c.to_ascii_uppercase() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_whatever_its_root_is_called_and_a_slip_is_pointed_out() {
        assert_eq!(find("roots.ws.limits.removals").map(|key| key.path), Some("roots.*.limits.removals"));
        assert!(find("roots.ws.limits").is_none());
        assert_eq!(nearest("roots.ws.limits.removal"), Some("roots.*.limits.removals"));
        assert_eq!(nearest("roots.ws.password"), None);
        assert_eq!(variable("roots.my-ws.limits.removals"), "DERELICT_ROOTS_MY_WS_LIMITS_REMOVALS");
    }

    #[test]
    fn no_key_is_there_twice_and_each_has_a_sentence() {
        let mut paths: Vec<_> = KEYS.iter().map(|key| key.path).collect();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), KEYS.len());
        assert!(KEYS.iter().all(|key| key.doc.ends_with('.')));
    }
}
