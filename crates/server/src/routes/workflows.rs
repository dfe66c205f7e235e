//! `/v1/workflows`: named run definitions for runs and schedules.

use std::{collections::HashMap, sync::Arc};

use axum::{
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json};
use sortie_api::{
    Micros, OrgId, Refusal, Timestamp, limits,
    usage::UsageFigures,
    workflow::{NOT_SAVED, Workflow, WorkflowDefinition, WorkflowSummary},
};
use sortie_engine::{Put, SavedDefinition, StoredWorkflow};
use sortie_store::{runs::LargeText, workflows::SummaryRow};

use super::listing::{Entry, Form, Listing, entries};
use crate::{
    app::App,
    kit::{ApiResult, FromQuery, JsonBody, Member, Pairs, Path, Query, TextForm, json_response},
};

/// Detail of each workflow in a list.
pub(crate) enum Detail {
    /// Name alone.
    Name,
    /// Name, description and schemas.
    Summary,
}

impl FromQuery for Detail {
    fn from_query(pairs: &Pairs<'_>) -> Result<Self, Refusal> {
        Ok(if pairs.boolean("detail")?.unwrap_or(false) {
            Self::Summary
        } else {
            Self::Name
        })
    }
}

/// List saved workflows
///
/// Lists the organization's workflows by name. Without `detail` only names are returned; with it also `description`,
/// `model`, `input_schema` and `output_schema` where they are set, the saved files and connections that it uses, the revision
/// and its time, and runs and cost of the last 30 days.
#[utoipa::path(
    get, path = "/v1/workflows", tag = "workflows",
    params(("detail" = Option<bool>, Query, nullable = false, description = "Also show descriptions, models, schemas, revisions and usage. Default `false`.", example = true)),
    responses((status = 200, description = "The workflows.", body = [WorkflowSummary], links(
        ("get_workflow" = (operation_id = "get_workflow", parameters(("name" = "$response.body#/0/name")))),
    ), example = json!([{
        "name": "daily-report", "description": "Yesterday's sales by region.", "model": "runbook", "revision": 2,
        "updated_at": "2026-11-21T08:00:00.000Z", "runs_30d": 21, "cost_30d_micros": 84_000,
        "input_schema": {"type": "object", "properties": {"day": {"type": "string"}}, "required": ["day"]}
    }]))),
)]
pub(crate) async fn list_workflows(
    State(app): State<Arc<App>>,
    who: Member,
    Query(detail): Query<Detail>,
) -> ApiResult<Response> {
    let store = app.engine.store();
    match detail {
        Detail::Name => {
            let names = store.workflow_names(who.org).await?;
            let items: Vec<_> = names.iter().map(|name| json!({"name": name})).collect();
            Ok(json_response(Value::Array(items).to_string()))
        }
        Detail::Summary => {
            let (store, org) = (store.clone(), who.org);
            let usage = Arc::new(app.engine.usage_of_workflows(org).await?);
            let read = move |after: Option<String>, limit| {
                let (store, usage) = (store.clone(), Arc::clone(&usage));
                async move {
                    let rows = store
                        .workflow_summaries(org, after.unwrap_or_default(), limit)
                        .await?;
                    let summaries = rows.iter().map(|row| summary(row, &usage));
                    let summaries: Vec<WorkflowSummary> = summaries.collect::<Result<_, _>>()?;
                    entries(&summaries, |summary| summary.name.clone())
                }
            };
            let list = Listing {
                stretch: 20,
                read,
                after: None,
                limit: limits::SAVED_WORKFLOWS,
                form: Form::Array,
            };
            list.respond(&app.bodies).await
        }
    }
}

