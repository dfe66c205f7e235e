//! Effort setting of a model for its answers.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Effort of a language model, from the least to the most. Each provider's client maps it to the nearest level that the
/// model has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// Least thinking that the model allows.
    Minimal,
    /// Little thinking.
    Low,
    /// The balance of cost and quality.
    Medium,
    /// Much thinking.
    High,
    /// More than `high`, for long work.
    Xhigh,
    /// Most thinking that the model allows.
    Max,
}

impl Effort {
    /// Every level, from the least to the most.
    pub const ALL: [Self; 6] = [
        Self::Minimal,
        Self::Low,
        Self::Medium,
        Self::High,
        Self::Xhigh,
        Self::Max,
    ];

    /// Name of the level, as in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Xhigh => "xhigh",
            Self::Max => "max",
        }
    }
}

/// A name that is no level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be one of minimal, low, medium, high, xhigh and max")]
pub struct UnknownEffort;

impl FromStr for Effort {
    type Err = UnknownEffort;

    fn from_str(name: &str) -> Result<Self, UnknownEffort> {
        let mut levels = Self::ALL.into_iter();
        levels.find(|level| level.as_str() == name).ok_or(UnknownEffort)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_has_one_name_everywhere() {
        for level in Effort::ALL {
            assert_eq!(level.as_str().parse(), Ok(level));
            assert_eq!(serde_json::to_value(level).unwrap(), level.as_str());
        }
        assert_eq!("extreme".parse::<Effort>(), Err(UnknownEffort));
        assert!(Effort::ALL.is_sorted());
    }
}
