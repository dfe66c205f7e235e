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
mod wire;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use rmcp::model::JsonObject;
use serde_json::{Value, value::RawValue};
use sortie_agent::{
    Tool, ToolContent,
    model::ToolDefinition,
    schema::Schema,
    tool::{Context, Effect, Order, ToolError, fitted_arguments},
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
    session::CallError,
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
            "connection `{connection}`: the list of tools begins again in place of its end: each tool is taken once"
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

    async fn ask(&self, raw: &RawValue, context: Context<'_>) -> Result<ToolContent, ToolError> {
        let arguments = self.arguments(raw).await?;
        let meter = Arc::new(Meter::default());
        let call = Call::begin(&self.connection, "tools/call", &self.offer.tool);
        let asked = self
            .session
            .call(&self.offer.tool, arguments, self.own_effect(), &meter)
            .await;
        let redactor = self.session.redactor();
        let end = CallEnd {
            status: meter.status(),
            bytes: meter.bytes(),
        };
        call.record(end, redactor, context).await?;
        let mut media = context.result_media();
        let (words, is_error) = match asked {
            Ok(result) => {
                let rendered = content::render(&result, &mut |data| Some(media.take(data)));
                (rendered.text, rendered.is_error)
            }
            Err(CallError::Server(why)) => (why, true),
            Err(CallError::Broken(failure)) => (self.broken(&failure), true),
            Err(CallError::Unsent(failure)) => (format!("connection `{}`: {failure}", self.connection), true),
        };
        let words = redactor.redact(&words);
        let words = text::bounded(&words, context.output_bytes).into_owned();
        if is_error {
            Err(ToolError::ToModel(words))
        } else {
            Ok(media.with_text(words))
        }
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
            Effect::Outside | Effect::DirectoryAndOutside => "; whether the call took place is not known",
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
        Box::pin(async move { self.ask(&arguments, context).await })
    }
}
