//! A root with server workspaces for the benchmark, and the rows that own them. Of every 20 workspaces: 4 without a row,
//! 8 with a row that was idle for 60 days, 4 with one that was used today, 2 made two days ago, 1 with a git checkout
//! below `home` and 1 with a third entry; all but the fresh two were made 60 days ago. With a window of 30 days exactly
//! 12 of 20 may go.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use derelict_testkit::postgres::Database;

/// Of every twenty workspaces this many may go.
pub(crate) const REMOVABLE_OF_20: u64 = 12;

/// Bytes of a file.
const FILE_BYTES: usize = 512;

/// Directories that the files of a workspace are spread over.
const DIRECTORIES: u32 = 10;

const DAY: Duration = Duration::from_secs(86_400);

/// Days of those that were not used for long.
const OLD: u32 = 60;

/// Days of those that were just made.
const FRESH: u32 = 2;

/// How large it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) workspaces: u64,
    /// In each; without any there is only `home` and `session`.
    pub(crate) files: u32,
    /// Of the table; those that belong to no directory are other people's.
    pub(crate) rows: u64,
}

/// Builds the directories.
pub(crate) fn build(root: &Path, shape: Shape) -> anyhow::Result<()> {
    let now = SystemTime::now();
    for index in 0..shape.workspaces {
        let (base, kind) = (root.join(id(index)), index % 20);
        fs::create_dir_all(base.join("home"))?;
        fs::create_dir(base.join("session"))?;
        fill(&base, shape.files)?;
        match kind {
            18 => {
                fs::create_dir_all(base.join("home/src/repo/.git"))?;
                fs::write(base.join("home/src/repo/.git/HEAD"), "ref: refs/heads/main\n")?;
            }
            19 => fs::create_dir(base.join("wt-19094"))?,
            _ => {}
        }
        let days = if matches!(kind, 16 | 17) { FRESH } else { OLD };
        File::open(&base)?.set_modified(now - DAY * days)?;
    }
    Ok(())
}

fn fill(base: &Path, files: u32) -> std::io::Result<()> {
    if files == 0 {
        return Ok(());
    }
    for directory in 0..DIRECTORIES {
        let side = if directory % 2 == 0 { "session/projects" } else { "home/.cache" };
        let below: PathBuf = base.join(side).join(format!("d{directory}"));
        fs::create_dir_all(&below)?;
        for file in (directory..files).step_by(DIRECTORIES as usize) {
            fs::write(below.join(format!("f{file}")), [b'x'; FILE_BYTES])?;
        }
    }
    Ok(())
}

/// Fills a fresh database with the tables that the preset asks.
pub(crate) fn fill_table(database: &Database, shape: Shape) {
    database.sql(
        "create table execution_workspaces (id uuid primary key, status text not null default 'active',
             last_used_at timestamptz not null);
         create table execution_workspace_runtime_leases (execution_workspace_id uuid unique, expires_at timestamptz);
         create table heartbeat_runs (id uuid, status text, context_snapshot jsonb);",
    );
    let mut copy = "create temp table ours (id uuid, days int);\ncopy ours from stdin;\n".to_owned();
    let mut owned = 0_u64;
    for index in 0..shape.workspaces {
        let days = match index % 20 {
            4..12 => OLD,
            12..16 => 0,
            _ => continue,
        };
        owned += 1;
        writeln!(copy, "{}\t{days}", id(index)).expect("because a string takes everything");
    }
    copy.push_str(
        "\\.\ninsert into execution_workspaces select id, 'active', now() - days * interval '1 day' from ours;\n",
    );
    database.sql(&copy);
    let others = shape.rows.saturating_sub(owned);
    database.sql(&format!(
        "insert into execution_workspaces select gen_random_uuid(), 'idle', now() - interval '9 days'
             from generate_series(1, {others})"
    ));
    database.sql("vacuum analyze");
}

/// A UUID of a workspace, in no order.
fn id(index: u64) -> String {
    let (high, low) = (mixed(index * 2), mixed(index * 2 + 1));
    let (a, b, c) = (high >> 32, (high >> 16) & 0xffff, high & 0xfff);
    let (d, e) = ((low >> 48) & 0x3fff | 0x8000, low & 0xffff_ffff_ffff);
    format!("{a:08x}-{b:04x}-4{c:03x}-{d:04x}-{e:012x}")
}

/// Scatters a number over all 64 bits, reversibly: no two workspaces get one name.
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ (mixed >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_are_uuids_and_differ() {
        let ids: HashSet<String> = (0..10_000).map(id).collect();
        assert_eq!(ids.len(), 10_000);
        let groups = |id: &String| id.split('-').map(str::len).collect::<Vec<_>>();
        assert!(ids.iter().all(|id| groups(id) == [8, 4, 4, 4, 12]), "{ids:?}");
    }
}
