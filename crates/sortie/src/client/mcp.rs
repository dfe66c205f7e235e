//! Requests to the MCP server of an engine.

use std::{collections::VecDeque, time::Duration};

use reqwest::{Method, RequestBuilder, Response, header};
use serde_json::Value;
use sortie_api::plain;
use sortie_net::{
    read_body,
    sse::{Message, Parser},
};

use super::{Client, REFUSAL_BYTES, RefusalHead, http_client, rate_limit::retry_after};
use crate::failure::{Failure, Result};

/// Silence after which a connection counts as lost. The engine answers a call within 50 seconds.
const SILENCE: Duration = Duration::from_secs(65);

/// Largest accepted message in a stream.
const MESSAGE_BYTES: usize = 32 << 20;

const BOTH: &str = "application/json, text/event-stream";

impl Client {
    /// Returns a client that waits as long as calls of tools take.
    pub(crate) fn for_mcp(&self) -> Result<Self> {
        Ok(Self {
            http: http_client(&self.base, SILENCE)?,
            ..self.clone()
        })
    }

    /// Sends a message with these headers.
    pub(crate) async fn mcp(&self, message: &Value, headers: &[(&'static str, String)]) -> Result<McpAnswer> {
        let mut request = self
            .request(Method::POST, "mcp")?
            .header(header::ACCEPT, BOTH)
            .json(message);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        self.mcp_answer(request).await
    }

    /// Opens the stream of changes for clients of revisions before 2026-07-28.
    pub(crate) async fn mcp_changes(&self) -> Result<McpAnswer> {
        let request = self.request(Method::GET, "mcp")?;
        self.mcp_answer(request.header(header::ACCEPT, "text/event-stream"))
            .await
    }

    /// Returns the answer. An error of the protocol is an answer too, whatever its status.
    async fn mcp_answer(&self, request: RequestBuilder) -> Result<McpAnswer> {
        let response = request.send().await.map_err(|error| self.unreachable(error))?;
        let kind = response.headers().get(header::CONTENT_TYPE);
        let is_stream = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        if response.status().is_success() {
            return Ok(if is_stream {
                McpAnswer::Stream(Box::new(McpStream {
                    response,
                    parser: Parser::new(MESSAGE_BYTES),
                    ready: VecDeque::new(),
                }))
            } else {
                McpAnswer::One(Some(self.read(response).await?))
            });
        }
        let (head, retry_after) = (RefusalHead::of(&response), retry_after(&response));
        let body = read_body(response, REFUSAL_BYTES).await.unwrap_or_default();
        match serde_json::from_slice::<Value>(&body) {
            Ok(error) if error.get("jsonrpc").is_some() => Ok(McpAnswer::One(Some(error))),
            Ok(_) | Err(_) => {
                let mut refusal = self.explain(&head, &body);
                refusal.retry_after = retry_after;
                Err(refusal)
            }
        }
    }
}

/// Answer of the MCP server: one message, or a stream of them.
#[derive(Debug)]
pub(crate) enum McpAnswer {
    One(Option<Value>),
    Stream(Box<McpStream>),
}

/// Stream of messages that is being read.
#[derive(Debug)]
pub(crate) struct McpStream {
    response: Response,
    parser: Parser,
    ready: VecDeque<Message>,
}

impl McpAnswer {
    /// The next message; `None` after the last one.
    pub(crate) async fn next(&mut self) -> Result<Option<Value>> {
        let McpStream {
            response,
            parser,
            ready,
        } = match self {
            Self::One(message) => return Ok(message.take()),
            Self::Stream(stream) => &mut **stream,
        };
        let broken = |what: String| Failure::unavailable(format!("cannot read the answer: {what}"));
        loop {
            if let Some(message) = ready.pop_front() {
                // A server may begin a stream with an empty message.
                if message.data.is_empty() {
                    continue;
                }
                let parsed = serde_json::from_str(&message.data);
                return parsed.map(Some).map_err(|error| broken(plain::json(&error)));
            }
            let chunk = response.chunk().await;
            let Some(chunk) = chunk.map_err(|error| broken(sortie_net::Error::from(error).to_string()))?
            else {
                return Ok(None);
            };
            parser
                .push(&chunk, ready)
                .map_err(|error| broken(error.to_string()))?;
        }
    }
}
