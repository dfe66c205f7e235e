//! Model call with its retries: reserved before, settled after, recorded with any result.

use std::{borrow::Cow, time::Duration};

use sha2::{Digest, Sha256};
use sortie_api::{Effort, EventType, event::ModelCall};
use tokio::time::{Instant, sleep};
use tracing::Instrument;

use crate::{
    Owner, Sink,
    budget::{Ask, Cut, Exhausted, LastCall},
    counts::Count,
    meter::{Held, Meter, UnreportedDeltas},
    model::{Kind, Model, ModelError, Reply, Request, Retry, Task, ToolDefinition, ToolUse, Turn, Usage},
    possible::{self, Possible},
    retries::Retries,
    spans,
    stop::{Stop, millis},
    summary,
    window::Window,
};

/// Minimum answer that a working call must have room for, in tokens.
const LEAST_WORK_TOKENS: u64 = 1_024;
/// Minimum answer that the last call must have room for, in tokens.
const LEAST_ANSWER_TOKENS: u64 = 64;
/// Answer of a last call that every other call reserves money for, in tokens.
const ANSWER_TOKENS: u64 = 2_048;
/// The thinking before it, in tokens, if the model thinks.
const ANSWER_THINKING_TOKENS: u64 = 2_048;
/// New input of a last call in addition to the answer of the call before it, in tokens: the shortest results of its tool calls,
/// and the request for the answer.
const LAST_INPUT_TOKENS: u64 = 3_072;
/// Additional room for thinking that a working call must have, in tokens.
const LEAST_THINKING_TOKENS: u64 = 1_024;

/// State that all calls of a run share.
pub(crate) struct Caller<'a> {
    pub(crate) owner: Owner,
    pub(crate) model: &'a dyn Model,
    /// The system prompt with the instructions of the run.
    pub(crate) system: Cow<'static, str>,
    pub(crate) task: Task<'a>,
    pub(crate) tools: &'a [ToolDefinition<'a>],
    pub(crate) sink: &'a dyn Sink,
    pub(crate) meter: &'a Meter<'a>,
    pub(crate) window: Window,
    pub(crate) effort: Option<Effort>,
    pub(crate) cache_key: String,
    /// Time at which the run times out.
    pub(crate) deadline: Option<Instant>,
    /// Whether another model can answer instead of this one.
    pub(crate) has_fallback: bool,
    /// The longest duration of a call of this attempt at the run, with its retries but not the waits between them.
    pub(crate) slowest: Duration,
}

/// Limit on the length of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    /// In tokens, as requested.
    pub(crate) max_tokens: u64,
    /// Effect of the budget on the answer's length.
    pub(crate) cut: Cut,
}

/// The purpose of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To continue the task. Money for a last call is reserved.
    Work,
    /// To get notes that replace the conversation. Money for a working call after it is reserved.
    Notes,
    /// To get the final answer. It may use up the rest of the budget, and calls no tools.
    Answer,
}

/// A reply with the limit and the count of its call.
pub(crate) struct Replied {
    pub(crate) reply: Reply,
    pub(crate) limit: Limit,
    /// The provider's count.
    pub(crate) count: Count,
}

/// Result of a call after its retries.
pub(crate) enum Called {
    /// The reply.
    Replied(Replied),
    /// The request exceeds the model's window; the provider's message.
    TooLarge(String),
    /// A thinking block does not belong to this conversation; the provider's message.
    Foreign(String),
    /// The budget does not pay for the call.
    NoRoom,
    /// The provider cannot answer, or not soon enough; the reason.
    Unavailable(String),
}

/// Result of an attempt.
enum Attempt {
    Replied(Reply, Limit),
    Failed(ModelError),
    /// Failed without a further retry; the reason.
    Unavailable(String),
    /// The budget does not pay for it.
    NoRoom,
}

