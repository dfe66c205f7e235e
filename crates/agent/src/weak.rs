//! Replies as weaker models and their servers write them, read where they have exactly one meaning: thinking between tags,
//! calls of tools as text, JSON with slips.
//!
//! These parsers read what models write, which may be anything. They take time and memory linear in it, and know nothing of
//! runs.

pub(crate) mod near_json;
pub(crate) mod thinking;
pub(crate) mod written_calls;
