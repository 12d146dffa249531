//! The places where settings are written, weakest first: defaults, `/etc`, the user's file, a file that was named, the
//! environment. Each is read whole and laid over the ones before, key by key. What the values mean is in `resolve`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::config::keys::{self, KEYS, Kind, NAME};
use crate::config::paperclip;
use crate::config::value::{Origin, Problem, Raw, Setting, check};
use crate::text;

/// Settings by their written path.
pub(crate) type Settings = BTreeMap<String, Setting>;

/// Where configuration may be; nothing is read from the current directory.
#[derive(Debug, Clone)]
pub(crate) struct Sources {
    /// `/etc/derelict/config.toml`, the only one with floors.
    pub(crate) system: PathBuf,
    /// The user's own.
    pub(crate) user: Option<PathBuf>,
    /// The one that was named, which has to exist.
    pub(crate) named: Option<PathBuf>,
    /// The environment.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// Who runs the program; nobody else but root may have written the files.
    pub(crate) uid: u32,
}

/// Everything that was written, laid over each other.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    pub(crate) settings: Settings,
    /// The files that were read.
    pub(crate) files: Vec<PathBuf>,
    pub(super) problems: Vec<Problem>,
}

/// Sections that may be written as one word: `owner = "none"` is `owner.kind = "none"`.
const SHORTHANDS: [&str; 2] = ["owner", "layout"];

/// Variables of ours that are no configuration.
const OTHERS: [&str; 1] = ["DERELICT_SEEDS"];

/// What every variable of ours begins with.
const PREFIX: &str = "DERELICT_";

/// A configuration larger than this, in bytes, is none.
const MOST_BYTES: u64 = 1 << 20;

impl Layers {
    /// Reads every source.
    pub(crate) fn read(sources: &Sources) -> Self {
        let mut layers = Self::default();
        layers.optional(&sources.system, sources.uid, Floors::Allowed);
        if let Some(user) = &sources.user {
            layers.optional(user, sources.uid, Floors::Refused);
        }
        // A unit may name the system's file, which has been read and keeps its floors.
        if let Some(named) = sources.named.as_ref().filter(|named| !is_same_file(named, &sources.system)) {
            layers.file(named, sources.uid, Floors::Refused);
        }
        paperclip::lay_over(&mut layers, &sources.environment);
        layers.environment(&sources.environment);
        layers
    }

    fn optional(&mut self, path: &Path, uid: u32, floors: Floors) {
        match std::fs::symlink_metadata(path) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
            Ok(_) | Err(_) => self.file(path, uid, floors),
        }
    }

    fn file(&mut self, path: &Path, uid: u32, floors: Floors) {
        let content = match trusted(path, uid) {
            Ok(content) => content,
            Err(why) => return self.problems.push(Problem(format!("{}: {why}", text::path(path)))),
        };
        self.files.push(path.to_path_buf());
        let document = match DeTable::parse(&content) {
            Ok(document) => document,
            Err(error) => {
                let line = error.span().map_or(1, |span| line_of(&content, span.start));
                let why = text::sentence(error.message());
                return self.problems.push(Problem(format!("{}:{line}: {why}", text::path(path))));
            }
        };
        let file = File { path, content: &content, floors };
        self.table(&file, "", document.get_ref());
    }

    fn table(&mut self, file: &File<'_>, prefix: &str, table: &DeTable<'_>) {
        for (name, value) in table {
            let path = match prefix {
                "" => name.get_ref().to_string(),
                prefix => format!("{prefix}.{}", name.get_ref()),
            };
            let origin = Origin::File { path: file.path.to_owned(), line: line_of(file.content, name.span().start) };
            if let Err(why) = self.named(file, &path, name.get_ref()) {
                self.problems.push(Problem(format!("{origin}: {}: {why}", text::sentence(&path))));
                continue;
            }
            match value.get_ref() {
                DeValue::Table(inner) => self.table(file, &path, inner),
                DeValue::String(_)
                | DeValue::Integer(_)
                | DeValue::Float(_)
                | DeValue::Boolean(_)
                | DeValue::Datetime(_)
                | DeValue::Array(_) => self.value(path, value, origin),
            }
        }
    }

    /// Whether a name may stand where it stands.
    fn named(&self, file: &File<'_>, path: &str, name: &str) -> Result<(), String> {
        if path == "floors" && file.floors == Floors::Refused {
            return Err("floors can be set in /etc/derelict/config.toml only".into());
        }
        let is_root = path.strip_prefix("roots.").is_some_and(|rest| rest == name);
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if is_root && (name.is_empty() || !name.chars().all(plain)) {
            return Err("the name of a root consists of letters, digits, `-` and `_`".into());
        }
        Ok(())
    }

    fn value(&mut self, path: String, value: &Spanned<DeValue<'_>>, origin: Origin) {
        let raw = match raw(value.get_ref()) {
            Ok(raw) => raw,
            Err(why) => {
                return self.problems.push(Problem(format!("{origin}: {}: {why}", text::sentence(&path))));
            }
        };
        self.set(path, Setting { raw, origin });
    }

    /// Lays one setting over what was there, if it is one.
    pub(super) fn set(&mut self, path: String, setting: Setting) {
        let path = match path.rsplit_once('.') {
            Some((_, last)) if SHORTHANDS.contains(&last) && matches!(setting.raw, Raw::Text(_)) => {
                format!("{path}.kind")
            }
            Some(_) | None => path,
        };
        let Some(key) = keys::find(&path) else { return self.problems.push(unknown(&path, &setting)) };
        let checked = match (key.kind, &setting.raw, &setting.origin) {
            // In the environment everything is text.
            (Kind::Flag, Raw::Text(_), Origin::File { .. }) => {
                Err("it has to be true or false, without quotation marks".to_owned())
            }
            (kind, raw, _) => check(kind, raw),
        };
        match checked {
            Ok(()) => {
                self.settings.insert(path, setting);
            }
            Err(why) => self.problems.push(Problem::of(&path, &setting, &why)),
        }
    }

    fn environment(&mut self, environment: &[(OsString, OsString)]) {
        for (name, value) in environment {
            let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX) && !OTHERS.contains(name)) else {
                continue;
            };
            let Some(value) = value.to_str() else {
                self.problems.push(Problem(format!("{name}: its value is not text")));
                continue;
            };
            match self.path_of(name) {
                Ok(path) => {
                    let origin = Origin::Variable(name.to_owned());
                    self.set(path, Setting { raw: Raw::Text(value.to_owned()), origin });
                }
                Err(why) => self.problems.push(Problem(format!("{}: {why}", text::sentence(name)))),
            }
        }
    }

    /// The path that a variable sets: a plain key, or a key of a root, whose name is known from the files or new.
    fn path_of(&self, name: &str) -> Result<String, String> {
        let plain = KEYS.iter().find(|key| !key.path.contains(NAME) && keys::variable(key.path) == name);
        if let Some(key) = plain {
            return match key.path.strip_prefix("floors.") {
                Some(_) => Err("floors can be set in /etc/derelict/config.toml only".into()),
                None => Ok(key.path.to_owned()),
            };
        }
        let unknown = || "no key has this variable".to_owned();
        let rest = name.strip_prefix("DERELICT_ROOTS_").ok_or_else(unknown)?;
        // The longest ending is meant: `_OWNER_PATH` and not `_PATH`.
        let endings = KEYS.iter().filter_map(|key| key.path.strip_prefix("roots.*.")).chain(SHORTHANDS);
        let found = endings.filter_map(|ending| {
            let root = rest.strip_suffix(&format!("_{}", keys::upper(ending)))?;
            (!root.is_empty()).then_some((ending, root))
        });
        let (ending, root) = found.max_by_key(|(ending, _)| ending.len()).ok_or_else(unknown)?;
        Ok(format!("roots.{}.{ending}", self.root_called(root)?))
    }

    fn root_called(&self, upper: &str) -> Result<String, String> {
        let mut known = self.roots();
        known.retain(|root| keys::upper(root) == upper);
        match known.as_slice() {
            [] => Ok(upper.to_ascii_lowercase()),
            [one] => Ok(one.clone()),
            several => Err(format!("it could mean the roots {}", several.join(" and "))),
        }
    }

    /// The names of all roots that something is said of.
    pub(super) fn roots(&self) -> Vec<String> {
        let names = self.settings.keys().filter_map(|path| path.strip_prefix("roots.")?.split('.').next());
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.dedup();
        names
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Floors {
    Allowed,
    Refused,
}

struct File<'f> {
    path: &'f Path,
    content: &'f str,
    floors: Floors,
}

