//! The record and the store together: what is written to both, caught up from one, and read from either.
//!
//! Nothing here fails a sweep. A record or a store that cannot be written is told in a sentence, and the store takes
//! what it missed from the record as soon as it can be written again.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use derelict_core::ids::Timestamp;
use derelict_observe::postgres::Settings;

use crate::ledger::file::{Contents, Record, Span};
use crate::ledger::{Fates, Filter, Head, Ledger, Place, Sighting, postgres, sqlite};
use crate::reaper::record::{DirectoryRecord, SweepRecord};

/// Which store there is beside the record.
#[derive(Debug, Clone)]
pub(crate) enum Shelf {
    /// The embedded database in the state directory.
    Embedded,
    /// A schema in PostgreSQL.
    Postgres {
        /// Which server.
        settings: Box<Settings>,
        /// The name of the schema.
        schema: String,
    },
}

impl Shelf {
    fn open(&self, state: &Path) -> anyhow::Result<Box<dyn Ledger>> {
        match self {
            Self::Embedded => Ok(Box::new(sqlite::open(state)?)),
            Self::Postgres { settings, schema } => Ok(Box::new(postgres::open(settings, schema)?)),
        }
    }

    fn open_to_read(&self, state: &Path) -> anyhow::Result<Option<Box<dyn Ledger>>> {
        match self {
            Self::Embedded => Ok(sqlite::open_to_read(state)?.map(|store| Box::new(store) as _)),
            Self::Postgres { settings, schema } => {
                Ok(postgres::open_to_read(settings, schema)?.map(|store| Box::new(store) as _))
            }
        }
    }
}

/// The history of one state directory, for whoever sweeps.
pub(crate) struct Book {
    state: PathBuf,
    record: Record,
    shelf: Shelf,
    /// `None` until it is opened, and again after an error: then it is opened and caught up anew.
    store: Option<Box<dyn Ledger>>,
}

impl Book {
    /// The history in the directory `state`. Nothing is opened and nothing is made before there is something to write.
    pub(crate) fn new(state: &Path, shelf: Shelf) -> Self {
        Self { state: state.to_owned(), record: Record::of(state), shelf, store: None }
    }

    /// Writes down a sweep, in the record first, and returns what went wrong, one sentence each.
    pub(crate) fn record(&mut self, sweep: &SweepRecord) -> Vec<String> {
        let mut troubles = Vec::new();
        if let Err(error) = self.record.append(sweep) {
            troubles.push(format!("this sweep is missing in the record: {error:#}"));
        }
        self.with_store(&mut troubles, "this sweep is missing in the ledger for now", |store| store.record(sweep));
        troubles
    }

    /// Brings the store up to the record now, and returns what went wrong, one sentence each. [`Book::record`] does so
    /// by itself; this is for the start of a daemon, which tells of a broken store before the first sweep.
    pub(crate) fn catch_up(&mut self) -> Vec<String> {
        let mut troubles = Vec::new();
        self.with_store(&mut troubles, "the ledger is not there for now", |_| Ok(()));
        troubles
    }

    /// When a root was last swept by anybody, as far as a store tells that others write to, too.
    pub(crate) fn last_swept_by_anybody(&mut self, root: &str) -> Option<Timestamp> {
        match self.shelf {
            Shelf::Embedded => return None,
            Shelf::Postgres { .. } => {}
        }
        let mut last = None;
        // One that cannot be read now is told of when it is written to.
        self.with_store(&mut Vec::new(), "", |store| {
            last = store.last(root)?.map(|head| head.began);
            Ok(())
        });
        last
    }

    /// Forgets the sweeps that began before `instant` in both places, and returns what went wrong, one sentence each.
    pub(crate) fn forget_before(&mut self, instant: Timestamp) -> Vec<String> {
        let mut troubles = Vec::new();
        // The record first: the store would take from it again what it forgot alone.
        if let Err(error) = self.record.forget_before(instant) {
            troubles.push(format!("old sweeps stay in the record: {error:#}"));
        }
        self.with_store(&mut troubles, "old sweeps stay in the ledger for now", |store| {
            store.forget_before(instant).map(drop)
        });
        troubles
    }

    fn with_store(
        &mut self,
        troubles: &mut Vec<String>,
        failed: &str,
        act: impl FnOnce(&mut dyn Ledger) -> anyhow::Result<()>,
    ) {
        let acted = self.opened(troubles).and_then(|mut store| {
            act(&mut *store)?;
            Ok(store)
        });
        match acted {
            Ok(store) => self.store = Some(store),
            Err(error) => troubles.push(format!("{failed}: {error:#}")),
        }
    }

    /// The store, with everything that the record has.
    fn opened(&mut self, troubles: &mut Vec<String>) -> anyhow::Result<Box<dyn Ledger>> {
        if let Some(store) = self.store.take() {
            return Ok(store);
        }
        let mut store = self.shelf.open(&self.state)?;
        match self.record.open() {
            Ok(None) => {}
            Ok(Some(contents)) => {
                let known = store.known()?;
                troubles.extend(contents.troubles.clone().sentences());
                for span in contents.spans.iter().filter(|span| !known.contains(&span.head.id)) {
                    let (sweep, damaged) = contents.sweep(span)?;
                    troubles.extend(damaged.sentences());
                    store.record(&sweep)?;
                }
            }
            Err(error) => troubles.push(format!("the ledger cannot be caught up: {error:#}")),
        }
        Ok(store)
    }
}

