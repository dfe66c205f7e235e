//! `/v1/workflows`: named run definitions that runs and schedules start from.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::StatusCode;
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};
use sortie_api::{
    OrgId, Timestamp, limits,
    workflow::{NOT_SAVED, Workflow, WorkflowDefinition, WorkflowSummary},
};
use sortie_engine::{Error, Put, SavedDefinition, StoredWorkflow};
use sortie_store::{Found, Store, runs::LargeText};

use super::listing::{Entry, Form, Listing, Source};
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
    fn from_query(pairs: &Pairs<'_>) -> ApiResult<Self> {
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
/// `input_schema` and `output_schema` where they are set.
#[utoipa::path(
    get, path = "/v1/workflows", tag = "workflows",
    params(("detail" = Option<bool>, Query, nullable = false, description = "Also show descriptions and schemas. Default `false`.", example = true)),
    responses((status = 200, description = "The workflows.", body = [WorkflowSummary], links(
        ("get_workflow" = (operation_id = "get_workflow", parameters(("name" = "$response.body#/0/name")))),
    ), example = json!([{
        "name": "daily-report", "description": "Yesterday's sales by region.",
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
            let summaries = Summaries {
                store: store.clone(),
                org: who.org,
            };
            let list = Listing::new(summaries, None, limits::SAVED_WORKFLOWS, Form::Array);
            list.respond(&app.bodies).await
        }
    }
}

/// List of an organization's workflows.
struct Summaries {
    store: Store,
    org: OrgId,
}

/// A summary as it is stored, which is as it was written for this answer.
#[derive(Serialize)]
#[serde(transparent)]
struct Summary {
    #[serde(skip)]
    name: String,
    text: Box<RawValue>,
}

impl Source for Summaries {
    type Item = Summary;
    type Position = String;

    fn stretch(&self) -> u32 {
        20
    }

    async fn read(&self, after: Option<String>, limit: u32) -> Result<Found<Summary, String>, Error> {
        let after = after.unwrap_or_default();
        let stored = self.store.workflow_summaries(self.org, after, limit).await?;
        let summary = |(name, text)| match RawValue::from_string(text) {
            Ok(text) => Ok(Summary { name, text }),
            Err(error) => Err(Error::Internal(format!(
                "the stored summary of a workflow cannot be read: {error}"
            ))),
        };
        Ok(Found::all(
            stored.into_iter().map(summary).collect::<Result<_, _>>()?,
        ))
    }

    fn position(&self, summary: &Summary) -> String {
        summary.name.clone()
    }

    fn entry(&mut self, summary: Summary) -> Result<Entry, Error> {
        Entry::of(&summary)
    }
}

/// Get a saved workflow
///
/// Returns the definition as it was saved, with its name, revision and times. Each run fills in the fields that the
/// definition leaves open.
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
    entry.respond(&app.bodies).await
}

/// Workflow whose definition is sent from the store.
#[derive(Serialize)]
struct LargeWorkflow {
    name: String,
    /// Place of the members of the definition.
    definition: (),
    revision: i64,
    created_at: Timestamp,
    updated_at: Timestamp,
}

/// Makes the entry of a workflow. A large definition is sent from the store: it may have 24 MiB.
fn entry_of(app: &App, org: OrgId, stored: StoredWorkflow) -> Result<Entry, Error> {
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
        definition: (),
        revision,
        created_at,
        updated_at,
    };
    let definition = app.texts.open(org, text);
    let entry = Entry::around(&record, "definition", definition, TextForm::Members)?;
    Ok(match saved {
        Some(text) => entry.hold_known(text),
        None => entry,
    })
}

/// Save a workflow
///
/// Creates the workflow or replaces it whole. The definition is checked now, but for the existence of its files and
/// connections, which each run checks. `input` is the default of runs that send none; it must match `input_schema`.
/// Credentials are not kept: use a saved connection where one needs them. The same definition again changes nothing;
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
    Ok(entry_of(&app, who.org, stored)?.respond_done(status, &app.bodies))
}

/// Delete a workflow
///
/// Deletes the workflow. Runs that were started from it go on, and keep its name.
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
