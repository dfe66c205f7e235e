//! The final answer: taken as it is, or, with an `output_schema`, read as JSON, checked, and handed back at most twice.

use std::{borrow::Cow, sync::Arc};

use sortie_api::{EventType, limits::OUTPUT_BYTES};

use crate::{Sink, fence, schema::Schema, turn::Stop};

/// How often an answer that does not match is handed back.
const CORRECTIONS: u32 = 2;

/// Judges final answers.
pub(crate) struct Answer {
    schema: Option<Arc<Schema>>,
    rejected: u32,
}

/// What becomes of an answer.
pub(crate) enum Verdict {
    /// It is the run's output.
    Final(String),
    /// The model is told this and answers again.
    Again(String),
}

impl Answer {
    pub(crate) fn new(schema: Option<Arc<Schema>>) -> Self {
        Self { schema, rejected: 0 }
    }

    pub(crate) async fn judge(&mut self, said: String, sink: &dyn Sink) -> Result<Verdict, Stop> {
        let Some(schema) = &self.schema else {
            return Ok(Verdict::Final(said));
        };
        let schema = Arc::clone(schema);
        let checked = tokio::task::spawn_blocking(move || check(&schema, &said)).await;
        let errors = match checked.map_err(|error| Stop::Failed(format!("checking the output: {error}")))? {
            Ok(output) => return Ok(Verdict::Final(output)),
            Err(errors) => errors,
        };
        self.rejected += 1;
        let all = errors.join("; ");
        sink.record(EventType::OutputRejected {
            errors,
            attempt: self.rejected,
        })
        .await?;
        if self.rejected > CORRECTIONS {
            return Err(Stop::Failed(format!(
                "output does not match output_schema: {all}"
            )));
        }
        Ok(Verdict::Again(format!(
            "Your answer does not match the output schema: {all}. Answer again with the corrected JSON value and \
             nothing else."
        )))
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
