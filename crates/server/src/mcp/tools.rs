//! Tools of the MCP server: each saved workflow, and tools for any run.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rmcp::{
    RoleServer,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, GetTaskResult, JsonObject,
        ListToolsResult, ProgressNotificationParam, ResourceContents, Tool, ToolAnnotations, object,
    },
    service::RequestContext,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};
use sortie_api::{ErrorCode, Refusal, Run, RunId, RunRequest, RunStatus, limits, workflow::WorkflowSummary};
use sortie_engine::Stored;
use sortie_store::{
    Found,
    runs::{Created, LargeText, ListedRun, RunFilter},
    workflows::SummaryRow,
};
use tokio::time::Instant;

use super::{
    Server,
    resources::uri_of,
    results::{self, ListResult, Wanted},
};
use crate::kit::parse_json;

/// Number of workflows on a page of tools. Each may have two schemas of 64 KiB.
const PAGE: u32 = 100;

/// Number of runs that `list_runs` returns by default.
const LISTED_RUNS: u32 = 20;

/// Largest part of an artifact that `read_artifact` returns, in bytes.
const PART_BYTES: u64 = 256 << 10;

/// Interval between two messages about the progress of a run.
const PROGRESS: Duration = Duration::from_secs(5);

/// Name of the argument for a workflow with an input that is no object.
const INPUT: &str = "input";

/// Tools for any run, from `tools.json`.
#[derive(Debug, Deserialize)]
pub(crate) struct Catalog {
    /// Schema of a run as a tool returns it.
    run: Arc<JsonObject>,
    tools: Vec<Tool>,
}

impl Catalog {
    /// Reads the tools.
    pub(crate) fn parse() -> serde_json::Result<Self> {
        let mut catalog: Self = serde_json::from_str(include_str!("tools.json"))?;
        let run = Arc::clone(&catalog.run);
        for tool in &mut catalog.tools {
            let returns_run = matches!(&*tool.name, "start_run" | "get_run" | "wait_run" | "cancel_run");
            if returns_run {
                tool.output_schema = Some(Arc::clone(&run));
            }
        }
        Ok(catalog)
    }

    fn has(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool.name == name)
    }

    /// Makes the tool of a workflow.
    fn tool_of(&self, workflow: &WorkflowSummary) -> Result<Tool, Refusal> {
        let input = Input::of(workflow.input_schema.as_deref())?;
        let mut output = (*self.run).clone();
        if let Some(schema) = &workflow.output_schema
            && let Some(Value::Object(fields)) = output.get_mut("properties")
        {
            fields.insert("output".to_owned(), resource_schema(workflow, schema)?);
        }
        let description = workflow.description.clone();
        let description = description.unwrap_or_else(|| format!("Runs the workflow {}.", workflow.name));
        let annotations = ToolAnnotations::new().read_only(false).open_world(true);
        Ok(Tool::new(workflow.name.clone(), description, input.schema)
            .with_raw_output_schema(Arc::new(output))
            .with_annotations(annotations))
    }
}

/// Returns the output schema of a workflow as a part of another schema. References in it begin at its own root, so it gets an ID
/// of its own (JSON Schema 2020-12, section 8.2.1). The ID differs for each revision, because some clients keep schemas by ID.
fn resource_schema(workflow: &WorkflowSummary, schema: &RawValue) -> Result<Value, Refusal> {
    let mut schema: Value = serde_json::from_str(schema.get()).map_err(Refusal::internal)?;
    let (name, revision) = (&workflow.name, workflow.revision.unwrap_or_default());
    if let Value::Object(fields) = &mut schema
        && !fields.contains_key("$id")
        && has_reference(&Value::Object(fields.clone()))
    {
        let id = format!("urn:sortie:workflow:{name}:{revision}:output");
        fields.insert("$id".to_owned(), id.into());
    }
    Ok(schema)
}

fn has_reference(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => fields.contains_key("$ref") || fields.values().any(has_reference),
        Value::Array(items) => items.iter().any(has_reference),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Input of a workflow as the arguments of a tool, which are always an object.
struct Input {
    schema: JsonObject,
    form: Form,
}

/// Form of an input in the arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Any object, or no arguments for the default input of the workflow.
    Free,
    /// The arguments are the input.
    Object,
    /// The arguments have the input as [`INPUT`], because it may be no object.
    Member,
}

