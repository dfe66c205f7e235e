//! Facts about Claude models, read from a model's name.
//!
//! Sources: the pages of platform.claude.com on preserved thinking, prefix checks, thinking and effort, as of 2026-11-22. Model
//! names of other providers that speak this protocol have a different form, so these facts do not apply to them.

use sortie_api::Effort;

/// Version of a Claude model, from a name such as `claude-opus-5-5` or `anthropic.claude-opus-4-7`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claude {
    version: (u32, u32),
    family: Family,
}

/// Model family. The families gained abilities at different versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Opus,
    /// Fable and Mythos.
    Fable,
    Other,
}

impl Claude {
    /// Parses the name of a model. `None` if it is not a Claude model. A name without a version, such as `claude-opus-latest`,
    /// means the newest model of its family.
    pub(super) fn of(name: &str) -> Option<Self> {
        let (_, name) = name.rsplit_once("claude-")?;
        let parts = || name.split(['-', '.', '@', ':', '/']);
        let (family, is_known) = match parts().find(|part| !is_number(part))? {
            "opus" => (Family::Opus, true),
            "fable" | "mythos" => (Family::Fable, true),
            "sonnet" | "haiku" => (Family::Other, true),
            _ => (Family::Other, false),
        };
        // Longer numbers are dates.
        let mut numbers = parts()
            .skip_while(|part| !is_number(part))
            .take_while(|part| is_number(part) && part.len() < 3)
            .filter_map(|part| part.parse().ok());
        let newest = is_known.then_some(u32::MAX);
        let version = (numbers.next().or(newest)?, numbers.next().unwrap_or(0));
        Some(Self { version, family })
    }

    /// Whether the model decides how much it thinks (`adaptive`). Models since 4.6 do; those since 5 reject a token budget.
    pub(super) fn is_adaptive(self) -> bool {
        self.version >= (4, 6)
    }

    /// Whether the provider returns empty thinking unless `display` asks for a summary. On Opus 5.5 the text between tool calls
    /// is thinking as well.
    pub(super) fn hides_thinking(self) -> bool {
        self.version >= (4, 7)
    }

    /// Whether the model has preserved thinking: each thinking block is bound to the system prompt, the tools and the messages
    /// before it. On 2026-11-22 these are Fable and Mythos 5.1 and 5.2, and Opus, Sonnet and Haiku 5.5.
    pub(super) fn binds_thinking(self) -> bool {
        self.version
            >= match self.family {
                Family::Fable => (5, 1),
                Family::Opus | Family::Other => (5, 5),
            }
    }

    /// Whether pictures keep up to 2,576 pixels on their longer edge, which costs up to three times as many tokens.
    pub(super) fn sees_sharply(self) -> bool {
        self.version >= (4, 7)
    }

    /// Returns the nearest effort level that the model supports. `None` if it supports none.
    pub(super) fn effort(self, wanted: Effort) -> Option<&'static str> {
        let since = match self.family {
            Family::Opus => (4, 5),
            Family::Fable | Family::Other => (4, 6),
        };
        let has_xhigh = self.version
            >= match self.family {
                Family::Opus => (4, 7),
                Family::Fable | Family::Other => (5, 0),
            };
        let level = match wanted {
            Effort::Minimal | Effort::Low => "low",
            Effort::Medium => "medium",
            Effort::Xhigh if has_xhigh => "xhigh",
            Effort::Max if self.version >= (4, 6) => "max",
            Effort::High | Effort::Xhigh | Effort::Max => "high",
        };
        (self.version >= since).then_some(level)
    }
}

fn is_number(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn thinking_is_bound_from_the_versions_on_that_have_preserved_thinking() {
        for (name, expected) in [
            ("claude-fable-5-1", true),
            ("claude-fable-5-2", true),
            ("claude-mythos-5-1", true),
            ("claude-mythos-5-2", true),
            ("claude-opus-5-5", true),
            ("claude-opus-5-5-20260922", true),
            ("anthropic.claude-opus-5-5", true),
            ("us.anthropic.claude-sonnet-5-5-v1:0", true),
            ("claude-sonnet-5-5", true),
            ("claude-haiku-5-5", true),
            ("claude-haiku-6", true),
            ("claude-opus-latest", true),
            ("anthropic/claude-sonnet", true),
            ("claude-3-5-sonnet-latest", false),
            ("claude-fable-5", false),
            ("claude-opus-5", false),
            ("claude-sonnet-5", false),
            ("claude-opus-4-8", false),
            ("claude-haiku-4-5-20251001", false),
        ] {
            let claude = Claude::of(name).unwrap();
            assert_eq!(claude.binds_thinking(), expected, "{name}");
        }
        assert_eq!(Claude::of("glm-5.5"), None);
        assert_eq!(Claude::of("claude-x"), None);
    }

    #[test]
    fn effort_is_the_nearest_level_that_the_model_has() {
        use Effort::{High, Low, Max, Medium, Minimal, Xhigh};
        let all = [Minimal, Low, Medium, High, Xhigh, Max];
        for (name, expected) in [
            (
                "claude-opus-5-5",
                ["low", "low", "medium", "high", "xhigh", "max"],
            ),
            (
                "claude-haiku-5-5",
                ["low", "low", "medium", "high", "xhigh", "max"],
            ),
            ("claude-opus-4-6", ["low", "low", "medium", "high", "high", "max"]),
            (
                "claude-sonnet-4-6",
                ["low", "low", "medium", "high", "high", "max"],
            ),
            (
                "claude-opus-4-5-20251101",
                ["low", "low", "medium", "high", "high", "high"],
            ),
        ] {
            let claude = Claude::of(name).unwrap();
            assert_eq!(
                all.map(|wanted| claude.effort(wanted).unwrap()),
                expected,
                "{name}"
            );
        }
        let haiku = Claude::of("claude-haiku-4-5-20251001").unwrap();
        assert_eq!(haiku.effort(Max), None);
    }

    proptest! {
        #[test]
        fn any_name_is_read(name in "(claude-)?[a-z0-9@.:/-]{0,40}") {
            if let Some(claude) = Claude::of(&name) {
                prop_assert!(!claude.binds_thinking() || claude.is_adaptive());
            }
        }
    }
}
