//! Small C programs that the tests need beside the product, compiled when they are first asked for: what
//! they do cannot be done without code that the rest of the project forbids itself. Not here: what the
//! programs do, which each says at its top.

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::git::tool;
use crate::scratch::{Scratch, write};

/// A program in C.
#[derive(Debug)]
pub struct Native {
    name: &'static str,
    source: &'static str,
    /// Packages it is linked against, by their names for `pkg-config`.
    packages: &'static [&'static str],
    built: OnceLock<PathBuf>,
}

/// Kills a program right before a system call that changes something: `crash N REPORT PROGRAM [ARGUMENT…]`.
pub static CRASH: Native = Native::new("crash", include_str!("../native/crash.c"), &[]);

/// Shows a directory as a file system and fails where a name says so: [`crate::faulty`] mounts it.
pub(crate) static FAULTY: Native = Native::new("faulty", include_str!("../fuse/faulty.c"), &["fuse3"]);

impl Native {
    /// A program that is not compiled yet.
    #[must_use]
    pub const fn new(name: &'static str, source: &'static str, packages: &'static [&'static str]) -> Self {
        Self { name, source, packages, built: OnceLock::new() }
    }

    /// Where the compiled program lies: beside the tests' own programs, so that it goes with them.
    ///
    /// # Panics
    /// When there is no C compiler, or it has something to say.
    pub fn path(&self) -> &PathBuf {
        self.built.get_or_init(|| self.build())
    }

    fn build(&self) -> PathBuf {
        let scratch = Scratch::new();
        let (source, fresh) = (scratch.path().join(format!("{}.c", self.name)), scratch.path().join(self.name));
        write(&source, self.source);
        let mut command = tool("cc");
        command.args(["-O1", "-Wall", "-Wextra", "-Werror"]).arg("-o").arg(&fresh).arg(&source);
        for package in self.packages {
            let flags = tool("pkg-config").args(["--cflags", "--libs", package]).output();
            let flags = flags.unwrap_or_else(|error| panic!("cannot run pkg-config: {error}"));
            assert!(flags.status.success(), "the tests need the development files of {package}");
            command.args(String::from_utf8_lossy(&flags.stdout).split_whitespace());
        }
        let ended = command.output().unwrap_or_else(|error| panic!("cannot run cc: {error}"));
        assert!(ended.status.success(), "cannot compile {}: {}", self.name, String::from_utf8_lossy(&ended.stderr));
        // Other test programs may build the same at this moment: each puts a whole one in its place.
        let programs = std::env::current_exe().expect("because this program runs");
        let kept = programs.with_file_name(format!("native-{}-{}", self.name, std::process::id()));
        let copied = tool("cp").arg("--").arg(&fresh).arg(&kept).status();
        assert!(copied.is_ok_and(|status| status.success()), "cannot copy to {}", kept.display());
        let place = programs.with_file_name(format!("native-{}", self.name));
        std::fs::rename(&kept, &place).unwrap_or_else(|error| panic!("cannot move to {}: {error}", place.display()));
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::which;
    use crate::scratch::{exists, read};

    #[test]
    fn a_program_is_killed_right_before_the_change_that_was_named() {
        let scratch = Scratch::new();
        let file = |name: &str| scratch.path().join(name);
        let report = file("report");
        let remove = |at: &str, name: &str| {
            let ended = tool(CRASH.path().to_str().expect("because its name is text"))
                .args([at.as_ref(), report.as_os_str()])
                .args([which("rm").as_os_str(), "--".as_ref(), file(name).as_os_str()])
                .status();
            (ended.expect("because it runs").code(), String::from_utf8(read(&report)).expect("because it is text"))
        };
        for name in ["a", "b", "c"] {
            write(file(name), "x");
        }
        assert_eq!(remove("0", "a"), (Some(0), "1 -\n".to_owned()));
        assert_eq!(remove("1", "b"), (Some(137), "1 unlinkat\n".to_owned()));
        assert_eq!(remove("2", "c"), (Some(0), "1 -\n".to_owned()));
        assert_eq!(["a", "b", "c"].map(|name| exists(file(name))), [false, true, false]);
    }
}
