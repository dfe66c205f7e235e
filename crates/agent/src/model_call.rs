//! One model call with its retries: held before, settled after, recorded whatever came of it.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use sortie_api::{Effort, EventType, event::ModelCall};
use tokio::time::{Instant, sleep};
use tracing::Instrument;

use crate::{
    Sink, Whose,
    budget::{Cut, Exhausted},
    meter::{Held, InputTokens, Meter, Unshown},
    model::{Model, ModelError, Reply, Request, Retry, Task, ToolDefinition, ToolUse, Turn, Usage},
    spans, summary,
    turn::Stop,
    window::Window,
};

/// Attempts of one call, the first included.
const ATTEMPTS: u32 = 5;
/// The wait before the second attempt; it doubles from attempt to attempt.
const FIRST_DELAY: Duration = Duration::from_millis(500);
/// The longest wait, also where the provider asks for more.
const LONGEST_DELAY: Duration = Duration::from_mins(1);

/// What all calls of a run share.
pub(crate) struct Caller<'a> {
    pub(crate) whose: Whose,
    pub(crate) model: &'a dyn Model,
    pub(crate) system: &'static str,
    pub(crate) task: Task<'a>,
    pub(crate) tools: &'a [ToolDefinition<'a>],
    pub(crate) sink: &'a dyn Sink,
    pub(crate) meter: &'a Meter<'a>,
    pub(crate) window: Window,
    pub(crate) effort: Option<Effort>,
    pub(crate) cache_key: String,
}

/// How long the answer to a call may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    /// In tokens, as it was asked.
    pub(crate) max_tokens: u64,
    /// Whether the budget shortened it.
    pub(crate) cut: Cut,
}

/// What came of a call that was tried as often as it may help.
pub(crate) enum Called {
    /// The reply, and how long it could be.
    Replied(Reply, Limit),
    /// The request is larger than the model takes; what the provider says of it.
    TooLarge(String),
}

/// What came of one attempt.
enum Attempt {
    Replied(Reply, Limit),
    Failed(ModelError),
    /// The budget does not pay for it.
    NoRoom,
}

/// Whether the text of a call is the run's.
#[derive(Clone, Copy)]
enum Text {
    Shown,
    Unshown,
}

