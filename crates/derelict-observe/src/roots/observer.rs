//! The observer of a root whose owners are rows of a table: lists the root, asks the table once for all
//! of it, and looks into every directory that no living owner claims; for each re-check it reads the
//! row and the directory again. It decides nothing; what it cannot see it says.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use derelict_core::evidence::{
    Answer, Blind, Candidate, Channel, ChannelReport, Claim, ClaimedPath, Evidence, Layout, Lease, Observed, Proof,
    Signal, SourceReport,
};
use derelict_core::ids::{OwnerId, Timestamp, escaped};
use derelict_core::ports::SourceLost;
use derelict_core::record::SetAside;
use derelict_core::size::{Completeness, Size};
use derelict_core::survey::Sighting;
use derelict_git::Surroundings;

use crate::borrowers::{Search, Start};
use crate::parallel;
use crate::place::Placer;
use crate::probes::accounting::Accounting;
use crate::probes::gauge::{Gauge, Gauged, Trace};
use crate::probes::occupancy::{self, Met, Occupancy};
use crate::probes::unsaved;
use crate::remotes::{self, Remotes};
use crate::roots::meter::LayoutMeter;
use crate::roots::{NotSurveyed, Owners, RootSpec, RootSurvey, Shape, SharedTable, list};
use crate::scan::{self, Found, Scan};
use crate::seen;
use crate::sources::table::{IdScheme, OwnerTable, Row};
use crate::survey::{BorrowerSearch, Progress};

/// Looks at one root.
#[derive(Debug)]
pub struct RootObserver {
    spec: RootSpec,
    owners: Owners,
    remotes: Option<Arc<Remotes>>,
    now: Timestamp,
    known: Option<Known>,
}

/// What is kept between the survey and the re-checks.
#[derive(Debug)]
struct Known {
    scan: Scan,
    around: Surroundings,
    /// What the last re-check saw, to be compared by the second look.
    traced: Option<(Candidate, Trace)>,
    /// Who used what at the last look at everybody, and when that was.
    lately: (Instant, Occupancy),
}

/// How old a look at the processes may be for a re-check. It spares a directory in use from being fenced and put
/// back; what decides is the second look, which always looks anew.
const LATELY: Duration = Duration::from_secs(1);

impl Known {
    /// Looks anew at whoever has run since the last time.
    fn look_at_everybody(&mut self) {
        self.lately.0 = Instant::now();
        self.lately.1.look_anew();
    }
}

/// What one look at one directory came to.
struct Look {
    evidence: Evidence,
    size: Size,
    trace: Trace,
}

/// What is read once and then matched against many directories.
struct Views<'v> {
    spec: &'v RootSpec,
    occupancy: &'v Occupancy,
    around: &'v Surroundings,
}

/// What the rows of the whole root came to.
struct Asked {
    scheme: IdScheme,
    /// Sorted by canonical id: there are as many as directories, and a map of them would take twice the memory.
    rows: Vec<Row>,
    /// The source's and the one here.
    clocks: Option<(Timestamp, Timestamp)>,
}

impl Asked {
    /// The rows of one id.
    fn of(&self, id: &str) -> &[Row] {
        let start = self.rows.partition_point(|row| row.id.as_str() < id);
        let rest = &self.rows[start..];
        &rest[..rest.iter().take_while(|row| row.id == id).count()]
    }

    /// How many owners have any.
    fn owners(&self) -> u64 {
        self.rows.chunk_by(|one, other| one.id == other.id).count() as u64
    }
}

impl RootObserver {
    /// For one root. `now` is the instant of the whole run.
    #[must_use]
    pub fn new(spec: RootSpec, owners: Owners, now: Timestamp) -> Self {
        let remotes = remotes::asked_under(&spec.terms, &spec.environment);
        Self { spec, owners, remotes, now, known: None }
    }

