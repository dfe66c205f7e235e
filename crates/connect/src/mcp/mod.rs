//! MCP servers as tools. The agent gets each tool of a server under the connection's name.
//!
//! A server's descriptions of its tools are untrusted: they have a maximum length, and are cleaned and marked. Results have a
//! maximum size and are redacted. A server that is slow, malicious, unavailable or sends too much causes a tool error, or at the
//! start of a run a clean failure. It never blocks a run for longer than the timeout of a call.

mod content;
mod dial;
mod endpoint;
mod events;
mod frames;
mod http_sse;
mod lenient;
mod listing;
mod meter;
mod pipes;
mod schema;
mod session;
mod task_report;
mod tasks;
mod wire;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use rmcp::model::JsonObject;
use serde_json::{Value, value::RawValue};
use sortie_agent::{
    Tool, ToolContent,
    model::ToolDefinition,
    schema::Schema,
    tool::{Begun, Context, Effect, Order, TaskError, ToolError, fitted_arguments},
};
use tokio::task::spawn_blocking;

pub use self::pipes::{Program, ProgramEnd, StdioLauncher, StdioProcess};
pub(crate) use self::{
    dial::{Dial, Way},
    http_sse::Outlets,
    pipes::program_name,
    session::{CALL_TIMEOUT, Session},
};
use self::{
    listing::{Offer, choose},
    meter::Meter,
    session::{Answered, CallError},
};
use crate::{
    Failure,
    call::{Call, CallEnd},
    text,
};

/// Returns the tools of a session, and messages about omitted ones.
pub(crate) async fn tools(
    connection: &str,
    allowed: Option<&[String]>,
    session: &Arc<Session>,
) -> Result<(Vec<McpTool>, Vec<String>), Failure> {
    let listed = session.tools().await?;
    let mut chosen = choose(connection, &listed.tools, allowed);
    if listed.is_repeated {
        chosen.notes.push(format!(
            "connection `{connection}`: the list of tools repeats itself: each tool is used once"
        ));
    }
    let tools = chosen
        .offers
        .into_iter()
        .map(|offer| McpTool {
            connection: connection.to_owned(),
            // If we cannot parse the schema, only the server checks the arguments.
            real_schema: offer
                .real_parameters
                .as_deref()
                .and_then(|schema| Schema::compile(schema).ok())
                .map(Arc::new),
            offer,
            session: Arc::clone(session),
        })
        .collect();
    Ok((tools, chosen.notes))
}

/// Tool of an MCP server.
pub(crate) struct McpTool {
    connection: String,
    offer: Offer,
    /// The server's schema, if the model gets a repaired one.
    real_schema: Option<Arc<Schema>>,
    session: Arc<Session>,
}

impl McpTool {
    /// Returns the name at the server.
    pub(crate) fn server_name(&self) -> &str {
        &self.offer.tool
    }

    fn own_effect(&self) -> Effect {
        if self.offer.is_repeatable {
            Effect::Nothing
        } else {
            Effect::Outside
        }
    }

    async fn begin_call(&self, raw: &RawValue, context: Context<'_>) -> Result<Begun, ToolError> {
        let arguments = self.arguments(raw).await?;
        let meter = Arc::new(Meter::default());
        let call = Call::begin(&self.connection, "tools/call", &self.offer.tool);
        let asked = self
            .session
            .call(&self.offer.tool, arguments, self.own_effect(), &meter)
            .await;
        self.record(call, &meter, context).await?;
        match asked {
            Ok(Answered::Result(result)) => self.content(&result, context).map(Begun::Ended),
            Ok(Answered::Task(task)) => Ok(Begun::Task(task)),
            Err(error) => Err(ToolError::ToModel(self.told(&error, context))),
        }
    }

    async fn wait_for(&self, task: &str, context: Context<'_>) -> Result<ToolContent, TaskError> {
        let meter = Meter::default();
        let call = Call::begin(&self.connection, "tasks/get", &self.offer.tool);
        let waited = self.session.wait(task, &meter).await;
        self.record(call, &meter, context).await?;
        let error = match waited {
            Ok(result) => return Ok(self.content(&result, context)?),
            Err(error) => error,
        };
        let told = self.told(&error, context);
        Err(match error {
            CallError::Server(_) => ToolError::ToModel(told).into(),
            CallError::Broken(_) | CallError::Unsent(_) => TaskError::Unknown(told),
        })
    }

