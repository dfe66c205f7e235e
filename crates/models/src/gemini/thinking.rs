//! Thinking settings of Gemini models.
//!
//! Sources, as of 2026-11-22: Google's pages "Thinking" and "Gemini 3 developer guide", and the developer's guide to Gemini 3.5
//! Flash. Models since 3 accept a level, earlier ones a token budget. Both in one request are an error.

use serde::Serialize;
use sortie_agent::model::Request;
use sortie_api::Effort;

use crate::provider::Entry;

/// The smallest budget that every model of version 2.5 accepts.
const LEAST_BUDGET: u64 = 512;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Config {
    include_thoughts: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_level: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_budget: Option<u64>,
}

/// Returns the thinking configuration of this call. `None` for a model that cannot think. Thoughts are summaries for display.
pub(super) fn config(entry: &Entry, request: &Request<'_>) -> Option<Config> {
    if !entry.can("thinking") {
        return None;
    }
    let effort = entry.effort_of(request);
    let takes_level = is_since_3(&entry.upstream);
    Some(Config {
        include_thoughts: true,
        thinking_level: effort
            .filter(|_| takes_level)
            .map(|effort| level(&entry.upstream, effort)),
        thinking_budget: effort
            .filter(|_| !takes_level)
            .map(|effort| budget(effort).min(request.max_tokens / 2))
            .filter(|budget| *budget >= LEAST_BUDGET),
    })
}

/// Returns the nearest level that the model supports. Only Flash models from 3 to 3.6 have `minimal`; Gemini 3 Pro has no
/// `medium`.
fn level(upstream: &str, wanted: Effort) -> &'static str {
    let has_medium = !upstream.contains("-pro") || version(upstream) != Some((3, 0));
    let has_minimal =
        upstream.contains("flash") && version(upstream).is_some_and(|version| version <= (3, 6));
    match wanted {
        Effort::Minimal if has_minimal => "minimal",
        Effort::Minimal | Effort::Low => "low",
        Effort::Medium if has_medium => "medium",
        Effort::Medium | Effort::High | Effort::Xhigh | Effort::Max => "high",
    }
}

/// Returns a thinking budget that every model of version 2.5 accepts: 512 to 24,576 tokens.
fn budget(wanted: Effort) -> u64 {
    match wanted {
        Effort::Minimal => LEAST_BUDGET,
        Effort::Low => 2_048,
        Effort::Medium => 8_192,
        Effort::High => 16_384,
        Effort::Xhigh | Effort::Max => 24_576,
    }
}

/// Whether the model has version 3 or later. Names without a version, such as `gemini-flash-latest`, mean the newest models.
pub(super) fn is_since_3(upstream: &str) -> bool {
    version(upstream).is_none_or(|version| version >= (3, 0))
}

/// Parses the version of `gemini-MAJOR[.MINOR]-…`.
fn version(upstream: &str) -> Option<(u32, u32)> {
    let (_, name) = upstream.rsplit_once("gemini-")?;
    let number = name.split('-').next()?;
    let (major, minor) = number.split_once('.').unwrap_or((number, "0"));
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effort_is_the_nearest_level_that_the_model_has() {
        for (name, expected) in [
            (
                "gemini-3.8-flash",
                ["low", "low", "medium", "high", "high", "high"],
            ),
            ("gemini-4-argon", ["low", "low", "medium", "high", "high", "high"]),
            (
                "gemini-3.1-pro-preview",
                ["low", "low", "medium", "high", "high", "high"],
            ),
            (
                "gemini-3-pro-preview",
                ["low", "low", "high", "high", "high", "high"],
            ),
            (
                "models/gemini-3.5-flash-lite",
                ["minimal", "low", "medium", "high", "high", "high"],
            ),
            (
                "gemini-flash-latest",
                ["low", "low", "medium", "high", "high", "high"],
            ),
        ] {
            assert_eq!(Effort::ALL.map(|wanted| level(name, wanted)), expected, "{name}");
            assert!(is_since_3(name), "{name}");
        }
        assert!(!is_since_3("gemini-2.5-flash"));
    }
}
