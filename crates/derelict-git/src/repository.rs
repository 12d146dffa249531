//! A repository as far as it can be trusted: where its parts are, in which format, and its objects.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gix_object::{Exists as _, Find as _};

use crate::loose::Loose;
use crate::recent::Recent;
use crate::refs::read_limited;
use crate::rewrites::Rewrites;
use crate::settings::{CONFIG_BYTES, Settings};

/// A repository that was opened for reading.
pub(crate) struct Repository {
    /// Its own git directory: HEAD, index, per-work-tree refs.
    pub(crate) git_dir: PathBuf,
    /// The git directory that holds refs, objects and configuration; the same unless it is a linked
    /// work tree.
    pub(crate) common_dir: PathBuf,
    pub(crate) settings: Settings,
    /// What the addresses of its remotes may really be.
    pub(crate) rewrites: Rewrites,
    pub(crate) objects: Objects,
}

/// An object database.
pub(crate) struct Objects {
    loose: Loose,
    handle: gix_odb::HandleArc,
    pub(crate) hash: gix_hash::Kind,
}

/// `.git` and `commondir` hold one path.
pub(crate) const GIT_FILE_BYTES: u64 = 8192;

impl Repository {
    /// Opens the repository of a git directory. The error is the reason why nothing can be told.
    pub(crate) fn open(git_dir: &Path) -> Result<Self, String> {
        let common_dir = match read_limited(&git_dir.join("commondir"), GIT_FILE_BYTES) {
            Ok(text) => git_dir.join(path_line(&text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => git_dir.to_owned(),
            Err(error) => return Err(format!("cannot read commondir: {error}")),
        };
        let mut settings = read_settings(&common_dir.join("config"))?;
        if settings.worktree_config && git_dir.join("config.worktree").exists() {
            settings.overlay(read_settings(&git_dir.join("config.worktree"))?);
        }
        let mut rewrites = Rewrites::of(&settings, &common_dir, None);
        settings.remotes.append(&mut rewrites.remotes);
        for part in ["objects", "refs"] {
            if !common_dir.join(part).is_dir() {
                return Err(format!("broken repository: it has no {part} directory"));
            }
        }
        let store = open_store(&common_dir.join("objects"), settings.hash)?;
        let objects = Objects::of(&store, settings.hash);
        Ok(Self { git_dir: git_dir.to_owned(), common_dir, settings, rewrites, objects })
    }

    /// Whether refs and objects are somebody else's.
    pub(crate) fn is_linked(&self) -> bool {
        self.git_dir != self.common_dir
    }
}

fn read_settings(path: &Path) -> Result<Settings, String> {
    let name = path.file_name().map_or_else(|| path.to_owned(), PathBuf::from);
    let bytes = read_limited(path, CONFIG_BYTES)
        .map_err(|error| format!("broken repository: cannot read {}: {error}", name.display()))?;
    Settings::parse(&bytes, &name)
}

/// The path that a one-line file names.
pub(crate) fn path_line(text: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    let line = text.strip_suffix(b"\n").unwrap_or(text);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    PathBuf::from(std::ffi::OsStr::from_bytes(line))
}

/// The git directory that a `.git` file names, relative to the directory the file lies in.
pub(crate) fn read_git_file(base: &Path) -> Result<PathBuf, String> {
    let text =
        read_limited(&base.join(".git"), GIT_FILE_BYTES).map_err(|error| format!("cannot read .git: {error}"))?;
    git_file_target(&text, base)
}

/// The git directory that the text of a `.git` file in `base` names.
pub(crate) fn git_file_target(text: &[u8], base: &Path) -> Result<PathBuf, String> {
    let target = text.strip_prefix(b"gitdir: ").ok_or("the .git file does not say where its git directory is")?;
    let target = base.join(path_line(target));
    std::fs::canonicalize(&target)
        .map_err(|error| format!(".git names {}, which cannot be opened: {error}", target.display()))
}

/// Opens an object store, which any number of threads can then read through [`Objects`] of their own.
pub(crate) fn open_store(dir: &Path, hash: gix_hash::Kind) -> Result<Arc<gix_odb::Store>, String> {
    gix_odb::Store::at_opts(dir.to_owned(), hash, &mut std::iter::empty(), gix_odb::store::init::Options::default())
        .map(Arc::new)
        .map_err(|error| format!("cannot open the object database: {error}"))
}

impl Objects {
    pub(crate) fn of(store: &Arc<gix_odb::Store>, hash: gix_hash::Kind) -> Self {
        let mut handle = store.to_cache_arc();
        // What is missing is missing: reading the directory again for every miss would be quadratic.
        handle.refresh_never();
        handle.set_pack_cache(|| Box::<Recent>::default());
        Self { loose: Loose::of(store.path().to_owned()), handle, hash }
    }

    /// Another handle to the same store.
    pub(crate) fn another(&self) -> Self {
        let loose = Loose::of(self.handle.store_ref().path().to_owned());
        Self { loose, handle: self.handle.clone(), hash: self.hash }
    }

    pub(crate) fn has(&self, id: &gix_hash::oid) -> bool {
        self.handle.exists(id)
    }

    /// What kind of object it is, without reading all of it; `None` when it is not here.
    pub(crate) fn kind(&self, id: &gix_hash::oid) -> Result<Option<gix_object::Kind>, String> {
        use gix_odb::Header as _;
        if let Some(kind) = self.loose.kind(id) {
            return Ok(Some(kind));
        }
        let header = self.handle.try_header(id).map_err(|error| format!("cannot read object {id}: {error}"))?;
        Ok(header.map(|header| header.kind()))
    }

    /// The object, or `None` when it is not here. An error is a store that cannot be read.
    pub(crate) fn find<'b>(
        &self,
        id: &gix_hash::oid,
        buffer: &'b mut Vec<u8>,
    ) -> Result<Option<gix_object::Data<'b>>, String> {
        if let Some(kind) = self.loose.find(id, buffer) {
            return Ok(Some(gix_object::Data { kind, object_hash: self.hash, data: buffer }));
        }
        self.handle.try_find(id, buffer).map_err(|error| format!("cannot read object {id}: {error}"))
    }
}
