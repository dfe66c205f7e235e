//! Saved workflows: named run definitions. This crate never parses their texts.
//!
//! A definition is replaced as a whole, under a lock on its organization. `revision` counts the changes:
//! saving the same text again changes nothing and leaves no entry in the audit log. The connections and files that a
//! definition names are rows of their own: their lists show the workflows that use them.

use std::collections::BTreeSet;

use sortie_api::{OrgId, Timestamp, limits};

use crate::{
    Error, Result, Store,
    access::{Audit, audit},
    db::{Json, Row, Stmt, Tx, batch, filled, row, select, vals},
    organizations::lock,
    runs::large::SHORT,
};

row! {
    /// Workflow as it is stored.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct WorkflowRow {
        /// Name of the workflow.
        pub name: String = "name",
        /// JSON of a `RunRequest`, with the fields that were given when it was saved.
        pub definition: String = "@definition",
        /// Number of versions of the definition, from 1.
        pub revision: i64 = "revision",
        /// Creation time.
        pub created_at: Timestamp = "created_at",
        /// Time of the last change of the definition.
        pub updated_at: Timestamp = "updated_at",
    }
}

row! {
    /// Workflow of a list.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct SummaryRow {
        /// JSON of its `WorkflowSummary`, as it was saved.
        pub summary: String = "summary",
        /// Number of versions of the definition, from 1.
        pub revision: i64 = "revision",
        /// Time of the last change of the definition.
        pub updated_at: Timestamp = "updated_at",
    }
}

row! {
    /// State of the list of an organization's workflows, which each change of the list changes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ListState {
        /// Number of workflows.
        pub workflows: i64 = "COUNT(*)",
        /// Sum of their revisions.
        pub revisions: i64 = "CAST(COALESCE(SUM(revision), 0) AS BIGINT)",
        /// Time of the last change of a workflow that still exists.
        pub updated_at: Option<Timestamp> = "MAX(updated_at)",
    }
}

row! {
    struct OldWorkflow {
        revision: i64 = "revision",
        created_at: Timestamp = "created_at",
        updated_at: Timestamp = "updated_at",
        is_same: bool = "CASE WHEN definition = $3 THEN 1 ELSE 0 END",
    }
}

/// Column with the names of the workflows of the organization `@org` that use the `@kind` `@name`: the first
/// [`limits::USED_BY`], as a JSON array in order. For [`first_users`].
pub(crate) const USERS: &str = "(SELECT CAST({JSON_ROWS}(users.workflow) AS TEXT) FROM (SELECT u.workflow FROM workflow_use u \
     WHERE u.org_id = @org AND u.kind = '@kind' AND u.name = @name \
     ORDER BY u.org_id, u.kind, u.name, u.workflow LIMIT 20) users)";

const _: () = assert!(limits::USED_BY == 20, "the limit of the query is another one");

/// Reads columns with [`USERS`]: the first of all of these names, each once. PostgreSQL has NULL for no names.
pub(crate) fn first_users<const N: usize>(columns: [Option<Json<Vec<String>>>; N]) -> Vec<String> {
    let names = columns.into_iter().flatten().flat_map(|Json(names)| names);
    names
        .collect::<BTreeSet<_>>()
        .into_iter()
        .take(limits::USED_BY)
        .collect()
}

/// Query for a workflow by its name.
const SELECT: &str = select!(WorkflowRow, " FROM workflow WHERE org_id = $1 AND name = $2");

/// Workflow to save.
#[derive(Clone, Debug)]
pub struct PutWorkflow {
    /// Name of the workflow.
    pub name: String,
    /// JSON of its `WorkflowSummary`.
    pub summary: String,
    /// JSON of a `RunRequest`.
    pub definition: String,
    /// Names of the saved connections in the definition, each once.
    pub connections: Vec<String>,
    /// IDs or names of the saved files in the definition, each once.
    pub files: Vec<String>,
}

/// Result of saving a workflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SavedWorkflow {
    /// The organization had no workflow of this name.
    Created(WorkflowRow),
    /// The workflow existed, and has this definition now.
    Replaced(WorkflowRow),
}