impl Input {
    fn of(schema: Option<&RawValue>) -> Result<Self, Refusal> {
        let Some(schema) = schema else {
            return Ok(Self {
                schema: object(json!({"type": "object"})),
                form: Form::Free,
            });
        };
        let schema: Value = serde_json::from_str(schema.get()).map_err(Refusal::internal)?;
        Ok(match schema {
            Value::Object(schema) if schema.get("type") == Some(&json!("object")) => Self {
                schema,
                form: Form::Object,
            },
            schema => Self {
                schema: object(json!({
                    "type": "object", "properties": {INPUT: schema}, "required": [INPUT], "additionalProperties": false
                })),
                form: Form::Member,
            },
        })
    }

    /// Returns the input in the arguments of a call.
    fn from_arguments(&self, mut arguments: JsonObject) -> Result<Option<Box<RawValue>>, Refusal> {
        let input = match self.form {
            Form::Free if arguments.is_empty() => None,
            Form::Free | Form::Object => Some(Value::Object(arguments)),
            Form::Member => arguments.remove(INPUT),
        };
        input
            .map(|input| to_raw_value(&input).map_err(Refusal::internal))
            .transpose()
    }
}

/// Arguments of the tools for one run.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OneRun {
    run: RunId,
}

/// Arguments of `list_runs`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListRuns {
    #[serde(default)]
    status: Vec<RunStatus>,
    workflow: Option<String>,
    tag: Option<String>,
    limit: Option<u32>,
    cursor: Option<String>,
}

/// Arguments of `read_artifact`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadArtifact {
    run: RunId,
    path: String,
    #[serde(default)]
    offset: u64,
}

/// Reason why a call has no result.
pub(super) enum NoResult {
    /// There is no such tool.
    UnknownTool,
    /// The engine refuses.
    Refused(Refusal),
}

impl From<Refusal> for NoResult {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl Server {
    /// Lists the tools for any run on the first page, and then the workflows by name.
    pub(super) async fn tools(&self, cursor: Option<String>) -> Result<ListToolsResult, Refusal> {
        let catalog = &self.app.mcp;
        let mut tools = match cursor {
            None => catalog.tools.clone(),
            Some(_) => Vec::new(),
        };
        let after = cursor.unwrap_or_default();
        let store = self.app.engine.store();
        let mut rows = store.workflow_summaries(self.who.org, after, PAGE + 1).await?;
        let has_more = rows.len() > PAGE as usize;
        rows.truncate(PAGE as usize);
        let workflows: Vec<WorkflowSummary> = rows.iter().map(summary).collect::<Result<_, _>>()?;
        let next = workflows
            .last()
            .filter(|_| has_more)
            .map(|last| last.name.clone());
        // A tool for any run hides a workflow of its name, which `start_run` can start.
        for workflow in workflows.iter().filter(|workflow| !catalog.has(&workflow.name)) {
            tools.push(catalog.tool_of(workflow)?);
        }
        let mut list = ListToolsResult::with_all_items(tools);
        list.next_cursor = next;
        Ok(list)
    }