fn unknown(path: &str, setting: &Setting) -> Problem {
    let last = path.rsplit('.').next().unwrap_or(path);
    let secret = matches!(last, "password" | "url");
    let why = match keys::nearest(path) {
        // The value is not repeated: it may well be the secret itself.
        _ if secret => {
            return Problem(format!(
                "{}: {}: secrets do not belong into the configuration; use `{last}_file`{}",
                setting.origin,
                text::sentence(path),
                if last == "url" { " or `url_env`" } else { "" }
            ));
        }
        Some(nearest) => format!("there is no such key; did you mean `{nearest}`?"),
        None => "there is no such key".to_owned(),
    };
    Problem(format!("{}: {}: {why}", setting.origin, text::sentence(path)))
}

fn raw(value: &DeValue<'_>) -> Result<Raw, String> {
    match value {
        DeValue::String(text) => Ok(Raw::Text(text.to_string())),
        DeValue::Integer(number) => {
            let digits = number.as_str();
            i64::from_str_radix(digits, number.radix()).map(Raw::Integer).map_err(|_| "the number is too large".into())
        }
        DeValue::Boolean(flag) => Ok(Raw::Flag(*flag)),
        DeValue::Array(items) => items
            .iter()
            .map(|item| item.get_ref().as_str().map(str::to_owned).ok_or("it has to be a list of texts".to_owned()))
            .collect::<Result<_, _>>()
            .map(Raw::Texts),
        DeValue::Float(_) | DeValue::Datetime(_) | DeValue::Table(_) => {
            Err("it has to be a text, a whole number, a flag or a list of texts".into())
        }
    }
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| std::fs::metadata(path).map(|metadata| (metadata.dev(), metadata.ino()));
    matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
}

fn line_of(content: &str, at: usize) -> usize {
    content.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}

/// The content of a file that nobody else can have written.
fn trusted(path: &Path, uid: u32) -> Result<String, String> {
    let metadata = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is not a regular file".into());
    }
    if metadata.uid() != 0 && metadata.uid() != uid {
        return Err(format!("it belongs to user {}; only root's files and your own are read", metadata.uid()));
    }
    if metadata.mode() & 0o022 != 0 {
        return Err("others may write it; a tool that deletes does not take its orders from there".into());
    }
    if metadata.len() > MOST_BYTES {
        return Err(format!("it is larger than {MOST_BYTES} bytes"));
    }
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}
