//! The observer of a devlaunch cache: puts scan, sources and probes together, once for the survey and
//! again for each re-check. It decides nothing; what it cannot see it says.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use derelict_core::evidence::{Blind, Candidate, Evidence, Holder, Layout, Observed, Signal, SourceReport};
use derelict_core::ids::{Timestamp, escaped};
use derelict_core::ports::SourceLost;
use derelict_core::record::SetAside;
use derelict_core::rescue::Salvage;
use derelict_core::size::{Completeness, Size};
use derelict_core::survey::{Sighting, lost_most};
use derelict_git::{Borrower, Surroundings, Terms};

use crate::borrowers::{Search, Start};
use crate::cache::Cache;
use crate::claims::Claims;
use crate::environment::Environment;
use crate::parallel;
use crate::place::Placer;
use crate::probes::accounting::Accounting;
use crate::probes::gauge::{Gauge, Gauged, Trace};
use crate::probes::occupancy::{self, Met, Occupancy};
use crate::probes::unsaved;
use crate::remotes::{self, Remotes};
use crate::salvage;
use crate::scan::{self, Found, Scan};
use crate::seen::{self, Inode};
use crate::sources::devpod::{self, Owner};
use crate::sources::{DEVLAUNCH, DEVPOD, devlaunch, id};
use crate::survey::{BorrowerSearch, Depth, Disclosures, Progress, Survey};

/// Looks at one devlaunch cache.
#[derive(Debug)]
pub struct DevlaunchObserver {
    cache: Cache,
    environment: Environment,
    terms: Terms,
    remotes: Option<Arc<Remotes>>,
    now: Timestamp,
    known: Option<Known>,
}

/// What is kept between the survey and the re-checks.
#[derive(Debug)]
struct Known {
    scan: Scan,
    /// The last listing. Everything else is read again each time.
    listing: Vec<Owner>,
    around: Surroundings,
    /// What the last re-check saw, to be compared by the second look.
    traced: Option<(Candidate, Trace)>,
}

/// What is read once and then matched against many directories.
struct Views<'v> {
    claims: &'v Claims,
    occupancy: Occupancy,
    around: &'v Surroundings,
}

impl DevlaunchObserver {
    /// For one cache, under what is said outside of it. `now` is the instant of the whole run.
    #[must_use]
    pub fn new(cache: Cache, environment: Environment, terms: Terms, now: Timestamp) -> Self {
        let remotes = remotes::asked_under(&terms, &environment);
        Self { cache, environment, terms, remotes, now, known: None }
    }

