//! Includes the modules `text` of `sortie-web` and of `sortie-connect`, where the parsers of both expect them.

#[path = "../../crates/connect/src/text.rs"]
mod connect;
#[expect(dead_code, reason = "a page needs one function of it")]
#[path = "../../crates/web/src/text.rs"]
mod web;

pub(crate) use connect::{bounded, line, visible};
pub(crate) use web::{URL_BYTES, one_line};
