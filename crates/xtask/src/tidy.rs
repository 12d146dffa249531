//! `cargo xtask tidy`: the rules of the house that neither the compiler nor clippy knows. They are tests too, so that
//! every test run keeps them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

/// A file that is longer has two jobs.
const FILE_LINES: usize = 600;

/// A function that is longer does not fit a screen.
const FUNCTION_LINES: usize = 70;

/// Dependencies are guests. Whoever invites another one raises this number, and says in `Cargo.toml` why.
const GUESTS: usize = 34;

/// The order of the modules of `derelict-core`: each imports only from those before it.
const CORE_ORDER: [&str; 13] = [
    "ids", "evidence", "size", "policy", "verdict", "plan", "recheck", "rescue", "outcome", "record", "ports",
    "survey", "sweep",
];

/// Which of our crates each may have among its normal dependencies. Observe and reclaim never see each other, core
/// sees nobody, and the test kit is for tests and chores.
const MAY_USE: [(&str, &[&str]); 7] = [
    ("derelict-core", &[]),
    ("derelict-git", &[]),
    ("derelict-observe", &["derelict-core", "derelict-git"]),
    ("derelict-reclaim", &["derelict-core"]),
    ("derelict", &["derelict-core", "derelict-observe", "derelict-reclaim"]),
    ("derelict-testkit", &["derelict-core"]),
    ("xtask", &["derelict-testkit", "derelict-core", "derelict-reclaim"]),
];

/// Checks every rule and names every breach.
pub(crate) fn run() -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let breaches = breaches(&root)?;
    for breach in &breaches {
        eprintln!("tidy: {breach}");
    }
    if breaches.is_empty() { Ok(()) } else { bail!("{} breaches of the rules of the house", breaches.len()) }
}

fn breaches(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut breaches = Vec::new();
    let crates = root.join("crates");
    for file in files(&crates, "rs")? {
        let text = read(&file)?;
        let shown = file.strip_prefix(root).unwrap_or(&file).display().to_string();
        breaches.extend(of_source(&text).into_iter().map(|breach| format!("{shown}{breach}")));
    }
    for module in CORE_ORDER {
        let text = read(&crates.join("derelict-core/src").join(format!("{module}.rs")))?;
        breaches.extend(of_core_order(module, &text));
    }
    for (name, allowed) in MAY_USE {
        breaches.extend(of_imports(name, allowed, &read(&crates.join(name).join("Cargo.toml"))?));
        if !crates.join(name).join("clippy.toml").is_file() {
            breaches.push(format!("{name} has no clippy.toml of its own, so no ban holds in it"));
        }
    }
    for directory in fs::read_dir(&crates)? {
        let name = directory?.file_name();
        if !MAY_USE.iter().any(|(known, _)| *known == name) {
            breaches.push(format!("{} is no crate whose imports are settled", name.display()));
        }
    }
    breaches.extend(of_guests(&read(&root.join("Cargo.toml"))?));
    Ok(breaches)
}

