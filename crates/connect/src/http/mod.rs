//! HTTP APIs as tools: one tool per connection, which sends one request.
//!
//! A request stays on the connection's origin and below its path, uses a permitted method, and carries the connection's
//! credentials; the agent cannot override their headers. Read-only requests follow up to five redirects within the connection. A
//! response with an error status is a tool error and never ends the run.

mod answer;
mod arguments;
mod scope;

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use reqwest::{Method, Response, header::LOCATION};
use serde_json::{json, value::RawValue};
use sortie_agent::{
    Tool, ToolContent,
    model::ToolDefinition,
    tool::{Context, Effect, Order, ToolError, arguments_of},
};
use tokio::time::{Instant, timeout_at};
use url::Url;

use self::{
    answer::Answer,
    arguments::{Arguments, METHODS, is_safe},
    scope::Scope,
};
use crate::{
    call::{Call, CallEnd},
    outlet::{Outgoing, Outlet, SendError},
    text,
    tool_name::tool_name,
};

/// Timeout of a request with its redirects.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);
/// Maximum number of redirects.
const REDIRECTS: usize = 5;
/// Maximum length of a connection's description for the model, in bytes.
const DESCRIPTION_BYTES: usize = 1024;

/// The tool of an HTTP connection.
pub(crate) struct HttpTool {
    connection: String,
    name: String,
    description: String,
    parameters: String,
    allowed: Vec<Method>,
    scope: Scope,
    outlet: Arc<Outlet>,
}

impl HttpTool {
    pub(crate) fn new(
        connection: &str,
        description: Option<&str>,
        url: &Url,
        allowed: Option<&[Method]>,
        outlet: Arc<Outlet>,
    ) -> Self {
        let allowed = allowed.map_or_else(|| METHODS.to_vec(), <[Method]>::to_vec);
        let shown = format!("{}{}", url.origin().ascii_serialization(), url.path());
        let mut text = format!(
            "Makes an HTTP request through the connection `{connection}` to {}. The engine adds the credentials. Paths \
             are below that URL.",
            outlet.redactor().redact(&shown)
        );
        if let Some(description) = description {
            let description = text::visible(text::head(description, DESCRIPTION_BYTES));
            text.push_str("\nWhat it is for: ");
            text.push_str(&description);
        }
        Self {
            connection: connection.to_owned(),
            name: tool_name(connection, "request"),
            description: text,
            parameters: parameters(&allowed),
            allowed,
            scope: Scope::new(url.clone()),
            outlet,
        }
    }

    async fn request(&self, raw: &RawValue, context: Context<'_>) -> Result<ToolContent, ToolError> {
        let arguments: Arguments = arguments_of(&self.definition(), raw)?;
        let request = arguments
            .request(&self.allowed, &self.scope, &self.outlet)
            .map_err(ToolError::ToModel)?;
        self.exchange(request, context).await
    }

    /// Sends the request and follows permitted redirects.
    async fn exchange(&self, mut request: Outgoing, context: Context<'_>) -> Result<ToolContent, ToolError> {
        let deadline = Instant::now() + REQUEST_TIMEOUT;
        let mut note = None;
        for hop in 0..=REDIRECTS {
            let answer = self.send(&request, deadline, context).await?;
            if answer.status.is_redirection()
                && let Some(target) = answer.location(&request.url)
            {
                if !self.scope.contains(&target) {
                    note = Some("not followed: it leads out of the connection");
                } else if !matches!(request.method, Method::GET | Method::HEAD) {
                    note = Some("not followed: only GET and HEAD requests are");
                } else if hop == REDIRECTS {
                    note = Some("not followed: it is one redirect too many");
                } else {
                    request.url = target;
                    continue;
                }
            }
            return self.told(&answer, note, context);
        }
        Err(ToolError::ToModel("too many redirects".to_owned()))
    }

