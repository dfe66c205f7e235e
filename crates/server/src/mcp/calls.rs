//! Calls of tools, and the lists of tools and runs.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rmcp::{
    RoleServer,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, GetTaskResult, JsonObject,
        ListToolsResult, ProgressNotificationParam, ResourceContents,
    },
    service::RequestContext,
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json, value::RawValue};
use sortie_api::{
    ErrorCode, Metadata, Refusal, Run, RunId, RunRequest, RunStatus, limits, workflow::WorkflowSummary,
};
use sortie_store::{
    Found,
    runs::{Created, LargeText, ListedRun, RunFilter},
    workflows::SummaryRow,
};
use tokio::time::Instant;

use super::{
    McpServer,
    catalog::ToolInput,
    resources::uri_of,
    results::{self, ListResult, Purpose},
};
use crate::{
    kit::{FromQuery as _, PageQuery, Pairs, parse_object, value_bytes},
    routes::{METADATA, parts},
};

/// Maximum number of workflows on a page of tools.
const PAGE: u32 = 100;

/// Memory for the tools of a page, in bytes. A page has at least one workflow.
const PAGE_BYTES: usize = 16 << 20;

/// Number of runs that `list_runs` returns by default.
const LISTED_RUNS: u32 = 20;

/// Largest part of an artifact that `read_artifact` returns, in bytes.
const PART_BYTES: u64 = 256 << 10;

/// Interval between two messages about the progress of a run.
const PROGRESS: Duration = Duration::from_secs(5);

/// Pause before the next look at a run that cannot be waited for: another node has its content.
const PAUSE: Duration = Duration::from_secs(1);

/// Argument of `start_run` that is no field of a run request.
const IDEMPOTENCY_KEY: &str = "idempotency_key";

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
    #[serde(default)]
    metadata: Metadata,
    limit: Option<i64>,
    cursor: Option<String>,
}

impl ListRuns {
    /// Returns the arguments as the query of the list of runs, which has the rules for them.
    fn query(&self) -> String {
        let statuses: Vec<&str> = self.status.iter().map(|status| status.as_str()).collect();
        let limit = self.limit.map(|limit| limit.to_string());
        let fields = [
            ("status", (!statuses.is_empty()).then(|| statuses.join(","))),
            ("workflow", self.workflow.clone()),
            ("tag", self.tag.clone()),
            ("limit", limit),
            ("cursor", self.cursor.clone()),
        ];
        let fields = fields
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)));
        let metadata = self.metadata.iter();
        let metadata = metadata.map(|(key, value)| (format!("{METADATA}{key}"), value.clone()));
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        fields
            .chain(metadata)
            .map(|(name, value)| format!("{}={}", encoded(&name), encoded(&value)))
            .collect::<Vec<_>>()
            .join("&")
    }
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