    /// The cache that is looked at.
    #[must_use]
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Looks at every directory of the cache, or at the one that was asked for: one listing, one scan,
    /// one look at the processes, one walk each.
    ///
    /// # Errors
    /// [`SourceLost`] when an owner source or the cache itself cannot be read: then nothing is known of
    /// any directory.
    pub fn survey(&mut self, depth: Depth, progress: &(dyn Fn(Progress) + Sync)) -> Result<Survey, SourceLost> {
        progress(Progress::Asking);
        let scan = scan::scan(self.cache.repos()).map_err(|error| unreadable(self.cache.repos(), &error))?;
        let placer = self.placer(&scan)?;
        let mut search = Search::new(&placer, scan.root_seen.inode());
        // devpod takes half a second to list; meanwhile the search finds out what it can without it.
        let listing = std::thread::scope(|threads| {
            let listing = threads.spawn(|| devpod::list(&self.environment));
            search.look(self.usual_places(&scan));
            listing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        let claims = self.claims(&scan, &placer, &listing)?;
        search.look(places_of(&claims));
        let (borrowers, searched) = search.finish();
        let around = self.around(&scan, borrowers);
        let views = Views::new(&claims, &around, self.now);
        let asked_for = |found: &&Found| self.cache.only().is_none_or(|only| found.candidate.below_root == only);
        let found: Vec<&Found> = scan.found.iter().filter(asked_for).collect();
        let sightings = views.sightings(&scan, &found, depth, progress);
        let survey = Survey {
            sightings,
            skipped: scan.skipped.clone(),
            stale_records: if self.cache.only().is_none() { claims.stale_records.clone() } else { Vec::new() },
            owners: claims.owners,
            root: scan.root_seen.identity,
            disclosures: views.disclosures(searched),
        };
        drop(views);
        self.known = Some(Known { scan, listing, around, traced: None });
        Ok(survey)
    }

    /// Asks devpod once more and looks for borrowers once more, before anything is removed.
    ///
    /// # Errors
    /// [`SourceLost`] when a source cannot be read, or nothing was surveyed before.
    pub fn refresh(&mut self) -> Result<(), SourceLost> {
        let listing = devpod::list(&self.environment)?;
        let known = self.known.as_ref().ok_or_else(not_surveyed)?;
        let (before, now) = (known.listing.len() as u64, listing.len() as u64);
        if lost_most(before, now) || (now == 0 && before > 0) {
            let why = format!("it lists {now} workspaces, where it listed {before} a moment ago");
            return Err(SourceLost { source_id: id(DEVPOD), why });
        }
        let placer = self.placer(&known.scan)?;
        let claims = self.claims(&known.scan, &placer, &listing)?;
        let mut search = Search::new(&placer, known.scan.root_seen.inode());
        search.look(self.usual_places(&known.scan));
        search.look(places_of(&claims));
        let (borrowers, _) = search.finish();
        let around = self.around(&known.scan, borrowers);
        if let Some(known) = &mut self.known {
            known.listing = listing;
            known.around = around;
        }
        Ok(())
    }

    /// Reads every signal of one directory again, through its open descriptor: the workspace files, the
    /// records, the processes and the directory itself; with the listing of the last
    /// [`DevlaunchObserver::refresh`].
    ///
    /// # Errors
    /// [`SourceLost`] when a source cannot be read, or nothing was surveyed before. A fault of the
    /// directory itself is a blind spot in the evidence.
    pub fn look_again(&mut self, candidate: &Candidate, dir: BorrowedFd<'_>) -> Result<Evidence, SourceLost> {
        let known = self.known.as_ref().ok_or_else(not_surveyed)?;
        let Some(found) = known.found(candidate) else {
            return Ok(unseen(&[], "it was not part of the survey"));
        };
        let placer = self.placer(&known.scan)?;
        let claims = self.claims(&known.scan, &placer, &known.listing)?;
        let views = Views::new(&claims, &known.around, self.now);
        let look = views.look(found, dir, Depth::Everything);
        if let Some(known) = &mut self.known {
            known.traced = Some((candidate.clone(), look.trace));
        }
        Ok(look.evidence)
    }

    /// Looks a second time at a directory that was fenced since the re-check: its owners and its users
    /// are read anew, and whether anything in it was written meanwhile. A proof that something was
    /// written behind is a proof no more.
    ///
    /// # Errors
    /// [`SourceLost`] when a source cannot be read, or nothing was surveyed before.
    pub fn second_look(
        &self,
        candidate: &Candidate,
        dir: BorrowedFd<'_>,
        first: &Evidence,
    ) -> Result<Evidence, SourceLost> {
        let known = self.known.as_ref().ok_or_else(not_surveyed)?;
        let Some(found) = known.found(candidate) else {
            return Ok(unseen(&[], "it was not part of the survey"));
        };
        let placer = self.placer(&known.scan)?;
        let claims = self.claims(&known.scan, &placer, &known.listing)?;
        let views = Views::new(&claims, &known.around, self.now);
        Ok(views.second_look(found, dir, first, known.traced.as_ref()))
    }

    /// Says what has to be carried out of a fenced directory so that nothing is lost with it.
    ///
    /// # Errors
    /// Why that cannot be said, in words.
    pub fn salvage(&self, candidate: &Candidate, dir: BorrowedFd<'_>) -> Result<Box<dyn Salvage>, String> {
        let known = self.known.as_ref().ok_or("the cache was not surveyed before")?;
        salvage::of(dir, &candidate.path, &known.around)
    }

    /// Reads every signal of a clone that was set aside, through its open descriptor. It lies in the trash,
    /// where no survey looks; what is said about the place it had, and about its name, is said about it.
    ///
    /// # Errors
    /// [`SourceLost`] when a source cannot be read, or nothing was surveyed before.
    pub fn look_at_set_aside(&self, set_aside: &SetAside, dir: BorrowedFd<'_>) -> Result<Evidence, SourceLost> {
        let candidate = &set_aside.candidate;
        let known = self.known.as_ref().ok_or_else(not_surveyed)?;
        let mut scan = scan::scan(self.cache.repos()).map_err(|error| unreadable(self.cache.repos(), &error))?;
        let found = match scan.as_if_there(candidate, dir) {
            Ok(found) => found,
            Err(error) => {
                return Ok(unseen(&[], &format!("cannot tell where {} was: {error}", escaped(&candidate.path))));
            }
        };
        scan.found.push(found.clone());
        let placer = self.placer(&scan)?;
        let claims = self.claims(&scan, &placer, &known.listing)?;
        let views = Views::new(&claims, &known.around, self.now);
        let Look { mut evidence, trace, size: _ } = views.look(&found, dir, Depth::Everything);
        evidence.uses = occupancy::while_set_aside(evidence.uses, &trace, set_aside.since);
        Ok(evidence)
    }

    fn around(&self, scan: &Scan, borrowers: Vec<Borrower>) -> Surroundings {
        Surroundings::new(self.cache.repos().to_path_buf(), scan.bares.clone(), borrowers)
            .under(&self.terms)
            .asking(remotes::asker(self.remotes.as_ref()))
    }

    fn placer<'s>(&self, scan: &'s Scan) -> Result<Placer<'s>, SourceLost> {
        Placer::new(self.cache.home(), scan).map_err(|error| unreadable(self.cache.home(), &error))
    }

