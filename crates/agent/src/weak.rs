//! Replies as weaker models and their servers write them, parsed if they are unambiguous: thinking between tags, tool calls as
//! text, nearly valid JSON.
//!
//! These parsers read arbitrary output of models. They take time and memory linear in it, and know nothing of runs.

pub(crate) mod near_json;
pub(crate) mod thinking;
pub(crate) mod written_calls;
