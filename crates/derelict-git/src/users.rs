//! What the user's and the machine's configuration of git says, read once for all candidates: where addresses
//! really lead, which line endings are converted, what is ignored everywhere, and which attributes every
//! repository has.
//!
//! What may hold under some condition only is not decided: a rule for addresses that may hold takes savings
//! away, and anything else that may hold is left out.

use std::path::{Path, PathBuf};

use bstr::{BString, ByteSlice};

use crate::attributes::ATTRIBUTES_BYTES;
use crate::ignore::IGNORE_BYTES;
use crate::refs::read_limited;
use crate::rewrites::{Rewrites, read};
use crate::terms::GitFiles;

/// What holds for every repository.
#[derive(Debug, Default)]
pub(crate) struct Users {
    pub(crate) rewrites: Rewrites,
    /// Files that could not be read, and why.
    pub(crate) unread: Vec<String>,
    /// `core.autocrlf`, unless the repository says otherwise.
    pub(crate) autocrlf: Option<bool>,
    /// The text of the ignore file.
    pub(crate) ignore: Option<Vec<u8>>,
    /// The texts of the attributes files, weakest first.
    pub(crate) attributes: Vec<Vec<u8>>,
}

impl Users {
    pub(crate) fn read(files: &GitFiles) -> Self {
        let home = files.home.as_deref();
        let rewrites = Rewrites::of_files(&files.configuration, home);
        let mut unread = Vec::new();
        let (mut autocrlf, mut ignore, mut attributes) = (None, files.ignore.clone(), files.attributes.clone());
        for path in &files.configuration {
            let settings = match read(path) {
                Ok(Some(settings)) => settings,
                Ok(None) => continue,
                Err(why) => {
                    unread.push(format!("{}: {why}", path.display()));
                    continue;
                }
            };
            let named = |value: &BString| named(value, home);
            autocrlf = settings.autocrlf.or(autocrlf);
            ignore = settings.excludes_file.as_ref().map_or(ignore, named);
            attributes = settings.attributes_file.as_ref().map_or(attributes, named);
        }
        // Missing or unreadable, an ignore file ignores nothing and attributes convert nothing, which keeps more.
        let text = |path: PathBuf, most| read_limited(&path, most).ok();
        let attributes = files.system_attributes.iter().cloned().chain(attributes);
        Self {
            rewrites,
            unread,
            autocrlf,
            ignore: ignore.and_then(|path| text(path, IGNORE_BYTES)),
            attributes: attributes.filter_map(|path| text(path, ATTRIBUTES_BYTES)).collect(),
        }
    }
}

/// The file that a setting names. Git takes a relative one from its current directory, which is nowhere here.
fn named(value: &BString, home: Option<&Path>) -> Option<PathBuf> {
    match value.strip_prefix(b"~/") {
        Some(below) => Some(home?.join(below.to_path().ok()?)),
        None => value.to_path().ok().filter(|path| path.is_absolute()).map(Path::to_path_buf),
    }
}
