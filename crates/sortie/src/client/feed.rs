//! The feed of a list of runs, across lost connections.

use std::{collections::VecDeque, time::Duration};

use reqwest::{Method, Response, StatusCode, header};
use sortie_net::sse::{Message, Parser};
use tokio::time::Instant;

use super::{Client, Parameter, path_of};
use crate::failure::{Exit, Failure, Result};

/// Largest accepted message: a run without its output.
const MESSAGE_BYTES: usize = 1 << 20;

/// Time for which the client retries an engine that does not answer.
const PATIENCE: Duration = Duration::from_mins(5);

/// Pause before a reconnection.
const PAUSE: Duration = Duration::from_secs(2);

impl Client {
    /// The changes of the runs that match the filters.
    pub(crate) fn feed(&self, filters: &[Parameter]) -> Feed {
        Feed {
            client: self.clone(),
            path: path_of("v1/runs", filters),
            position: None,
            stream: None,
            ready: VecDeque::new(),
            away_since: None,
        }
    }
}

/// Message of a feed.
#[derive(Debug)]
pub(crate) enum Change {
    /// A run as the list has it, as JSON.
    Run(String),
    /// Changes were missed: the list has to be loaded again.
    Reset,
    /// The engine does not answer. The next message follows another try.
    Away(Failure),
}

/// Feed across reconnections.
pub(crate) struct Feed {
    client: Client,
    path: String,
    /// Position after the last message.
    position: Option<String>,
    stream: Option<(Response, Parser)>,
    ready: VecDeque<Message>,
    /// Time since which the engine does not answer.
    away_since: Option<Instant>,
}

impl Feed {
    /// The next message. Cancel-safe: dropping the call loses no message.
    pub(crate) async fn next(&mut self) -> Result<Change> {
        loop {
            while let Some(message) = self.ready.pop_front() {
                self.position = Some(message.last_id.to_string());
                match message.event.as_str() {
                    "run" => return Ok(Change::Run(message.data)),
                    "reset" => return Ok(Change::Reset),
                    // Later versions may have further messages.
                    _ => {}
                }
            }
            if self.away_since.is_some() && self.stream.is_none() {
                tokio::time::sleep(PAUSE).await;
            }
            match self.fill().await {
                Ok(()) => self.away_since = None,
                Err(broken) => {
                    self.stream = None;
                    let since = *self.away_since.get_or_insert_with(Instant::now);
                    if broken.exit != Exit::Unavailable || since.elapsed() >= PATIENCE {
                        return Err(broken);
                    }
                    return Ok(Change::Away(broken));
                }
            }
        }
    }

    /// Reads from the stream, or opens it.
    async fn fill(&mut self) -> Result<()> {
        let broken = |text: String| Failure::unavailable(format!("the feed of runs broke off: {text}"));
        let Some((response, parser)) = &mut self.stream else {
            let mut request = self
                .client
                .request(Method::GET, &self.path)?
                .header(header::ACCEPT, "text/event-stream");
            if let Some(position) = &self.position {
                request = request.header("last-event-id", position);
            }
            let response = self.client.send(request).await?;
            if response.status() != StatusCode::OK {
                return Err(broken(response.status().to_string()));
            }
            self.stream = Some((response, Parser::new(MESSAGE_BYTES)));
            return Ok(());
        };
        let chunk = response
            .chunk()
            .await
            .map_err(|error| Failure::unavailable(sortie_net::Error::from(error).to_string()))?
            .ok_or_else(|| broken("the engine ended it".to_owned()))?;
        parser
            .push(&chunk, &mut self.ready)
            .map_err(|error| broken(error.to_string()))
    }
}
