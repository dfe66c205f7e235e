//! Reasons to end a run without an answer, and the messages that ask a model for one.

use std::time::Duration;

use crate::{Stopped, journal::OpenCall};

/// Message to a model that returned neither text nor a call.
pub(crate) const NOTHING_SAID: &str =
    "Your last message was empty. Give the answer as text, or call a tool if there is something left to do.";

/// Message to a model that stopped for a tool call without making one.
pub(crate) const NO_CALL: &str = "Your last message stopped for a call of a tool, but the call did not arrive. Make the call \
                                  again, or give the whole answer as text.";

/// The request for the final answer, appended to its reason.
pub(crate) const ANSWER_NOW: &str = "Answer now with what you have: give the final answer in the form that the task asks \
                                     for, and say what is missing. No tool is called any more.";

/// The request to continue an answer that was cut off.
pub(crate) const CUT_OFF: &str = "Your answer was cut off at its limit of length. Go on exactly where it ended: repeat nothing, and \
                       add no words about the interruption.";

/// The correction for a model that has used up its answer limit for thinking.
pub(crate) const NO_ROOM_LEFT: &str = "Your last message reached its limit of length before you said anything. Think less this time, and be brief.";

/// Reason why the loop ended without an answer.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Compute has used the budget up.
    Exhausted,
    /// Too little is left for another model call, or the answer was cut because of it.
    NoRoom(&'static str),
    /// The recorder accepts no events.
    Stopped,
    /// The run cannot continue.
    Failed(String),
    /// The earlier attempt was lost during this call, and it is unknown whether the call took place.
    Uncertain(OpenCall),
}

impl From<Stopped> for Stop {
    fn from(Stopped: Stopped) -> Self {
        Self::Stopped
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
