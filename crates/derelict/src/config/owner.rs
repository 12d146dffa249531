//! Who knows the owners of a root, from the settings of its `owner` section. Secrets come from the environment or from
//! a file that is named, and are never part of the configuration.

use std::path::Path;

use derelict_observe::command::CommandSettings;
use derelict_observe::postgres::{Asking, Parts, Queries, Secret, Server, Settings, SslMode};
use derelict_observe::sqlite::SqliteSettings;
use derelict_observe::table::IdScheme;

use crate::config::Owner;
use crate::config::resolve::{Preset, Reader};
use crate::config::value;

/// The variable that holds the URL when nobody names another.
const DATABASE_URL: &str = "DATABASE_URL";

/// The keys that only some kinds have.
const OF_POSTGRES: [&str; 13] = [
    "url_env",
    "url_file",
    "host",
    "port",
    "dbname",
    "user",
    "password_file",
    "sslmode",
    "sslrootcert",
    "connect_timeout",
    "statement_timeout",
    "lock_query",
    "schema",
];
const OF_SQLITE: [&str; 1] = ["path"];
const OF_QUERIES: [&str; 2] = ["query", "held_query"];
const OF_COMMAND: [&str; 3] = ["argv", "timeout", "output_limit"];
const PARTS: [&str; 5] = ["host", "port", "dbname", "user", "password_file"];

/// The owner source of one root; `None` when something is wrong with it.
pub(super) fn owner(reader: &mut Reader<'_>, name: &str, preset: Preset) -> Option<Owner> {
    let section = format!("roots.{name}.owner");
    let at = |key: &str| format!("{section}.{key}");
    let ids = ids(reader, name, preset);
    match reader.text(&at("kind")).as_deref() {
        None => {
            reader.complain(&section, "a root needs an owner source; there is no default");
            None
        }
        Some("postgres") => {
            reader.refuse(&section, &[&OF_SQLITE[..], &OF_COMMAND].concat(), "it is no key of an owner in PostgreSQL");
            let asking = asking(reader, &section, preset, ids);
            let settings = server(reader, &section);
            Some(Owner::Postgres { settings: Box::new(settings?), asking: asking? })
        }
        Some("sqlite") => {
            let others = [&OF_POSTGRES[..], &OF_COMMAND].concat();
            reader.refuse(&section, &others, "it is no key of an owner in SQLite");
            not_with_a_preset(reader, &section, preset);
            let (path, query) = (reader.optional(&at("path"), value::path), reader.text(&at("query")));
            if path.is_none() {
                reader.complain(&at("path"), "an owner in SQLite needs its database");
            }
            if query.is_none() {
                reader.complain(&at("query"), "an owner in SQLite needs a query");
            }
            let held_query = reader.text(&at("held_query"));
            let timeout = reader.span(&at("timeout"));
            Some(Owner::Sqlite(SqliteSettings { path: path?, ids, query: query?, held_query, timeout }))
        }
        Some("command") => {
            let others = [&OF_POSTGRES[..], &OF_SQLITE, &OF_QUERIES].concat();
            reader.refuse(&section, &others, "it is no key of an owner that a command prints");
            not_with_a_preset(reader, &section, preset);
            command(reader, &section, ids)
        }
        Some(_) => {
            let others = [&OF_POSTGRES[..], &OF_SQLITE, &OF_QUERIES, &OF_COMMAND].concat();
            reader.refuse(&section, &others, "nobody is asked");
            not_with_a_preset(reader, &section, preset);
            if reader.setting(&format!("roots.{name}.minimum_age")).is_none() {
                let why = "where nobody is asked the age decides, and has to be given";
                reader.complain(&format!("roots.{name}.minimum_age"), why);
            }
            Some(Owner::Nobody)
        }
    }
}

fn ids(reader: &mut Reader<'_>, name: &str, preset: Preset) -> IdScheme {
    if preset == Preset::Paperclip {
        reader.refuse(&format!("roots.{name}"), &["ids"], "the ids of the preset are uuids");
        return IdScheme::Uuid;
    }
    match reader.text(&format!("roots.{name}.ids")).as_deref() {
        Some("uuid") => IdScheme::Uuid,
        Some("text-ignoring-case") => IdScheme::TextIgnoringCase,
        Some(_) | None => IdScheme::Text,
    }
}

fn not_with_a_preset(reader: &mut Reader<'_>, section: &str, preset: Preset) {
    if preset == Preset::Paperclip {
        reader.complain(&format!("{section}.kind"), "the owners of the preset are in PostgreSQL");
    }
}

