//! `derelict history`: what past sweeps saw, removed and kept, and why. It reads the record and the ledger and changes
//! nothing. How sweeps are kept is [`crate::ledger`]'s.

mod json;
mod people;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use derelict_core::outcome::FateName;

use crate::console::Console;
use crate::exit::{Exit, Failure};
use crate::ledger::book::{Reading, Shelf};
use crate::ledger::{Fates, Filter, Head, Place};
use crate::{cli, host, text, words};

/// How many sweeps are told when nobody says how far back.
const LAST: u64 = 20;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Asked {
    /// Sweeps, newest first.
    Sweeps,
    /// All of one sweep.
    Sweep(String),
    /// What became of the directories at these paths, of which a person named the first.
    Paths(Vec<PathBuf>),
    /// Directories wherever they lay.
    Anywhere,
}

/// Runs the command on the history in the directory `state`.
///
/// # Errors
/// A [`Failure`] when nothing of the history can be read, or when there is no such sweep.
pub(crate) fn run(flags: &cli::History, state: &Path, shelf: &Shelf, console: &mut Console) -> Result<Exit, Failure> {
    let filter = filter(flags)?;
    let mut reading = Reading::open(state, shelf).map_err(Failure::stopped)?;
    let asked = asked(flags, &mut reading)?;
    let answer = Answer { asked, filter, reading: &mut reading };
    Ok(if flags.json { json::print(answer, &mut console.out) } else { people::print(answer, console) })
}

/// A question together with where its answer comes from.
struct Answer<'r> {
    asked: Asked,
    filter: Filter,
    reading: &'r mut Reading,
}

impl Answer<'_> {
    /// The sweeps that are asked for, newest first, and whether there are older ones.
    fn sweeps(&mut self) -> (Vec<Head>, Older) {
        let most = if self.filter.since.is_some() { u64::MAX } else { LAST };
        let mut heads = self.reading.sweeps(&self.filter, most.saturating_add(1));
        let older = if heads.len() as u64 > most { Older::NotShown } else { Older::None };
        heads.truncate(usize::try_from(most).unwrap_or(usize::MAX));
        (heads, older)
    }

    /// How the program ends: something that cannot be read may have been part of the answer.
    fn exit(&self) -> Exit {
        if self.reading.troubles().is_empty() { Exit::Done } else { Exit::Incomplete }
    }
}

/// Whether there are sweeps before the first one that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Older {
    NotShown,
    None,
}

fn filter(flags: &cli::History) -> Result<Filter, Failure> {
    let since = match flags.since {
        Some(span) => Some(host::now().map_err(Failure::stopped)?.before(span)),
        None => None,
    };
    let fates = match (flags.near_misses, flags.removed) {
        (true, _) => Fates::NEAR_MISSES,
        (false, true) => Fates::REMOVED,
        (false, false) => Fates::Any,
    };
    Ok(Filter { root: flags.root.clone(), since, fates })
}

fn asked(flags: &cli::History, reading: &mut Reading) -> Result<Asked, Failure> {
    let Some(about) = &flags.about else {
        return Ok(if flags.near_misses { Asked::Anywhere } else { Asked::Sweeps });
    };
    if let Some(id) = sweep_id(about) {
        return match reading.sweep(id) {
            Some(_) => Ok(Asked::Sweep(id.to_owned())),
            None => Err(Failure::usage(anyhow!("no sweep {id} is recorded"))),
        };
    }
    let mut roots: Vec<PathBuf> = Vec::new();
    if Path::new(about).is_relative() {
        roots.extend(reading.sweeps(&Filter::ALL, u64::MAX).into_iter().map(|head| head.path));
        roots.sort();
        roots.dedup();
    }
    places(Path::new(about), &roots).map(Asked::Paths).map_err(Failure::usage)
}

/// The argument, if it has the form of a sweep's id: `20261201T024607Z-1a2b3c4d`.
fn sweep_id(about: &OsStr) -> Option<&str> {
    let id = about.to_str()?;
    let matches = |(pattern, found): (u8, u8)| match pattern {
        b'9' => found.is_ascii_digit(),
        b'f' => found.is_ascii_hexdigit(),
        other => found == other,
    };
    let form = b"99999999T999999Z-ffffffff";
    (id.len() == form.len() && form.iter().copied().zip(id.bytes()).all(matches)).then_some(id)
}

