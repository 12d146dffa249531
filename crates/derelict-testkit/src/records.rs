//! devlaunch's records, as devlaunch writes them: `metadata.json`, schema 3. Not here: reading them
//! the way the product does.

use std::path::{Path, PathBuf};

use serde_json::json;

/// One record of a clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// `owner/repo`.
    pub repository: String,
    /// The branch, with its slashes.
    pub branch: String,
    /// The workspace id, which is the clone's leaf.
    pub id: String,
    /// Where the clone is.
    pub local_path: PathBuf,
    /// The devpod workspace, once there was one.
    pub devpod: Option<String>,
}

impl Record {
    /// The key it is filed under.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}/{}", self.repository, self.branch)
    }

    /// Its member of the object, byte for byte, without indentation before and comma after.
    ///
    /// # Panics
    /// When the path is not UTF-8: devlaunch could not have written it.
    #[must_use]
    pub fn text(&self) -> String {
        let (owner, repo) = self.repository.split_once('/').expect("because a repository has an owner");
        let path = self.local_path.to_str().expect("because devlaunch writes paths as text");
        let fields = [
            ("owner", json!(owner)),
            ("repo", json!(repo)),
            ("branch", json!(self.branch)),
            ("local_path", json!(path)),
            ("workspace_id", json!(self.id)),
            ("created_at", json!("2026-07-01T00:00:00")),
            ("last_used", json!("2026-07-01T00:00:00")),
            ("devpod_workspace_id", json!(self.devpod)),
        ];
        let lines: Vec<String> = fields.iter().map(|(name, value)| format!("      {}: {value}", json!(name))).collect();
        format!("{}: {{\n{}\n    }}", json!(self.key()), lines.join(",\n"))
    }
}

/// The whole file.
#[must_use]
pub fn render(records: &[Record]) -> String {
    let members: Vec<String> = records.iter().map(|record| format!("    {}", record.text())).collect();
    let members = if members.is_empty() { String::new() } else { format!("\n{}\n  ", members.join(",\n")) };
    format!("{{\n  \"version\": 3,\n  \"repositories\": {{}},\n  \"worktrees\": {{{members}}}\n}}\n")
}

/// The keys of a record file's clones, in the order of the file.
///
/// # Panics
/// When it cannot be read.
#[must_use]
pub fn keys(file: &Path) -> Vec<String> {
    let parsed: serde_json::Value =
        serde_json::from_slice(&crate::scratch::read(file)).expect("because the record file is JSON");
    let clones = parsed["worktrees"].as_object().expect("because the record file has its clones");
    clones.keys().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::{Scratch, write};

    #[test]
    fn a_record_file_reads_back_in_its_order() {
        let record = |branch: &str| Record {
            repository: "acme/w".into(),
            branch: branch.into(),
            id: branch.into(),
            local_path: "/x".into(),
            devpod: (branch == "b").then(|| "b".into()),
        };
        let scratch = Scratch::new();
        let file = scratch.path().join("metadata.json");
        let text = render(&[record("z/1"), record("b")]);
        write(&file, &text);
        assert_eq!(keys(&file), ["acme/w/z/1", "acme/w/b"]);
        assert!(text.contains("\"devpod_workspace_id\": null") && text.contains("\"devpod_workspace_id\": \"b\""));
        write(&file, render(&[]));
        assert_eq!(keys(&file), [""; 0]);
    }
}
