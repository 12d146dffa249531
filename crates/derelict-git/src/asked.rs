//! What a remote has now, if somebody may ask it: whether the branches that remote-tracking refs remember still are
//! where they were. Not here: how it is asked, which takes a process and is the caller's.

use std::collections::HashSet;
use std::sync::Arc;

use bstr::{BString, ByteSlice};
use gix_hash::ObjectId;

use crate::commits::Stores;
use crate::refs::parse_id;
use crate::report::shown;
use crate::settings::Remote;

/// Asks remotes for their refs. Whoever implements it bounds how long that takes and how much is told, and asks each
/// address once.
pub trait ListRemote: Send + Sync + std::fmt::Debug {
    /// The refs of the repository at an address, or why they could not be told.
    ///
    /// # Errors
    /// The reason, in words.
    fn list(&self, address: &str) -> Result<Arc<RemoteRefs>, String>;
}

/// The refs of a remote, by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteRefs(Vec<(BString, ObjectId)>);

impl RemoteRefs {
    /// Reads what `git ls-remote --refs` prints: a line for each ref, its object and its name.
    ///
    /// # Errors
    /// The line that is none.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let refs = text.lines().map(|line| {
            let (id, name) = line.split_once_str("\t").ok_or_else(|| not_a_ref(line))?;
            let hash = if id.len() == 64 { gix_hash::Kind::Sha256 } else { gix_hash::Kind::Sha1 };
            let id = parse_id(id, hash).filter(|_| name.starts_with(b"refs/")).ok_or_else(|| not_a_ref(line))?;
            Ok((BString::from(name), id))
        });
        refs.collect::<Result<_, String>>().map(Self)
    }

    fn get(&self, name: &[u8]) -> Option<&ObjectId> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, id)| id)
    }

    /// What its branches and tags name, and what a fetch maps.
    fn tips<'r>(&'r self, forge: &'r Forge<'_>) -> impl Iterator<Item = &'r ObjectId> {
        let lasting = |name: &[u8]| name.starts_with(b"refs/heads/") || name.starts_with(b"refs/tags/");
        self.0.iter().filter(move |(name, _)| lasting(name) || forge.fetches(name)).map(|(_, id)| id)
    }
}

fn not_a_ref(line: &[u8]) -> String {
    format!("it lists \"{}\", which is no ref", line.escape_ascii())
}

/// A remote of another machine: its sections, and where it really is.
pub(crate) struct Forge<'r> {
    pub(crate) sections: Vec<&'r Remote>,
    /// `None` where that cannot be told for certain.
    pub(crate) address: Option<BString>,
}

impl Forge<'_> {
    pub(crate) fn maps(&self, name: &[u8]) -> bool {
        self.sections.iter().any(|remote| remote.maps(name))
    }

    fn source_of(&self, name: &[u8]) -> Option<Vec<u8>> {
        self.sections.iter().find_map(|remote| remote.source_of(name))
    }

    fn fetches(&self, name: &[u8]) -> bool {
        self.sections.iter().any(|remote| remote.fetches(name))
    }

    fn list(&self, asker: &dyn ListRemote) -> Result<Arc<RemoteRefs>, String> {
        let address = self.address.as_ref().ok_or("its address may be rewritten in more than one way")?;
        let text = address.to_str().map_err(|_| "its address is no text")?;
        asker.list(text).map_err(|why| format!("{} could not be asked: {why}", shown(address)))
    }
}

/// What the remotes said.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// What a remote names for certain, and is here.
    pub(crate) certain: HashSet<ObjectId>,
    /// What nobody could vouch for, and why.
    pub(crate) uncertain: Vec<(ObjectId, String)>,
}

/// Asks for those remote-tracking refs on whose word alone something is saved.
pub(crate) fn ask(asker: &dyn ListRemote, forges: &[Forge<'_>], refs: &[(&[u8], ObjectId)], stores: &Stores) -> Heard {
    let mut heard = Heard::default();
    for forge in forges {
        let mapped: Vec<_> = refs.iter().filter(|(name, _)| forge.maps(name)).collect();
        if mapped.is_empty() {
            continue;
        }
        match forge.list(asker) {
            Err(why) => heard.uncertain.extend(mapped.iter().map(|(_, id)| (*id, why.clone()))),
            Ok(listed) => {
                heard.certain.extend(listed.tips(forge).filter(|id| stores.has(id)));
                // A branch that is gone, or that was set to a commit which is here, is told by the walk.
                let moved = mapped.iter().filter_map(|(name, id)| {
                    let now = forge.source_of(name).and_then(|source| listed.get(&source).copied())?;
                    let why = format!("{} has moved to a commit that is not here; fetch, and ask again", shown(name));
                    (!stores.has(&now)).then_some((*id, why))
                });
                heard.uncertain.extend(moved);
            }
        }
    }
    let Heard { certain, uncertain } = &mut heard;
    uncertain.retain(|(id, _)| !certain.contains(id));
    heard
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_is_read_whole_or_not_at_all() {
        let id = "1".repeat(40);
        let listed = RemoteRefs::parse(format!("{id}\trefs/heads/a\n{id}\trefs/tags/b\n").as_bytes());
        let listed = listed.expect("because it is well-formed");
        assert_eq!(listed.get(b"refs/heads/a").map(ToString::to_string), Some(id.clone()));
        assert_eq!(listed.get(b"refs/heads/b"), None);
        assert_eq!(RemoteRefs::parse(b"").map(|refs| refs.0.len()), Ok(0));
        for text in [
            "From somewhere",
            &format!("{id} refs/heads/a"),
            &format!("{id}\tHEAD"),
            &format!("{}\trefs/heads/a", &id[1..]),
        ] {
            assert!(RemoteRefs::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