    /// Looks at every directory of the root: one listing, one query, one look at the processes, one walk of each
    /// directory that nobody alive claims. `clock` reads the time here, to compare it with the source's.
    ///
    /// # Errors
    /// [`NotSurveyed`] when the root or its owner source cannot be read: then nothing is known of any
    /// directory.
    pub fn survey(
        &mut self,
        clock: impl FnOnce() -> Timestamp,
        progress: &(dyn Fn(Progress) + Sync),
    ) -> Result<RootSurvey, NotSurveyed> {
        progress(Progress::Asking);
        let scan = list::list(&self.spec.path).map_err(|error| self.absent(&error))?;
        let asked = self.ask(&scan, clock)?;
        let (around, borrowers) = self.around(&scan)?;
        let (at, occupancy) = (Instant::now(), Occupancy::snapshot(self.now));
        let views = Views { spec: &self.spec, occupancy: &occupancy, around: &around };
        let (total, done) = (scan.found.len() as u64, std::sync::atomic::AtomicU64::new(0));
        let sightings = parallel::each(&scan.found, |found| {
            let sighting = views.sighting(&scan, found, self.report(found, asked.as_ref()));
            let done = done.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
            progress(Progress::Examining { done, total });
            sighting
        });
        let survey = RootSurvey {
            sightings,
            skipped: scan.skipped.clone(),
            owners: asked.as_ref().map(Asked::owners),
            root: scan.root_seen.identity,
            clocks: asked.and_then(|asked| asked.clocks),
            processes: views.occupancy.view(),
            git: around.unread().to_vec(),
            borrowers,
        };
        self.known = Some(Known { scan, around, traced: None, lately: (at, occupancy) });
        Ok(survey)
    }

    /// Reads every signal of one directory again, its row included, through its open descriptor.
    ///
    /// # Errors
    /// [`SourceLost`] when its owner source cannot be read, or nothing was surveyed before. A fault of
    /// the directory itself is a blind spot in the evidence.
    pub fn look_again(&mut self, candidate: &Candidate, dir: BorrowedFd<'_>) -> Result<Evidence, SourceLost> {
        let report = self.ask_again(candidate)?;
        let (known, spec) = (self.known.as_mut().ok_or_else(|| not_surveyed(&self.spec))?, &self.spec);
        if known.lately.0.elapsed() >= LATELY {
            known.look_at_everybody();
        }
        let views = Views { spec, occupancy: &known.lately.1, around: &known.around };
        let look = match known.scan.find(candidate) {
            Some(found) => views.look(&found.candidate, dir, report),
            None => blind_look(report, "it was not part of the survey"),
        };
        known.traced = Some((candidate.clone(), look.trace));
        Ok(look.evidence)
    }

    /// Looks a second time at a directory that was fenced since the re-check: its row and its users are
    /// read anew, and whether anything in it was written meanwhile.
    ///
    /// # Errors
    /// [`SourceLost`] when its owner source cannot be read, or nothing was surveyed before.
    pub fn second_look(
        &mut self,
        candidate: &Candidate,
        dir: BorrowedFd<'_>,
        first: &Evidence,
    ) -> Result<Evidence, SourceLost> {
        let report = self.ask_again(candidate)?;
        let known = self.known.as_mut().ok_or_else(|| not_surveyed(&self.spec))?;
        known.look_at_everybody();
        let views = Views { spec: &self.spec, occupancy: &known.lately.1, around: &known.around };
        let traced = known.traced.as_ref().filter(|(traced, _)| traced == candidate).map(|(_, trace)| *trace);
        Ok(views.second_look(candidate, dir, report, first, traced))
    }

    /// Reads every signal of a directory that was set aside by an earlier sweep: its row, who uses it or has
    /// written in it since, and what it holds.
    ///
    /// # Errors
    /// [`SourceLost`] when its owner source cannot be read, or nothing was surveyed before.
    pub fn look_at_set_aside(&self, set_aside: &SetAside, dir: BorrowedFd<'_>) -> Result<Evidence, SourceLost> {
        let candidate = &set_aside.candidate;
        let report = self.ask_again(candidate)?;
        let known = self.known.as_ref().ok_or_else(|| not_surveyed(&self.spec))?;
        let occupancy = Occupancy::snapshot(self.now);
        let views = Views { spec: &self.spec, occupancy: &occupancy, around: &known.around };
        let Look { mut evidence, trace, size: _ } = views.look(candidate, dir, report);
        evidence.uses = occupancy::while_set_aside(evidence.uses, &trace, set_aside.since);
        Ok(evidence)
    }

