//! Turns live owners and records into claims on directories. An owner that is alive at, in or above a
//! clone claims it; a record that ties a clone to a live owner elsewhere disputes it; an owner that
//! cannot be placed blinds us to everything it could be. What follows from a claim is core's `judge`.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::PathBuf;

use derelict_core::evidence::{Blind, Claim, ClaimedPath, Lease, Observed, Signal, SourceReport};
use derelict_core::ids::{OwnerId, escaped};

use crate::files;
use crate::place::{Depth, Placed, Placer, Position};
use crate::scan::{Found, Scan, Scope, is_clone_name};
use crate::seen::{self, Inode};
use crate::sources::devlaunch::Record;
use crate::sources::devpod::{Owner, Place, Reach};
use crate::sources::{DEVLAUNCH, DEVPOD, id};

/// What is kept of all that is said about a whole scope. One word of it already keeps every
/// directory of the scope, and a thousand owners times a thousand directories is a million of them.
const TOLD_PER_SCOPE: usize = 8;

/// All that the owner sources say, found by directory.
#[derive(Debug)]
pub(crate) struct Claims {
    clones: HashMap<Inode, Told>,
    scopes: HashMap<Scope, Told>,
    /// Directories of live sources, wherever they are: one that is met inside a clone, through
    /// whatever mount, makes the clone its owner's.
    watched: HashMap<Inode, Vec<Claim>>,
    records: Option<Blind>,
    /// How many owners are alive.
    pub(crate) owners: u64,
    /// Keys of records whose clone is gone and whose owner is not alive.
    pub(crate) stale_records: Vec<String>,
    /// Directories of live sources, to look for borrowers around them.
    pub(crate) sources: Vec<PathBuf>,
}

#[derive(Debug, Default)]
struct Told {
    /// By devpod: at, in or above.
    claims: Vec<Claim>,
    /// By a record or a name: alive elsewhere.
    ties: Vec<Claim>,
    /// Owners that could be here.
    blinds: Vec<Blind>,
}

/// Whether a record knows an owner's id, whatever clone the record leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Recorded {
    Somewhere,
    Nowhere,
}

/// Which clones go by an id, and by whose word.
type Ties = HashMap<String, HashMap<Inode, String>>;

impl Claims {
    /// Places every owner and every record.
    pub(crate) fn new(
        scan: &Scan,
        placer: &Placer<'_>,
        owners: &[Owner],
        records: &Observed<Vec<Record>>,
        records_file: &str,
    ) -> Self {
        let alive: HashSet<&str> =
            owners.iter().filter(|owner| is_alive(owner)).map(|owner| owner.id.as_str()).collect();
        let (known, blind) = match records {
            Observed::Known(records) => (records.as_slice(), None),
            Observed::Unknown(blind) => (&[][..], Some(blind.clone())),
        };
        let mut claims = Self {
            clones: HashMap::new(),
            scopes: HashMap::new(),
            watched: HashMap::new(),
            records: blind,
            owners: alive.len() as u64,
            stale_records: Vec::new(),
            sources: Vec::new(),
        };
        let ties = ties(scan, placer, known, records_file);
        let recorded: HashSet<&str> = known.iter().flat_map(|record| &record.ids).map(String::as_str).collect();
        let mut gone = HashSet::new();
        for owner in owners {
            let named = ties.get(&owner.id);
            let placed = match &owner.place {
                Place::Local(path) => placer.place(path).map(|placed| (placed, escaped(path))),
                Place::Remote(text) => {
                    claims.elsewhere(owner, named, text, |_| false);
                    continue;
                }
                Place::Unknown { why, reach } => {
                    claims.unplaced(owner, named, why, *reach);
                    continue;
                }
            };
            match placed {
                Ok((placed, shown)) => {
                    let is_recorded = named.is_some() || recorded.contains(owner.id.as_str());
                    let recorded = if is_recorded { Recorded::Somewhere } else { Recorded::Nowhere };
                    claims.placed(owner, (named, recorded), &placed, &shown, placer);
                    if placed.directory.is_some() {
                        claims.sources.push(placed.resolved);
                    } else {
                        gone.insert(placed.resolved);
                    }
                }
                Err(why) => claims.unplaced(owner, named, &why, Reach::Anything),
            }
        }
        // Here even a workspace that is perhaps not alive counts: dropping a record can wait.
        let named: HashSet<&str> = owners.iter().map(|owner| owner.id.as_str()).collect();
        claims.stale_records = stale(known, scan, placer, &named, &gone);
        claims
    }

