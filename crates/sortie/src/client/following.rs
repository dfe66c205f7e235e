//! A run's stream, across lost connections.

use std::{collections::VecDeque, time::Duration};

use reqwest::{Method, Response, StatusCode, header};
use sortie_api::{
    Event, Run, RunId,
    live::{MessageDelta, ToolOutput},
    plain,
};
use sortie_net::sse::{Message, Parser};
use tokio::time::Instant;

use super::Client;
use crate::failure::{Exit, Failure, Result};

/// Largest accepted event: a finished run with an output of 1 MiB, which escaping may enlarge sixfold.
const EVENT_BYTES: usize = 8 << 20;

/// Time for which the client retries an engine that does not answer.
const PATIENCE: Duration = Duration::from_mins(5);

/// First pause before a reconnection, unless the stream asked for another. Each further pause is twice as long, up to
/// the longest.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

impl Client {
    /// A run's events after `after`, to the end of the run. A broken stream resumes after its last event.
    pub(crate) fn follow(&self, run: RunId, after: i64) -> Following {
        Following {
            client: self.clone(),
            run,
            after,
            stream: None,
            is_live: false,
            ready: VecDeque::new(),
            first_pause: PAUSE,
            absence: None,
        }
    }

    /// Returns the recorded events of a run after `after`, without following the run.
    pub(crate) async fn recorded_events(&self, run: RunId, after: i64) -> Result<Vec<Event>> {
        let (mut events, mut after) = (Vec::new(), after);
        loop {
            let request = self
                .request(Method::GET, &format!("v1/runs/{run}/events?after={after}"))?
                .header(header::ACCEPT, "application/json");
            let page: Vec<Event> = self.read(self.send(request).await?).await?;
            let Some(last) = page.last() else {
                return Ok(events);
            };
            after = last.id;
            events.extend(page);
        }
    }
}

/// Message of a run's stream.
#[derive(Debug)]
pub(crate) enum Followed {
    /// An event.
    Event(Event),
    /// A live message, if [`Following::with_live`] asked for them.
    Live(Live),
    /// The run is final; nothing comes after it.
    Done(Box<Run>),
    /// The engine does not answer, or its rate limit is reached. The next message follows another try.
    Away(Failure),
    /// The engine answers again.
    Back,
}

/// Live message, which is not recorded. Some may be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Live {
    /// The model begins to write.
    Start,
    /// Next piece of the text that the model is writing.
    Text(String),
    /// Next piece of the output of a command, which the tool call with this ID runs.
    Output { call: String, text: String },
}

/// A run's stream across reconnections.
pub(crate) struct Following {
    client: Client,
    run: RunId,
    after: i64,
    is_live: bool,
    stream: Option<Stream>,
    ready: VecDeque<Message>,
    first_pause: Duration,
    absence: Option<Absence>,
}

struct Stream {
    response: Response,
    parser: Parser,
    opened: Instant,
}

/// Progress of a stream.
enum Filled {
    /// The stream is open.
    Opened,
    /// Only the beginning of a stream arrived, which proves little: it may break at once.
    Greeting,
    /// Events arrived, or a heartbeat on a stream that has lasted.
    News,
}

/// Time without the engine.
struct Absence {
    since: Instant,
    next_try: Instant,
    pause: Duration,
}

impl Following {
    /// Also asks for live messages.
    pub(crate) fn with_live(mut self) -> Self {
        self.is_live = true;
        self
    }

    /// The next message. Cancel-safe: dropping the call loses no message.
    pub(crate) async fn next(&mut self) -> Result<Followed> {
        loop {
            while let Some(message) = self.ready.pop_front() {
                if let Some(followed) = self.read(&message)? {
                    return Ok(followed);
                }
            }
            if let Some(absence) = self.absence.as_ref().filter(|_| self.stream.is_none()) {
                tokio::time::sleep_until(absence.next_try).await;
            }
            match self.fill().await {
                Ok(Filled::Opened | Filled::Greeting) => {}
                Ok(Filled::News) => {
                    if self.absence.take().is_some() {
                        return Ok(Followed::Back);
                    }
                }
                Err(broken) => return self.lost(broken).map(Followed::Away),
            }
        }
    }

    /// Returns the id of the last event that was returned.
    pub(crate) fn after(&self) -> i64 {
        self.after
    }

