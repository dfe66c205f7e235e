//! The final answer: accepted as is, or, with an `output_schema`, parsed as JSON, validated, and returned to the model at most
//! twice. JSON is found in a fence, in a string and between words, and parsed even with unambiguous syntax errors.
//!
//! Nothing is recorded here: an answer that was rejected before its worker died is judged again, and recorded only once.

use std::sync::Arc;

use sortie_api::limits::OUTPUT_BYTES;

use crate::{
    fence,
    schema::Schema,
    stop::Stop,
    weak::near_json::{self, Closing},
};

/// Maximum number of JSON values between words that are tried.
const MOST_VALUES: usize = 16;
/// Number of times that the model may correct an answer that does not match.
const CORRECTIONS: u32 = 2;

/// Validates final answers.
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
    /// Returns the message that asks the model to answer again, or the end of the run after the last correction.
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
    /// Judges the answers of a run with `rejected` earlier rejections.
    pub(crate) fn new(schema: Option<Arc<Schema>>, rejected: u32) -> Self {
        Self { schema, rejected }
    }

    pub(crate) async fn judge(&mut self, said: &str) -> Result<Verdict, Stop> {
        let said = said.to_owned();
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

/// The JSON text of the answer, if it matches: the first matching reading.
fn check(schema: &Schema, said: &str) -> Result<String, Vec<String>> {
    let mut refused = None;
    for reading in READINGS {
        let mut matching = Vec::new();
        for json in reading(said) {
            match check_json(schema, &json) {
                Ok(()) => matching.push(json),
                Err(errors) => drop(refused.get_or_insert(errors)),
            }
        }
        match (matching.pop(), matching.len()) {
            (Some(json), 0) => return Ok(json),
            (Some(_), others) => {
                return Err(vec![format!(
                    "output: {} JSON values match, must be one",
                    others + 1
                )]);
            }
            (None, _) => {}
        }
    }
    match refused {
        Some(errors) => Err(errors),
        None => Err(check_json(schema, said.trim()).err().unwrap_or_default()),
    }
}

fn check_json(schema: &Schema, json: &str) -> Result<(), Vec<String>> {
    if json.len() > OUTPUT_BYTES {
        return Err(vec![format!(
            "output: {} bytes long, must be at most {OUTPUT_BYTES}",
            json.len()
        )]);
    }
    schema.check("output", json)
}

/// Readings of an answer, each with the JSON values that it finds.
const READINGS: [fn(&str) -> Vec<String>; 5] = [whole, in_string, in_fence, nearly_json, in_prose];

/// The whole answer.
fn whole(said: &str) -> Vec<String> {
    let whole = said.trim();
    is_json(whole).then(|| whole.to_owned()).into_iter().collect()
}

/// The content of the answer, if it is a JSON string.
fn in_string(said: &str) -> Vec<String> {
    let inner = near_json::decoded(said.trim());
    inner.filter(|inner| is_json(inner)).into_iter().collect()
}

/// The last fenced block that is JSON.
fn in_fence(said: &str) -> Vec<String> {
    let blocks = fence::blocks(said).map(|block| block.content.trim().to_owned());
    blocks
        .filter(|content| is_json(content))
        .last()
        .into_iter()
        .collect()
}

/// The whole answer, or the last fenced block, if it is JSON except for minor syntax errors.
fn nearly_json(said: &str) -> Vec<String> {
    let blocks: Vec<_> = fence::blocks(said).map(|block| block.content).collect();
    let texts = std::iter::once(said).chain(blocks.iter().rev().map(AsRef::as_ref));
    let texts = texts.filter(|text| text.trim_start().starts_with(['{', '[']) && !is_json(text.trim()));
    let mut read = texts.filter_map(|text| near_json::whole(text, Closing::Implied).ok());
    read.next().into_iter().collect()
}

/// The objects and lists between the words of the answer.
fn in_prose(said: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut at = 0;
    if is_json(said.trim()) {
        return found;
    }
    while let Some(begin) = said.get(at..).and_then(|rest| rest.find(['{', '['])) {
        let from = at + begin;
        match near_json::value(said, from, Closing::Required) {
            Ok((json, end)) => {
                at = end;
                let as_written = said.get(from..end).filter(|text| is_json(text));
                let json = as_written.map_or(json, str::to_owned);
                if !found.contains(&json) {
                    found.push(json);
                }
            }
            // Values inside of an unparsable object are not an answer.
            Err(_) if begins_object(said, from) => return Vec::new(),
            Err(why) => at = why.at.max(from + 1),
        }
        if found.len() > MOST_VALUES {
            break;
        }
    }
    found
}

/// Whether an object with the name of a field begins here, unlike braces in a sentence.
fn begins_object(text: &str, at: usize) -> bool {
    let inner = text.get(at..).and_then(|rest| rest.strip_prefix('{'));
    inner.is_some_and(|inner| inner.trim_start().starts_with('"'))
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}
