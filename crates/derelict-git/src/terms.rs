//! What is said outside of the repositories that are examined: by git's configuration of the user and the
//! machine, and by the operator of this program. Not here: what becomes of it, channel by channel.

use std::path::PathBuf;

use crate::ignored_changes::IgnoredChanges;
use crate::rebuildable::Rebuildable;

/// Everything that is said beside the repositories. It is the same for all candidates of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terms {
    /// Where git is configured for all repositories.
    pub git: GitFiles,
    /// Changes of tracked files that the operator lets go.
    pub ignored_changes: IgnoredChanges,
    /// Directories that the operator knows to be made again.
    pub rebuildable: Rebuildable,
    /// Whether remotes are asked if they still have their branches.
    pub ask_remote: AskRemote,
}

/// Whether remotes are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AskRemote {
    /// What a fetch or a push wrote down is believed.
    No,
    /// A remote-tracking ref saves only what its remote has now.
    Yes,
}

/// Where git keeps what holds for all repositories of a user, in the order in which it reads that.
///
/// Which files these are is told by the environment; the variables of git that name others are not asked, for
/// whoever sets one of them would change what is proved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitFiles {
    /// Configuration files; one that is missing says nothing.
    pub configuration: Vec<PathBuf>,
    /// The ignore file that is read when no configuration names one.
    pub ignore: Option<PathBuf>,
    /// The attributes file that is read when no configuration names one.
    pub attributes: Option<PathBuf>,
    /// The attributes file of the machine, which is read in any case.
    pub system_attributes: Option<PathBuf>,
    /// What `~` stands for in them.
    pub home: Option<PathBuf>,
}

impl GitFiles {
    /// Git is not configured outside of its repositories.
    pub const NONE: Self =
        Self { configuration: Vec::new(), ignore: None, attributes: None, system_attributes: None, home: None };

    /// The usual places: those of the machine, and those of the user whose home and `XDG_CONFIG_HOME` are given.
    #[must_use]
    pub fn usual(home: Option<PathBuf>, xdg_config_home: Option<PathBuf>) -> Self {
        let home = home.filter(|home| home.is_absolute());
        // Git itself takes a relative one as it is; what lies in the current directory is never obeyed here.
        let given = xdg_config_home.filter(|path| path.is_absolute());
        let config = given.or_else(|| home.as_ref().map(|home| home.join(".config"))).map(|dir| dir.join("git"));
        let users = config.iter().map(|dir| dir.join("config")).chain(home.iter().map(|home| home.join(".gitconfig")));
        Self {
            configuration: std::iter::once(PathBuf::from("/etc/gitconfig")).chain(users).collect(),
            ignore: config.as_ref().map(|dir| dir.join("ignore")),
            attributes: config.as_ref().map(|dir| dir.join("attributes")),
            system_attributes: Some("/etc/gitattributes".into()),
            home,
        }
    }
}

impl Terms {
    /// Nothing is said.
    pub const NONE: Self = Self::of_git(GitFiles::NONE);

    /// Nothing is said but by git's configuration.
    #[must_use]
    pub const fn of_git(git: GitFiles) -> Self {
        Self { git, ignored_changes: IgnoredChanges::NONE, rebuildable: Rebuildable::NONE, ask_remote: AskRemote::No }
    }

    /// The operator's words, which take part in a policy: each with what it lets go.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let changes = self.ignored_changes.texts().map(|pattern| format!("changes to {pattern} are ignored by policy"));
        let rebuildable = self.rebuildable.texts().map(|entry| format!("{entry} counts as rebuildable by policy"));
        let asked = match self.ask_remote {
            AskRemote::No => None,
            AskRemote::Yes => Some("a branch of a remote saves only what the remote, when asked, still has".to_owned()),
        };
        changes.chain(rebuildable).chain(asked).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_is_configured_where_it_looks_itself() {
        let usual = GitFiles::usual(Some("/home/u".into()), None);
        let files = ["/etc/gitconfig", "/home/u/.config/git/config", "/home/u/.gitconfig"];
        assert_eq!(usual.configuration, files.map(PathBuf::from));
        assert_eq!(usual.ignore, Some("/home/u/.config/git/ignore".into()));
        let given = GitFiles::usual(Some("/home/u".into()), Some("/x".into()));
        assert_eq!(given.configuration[1], PathBuf::from("/x/git/config"));
        for ignored in ["", "x"] {
            assert_eq!(GitFiles::usual(Some("/home/u".into()), Some(ignored.into())), usual, "{ignored:?}");
        }
        assert_eq!(GitFiles::usual(Some("".into()), None).configuration, [PathBuf::from("/etc/gitconfig")]);
    }
}
