//! Names that most tests of the agent use.

pub(crate) use std::{path::Path, sync::Arc, time::Duration};

pub(crate) use futures_util::future::BoxFuture;
pub(crate) use parking_lot::Mutex;
pub(crate) use serde_json::{Value, json};
pub(crate) use sortie_agent::{
    Model, Outcome, RunSpec, Tool, ToolContent,
    journal::{Entry, Journal, What},
    model::{Content, Deltas, ModelError, Reply, Request, Retry, StopReason, ToolCall, ToolUse, Turn, Usage},
    tool::{Effect, Order},
};
pub(crate) use sortie_api::{
    Micros,
    model::{ModelInfo, ModelPrices},
};
pub(crate) use sortie_sandbox::ExitKind;
pub(crate) use tokio::time::Instant;

pub(crate) use crate::support::{
    Changes, Does, Line, Pretended, Probe, Recorder, Ruled, Scripted, call, calls, failed, micros, play,
    play_in, prints, raw, reply, run_agent, run_in, says, script, scripted, shell, spec, succeeded,
    untouched, with_schema, workspace,
};