    /// What each source says of one clone. `met` are directories of live sources that were met inside.
    pub(crate) fn reports(&self, found: &Found, met: &BTreeSet<Inode>) -> Vec<SourceReport> {
        let (mut claims, mut ties, mut blinds) = (Vec::new(), Vec::new(), Vec::new());
        for told in self.told(found) {
            claims.extend(told.claims.iter().cloned());
            ties.extend(told.ties.iter().cloned());
            blinds.extend(told.blinds.iter().cloned());
        }
        for claim in met.iter().filter_map(|inode| self.watched.get(inode)).flatten() {
            // Whoever was placed here by its path needs no second word.
            if !claims.iter().any(|known| known.owner == claim.owner) {
                claims.push(claim.clone());
            }
        }
        let mut reports = vec![SourceReport { source: id(DEVPOD), claims: Observed::Known(claims) }];
        reports.extend(blinds.into_iter().map(|blind| unknown(DEVPOD, blind)));
        match &self.records {
            None => reports.push(SourceReport { source: id(DEVLAUNCH), claims: Observed::Known(ties) }),
            Some(blind) => {
                if !ties.is_empty() {
                    reports.push(SourceReport { source: id(DEVLAUNCH), claims: Observed::Known(ties) });
                }
                reports.push(unknown(DEVLAUNCH, blind.clone()));
            }
        }
        reports
    }

    /// Whether a living owner is at, in or above a clone.
    pub(crate) fn owns(&self, found: &Found) -> bool {
        self.told(found).any(|told| !told.claims.is_empty())
    }

    /// Whether this is the directory of a live source.
    pub(crate) fn is_watched(&self, inode: Inode) -> bool {
        self.watched.contains_key(&inode)
    }

    /// Why the records say nothing, if they do not.
    pub(crate) fn records_problem(&self) -> Option<&str> {
        self.records.as_ref().map(|blind| blind.why.as_str())
    }

    fn told(&self, found: &Found) -> impl Iterator<Item = &Told> {
        let scopes = [Scope::Everything, Scope::Owner(found.owner), Scope::Repository(found.repository)];
        let scopes = scopes.into_iter().filter_map(|scope| self.scopes.get(&scope));
        self.clones.get(&found.inode()).into_iter().chain(scopes)
    }

    fn placed(
        &mut self,
        owner: &Owner,
        (named, recorded): (Option<&HashMap<Inode, String>>, Recorded),
        placed: &Placed,
        shown: &str,
        placer: &Placer<'_>,
    ) {
        if let Some(directory) = placed.directory {
            self.watched.entry(directory).or_default().push(claim(owner, ClaimedPath::Within));
        }
        match &placed.position {
            Position::Outside => {}
            Position::Clones(clones) => {
                for (inode, depth) in clones {
                    let at = match depth {
                        Depth::Here => ClaimedPath::Here,
                        Depth::Within => ClaimedPath::Within,
                    };
                    self.clones.entry(*inode).or_default().claims.push(claim(owner, at));
                }
            }
            Position::Above(scope) => self.scope(*scope).claim(claim(owner, ClaimedPath::Above)),
            Position::Stray(scope @ Scope::Repository(_)) if recorded == Recorded::Somewhere => {
                let place = format!("{shown}, which is no clone of this repository");
                self.scope(*scope).tie(tied(owner, place));
            }
            Position::Stray(_) if named.is_some() => {}
            Position::Stray(scope) => {
                let why = format!("it says it lives at {shown}, which is in the cache and is no clone");
                let blind = blind(owner, &why);
                self.scope(*scope).blind(blind);
            }
        }
        self.elsewhere(owner, named, shown, |clone| match &placed.position {
            Position::Clones(clones) => clones.iter().any(|(inode, _)| *inode == clone),
            Position::Above(scope) => placer.covers(*scope, clone),
            Position::Outside | Position::Stray(_) => false,
        });
    }

    /// Every clone that goes by this owner's name is disputed, for the owner says it lives at `place`,
    /// unless that is the clone itself.
    fn elsewhere(
        &mut self,
        owner: &Owner,
        named: Option<&HashMap<Inode, String>>,
        place: &str,
        is_there: impl Fn(Inode) -> bool,
    ) {
        for (inode, by) in named.into_iter().flatten().filter(|(inode, _)| !is_there(**inode)) {
            self.clones
                .entry(*inode)
                .or_default()
                .ties
                .push(tied(owner, format!("{place} (tied to this directory by {by})")));
        }
    }

    /// An owner of unknown place could be the clones that go by its name: a clone's name, the
    /// launcher's id and devpod's id are the same by construction. If none does, it could be any.
    fn unplaced(&mut self, owner: &Owner, named: Option<&HashMap<Inode, String>>, why: &str, reach: Reach) {
        let blind = blind(owner, why);
        match (named, reach) {
            (Some(named), Reach::Anything | Reach::Named) => {
                for inode in named.keys() {
                    self.clones.entry(*inode).or_default().blinds.push(blind.clone());
                }
            }
            (None, Reach::Anything) => self.scope(Scope::Everything).blind(blind),
            (None, Reach::Named) => {}
        }
    }

    fn scope(&mut self, scope: Scope) -> &mut Told {
        self.scopes.entry(scope).or_default()
    }
}

