//! Saved workflows: stored, listed, and used as the defaults of requests that name one.
//!
//! A definition is checked when it is saved, as far as that is possible without a request, and again for each run. Each
//! run reads the row once, so a change on any node applies to the next run.

use std::collections::{BTreeMap, BTreeSet};

use sortie_api::{
    OrgId, Refusal, RunRequest, Timestamp, limits,
    workflow::{WorkflowDefinition, WorkflowSummary},
};
use sortie_store::{
    Store,
    access::Caller,
    workflows::{PutWorkflow, SavedWorkflow, WorkflowRow},
};
use tokio::sync::watch;

use crate::{
    Engine,
    connections::Put,
    kit::random::random,
    kit::rules::{broken, name as check_name},
};

/// Largest definition of a saved workflow that is returned with it, in bytes of JSON.
const RETURNED_BYTES: usize = 64 * 1024;

/// Saved workflow.
#[derive(Clone, Debug)]
pub struct StoredWorkflow {
    /// Name of the workflow.
    pub name: String,
    /// Definition of the workflow.
    pub definition: SavedDefinition,
    /// Revision of the definition.
    pub revision: i64,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last change of the definition.
    pub updated_at: Timestamp,
}

/// Definition of a saved workflow.
#[derive(Clone, Debug)]
pub enum SavedDefinition {
    /// A definition of up to [`RETURNED_BYTES`].
    Short(Box<RunRequest>),
    /// A larger definition, which the store has as a `LargeText`. Includes the text if it was saved just now.
    Large(Option<String>),
}

impl Engine {
    /// Saves a workflow under `name`, or replaces the one that has the name. Saving the same definition again changes
    /// nothing. `InvalidRequest` names the field and the rule.
    pub async fn put_workflow(
        &self,
        caller: &Caller,
        name: &str,
        definition: WorkflowDefinition,
    ) -> Result<(StoredWorkflow, Put), Refusal> {
        check_name("name", name)?;
        let WorkflowDefinition(mut definition) = definition;
        self.intake(caller.org).accept_saved(&mut definition).await?;
        let node = &self.0;
        let new = to_save(name, &definition)?;
        let audit = caller.audit((node.options.clock.now(), random()?), "workflow.put", name);
        let saved = node
            .stores
            .database
            .put_workflow(caller.org, new, limits::SAVED_WORKFLOWS, audit)
            .await?;
        self.signal_workflows();
        let (mut row, put) = match saved {
            SavedWorkflow::Created(row) => (row, Put::Created),
            SavedWorkflow::Replaced(row) => (row, Put::Replaced),
        };
        let saved = if row.definition.len() <= RETURNED_BYTES {
            SavedDefinition::Short(Box::new(definition))
        } else {
            SavedDefinition::Large(Some(std::mem::take(&mut row.definition)))
        };
        Ok((record(row, saved), put))
    }

    /// Returns a workflow by its name.
    pub async fn get_workflow(&self, org: OrgId, name: &str) -> Result<StoredWorkflow, Refusal> {
        // No workflow can have an invalid name.
        check_name("name", name).map_err(|_| Refusal::not_found())?;
        let row = self.store().workflow_record(org, name).await?;
        let definition = if row.definition.is_empty() {
            SavedDefinition::Large(None)
        } else {
            SavedDefinition::Short(Box::new(definition_of(&row)?))
        };
        Ok(record(row, definition))
    }

    /// Deletes a workflow. Its runs have copies of the definition and continue.
    pub async fn delete_workflow(&self, caller: &Caller, name: &str) -> Result<(), Refusal> {
        check_name("name", name).map_err(|_| Refusal::not_found())?;
        let node = &self.0;
        let audit = caller.audit((node.options.clock.now(), random()?), "workflow.delete", name);
        node.stores
            .database
            .delete_workflow(caller.org, name, audit)
            .await?;
        self.signal_workflows();
        Ok(())
    }

    /// Returns a receiver that changes when a workflow of any organization may have changed, on any node. A signal of another node
    /// may be lost.
    pub fn workflow_changes(&self) -> watch::Receiver<()> {
        self.0.cluster.wake.workflows.subscribe()
    }

    fn signal_workflows(&self) {
        let cluster = &self.0.cluster;
        cluster.wake.workflows.send_replace(());
        cluster.hints.workflows();
    }
}

/// Returns the effective request. With `workflow`, fields that were not sent come from the saved definition. The name
/// of the workflow stays in the request, for accounting.
pub(crate) async fn effective(store: &Store, org: OrgId, request: RunRequest) -> Result<RunRequest, Refusal> {
    let Some(name) = &request.workflow else {
        return Ok(request);
    };
    check_name("workflow", name)?;
    match store.get_workflow(org, name).await {
        Ok(row) => Ok(request.over(definition_of(&row)?)),
        Err(sortie_store::Error::NotFound) => Err(broken("workflow", format!("no workflow {name:?}"))),
        Err(error) => Err(error.into()),
    }
}

fn to_save(name: &str, definition: &RunRequest) -> Result<PutWorkflow, Refusal> {
    let files = definition
        .files
        .iter()
        .flatten()
        .filter_map(|file| file.file.clone());
    let connections = definition.connections.iter().flat_map(BTreeMap::values);
    let connections = connections.filter_map(|connection| connection.reference.clone());
    let files: Vec<_> = files.collect::<BTreeSet<_>>().into_iter().collect();
    let connections: Vec<_> = connections.collect::<BTreeSet<_>>().into_iter().collect();
    let summary = WorkflowSummary {
        name: name.to_owned(),
        description: definition.description.clone(),
        model: definition.model.clone(),
        files: files.clone(),
        connections: connections.clone(),
        revision: None,
        updated_at: None,
        runs_30d: None,
        cost_30d_micros: None,
        input_schema: definition.input_schema.clone(),
        output_schema: definition.output_schema.clone(),
    };
    let unwritable = |error| Refusal::internal(format!("a workflow cannot be serialized: {error}"));
    Ok(PutWorkflow {
        name: name.to_owned(),
        summary: serde_json::to_string(&summary).map_err(unwritable)?,
        definition: serde_json::to_string(definition).map_err(unwritable)?,
        connections,
        files,
    })
}

/// Reads the stored definition.
fn definition_of(row: &WorkflowRow) -> Result<RunRequest, Refusal> {
    serde_json::from_str(&row.definition)
        .map_err(|error| Refusal::internal(format!("a stored workflow cannot be read: {error}")))
}

fn record(row: WorkflowRow, definition: SavedDefinition) -> StoredWorkflow {
    StoredWorkflow {
        name: row.name,
        definition,
        revision: row.revision,
        created_at: row.created_at,
        updated_at: row.updated_at,
    }
}
