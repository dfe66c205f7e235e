//! One model call with its retries: held before, settled after, recorded whatever came of it.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use sortie_api::{EventType, event::ModelCall};
use tokio::time::{Instant, sleep};

use crate::{
    Sink,
    budget::{Cut, Exhausted},
    meter::Meter,
    model::{Model, ModelError, Reply, Request, Retry, Task, ToolDefinition, Turn, Usage},
    prompt,
    turn::Stop,
};

/// Attempts of one call, the first included.
const ATTEMPTS: u32 = 5;
/// The wait before the second attempt; it doubles from attempt to attempt.
const FIRST_DELAY: Duration = Duration::from_millis(500);
/// The longest wait, also where the provider asks for more.
const LONGEST_DELAY: Duration = Duration::from_mins(1);

/// What all calls of a run share.
pub(crate) struct Caller<'a> {
    pub(crate) model: &'a dyn Model,
    pub(crate) task: Task<'a>,
    pub(crate) tools: &'a [ToolDefinition<'a>],
    pub(crate) sink: &'a dyn Sink,
    pub(crate) meter: &'a Meter<'a>,
}

impl Caller<'_> {
    /// Calls the model, again where that may help; tells whether the budget shortened what it may answer.
    pub(crate) async fn call(&self, step: u32, transcript: &[Turn]) -> Result<(Reply, Cut), Stop> {
        let mut attempt = 1;
        loop {
            let error = match self.attempt(step, transcript).await? {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            let after = match error.retry {
                Retry::Soon { after } => after,
                Retry::Smaller | Retry::Never => return Err(Stop::Failed(error.message)),
            };
            if attempt == ATTEMPTS {
                return Err(Stop::Failed(format!(
                    "the model failed {ATTEMPTS} times, last with: {}",
                    error.message
                )));
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

    async fn attempt(
        &self,
        step: u32,
        transcript: &[Turn],
    ) -> Result<Result<(Reply, Cut), ModelError>, Stop> {
        let info = self.model.info();
        let request = Request {
            system: prompt::SYSTEM,
            task: self.task,
            transcript,
            tools: self.tools,
            max_tokens: info.max_output_tokens,
        };
        let held = self
            .meter
            .hold(
                &info.prices,
                step,
                request.most_input_tokens(),
                info.max_output_tokens,
            )
            .map_err(|Exhausted| Stop::NoRoom(", too little is left for another model call"))?;
        let cut = held.cut;
        let request = Request {
            max_tokens: held.max_tokens,
            ..request
        };
        let began = Instant::now();
        let called = self.meter.while_funded(self.model.call(request, &held)).await?;
        let (usage, stop_reason) = match &called {
            Ok(reply) => (reply.usage, reply.stop_reason.as_str()),
            Err(error) => (error.usage, "error"),
        };
        let cost_micros = held.settle(&usage);
        if called.is_ok() || usage != Usage::default() {
            let ended = ModelCall {
                model: info.id.clone(),
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
        Ok(called.map(|reply| (reply, cut)))
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
