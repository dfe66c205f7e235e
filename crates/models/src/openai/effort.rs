//! Effort levels by model. Sources, as of 2026-11-22: OpenAI's guide "Reasoning models" and its model pages, and the levels in
//! the `LiteLLM` price table.

use sortie_api::Effort;

/// Returns the nearest level that the model supports. For models of other providers these are the three that all servers know.
pub(crate) fn level(upstream: &str, wanted: Effort) -> &'static str {
    let version = version(upstream).unwrap_or_default();
    let is = |variant: &str| upstream.split('-').any(|part| part == variant);
    let is_gpt_5 = ((5, 0)..(6, 0)).contains(&version);
    if is_gpt_5 && is("chat") {
        return "medium";
    }
    let is_pro = version >= (5, 0) && is("pro");
    if is_pro && version < (5, 2) {
        return "high";
    }
    let has_xhigh = version >= (5, 2) || (version == (5, 1) && is("max"));
    match wanted {
        Effort::Minimal if version == (5, 0) && !is("codex") => "minimal",
        Effort::Minimal | Effort::Low if !is_pro => "low",
        Effort::Minimal | Effort::Low | Effort::Medium => "medium",
        Effort::Max if version >= (6, 0) => "max",
        Effort::Xhigh | Effort::Max if has_xhigh => "xhigh",
        Effort::High | Effort::Xhigh | Effort::Max => "high",
    }
}

/// Parses the version of `gpt-MAJOR[.MINOR]…`, which can follow the name of a provider.
pub(crate) fn version(upstream: &str) -> Option<(u32, u32)> {
    let name = upstream.rsplit('/').next()?.strip_prefix("gpt-")?;
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
            ("gpt-6.1-terra", ["low", "low", "medium", "high", "xhigh", "max"]),
            (
                "openai/gpt-6-luna",
                ["low", "low", "medium", "high", "xhigh", "max"],
            ),
            ("gpt-5.5", ["low", "low", "medium", "high", "xhigh", "xhigh"]),
            ("gpt-5.1", ["low", "low", "medium", "high", "high", "high"]),
            ("gpt-5-mini", ["minimal", "low", "medium", "high", "high", "high"]),
            ("gpt-5-codex", ["low", "low", "medium", "high", "high", "high"]),
            ("gpt-5-pro-2025-10-06", ["high"; 6]),
            (
                "gpt-5.2-pro",
                ["medium", "medium", "medium", "high", "xhigh", "xhigh"],
            ),
            (
                "gpt-5.1-codex-max",
                ["low", "low", "medium", "high", "xhigh", "xhigh"],
            ),
            ("gpt-5.2-chat-latest", ["medium"; 6]),
            ("o4-mini", ["low", "low", "medium", "high", "high", "high"]),
            ("qwen3:32b", ["low", "low", "medium", "high", "high", "high"]),
            ("gpt-oss-120b", ["low", "low", "medium", "high", "high", "high"]),
        ] {
            assert_eq!(Effort::ALL.map(|wanted| level(name, wanted)), expected, "{name}");
        }
    }
}
