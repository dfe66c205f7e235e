//! Idempotency keys: an answer is kept for a day, and repeated for a request with the same key and parameters.

use std::collections::HashMap;

use http::StatusCode;
use serde_json::{Map, Value};

use super::failure::Failure;

/// Time for which an answer is kept, in seconds.
const KEPT: i64 = 24 * 3_600;
/// Longest key, in characters.
const LONGEST: usize = 255;

/// Whole answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Kept {
    pub(super) status: StatusCode,
    pub(super) body: Value,
    /// Request that it answered.
    pub(super) request: String,
}

#[derive(Debug)]
struct Entry {
    path: String,
    parameters: Map<String, Value>,
    begun_at: i64,
    /// None while the request is worked on.
    answer: Option<Kept>,
}

/// Keys that were sent.
#[derive(Debug, Default)]
pub(super) struct Keys(HashMap<String, Entry>);

impl Keys {
    /// Begins a request with a key. Returns the stored answer if the key was used before.
    pub(super) fn begin(
        &mut self,
        key: &str,
        (path, parameters): (&str, &Map<String, Value>),
        now: i64,
    ) -> Result<Option<Kept>, Failure> {
        if key.chars().count() > LONGEST {
            return Err(Failure::invalid(
                "Idempotency keys are up to 255 characters long.",
            ));
        }
        self.0.retain(|_, entry| entry.begun_at + KEPT > now);
        let Some(entry) = self.0.get(key) else {
            let entry = Entry {
                path: path.to_owned(),
                parameters: parameters.clone(),
                begun_at: now,
                answer: None,
            };
            self.0.insert(key.to_owned(), entry);
            return Ok(None);
        };
        let advice =
            format!("Try using a key other than '{key}' if you meant to execute a different request.");
        if entry.path != path {
            let first = &entry.path;
            return Err(Failure::other_request(format!(
                "Keys for idempotent requests can only be used for the same endpoint they were first used for ('{path}' vs \
                 '{first}'). {advice}"
            )));
        }
        if entry.parameters != *parameters {
            return Err(Failure::other_request(format!(
                "Keys for idempotent requests can only be used with the same parameters they were first used with. {advice}"
            )));
        }
        match &entry.answer {
            Some(answer) => Ok(Some(answer.clone())),
            None => Err(Failure::key_in_use(key)),
        }
    }

    /// Keeps the answer to a request that was begun.
    pub(super) fn keep(&mut self, key: &str, answer: Kept) {
        if let Some(entry) = self.0.get_mut(key) {
            entry.answer = Some(answer);
        }
    }

    /// Forgets a request without an answer, so that the key can be used again.
    pub(super) fn forget(&mut self, key: &str) {
        if self.0.get(key).is_some_and(|entry| entry.answer.is_none()) {
            self.0.remove(key);
        }
    }
}
