//! The queries of the preset `paperclip`: which of its tables exist, the rows of workspaces, what holds
//! one beside its last use, and the lock under which the program itself changes a workspace's life.
//!
//! A row's last use decides, and besides:
//!
//! - `in_review` holds: a person is about to look at it, however long that takes.
//! - `active`, `idle`, `archived` and `cleanup_failed` neither hold nor release: of the first two the
//!   last use says more, since nothing moves an abandoned workspace out of them; the last two say that
//!   the program itself has no more use for it, which is no reason to keep it longer.
//! - Any other status holds: it is of a version of that program that is not known here.
//! - A runtime lease that has not run out holds, and so does a run that is queued, running or about to
//!   be retried: `last_used_at` moves when a run starts, and a long one outlives the window.
//!
//! The tables of leases and runs are younger than that of workspaces. One that does not exist is not asked;
//! one that exists and cannot be read is a lost source, and so is a database with several that might be meant. There is no index from a run to its workspace, so
//! that each re-check reads all runs. On a database with many,
//! `CREATE INDEX ON heartbeat_runs (status) WHERE status IN ('queued', 'running', 'scheduled_retry')` helps.

use crate::sources::postgres::Queries;

/// The table of workspaces, and the two beside it.
const WORKSPACES: &str = "execution_workspaces";
const LEASES: &str = "execution_workspace_runtime_leases";
const RUNS: &str = "heartbeat_runs";

/// Finds every table of these names: its schema, its name, and both quoted. By the catalogue and not by
/// reading them, so that a missing permission is not taken for a missing table.
pub(crate) const TABLES: &str = "\
SELECT n.nspname::text, t.relname::text, format('%I.%I', n.nspname, t.relname) \
FROM pg_class t JOIN pg_namespace n ON n.oid = t.relnamespace \
WHERE t.relname IN ('execution_workspaces', 'execution_workspace_runtime_leases', 'heartbeat_runs') \
    AND t.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_' \
ORDER BY 1, 2";

/// The tables that there are, with their schema, quoted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tables {
    workspaces: String,
    leases: Option<String>,
    runs: Option<String>,
}

/// Why it is not clear which tables to ask.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoTables {
    /// There is no table of workspaces.
    #[error("it has no table `execution_workspaces`{}", .0.as_ref().map_or_else(String::new, |schema| format!(" in the schema `{schema}`")))]
    None(Option<String>),
    /// There are several, and the search path of the one who asks is no reason to take one of them.
    #[error("it has several tables `execution_workspaces` ({0}); `owner.schema` has to say which")]
    Several(String),
    /// What belongs beside the table of workspaces lies elsewhere.
    #[error("`{table}` is in another schema than `{workspaces}` ({found}); `owner.schema` has to say which is meant")]
    Apart {
        /// What is elsewhere.
        table: &'static str,
        /// The table of workspaces.
        workspaces: String,
        /// Where it is.
        found: String,
    },
}

/// One table of the catalogue.
struct Listed<'l> {
    schema: &'l str,
    name: &'l str,
    quoted: &'l str,
}

