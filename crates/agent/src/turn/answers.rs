//! Replies without tool calls: the final answer, unless it is cut off, refused, empty or does not match.

use sortie_api::EventType;

use super::{Agent, Progress};
use crate::{
    answer::{Rejected, Verdict},
    budget::Cut,
    counts::Count,
    journal::What,
    model::{Content, Kind, StopReason},
    model_call::Limit,
    stop::{ANSWER_NOW, CUT_OFF, NO_CALL, NO_ROOM_LEFT, NOTHING_SAID, Stop},
};

/// Continuations of an answer that was cut off, at most.
const CONTINUATIONS: usize = 2;

/// A reply without tool calls.
pub(super) struct TextReply {
    pub(super) content: Vec<Content>,
    /// The text, with thinking between tags.
    pub(super) text: String,
    /// The text without that.
    pub(super) said: String,
    pub(super) stop_reason: StopReason,
    pub(super) limit: Limit,
    pub(super) count: Count,
}

impl Agent<'_> {
    /// Accepts a reply as the answer, unless the model has to correct it.
    pub(super) async fn answered(&mut self, said: TextReply) -> Result<Progress, Stop> {
        match said.stop_reason {
            StopReason::Refusal => {
                self.fall_back("the model refused to answer").await?;
                return Ok(Progress::GoOn);
            }
            StopReason::MaxTokens => return self.cut_off(said).await,
            // Once the answer was requested, calls are dropped: the text is the answer.
            StopReason::ToolUse if !self.is_ending() => return self.announced().await,
            StopReason::EndTurn | StopReason::ToolUse => {}
        }
        let TextReply {
            content, text, count, ..
        } = said;
        // An empty answer of a language model is a mistake; that of a program is intended.
        let whole = self.whole(&text);
        if whole.trim().is_empty() && self.caller.model.kind() == Kind::Language {
            let told = if self.is_ending() {
                ANSWER_NOW
            } else {
                NOTHING_SAID
            };
            if self.conversation.last_told() == Some(told) {
                return Err(Stop::Failed(
                    "the model gave no answer, twice in a row".to_owned(),
                ));
            }
            return self.correct(told.to_owned()).await;
        }
        self.cut.clear();
        let Rejected { errors, attempt } = match self.answer.judge(&whole).await? {
            Verdict::Final(output) => return Ok(Progress::Done(output)),
            Verdict::Rejected(rejected) => rejected,
        };
        let rejected = EventType::OutputRejected {
            errors: errors.clone(),
            attempt,
        };
        self.sink.record(rejected).await?;
        let correction = Rejected { errors, attempt }.correction()?;
        self.keep(content, count, false).await?;
        self.correct(correction).await
    }

    /// A message that stops for a call without one is no answer: the intended call was lost.
    async fn announced(&mut self) -> Result<Progress, Stop> {
        if self.conversation.last_told() == Some(NO_CALL) {
            return Err(Stop::Failed(
                "the model stopped to call a tool and called none, twice in a row".to_owned(),
            ));
        }
        self.cut.clear();
        self.correct(NO_CALL.to_owned()).await
    }

    /// An answer that reached its limit is continued, as long as that helps and the budget allows it. After that it is accepted
    /// as it is.
    async fn cut_off(&mut self, said: TextReply) -> Result<Progress, Stop> {
        let TextReply {
            content,
            text,
            said,
            limit,
            count,
            ..
        } = said;
        let is_last_money = limit.cut == Cut::Shortened && self.is_ending();
        let whole = self.whole(&text);
        if !is_last_money && self.cut.len() < CONTINUATIONS {
            // Thinking without text after it cannot be sent back.
            if said.trim().is_empty() {
                self.cut.push(String::new());
                return self.correct(NO_ROOM_LEFT.to_owned()).await;
            }
            self.cut.push(text);
            self.keep(content, count, true).await?;
            return self.correct(CUT_OFF.to_owned()).await;
        }
        self.cut.clear();
        let mut whole = whole;
        if whole.trim().is_empty() || self.spec.output_schema.is_some() {
            return Err(if is_last_money {
                Stop::NoRoom(", the answer did not fit into what was left")
            } else {
                Stop::Failed(format!(
                    "the model's answer was cut off at its limit of {} tokens",
                    limit.max_tokens
                ))
            });
        }
        let why = if is_last_money {
            "the run's budget is used up"
        } else {
            "the model's limit of length was reached"
        };
        whole.extend(["\n\n[The answer is cut off here: ", why, ".]"]);
        Ok(Progress::Done(whole))
    }

    /// The answer so far, with its newest piece and without thinking.
    fn whole(&self, newest: &str) -> String {
        let mut whole = self.cut.concat();
        whole.push_str(newest);
        let whole = self.spec.redactor.redact_owned(whole);
        self.tags.split(&whole).answer.to_owned()
    }

    /// Continues the conversation with the fallback model. If there is none, or it was used already, the run ends for the reason
    /// `why`.
    pub(super) async fn fall_back(&mut self, why: &str) -> Result<(), Stop> {
        let Some(fallback) = self.fallback.take() else {
            return Err(Stop::Failed(why.to_owned()));
        };
        let retry = EventType::Retry {
            what: "model_call".to_owned(),
            attempt: 2,
            delay_ms: 0,
            reason: format!("{why}; {} answers in its place", fallback.info().id),
        };
        self.sink.record(retry).await?;
        self.journal_writer.write(self.step, What::FellBack).await?;
        self.go_on_with(fallback);
        self.conversation.hand_over();
        self.began = Some(What::Began {
            environment: self.caller.task.environment.to_owned(),
            prefix: self.caller.prefix(),
        });
        Ok(())
    }
}
