//! `derelict rescued`: what `prune --rescue` carried out of directories before they went, and how old it is. It is also
//! where the place of entries is found, for the commands that write there and give back from there.
//!
//! An entry is the only copy of what is in it. Nothing deletes one but `--expire`, with an age that a person names.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use derelict_core::ids::Timestamp;
use derelict_observe::Bundles;
use derelict_reclaim::rescue::{self, Manifest, Rescued};
use serde_json::{Value, json};

use crate::console::{Console, Reply};
use crate::exit::{Exit, Failure};
use crate::host::{self, Audience, Host};
use crate::{cli, json, text};

/// The usual place, beside the journal.
const USUAL: &str = "rescued";

/// Room for `1023.9 MiB`.
const SIZE_COLUMNS: usize = 10;

/// Where entries lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// Beside the journal.
    Usual,
    /// Where a person said.
    At(PathBuf),
}

impl Place {
    /// The place that a flag names, if it names one.
    pub(crate) fn of(named: Option<PathBuf>) -> Self {
        named.map_or(Self::Usual, Self::At)
    }

    /// Where that is, with the journal in `state`.
    pub(crate) fn below(&self, state: &Path) -> PathBuf {
        match self {
            Self::Usual => state.join(USUAL),
            Self::At(place) => place.clone(),
        }
    }
}

/// Runs the command.
///
/// # Errors
/// A [`Failure`] when the place cannot be listed, or when deletion was asked for and nobody can be asked.
pub(crate) fn run(
    flags: &cli::Rescued,
    audience: Audience,
    host: &Host,
    console: &mut Console,
) -> Result<Exit, Failure> {
    let place = Place::of(flags.from.clone()).below(&flags.state.state(host)?);
    let now = host::now().map_err(Failure::stopped)?;
    let all = rescue::list(&place).with_context(|| format!("cannot list {}", text::path(&place)));
    let all = all.map_err(Failure::incomplete)?;
    let old: Vec<&Rescued> = all.iter().filter(|one| is_older(one, flags.expire, now)).collect();
    let shown: Vec<&Rescued> = if flags.expire.is_some() { old } else { all.iter().collect() };
    let broken = shown.iter().any(|one| one.manifest.is_err());
    let exit = if broken { Exit::Incomplete } else { Exit::Done };
    if flags.json {
        let exit = if flags.expire.is_some() && flags.yes { expire(&shown, console)?.max(exit) } else { exit };
        console.out.line(json::rescued_entries(&shown.iter().map(|one| value(one, now)).collect::<Vec<_>>(), exit));
        return Ok(exit);
    }
    if shown.is_empty() {
        console.out.line(match flags.expire {
            None => format!("Nothing was rescued to {}.", text::path(&place)),
            Some(_) => format!("Nothing in {} is that old.", text::path(&place)),
        });
        return Ok(Exit::Done);
    }
    let bytes = shown.iter().filter_map(|one| one.manifest.as_ref().ok()).map(Manifest::bytes).sum();
    let count = text::count(shown.len() as u64, text::ENTRY);
    let heading = format!("{}: {count} ({})", text::path(&place), text::bytes(bytes));
    console.out.line(console.paint.heading(&heading));
    shown.iter().for_each(|one| console.out.line(row(one, now)));
    if flags.expire.is_none() {
        console
            .out
            .line(console.paint.aside("`derelict restore ENTRY` gives one back where it was, `--to DIR` elsewhere."));
        return Ok(exit);
    }
    let agreed = match (flags.yes, audience) {
        (true, _) => Reply::Yes,
        (false, Audience::Person) => {
            console.ask(&format!("Delete {count}? It is the only copy of what is in it. [y/N]"))
        }
        (false, Audience::Nobody) => {
            console.talk.remark("Nothing was deleted: there is no terminal to ask on. Pass -y to agree in advance.");
            return Ok(Exit::Incomplete);
        }
    };
    match agreed {
        Reply::Yes => Ok(expire(&shown, console)?.max(exit)),
        Reply::No => {
            console.out.line("Nothing was deleted.");
            Ok(exit)
        }
    }
}

/// One that says nothing of its age is never old enough.
fn is_older(one: &Rescued, than: Option<Duration>, now: Timestamp) -> bool {
    match (than, &one.manifest) {
        (Some(than), Ok(manifest)) => manifest.at.after(than) <= now,
        (Some(_), Err(_)) | (None, _) => false,
    }
}

