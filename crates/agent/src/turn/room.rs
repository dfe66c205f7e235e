//! Room in the model's window: before a call that comes near it, and after one that did not fit, the conversation is
//! shortened. Old tool outputs go first; where that is not enough, a summary takes the place of the oldest turns.

use sortie_api::EventType;

use super::{Agent, Stop};
use crate::{
    journal::What,
    model::{Reply, StopReason},
    model_call::{Called, Limit},
    reply, summary, text,
};

/// How often a conversation that did not fit is shortened for one call.
const SHORTER: u32 = 2;
/// The longest summary that is taken over, in bytes.
const SUMMARY_BYTES: usize = 16 * 1024;

impl Agent<'_> {
    /// The model's next reply, to a conversation that fits.
    pub(super) async fn ask(&mut self) -> Result<(Reply, Limit), Stop> {
        let fixed = self.fixed_tokens();
        if let Some(room) = self.caller.window.room_beside(fixed)
            && (std::mem::take(&mut self.shortening) || self.tokens().saturating_sub(fixed) > room / 5 * 4)
        {
            Box::pin(self.shorten(room / 2)).await?;
        }
        let mut shortened = 0;
        loop {
            self.check_fits()?;
            let called = self.caller.call(self.step, self.conversation.turns()).await?;
            let why = match called {
                Called::Replied(reply, limit) => return Ok((reply, limit)),
                Called::TooLarge(why) => why,
            };
            let before = self.tokens();
            shortened += 1;
            // Half of the turns, then a quarter.
            let target = before.saturating_sub(self.fixed_tokens()) >> shortened;
            if shortened > SHORTER || Box::pin(self.shorten(target)).await? >= before {
                return Err(Stop::Failed(why));
            }
        }
    }

    /// Nothing is sent that exceeds the window: beyond it a provider refuses, or asks more than the catalog's prices.
    fn check_fits(&self) -> Result<(), Stop> {
        let tokens = self.tokens();
        match self.caller.window.exceeded_by(tokens) {
            None => Ok(()),
            Some(window) => Err(Stop::Failed(format!(
                "the task does not fit into the model's window: about {tokens} tokens of {window}"
            ))),
        }
    }

    /// What every call reads besides the turns, in tokens as estimated: prompt, input, schema and tools.
    pub(super) fn fixed_tokens(&self) -> u64 {
        self.caller.window.estimate(self.caller.bytes(&[]))
    }

    /// What the next call reads, in tokens as estimated.
    fn tokens(&self) -> u64 {
        let bytes = self.caller.bytes(self.conversation.turns());
        self.caller.window.estimate(bytes)
    }

    /// Shortens the turns towards `target` tokens; returns what the next call then reads.
    async fn shorten(&mut self, target: u64) -> Result<u64, Stop> {
        let (before, fixed) = (self.tokens(), self.fixed_tokens());
        let bytes = self.caller.bytes(self.conversation.turns());
        let excess = part(bytes, before.saturating_sub(fixed.saturating_add(target)), before);
        if let Some(turns) = self.conversation.trim(excess) {
            // What is journaled here belongs to the turns before.
            self.scribe.write(self.step - 1, What::Trimmed { turns }).await?;
        }
        let trimmed = self.tokens().saturating_sub(self.fixed_tokens());
        // A little more than was wanted is no reason for a summary.
        if trimmed > target / 10 * 13 {
            self.summarize(part(bytes, target / 2, before)).await?;
        }
        let after = self.tokens();
        if after < before {
            let compacted = EventType::ContextCompacted {
                before_tokens: before,
                after_tokens: after,
            };
            self.sink.record(compacted).await?;
        }
        Ok(after)
    }

    /// Replaces the oldest turns by a summary, so that about `kept` bytes of turns are left besides.
    async fn summarize(&mut self, kept: usize) -> Result<(), Stop> {
        let turns = self.conversation.summarizable(kept);
        let Some(oldest) = self.conversation.turns().get(..turns).filter(|_| turns > 0) else {
            return Ok(());
        };
        let most = self.caller.window.room().unwrap_or(u64::MAX);
        let most = usize::try_from(most).unwrap_or(usize::MAX).saturating_mul(2);
        let record = summary::record(&self.spec.prompt, oldest, most);
        let reply = self.caller.summarize(self.step, &record).await?;
        let said = reply
            .filter(|reply| reply.stop_reason != StopReason::Refusal)
            .map(|reply| reply::said(&reply.content, &self.spec.redactor))
            .filter(|said| !said.trim().is_empty());
        let summary = match said {
            Some(said) => summary::notes(&text::bounded(&text::clean(said), SUMMARY_BYTES)),
            None => summary::note(oldest),
        };
        let compacted = What::Compacted {
            summary: summary.clone(),
            turns,
        };
        self.scribe.write(self.step - 1, compacted).await?;
        self.conversation.replace_oldest(turns, summary);
        Ok(())
    }
}

/// As much of `bytes` as `tokens` are of `all`.
fn part(bytes: usize, tokens: u64, all: u64) -> usize {
    let part = bytes as u128 * u128::from(tokens) / u128::from(all.max(1));
    usize::try_from(part).unwrap_or(usize::MAX)
}
