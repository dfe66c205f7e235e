//! `/v1/runs` and what lies below it.

mod agent;
mod artifacts;
mod bodies;
mod callbacks;
mod cancel;
mod create;
mod definition;
mod events;
mod get;
mod history;
mod idempotency;
mod list;
mod metadata;
pub(crate) mod model;
mod output_schema;
mod rules;
mod tags;
mod thinking;
pub(crate) mod ui_messages;
mod wait;
mod web;
