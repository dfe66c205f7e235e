//! Live messages of an event stream (`docs/RUNS.md#follow`). They have no ID and are not recorded.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Data of `message_start`: a model call begins.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct MessageStart {
    /// ID of the model that is called.
    pub model: String,
    /// The turn, from 1.
    pub step: u32,
}

/// Data of `message_delta`: text that the model is writing.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct MessageDelta {
    /// The next piece of the text. The whole text follows as `message`; after a `retry` it restarts.
    pub text: String,
    /// The turn, from 1.
    pub step: u32,
}

/// Data of `tool_output`: output that a command is printing.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ToolOutput {
    /// ID of the tool call, as in `tool_start`.
    pub id: String,
    /// The next piece of the output. A slow client misses some; `tool_end` has the recorded output.
    pub text: String,
}