    /// The listing and, read now, the workspace files and the records.
    fn claims(&self, scan: &Scan, placer: &Placer<'_>, listing: &[Owner]) -> Result<Claims, SourceLost> {
        let files = devpod::files(&self.environment)?;
        let mut told = HashSet::new();
        let owners: Vec<Owner> = listing.iter().chain(&files).filter(|owner| told.insert(*owner)).cloned().collect();
        let metadata = self.cache.metadata();
        let records = devlaunch::records(&metadata);
        Ok(Claims::new(scan, placer, &owners, &records, &escaped(&metadata)))
    }

    /// Where repositories that borrow from clones may be, whoever is alive: beside the directory of all
    /// caches, which is usually the home directory, in the home directory, and in the cache itself.
    fn usual_places(&self, scan: &Scan) -> Vec<Start> {
        let mut places: Vec<Start> =
            scan.found.iter().map(|found| Start::Alone(found.candidate.path.clone())).collect();
        places.extend(scan.bares.iter().cloned().map(Start::Alone));
        let around = self.cache.home().ancestors().nth(2).map(Path::to_path_buf);
        // A home that cannot be resolved holds nothing that could be looked at.
        let home = self.environment.home().and_then(|home| std::fs::canonicalize(home).ok());
        places.extend(around.into_iter().chain(home).map(Start::Below));
        places
    }
}

/// Beside and below the directories of live workspaces.
fn places_of(claims: &Claims) -> Vec<Start> {
    let parents: Vec<PathBuf> =
        claims.sources.iter().filter_map(|source| source.parent()).map(Path::to_path_buf).collect();
    claims.sources.iter().cloned().chain(parents).map(Start::Below).collect()
}

fn unreadable(path: &Path, error: &io::Error) -> SourceLost {
    SourceLost { source_id: id(DEVLAUNCH), why: format!("cannot read {}: {error}", escaped(path)) }
}

fn not_surveyed() -> SourceLost {
    SourceLost { source_id: id(DEVLAUNCH), why: "the cache was not surveyed before".into() }
}

impl Known {
    fn found(&self, candidate: &Candidate) -> Option<&Found> {
        self.scan.found.iter().find(|found| found.candidate == *candidate)
    }
}

/// What one look at one directory came to.
struct Look {
    evidence: Evidence,
    size: Size,
    trace: Trace,
}

impl<'v> Views<'v> {
    fn new(claims: &'v Claims, around: &'v Surroundings, now: Timestamp) -> Self {
        Self { claims, occupancy: Occupancy::snapshot(now), around }
    }

    fn disclosures(&self, borrowers: BorrowerSearch) -> Disclosures {
        Disclosures {
            processes: self.occupancy.view(),
            borrowers,
            records: self.claims.records_problem().map(str::to_owned),
            git: self.around.unread().to_vec(),
        }
    }

