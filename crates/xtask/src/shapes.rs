//! The trees that the benchmark removes and walks. How fast that goes is not measured here.

use std::fs;
use std::path::Path;

/// What a small file holds.
const CONTENT: [u8; 100] = [b'x'; 100];

/// A shape of tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// 100,000 files in one directory.
    Wide,
    /// 100,000 files in 5,000 directories.
    Spread,
    /// 800 packages of a few directories each, with files of a few kilobytes.
    Packages,
    /// 1,000 workspaces of 100 files each.
    Workspaces,
    /// 30 directories of 40 files each, for file systems that answer slowly.
    Few,
}

impl Shape {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Wide => "100,000 files in 1 directory",
            Self::Spread => "100,000 files in 5,000",
            Self::Packages => "like node_modules",
            Self::Workspaces => "1,000 workspaces of 100",
            Self::Few => "1,200 files in 30",
        }
    }

    /// Makes the workspaces below a directory; all but one shape are a single one.
    pub(crate) fn build(self, below: &Path) -> std::io::Result<()> {
        let top = below.join("tree");
        match self {
            Self::Wide => spread(&top, 1, 100_000),
            Self::Spread => spread(&top, 5_000, 20),
            Self::Packages => packages(&top),
            Self::Workspaces => (0..1_000).try_for_each(|n| spread(&below.join(format!("workspace-{n}")), 5, 20)),
            Self::Few => spread(&top, 30, 40),
        }
    }
}

fn spread(top: &Path, directories: u32, files: u32) -> std::io::Result<()> {
    for directory in 0..directories {
        let at = if directories == 1 { top.to_owned() } else { top.join(format!("directory-{directory:04}")) };
        fs::create_dir_all(&at)?;
        (0..files).try_for_each(|file| fs::write(at.join(format!("file-{file:06}.txt")), CONTENT))?;
    }
    Ok(())
}

fn packages(top: &Path) -> std::io::Result<()> {
    let content = vec![b'x'; 16 * 1024];
    for package in 0..800_usize {
        for part in 0..1 + package % 8 {
            let at = top.join(format!("package-{package:03}/part-{part}/types"));
            fs::create_dir_all(&at)?;
            let files = 1 + (package * 7 + part * 5) % 24;
            for file in 0..files {
                let size = (package * 31 + part * 17 + file * 1_009) % 8_192;
                fs::write(at.with_file_name(format!("module-{file}.js")), &content[..size])?;
            }
            (0..files / 2).try_for_each(|file| fs::write(at.join(format!("module-{file}.d.ts")), &content[..300]))?;
        }
        fs::write(top.join(format!("package-{package:03}/package.json")), &content[..1_500])?;
    }
    Ok(())
}