    fn absent(&self, error: &io::Error) -> NotSurveyed {
        NotSurveyed::RootAbsent { path: self.spec.path.clone(), why: error.to_string() }
    }

    fn ask(&self, scan: &Scan, clock: impl FnOnce() -> Timestamp) -> Result<Option<Asked>, SourceLost> {
        let Owners::Table(table) = &self.owners else { return Ok(None) };
        let mut table = locked(table);
        let scheme = table.ids();
        let mut ids: Vec<String> =
            scan.found.iter().filter_map(|found| scheme.canonical(found.candidate.name.as_bytes())).collect();
        ids.sort_unstable();
        ids.dedup();
        let snapshot = table.rows(&ids)?;
        let clocks = snapshot.clock.map(|theirs| (theirs, clock()));
        let mut rows = snapshot.rows;
        rows.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(Some(Asked { scheme, rows, clocks }))
    }

    /// What the source says of one directory, from the snapshot.
    fn report(&self, found: &Found, asked: Option<&Asked>) -> SourceReport {
        let Some(asked) = asked else { return self.nobody() };
        match asked.scheme.canonical(found.candidate.name.as_bytes()) {
            Some(id) => self.claims(asked.of(&id)),
            None => self.no_id(&found.candidate),
        }
    }

    fn ask_again(&self, candidate: &Candidate) -> Result<SourceReport, SourceLost> {
        let Owners::Table(table) = &self.owners else { return Ok(self.nobody()) };
        let mut table = locked(table);
        match table.ids().canonical(candidate.name.as_bytes()) {
            Some(id) => Ok(self.claims(&table.row(&id)?)),
            None => Ok(self.no_id(candidate)),
        }
    }

    fn nobody(&self) -> SourceReport {
        SourceReport { source: self.spec.source.clone(), claims: Observed::Known(Vec::new()) }
    }

    fn no_id(&self, candidate: &Candidate) -> SourceReport {
        let why = format!("{} is no id of {}", escaped(&candidate.below_root), self.spec.source);
        SourceReport { source: self.spec.source.clone(), claims: unknown(Signal::Owner, &why) }
    }

    /// A row whose last use is not known says nothing, unless it holds the directory anyway.
    fn claims(&self, rows: &[Row]) -> SourceReport {
        let source = &self.spec.source;
        // Most owners have one row, and there may be very many of them.
        let mut claims = Vec::with_capacity(rows.len());
        let mut not_known = None;
        for row in rows {
            let claim =
                |lease| Claim { source: source.clone(), owner: OwnerId(row.id.clone()), at: ClaimedPath::Here, lease };
            claims.extend(row.last_used_at.map(|at| claim(Lease::LastUsed(at))));
            claims.extend(row.held.clone().map(|reason| claim(Lease::Held { reason })));
            if row.last_used_at.is_none() && row.held.is_none() {
                not_known = Some(format!("{source} does not know when {} was last used", row.id));
            }
        }
        match not_known {
            Some(why) if claims.is_empty() => {
                SourceReport { source: source.clone(), claims: unknown(Signal::Owner, &why) }
            }
            Some(why) => {
                let reason = format!("{why} in one of its rows");
                let owner = claims[0].owner.clone();
                let held = Lease::Held { reason };
                claims.push(Claim { source: source.clone(), owner, at: ClaimedPath::Here, lease: held });
                SourceReport { source: source.clone(), claims: Observed::Known(claims) }
            }
            None => SourceReport { source: source.clone(), claims: Observed::Known(claims) },
        }
    }

