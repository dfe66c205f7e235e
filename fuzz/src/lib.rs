//! Fuzz targets for the parsers that read strangers' bytes, and the bounds and inputs that they share.
//!
//! A target holds a parser to three things: no panic, an answer that a slower or differently fed reading confirms, and a
//! linear bound on memory and processor time for each byte of input. `tests/corpus.rs` holds the parsers to the inputs in
//! `corpus`; libFuzzer finds new ones, with a program for each target in `bin`.

// The tests of the parsers belong to their crates.
#![cfg(not(test))]

mod bounds;
#[expect(dead_code, reason = "its readers need a part of it")]
#[path = "../../crates/agent/src/fence.rs"]
mod fence;
mod input;
mod memory;
#[expect(dead_code, reason = "the parsers need a part of it")]
#[path = "../../crates/agent/src/surrogates.rs"]
mod surrogates;
pub mod targets;
mod text;
#[path = "../../crates/connect/src/tool_name.rs"]
mod tool_name;

pub use bounds::{Bounds, Line};
pub use input::Input;