    /// Calls a tool.
    pub(super) async fn call(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, NoResult> {
        let arguments = request.arguments.unwrap_or_default();
        let (engine, org) = (&self.app.engine, self.who.org);
        Ok(match &*request.name {
            "start_run" => {
                let run = self.start(parse(&arguments)?).await?;
                results::of_run(&run, None, Wanted::State)?.into()
            }
            "get_run" => {
                let OneRun { run } = parse(&arguments)?;
                self.result(run, Wanted::State).await?.into()
            }
            "wait_run" => {
                let OneRun { run } = parse(&arguments)?;
                let run = engine.look_at_run(org, run, Duration::ZERO).await?;
                self.result_or_task(run, context).await?
            }
            "cancel_run" => {
                let OneRun { run } = parse(&arguments)?;
                engine.cancel_run(org, run).await?;
                self.result(run, Wanted::State).await?.into()
            }
            "list_runs" => self.list(parse(&arguments)?).await?.into(),
            "read_artifact" => self.read_artifact(parse(&arguments)?).await?.into(),
            workflow => {
                let run = self.start_workflow(workflow, arguments).await?;
                self.result_or_task(run, context).await?
            }
        })
    }

    async fn start(&self, request: RunRequest) -> Result<Run, Refusal> {
        match self.app.engine.create_run(&self.who, request, None).await? {
            Created::New(run) | Created::Existing(run) => Ok(run),
        }
    }

    async fn start_workflow(&self, name: &str, arguments: JsonObject) -> Result<Run, NoResult> {
        let row = self.app.engine.store().workflow_summary(self.who.org, name).await;
        let row = match row {
            Err(sortie_store::Error::NotFound) => return Err(NoResult::UnknownTool),
            found => found.map_err(Refusal::from)?,
        };
        let workflow = summary(&row)?;
        let input = Input::of(workflow.input_schema.as_deref())?.from_arguments(arguments)?;
        let request = RunRequest {
            workflow: Some(workflow.name),
            input,
            ..RunRequest::default()
        };
        Ok(self.start(request).await?)
    }

    /// Answers by the result of a run, or by its task if the client knows tasks.
    async fn result_or_task(
        &self,
        run: Run,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, Refusal> {
        let capabilities = context.client_capabilities();
        let knows_tasks = capabilities.is_some_and(|client| client.supports_tasks());
        if knows_tasks && !run.status.is_final() {
            return Ok(CallToolResponse::Task(results::created(&run)));
        }
        self.wait(run.id, context).await?;
        Ok(self.result(run.id, Wanted::Result).await?.into())
    }

    /// Returns the state of the task of a run.
    pub(super) async fn task(&self, id: RunId) -> Result<GetTaskResult, Refusal> {
        let run = self
            .app
            .engine
            .look_at_run(self.who.org, id, Duration::ZERO)
            .await?;
        let result = match run.status.is_final() {
            true => Some(self.result(id, Wanted::Result).await?),
            false => None,
        };
        results::state(&run, result)
    }

    /// Waits until a run has ended, for the patience of clients at most, and reports its progress if the client asks for it. Ends early when
    /// the client has gone or the node stops. The run goes on.
    async fn wait(&self, id: RunId, context: &RequestContext<RoleServer>) -> Result<(), Refusal> {
        let (began, patience) = (Instant::now(), self.app.call_patience);
        let token = context.meta.get_progress_token();
        let mut step = Duration::ZERO;
        loop {
            let run = tokio::select! {
                () = context.ct.cancelled() => return Ok(()),
                () = self.app.stop.cancelled() => return Ok(()),
                run = self.app.engine.look_at_run(self.who.org, id, step) => run?,
            };
            let left = patience.saturating_sub(began.elapsed());
            if run.status.is_final() || left.is_zero() {
                return Ok(());
            }
            step = left;
            if let Some(token) = &token {
                step = left.min(PROGRESS);
                let progress = ProgressNotificationParam::new(token.clone(), began.elapsed().as_secs_f64())
                    .with_message(progress_of(&run));
                // It fails when the client has gone. The next step ends then.
                let _client_has_gone = context.peer.notify_progress(progress).await;
            }
        }
    }

    /// Makes the result of a run as it is now. An output that can be read once counts as read.
    async fn result(&self, id: RunId, wanted: Wanted) -> Result<CallToolResult, Refusal> {
        let engine = &self.app.engine;
        let ListedRun {
            run,
            has_large_output,
        } = engine.get_run(&self.who, id, Duration::ZERO, self.hop).await?;
        let _room;
        let output = if has_large_output {
            // The text, its value and both forms in the answer.
            _room = self.app.bodies.answer_room(limits::OUTPUT_BYTES * 4).await?;
            Some(engine.large_text(self.who.org, LargeText::Output(id)).await?)
        } else {
            run.output.clone()
        };
        let output = match output {
            Some(text) => Some(self.output_of(&run, text).await?),
            None => None,
        };
        results::of_run(&run, output, wanted)
    }

    /// Returns the output of a run as JSON if the run has an output schema, else as text.
    async fn output_of(&self, run: &Run, text: String) -> Result<Value, Refusal> {
        let Ok(value) = serde_json::from_str(&text) else {
            return Ok(Value::String(text));
        };
        match self.has_output_schema(run).await {
            Ok(true) => Ok(value),
            Ok(false) => Ok(Value::String(text)),
            // The definition of a run with zero data retention was not stored.
            Err(refusal) if refusal.code == ErrorCode::Gone => Ok(Value::String(text)),
            Err(refusal) => Err(refusal),
        }
    }

    async fn has_output_schema(&self, run: &Run) -> Result<bool, Refusal> {
        /// The part of a definition that matters here.
        #[derive(Deserialize)]
        struct Definition<'a> {
            #[serde(borrow)]
            output_schema: Option<&'a RawValue>,
        }
        let (engine, org) = (&self.app.engine, self.who.org);
        let text = match engine.run_definition(org, run.id).await?.request {
            Some(text) => text,
            None => engine.large_text(org, LargeText::Definition(run.id)).await?,
        };
        let definition: Definition<'_> = serde_json::from_str(&text).map_err(Refusal::internal)?;
        Ok(definition.output_schema.is_some())
    }

    async fn list(&self, arguments: ListRuns) -> Result<CallToolResult, Refusal> {
        let limit = arguments.limit.unwrap_or(LISTED_RUNS);
        if !(1..=limits::PAGE).contains(&limit) {
            return Err(ErrorCode::InvalidRequest.because(format!("limit: must be 1 to {}", limits::PAGE)));
        }
        let filter = RunFilter {
            statuses: arguments.status,
            workflow: arguments.workflow,
            tag: arguments.tag,
            ..RunFilter::default()
        };
        let (runs, next_cursor) = self.runs(filter, limit, arguments.cursor).await?;
        results::structured(&ListResult {
            runs: runs.into_iter().map(Into::into).collect(),
            next_cursor,
        })
    }

    /// Returns a page of the runs that match a filter, newest first, and the cursor of the next one.
    pub(super) async fn runs(
        &self,
        filter: RunFilter,
        limit: u32,
        cursor: Option<String>,
    ) -> Result<(Vec<Run>, Option<String>), Refusal> {
        let org = self.who.org;
        let cursors = self.app.cursors.list(crate::routes::parts(org, &filter));
        let before = cursor
            .map(|cursor| cursors.position(&cursor))
            .transpose()
            .map_err(|rule| ErrorCode::InvalidRequest.because(format!("cursor: {rule}")))?;
        let filter = RunFilter {
            before,
            limit,
            ..filter
        };
        let Found { items, stopped_at } = self.app.engine.store().list_runs(org, filter).await?;
        let is_full = items.len() >= limit as usize;
        let last = items.last().filter(|_| is_full);
        let next = stopped_at.or(last.map(|last| (last.run.created_at, last.run.id)));
        let runs = items.into_iter().map(|listed| listed.run).collect();
        Ok((runs, next.map(|next| cursors.after(next))))
    }

    async fn read_artifact(&self, arguments: ReadArtifact) -> Result<CallToolResult, Refusal> {
        let ReadArtifact { run, path, offset } = arguments;
        let stored = self.app.engine.stored_artifact(self.who.org, run, &path).await?;
        let (bytes, _room) = self.bytes(&stored, offset, PART_BYTES).await?;
        let (part, length) = part_of(bytes, &stored, || uri_of(run, &path));
        let next = offset.saturating_add(length);
        let mut content = vec![part];
        if next < stored.size {
            content.push(ContentBlock::text(
                json!({"next_offset": next, "size": stored.size}).to_string(),
            ));
        }
        Ok(CallToolResult::success(content))
    }
}

/// Makes the content of a part of a file, and its length. Text ends with a whole character.
fn part_of(bytes: Vec<u8>, stored: &Stored, uri: impl FnOnce() -> String) -> (ContentBlock, u64) {
    let length = bytes.len() as u64;
    let whole = match std::str::from_utf8(&bytes) {
        Ok(text) => Some(text),
        // The part ends within a character.
        Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => bytes
            .get(..error.valid_up_to())
            .and_then(|text| std::str::from_utf8(text).ok()),
        Err(_) => None,
    };
    if let Some(text) = whole {
        return (ContentBlock::text(text), text.len() as u64);
    }
    let data = STANDARD.encode(&bytes);
    let is_image = stored.content_type.starts_with("image/") && length == stored.size;
    let content = if is_image {
        ContentBlock::image(data, stored.content_type.clone())
    } else {
        let blob = ResourceContents::blob(data, uri()).with_mime_type(stored.content_type.clone());
        ContentBlock::resource(blob)
    };
    (content, length)
}

fn summary(row: &SummaryRow) -> Result<WorkflowSummary, Refusal> {
    let saved: WorkflowSummary = serde_json::from_str(&row.summary).map_err(|error| {
        Refusal::internal(format!(
            "the stored summary of a workflow cannot be read: {error}"
        ))
    })?;
    Ok(WorkflowSummary {
        revision: Some(row.revision),
        ..saved
    })
}

/// Describes the progress of a run in a sentence.
fn progress_of(run: &Run) -> String {
    let usage = run.usage.unwrap_or_default();
    format!(
        "{} is {}: {} model calls, {} tool calls, {} micros",
        run.id, run.status, usage.model_calls, usage.tool_calls, run.cost_micros
    )
}

/// Reads the arguments of a tool. They are read from text, which is the form that fields of any JSON are kept in.
fn parse<T: DeserializeOwned>(arguments: &JsonObject) -> Result<T, Refusal> {
    let text = serde_json::to_string(arguments).map_err(Refusal::internal)?;
    parse_json(&text)
}