impl Told {
    fn claim(&mut self, claim: Claim) {
        bounded(&mut self.claims, claim);
    }

    fn tie(&mut self, claim: Claim) {
        bounded(&mut self.ties, claim);
    }

    fn blind(&mut self, blind: Blind) {
        bounded(&mut self.blinds, blind);
    }
}

fn bounded<T>(told: &mut Vec<T>, word: T) {
    if told.len() < TOLD_PER_SCOPE {
        told.push(word);
    }
}

/// A workspace directory without a workspace file names something, and nothing says that it lives.
fn is_alive(owner: &Owner) -> bool {
    match &owner.place {
        Place::Local(_) | Place::Remote(_) | Place::Unknown { reach: Reach::Anything, .. } => true,
        Place::Unknown { reach: Reach::Named, .. } => false,
    }
}

fn claim(owner: &Owner, at: ClaimedPath) -> Claim {
    Claim { source: id(DEVPOD), owner: OwnerId(owner.id.clone()), at, lease: Lease::Standing }
}

fn tied(owner: &Owner, place: String) -> Claim {
    let at = ClaimedPath::Elsewhere(place);
    Claim { source: id(DEVLAUNCH), owner: OwnerId(owner.id.clone()), at, lease: Lease::Standing }
}

fn blind(owner: &Owner, why: &str) -> Blind {
    let why = format!("cannot tell where the workspace {} lives: {why}", owner.id.escape_debug());
    Blind { signal: Signal::Owner, why }
}

fn unknown(source: &str, blind: Blind) -> SourceReport {
    SourceReport { source: id(source), claims: Observed::Unknown(blind) }
}

/// Which clones go by which id: by their own name, by a record that leads to them, and by a record that
/// shares an id with them.
fn ties(scan: &Scan, placer: &Placer<'_>, records: &[Record], records_file: &str) -> Ties {
    let mut by_leaf: HashMap<&str, Vec<Inode>> = HashMap::new();
    let mut ties = Ties::new();
    for found in &scan.found {
        let Some(leaf) = found.leaf() else { continue };
        by_leaf.entry(leaf).or_default().push(found.inode());
        ties.entry(leaf.to_owned()).or_default().insert(found.inode(), "its own name".to_owned());
    }
    for record in records {
        let mut clones: Vec<Inode> =
            record.ids.iter().filter_map(|id| by_leaf.get(id.as_str())).flatten().copied().collect();
        // A path that cannot be placed names nothing, as one that is wrong.
        if let Some(Ok(placed)) = record.local_path.as_deref().map(|path| placer.place(path))
            && let Position::Clones(at) = placed.position
        {
            clones.extend(at.into_iter().map(|(inode, _)| inode));
        }
        let by = format!("the record {} in {records_file}", record.key.escape_debug());
        for id in &record.ids {
            for clone in &clones {
                ties.entry(id.clone()).or_default().insert(*clone, by.clone());
            }
        }
    }
    // A record may lead to a clone made after the scan, which nobody asks about.
    ties.retain(|_, clones| !clones.is_empty());
    ties
}

/// Records of clones that are gone, by their keys. Gone means: its repository's directory is there and
/// it is not; and no live owner goes by its name or says it lives there.
/// Whether a repository's directory is the one that clones were made in, with nothing of theirs in the
/// trash. One that is not mounted at present looks empty; and in the trash may lie, whole, the very
/// clone that seems to be gone.
fn is_whole_repository(directory: &std::path::Path) -> bool {
    let Ok(entries) = std::fs::read_dir(directory) else { return false };
    let names: std::io::Result<Vec<_>> = entries.map(|entry| entry.map(|entry| entry.file_name())).collect();
    names.is_ok_and(|names| {
        let trash = names.iter().any(|name| name.as_encoded_bytes().starts_with(crate::TRASH_PREFIX.as_bytes()));
        !trash && names.iter().any(|name| name == ".bare")
    })
}

fn stale(
    records: &[Record],
    scan: &Scan,
    placer: &Placer<'_>,
    owners: &HashSet<&str>,
    gone: &HashSet<PathBuf>,
) -> Vec<String> {
    let is_stale = |record: &Record| {
        let Some(path) = &record.local_path else { return false };
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return false };
        let absent = seen::itself(path).is_err_and(|error| files::is_absent(&error));
        if !absent || !is_clone_name(name) {
            return false;
        }
        let Ok(Placed { directory: Some(directory), resolved, .. }) = placer.place(parent) else { return false };
        let in_repository = match scan.directories.get(&directory) {
            Some(Scope::Repository(_)) => true,
            Some(Scope::Everything | Scope::Owner(_)) | None => false,
        };
        let named = record.ids.iter().map(String::as_str).chain(name.to_str()).any(|id| owners.contains(id));
        in_repository && !named && !gone.contains(&resolved.join(name)) && is_whole_repository(&resolved)
    };
    records.iter().filter(|record| is_stale(record)).map(|record| record.key.clone()).collect()
}
