//! What the file system itself asks for: every clone's index read, every entry of it looked at once, every directory
//! listed once. No survey that tells a changed file from an unchanged one can do with less.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

/// How deep the clones lie below `repos`: owner, repository, clone.
const LEVELS: u32 = 3;

/// Does it for a devlaunch cache, in this process, and prints how much that was.
pub(crate) fn run(cache: &Path) -> anyhow::Result<()> {
    let (mut entries, mut directories) = (0, 0);
    clones(&cache.join("repos"), LEVELS, &mut |clone| {
        entries += look_at_index(clone)?;
        directories += list(clone)?;
        Ok(())
    })?;
    println!("{entries} index entries looked at, {directories} directories listed");
    Ok(())
}

/// The same for one clone.
pub(crate) fn of_clone(clone: &Path) -> anyhow::Result<()> {
    println!("{} index entries looked at, {} directories listed", look_at_index(clone)?, list(clone)?);
    Ok(())
}

fn clones(below: &Path, levels: u32, found: &mut dyn FnMut(&Path) -> anyhow::Result<()>) -> anyhow::Result<()> {
    if levels == 0 {
        return if below.file_name().is_some_and(|name| name == ".bare") { Ok(()) } else { found(below) };
    }
    let listing = fs::read_dir(below).with_context(|| format!("cannot list {}", below.display()))?;
    for entry in listing {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            clones(&entry.path(), levels - 1, found)?;
        }
    }
    Ok(())
}

fn look_at_index(clone: &Path) -> anyhow::Result<u64> {
    let file = clone.join(".git/index");
    let options = gix_index::decode::Options { thread_limit: Some(1), ..gix_index::decode::Options::default() };
    let index = gix_index::File::at(&file, gix_hash::Kind::Sha1, true, options);
    let index = index.with_context(|| format!("cannot read {}", file.display()))?;
    let mut looked = 0;
    for entry in index.entries() {
        let path = clone.join(entry.path(&index).to_string());
        // A file that was deleted was looked at too.
        looked += u64::from(fs::symlink_metadata(path).is_ok());
    }
    Ok(looked)
}

fn list(directory: &Path) -> anyhow::Result<u64> {
    let mut listed = 1;
    let listing = fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))?;
    for entry in listing {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            listed += list(&entry.path())?;
        }
    }
    Ok(listed)
}
