//! Bounds and inputs that the fuzz targets share.
//!
//! A target holds a parser of strangers' bytes to three things: no panic, an answer that a slower or differently fed
//! reading confirms, and a linear bound on memory and processor time for each byte of input.

mod bounds;
mod input;
mod memory;

pub use bounds::{Bounds, Line};
pub use input::Input;