    /// What borrows from the workspaces of a root where checkouts lie: they themselves, and what lies
    /// beside the root.
    fn around(&self, scan: &Scan) -> Result<(Surroundings, Option<BorrowerSearch>), NotSurveyed> {
        let root = self.spec.path.clone();
        match self.spec.shape {
            Shape::Exactly { .. } => Ok((Surroundings::new(root, Vec::new(), Vec::new()), None)),
            Shape::Checkout => {
                let placer = Placer::new(&root, scan).map_err(|error| self.absent(&error))?;
                let mut search = Search::new(&placer, scan.root_seen.inode());
                search.look(scan.found.iter().map(|found| Start::Alone(found.candidate.path.clone())));
                search.look(root.parent().map(|parent| Start::Below(parent.to_path_buf())));
                let (borrowers, searched) = search.finish();
                Ok((
                    Surroundings::new(root, Vec::new(), borrowers)
                        .under(&self.spec.terms)
                        .asking(remotes::asker(self.remotes.as_ref())),
                    Some(searched),
                ))
            }
        }
    }
}

impl Scan {
    /// The entry of a candidate; the entries are sorted by their place below the root.
    fn find(&self, candidate: &Candidate) -> Option<&Found> {
        let at = self.found.binary_search_by(|found| found.candidate.name.as_bytes().cmp(candidate.name.as_bytes()));
        at.ok().and_then(|at| self.found.get(at)).filter(|found| found.candidate == *candidate)
    }
}

impl Views<'_> {
    fn sighting(&self, scan: &Scan, found: &Found, report: SourceReport) -> Sighting {
        let candidate = found.candidate.clone();
        if self.is_alive(&report) {
            let why = "not looked at: its owner is alive";
            let look = Look { trace: Trace::default(), size: unmeasured(why), evidence: unseen(report, found, why) };
            return Sighting { candidate, evidence: look.evidence, size: look.size };
        }
        let look = match scan::open(scan.root.as_fd(), &candidate.below_root) {
            Ok(dir) => self.look(&found.candidate, dir.as_fd(), report),
            Err(error) => blind_look(report, &format!("cannot open {}: {error}", escaped(&candidate.path))),
        };
        Sighting { candidate, evidence: look.evidence, size: look.size }
    }

    fn is_alive(&self, report: &SourceReport) -> bool {
        match &report.claims {
            Observed::Known(claims) => claims.iter().any(|claim| match &claim.lease {
                Lease::LastUsed(at) => *at >= self.spec.cutoff,
                Lease::Standing => true,
                Lease::Held { .. } => false,
            }),
            Observed::Unknown(_) => false,
        }
    }

    /// Reads every signal of one open directory.
    fn look(&self, candidate: &Candidate, dir: BorrowedFd<'_>, report: SourceReport) -> Look {
        let shown = &candidate.path;
        let seen = match seen::of(dir) {
            Ok(seen) if seen.identity == candidate.identity => seen,
            Ok(_) => return blind_look(report, &format!("{} was replaced while it was looked at", escaped(shown))),
            Err(error) => return blind_look(report, &format!("cannot read {}: {error}", escaped(shown))),
        };
        let mut gauge = Gauge::new(shown, Accounting::of(dir), self.occupancy.holders(), &|_| false);
        let (layout, proof, by_git) = match &self.spec.shape {
            Shape::Exactly { entries, worktree_homes } => {
                let mut meter = LayoutMeter::new(&mut gauge, worktree_homes);
                derelict_git::measure(dir, &mut meter);
                (meter.layout(entries), expendable(), Vec::new())
            }
            Shape::Checkout => {
                let examined = unsaved::examine(dir, shown, self.around, &mut gauge);
                (Layout::Any, examined.proof, examined.holders)
            }
        };
        let Gauged { size, uses: inside, trace, is_marked, met: _ } = gauge.finish();
        let layout = match &size.completeness {
            Completeness::AtLeast { why } if layout == Layout::Expected => unknown(Signal::Layout, why),
            Completeness::AtLeast { .. } | Completeness::Exact => Observed::Known(layout),
        };
        let uses =
            self.occupancy.uses(&seen, shown, dir, Met { inside, by_git, is_marked, completeness: &size.completeness });
        // A directory's own time of change is when it was made: what runs in it later does not touch it.
        let touched = Observed::Known(seen.modified);
        let evidence = evidence(report, touched, layout, uses, Observed::Known(proof));
        Look { evidence, size, trace }
    }

    /// Who owns and who uses a fenced directory; the rest as it was, unless something was written.
    fn second_look(
        &self,
        candidate: &Candidate,
        dir: BorrowedFd<'_>,
        report: SourceReport,
        first: &Evidence,
        traced: Option<Trace>,
    ) -> Evidence {
        let shown = &candidate.path;
        let seen = match seen::of(dir) {
            Ok(seen) => seen,
            Err(error) => return blind_look(report, &format!("cannot read {}: {error}", escaped(shown))).evidence,
        };
        let mut gauge = Gauge::new(shown, Accounting::of(dir), self.occupancy.holders(), &|_| false);
        derelict_git::measure(dir, &mut gauge);
        let Gauged { size, uses: inside, trace, is_marked, met: _ } = gauge.finish();
        let met = Met { inside, by_git: Vec::new(), is_marked, completeness: &size.completeness };
        let uses = self.occupancy.uses(&seen, shown, dir, met);
        let written = "something in it was written after the last look";
        let (layout, proof) = if traced == Some(trace) {
            (first.layout.clone(), first.proof.clone())
        } else {
            (unknown(Signal::Layout, written), unknown(Signal::Unsaved, written))
        };
        evidence(report, first.touched.clone(), layout, uses, proof)
    }
}

