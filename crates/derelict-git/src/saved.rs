//! What is saved elsewhere: by a forge that a remote-tracking ref really is about, and by repositories
//! of this machine that stay. Not here: what of a repository is saved that way.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bstr::{BString, ByteSlice};
use gix_hash::ObjectId;

use crate::asked::{Forge, Heard, ask};
use crate::commits::{Commit, Peeled, Stores, difference};
use crate::refs::{Reflog, Refs};
use crate::repository::Repository;
use crate::rewrites::Rewrites;
use crate::settings::Remote;
use crate::surroundings::{Keeper, Surroundings};

/// Where a repository stands among others.
pub(crate) struct Standing<'a> {
    pub(crate) around: &'a Surroundings,
    /// The canonical path of the candidate that would go.
    pub(crate) top: &'a Path,
    /// The canonical path of this repository's work tree, against which relative remotes resolve.
    pub(crate) base: &'a Path,
}

/// Everything that is saved elsewhere.
pub(crate) struct Saved {
    /// What remote-tracking refs of forges name. What these reach is read wherever it is found.
    pub(crate) forge: HashSet<ObjectId>,
    /// What the refs of repositories that stay name.
    pub(crate) kept: HashSet<ObjectId>,
    /// What forges are only thought to name, and why that could not be made certain; only where they were asked.
    uncertain: Vec<(ObjectId, String)>,
    keepers: Vec<Arc<Keeper>>,
    /// The repository's own objects, then those of the keepers.
    pub(crate) stores: Stores,
    /// The objects of the keepers alone: what is read through these is really there.
    pub(crate) theirs: Stores,
}

impl Saved {
    /// `shallow` are the commits of the repository whose parents were cut off on purpose.
    pub(crate) fn of(
        repo: &Repository,
        standing: &Standing<'_>,
        refs: &Refs,
        logs: &[Reflog],
        shallow: HashSet<ObjectId>,
    ) -> Self {
        let named: HashSet<ObjectId> = refs.direct.iter().map(|(_, id)| *id).collect();
        let mut keepers = standing.around.keepers_of(standing.top);
        let remotes = Remotes { repo: &repo.settings.remotes, users: &standing.around.users().rewrites.remotes };
        let (mut forges, mut others) = (Vec::new(), Vec::new());
        for name in remotes.names() {
            match remotes.address(name, &repo.rewrites, standing) {
                // What only the user's configuration has can take savings away, and adds none.
                Address::Forge if !remotes.is_the_repositorys(name) => {}
                Address::Forge => forges.push(Forge {
                    sections: remotes.called(name).collect(),
                    address: remotes.asked_at(name, &repo.rewrites, standing),
                }),
                Address::Directory(path) => {
                    others.extend(remotes.called(name));
                    keepers.extend(standing.around.keeper(&path));
                }
                Address::Nowhere => others.extend(remotes.called(name)),
            }
        }
        if repo.is_linked()
            && std::fs::canonicalize(&repo.common_dir).is_ok_and(|dir| !standing.around.goes(&dir, standing.top))
        {
            keepers.extend(standing.around.keeper(&repo.common_dir));
        }
        keepers.retain(|keeper| keeper.objects().hash == repo.settings.hash);
        // What is named here and there is believed only if it is really there; what only the keeper
        // names hides no more than what it reaches.
        let tips = |keeper: &Arc<Keeper>| {
            keeper.tips.iter().filter(|id| !named.contains(*id) || keeper.holds(id)).copied().collect::<Vec<_>>()
        };
        let kept: HashSet<ObjectId> = keepers.iter().flat_map(tips).collect();
        // A ref that a remote of another kind may have written says nothing of a forge.
        let maps = |name: &[u8]| {
            forges.iter().any(|forge| forge.maps(name)) && !others.iter().any(|remote: &&Remote| remote.maps(name))
        };
        let mapped = refs.direct.iter().filter(|(name, _)| maps(name));
        let fetched: Vec<(&[u8], ObjectId)> =
            mapped.filter(|(name, id)| was_fetched(name, id, logs)).map(|(name, id)| (name.as_slice(), *id)).collect();
        let objects = || keepers.iter().map(|keeper| keeper.objects());
        let stores = Stores::new(std::iter::once(repo.objects.another()).chain(objects()).collect(), shallow);
        let theirs = Stores::new(objects().collect(), HashSet::new());
        let Heard { certain, uncertain } = match standing.around.asker() {
            None => Heard { certain: fetched.into_iter().map(|(_, id)| id).collect(), uncertain: Vec::new() },
            Some(asker) => {
                let alone: Vec<_> = fetched.into_iter().filter(|(_, id)| !kept.contains(id)).collect();
                ask(asker, &forges, &alone, &stores)
            }
        };
        let forge = certain.into_iter().chain(uncertain.iter().map(|(id, _)| *id)).collect();
        Self { forge, kept, uncertain, keepers, stores, theirs }
    }

