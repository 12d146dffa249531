//! The few settings of a repository that change what a proof means: its format, its hash, where its
//! work tree is, and which remote-tracking refs its remotes really write.
//!
//! Here only what one file says. What included files and the user's own configuration say could only take
//! savings away, by rewriting addresses; that is the part of `rewrites`.

use std::path::{Path, PathBuf};

use bstr::{BString, ByteSlice};
use gix_config::file::Metadata;

/// Configuration files larger than this are not read: no real one comes near.
pub(crate) const CONFIG_BYTES: u64 = 4 * 1024 * 1024;

/// What a repository's own configuration says.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) hash: gix_hash::Kind,
    pub(crate) storage: Storage,
    pub(crate) bare: bool,
    pub(crate) worktree: Option<PathBuf>,
    pub(crate) worktree_config: bool,
    pub(crate) remotes: Vec<Remote>,
    /// `url.<base>.insteadOf`: what an address begins with, and what stands for it.
    pub(crate) rules: Vec<(BString, BString)>,
    /// Files that are to be read as well, under whatever condition.
    pub(crate) includes: Vec<BString>,
    /// Whether objects may be missing on purpose, to be fetched when needed.
    pub(crate) partial: bool,
    /// Whether line endings are converted in files that no attribute is about; `None` when nothing is said.
    pub(crate) autocrlf: Option<bool>,
    /// `core.excludesFile` and `core.attributesFile`, which count in files of the user and the machine only.
    pub(crate) excludes_file: Option<BString>,
    pub(crate) attributes_file: Option<BString>,
    /// Whether git-lfs keeps its objects somewhere else than in `lfs/objects`.
    pub(crate) lfs_storage: bool,
}

/// How refs and reflogs are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Storage {
    Files,
    Reftable,
}

/// A configured remote.
#[derive(Debug, Clone)]
pub(crate) struct Remote {
    /// Its name; sections of one name in several files are one remote.
    pub(crate) name: BString,
    /// The address that a fetch uses, as it is written.
    pub(crate) url: Option<BString>,
    fetch: Vec<RefSpec>,
}

#[derive(Debug, Clone)]
struct RefSpec {
    negative: bool,
    source: BString,
    target: BString,
}

impl Settings {
    /// Reads the configuration file of a repository. The error is the reason why nothing can be told.
    pub(crate) fn parse(bytes: &[u8], path: &Path) -> Result<Self, String> {
        let file = parsed(bytes, path)?;
        let mut settings = Self::of(&file);
        settings.read_extensions(&file)?;
        Ok(settings)
    }

    /// Reads any other configuration file; what it says of formats is not obeyed, as git does not.
    pub(crate) fn parse_any(bytes: &[u8], path: &Path) -> Result<Self, String> {
        parsed(bytes, path).map(|file| Self::of(&file))
    }

    fn of(file: &gix_config::File) -> Self {
        let mut settings = Self {
            hash: gix_hash::Kind::Sha1,
            storage: Storage::Files,
            bare: false,
            worktree: None,
            worktree_config: false,
            remotes: Vec::new(),
            rules: rules(file),
            includes: includes(file),
            partial: false,
            autocrlf: None,
            excludes_file: None,
            attributes_file: None,
            lfs_storage: false,
        };
        for section in sections(file, "core") {
            if let Some(bare) = section.value_implicit("bare") {
                settings.bare = is_true(bare.as_ref());
            }
            if let Some(autocrlf) = section.value_implicit("autocrlf") {
                let converts = autocrlf.as_ref().is_some_and(|value| value.eq_ignore_ascii_case(b"input"));
                settings.autocrlf = Some(converts || is_true(autocrlf.as_ref()));
            }
            settings.excludes_file = section.value("excludesFile").or(settings.excludes_file.take());
            settings.attributes_file = section.value("attributesFile").or(settings.attributes_file.take());
            if let Some(worktree) = section.value("worktree") {
                settings.worktree = Some(worktree.to_path_lossy().into_owned());
            }
        }
        settings.lfs_storage = sections(file, "lfs").iter().any(|section| section.contains_value_name("storage"));
        settings.read_remotes(file);
        settings
    }

    /// What `config.worktree` says is laid over what the common configuration says.
    pub(crate) fn overlay(&mut self, worktree: Self) {
        self.bare = worktree.bare;
        self.worktree = worktree.worktree.or(self.worktree.take());
        self.remotes.extend(worktree.remotes);
        self.rules.extend(worktree.rules);
        self.includes.extend(worktree.includes);
        self.autocrlf = worktree.autocrlf.or(self.autocrlf);
    }