/// The history of one state directory, for whoever asks: what the store has, and what only the record has. Reading
/// writes nothing and makes nothing.
pub(crate) struct Reading {
    store: Option<Box<dyn Ledger>>,
    contents: Option<Contents>,
    /// The sweeps of the store, which are not read from the record.
    known: BTreeSet<String>,
    troubles: Vec<String>,
}

impl Reading {
    /// Opens what there is.
    ///
    /// # Errors
    /// When there is something, and nothing of it can be read.
    pub(crate) fn open(state: &Path, shelf: &Shelf) -> anyhow::Result<Self> {
        let store = shelf.open_to_read(state).and_then(|store| match store {
            None => Ok(None),
            Some(mut store) => store.known().map(|known| Some((store, known))),
        });
        let record = Record::of(state).open();
        let mut troubles = Vec::new();
        let (store, known) = match (store, &record) {
            (Ok(Some((store, known))), _) => (Some(store), known),
            (Ok(None), _) => (None, BTreeSet::new()),
            (Err(error), Ok(_)) => {
                troubles.push(format!("answered from the record alone: {error:#}"));
                (None, BTreeSet::new())
            }
            (Err(error), Err(second)) => return Err(error.context(format!("{second:#}"))),
        };
        let contents = match record {
            Ok(contents) => contents,
            Err(error) if store.is_some() => {
                troubles.push(format!("answered from the ledger alone: {error:#}"));
                None
            }
            Err(error) => return Err(error),
        };
        troubles.extend(contents.iter().flat_map(|contents| contents.troubles.clone().sentences()));
        Ok(Self { store, contents, known, troubles })
    }

    /// What could not be read so far, one sentence each.
    pub(crate) fn troubles(&self) -> &[String] {
        &self.troubles
    }

    /// The newest `most` sweeps, newest first.
    pub(crate) fn sweeps(&mut self, filter: &Filter, most: u64) -> Vec<Head> {
        let shelved = self.ask(|store| store.sweeps(filter, most));
        let mut heads: Vec<Head> = shelved.into_iter().flatten().collect();
        heads.extend(self.unshelved(filter).map(|span| span.head.clone()));
        heads.sort_by(|a, b| b.place().cmp(&a.place()));
        heads.truncate(usize::try_from(most).unwrap_or(usize::MAX));
        heads
    }

    /// One sweep; `None` when nobody knows it.
    pub(crate) fn sweep(&mut self, id: &str) -> Option<Head> {
        let shelved = self.ask(|store| store.sweep(id)).flatten();
        shelved.or_else(|| self.unshelved(&Filter::ALL).find(|span| span.head.id == id).map(|span| span.head.clone()))
    }

    /// Tells each directory of a sweep that ended so, in the order of the sweep.
    pub(crate) fn directories(&mut self, sweep: &str, fates: Fates, each: &mut dyn FnMut(DirectoryRecord)) {
        if self.known.contains(sweep) && self.store.is_some() {
            self.ask(|store| store.directories(sweep, fates, each));
            return;
        }
        let span = self.unshelved(&Filter::ALL).find(|span| span.head.id == sweep).cloned();
        if let Some(span) = span {
            self.read(&span, fates, each);
        }
    }

    /// Every time that a sweep saw a directory at that place ending so, newest first.
    pub(crate) fn sightings(&mut self, place: Place<'_>, filter: &Filter) -> Vec<Sighting> {
        let shelved = self.ask(|store| store.sightings(place, filter));
        let mut sightings: Vec<Sighting> = shelved.into_iter().flatten().collect();
        let spans: Vec<Span> = self.unshelved(filter).cloned().collect();
        for span in spans {
            let mut seen = Vec::new();
            self.read(&span, filter.fates, &mut |directory| {
                let there = match place {
                    Place::Anywhere => true,
                    Place::At(paths) => paths.contains(&directory.path),
                };
                if there {
                    seen.push(directory);
                }
            });
            sightings.extend(seen.into_iter().map(|directory| Sighting { head: span.head.clone(), directory }));
        }
        sightings.sort_by(|a, b| b.head.place().cmp(&a.head.place()));
        sightings
    }

    /// The sweeps that only the record has, newest last.
    fn unshelved(&self, filter: &Filter) -> impl Iterator<Item = &Span> {
        let spans = self.contents.iter().flat_map(|contents| &contents.spans);
        spans.filter(|span| !self.known.contains(&span.head.id) && filter.includes(&span.head))
    }

    fn read(&mut self, span: &Span, fates: Fates, each: &mut dyn FnMut(DirectoryRecord)) {
        let read = self.contents.as_ref().map(|contents| contents.directories(span, fates, each));
        match read {
            None => {}
            Some(Ok(damaged)) => self.troubles.extend(damaged.sentences()),
            Some(Err(error)) => self.troubles.push(format!("{error:#}")),
        }
    }

    /// Asks the store. One that failed is not asked again: the record answers for it as well as it can.
    fn ask<T>(&mut self, question: impl FnOnce(&mut dyn Ledger) -> anyhow::Result<T>) -> Option<T> {
        match question(&mut **self.store.as_mut()?) {
            Ok(answer) => Some(answer),
            Err(error) => {
                self.troubles.push(format!("answered from the record alone: {error:#}"));
                self.store = None;
                self.known.clear();
                None
            }
        }
    }
}

#[cfg(test)]
mod tests;