    /// Continues with another engine, which is tried at once.
    pub(crate) fn move_to(&mut self, client: &Client) {
        self.client = client.clone();
        self.stream = None;
        if let Some(absence) = &mut self.absence {
            absence.pause = self.first_pause;
            absence.next_try = Instant::now();
        }
    }

    /// Begins or continues an absence of the engine. Fails once it exceeds the patience.
    fn lost(&mut self, broken: Failure) -> Result<Failure> {
        self.stream = None;
        if broken.exit != Exit::Unavailable {
            return Err(broken);
        }
        let now = Instant::now();
        if let Some(wait) = broken.retry_after {
            // The engine answers: this is no absence, and does not use up the patience.
            self.absence = Some(Absence {
                since: now + wait,
                next_try: now + wait,
                pause: self.first_pause,
            });
            return Ok(broken);
        }
        let absence = match self.absence.take() {
            None => Absence {
                since: now,
                next_try: now + self.first_pause,
                pause: self.first_pause,
            },
            Some(earlier) if now.duration_since(earlier.since) >= PATIENCE => {
                return Err(Failure::unavailable(format!(
                    "{broken}; the engine has not answered for {} minutes. The run continues there, or waits for the engine: \
                     follow it by `sortie runs watch {}`",
                    PATIENCE.as_secs() / 60,
                    self.run
                )));
            }
            Some(earlier) => {
                let pause = (earlier.pause * 2).min(LONGEST_PAUSE);
                Absence {
                    since: earlier.since,
                    next_try: now + pause,
                    pause,
                }
            }
        };
        self.absence = Some(absence);
        Ok(broken)
    }

    /// Reads from the stream, or opens it.
    async fn fill(&mut self) -> Result<Filled> {
        let run = self.run;
        let broken = |text: String| Failure::unavailable(format!("the stream of {run} broke off: {text}"));
        let Some(Stream {
            response,
            parser,
            opened,
        }) = &mut self.stream
        else {
            let request = self
                .client
                .request(Method::GET, &format!("v1/runs/{run}/events{}", self.query()))?
                .header(header::ACCEPT, "text/event-stream")
                .header("last-event-id", self.after);
            let response = self.client.send_once(request).await?;
            if response.status() == StatusCode::OK {
                self.stream = Some(Stream {
                    response,
                    parser: Parser::new(EVENT_BYTES),
                    opened: Instant::now(),
                });
                return Ok(Filled::Opened);
            }
            return Err(broken(response.status().to_string()));
        };
        let chunk = response
            .chunk()
            .await
            .map_err(|error| Failure::unavailable(sortie_net::Error::from(error).to_string()))?
            .ok_or_else(|| broken("the engine ended it".to_owned()))?;
        let parsed = parser.push(&chunk, &mut self.ready);
        if let Some(millis) = parser.retry_millis() {
            self.first_pause = Duration::from_millis(millis).min(LONGEST_PAUSE);
        }
        parsed.map_err(|error| broken(error.to_string()))?;
        let is_news = !self.ready.is_empty() || opened.elapsed() > LONGEST_PAUSE;
        Ok(if is_news { Filled::News } else { Filled::Greeting })
    }

    fn query(&self) -> &'static str {
        if self.is_live { "?deltas=true" } else { "" }
    }

    fn read(&mut self, message: &Message) -> Result<Option<Followed>> {
        let unreadable = |error: serde_json::Error| {
            Failure::internal(format!(
                "{} sent an event that cannot be read: {}",
                self.run,
                plain::json(&error)
            ))
        };
        if message.event == "done" {
            return serde_json::from_str(&message.data)
                .map(|run| Some(Followed::Done(Box::new(run))))
                .map_err(unreadable);
        }
        if let Some(live) = live(message) {
            return Ok(Some(Followed::Live(live)));
        }
        // Messages that this version does not know are left out.
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

/// Returns the live message in a message of the stream.
fn live(message: &Message) -> Option<Live> {
    match message.event.as_str() {
        "message_start" => Some(Live::Start),
        "message_delta" => {
            let delta: MessageDelta = serde_json::from_str(&message.data).ok()?;
            Some(Live::Text(delta.text))
        }
        "tool_output" => {
            let ToolOutput { id, text } = serde_json::from_str(&message.data).ok()?;
            Some(Live::Output { call: id, text })
        }
        _ => None,
    }
}

#[cfg(test)]
#[path = "following_tests.rs"]
mod tests;