    /// An own allow-list: a format we do not know is a format we cannot prove anything about.
    fn read_extensions(&mut self, file: &gix_config::File) -> Result<(), String> {
        for section in sections(file, "core") {
            match section.value("repositoryformatversion") {
                None => {}
                Some(version) if version == "0" || version == "1" => {}
                Some(version) => return Err(format!("repository format version {version} is not supported")),
            }
        }
        for section in sections(file, "extensions") {
            for name in section.value_names() {
                let implicit = section.value_implicit(&name).flatten();
                let value = implicit.clone().unwrap_or_default();
                match name.to_ascii_lowercase().as_str() {
                    "noop" | "noop-v1" | "relativeworktrees" => {}
                    "partialclone" => self.partial = true,
                    "preciousobjects" if !is_true(implicit.as_ref()) => {}
                    "preciousobjects" => {
                        return Err("extensions.preciousObjects says that others need its objects".into());
                    }
                    "worktreeconfig" => self.worktree_config = is_true(implicit.as_ref()),
                    "objectformat" if value == "sha1" => self.hash = gix_hash::Kind::Sha1,
                    "objectformat" if value == "sha256" => self.hash = gix_hash::Kind::Sha256,
                    "refstorage" if value == "files" => {}
                    "refstorage" if value == "reftable" => self.storage = Storage::Reftable,
                    other => return Err(format!("repository extension {other} = {value} is not supported")),
                }
            }
        }
        Ok(())
    }

    fn read_remotes(&mut self, file: &gix_config::File) {
        let mut remotes: Vec<(BString, Remote)> = Vec::new();
        for section in sections(file, "remote") {
            let header = section.header();
            let Some(name) = header.subsection_name() else { continue };
            let position = remotes.iter().position(|(known, _)| known == name);
            let position = position.unwrap_or_else(|| {
                remotes.push((name.to_owned(), Remote { name: name.to_owned(), url: None, fetch: Vec::new() }));
                remotes.len() - 1
            });
            let remote = &mut remotes[position].1;
            // A fetch uses the first address.
            remote.url = remote.url.take().or_else(|| section.values("url").into_iter().next());
            self.partial |= section.contains_value_name("promisor");
            remote.fetch.extend(section.values("fetch").iter().filter_map(RefSpec::parse));
        }
        self.remotes = remotes.into_iter().map(|(_, remote)| remote).collect();
    }
}

fn parsed(bytes: &[u8], path: &Path) -> Result<gix_config::File, String> {
    let options = gix_config::file::init::Options { lossy: true, ..Default::default() };
    let meta = Metadata::from(gix_config::Source::Local);
    gix_config::File::from_bytes_no_includes(bytes, meta, options)
        .map_err(|error| format!("cannot parse {}: {error}", path.display()))
}

fn rules(file: &gix_config::File) -> Vec<(BString, BString)> {
    let bases = sections(file, "url").into_iter().filter_map(|section| {
        let base = section.header().subsection_name()?.to_owned();
        Some(section.values("insteadOf").into_iter().map(move |prefix| (prefix, base.clone())).collect::<Vec<_>>())
    });
    bases.flatten().collect()
}

fn includes(file: &gix_config::File) -> Vec<BString> {
    let sections = sections(file, "include").into_iter().chain(sections(file, "includeIf"));
    sections.flat_map(|section| section.values("path")).collect()
}

fn sections<'f>(file: &'f gix_config::File, name: &str) -> Vec<gix_config::file::SectionRef<'f>> {
    file.sections_by_name(name).into_iter().flatten().collect()
}

/// As git reads a boolean: a key without `=` is true, an empty value is false, a number is true unless
/// it is zero.
fn is_true(value: Option<&BString>) -> bool {
    let Some(value) = value else { return true };
    match value.to_ascii_lowercase().as_slice() {
        b"true" | b"yes" | b"on" => true,
        other => std::str::from_utf8(other).is_ok_and(|text| text.parse::<i64>().is_ok_and(|number| number != 0)),
    }
}

impl Remote {
    /// Whether a fetch from this remote really writes this remote-tracking ref.
    ///
    /// Only refs below `refs/remotes/` count: a mirror's `refs/*:refs/*` maps local branches onto
    /// themselves, and proves nothing about them.
    pub(crate) fn maps(&self, name: &[u8]) -> bool {
        self.source_of(name).is_some()
    }

    /// The ref of the remote that a fetch writes to this remote-tracking ref.
    pub(crate) fn source_of(&self, name: &[u8]) -> Option<Vec<u8>> {
        if !name.starts_with(b"refs/remotes/") {
            return None;
        }
        let sources = self.fetch.iter().filter(|spec| !spec.negative).filter_map(|spec| spec.source_of(name));
        // What the remote itself only remembers of others is not the remote's.
        let mut sources = sources.filter(|source| !source.starts_with(b"refs/remotes/"));
        sources.find(|source| !self.leaves_out(source))
    }

    /// Whether a fetch asks for this ref of the remote.
    pub(crate) fn fetches(&self, name: &[u8]) -> bool {
        self.fetch.iter().any(|spec| !spec.negative && spec.covers(name)) && !self.leaves_out(name)
    }