fn expire(old: &[&Rescued], console: &mut Console) -> Result<Exit, Failure> {
    for one in old {
        rescue::remove_entry(&one.path)
            .with_context(|| format!("cannot delete {}", text::path(&one.path)))
            .map_err(Failure::incomplete)?;
    }
    console.talk.remark(&format!("Deleted {}.", text::count(old.len() as u64, text::ENTRY)));
    Ok(Exit::Done)
}

/// `20260801T101112Z-a   1.5 KiB  3 d  /c/repos/o/r/a`.
fn row(one: &Rescued, now: Timestamp) -> String {
    let name = text::name(one.name.as_bytes());
    match &one.manifest {
        Ok(manifest) => {
            let size = text::pad_left(&text::bytes(manifest.bytes()), SIZE_COLUMNS);
            format!("{name}  {size}  {}  {}", age(manifest.at, now), text::path(&manifest.candidate.path))
        }
        Err(why) => format!("{name}  cannot be given back: {}", text::sentence(why)),
    }
}

fn age(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.seconds().saturating_sub(at.seconds()).max(0);
    match (seconds / 86_400, seconds / 3_600, seconds / 60) {
        (0, 0, minutes) => format!("{minutes} min old"),
        (0, hours, _) => format!("{hours} h old"),
        (days, _, _) => format!("{days} d old"),
    }
}

fn value(one: &Rescued, now: Timestamp) -> Value {
    let manifest = one.manifest.as_ref();
    let known = |of: fn(&Manifest) -> Value| manifest.ok().map(of);
    json!({
        "name": one.name,
        "entry": json::path(&one.path),
        "path": known(|manifest| json::path(&manifest.candidate.path)),
        "at": known(|manifest| json!(text::instant(manifest.at))),
        "age_seconds": manifest.ok().map(|manifest| now.seconds().saturating_sub(manifest.at.seconds())),
        "bytes": known(|manifest| json!(manifest.bytes())),
        "objects": known(|manifest| json!(manifest.foundation.objects)),
        "problem": manifest.err(),
    })
}

/// The entry that is meant, if an entry is: by the path of it, or by its name in its place.
pub(crate) fn meant(what: &Path, place: &Path) -> Option<PathBuf> {
    let named = what.components().count() == 1;
    let inside = named.then(|| place.join(what));
    let is_entry = |path: &PathBuf| path.join(rescue::MANIFEST).is_file();
    inside.into_iter().chain([what.to_owned()]).find(is_entry)
}

/// Gives an entry back.
///
/// # Errors
/// A [`Failure`] that says why it could not be; nothing has changed then.
pub(crate) fn restore(entry: &Path, to: Option<&Path>, console: &mut Console) -> Result<Exit, Failure> {
    let to = to.map(std::path::absolute).transpose().map_err(Failure::usage)?;
    let restored = rescue::restore(entry, to.as_deref(), &Bundles).map_err(Failure::incomplete)?;
    console.out.line(format_args!("{}: given back", text::path(&restored.path)));
    for note in &restored.notes {
        console.out.line(console.paint.attention(&text::sentence(&format!("Not as it was: {note}"))));
    }
    let entry = text::path(entry);
    console
        .out
        .line(format_args!("The entry stays in {entry}, until it is deleted or `derelict rescued --expire` does."));
    Ok(if restored.notes.is_empty() { Exit::Done } else { Exit::Incomplete })
}

/// What was asked to be given back elsewhere, and is no entry.
pub(crate) fn no_entry(what: &Path, place: &Path) -> Failure {
    let (what, place) = (text::path(what), text::path(place));
    Failure::usage(anyhow!(io::Error::new(io::ErrorKind::NotFound, format!("{what} is no entry of {place}"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_said_in_one_number() {
        let at = |seconds| age(Timestamp::new(0, 0), Timestamp::new(seconds, 0));
        let said = [at(59), at(60), at(3_600), at(86_400 * 3)];
        assert_eq!(said, ["0 min old", "1 min old", "1 h old", "3 d old"]);
        assert_eq!(age(Timestamp::new(9, 0), Timestamp::new(0, 0)), "0 min old");
    }

    #[test]
    fn the_usual_place_is_beside_the_journal() {
        assert_eq!(Place::of(None).below(Path::new("/s")), Path::new("/s/rescued"));
        assert_eq!(Place::of(Some("/x".into())).below(Path::new("/s")), Path::new("/x"));
    }
}