impl Tables {
    /// Reads what [`TABLES`] found, of one schema or, where none is given, of the only one there is.
    ///
    /// # Errors
    /// [`NoTables`] where that does not lead to one table of workspaces and to those beside it.
    pub(crate) fn of(found: &[Vec<Option<String>>], schema: Option<&str>) -> Result<Self, NoTables> {
        let listed: Vec<Listed<'_>> = found
            .iter()
            .filter_map(|row| match row.as_slice() {
                [Some(schema), Some(name), Some(quoted)] => Some(Listed { schema, name, quoted }),
                _ => None,
            })
            .filter(|listed| schema.is_none_or(|schema| schema == listed.schema))
            .collect();
        let named = |name: &'static str| listed.iter().filter(move |listed| listed.name == name);
        let workspaces = match named(WORKSPACES).collect::<Vec<_>>().as_slice() {
            [] => return Err(NoTables::None(schema.map(str::to_owned))),
            [one] => *one,
            several => return Err(NoTables::Several(names(several.iter().copied()))),
        };
        let beside = |table: &'static str| {
            let one = named(table).find(|listed| listed.schema == workspaces.schema);
            match (one, named(table).next()) {
                (Some(one), _) => Ok(Some(one.quoted.to_owned())),
                (None, None) => Ok(None),
                (None, Some(_)) => {
                    Err(NoTables::Apart { table, workspaces: workspaces.quoted.to_owned(), found: names(named(table)) })
                }
            }
        };
        Ok(Self { workspaces: workspaces.quoted.to_owned(), leases: beside(LEASES)?, runs: beside(RUNS)? })
    }

    /// What is asked of them.
    pub(crate) fn queries(&self) -> Queries {
        let leases = self.leases.as_ref().map(|leases| {
            format!(
                "SELECT execution_workspace_id::text AS id, 'a runtime lease runs until ' || expires_at AS reason \
                 FROM {leases} WHERE execution_workspace_id = ANY($1::uuid[]) AND expires_at >= now()"
            )
        });
        let runs = self.runs.as_ref().map(|runs| {
            format!(
                "SELECT lower(context_snapshot->>'executionWorkspaceId') AS id, 'run ' || id || ' is ' || status AS reason \
                 FROM {runs} WHERE status IN ('queued', 'running', 'scheduled_retry') \
                 AND lower(context_snapshot->>'executionWorkspaceId') = ANY($1::uuid[]::text[])"
            )
        });
        let held: Vec<String> = leases.into_iter().chain(runs).collect();
        Queries {
            query: format!(
                "SELECT id, last_used_at, CASE \
                 WHEN status IN ('active', 'idle', 'archived', 'cleanup_failed') THEN NULL \
                 WHEN status = 'in_review' THEN 'it is in review' \
                 ELSE 'its status is not known here: ' || coalesce(quote_literal(status), 'NULL') END AS held \
                 FROM {} WHERE id = ANY($1)",
                self.workspaces
            ),
            held_query: (!held.is_empty()).then(|| held.join(" UNION ALL ")),
            lock_query: Some(
                "SELECT pg_advisory_xact_lock(hashtextextended('execution_workspace_lifecycle:' || $1::text, 0))"
                    .into(),
            ),
        }
    }
}

fn names<'l>(listed: impl Iterator<Item = &'l Listed<'l>>) -> String {
    listed.map(|listed| listed.quoted).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(tables: &[(&str, &str)]) -> Vec<Vec<Option<String>>> {
        let row = |(schema, name): &(&str, &str)| {
            vec![Some((*schema).into()), Some((*name).into()), Some(format!("{schema}.{name}"))]
        };
        tables.iter().map(row).collect()
    }

    #[test]
    fn only_tables_that_exist_are_asked() {
        let held = |tables: &[(&str, &str)]| Tables::of(&listed(tables), None).unwrap().queries().held_query;
        assert_eq!(held(&[("p", WORKSPACES)]), None);
        let leases = held(&[("p", WORKSPACES), ("p", LEASES)]).unwrap();
        let both = held(&[("p", WORKSPACES), ("p", LEASES), ("p", RUNS)]).unwrap();
        assert!(both.contains("FROM p.execution_workspace_runtime_leases ") && both.contains(" UNION ALL "), "{both}");
        assert!(both.contains("FROM p.heartbeat_runs "), "{both}");
        assert!(!leases.contains("UNION"), "{leases}");
        assert_eq!(Tables::of(&[], None), Err(NoTables::None(None)));
    }

    #[test]
    fn tables_in_several_schemas_are_asked_only_when_one_is_named() {
        let two = listed(&[("a", WORKSPACES), ("b", WORKSPACES), ("b", LEASES)]);
        let why = Tables::of(&two, None).unwrap_err().to_string();
        assert!(why.contains("(a.execution_workspaces, b.execution_workspaces)"), "{why}");
        assert_eq!(Tables::of(&two, Some("a")).unwrap().leases, None);
        let beside = Tables::of(&two, Some("b")).unwrap().leases;
        assert_eq!(beside.as_deref(), Some("b.execution_workspace_runtime_leases"));
        assert_eq!(Tables::of(&two, Some("c")), Err(NoTables::None(Some("c".into()))));
        let apart = listed(&[("a", WORKSPACES), ("b", LEASES)]);
        let why = Tables::of(&apart, None).unwrap_err().to_string();
        assert!(why.starts_with("`execution_workspace_runtime_leases` is in another schema"), "{why}");
    }
}