    /// Whether this very object is named by something that stays.
    pub(crate) fn names(&self, id: &ObjectId) -> bool {
        self.forge.contains(id) || self.kept.contains(id)
    }

    /// All that is named by something that stays.
    pub(crate) fn tips(&self) -> HashSet<ObjectId> {
        self.forge.union(&self.kept).copied().collect()
    }

    /// Why it cannot be told whether something is saved: a forge that alone would save it could not vouch for it.
    pub(crate) fn doubts(&self, most: usize) -> Result<BTreeSet<&str>, String> {
        let doubtful: HashSet<ObjectId> = self.uncertain.iter().map(|(id, _)| *id).collect();
        let certain = self.tips().difference(&doubtful).copied().collect();
        let mut commits = Vec::new();
        for (id, why) in &self.uncertain {
            let commit = match self.stores.peel(*id)? {
                Peeled::Commit(commit) => Some(commit),
                Peeled::Other | Peeled::Missing => None,
            };
            commits.push((commit, why.as_str()));
        }
        let named: Vec<ObjectId> = commits.iter().filter_map(|(commit, _)| *commit).collect();
        let unsaved = difference(&self.stores, &named, &certain, most)?;
        let doubts =
            commits.into_iter().filter(|(commit, _)| commit.is_none_or(|commit| unsaved.contains_key(&commit)));
        Ok(doubts.map(|(_, why)| why).collect())
    }

    /// Whether a commit that nothing names any more is as whole in a repository that stays as it is here: all
    /// of it is there, or no store has more of it than the commit itself.
    pub(crate) fn is_held(&self, id: &ObjectId, commit: &Commit) -> bool {
        let is_husk = || self.theirs.has(id) && !self.stores.has(&commit.tree);
        self.keepers.iter().any(|keeper| keeper.holds(id)) || is_husk()
    }

    /// A repository that stays, if there is one, to remember what all clones have in common.
    pub(crate) fn memory(&self) -> Option<&Keeper> {
        self.keepers.first().map(Arc::as_ref)
    }

    /// The object stores of the repositories that stay.
    pub(crate) fn object_stores(&self) -> impl Iterator<Item = PathBuf> {
        self.keepers.iter().map(|keeper| keeper.git_dir.join("objects"))
    }

    /// Directories in which the keepers store what git-lfs manages.
    pub(crate) fn lfs_stores(&self) -> impl Iterator<Item = PathBuf> {
        self.keepers.iter().map(|keeper| keeper.git_dir.join("lfs/objects"))
    }
}

/// The remotes of a repository, and those that the user has in every repository. Sections of one name are one
/// remote, wherever they are written.
struct Remotes<'r> {
    repo: &'r [Remote],
    users: &'r [Remote],
}