fn locked(table: &SharedTable) -> MutexGuard<'_, Box<dyn OwnerTable>> {
    // A panic while it was asked leaves a session that fails by itself.
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the operator declared: what lies in the expected entries may go with its owner.
fn expendable() -> Proof {
    let examined = "the expected entries, which the root declares to be expendable".to_owned();
    Proof::of(vec![ChannelReport::new(Channel("layout"), examined, Answer::Nothing)])
}

fn unknown<T>(signal: Signal, why: &str) -> Observed<T> {
    Observed::Unknown(Blind { signal, why: why.to_owned() })
}

fn evidence(
    report: SourceReport,
    touched: Observed<Timestamp>,
    layout: Observed<Layout>,
    uses: Observed<Vec<derelict_core::evidence::Holder>>,
    proof: Observed<Proof>,
) -> Evidence {
    Evidence::new(vec![report], touched, layout, uses, proof).expect("because one source was asked")
}

/// Evidence of a directory that was not looked into; when it was made is known from the listing.
fn unseen(report: SourceReport, found: &Found, why: &str) -> Evidence {
    let touched = Observed::Known(found.seen.modified);
    let (layout, uses) = (unknown(Signal::Layout, why), unknown(Signal::Use, why));
    evidence(report, touched, layout, uses, unknown(Signal::Unsaved, why))
}

/// A directory that could not be looked into; what its source says is known all the same.
fn blind_look(report: SourceReport, why: &str) -> Look {
    let (touched, layout) = (unknown(Signal::Age, why), unknown(Signal::Layout, why));
    let evidence = evidence(report, touched, layout, unknown(Signal::Use, why), unknown(Signal::Unsaved, why));
    Look { evidence, size: unmeasured(why), trace: Trace::default() }
}

fn unmeasured(why: &str) -> Size {
    Size { sole_bytes: 0, entries: 0, linked: Vec::new(), completeness: Completeness::AtLeast { why: why.to_owned() } }
}

fn not_surveyed(spec: &RootSpec) -> SourceLost {
    let path: &Path = &spec.path;
    SourceLost { source_id: spec.source.clone(), why: format!("{} was not surveyed before", escaped(path)) }
}
