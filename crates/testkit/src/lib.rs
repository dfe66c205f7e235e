//! x

pub mod postgres;
