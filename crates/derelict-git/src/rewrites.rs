//! What an address of a remote really is: `url.<base>.insteadOf` of the repository, of files that it
//! includes, and of the user's configuration can lead an address of a forge to a directory of this machine.
//!
//! An included file may hold under some condition only, which is not decided here: a remote is a forge
//! only if it is one with each of its rules and without. What cannot be read makes every address doubtful.

use std::path::{Path, PathBuf};

use bstr::{BString, ByteSlice};

use crate::refs::read_limited;
use crate::settings::{CONFIG_BYTES, Remote, Settings};

/// Files that include files that include files; git itself gives up after ten.
const DEEPEST: usize = 10;

/// Files that may be included altogether.
const MOST_FILES: usize = 100;

/// Rules for addresses, and remotes that included files add.
#[derive(Debug, Default, Clone)]
pub(crate) struct Rewrites {
    /// Rules that hold.
    certain: Vec<(BString, BString)>,
    /// Rules that may hold.
    doubtful: Vec<(BString, BString)>,
    /// What included files say of remotes.
    pub(crate) remotes: Vec<Remote>,
    /// Something could not be read.
    opaque: bool,
}

/// What an address may be.
pub(crate) struct Addresses {
    pub(crate) likely: BString,
    /// With one of the rules that may hold. `None` when there may be rules that could not be read.
    pub(crate) perhaps: Option<Vec<BString>>,
}

impl Rewrites {
    /// The rules of a configuration that lies in `dir`, and of what it includes.
    pub(crate) fn of(settings: &Settings, dir: &Path, home: Option<&Path>) -> Self {
        let mut rewrites = Self { certain: settings.rules.clone(), ..Self::default() };
        rewrites.follow(&settings.includes, dir, home);
        rewrites
    }

    /// The rules of the user's and the system's files; those that are missing have none.
    pub(crate) fn of_files(files: &[PathBuf], home: Option<&Path>) -> Self {
        let mut rewrites = Self::default();
        for path in files {
            match read(path) {
                Ok(Some(settings)) => {
                    rewrites.certain.extend(settings.rules.iter().cloned());
                    rewrites.remotes.extend(settings.remotes);
                    rewrites.follow(&settings.includes, path.parent().unwrap_or(Path::new("/")), home);
                }
                Ok(None) => {}
                Err(_) => rewrites.opaque = true,
            }
        }
        rewrites
    }

    fn follow(&mut self, includes: &[BString], dir: &Path, home: Option<&Path>) {
        let mut pending: Vec<_> = includes.iter().map(|path| (path.clone(), dir.to_owned(), 1)).collect();
        let mut files = 0;
        while let Some((path, dir, depth)) = pending.pop() {
            files += 1;
            let Some(path) = resolved(&path, &dir, home).filter(|_| depth <= DEEPEST && files <= MOST_FILES) else {
                self.opaque = true;
                return;
            };
            match read(&path) {
                Ok(Some(settings)) => {
                    self.doubtful.extend(settings.rules);
                    self.remotes.extend(settings.remotes);
                    let dir = path.parent().unwrap_or(Path::new("/")).to_owned();
                    pending.extend(settings.includes.into_iter().map(|path| (path, dir.clone(), depth + 1)));
                }
                Ok(None) => {}
                Err(_) => self.opaque = true,
            }
        }
    }

    /// What an address becomes by these rules and those of the user.
    pub(crate) fn addresses(&self, url: &BString, users: &Self) -> Addresses {
        let certain: Vec<_> = self.certain.iter().chain(&users.certain).collect();
        let likely = rewritten(url, &certain);
        let perhaps = self.doubtful.iter().chain(&users.doubtful).map(|rule| rewritten(url, &[rule]));
        let perhaps = (!self.opaque && !users.opaque).then(|| perhaps.collect());
        Addresses { likely, perhaps }
    }
}

/// A file that is not there says nothing.
pub(crate) fn read(path: &Path) -> Result<Option<Settings>, String> {
    match read_limited(path, CONFIG_BYTES) {
        Ok(bytes) => Settings::parse_any(&bytes, path).map(Some),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// Where an included file is; `None` when that cannot be told.
fn resolved(path: &BString, dir: &Path, home: Option<&Path>) -> Option<PathBuf> {
    let text = path.to_path().ok()?;
    match path.strip_prefix(b"~/") {
        Some(below) => Some(home?.join(below.to_path().ok()?)),
        None if path.starts_with(b"~") || path.starts_with(b"%(") => None,
        None => Some(dir.join(text)),
    }
}

/// The longest beginning that matches is replaced, as git does.
fn rewritten(url: &BString, rules: &[&(BString, BString)]) -> BString {
    let matching = rules.iter().filter(|(prefix, _)| url.starts_with(prefix));
    match matching.max_by_key(|(prefix, _)| prefix.len()) {
        Some((prefix, base)) => [base.as_slice(), &url[prefix.len()..]].concat().into(),
        None => url.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_rewritten_by_the_longest_beginning() {
        let text = "[url \"/local/\"]\n\tinsteadOf = https://f/\n[url \"y:\"]\n\tinsteadOf = https:\n";
        let settings = Settings::parse(text.as_bytes(), Path::new("config")).expect("because it is well-formed");
        let rewrites = Rewrites::of(&settings, Path::new("/nowhere"), None);
        let addresses = rewrites.addresses(&"https://f/x".into(), &Rewrites::default());
        assert_eq!(addresses.likely, "/local/x");
        assert_eq!(addresses.perhaps, Some(Vec::new()));
    }

    #[test]
    fn what_cannot_be_read_makes_every_address_doubtful() {
        for path in ["~/x", "~other/x", "%(prefix)/x", "/dev/null"] {
            let text = format!("[include]\n\tpath = {path}\n");
            let settings = Settings::parse(text.as_bytes(), Path::new("config")).expect("because it is well-formed");
            let rewrites = Rewrites::of(&settings, Path::new("/nowhere"), None);
            let addresses = rewrites.addresses(&"https://f/x".into(), &Rewrites::default());
            assert_eq!(addresses.perhaps, None, "{path}");
        }
        let settings = Settings::parse(b"[include]\n\tpath = missing\n", Path::new("config"));
        let rewrites = Rewrites::of(&settings.expect("because it is well-formed"), Path::new("/nowhere"), None);
        assert!(rewrites.addresses(&"https://f/x".into(), &Rewrites::default()).perhaps.is_some());
    }
}
