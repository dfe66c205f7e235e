//! What a look at a machine or a node finds.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// It works, but less well than it could, or not for long.
    Warning,
    /// It does not do its work like this.
    Fault,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Check {
    /// What was looked at.
    #[schema(example = "database")]
    pub name: String,
    /// How it came out.
    pub verdict: Verdict,
    /// What was found.
    #[schema(example = "PostgreSQL 15.9, 0.6 ms")]
    pub found: String,
    /// What is missing, and what to do.
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

    /// With one more sentence of what to do.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

/// Answer of `GET /v1/admin/checks`: what the node that answers has found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeChecks {
    /// The node's name.
    #[schema(example = "node-6d0f5b1a8f1c4f0e")]
    pub node: String,
    /// The version of its program.
    #[schema(example = "0.1.0")]
    pub version: String,
    /// What it has looked at.
    pub checks: Vec<Check>,
}