    fn told(
        &self,
        answer: &Answer,
        note: Option<&str>,
        context: Context<'_>,
    ) -> Result<ToolContent, ToolError> {
        let text = answer.text(note);
        let text = self.outlet.redactor().redact(&text);
        let text = text::bounded(&text, context.output_bytes).into_owned();
        if answer.status.is_client_error() || answer.status.is_server_error() {
            return Err(ToolError::ToModel(text));
        }
        Ok(ToolContent::Text(text))
    }

    /// Sends a request and records it as a `connection_call`.
    async fn send(
        &self,
        request: &Outgoing,
        deadline: Instant,
        context: Context<'_>,
    ) -> Result<Answer, ToolError> {
        let call = Call::begin(
            &self.connection,
            request.method.as_str(),
            self.scope.below(&request.url),
        );
        let sent = timeout_at(deadline, async {
            let response: Response = self.outlet.send(request).await?;
            let status = response.status();
            Ok::<_, SendError>((status, Answer::read(response).await))
        })
        .await;
        let (end, result) = match sent {
            Ok(Ok((status, Ok(answer)))) => {
                let end = CallEnd {
                    status: Some(status.as_u16()),
                    bytes: answer.bytes(),
                };
                (end, Ok(answer))
            }
            Ok(Ok((status, Err(error)))) => {
                let end = CallEnd {
                    status: Some(status.as_u16()),
                    bytes: 0,
                };
                (end, Err(format!("the answer broke off: {error}")))
            }
            Ok(Err(error)) => (CallEnd::default(), Err(error.to_string())),
            Err(_) => {
                let why = format!("no whole answer within {} s", REQUEST_TIMEOUT.as_secs());
                (CallEnd::default(), Err(why))
            }
        };
        call.record(end, self.outlet.redactor(), context).await?;
        result.map_err(|why| {
            let told = format!("connection `{}`: {why}", self.connection);
            ToolError::ToModel(self.outlet.redactor().redact(&told).into_owned())
        })
    }
}

impl Answer {
    /// Returns the target of a redirect.
    fn location(&self, from: &Url) -> Option<Url> {
        let location = self.headers().get(LOCATION)?.to_str().ok()?;
        from.join(location).ok()
    }
}

impl Tool for HttpTool {
    fn definition(&self) -> ToolDefinition<'_> {
        ToolDefinition {
            name: &self.name,
            description: &self.description,
            parameters: &self.parameters,
        }
    }

    fn order(&self) -> Order {
        if self.allowed.iter().all(is_safe) {
            Order::SideBySide
        } else {
            Order::OneByOne
        }
    }

    fn effect(&self, arguments: &RawValue) -> Effect {
        // Invalid arguments are rejected before anything is sent.
        arguments_of::<Arguments>(&self.definition(), arguments)
            .map_or(Effect::Nothing, |arguments| arguments.effect())
    }

    fn call<'a>(
        &'a self,
        arguments: Box<RawValue>,
        context: Context<'a>,
    ) -> BoxFuture<'a, Result<ToolContent, ToolError>> {
        Box::pin(async move { self.request(&arguments, context).await })
    }
}

/// The JSON Schema of the arguments.
fn parameters(allowed: &[Method]) -> String {
    let methods: Vec<&str> = allowed.iter().map(Method::as_str).collect();
    json!({
        "type": "object",
        "properties": {
            "method": {"type": "string", "enum": methods},
            "path": {"type": "string", "description": "Path below the connection's URL, without query."},
            "query": {"type": "object", "description": "Query parameters; a list repeats its name."},
            "headers": {"type": "object", "description": "More request headers.", "additionalProperties": {"type": "string"}},
            "json": {"description": "Body as JSON."},
            "body": {"type": "string", "description": "Body as text; name its content-type in headers."},
            "idempotency_key": {
                "type": "string",
                "description": "Sent as Idempotency-Key. Set it only where the API supports it: the request may then be repeated."
            }
        },
        "required": ["method"],
        "additionalProperties": false
    })
    .to_string()
}
