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
//! one that exists and cannot be read is a lost source. There is no index from a run to its workspace, so
//! that each re-check reads all runs. On a database with many,
//! `CREATE INDEX ON heartbeat_runs (status) WHERE status IN ('queued', 'running', 'scheduled_retry')` helps.

use crate::sources::postgres::Queries;

/// Finds the tables beside `execution_workspaces`, whichever schema that is in. By the catalogue and
/// not by reading them, so that a missing permission is not taken for a missing table.
pub(crate) const TABLES: &str = "\
SELECT format('%I.%I', n.nspname, w.relname), \
    (SELECT format('%I.%I', n.nspname, t.relname) FROM pg_class t WHERE t.relnamespace = n.oid \
        AND t.relname = 'execution_workspace_runtime_leases' AND t.relkind IN ('r', 'p', 'v', 'm', 'f')), \
    (SELECT format('%I.%I', n.nspname, t.relname) FROM pg_class t WHERE t.relnamespace = n.oid \
        AND t.relname = 'heartbeat_runs' AND t.relkind IN ('r', 'p', 'v', 'm', 'f')) \
FROM pg_class w JOIN pg_namespace n ON n.oid = w.relnamespace WHERE w.oid = to_regclass('execution_workspaces')";

/// The tables that there are, with their schema, quoted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tables {
    workspaces: String,
    leases: Option<String>,
    runs: Option<String>,
}

impl Tables {
    /// Reads what [`TABLES`] found; `None` when there is no table of workspaces.
    pub(crate) fn of(found: &[Vec<Option<String>>]) -> Option<Self> {
        match found {
            [row] => match row.as_slice() {
                [Some(workspaces), leases, runs] => {
                    Some(Self { workspaces: workspaces.clone(), leases: leases.clone(), runs: runs.clone() })
                }
                _ => None,
            },
            _ => None,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tables_that_exist_are_asked() {
        let found = |leases: Option<&str>, runs: Option<&str>| {
            let row =
                vec![Some("public.execution_workspaces".to_owned()), leases.map(Into::into), runs.map(Into::into)];
            Tables::of(&[row]).unwrap().queries().held_query
        };
        assert_eq!(found(None, None), None);
        let (both, leases) = (found(Some("p.l"), Some("p.r")).unwrap(), found(Some("p.l"), None).unwrap());
        assert!(both.contains("FROM p.l ") && both.contains(" UNION ALL ") && both.contains("FROM p.r "), "{both}");
        assert!(leases.contains("FROM p.l ") && !leases.contains("UNION"), "{leases}");
        assert_eq!(Tables::of(&[]), None);
        assert_eq!(Tables::of(&[vec![None, None, None]]), None);
    }
}