/// Makes the summary of a workflow in the list. `usage` is that of the last 30 days by the names of workflows.
fn summary(row: &SummaryRow, usage: &HashMap<String, UsageFigures>) -> Result<WorkflowSummary, Refusal> {
    let saved: WorkflowSummary = serde_json::from_str(&row.summary).map_err(|error| {
        Refusal::internal(format!(
            "the stored summary of a workflow cannot be read: {error}"
        ))
    })?;
    let used = usage.get(&saved.name);
    Ok(WorkflowSummary {
        revision: Some(row.revision),
        updated_at: Some(row.updated_at),
        runs_30d: Some(used.map_or(0, |used| used.runs)),
        cost_30d_micros: Some(used.map_or(Micros::ZERO, |used| used.cost_micros)),
        ..saved
    })
}

/// Get a saved workflow
///
/// Returns the definition as it was saved, with its name, revision and times. Fields that the
/// definition leaves out use the defaults in force when a run starts.
#[utoipa::path(
    get, path = "/v1/workflows/{name}", tag = "workflows",
    params(("name" = String, Path, description = "The workflow's name.", example = "daily-report")),
    responses((status = 200, description = "The workflow.", body = Workflow, example = json!({
        "name": "daily-report", "prompt": "Summarise sales.csv by region.", "timeout_seconds": 120, "revision": 2,
        "created_at": "2026-11-20T21:30:00.000Z", "updated_at": "2026-11-21T08:00:00.000Z"
    }))),
)]
pub(crate) async fn get_workflow(
    State(app): State<Arc<App>>,
    who: Member,
    Path(name): Path<String>,
) -> ApiResult<Response> {
    let read = || async { entry_of(&app, who.org, app.engine.get_workflow(who.org, &name).await?) };
    let entry = Entry::of_one_version(read).await?;
    entry.pieces().respond(&app.bodies).await
}

/// Workflow without its definition, which is sent from the store.
#[derive(Serialize)]
struct LargeWorkflow {
    name: String,
    revision: i64,
    created_at: Timestamp,
    updated_at: Timestamp,
}

/// Makes the entry of a workflow. A large definition is sent from the store: it may have 24 MiB.
fn entry_of(app: &App, org: OrgId, stored: StoredWorkflow) -> Result<Entry, Refusal> {
    let StoredWorkflow {
        name,
        definition,
        revision,
        created_at,
        updated_at,
    } = stored;
    let saved = match definition {
        SavedDefinition::Short(definition) => {
            return Entry::of(&Workflow {
                name,
                definition: *definition,
                revision,
                created_at,
                updated_at,
            });
        }
        SavedDefinition::Large(saved) => saved,
    };
    let text = LargeText::Workflow(name.as_str().into(), revision, updated_at);
    let record = LargeWorkflow {
        name,
        revision,
        created_at,
        updated_at,
    };
    let entry = Entry::ending_with(&record, "", app.texts.open(org, text, TextForm::Members))?;
    Ok(match saved {
        Some(text) => entry.hold_known(text),
        None => entry,
    })
}

