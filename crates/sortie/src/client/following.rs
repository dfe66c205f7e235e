//! A run's stream, across lost connections.

use std::{collections::VecDeque, time::Duration};

use reqwest::{Method, Response, StatusCode, header};
use sortie_api::{Event, Run, RunId};
use sortie_net::sse::{Message, Parser};

use super::Client;
use crate::failure::{Exit, Failure, Result};

/// Largest event that is taken: a final run, whose output of 1 MiB may be escaped sixfold.
const EVENT_BYTES: usize = 8 << 20;

/// Tries to get a broken stream back before giving up, without a single event in between.
const RECONNECTIONS: u32 = 5;

/// Pause before a reconnection, where the stream asked for none; and the longest that it is given.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

impl Client {
    /// A run's events after `after`, to its end. A stream that breaks is taken up again where it was.
    pub(crate) fn follow(&self, run: RunId, after: i64) -> Following {
        Following {
            client: self.clone(),
            run,
            after,
            stream: None,
            ready: VecDeque::new(),
            pause: PAUSE,
            failures: 0,
        }
    }
}

/// Message of a run's stream.
#[derive(Clone, Debug)]
pub(crate) enum Followed {
    /// An event.
    Event(Event),
    /// The run is final; nothing comes after it.
    Done(Box<Run>),
}

/// A run's stream across reconnections.
pub(crate) struct Following {
    client: Client,
    run: RunId,
    after: i64,
    stream: Option<(Response, Parser)>,
    ready: VecDeque<Message>,
    pause: Duration,
    failures: u32,
}

impl Following {
    /// The next message.
    pub(crate) async fn next(&mut self) -> Result<Followed> {
        loop {
            while let Some(message) = self.ready.pop_front() {
                if let Some(followed) = self.read(&message)? {
                    self.failures = 0;
                    return Ok(followed);
                }
            }
            if let Err(broken) = self.fill().await {
                self.stream = None;
                self.failures += 1;
                if self.failures > RECONNECTIONS || !matches!(broken.exit, Exit::Unavailable) {
                    return Err(broken);
                }
                tokio::time::sleep(self.pause).await;
            }
        }
    }

    /// Reads from the stream, or opens it.
    async fn fill(&mut self) -> Result<()> {
        let broken =
            |text: String| Failure::unavailable(format!("the stream of {} broke off: {text}", self.run));
        let Some((response, parser)) = &mut self.stream else {
            let request = self
                .client
                .request(Method::GET, &format!("v1/runs/{}/events", self.run))?
                .header(header::ACCEPT, "text/event-stream")
                .header("last-event-id", self.after);
            let response = self.client.send(request).await?;
            if response.status() == StatusCode::OK {
                self.stream = Some((response, Parser::new(EVENT_BYTES)));
                return Ok(());
            }
            return Err(broken(response.status().to_string()));
        };
        let chunk = response
            .chunk()
            .await
            .map_err(|error| broken(sortie_net::Error::from(error).to_string()))?
            .ok_or_else(|| broken("the engine ended it".to_owned()))?;
        let parsed = parser.push(&chunk, &mut self.ready);
        if let Some(millis) = parser.retry_millis() {
            self.pause = Duration::from_millis(millis).min(LONGEST_PAUSE);
        }
        parsed.map_err(|error| broken(error.to_string()))
    }

    fn read(&mut self, message: &Message) -> Result<Option<Followed>> {
        let unreadable = |error: serde_json::Error| {
            Failure::internal(format!("{} sent an event that cannot be read: {error}", self.run))
        };
        if message.event == "done" {
            return serde_json::from_str(&message.data)
                .map(|run| Some(Followed::Done(Box::new(run))))
                .map_err(unreadable);
        }
        // A message without an id is live news that is not recorded; this client shows what is.
        let Ok(event) = serde_json::from_str::<Event>(&message.data) else {
            return Ok(None);
        };
        if event.id <= self.after {
            return Ok(None);
        }
        self.after = event.id;
        Ok(Some(Followed::Event(event)))
    }
}
