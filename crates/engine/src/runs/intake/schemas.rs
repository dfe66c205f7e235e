//! Rules of `input_schema`, `output_schema`, and of `input` against its schema.

use std::sync::LazyLock;

use serde_json::value::RawValue;
use sortie_agent::schema::Schema;
use sortie_api::{ErrorCode, Refusal, RunRequest};
use tokio::sync::Semaphore;

use crate::kit::rules::broken;

/// Limit of concurrent schema checks, which run on blocking threads. Schemas are untrusted and can be expensive.
static CHECKS: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(4));

/// Treatment of a missing `input` when there is an `input_schema`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoInput {
    /// A missing input is an error: the run starts now.
    IsMissing,
    /// A missing input is allowed: each run may send its own.
    MayCome,
}

/// Checks both schemas, and `input` against its own.
pub(super) async fn check(request: &RunRequest, no_input: NoInput) -> Result<(), Refusal> {
    if request.input_schema.is_none() && request.output_schema.is_none() {
        return Ok(());
    }
    let permit = CHECKS.acquire().await;
    let input_schema = request.input_schema.clone();
    let output_schema = request.output_schema.clone();
    let input = request.input.clone();
    let checked = tokio::task::spawn_blocking(move || {
        if let Some(schema) = &output_schema {
            compile("output_schema", schema)?;
        }
        input_schema.map_or(Ok(()), |schema| match_input(&schema, input.as_deref(), no_input))
    })
    .await;
    drop(permit);
    checked.map_err(|error| Refusal::internal(format!("a schema check did not end: {error}")))?
}

fn compile(field: &str, schema: &RawValue) -> Result<Schema, Refusal> {
    Schema::compile(schema.get()).map_err(|error| broken(field, error))
}

fn match_input(schema: &RawValue, input: Option<&RawValue>, no_input: NoInput) -> Result<(), Refusal> {
    let schema = compile("input_schema", schema)?;
    let Some(input) = input else {
        return match no_input {
            NoInput::IsMissing => Err(broken("input", "required by input_schema")),
            NoInput::MayCome => Ok(()),
        };
    };
    schema
        .check("input", input.get())
        .map_err(|errors| ErrorCode::InvalidRequest.because(errors.join("; ")))
}
