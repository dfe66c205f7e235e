//! Results of checks of a machine or a node.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No problem was found.
    Ok,
    /// Works with restrictions, or may soon fail.
    Warning,
    /// Does not work in this state.
    Fault,
}

/// Check of one component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Check {
    /// Name of the checked component.
    #[schema(example = "database")]
    pub name: String,
    /// Result of the check.
    pub verdict: Verdict,
    /// Finding, in a sentence.
    #[schema(example = "PostgreSQL 15.9, 0.6 ms")]
    pub found: String,
    /// Problems, each with its remedy.
    pub hints: Vec<String>,
}

impl Check {
    /// A check without hints.
    pub fn new(name: impl Into<String>, verdict: Verdict, found: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            verdict,
            found: found.into(),
            hints: Vec::new(),
        }
    }

    /// Adds a hint: one sentence.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

/// Answer of `GET /v1/admin/checks` and `GET /v1/operator/checks`: the findings of the node that answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeChecks {
    /// The node's name.
    #[schema(example = "node-6d0f5b1a8f1c4f0e")]
    pub node: String,
    /// Version of the node's program.
    #[schema(example = "0.1.0")]
    pub version: String,
    /// Checks of the node.
    pub checks: Vec<Check>,
}
