//! The schema of the configuration as JSON Schema, and the configuration in force as TOML with the origin of every
//! value, both made from the table of keys.

use serde_json::{Map, Value, json};

use crate::config::keys::{KEYS, Key, Kind, NAME};
use crate::config::layers::Layers;
use crate::config::value::{Origin, Raw, shown_span};

/// What spans look like.
const SPAN: &str = "^[0-9]+(s|m|h|d|w)$";

/// What names of roots look like.
const ROOT_NAME: &str = "^[A-Za-z0-9_-]+$";

/// JSON Schema, draft 2020-12.
pub(super) fn schema() -> Value {
    let mut top = Map::new();
    let mut root = Map::new();
    for key in KEYS {
        match key.path.strip_prefix("roots.*.") {
            Some(path) => place(&mut root, path, key),
            None => place(&mut top, key.path, key),
        }
    }
    for section in ["owner", "layout"] {
        // `owner = "none"` is short for `owner.kind = "none"`.
        if let Some(long) = root.get(section).cloned() {
            root.insert(section.into(), json!({ "anyOf": [{ "type": "string" }, long] }));
        }
    }
    top.insert(
        "roots".into(),
        json!({
            "type": "object",
            "description": "What is swept, by name.",
            "propertyNames": { "pattern": ROOT_NAME },
            "additionalProperties": object(root),
        }),
    );
    let mut schema = object(top);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("derelict");
    schema
}

fn object(properties: Map<String, Value>) -> Value {
    json!({ "type": "object", "additionalProperties": false, "properties": properties })
}

fn place(properties: &mut Map<String, Value>, path: &str, key: &Key) {
    match path.split_once('.') {
        None => {
            properties.insert(path.to_owned(), property(key));
        }
        Some((section, rest)) => {
            let below = properties.entry(section).or_insert_with(|| object(Map::new()));
            if let Some(inner) = below["properties"].as_object_mut() {
                place(inner, rest, key);
            }
        }
    }
}

fn property(key: &Key) -> Value {
    let mut property = match key.kind {
        Kind::Text => json!({ "type": "string", "minLength": 1 }),
        Kind::TextOrNothing => json!({ "type": "string" }),
        Kind::Path => json!({ "type": "string", "pattern": "^/" }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Choice(words) => json!({ "enum": words }),
        Kind::Span(..) => json!({ "type": "string", "pattern": SPAN }),
        Kind::Count(least, most) => json!({ "type": "integer", "minimum": least, "maximum": most }),
        Kind::Size => json!({ "type": ["string", "integer"] }),
        Kind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
        Kind::Choices(words) => json!({ "type": "array", "items": { "enum": words } }),
    };
    let bounds = match key.kind {
        Kind::Span(least, most) => format!(" From {} to {}.", shown_span(least), shown_span(most)),
        Kind::Text
        | Kind::TextOrNothing
        | Kind::Path
        | Kind::Flag
        | Kind::Choice(_)
        | Kind::Count(..)
        | Kind::Size
        | Kind::Texts
        | Kind::Choices(_) => String::new(),
    };
    property["description"] = json!(format!("{}{bounds}", key.doc));
    if let Some(default) = key.default {
        property["default"] = native(key.kind, default);
    }
    property
}

/// A default in the type that it has in a file.
fn native(kind: Kind, text: &str) -> Value {
    match kind {
        Kind::Flag => json!(text == "true"),
        Kind::Count(..) => text.parse::<u64>().map_or_else(|_| json!(text), Value::from),
        Kind::Texts | Kind::Choices(_) => {
            json!(text.split(',').filter(|part| !part.is_empty()).collect::<Vec<_>>())
        }
        Kind::Text | Kind::TextOrNothing | Kind::Path | Kind::Choice(_) | Kind::Span(..) | Kind::Size => json!(text),
    }
}

/// One value in force: its path, the value as in a file, and where it is from.
pub(super) struct InForce {
    pub(super) path: String,
    pub(super) value: Value,
    pub(super) origin: String,
}

/// Every value in force: those that were written, and the defaults of everything that is spoken of.
pub(super) fn in_force(layers: &Layers) -> Vec<InForce> {
    let roots = layers.roots();
    let paths = KEYS.iter().flat_map(|key| -> Vec<(String, &Key)> {
        if key.path.contains(NAME) {
            roots.iter().map(|root| (key.path.replacen(NAME, root, 1), key)).collect()
        } else {
            vec![(key.path.to_owned(), key)]
        }
    });
    let value = |(path, key): (String, &Key)| match (layers.settings.get(&path), key.default) {
        (Some(setting), _) => {
            let value = match &setting.raw {
                Raw::Text(text) => native(key.kind, text),
                Raw::Integer(number) => json!(number),
                Raw::Flag(flag) => json!(flag),
                Raw::Texts(texts) => json!(texts),
            };
            Some(InForce { path, value, origin: setting.origin.to_string() })
        }
        (None, Some(default)) => {
            Some(InForce { path, value: native(key.kind, default), origin: Origin::Default.to_string() })
        }
        (None, None) => None,
    };
    paths.filter_map(value).collect()
}

/// The same as a file, with the origins beside it. Secrets are not in it: they are not part of a configuration.
pub(super) fn as_toml(values: &[InForce]) -> Vec<String> {
    let mut sections: Vec<&str> = values.iter().map(|value| section(&value.path)).collect();
    sections.sort_unstable();
    sections.dedup();
    let mut lines = Vec::new();
    for name in sections {
        if !name.is_empty() {
            lines.push(String::new());
            lines.push(format!("[{name}]"));
        }
        for value in values.iter().filter(|value| section(&value.path) == name) {
            let key = value.path.rsplit('.').next().unwrap_or(&value.path);
            // A JSON text, number, flag or list of texts is one in TOML too.
            lines.push(format!("{key} = {}  # {}", value.value, value.origin));
        }
    }
    lines
}

fn section(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(section, _)| section)
}
