//! Room in the model's window and in the budget: if a call does not fit, the conversation is shortened.
//!
//! The model writes notes, inside of the conversation so that its cache is read, and they replace all turns. Old tool outputs are
//! dropped only if the conversation is too large for that.

use sortie_api::{EventType, event::AnswerReason};

use super::Agent;
use crate::{
    journal::What,
    model::StopReason,
    model_call::{Called, Purpose, Replied},
    reply,
    stop::{ANSWER_NOW, Stop},
    summary, text,
};

/// Maximum number of times that a conversation is shortened for one call.
const SHORTER: u32 = 2;
/// The longest notes that are taken over, in bytes.
const NOTES_BYTES: usize = 16 * 1024;
/// A conversation of fewer tokens is not worth the cost of notes.
const WORTH_NOTES_TOKENS: u64 = 12 * 1024;

impl Agent<'_> {
    /// Returns the model's next reply, to a conversation that fits and that the budget pays for.
    pub(super) async fn ask(&mut self) -> Result<Replied, Stop> {
        self.announce_limits().await?;
        self.keep_to_window().await?;
        let mut shortened = 0;
        loop {
            self.check_fits()?;
            let purpose = if self.is_ending() {
                Purpose::Answer
            } else {
                Purpose::Work
            };
            let turns = self.conversation.turns();
            match self.caller.call(self.step, turns, purpose).await? {
                Called::Replied(replied) => return Ok(replied),
                Called::NoRoom => Box::pin(self.afford()).await?,
                Called::Unavailable(why) => {
                    self.fall_back(&why).await?;
                    self.keep_to_window().await?;
                }
                Called::Foreign(why) => {
                    if !self.drop_thinking().await? {
                        return Err(Stop::Failed(why));
                    }
                }
                Called::TooLarge(why) => {
                    let before = self.tokens();
                    shortened += 1;
                    // Half of the turns, then a quarter.
                    let target = before.saturating_sub(self.fixed_tokens()) >> shortened;
                    if shortened > SHORTER || Box::pin(self.cut_down(target)).await? >= before {
                        return Err(Stop::Failed(why));
                    }
                }
            }
        }
    }

    /// Shortens a conversation that approaches the end of the model's window.
    async fn keep_to_window(&mut self) -> Result<(), Stop> {
        let fixed = self.fixed_tokens();
        if let Some(room) = self.caller.window.room_beside(fixed)
            && self.tokens().saturating_sub(fixed) > room / 5 * 4
        {
            Box::pin(self.shorten(room / 2)).await?;
        }
        Ok(())
    }

    /// Makes the next call cheaper: notes for a long conversation, then the final answer instead of more work, then a plain note
    /// for the whole conversation.
    async fn afford(&mut self) -> Result<(), Stop> {
        let before = self.tokens();
        if !self.is_ending() {
            let turns = before.saturating_sub(self.fixed_tokens());
            if turns > WORTH_NOTES_TOKENS && Box::pin(self.take_notes()).await? {
                return self.record_compacted(before).await;
            }
            return self.end(AnswerReason::Budget).await;
        }
        if !self.conversation.is_summarizable() {
            return Err(Stop::NoRoom(", too little is left for another model call"));
        }
        let note = summary::note(self.conversation.turns());
        self.replace_all(format!("{note}\n\n{ANSWER_NOW}")).await?;
        self.record_compacted(before).await
    }

    /// Refuses to send a request that exceeds the window: beyond it a provider refuses, or charges more than the catalog's
    /// prices.
    fn check_fits(&self) -> Result<(), Stop> {
        let tokens = self.tokens();
        match self.caller.window.exceeded_by(tokens) {
            None => Ok(()),
            Some(window) => Err(Stop::Failed(format!(
                "the task does not fit into the model's window: about {tokens} tokens of {window}"
            ))),
        }
    }

    /// Returns the estimated tokens that every call reads besides the turns: prompt, input, schema and tools.
    pub(super) fn fixed_tokens(&self) -> u64 {
        self.caller.window.estimate(self.caller.bytes(&[]))
    }

    /// Returns the estimated tokens that the next call reads.
    fn tokens(&self) -> u64 {
        let bytes = self.caller.bytes(self.conversation.turns());
        self.caller.window.estimate(bytes)
    }

    /// Replaces the conversation by notes. If there are none, drops old outputs towards `target` tokens; if that is not enough,
    /// replaces it by a plain note.
    async fn shorten(&mut self, target: u64) -> Result<(), Stop> {
        let before = self.tokens();
        if !self.take_notes().await? {
            self.trim(target).await?;
            self.give_up_turns(target).await?;
        }
        self.record_compacted(before).await
    }

    /// Replaces a conversation that is still much longer than `target` tokens by a plain note.
    async fn give_up_turns(&mut self, target: u64) -> Result<(), Stop> {
        let left = self.tokens().saturating_sub(self.fixed_tokens());
        if left > target / 10 * 13 && self.conversation.is_summarizable() {
            let note = summary::note(self.conversation.turns());
            self.replace_all(note).await?;
        }
        Ok(())
    }

    /// Drops old outputs of a conversation that the provider finds too large; if that is not enough, replaces it by notes.
    /// Returns the tokens that the next call then reads.
    async fn cut_down(&mut self, target: u64) -> Result<u64, Stop> {
        let before = self.tokens();
        self.trim(target).await?;
        let left = self.tokens().saturating_sub(self.fixed_tokens());
        // A slight excess is no reason for notes.
        if left > target / 10 * 13 && !self.take_notes().await? {
            self.give_up_turns(target).await?;
        }
        self.record_compacted(before).await?;
        Ok(self.tokens())
    }

    /// Drops the oldest outputs, so that the turns take about `target` tokens.
    async fn trim(&mut self, target: u64) -> Result<(), Stop> {
        let excess = self.excess(target);
        let Some(turns) = self.conversation.trim(excess) else {
            return Ok(());
        };
        let outputs = self.conversation.outputs();
        self.caller.window.counts.outputs_dropped(outputs);
        // The entry belongs to the turns before.
        self.journal_writer
            .write(self.step - 1, What::Trimmed { turns })
            .await?;
        if self.caller.model.binds_thinking() {
            self.drop_thinking().await?;
        }
        Ok(())
    }

    /// Returns the number of bytes by which the turns exceed `target` tokens.
    fn excess(&self, target: u64) -> usize {
        let (tokens, fixed) = (self.tokens(), self.fixed_tokens());
        let bytes = self.caller.bytes(self.conversation.turns());
        part(bytes, tokens.saturating_sub(fixed.saturating_add(target)), tokens)
    }

    /// Drops the thinking blocks of the conversation; false if there are none.
    pub(super) async fn drop_thinking(&mut self) -> Result<bool, Stop> {
        if !self.conversation.drop_opaque() {
            return Ok(false);
        }
        let dropped = What::ThinkingDropped;
        self.journal_writer
            .write(self.step.saturating_sub(1), dropped)
            .await?;
        Ok(true)
    }

    /// Has the model write notes, and replaces the conversation by them; false if there are none.
    async fn take_notes(&mut self) -> Result<bool, Stop> {
        if !self.conversation.is_summarizable() {
            return Ok(false);
        }
        let called = match self.ask_for_notes().await {
            // Thinking of another conversation is dropped once, as before any other call.
            Ok(Called::Foreign(_)) if self.drop_thinking().await? => self.ask_for_notes().await,
            Ok(Called::Unavailable(why)) if self.fallback.is_some() => {
                self.fall_back(&why).await?;
                self.ask_for_notes().await
            }
            called => called,
        };
        let reply = match called {
            Ok(Called::Replied(Replied { reply, .. })) => reply,
            // The run continues without notes.
            Ok(Called::TooLarge(_) | Called::Foreign(_) | Called::NoRoom | Called::Unavailable(_))
            | Err(Stop::Failed(_)) => return Ok(false),
            Err(stop @ (Stop::Exhausted | Stop::NoRoom(_) | Stop::Stopped | Stop::Uncertain(_))) => {
                return Err(stop);
            }
        };
        let said = reply::redacted_text(&reply.content, &self.spec.redactor);
        if reply.stop_reason == StopReason::Refusal || said.trim().is_empty() {
            return Ok(false);
        }
        let room = self.caller.window.room_beside(self.fixed_tokens());
        let most = usize::try_from(room.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
        let said = text::clean(said);
        let notes = text::bounded(self.tags.split(&said).answer, NOTES_BYTES.min(most));
        self.replace_all(summary::notes(&notes, self.conversation.changed_files()))
            .await?;
        Ok(true)
    }

    async fn ask_for_notes(&mut self) -> Result<Called, Stop> {
        let mut asked = self.conversation.clone();
        let request = self.tokens().saturating_add(self.caller.summary_tokens());
        if let Some(window) = self.caller.window.exceeded_by(request) {
            // The notes are written from the remaining outputs.
            asked.trim(self.excess(window / 2));
            if self.caller.model.binds_thinking() {
                asked.drop_opaque();
            }
        }
        asked.push_message(summary::REQUEST.to_owned());
        let counts = self.caller.window.counts.clone();
        let called = self.caller.call(self.step, asked.turns(), Purpose::Notes).await;
        // The request for notes is no part of the conversation.
        self.caller.window.counts = counts;
        called
    }

    /// Replaces all turns by `text`. A run that was asked for its answer is asked again.
    async fn replace_all(&mut self, mut text: String) -> Result<(), Stop> {
        if self.is_ending() {
            text.push_str("\n\n");
            text.push_str(ANSWER_NOW);
        }
        let turns = self.conversation.turns().len();
        let compacted = What::Compacted {
            summary: text.clone(),
            turns,
        };
        self.journal_writer.write(self.step - 1, compacted).await?;
        self.conversation.replace_oldest(turns, text);
        self.caller.window.counts.turns_replaced();
        // The warnings are gone with the turns, and so is the beginning of an answer.
        self.noted.retain(|kind| !kind.is_warning());
        self.cut.clear();
        Ok(())
    }

    async fn record_compacted(&self, before: u64) -> Result<(), Stop> {
        let after = self.tokens();
        if after < before {
            let compacted = EventType::ContextCompacted {
                before_tokens: before,
                after_tokens: after,
            };
            self.sink.record(compacted).await?;
        }
        Ok(())
    }
}

/// Returns the share of `bytes` that `tokens` have of `all`.
fn part(bytes: usize, tokens: u64, all: u64) -> usize {
    let part = bytes as u128 * u128::from(tokens) / u128::from(all.max(1));
    usize::try_from(part).unwrap_or(usize::MAX)
}