impl McpServer {
    /// Lists the tools for any run on the first page, and then the workflows by name.
    pub(super) async fn tools(&self, cursor: Option<String>) -> Result<ListToolsResult, Refusal> {
        let catalog = &self.app.mcp;
        let mut tools = match cursor {
            None => catalog.tools().to_vec(),
            Some(_) => Vec::new(),
        };
        let after = cursor.unwrap_or_default();
        let store = self.app.engine.store();
        let rows = store.workflow_summaries(self.who.org, after, PAGE + 1).await?;
        let (page, bytes) = page_of(&rows);
        let _room = self.app.bodies.answer_room(bytes).await?;
        let mut last = None;
        for row in page {
            let workflow = summary(row)?;
            if catalog.publishes(&workflow.name) {
                tools.push(catalog.tool_of(&workflow)?);
            }
            last = Some(workflow.name);
        }
        Ok(ListToolsResult {
            next_cursor: last.filter(|_| page.len() < rows.len()),
            ..ListToolsResult::with_all_items(tools)
        })
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
            "start_run" => results::of_run(&self.start_run(arguments).await?, None, Purpose::State)?.into(),
            "get_run" => {
                let OneRun { run } = parse(&arguments)?;
                self.result(run, Purpose::State).await?.into()
            }
            "wait_run" => {
                let OneRun { run } = parse(&arguments)?;
                let run = engine.look_at_run(org, run, Duration::ZERO).await?;
                self.result_or_task(run, context).await?
            }
            "cancel_run" => {
                let OneRun { run } = parse(&arguments)?;
                engine.cancel_run(org, run).await?;
                self.result(run, Purpose::State).await?.into()
            }
            "list_runs" => self.list_runs(&parse(&arguments)?).await?.into(),
            "read_artifact" => self.read_artifact(parse(&arguments)?).await?.into(),
            workflow => {
                let run = self.start_workflow(workflow, arguments).await?;
                self.result_or_task(run, context).await?
            }
        })
    }

    async fn start_run(&self, mut arguments: JsonObject) -> Result<Run, Refusal> {
        let catalog = &self.app.mcp;
        if let Some(unknown) = arguments
            .keys()
            .find(|name| !catalog.has_argument("start_run", name))
        {
            let unknown: String = unknown.chars().take(limits::NAME_CHARS).collect();
            return Err(
                ErrorCode::InvalidRequest.because(format!("{unknown}: start_run has no such argument"))
            );
        }
        let key = match arguments.remove(IDEMPOTENCY_KEY) {
            None => None,
            Some(Value::String(key)) => Some(key),
            Some(_) => {
                return Err(ErrorCode::InvalidRequest.because(format!("{IDEMPOTENCY_KEY}: must be a string")));
            }
        };
        self.start(parse(&arguments)?, key).await
    }

    async fn start(&self, request: RunRequest, idempotency: Option<String>) -> Result<Run, Refusal> {
        match self
            .app
            .engine
            .create_run(&self.who, request, idempotency)
            .await?
        {
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
        let input = ToolInput::of(&workflow)?.in_arguments(arguments)?;
        let request = RunRequest {
            workflow: Some(workflow.name),
            input,
            ..RunRequest::default()
        };
        Ok(self.start(request, None).await?)
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
            return Ok(CallToolResponse::Task(results::created(
                &run,
                self.app.engine.clock().now(),
            )));
        }
        self.wait(run.id, context).await?;
        Ok(self.result(run.id, Purpose::Result).await?.into())
    }

    /// Returns the state of the task of a run.
    pub(super) async fn task(&self, id: RunId) -> Result<GetTaskResult, Refusal> {
        let run = self
            .app
            .engine
            .look_at_run(self.who.org, id, Duration::ZERO)
            .await?;
        let result = if run.status.is_final() {
            Some(self.result(id, Purpose::Result).await?)
        } else {
            None
        };
        results::state(&run, result, self.app.engine.clock().now())
    }

    /// Waits until a run has ended, at most for as long as clients wait, and reports its progress if the client asks for it. Ends
    /// early when the client has gone or the node stops, without an effect on the run.
    async fn wait(&self, id: RunId, context: &RequestContext<RoleServer>) -> Result<(), Refusal> {
        let (began, patience) = (Instant::now(), self.app.call_patience);
        let token = context.meta.get_progress_token();
        let mut step = Duration::ZERO;
        loop {
            let run = tokio::select! {
                () = context.ct.cancelled() => return Ok(()),
                () = self.app.stop.cancelled() => return Ok(()),
                run = self.look_after(id, step) => run?,
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

    /// Returns a run when it has ended, and after `wait` at the latest.
    async fn look_after(&self, id: RunId, wait: Duration) -> Result<Run, Refusal> {
        let began = Instant::now();
        loop {
            let left = wait.saturating_sub(began.elapsed());
            let run = self.app.engine.look_at_run(self.who.org, id, left).await?;
            let left = wait.saturating_sub(began.elapsed());
            if run.status.is_final() || left.is_zero() {
                return Ok(run);
            }
            tokio::time::sleep(left.min(PAUSE)).await;
        }
    }

    /// Makes the result of a run as it is now. An output that can be read once is left out and stays readable: clients repeat
    /// calls, and read the result of a task more than once.
    async fn result(&self, id: RunId, purpose: Purpose) -> Result<CallToolResult, Refusal> {
        let engine = &self.app.engine;
        let run = engine.look_at_run(self.who.org, id, Duration::ZERO).await?;
        if run.zero_data_retention {
            return results::of_run(&run, None, purpose);
        }
        let ListedRun {
            run,
            has_large_output,
        } = engine.store().get_listed_run(self.who.org, id).await?;
        let output = if has_large_output {
            // The text, its value and both forms in the answer.
            let room = self.app.bodies.answer_room(limits::OUTPUT_BYTES * 4).await?;
            self.keep(room);
            Some(engine.large_text(self.who.org, LargeText::Output(id)).await?)
        } else {
            run.output.clone()
        };
        let output = match output {
            Some(text) => Some(self.output_of(&run, text).await?),
            None => None,
        };
        results::of_run(&run, output, purpose)
    }

    /// Returns the output of a run as JSON if the run has an output schema, else as text.
    async fn output_of(&self, run: &Run, text: String) -> Result<Value, Refusal> {
        if serde_json::from_str::<&RawValue>(&text).is_err() || !self.has_output_schema(run).await? {
            return Ok(Value::String(text));
        }
        self.keep(self.app.bodies.answer_room(value_bytes(text.as_bytes())).await?);
        serde_json::from_str(&text).map_err(Refusal::internal)
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

    async fn list_runs(&self, arguments: &ListRuns) -> Result<CallToolResult, Refusal> {
        let query = arguments.query();
        let pairs = Pairs::of(&query);
        let page = PageQuery::<LISTED_RUNS>::from_query(&pairs)?;
        let (runs, next_cursor) = self.runs(RunFilter::from_query(&pairs)?, &page).await?;
        results::structured(&ListResult {
            runs: runs.into_iter().map(Into::into).collect(),
            next_cursor,
        })
    }

    /// Returns a page of the runs that match a filter, newest first, and the cursor of the next one.
    pub(super) async fn runs<const DEFAULT: u32>(
        &self,
        filter: RunFilter,
        page: &PageQuery<DEFAULT>,
    ) -> Result<(Vec<Run>, Option<String>), Refusal> {
        let org = self.who.org;
        let cursors = self.app.cursors.list(parts(org, &filter));
        let limit = page.limit();
        let filter = RunFilter {
            before: page.before(&cursors)?,
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
        let bytes = self.bytes(&stored, offset, PART_BYTES).await?;
        let is_whole = bytes.len() as u64 == stored.size;
        let (part, length) = part_of(&bytes, (&stored.content_type, is_whole), || uri_of(run, &path));
        let next = offset.saturating_add(length as u64);
        let mut content = vec![part];
        if next < stored.size {
            content.push(ContentBlock::text(
                json!({"next_offset": next, "size": stored.size}).to_string(),
            ));
        }
        Ok(CallToolResult::success(content))
    }
}

/// Returns the workflows of a page, and the memory that their tools take.
fn page_of(rows: &[SummaryRow]) -> (&[SummaryRow], usize) {
    let (mut length, mut bytes) = (0, 0);
    for row in rows.iter().take(PAGE as usize) {
        // The schemas as values, and their text in the answer.
        let more = value_bytes(row.summary.as_bytes()).saturating_add(row.summary.len());
        if length > 0 && more > PAGE_BYTES - bytes {
            break;
        }
        length += 1;
        bytes = more.saturating_add(bytes).min(PAGE_BYTES);
    }
    (rows.get(..length).unwrap_or(rows), bytes)
}

/// Makes the content of a part of a file, and its length in bytes. Text ends with a whole character.
fn part_of(
    bytes: &[u8],
    (content_type, is_whole): (&str, bool),
    uri: impl FnOnce() -> String,
) -> (ContentBlock, usize) {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        // The part ends within a character.
        Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => bytes
            .get(..error.valid_up_to())
            .and_then(|text| std::str::from_utf8(text).ok()),
        Err(_) => None,
    };
    if let Some(text) = text {
        return (ContentBlock::text(text), text.len());
    }
    let data = STANDARD.encode(bytes);
    let content = if is_whole && content_type.starts_with("image/") {
        ContentBlock::image(data, content_type)
    } else {
        ContentBlock::resource(ResourceContents::blob(data, uri()).with_mime_type(content_type))
    };
    (content, bytes.len())
}

fn summary(row: &SummaryRow) -> Result<WorkflowSummary, Refusal> {
    let saved: WorkflowSummary = serde_json::from_str(&row.summary).map_err(|error| {
        Refusal::internal(format!(
            "the stored summary of a workflow cannot be read: {error}"
        ))
    })?;
    Ok(WorkflowSummary {
        updated_at: Some(row.updated_at),
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
    parse_object(&text)
}

#[cfg(test)]
mod tests {
    use sortie_api::Timestamp;

    use super::*;

    #[test]
    fn a_part_is_text_an_image_or_bytes() {
        let part = |bytes: &[u8], kind: (&str, bool)| {
            let (content, length) = part_of(bytes, kind, || "sortie://x".to_owned());
            (serde_json::to_value(content).unwrap(), length)
        };
        assert_eq!(
            part("größe".as_bytes(), ("text/plain", true)),
            (json!({"type": "text", "text": "größe"}), 7)
        );
        let cut = "größe".as_bytes().get(..3).unwrap();
        assert_eq!(
            part(cut, ("text/plain", false)),
            (json!({"type": "text", "text": "gr"}), 2)
        );
        let image = json!({"type": "image", "data": "iVA=", "mimeType": "image/png"});
        assert_eq!(part(&[0x89, 0x50], ("image/png", true)), (image, 2));
        let (bytes, length) = part(&[0xff, 0xfe, 0xfd], ("image/png", false));
        assert_eq!((&bytes["type"], length), (&json!("resource"), 3));
        assert_eq!(bytes["resource"]["blob"], "//79");
        assert_eq!(
            part(&[], ("text/plain", true)),
            (json!({"type": "text", "text": ""}), 0)
        );
    }

    #[test]
    fn a_page_ends_with_the_memory_for_it() {
        let row = |bytes: usize| SummaryRow {
            summary: "[".repeat(bytes),
            revision: 1,
            updated_at: Timestamp::from_micros(1),
        };
        let lengths = |rows: Vec<SummaryRow>| page_of(&rows).0.len();
        assert_eq!(lengths((0..101).map(|_| row(10)).collect()), 100);
        let large = 100 << 10;
        assert_eq!(lengths(vec![row(large), row(large), row(large)]), 2);
        assert_eq!(lengths(vec![row(PAGE_BYTES), row(10)]), 1, "never none");
        assert_eq!(lengths(Vec::new()), 0);
    }
}
