//! Messages of the channel between the nodes of one database.

use tokio::sync::oneshot;

use crate::Result;

/// Maximum length of a hint in bytes: the payload of a `NOTIFY` is shorter than 8,000.
pub const LONGEST_HINT: usize = 7_999;

/// Message from the channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChannelMessage {
    /// Hint of another node.
    Text(String),
    /// Hints of other nodes may have been lost: the connection is new, or too many came at once.
    Gap,
}

/// Hint to send, with the receiver of its outcome.
pub struct OutgoingHint {
    pub text: String,
    pub done: oneshot::Sender<Result<()>>,
}

impl OutgoingHint {
    pub fn answer(self, outcome: Result<()>) {
        // The sender may have stopped waiting.
        let _nobody = self.done.send(outcome);
    }
}
