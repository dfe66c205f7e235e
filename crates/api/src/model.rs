//! The model catalog (`GET /v1/models`).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::money::Micros;

/// The models runs can use now.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ModelCatalog {
    /// The model of a run that names none.
    #[schema(example = "runbook")]
    pub default_model: String,
    /// Every usable model.
    pub models: Vec<ModelInfo>,
}

/// One model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModelInfo {
    /// What a run's `model` takes.
    #[schema(example = "runbook")]
    pub id: String,
    /// Who serves it.
    #[schema(example = "sortie")]
    pub provider: String,
    /// A name for people.
    pub name: String,
    /// Most tokens of a request and its answer together.
    pub context_window: u64,
    /// Most tokens of one answer.
    pub max_output_tokens: u64,
    /// What it costs.
    pub prices: ModelPrices,
    /// What it can do: `tools`, `structured_output`, `thinking`, `offline`.
    #[schema(example = json!(["tools", "offline"]))]
    pub capabilities: Vec<String>,
}

/// Prices in micros per million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModelPrices {
    /// A million tokens read.
    pub input_micros_per_mtok: Micros,
    /// A million tokens written.
    pub output_micros_per_mtok: Micros,
    /// A million tokens read from the provider's cache.
    pub cache_read_micros_per_mtok: Micros,
    /// A million tokens written to the provider's cache.
    pub cache_write_micros_per_mtok: Micros,
}