/// Save a workflow
///
/// Creates the workflow or replaces it whole. The definition is checked now, except that its files and
/// connections exist, which each run checks. `input` is the default of runs that send none; it must match `input_schema`.
/// Credentials are not stored: use a saved connection if one needs them. The same definition again changes nothing;
/// any other raises `revision` by one. Existing runs keep their definition.
#[utoipa::path(
    put, path = "/v1/workflows/{name}", tag = "workflows",
    params(("name" = String, Path, description = "The workflow's name.", pattern = "^[a-z0-9][a-z0-9._-]{0,99}$", example = "daily-report")),
    request_body(content = WorkflowDefinition, description = "Definition that runs of the workflow start from.", example = json!({
        "prompt": "Summarise sales.csv by region.", "description": "Yesterday's sales by region.", "timeout_seconds": 120,
        "input_schema": {"type": "object", "properties": {"day": {"type": "string"}}, "required": ["day"]}
    })),
    responses(
        (status = 201, description = "The new workflow.", body = Workflow, links(
            ("get_workflow" = (operation_id = "get_workflow", parameters(("name" = "$response.body#/name")))),
            ("replace_workflow" = (operation_id = "put_workflow", parameters(("name" = "$response.body#/name")))),
            ("delete_workflow" = (operation_id = "delete_workflow", parameters(("name" = "$response.body#/name")))),
            ("create_run" = (operation_id = "create_run", description = "With the name as `workflow`.")),
        ), example = json!({
            "name": "daily-report", "prompt": "Summarise sales.csv by region.", "description": "Yesterday's sales by region.",
            "timeout_seconds": 120, "revision": 1,
            "input_schema": {"type": "object", "properties": {"day": {"type": "string"}}, "required": ["day"]},
            "created_at": "2026-11-20T21:30:00.000Z", "updated_at": "2026-11-20T21:30:00.000Z"
        })),
        (status = 200, description = "The saved workflow, which replaced an earlier one.", body = Workflow, links(
            ("get_workflow" = (operation_id = "get_workflow", parameters(("name" = "$response.body#/name")))),
            ("create_run" = (operation_id = "create_run", description = "With the name as `workflow`.")),
        ), example = json!({
            "name": "daily-report", "prompt": "Summarise sales.csv by region and product.", "revision": 2,
            "created_at": "2026-11-20T21:30:00.000Z", "updated_at": "2026-11-21T08:00:00.000Z"
        })),
        (status = 409, description = "The organization has reached its limit of workflows.", body = sortie_api::ErrorBody,
            example = json!({"error": "the organization has reached its limit of workflows", "code": "conflict"})),
    ),
)]
pub(crate) async fn put_workflow(
    State(app): State<Arc<App>>,
    who: Member,
    Path(name): Path<String>,
    JsonBody(definition, _room): JsonBody<WorkflowDefinition>,
) -> ApiResult<Response> {
    let (stored, put) = app.engine.put_workflow(&who, &name, definition).await?;
    let status = match put {
        Put::Created => StatusCode::CREATED,
        Put::Replaced => StatusCode::OK,
    };
    let pieces = entry_of(&app, who.org, stored)?.pieces();
    Ok((status, pieces.respond_done(&app.bodies)).into_response())
}

/// Delete a workflow
///
/// Deletes the workflow. Runs that were started from it continue and keep its name.
#[utoipa::path(
    delete, path = "/v1/workflows/{name}", tag = "workflows",
    params(("name" = String, Path, description = "The workflow's name.", example = "daily-report")),
    responses(
        (status = 204, description = "The workflow was deleted."),
        (status = 409, description = "A schedule uses the workflow.", body = sortie_api::ErrorBody,
            example = json!({"error": "a schedule uses the workflow", "code": "conflict"})),
    ),
)]
pub(crate) async fn delete_workflow(
    State(app): State<Arc<App>>,
    who: Member,
    Path(name): Path<String>,
) -> ApiResult<StatusCode> {
    app.engine.delete_workflow(&who, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Makes the schemas of a definition and of a record from that of a run request, so that its fields are described once.
#[expect(
    clippy::indexing_slicing,
    reason = "members of a JSON value of our own making: the document is the same at each start and a test builds it"
)]
pub(crate) fn describe(schemas: &mut Value) {
    let mut definition = schemas["RunRequest"].clone();
    definition["description"] = schemas["WorkflowDefinition"]["description"].clone();
    definition["required"] = json!(["prompt"]);
    definition["properties"]["prompt"]["description"] =
        format!("The task. At most {} KiB.", limits::PROMPT_BYTES / 1024).into();
    if let Some(fields) = definition["properties"].as_object_mut() {
        fields.retain(|name, _| !NOT_SAVED.contains(&name.as_str()));
        for (name, schema) in fields {
            schemas["Workflow"]["properties"][name] = schema.clone();
        }
    }
    if let Some(required) = schemas["Workflow"]["required"].as_array_mut() {
        required.push("prompt".into());
    }
    schemas["WorkflowDefinition"] = definition;
}