fn asking(reader: &mut Reader<'_>, section: &str, preset: Preset, ids: IdScheme) -> Option<Asking> {
    if preset == Preset::Paperclip {
        let all = ["query", "held_query", "lock_query"];
        reader.refuse(section, &all, "the preset has queries of its own");
        return Some(Asking::Paperclip { schema: reader.text(&format!("{section}.schema")) });
    }
    reader.refuse(section, &["schema"], "the query names the schema of its tables itself");
    let at = |key: &str| format!("{section}.{key}");
    let Some(query) = reader.text(&at("query")) else {
        reader.complain(&at("query"), "an owner in PostgreSQL needs a query, or the root a preset");
        return None;
    };
    let queries =
        Queries { query, held_query: reader.text(&at("held_query")), lock_query: reader.text(&at("lock_query")) };
    Some(Asking::Operator { ids, queries })
}

fn command(reader: &mut Reader<'_>, section: &str, ids: IdScheme) -> Option<Owner> {
    let at = |key: &str| format!("{section}.{key}");
    let mut argv = reader.optional(&at("argv"), value::texts).into_iter().flatten();
    let program = argv.next().filter(|program| Path::new(program).is_absolute());
    let Some(program) = program else {
        reader.complain(&at("argv"), "it has to begin with the absolute path of a program");
        return None;
    };
    let limit = reader.optional(&at("output_limit"), value::size)?;
    Some(Owner::Command(CommandSettings {
        program: program.into(),
        arguments: argv.collect(),
        ids,
        timeout: reader.span(&at("timeout")),
        output_limit: usize::try_from(limit).unwrap_or(usize::MAX),
    }))
}

fn server(reader: &mut Reader<'_>, section: &str) -> Option<Settings> {
    let at = |key: &str| format!("{section}.{key}");
    let mut settings = match reader.text(&at("host")) {
        Some(host) => {
            reader.refuse(section, &["url_env", "url_file"], "the server is given by its parts");
            let password = match reader.optional(&at("password_file"), value::path) {
                Some(file) => Some(secret(reader, &at("password_file"), &file)?),
                None => None,
            };
            Settings::new(Server::Parts(Parts {
                host,
                port: reader.number(&at("port")).and_then(|port| u16::try_from(port).ok()),
                dbname: reader.text(&at("dbname")),
                user: reader.text(&at("user")),
                password,
            }))
        }
        None => {
            reader.refuse(section, &PARTS[1..], "it belongs to a `host`, which is missing");
            url(reader, section)?
        }
    };
    settings.ssl_mode = match reader.text(&at("sslmode")).map(|mode| mode.parse::<SslMode>()) {
        Some(Ok(mode)) => Some(mode),
        Some(Err(_)) | None => settings.ssl_mode,
    };
    settings.ssl_root_cert = reader.optional(&at("sslrootcert"), value::path).or(settings.ssl_root_cert);
    settings.connect_timeout = reader.span(&at("connect_timeout"));
    settings.statement_timeout = reader.span(&at("statement_timeout"));
    Some(settings)
}

/// A server by its URL, from a file that is named or from the environment.
pub(super) fn url(reader: &mut Reader<'_>, section: &str) -> Option<Settings> {
    let at = |key: &str| format!("{section}.{key}");
    let url = match reader.optional(&at("url_file"), value::path) {
        Some(file) => secret(reader, &at("url_file"), &file)?,
        None => {
            let variable = reader.text(&at("url_env")).unwrap_or_else(|| DATABASE_URL.to_owned());
            match reader.environment.get(variable.as_str()) {
                Some(url) if !url.is_empty() => Secret::new(*url),
                Some(_) | None => {
                    let why = format!("the variable {variable} of the environment is not set");
                    reader.complain(&at("url_env"), &why);
                    return None;
                }
            }
        }
    };
    let settings = Settings::new(Server::Url(url));
    match settings.place() {
        Ok(_) => Some(settings),
        Err(error) => {
            let key = if reader.setting(&at("url_file")).is_some() { "url_file" } else { "url_env" };
            reader.complain(&at(key), &error.to_string());
            None
        }
    }
}

fn secret(reader: &mut Reader<'_>, path: &str, file: &Path) -> Option<Secret> {
    match std::fs::read_to_string(file) {
        Ok(content) => Some(Secret::new(content.trim_end_matches(['\r', '\n']))),
        Err(error) => {
            reader.complain(path, &format!("it cannot be read: {error}"));
            None
        }
    }
}