    async fn record(&self, call: Call, meter: &Meter, context: Context<'_>) -> Result<(), ToolError> {
        let end = CallEnd {
            status: meter.status(),
            bytes: meter.bytes(),
        };
        call.record(end, self.session.redactor(), context).await
    }

    /// Returns the content of a result for the model. A result can be an error.
    fn content(&self, result: &Value, context: Context<'_>) -> Result<ToolContent, ToolError> {
        let mut media = context.result_media();
        let rendered = content::render(result, &mut |data| Some(media.take(data)));
        let words = self.shown(&rendered.text, context);
        if rendered.is_error {
            Err(ToolError::ToModel(words))
        } else {
            Ok(media.with_text(words))
        }
    }

    /// Returns the text of an error for the model.
    fn told(&self, error: &CallError, context: Context<'_>) -> String {
        let words = match error {
            CallError::Server(why) => why,
            CallError::Broken(failure) => &self.broken(failure),
            CallError::Unsent(failure) => &format!("connection `{}`: {failure}", self.connection),
        };
        self.shown(words, context)
    }

    fn shown(&self, words: &str, context: Context<'_>) -> String {
        let words = self.session.redactor().redact(words);
        text::bounded(&words, context.output_bytes).into_owned()
    }

    /// Returns the arguments with the server's names. If the model got another schema, checks them against the server's.
    async fn arguments(&self, raw: &RawValue) -> Result<JsonObject, ToolError> {
        let mut arguments = fitted_arguments(&self.definition(), raw)?;
        for (shown, real) in &self.offer.renamed {
            if let Some(value) = arguments.remove(shown) {
                arguments.entry(real).or_insert(value);
            }
        }
        if let Some(schema) = self.real_schema.clone() {
            let text = Value::Object(arguments.clone()).to_string();
            // The check can take a second of CPU time.
            let checked = spawn_blocking(move || schema.check("arguments", &text)).await;
            if let Ok(Err(problems)) = checked {
                return Err(ToolError::NotSent(problems.join("; ")));
            }
        }
        Ok(arguments)
    }

    fn broken(&self, failure: &Failure) -> String {
        let doubt = match self.own_effect() {
            Effect::Outside | Effect::DirectoryAndOutside => "; it is unknown whether the call took place",
            Effect::Nothing | Effect::Directory => "",
        };
        format!("connection `{}`: {failure}{doubt}", self.connection)
    }
}

impl Tool for McpTool {
    fn definition(&self) -> ToolDefinition<'_> {
        ToolDefinition {
            name: &self.offer.name,
            description: &self.offer.description,
            parameters: &self.offer.parameters,
        }
    }

    fn order(&self) -> Order {
        if self.offer.is_read_only {
            Order::SideBySide
        } else {
            Order::OneByOne
        }
    }

    fn effect(&self, _arguments: &RawValue) -> Effect {
        self.own_effect()
    }

    fn call<'a>(
        &'a self,
        arguments: Box<RawValue>,
        context: Context<'a>,
    ) -> BoxFuture<'a, Result<ToolContent, ToolError>> {
        Box::pin(async move {
            match self.begin_call(&arguments, context).await? {
                Begun::Ended(output) => Ok(output),
                Begun::Task(task) => Ok(self.wait_for(&task, context).await?),
            }
        })
    }

    fn begin<'a>(
        &'a self,
        arguments: Box<RawValue>,
        context: Context<'a>,
    ) -> BoxFuture<'a, Result<Begun, ToolError>> {
        Box::pin(async move { self.begin_call(&arguments, context).await })
    }

    fn wait<'a>(
        &'a self,
        task: String,
        context: Context<'a>,
    ) -> BoxFuture<'a, Result<ToolContent, TaskError>> {
        Box::pin(async move { self.wait_for(&task, context).await })
    }
}