impl Caller<'_> {
    /// Returns the weight of a call with this transcript, in bytes.
    pub(crate) fn bytes(&self, transcript: &[Turn]) -> usize {
        self.request(transcript, Purpose::Work).bytes()
    }

    /// The most tokens of everything before the transcript.
    pub(crate) fn most_fixed(&self) -> u64 {
        self.request(&[], Purpose::Work).most_fixed_tokens()
    }

    /// A digest of everything before the transcript, in hexadecimal digits: the thinking of some providers is bound to it.
    pub(crate) fn prefix(&self) -> String {
        let mut digest = Sha256::new();
        let mut part = |text: &str| {
            digest.update((text.len() as u64).to_be_bytes());
            digest.update(text.as_bytes());
        };
        part(&self.model.info().id);
        part(&self.system);
        part(&self.task.first_message());
        for media in self.task.media {
            part(&media.data);
        }
        for tool in self.tools {
            part(tool.name);
            part(tool.description);
            part(tool.parameters);
        }
        sortie_api::Sha256::new(digest.finalize().into()).to_string()
    }

    /// Calls the model, and retries if that may help.
    pub(crate) async fn call(
        &mut self,
        step: u32,
        transcript: &[Turn],
        purpose: Purpose,
    ) -> Result<Called, Stop> {
        let began = Instant::now();
        let request = self.request(transcript, purpose);
        let (attempts, waited) = self.attempts(step, request, purpose).await?;
        self.slowest = self.slowest.max(began.elapsed().saturating_sub(waited));
        let error = match attempts {
            Attempt::Replied(reply, limit) => {
                let bytes = self.bytes(transcript);
                let count = self.window.learn(bytes, transcript.len(), &reply);
                return Ok(Called::Replied(Replied { reply, limit, count }));
            }
            Attempt::NoRoom => return Ok(Called::NoRoom),
            Attempt::Unavailable(why) => return Ok(Called::Unavailable(why)),
            Attempt::Failed(error) => error,
        };
        match error.retry {
            Retry::Smaller => Ok(Called::TooLarge(error.message)),
            Retry::WithoutThinking => Ok(Called::Foreign(error.message)),
            Retry::Never | Retry::Soon { .. } => Err(Stop::Failed(error.message)),
        }
    }

    /// Maximum length of a summary, in tokens: with room to think before it, if the model does.
    pub(crate) fn summary_tokens(&self) -> u64 {
        summary::TOKENS + self.if_thinking(summary::THINKING_TOKENS)
    }

    /// `tokens` if the model thinks, else zero: thinking counts as part of the answer.
    fn if_thinking(&self, tokens: u64) -> u64 {
        let thinks = self.model.info().capabilities.iter().any(|it| it == "thinking");
        if thinks { tokens } else { 0 }
    }

    /// Makes a call and retries transient failures, each time after a wait. Returns the total of the waits as well.
    async fn attempts(
        &self,
        step: u32,
        request: Request<'_>,
        purpose: Purpose,
    ) -> Result<(Attempt, Duration), Stop> {
        let mut retries = Retries::new(self.deadline, self.has_fallback);
        loop {
            let attempt = self.attempt(step, request, purpose).await?;
            let Attempt::Failed(error) = attempt else {
                return Ok((attempt, retries.waited()));
            };
            let Retry::Soon { after } = error.retry else {
                return Ok((Attempt::Failed(error), retries.waited()));
            };
            let delay = match retries.next_wait(&error, after) {
                Ok(delay) => delay,
                Err(why) => return Ok((Attempt::Unavailable(why), retries.waited())),
            };
            let retry = EventType::Retry {
                what: "model_call".to_owned(),
                attempt: retries.attempts() + 1,
                delay_ms: millis(delay),
                reason: error.message,
            };
            self.sink.record(retry).await?;
            self.meter.while_funded(sleep(delay)).await?;
        }
    }

    /// Charges a call with this transcript as one that was abandoned before it produced output.
    pub(crate) fn charge_abandoned(&self, step: u32, transcript: &[Turn]) {
        let request = self.request(transcript, Purpose::Answer);
        // If the budget does not allow the call now, it did not then either: the call was not made.
        if let Ok(held) = self.hold(step, &request, Purpose::Answer) {
            drop(held);
        }
    }

    /// A call with this transcript.
    fn request<'r>(&'r self, transcript: &'r [Turn], purpose: Purpose) -> Request<'r> {
        let request = Request {
            system: &self.system,
            task: self.task,
            transcript,
            tools: self.tools,
            max_tokens: 0,
            tool_use: match purpose {
                // A different `tool_choice` would invalidate the cache that the call for notes reads from.
                Purpose::Work | Purpose::Notes => ToolUse::Auto,
                Purpose::Answer => ToolUse::Never,
            },
            effort: self.effort,
            cache_key: &self.cache_key,
        };
        let most = self.window.most_output(request.bytes());
        Request {
            max_tokens: match purpose {
                Purpose::Notes => most.min(self.summary_tokens()),
                Purpose::Work | Purpose::Answer => most,
            },
            ..request
        }
    }

    /// Tokens of tool output that a next call can read with a last one still possible.
    pub(crate) fn readable(&self, transcript: &[Turn]) -> u64 {
        let request = self.request(transcript, Purpose::Work);
        let most_input = self.window.counts.most_input(&request);
        self.meter
            .readable(&self.model.info().prices, &self.last_call(&request, most_input))
    }

    /// The likely last call after `request`, which has at most `most_input` input tokens: it is planned here, and held when it is
    /// made.
    fn last_call(&self, request: &Request<'_>, most_input: u64) -> LastCall {
        let likely = self.window.estimate(request.bytes());
        let input = likely.saturating_add(likely / 4).min(most_input);
        LastCall {
            input_tokens: input.saturating_add(LAST_INPUT_TOKENS),
            output_tokens: self
                .window
                .most_output(0)
                .min(ANSWER_TOKENS + self.if_thinking(ANSWER_THINKING_TOKENS)),
        }
    }

    fn hold(&self, step: u32, request: &Request<'_>, purpose: Purpose) -> Result<Held<'_, '_>, Exhausted> {
        let most_input = self.window.counts.most_input(request);
        let (least, after) = match purpose {
            // A program needs no last call: its answer is final.
            _ if self.model.kind() == Kind::Program => (LEAST_ANSWER_TOKENS, None),
            Purpose::Answer => (LEAST_ANSWER_TOKENS, None),
            Purpose::Work => {
                let least = LEAST_WORK_TOKENS + self.if_thinking(LEAST_THINKING_TOKENS);
                (least, Some(self.last_call(request, most_input)))
            }
            Purpose::Notes => {
                let next = self.request(&[], Purpose::Work);
                let last = self.last_call(&next, self.window.counts.most_input(&next));
                let output_tokens = last.output_tokens.saturating_add(LEAST_WORK_TOKENS);
                (
                    summary::TOKENS,
                    Some(LastCall {
                        output_tokens,
                        ..last
                    }),
                )
            }
        };
        let ask = Ask {
            input_tokens: most_input,
            wanted: request.max_tokens,
            least,
            last: after,
        };
        let estimated = self.window.estimate(request.bytes());
        self.meter.hold(self.model.info(), step, &ask, estimated)
    }

    async fn attempt(&self, step: u32, request: Request<'_>, purpose: Purpose) -> Result<Attempt, Stop> {
        let Ok(held) = self.hold(step, &request, purpose) else {
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
        let span = spans::model_call(self.owner, self.model.info(), step, limit.max_tokens);
        let called = match purpose {
            Purpose::Work | Purpose::Answer => {
                self.sink.model_started(step, &self.model.info().id);
                let call = self.model.call(request, &held).instrument(span.clone());
                self.meter.while_funded(call).await?
            }
            Purpose::Notes => {
                let unshown = UnreportedDeltas(&held);
                let call = self.model.call(request, &unshown).instrument(span.clone());
                self.meter.while_funded(call).await?
            }
        };
        let called = self.within_possible(&request, held.written_bytes(), called);
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

impl Caller<'_> {
    /// Clamps the usage of a call to the possible maximum: one absurd figure must not enter a sum.
    fn within_possible(
        &self,
        request: &Request<'_>,
        written: u64,
        mut called: Result<Reply, ModelError>,
    ) -> Result<Reply, ModelError> {
        let info = self.model.info();
        let longest = request.max_tokens.max(info.max_output_tokens);
        let (usage, reply_bytes) = match &mut called {
            Ok(reply) => {
                let bytes = possible::reply_bytes(reply);
                (&mut reply.usage, bytes)
            }
            Err(error) => (&mut error.usage, 0),
        };
        let possible = Possible::new(request.bytes() as u64, longest, written.max(reply_bytes));
        let clamped = possible.clamp(*usage);
        if clamped != *usage {
            tracing::warn!(
                model = info.id,
                provider = info.provider,
                input_tokens = usage.input_tokens,
                output_tokens = usage.output_tokens,
                cache_read_tokens = usage.cache_read_tokens,
                cache_write_tokens = usage.cache_write_tokens,
                "clamped the usage of a model call to what the call can have used"
            );
            self.sink.usage_clamped(&info.id);
            *usage = clamped;
        }
        called
    }
}