fn read(file: &Path) -> anyhow::Result<String> {
    fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

fn files(below: &Path, extension: &str) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(below).with_context(|| format!("cannot list {}", below.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path, extension)?);
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The rules of one source file. Each breach starts with the line it is about, or with a colon.
fn of_source(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut breaches = Vec::new();
    if !lines.first().is_some_and(|first| first.starts_with("//! ")) {
        breaches.push(": does not start by saying whose job it is".to_owned());
    }
    if lines.len() > FILE_LINES {
        breaches.push(format!(": has {} lines, and {FILE_LINES} are the wall", lines.len()));
    }
    for (index, line) in lines.iter().enumerate() {
        // Spelled apart, so that this file keeps its own rule.
        if line.trim_start().starts_with(concat!("#[", "allow"))
            || line.trim_start().starts_with(concat!("#![", "allow"))
        {
            breaches.push(format!(":{}: allows a lint instead of expecting it with a reason", index + 1));
        }
        if let Some(length) = function_length(&lines[index..]).filter(|length| *length > FUNCTION_LINES) {
            breaches.push(format!(":{}: a function of {length} lines, and {FUNCTION_LINES} fit a screen", index + 1));
        }
    }
    breaches
}

/// The length of the function that starts at the first line, if one does; by the layout of rustfmt.
fn function_length(lines: &[&str]) -> Option<usize> {
    let first = lines.first()?;
    let code = first.trim_start();
    let indent = &first[..first.len() - code.len()];
    let words = code.split_whitespace().take_while(|word| !word.starts_with("fn"));
    let is_function = code.split_whitespace().any(|word| word == "fn")
        && words.into_iter().all(|word| word.starts_with("pub") || matches!(word, "const" | "async" | "in" | "super)"));
    if !is_function || first.ends_with(';') || first.ends_with('}') {
        return None;
    }
    let ends = |line: &&str| {
        **line == format!("{indent}}}") || (line.starts_with(&format!("{indent})")) && line.ends_with(';'))
    };
    lines.iter().position(ends).map(|last| last + 1)
}

fn of_core_order(module: &str, text: &str) -> Vec<String> {
    let place = |name: &str| CORE_ORDER.iter().position(|known| *known == name);
    let imported = text.lines().filter_map(|line| line.trim_start().strip_prefix("use crate::"));
    let names = imported.map(|rest| rest.split([':', ';', ' ']).next().unwrap_or(rest));
    let late = names.filter(|name| place(name) >= place(module));
    late.map(|name| format!("derelict-core: {module} imports from {name}, which is not to its left")).collect()
}

fn of_imports(name: &str, allowed: &[&str], manifest: &str) -> Vec<String> {
    let normal = section(manifest, "[dependencies]");
    let ours = normal.filter_map(|line| line.split(['.', ' ', '=']).next()).filter(|name| name.starts_with("derelict"));
    ours.filter(|used| !allowed.contains(used)).map(|used| format!("{name} may not use {used}")).collect()
}

/// Every dependency from outside stands below a line saying what it is here for, without default features.
fn of_guests(manifest: &str) -> Vec<String> {
    let mut breaches = Vec::new();
    let mut guests = 0;
    let mut explained = false;
    for line in section(manifest, "[workspace.dependencies]") {
        if line.starts_with('#') {
            explained = true;
        } else if line.is_empty() {
            explained = false;
        } else if !line.contains("path = ") {
            guests += 1;
            let name = line.split([' ', '=']).next().unwrap_or(line);
            if !explained {
                breaches.push(format!("Cargo.toml does not say what {name} is here for"));
            }
            if !line.contains("default-features = false") {
                breaches.push(format!("Cargo.toml takes {name} with its default features"));
            }
        }
    }
    if guests > GUESTS {
        breaches.push(format!("Cargo.toml has {guests} guests, and {GUESTS} are invited"));
    }
    breaches
}

fn section<'m>(manifest: &'m str, heading: &str) -> impl Iterator<Item = &'m str> {
    let lines = manifest.lines().skip_while(move |line| *line != heading).skip(1);
    lines.take_while(|line| !line.starts_with('['))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_house_is_tidy() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        assert_eq!(breaches(&root).unwrap(), [""; 0]);
    }

    #[test]
    fn a_file_says_whose_job_it_is_and_has_one() {
        assert_eq!(of_source("//! A job.\n"), [""; 0]);
        assert_eq!(of_source("use std;\n"), [": does not start by saying whose job it is"]);
        let long = format!("//! A job.\n{}", "\n".repeat(FILE_LINES));
        assert_eq!(of_source(&long), [": has 601 lines, and 600 are the wall"]);
        let allowing = format!("//! A job.\n{}(dead_code)]\n", concat!("#[", "allow"));
        assert_eq!(of_source(&allowing), [":2: allows a lint instead of expecting it with a reason"]);
    }

    #[test]
    fn a_function_fits_a_screen() {
        let function = |head: &str, body: usize| format!("//! A job.\n{head} {{\n{}}}\n", "    x;\n".repeat(body));
        assert_eq!(of_source(&function("pub(crate) fn f()", FUNCTION_LINES - 2)), [""; 0]);
        let breach = [":2: a function of 71 lines, and 70 fit a screen"];
        for head in ["fn f()", "pub(crate) fn f()", "pub const fn f()"] {
            assert_eq!(of_source(&function(head, FUNCTION_LINES - 1)), breach, "{head}");
        }
        assert_eq!(function_length(&["    fn f(", "        a: u8,", "    ) -> u8;"]), Some(3));
    }

    #[test]
    fn core_imports_from_the_left_only() {
        assert_eq!(of_core_order("verdict", "use crate::policy::Policy;\n"), [""; 0]);
        let breach = "derelict-core: policy imports from verdict, which is not to its left";
        assert_eq!(of_core_order("policy", "use crate::verdict::{self};\n"), [breach]);
    }

    #[test]
    fn observe_and_reclaim_never_see_each_other() {
        let manifest = "[dependencies]\nderelict-core.workspace = true\nderelict-reclaim.workspace = true\n\n\
                        [dev-dependencies]\nderelict-testkit.workspace = true\n";
        let breaches = of_imports("derelict-observe", &["derelict-core", "derelict-git"], manifest);
        assert_eq!(breaches, ["derelict-observe may not use derelict-reclaim"]);
    }

    #[test]
    fn a_guest_is_introduced_and_comes_alone() {
        let manifest = "[workspace.dependencies]\nours = { path = \"x\" }\n\n# For y.\ny = { default-features = false }\n\nz = \"1\"\n";
        let breaches = of_guests(manifest);
        assert_eq!(
            breaches,
            ["Cargo.toml does not say what z is here for", "Cargo.toml takes z with its default features"]
        );
    }
}