/// Under which paths a directory may have been recorded that a person names now, when it may be gone: the path itself,
/// the same without symbolic links, the same below each root, and everything above each of these, for what was inside
/// a workspace went with it.
fn places(given: &Path, roots: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let absolute = std::path::absolute(given).with_context(|| format!("`{}` is no path", text::path(given)))?;
    let beside = absolute.parent().and_then(|parent| Some(parent.canonicalize().ok()?.join(absolute.file_name()?)));
    let bases = [Some(absolute.clone()), absolute.canonicalize().ok(), beside].into_iter().flatten();
    let below = roots.iter().map(|root| root.join(given));
    let mut places: Vec<PathBuf> = Vec::new();
    for base in bases.chain(below) {
        // A path that ends in a slash is the same path, and has other bytes.
        let base: PathBuf = base.components().collect();
        for place in base.ancestors().filter(|place| place.parent().is_some()) {
            if !places.iter().any(|known| known == place) {
                places.push(place.to_owned());
            }
        }
    }
    if places.is_empty() {
        return Err(anyhow!("{} is no workspace", text::path(given)));
    }
    Ok(places)
}

/// The rule that decided where a directory with this fate stands. Only unattended sweeps are recorded, and those never
/// force: what went, went by the last rule.
fn rule(fate: FateName) -> &'static str {
    match fate {
        FateName::Referenced => words::RULES[0],
        FateName::Disputed => words::RULES[1],
        FateName::Undetermined => words::RULES[2],
        FateName::RetainedFresh
        | FateName::RetainedInUse
        | FateName::RetainedLeased
        | FateName::RetainedNestedCheckout
        | FateName::RetainedClockSkew
        | FateName::SkippedLayout => words::RULES[3],
        FateName::Unsaved => words::RULES[4],
        FateName::Removable
        | FateName::BeyondLimit
        | FateName::NotReached
        | FateName::Removed
        | FateName::Quarantined
        | FateName::Vanished
        | FateName::Refused
        | FateName::Busy
        | FateName::Interrupted => words::RULES[5],
        FateName::RetainedResurrected | FateName::RetainedChanged => {
            "the re-check: what is no longer what the plan showed stays"
        }
    }
}

/// A span from the command line: `12h`, `30d`, `2w`; a day has 24 hours.
///
/// # Errors
/// A sentence saying what is wrong with it.
pub(crate) fn parse_span(text: &str) -> Result<Duration, String> {
    let wrong = |why: String| format!("`{}` is no span such as 12h or 30d: {why}", text::sentence(text));
    let span: jiff::Span = text.parse().map_err(|error: jiff::Error| wrong(error.to_string()))?;
    let span = span.to_duration(jiff::SpanRelativeTo::days_are_24_hours()).map_err(|error| wrong(error.to_string()))?;
    Duration::try_from(span).map_err(|_| wrong("it lies in the future".into()))
}

/// The directories at those places, newest first.
fn sightings(answer: &mut Answer<'_>) -> Vec<crate::ledger::Sighting> {
    match &answer.asked {
        Asked::Paths(paths) => answer.reading.sightings(Place::At(paths), &answer.filter),
        Asked::Anywhere => answer.reading.sightings(Place::Anywhere, &answer.filter),
        Asked::Sweeps | Asked::Sweep(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_the_form_of_an_id_is_one() {
        assert_eq!(sweep_id(OsStr::new("20261201T024607Z-1a2b3c4d")), Some("20261201T024607Z-1a2b3c4d"));
        for path in ["", "20261201T024607Z", "20261201T024607Z-1a2b3c4g", "20261201T024607Z-1a2b3c4d/", "./x"] {
            assert_eq!(sweep_id(OsStr::new(path)), None, "{path}");
        }
    }

    #[test]
    fn a_path_is_looked_up_with_all_that_it_lies_in_and_without_its_links() {
        let world = tempfile::tempdir().unwrap();
        let real = world.path().canonicalize().unwrap().join("real");
        std::fs::create_dir(&real).unwrap();
        let link = real.with_file_name("link");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let found = places(&link.join("gone/"), &["/srv".into()]).unwrap();
        assert_eq!(found[..2], [link.join("gone"), link.clone()]);
        assert!(found.contains(&real.join("gone")) && !found.contains(&PathBuf::from("/")), "{found:?}");
        let found = places(Path::new("api/x"), &["/srv/a".into(), "/srv/b".into()]).unwrap();
        assert!(found.contains(&"/srv/a/api/x".into()) && found.contains(&"/srv/b/api/x".into()), "{found:?}");
        assert!(places(Path::new(""), &[]).is_err());
        assert!(places(Path::new("/"), &[]).is_err());
    }

    #[test]
    fn a_span_has_days_of_24_hours_and_no_months() {
        assert_eq!(parse_span("30d"), Ok(Duration::from_secs(30 * 86_400)));
        assert_eq!(parse_span("1w 2h"), Ok(Duration::from_secs(7 * 86_400 + 7_200)));
        for wrong in ["", "3", "-1d", "1month", "x"] {
            assert!(parse_span(wrong).is_err_and(|why| why.contains("is no span such as")), "{wrong}");
        }
    }

    #[test]
    fn every_fate_names_a_rule() {
        for fate in FateName::ALL {
            assert!(rule(fate).contains(": "), "{fate:?}");
        }
    }
}