    /// Looks at many directories, several at a time, and returns them in their order.
    fn sightings(
        &self,
        scan: &Scan,
        found: &[&Found],
        depth: Depth,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Vec<Sighting> {
        let (total, done) = (found.len() as u64, AtomicU64::new(0));
        parallel::each(found, |found| {
            let sighting = self.sighting(scan, found, depth);
            progress(Progress::Examining { done: done.fetch_add(1, Ordering::Relaxed) + 1, total });
            sighting
        })
    }

    fn sighting(&self, scan: &Scan, found: &Found, depth: Depth) -> Sighting {
        let candidate = found.candidate.clone();
        let look = match scan::open(scan.root.as_fd(), &candidate.below_root) {
            Ok(dir) => self.look(found, dir.as_fd(), depth),
            Err(error) => self.blind_look(found, &format!("cannot open {}: {error}", escaped(&candidate.path))),
        };
        Sighting { candidate, evidence: look.evidence, size: look.size }
    }

    /// A directory that cannot be looked into; what its owners say is known all the same.
    fn blind_look(&self, found: &Found, why: &str) -> Look {
        let reports = self.claims.reports(found, &BTreeSet::new());
        Look { evidence: unseen(&reports, why), size: unmeasured(why), trace: Trace::default() }
    }

    /// Who owns and who uses a fenced directory; the rest as it was, unless something was written.
    fn second_look(
        &self,
        found: &Found,
        dir: BorrowedFd<'_>,
        first: &Evidence,
        traced: Option<&(Candidate, Trace)>,
    ) -> Evidence {
        let shown = &found.candidate.path;
        let seen = match seen::of(dir) {
            Ok(seen) => seen,
            Err(error) => return self.blind_look(found, &format!("cannot read {}: {error}", escaped(shown))).evidence,
        };
        let is_watched = |inode: Inode| self.claims.is_watched(inode);
        let mut gauge = Gauge::new(shown, Accounting::of(dir), self.occupancy.holders(), &is_watched);
        derelict_git::measure(dir, &mut gauge);
        let Gauged { size, uses, met, trace, is_marked } = gauge.finish();
        let inside = Met { inside: uses, by_git: Vec::new(), is_marked, completeness: &size.completeness };
        let uses = self.occupancy.uses(&seen, shown, dir, inside);
        let untouched = traced.is_some_and(|(candidate, before)| *candidate == found.candidate && *before == trace);
        let proof = if untouched {
            first.proof.clone()
        } else {
            Observed::Unknown(blind(Signal::Unsaved, "something in it was written after the last look"))
        };
        evidence(self.claims.reports(found, &met), first.touched.clone(), uses, proof)
    }

    /// Reads every signal of one open directory.
    fn look(&self, found: &Found, dir: BorrowedFd<'_>, depth: Depth) -> Look {
        let shown = &found.candidate.path;
        let replaced = match seen::of(dir) {
            Ok(seen) if seen.identity == found.candidate.identity => Ok(seen),
            Ok(_) => Err(format!("{} was replaced while it was looked at", escaped(shown))),
            Err(error) => Err(format!("cannot read {}: {error}", escaped(shown))),
        };
        let seen = match replaced {
            Ok(seen) => seen,
            Err(why) => return self.blind_look(found, &why),
        };
        let is_watched = |inode: Inode| self.claims.is_watched(inode);
        let mut gauge = Gauge::new(shown, Accounting::of(dir), self.occupancy.holders(), &is_watched);
        let claimed = depth == Depth::Verdict && self.claims.owns(found);
        let (proof, git_locks) = if claimed {
            derelict_git::measure(dir, &mut gauge);
            (Observed::Unknown(blind(Signal::Unsaved, "not examined: a living owner claims it")), Vec::new())
        } else {
            let examined = unsaved::examine(dir, shown, self.around, &mut gauge);
            (Observed::Known(examined.proof), examined.holders)
        };
        let Gauged { size, uses, met, trace, is_marked } = gauge.finish();
        let inside = Met { inside: uses, by_git: git_locks, is_marked, completeness: &size.completeness };
        let uses = self.occupancy.uses(&seen, shown, dir, inside);
        let reports = self.claims.reports(found, &met);
        Look { evidence: evidence(reports, Observed::Known(seen.touched()), uses, proof), size, trace }
    }
}

fn blind(signal: Signal, why: &str) -> Blind {
    Blind { signal, why: why.to_owned() }
}

fn evidence(
    reports: Vec<SourceReport>,
    touched: Observed<Timestamp>,
    uses: Observed<Vec<Holder>>,
    proof: Observed<derelict_core::evidence::Proof>,
) -> Evidence {
    Evidence::new(reports, touched, Observed::Known(Layout::Any), uses, proof)
        .expect("because every report of ours begins with what devpod says")
}

/// Evidence of a directory that could not be looked into; what its owners say is known all the same.
fn unseen(reports: &[SourceReport], why: &str) -> Evidence {
    let mut reports = reports.to_vec();
    if reports.is_empty() {
        reports.push(SourceReport { source: id(DEVLAUNCH), claims: Observed::Unknown(blind(Signal::Owner, why)) });
    }
    let touched = Observed::Unknown(blind(Signal::Age, why));
    evidence(
        reports,
        touched,
        Observed::Unknown(blind(Signal::Use, why)),
        Observed::Unknown(blind(Signal::Unsaved, why)),
    )
}

fn unmeasured(why: &str) -> Size {
    Size { sole_bytes: 0, entries: 0, linked: Vec::new(), completeness: Completeness::AtLeast { why: why.to_owned() } }
}
