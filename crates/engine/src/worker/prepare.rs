//! Preparation of a run: its definition, files, connections and tools.

use std::{sync::Arc, time::Duration};

use sortie_agent::{BudgetSpec, Model, Owner, Redactor, RunSpec, Shell, schema::Schema};
use sortie_api::{RunRequest, limits};
use sortie_connect::Opened;
use sortie_store::runs::{Claim, StoredCredentials};
use tokio::time::Instant;

use super::{
    Worker, files,
    pictures::pictures,
    resume::AttemptState,
    web::{self, RunWeb},
};
use crate::{
    connections::InlineSecrets,
    files::saved::Unprepared,
    kit::{hooks, traces},
    runs::run_log::RunLog,
};

/// Time by which the timeout of a command exceeds that of its run.
const BEHIND_DEADLINE: Duration = Duration::from_secs(30);

/// Input of the agent.
pub(super) struct Start {
    pub(super) spec: RunSpec,
    pub(super) model: Arc<dyn Model>,
    /// Presence of inline credentials in the store.
    pub(super) stored_credentials: StoredCredentials,
    /// Open connections of the run. Their sessions end when this is dropped.
    pub(super) opened: Option<Opened>,
}

/// Reads the definition and stages the run's own files. May be called again after an outage of the storage.
pub(super) async fn prepare(
    worker: &Worker,
    claim: &Claim,
    (budget, deadline): (BudgetSpec, Instant),
    state: &mut AttemptState,
) -> Result<Start, Unprepared> {
    let (request, secrets) = request(worker, claim)?;
    let stored_credentials = stored_credentials(&request);
    let id = request
        .model
        .unwrap_or_else(|| worker.models.catalog().default_model.clone());
    let model = model_of(worker, &id)?;
    let fallback = request
        .fallback_model
        .map(|id| model_of(worker, &id))
        .transpose()?;
    traces::uses_model(model.info());
    let output_schema = match &request.output_schema {
        Some(schema) => {
            Some(Schema::compile(schema.get()).map_err(|error| format!("output_schema: {error}"))?)
        }
        None => None,
    };
    let files = request.files.unwrap_or_default();
    let media = pictures(worker, claim.org, &files, &*model).await?;
    let files = files::stage(worker, claim.org, files, state).await?;
    let redactor = Arc::new(Redactor::default());
    let opened = match &request.connections {
        Some(wanted) if !wanted.is_empty() => {
            let run = (claim.org, claim.fence.run);
            let opened = worker
                .connections
                .open_for_run(run, wanted, secrets, &redactor)
                .await?;
            for note in &opened.notes {
                tracing::warn!(note, "left out a tool of a connection");
            }
            Some(opened)
        }
        Some(_) | None => None,
    };
    let shell = shell(request.shell);
    let RunWeb { mut tools, egress } = web::set_up(
        worker,
        claim.fence.run,
        request.web.as_ref(),
        shell,
        &mut state.workspace,
    )?;
    tools.extend(opened.iter().flat_map(|opened| opened.tools.iter().cloned()));
    tools.extend(hooks::tools(claim.fence));
    let spec = RunSpec {
        owner: Owner {
            run: claim.fence.run,
            org: claim.org,
        },
        prompt: request.prompt.unwrap_or_default(),
        instructions: request.instructions.unwrap_or_default(),
        input: request.input,
        output_schema: output_schema.map(Arc::new),
        shell,
        egress,
        budget,
        deadline: Some(deadline),
        max_steps: max_steps(request.max_steps),
        effort: request.effort,
        fallback,
        files,
        environment: worker.programs.environment(worker, claim, &*model, shell).await,
        media,
        command_timeout: command_timeout(claim.timeout_seconds),
        tools,
        redactor,
        resume: state.journal.take(),
    };
    Ok(Start {
        spec,
        model,
        stored_credentials,
        opened,
    })
}

fn shell(wanted: Option<bool>) -> Shell {
    if wanted.unwrap_or(true) {
        Shell::Allowed
    } else {
        Shell::Denied
    }
}

fn max_steps(wanted: Option<i64>) -> u32 {
    let wanted = wanted.and_then(|steps| u32::try_from(steps).ok());
    wanted.unwrap_or(limits::MAX_STEPS_DEFAULT)
}

/// Timeout of a single command. It is longer than the time limit of the run, so that the run always ends first and the two do not
/// race.
fn command_timeout(timeout_seconds: u32) -> Duration {
    Duration::from_secs(u64::from(timeout_seconds)) + BEHIND_DEADLINE
}

fn model_of(worker: &Worker, id: &str) -> Result<Arc<dyn Model>, String> {
    let model = worker.models.get(id);
    model
        .cloned()
        .ok_or_else(|| format!("model {id:?} is no longer available"))
}

/// Reads the request of the run, and the location of its inline credentials.
fn request(worker: &Worker, claim: &Claim) -> Result<(RunRequest, InlineSecrets), String> {
    let log = RunLog::new(worker.records.clone(), claim.fence.run, claim.retention());
    let (definition, secrets) = log
        .request(claim.definition.as_deref())
        .ok_or("the run's definition is no longer available")?;
    let request = serde_json::from_str(&definition)
        .map_err(|error| format!("the stored definition cannot be read: {error}"))?;
    Ok((request, secrets))
}

fn stored_credentials(request: &RunRequest) -> StoredCredentials {
    let mut connections = request.connections.iter().flatten();
    if connections.any(|(_, wants)| wants.reference.is_none()) {
        StoredCredentials::Possible
    } else {
        StoredCredentials::Absent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_a_command_never_comes_before_that_of_its_run() {
        for seconds in [limits::TIMEOUT_SECONDS_MIN, limits::TIMEOUT_SECONDS_MAX] {
            let run = Duration::from_secs(u64::from(seconds));
            assert!(command_timeout(seconds) >= run + Duration::from_secs(10));
        }
    }
}
