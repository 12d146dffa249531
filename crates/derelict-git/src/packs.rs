//! What a pack holds, by its index and by the headers of its entries: without inflating anything, however long the
//! chains of deltas are.

use std::collections::HashMap;
use std::path::Path;

use gix_hash::ObjectId;
use gix_object::Kind;
use gix_odb::pack::data::entry::Header;
use gix_odb::pack::{data, index};

/// The names of all objects of a pack, by its index.
pub(crate) fn objects_of(index: &Path, hash: gix_hash::Kind) -> Result<Vec<ObjectId>, String> {
    let file = index::File::at(index, hash).map_err(|error| unreadable(index, &error))?;
    Ok(file.iter().map(|entry| entry.oid).collect())
}

/// The names of all commits of a pack, by its index, with the pack beside it.
pub(crate) fn commits_of(index: &Path, hash: gix_hash::Kind) -> Result<Vec<ObjectId>, String> {
    let file = index::File::at(index, hash).map_err(|error| unreadable(index, &error))?;
    let pack = index.with_extension("pack");
    let data = data::File::at(&pack, hash).map_err(|error| unreadable(&pack, &error))?;
    let mut entries: Vec<(u64, u32)> = (0..file.num_objects()).map(|at| (file.pack_offset_at_index(at), at)).collect();
    // What a delta is made from lies before it, so that its kind is known already.
    entries.sort_unstable();
    let mut kinds: HashMap<u64, Kind> = HashMap::with_capacity(entries.len());
    let mut commits = Vec::new();
    for (offset, at) in entries {
        let entry = data.entry(offset).map_err(|error| unreadable(&pack, &error))?;
        let base = match entry.header {
            Header::Commit | Header::Tree | Header::Blob | Header::Tag => None,
            Header::OfsDelta { base_distance } => entry.checked_base_pack_offset(base_distance),
            Header::RefDelta { base_id } => file.lookup(base_id).map(|at| file.pack_offset_at_index(at)),
        };
        let kind = entry.header.as_kind().or_else(|| kinds.get(&base?).copied());
        // One that is made from what comes later may be anything.
        if kind.is_none_or(|kind| kind == Kind::Commit) {
            commits.push(file.oid_at_index(at).to_owned());
        }
        kinds.extend(kind.map(|kind| (offset, kind)));
    }
    Ok(commits)
}

fn unreadable(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("cannot read {}: {error}", path.display())
}
