//! MCP servers as tools: each tool of a server is one of the agent's, under the connection's name.
//!
//! What the server says of its tools is a stranger's text: bounded, cleaned and marked. A result is bounded and has the
//! credentials taken out. A server that is slow, huge, malicious or gone costs a tool error, and at the start of a run
//! a clean failure; it never holds a run up for longer than a call may take.

mod content;
mod endpoint;
mod events;
mod frames;
mod http_sse;
mod listing;
mod meter;
mod pipes;
mod session;
mod wire;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::value::RawValue;
use sortie_agent::{
    Tool, ToolContent,
    model::ToolDefinition,
    tool::{Context, Effect, Order, ToolError, fitted_arguments},
};

pub use self::pipes::{Program, ProgramEnd, StdioLauncher, StdioProcess};
pub(crate) use self::{
    http_sse::Outlets,
    pipes::program_name,
    session::{CALL_TIMEOUT, Dial, Session, Way},
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

/// The tools of a session, and sentences about those that were left out.
pub(crate) async fn tools(
    connection: &str,
    allowed: Option<&[String]>,
    session: &Arc<Session>,
) -> Result<(Vec<McpTool>, Vec<String>), Failure> {
    let listed = session.tools().await?;
    let chosen = choose(connection, &listed, allowed);
    let tools = chosen
        .offers
        .into_iter()
        .map(|offer| McpTool {
            connection: connection.to_owned(),
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
    session: Arc<Session>,
}

impl McpTool {
    /// The server's name for it.
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
        let arguments = fitted_arguments(&self.definition(), raw)?;
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
        let (words, is_error) = match asked {
            Ok(result) => {
                let rendered = content::render(&result);
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
            Ok(ToolContent::Text(words))
        }
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