impl Caller<'_> {
    /// What a call with this transcript weighs, in bytes.
    pub(crate) fn bytes(&self, transcript: &[Turn]) -> usize {
        self.request(transcript, 0).bytes()
    }

    /// Calls the model, again where that may help.
    pub(crate) async fn call(&mut self, step: u32, transcript: &[Turn]) -> Result<Called, Stop> {
        let bytes = self.bytes(transcript);
        let request = self.request(transcript, bytes);
        let error = match self.attempts(step, request, Text::Shown).await? {
            Attempt::Replied(reply, limit) => {
                self.window.learn(bytes, &reply.usage);
                return Ok(Called::Replied(reply, limit));
            }
            Attempt::NoRoom => return Err(Stop::NoRoom(", too little is left for another model call")),
            Attempt::Failed(error) => error,
        };
        match error.retry {
            Retry::Smaller => Ok(Called::TooLarge(error.message)),
            Retry::Never | Retry::WithoutThinking => Err(Stop::Failed(error.message)),
            Retry::Soon { .. } => Err(Stop::Failed(format!(
                "the model failed {ATTEMPTS} times, last with: {}",
                error.message
            ))),
        }
    }

    /// Lets the model summarize the record of earlier turns, again where that may help; `None` where that brings nothing.
    pub(crate) async fn summarize(&self, step: u32, record: &str) -> Result<Option<Reply>, Stop> {
        let request = Request {
            system: summary::SYSTEM,
            task: Task {
                prompt: record,
                input: None,
                input_file: None,
                output_schema: None,
                environment: "",
                media: &[],
            },
            transcript: &[],
            tools: &[],
            max_tokens: 0,
            tool_use: ToolUse::Auto,
            effort: self.effort,
            cache_key: &self.cache_key,
        };
        let request = Request {
            max_tokens: self
                .summary_tokens()
                .min(self.window.most_output(request.bytes())),
            ..request
        };
        match self.attempts(step, request, Text::Unshown).await? {
            Attempt::Replied(reply, _) => Ok(Some(reply)),
            Attempt::Failed(_) | Attempt::NoRoom => Ok(None),
        }
    }

    /// The longest summary, in tokens: with room to think before it, where the model does.
    fn summary_tokens(&self) -> u64 {
        let thinks = self.model.info().capabilities.iter().any(|it| it == "thinking");
        summary::TOKENS + if thinks { summary::THINKING_TOKENS } else { 0 }
    }

    /// Makes a call, and again where it failed in a way that passes, each time after a wait.
    async fn attempts(&self, step: u32, request: Request<'_>, text: Text) -> Result<Attempt, Stop> {
        let mut attempt = 1;
        loop {
            let error = match self.attempt(step, request, text).await? {
                Attempt::Failed(error) => error,
                done @ (Attempt::Replied(..) | Attempt::NoRoom) => return Ok(done),
            };
            let Retry::Soon { after } = error.retry else {
                return Ok(Attempt::Failed(error));
            };
            if attempt == ATTEMPTS {
                return Ok(Attempt::Failed(error));
            }
            let delay = delay(attempt, after);
            attempt += 1;
            let retry = EventType::Retry {
                what: "model_call".to_owned(),
                attempt,
                delay_ms: millis(delay),
                reason: error.message,
            };
            self.sink.record(retry).await?;
            self.meter.while_funded(sleep(delay)).await?;
        }
    }

    /// Charges a call with this transcript as one that was given up before anything came of it.
    pub(crate) fn charge_given_up(&self, step: u32, transcript: &[Turn]) {
        let request = self.request(transcript, self.bytes(transcript));
        // Where the budget does not pay for it now, it did not then: the call was not made.
        if let Ok(held) = self.hold(step, &request) {
            drop(held);
        }
    }

    /// A call with this transcript, which weighs `bytes`.
    fn request<'r>(&'r self, transcript: &'r [Turn], bytes: usize) -> Request<'r> {
        Request {
            system: self.system,
            task: self.task,
            transcript,
            tools: self.tools,
            max_tokens: self.window.most_output(bytes),
            tool_use: ToolUse::Auto,
            effort: self.effort,
            cache_key: &self.cache_key,
        }
    }

    fn hold(&self, step: u32, request: &Request<'_>) -> Result<Held<'_, '_>, Exhausted> {
        let prices = &self.model.info().prices;
        let bytes = request.bytes();
        let input = InputTokens {
            most: request
                .most_input_tokens()
                .max(self.window.most_as_counted(bytes)),
            estimated: self.window.estimate(bytes),
        };
        self.meter.hold(prices, step, input, request.max_tokens)
    }

    async fn attempt(&self, step: u32, request: Request<'_>, text: Text) -> Result<Attempt, Stop> {
        let Ok(held) = self.hold(step, &request) else {
            return Ok(Attempt::NoRoom);
        };
        let limit = Limit {
            max_tokens: held.max_tokens,
            cut: held.cut,
        };
        let request = Request {
            max_tokens: limit.max_tokens,
            ..request
        };
        let began = Instant::now();
        let span = spans::model_call(self.whose, self.model.info(), step, limit.max_tokens);
        let called = match text {
            Text::Shown => {
                let call = self.model.call(request, &held).instrument(span.clone());
                self.meter.while_funded(call).await?
            }
            Text::Unshown => {
                let unshown = Unshown(&held);
                let call = self.model.call(request, &unshown).instrument(span.clone());
                self.meter.while_funded(call).await?
            }
        };
        spans::model_called(&span, &called);
        drop(span);
        let (usage, stop_reason) = match &called {
            Ok(reply) => (reply.usage, reply.stop_reason.as_str()),
            Err(error) => (error.usage, "error"),
        };
        let cost_micros = held.settle(&usage);
        if called.is_ok() || usage != Usage::default() {
            let ended = ModelCall {
                model: self.model.info().id.clone(),
                step,
                input_tokens: usage.input_tokens,
                output_tokens: usage.output_tokens,
                cache_read_tokens: usage.cache_read_tokens,
                cache_write_tokens: usage.cache_write_tokens,
                cost_micros,
                duration_ms: millis(began.elapsed()),
                stop_reason,
            };
            self.sink.record(EventType::ModelCall(ended)).await?;
        }
        self.meter.report().await?;
        Ok(match called {
            Ok(reply) => Attempt::Replied(reply, limit),
            Err(error) => Attempt::Failed(error),
        })
    }
}

/// Exponential, with up to a quarter more so that runs that failed together do not come back together.
fn delay(attempt: u32, after: Option<Duration>) -> Duration {
    let base = FIRST_DELAY.saturating_mul(1 << attempt.saturating_sub(1).min(16));
    let base = base.max(after.unwrap_or_default()).min(LONGEST_DELAY);
    let chance = u32::try_from(RandomState::new().hash_one(attempt) % 256).unwrap_or_default();
    base + base.saturating_mul(chance) / 1_024
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_obey_the_provider_and_have_a_limit() {
        for (attempt, after, least) in [
            (1, None, 500),
            (2, None, 1_000),
            (4, None, 4_000),
            (1, Some(7), 7_000),
        ] {
            let delay = delay(attempt, after.map(Duration::from_secs)).as_millis();
            assert!((least..=least + least / 4).contains(&delay), "{attempt}: {delay}");
        }
        assert!(delay(1, Some(Duration::from_hours(24))) <= Duration::from_secs(75));
    }
}