impl Store {
    /// Saves a workflow at the time of `audit`. `Conflict` if the organization has `most` workflows already.
    pub async fn put_workflow(
        &self,
        org: OrgId,
        workflow: PutWorkflow,
        most: u32,
        audit: Audit,
    ) -> Result<SavedWorkflow> {
        let bytes = workflow.definition.len().saturating_add(workflow.summary.len());
        self.db
            .write_of(bytes, move |tx| put(tx, org, &workflow, most, &audit))
            .await
    }

    /// Returns a workflow by its name.
    pub async fn get_workflow(&self, org: OrgId, name: &str) -> Result<WorkflowRow> {
        let name = name.to_owned();
        self.db
            .read(move |tx| {
                tx.read_one(
                    filled!(SELECT, "@definition" = "definition"),
                    vals![org, name.as_str()],
                )
            })
            .await
    }

    /// Returns a workflow by its name, with an empty definition if that is a large text.
    pub async fn workflow_record(&self, org: OrgId, name: &str) -> Result<WorkflowRow> {
        let name = name.to_owned();
        self.db
            .read(move |tx| {
                const SHORT_OR_EMPTY: &str =
                    constcat::concat!("COALESCE(", filled!(SHORT, "@column" = "definition"), ", '')");
                tx.read_one(
                    filled!(SELECT, "@definition" = SHORT_OR_EMPTY),
                    vals![org, name.as_str()],
                )
            })
            .await
    }

    /// Returns the names of the organization's workflows, in order.
    pub async fn workflow_names(&self, org: OrgId) -> Result<Vec<String>> {
        self.db
            .read(move |tx| {
                tx.query_all(
                    "SELECT name FROM workflow WHERE org_id = $1 ORDER BY org_id, name",
                    vals![org],
                )?
                .iter()
                .map(Row::only)
                .collect()
            })
            .await
    }

    /// Returns at most `limit` summaries of the organization's workflows with names after `after` (an empty text: all), in
    /// order.
    pub async fn workflow_summaries(&self, org: OrgId, after: String, limit: u32) -> Result<Vec<SummaryRow>> {
        self.db
            .read(move |tx| {
                tx.read_all(
                    select!(
                        SummaryRow,
                        " FROM workflow WHERE org_id = $1 AND name > $2 ORDER BY org_id, name LIMIT $3"
                    ),
                    vals![org, after.as_str(), limit],
                )
            })
            .await
    }

    /// Returns the summary of a workflow by its name.
    pub async fn workflow_summary(&self, org: OrgId, name: &str) -> Result<SummaryRow> {
        let name = name.to_owned();
        self.db
            .read(move |tx| {
                tx.read_one(
                    select!(SummaryRow, " FROM workflow WHERE org_id = $1 AND name = $2"),
                    vals![org, name.as_str()],
                )
            })
            .await
    }

    /// Returns the state of the list of an organization's workflows.
    pub async fn workflow_list_state(&self, org: OrgId) -> Result<ListState> {
        self.db
            .read(move |tx| tx.read_one(select!(ListState, " FROM workflow WHERE org_id = $1"), vals![org]))
            .await
    }

    /// Deletes a workflow that no schedule uses; `Conflict` if a schedule uses it.
    pub async fn delete_workflow(&self, org: OrgId, name: &str, audit: Audit) -> Result<()> {
        let name = name.to_owned();
        self.db.write(move |tx| delete(tx, org, &name, &audit)).await
    }
}

