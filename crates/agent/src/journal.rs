//! What a run has to remember to go on after the death of its worker: the transcript, and which calls were begun.
//!
//! The agent writes entries as it goes, in order; the engine keeps them durable beside the events. A reply that is the
//! final answer is never written: a run without tools has an empty journal.

use serde::{Deserialize, Serialize};
use sortie_api::Micros;

use crate::{
    model::{Content, ToolResult},
    tool::Effect,
};

/// One step of the journal. Entries are serialized as JSON objects.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// The turn it belongs to, from 1.
    pub step: u32,
    /// What the run has spent so far on models and priced tools, without compute, in micros.
    pub spent_micros: Micros,
    /// What happened.
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// What the model said in a turn that is not the last.
    Reply {
        /// Its pieces, as they came.
        content: Vec<Content>,
    },
    /// A tool call is about to be made. Durable before a call whose effect is [`Effect::Outside`] begins.
    Intent {
        /// The call's id.
        id: String,
        /// The tool's name.
        tool: String,
        /// What it may do.
        effect: Effect,
    },
    /// What came of a tool call.
    Result(ToolResult),
    /// What the engine told the model: a correction of its answer.
    Correction {
        /// The text.
        text: String,
    },
    /// The conversation before this point was replaced by a summary.
    Compacted {
        /// What stands in its place.
        summary: String,
        /// How many of the oldest turns it stands for.
        turns: usize,
    },
}

/// The journal of a run that goes on: every entry so far, in order.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    entries: Vec<Entry>,
}

/// A call that was begun and has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenCall {
    /// The turn.
    pub step: u32,
    /// The call's id.
    pub id: String,
    /// The tool's name.
    pub tool: String,
}

impl Journal {
    /// The entries of a run, oldest first.
    pub fn new(entries: Vec<Entry>) -> Self {
        Self { entries }
    }

    /// The entries, oldest first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The last turn that is complete: its reply is there and each of its calls has a result.
    pub fn last_step(&self) -> u32 {
        let open = self.open().map(|(step, ..)| step).min();
        let last = self.entries.last().map_or(0, |entry| entry.step);
        open.map_or(last, |step| last.min(step.saturating_sub(1)))
    }

    /// What the run had spent on models and priced tools at the last entry.
    pub fn spent(&self) -> Micros {
        self.entries
            .last()
            .map_or(Micros::ZERO, |entry| entry.spent_micros)
    }

    /// A call under way whose effect nobody knows: the run must not go on.
    pub fn uncertain_call(&self) -> Option<OpenCall> {
        self.open()
            .find(|(.., effect)| *effect == Effect::Outside)
            .map(|(step, id, tool, _)| OpenCall {
                step,
                id: id.to_owned(),
                tool: tool.to_owned(),
            })
    }

    /// Whether a step so far depends on the working directory.
    pub fn uses_directory(&self) -> bool {
        self.entries.iter().any(|entry| {
            matches!(
                &entry.what,
                What::Intent {
                    effect: Effect::Directory,
                    ..
                }
            )
        })
    }

    /// Calls that were begun and have no result.
    fn open(&self) -> impl Iterator<Item = (u32, &str, &str, Effect)> {
        self.entries.iter().filter_map(|entry| {
            let What::Intent { id, tool, effect } = &entry.what else {
                return None;
            };
            let ended = self.entries.iter().any(
                |other| matches!(&other.what, What::Result(result) if other.step == entry.step && result.id == *id),
            );
            (!ended).then_some((entry.step, id.as_str(), tool.as_str(), *effect))
        })
    }
}
