//! What has to be carried out of a clone before it goes, in the core's words: `derelict-git` reads the repository, and the
//! reclaimer, who must not, is told what to write by way of these.

use std::io::{self, BufRead, Write};
use std::os::fd::BorrowedFd;
use std::path::Path;

use derelict_core::rescue::{Blobs, Foundation, Keeping, ObjectName, Salvage, Unbundle, UnpackedBundle};
use derelict_git::{Kept, ObjectStore, Salvaged, Surroundings};

/// One repository about to be carried out.
#[derive(Debug)]
struct Repository {
    salvaged: Salvaged,
    foundation: Foundation,
}

/// Says what has to be carried out of the clone `dir`, which lies at `shown`.
///
/// # Errors
/// Why that cannot be said, in words.
pub(crate) fn of(dir: BorrowedFd<'_>, shown: &Path, around: &Surroundings) -> Result<Box<dyn Salvage>, String> {
    let salvaged = derelict_git::salvage(dir, shown, around)?;
    let foundation = Foundation {
        objects: salvaged.objects(),
        stores: salvaged.keepers().to_vec(),
        prerequisites: salvaged.prerequisites().filter_map(|name| ObjectName::parse(&name)).collect(),
        remotes: salvaged.remotes().to_vec(),
    };
    Ok(Box::new(Repository { salvaged, foundation }))
}

impl Salvage for Repository {
    fn foundation(&self) -> &Foundation {
        &self.foundation
    }

    fn keeping(&self, path: &[u8]) -> Keeping {
        match self.salvaged.kept(path) {
            Kept::Archived => Keeping::Archived,
            Kept::Object(name) => ObjectName::parse(&name).map_or(Keeping::Archived, Keeping::CheckedOut),
            Kept::Not => Keeping::LeftOut,
        }
    }

    fn write_bundle(&self, into: &mut dyn Write) -> io::Result<()> {
        self.salvaged.write_bundle(into)
    }

    fn check_bundle(&self, from: &mut dyn BufRead) -> io::Result<()> {
        self.salvaged.check_bundle(from)
    }
}

/// Reads bundles and object stores for whoever gives back what was rescued.
#[derive(Debug, Clone, Copy)]
pub struct Bundles;

impl Unbundle for Bundles {
    fn unpack(&self, bundle: &mut dyn BufRead, pack: &mut dyn Write) -> io::Result<UnpackedBundle> {
        let unpacked = derelict_git::unpack(bundle, pack)?;
        Ok(UnpackedBundle { name: unpacked.name, index: unpacked.index })
    }

    fn open(&self, objects: &Path) -> io::Result<Box<dyn Blobs>> {
        Ok(Box::new(Store(ObjectStore::open(objects)?)))
    }
}

struct Store(ObjectStore);

impl Blobs for Store {
    fn blob(&self, name: &ObjectName, into: &mut Vec<u8>) -> io::Result<()> {
        self.0.blob(name.as_str(), into)
    }
}