// The lock makes the limit exact. Commands that save a schedule take it too, so the rows that are read under it stay valid
// until the end of the transaction.
fn put(tx: &mut dyn Tx, org: OrgId, new: &PutWorkflow, most: u32, entry: &Audit) -> Result<SavedWorkflow> {
    let [_, old] = batch(
        tx,
        &[
            lock(org),
            Stmt::new(
                select!(OldWorkflow, " FROM workflow WHERE org_id = $1 AND name = $2"),
                vals![org, new.name.as_str(), new.definition.as_str()],
            ),
        ],
    )?;
    let old = old.first::<OldWorkflow>()?;
    let mut row = WorkflowRow {
        name: new.name.clone(),
        definition: new.definition.clone(),
        revision: old.as_ref().map_or(1, |old| old.revision),
        created_at: old.as_ref().map_or(entry.at, |old| old.created_at),
        updated_at: old.as_ref().map_or(entry.at, |old| old.updated_at),
    };
    let Some(old) = old else {
        let mut statements = vec![insert(org, new, most, entry)];
        statements.extend(uses(org, new)?);
        statements.push(audit::record(entry));
        tx.batch(&statements)?;
        return Ok(SavedWorkflow::Created(row));
    };
    if !old.is_same {
        let mut statements = vec![replace(org, new, entry), forget_uses(org, &new.name)];
        statements.extend(uses(org, new)?);
        statements.push(audit::record(entry));
        tx.batch(&statements)?;
        row.revision = row.revision.saturating_add(1);
        row.updated_at = entry.at;
    }
    Ok(SavedWorkflow::Replaced(row))
}

fn insert<'a>(org: OrgId, new: &'a PutWorkflow, most: u32, entry: &Audit) -> Stmt<'a> {
    Stmt::new(
        "INSERT INTO workflow (org_id, name, revision, created_at, updated_at, summary, definition) \
         SELECT id, $2, 1, CAST($3 AS BIGINT), CAST($3 AS BIGINT), $4, $5 FROM organization WHERE id = $1 \
         AND (SELECT COUNT(*) FROM (SELECT 1 FROM workflow w WHERE w.org_id = $1 LIMIT $6) AS counted) < $6",
        vals![
            org,
            new.name.as_str(),
            entry.at,
            new.summary.as_str(),
            new.definition.as_str(),
            most
        ],
    )
    .exactly(
        1,
        Error::Conflict("the organization has reached its limit of workflows"),
    )
}

fn replace<'a>(org: OrgId, new: &'a PutWorkflow, entry: &Audit) -> Stmt<'a> {
    Stmt::new(
        "UPDATE workflow SET revision = revision + 1, updated_at = $3, summary = $4, definition = $5 \
         WHERE org_id = $1 AND name = $2",
        vals![
            org,
            new.name.as_str(),
            entry.at,
            new.summary.as_str(),
            new.definition.as_str()
        ],
    )
    .exactly(1, Error::NotFound)
}

/// Returns the statements that record the connections and files of a definition.
fn uses(org: OrgId, new: &PutWorkflow) -> Result<Vec<Stmt<'_>>> {
    [("connection", &new.connections), ("file", &new.files)]
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(kind, names)| {
            let names = serde_json::to_string(names).map_err(|error| Error::Corrupt(error.to_string()))?;
            Ok(Stmt::new(
                "INSERT INTO workflow_use (org_id, kind, name, workflow) \
                 SELECT w.org_id, CAST($3 AS TEXT), t.value, w.name FROM workflow w, {JSON_EACH}($4) t \
                 WHERE w.org_id = $1 AND w.name = $2",
                vals![org, new.name.as_str(), kind, names],
            ))
        })
        .collect()
}

fn forget_uses(org: OrgId, name: &str) -> Stmt<'_> {
    Stmt::new(
        "DELETE FROM workflow_use WHERE org_id = $1 AND workflow = $2",
        vals![org, name],
    )
}

fn delete(tx: &mut dyn Tx, org: OrgId, name: &str, entry: &Audit) -> Result<()> {
    tx.batch(&[
        lock(org),
        Stmt::new(
            "UPDATE workflow SET revision = revision WHERE org_id = $1 AND name = $2",
            vals![org, name],
        )
        .exactly(1, Error::NotFound),
        Stmt::new(
            "DELETE FROM workflow WHERE org_id = $1 AND name = $2 AND (SELECT COUNT(*) FROM \
             (SELECT 1 FROM schedule s WHERE s.org_id = $1 AND s.workflow = $2 LIMIT 1) AS counted) = 0",
            vals![org, name],
        )
        .exactly(1, Error::Conflict("a schedule uses the workflow")),
        forget_uses(org, name),
        audit::record(entry),
    ])
    .map(drop)
}
