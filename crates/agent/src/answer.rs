//! The final answer: taken as it is, or, with an `output_schema`, read as JSON, checked, and handed back at most twice.
//!
//! Nothing is recorded here: an answer that was rejected before its worker died is judged again, and only once
//! recorded.

use std::{borrow::Cow, sync::Arc};

use sortie_api::limits::OUTPUT_BYTES;

use crate::{fence, schema::Schema, stop::Stop};

/// Number of times that an answer that does not match is handed back.
const CORRECTIONS: u32 = 2;

/// Judges final answers.
pub(crate) struct Answer {
    schema: Option<Arc<Schema>>,
    rejected: u32,
}

/// Verdict on an answer.
pub(crate) enum Verdict {
    /// The answer is the run's output.
    Final(String),
    /// The answer does not match the schema.
    Rejected(Rejected),
}

/// Rejected answer.
pub(crate) struct Rejected {
    /// Mismatches, as in the error message.
    pub(crate) errors: Vec<String>,
    /// Number of the answer, from 1.
    pub(crate) attempt: u32,
}

impl Rejected {
    /// Returns the message that asks the model to answer again, or the end after the last correction.
    pub(crate) fn correction(&self) -> Result<String, Stop> {
        let all = self.errors.join("; ");
        if self.attempt > CORRECTIONS {
            return Err(Stop::Failed(format!(
                "output does not match output_schema: {all}"
            )));
        }
        Ok(format!(
            "Your answer does not match the output schema: {all}. Answer again with the corrected JSON value and \
             nothing else."
        ))
    }
}

impl Answer {
    /// Judges the answers of a run of which `rejected` were rejected before.
    pub(crate) fn new(schema: Option<Arc<Schema>>, rejected: u32) -> Self {
        Self { schema, rejected }
    }

    pub(crate) async fn judge(&mut self, said: String) -> Result<Verdict, Stop> {
        let Some(schema) = &self.schema else {
            return Ok(Verdict::Final(said));
        };
        let schema = Arc::clone(schema);
        let checked = tokio::task::spawn_blocking(move || check(&schema, &said)).await;
        match checked.map_err(|error| Stop::Failed(format!("checking the output: {error}")))? {
            Ok(output) => Ok(Verdict::Final(output)),
            Err(errors) => {
                self.rejected += 1;
                Ok(Verdict::Rejected(Rejected {
                    errors,
                    attempt: self.rejected,
                }))
            }
        }
    }
}

/// The JSON text of the answer, if it matches.
fn check(schema: &Schema, said: &str) -> Result<String, Vec<String>> {
    let json = json_of(said);
    if json.len() > OUTPUT_BYTES {
        return Err(vec![format!(
            "output: {} bytes long, must be at most {OUTPUT_BYTES}",
            json.len()
        )]);
    }
    schema.check("output", &json)?;
    Ok(json.into_owned())
}

/// The whole answer where it is JSON, else its last fenced block that is, else the whole answer.
fn json_of(said: &str) -> Cow<'_, str> {
    let whole = said.trim();
    if is_json(whole) {
        return Cow::Borrowed(whole);
    }
    let fenced = fence::blocks(said)
        .map(|block| block.content)
        .filter(|content| is_json(content.trim()))
        .last();
    match fenced {
        Some(content) => Cow::Owned(content.trim().to_owned()),
        None => Cow::Borrowed(whole),
    }
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}
