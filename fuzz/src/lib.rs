//! Fuzz targets for the parsers of untrusted bytes, with their shared limits and inputs.
//!
//! A target checks three properties of a parser: it does not panic, its result matches that of a slower or differently fed
//! parser, and its memory and CPU time are linear in the input. `tests/corpus.rs` checks the inputs in `corpus`; libFuzzer finds
//! new ones, with a program for each target in `bin`.

// The tests of the parsers are in their crates.
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