impl<'r> Remotes<'r> {
    fn names(&self) -> BTreeSet<&'r BString> {
        self.repo.iter().chain(self.users).map(|remote| &remote.name).collect()
    }

    fn called(&self, name: &BString) -> impl Iterator<Item = &'r Remote> {
        self.repo.iter().chain(self.users).filter(move |remote| remote.name == *name)
    }

    fn is_the_repositorys(&self, name: &BString) -> bool {
        self.repo.iter().any(|remote| remote.name == *name)
    }

    /// Where a remote leads: to a forge only if all of its addresses do, and all that they may be rewritten to.
    fn address(&self, name: &BString, rewrites: &Rewrites, standing: &Standing<'_>) -> Address {
        let urls = self.called(name).filter_map(|remote| remote.url.as_ref());
        let mut addresses = urls.map(|url| address_of(url, rewrites, standing));
        let Some(first) = addresses.next() else { return Address::Nowhere };
        let elsewhere = addresses.find(|address| !matches!(address, Address::Forge));
        match first {
            Address::Forge => elsewhere.unwrap_or(Address::Forge),
            Address::Directory(_) | Address::Nowhere => first,
        }
    }
}

impl Remotes<'_> {
    /// The address at which a forge can be asked: what is written is rewritten by us, and must not be again by the git
    /// of the user who asks.
    fn asked_at(&self, name: &BString, rewrites: &Rewrites, standing: &Standing<'_>) -> Option<BString> {
        let users = &standing.around.users().rewrites;
        let url = self.called(name).find_map(|remote| remote.url.as_ref())?;
        let likely = rewrites.addresses(url, users).likely;
        let again = Rewrites::default().addresses(&likely, users).likely;
        (again == likely).then_some(likely)
    }
}

fn address_of(url: &BString, rewrites: &Rewrites, standing: &Standing<'_>) -> Address {
    let addresses = rewrites.addresses(url, &standing.around.users().rewrites);
    let is_forge = |url: &BString| matches!(address(url, standing), Address::Forge);
    match address(&addresses.likely, standing) {
        Address::Forge if addresses.perhaps.is_none_or(|urls| !urls.iter().all(is_forge)) => Address::Nowhere,
        certain @ (Address::Forge | Address::Directory(_) | Address::Nowhere) => certain,
    }
}

/// Words by which git notes in a reflog that it wrote a remote-tracking ref because of a remote.
const REMOTE_DEEDS: [&[u8]; 6] = [b"fetch", b"pull", b"clone", b"update by push", b"remote", b"push"];

/// A remote-tracking ref without a reflog is believed, as a clone leaves it. One whose reflog says
/// that something else than a fetch or a push wrote its present value proves nothing.
fn was_fetched(name: &[u8], id: &ObjectId, logs: &[Reflog]) -> bool {
    let last = logs.iter().find(|log| log.name == name).and_then(|log| log.last.as_ref());
    match last {
        Some((new, message)) => new == id && REMOTE_DEEDS.iter().any(|deed| message.starts_with(deed)),
        None => true,
    }
}

enum Address {
    /// Another machine, as far as can be told.
    Forge,
    /// A directory of this machine that stays.
    Directory(PathBuf),
    /// Nothing that would still be there.
    Nowhere,
}

/// Where a remote's address leads, by git's own rule: a colon before the first slash is a host.
fn address(url: &[u8], standing: &Standing<'_>) -> Address {
    let path = match url.split_once_str("://") {
        Some((b"file", path)) => path,
        Some(_) => return Address::Forge,
        None => {
            if url.starts_with(b"ext::") || url.starts_with(b"fd::") {
                return Address::Nowhere;
            }
            let colon = url.find_byte(b':');
            if colon.is_some_and(|colon| !url[..colon].contains(&b'/')) {
                return Address::Forge;
            }
            url
        }
    };
    let Ok(path) = path.to_path() else { return Address::Nowhere };
    let path = standing.base.join(path);
    let with_suffix = path.with_added_extension("git");
    match [path, with_suffix].iter().find_map(|path| std::fs::canonicalize(path).ok()) {
        Some(path) if path.is_dir() && !standing.around.goes(&path, standing.top) => Address::Directory(path),
        Some(_) | None => Address::Nowhere,
    }
}