    fn leaves_out(&self, source: &[u8]) -> bool {
        self.fetch.iter().any(|spec| spec.negative && spec.covers(source))
    }
}

impl RefSpec {
    fn parse(spec: &BString) -> Option<Self> {
        let spec = spec.strip_prefix(b"+").unwrap_or(spec);
        if let Some(source) = spec.strip_prefix(b"^") {
            return Some(Self { negative: true, source: source.into(), target: BString::default() });
        }
        let (source, target) = spec.split_once_str(":")?;
        Some(Self { negative: false, source: source.into(), target: target.into() })
    }

    /// The remote's ref that would be written to `name`.
    fn source_of(&self, name: &[u8]) -> Option<Vec<u8>> {
        match (split_star(&self.target), split_star(&self.source)) {
            (None, None) => (self.target == name).then(|| self.source.to_vec()),
            (Some((head, tail)), Some((source_head, source_tail))) => {
                let middle = between(name, head, tail)?;
                Some([source_head, middle, source_tail].concat())
            }
            (Some(_), None) | (None, Some(_)) => None,
        }
    }

    fn covers(&self, source: &[u8]) -> bool {
        match split_star(&self.source) {
            None => self.source == source,
            Some((head, tail)) => between(source, head, tail).is_some(),
        }
    }
}

fn split_star(pattern: &[u8]) -> Option<(&[u8], &[u8])> {
    pattern.split_once_str("*")
}

fn between<'a>(name: &'a [u8], head: &[u8], tail: &[u8]) -> Option<&'a [u8]> {
    name.strip_prefix(head)?.strip_suffix(tail).filter(|middle| !middle.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Settings, String> {
        Settings::parse(text.as_bytes(), Path::new("config"))
    }

    #[test]
    fn line_endings_are_converted_only_where_that_is_said() {
        let cases = [("", None), ("autocrlf = input", Some(true)), ("autocrlf", Some(true)), ("eol = crlf", None)];
        for (text, expected) in cases.into_iter().chain([("autocrlf = true\nautocrlf = false", Some(false))]) {
            assert_eq!(parse(&format!("[core]\n{text}\n")).map(|s| s.autocrlf), Ok(expected), "{text}");
        }
    }

    fn maps(fetch: &str, name: &str) -> bool {
        let settings = parse(&format!("[remote \"o\"]\n\turl = u\n{fetch}")).expect("because it is well-formed");
        settings.remotes[0].maps(name.as_bytes())
    }

    #[test]
    fn a_ref_is_mapped_only_by_a_refspec_that_really_writes_it() {
        let usual = "fetch = +refs/heads/*:refs/remotes/o/*\n";
        assert!(maps(usual, "refs/remotes/o/main"));
        assert!(maps(usual, "refs/remotes/o/deep/branch"));
        assert!(!maps(usual, "refs/remotes/ghost/main"));
        assert!(!maps(usual, "refs/remotes/o/"));
        assert!(maps("fetch = refs/heads/main:refs/remotes/o/main\n", "refs/remotes/o/main"));
        assert!(!maps("fetch = refs/heads/main:refs/remotes/o/main\n", "refs/remotes/o/other"));
        assert!(!maps("", "refs/remotes/o/main"));
    }

    #[test]
    fn a_negative_refspec_takes_its_refs_away_again() {
        let fetch = "fetch = refs/heads/*:refs/remotes/o/*\nfetch = ^refs/heads/wip/*\n";
        assert!(maps(fetch, "refs/remotes/o/main"));
        assert!(!maps(fetch, "refs/remotes/o/wip/x"));
    }

    #[test]
    fn a_mirror_refspec_does_not_turn_local_branches_into_saved_ones() {
        assert!(!maps("fetch = +refs/*:refs/*\n", "refs/heads/main"));
    }

    #[test]
    fn an_unknown_format_or_extension_is_refused_by_name() {
        assert!(parse("[core]\nrepositoryformatversion = 1\n[extensions]\nobjectFormat = sha256\n").is_ok());
        let error = parse("[extensions]\nrefStorage = other\n").expect_err("because there is no such storage");
        assert!(error.contains("refstorage = other"), "{error}");
        assert!(parse("[extensions]\nshiny = true\n").is_err());
        assert!(parse("[core]\nrepositoryformatversion = 2\n").is_err());
        assert!(parse("[core\n").is_err());
    }

    #[test]
    fn booleans_are_read_as_git_reads_them() {
        for (text, bare) in
            [("bare", true), ("bare = yes", true), ("bare = 1", true), ("bare = false", false), ("bare = 0", false)]
        {
            assert_eq!(parse(&format!("[core]\n\t{text}\n")).map(|s| s.bare), Ok(bare), "{text}");
        }
    }
}
