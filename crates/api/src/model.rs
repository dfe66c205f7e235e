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

/// Model of the catalog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModelInfo {
    /// ID of the model, as a run's `model` takes it.
    #[schema(example = "runbook")]
    pub id: String,
    /// Name of the provider.
    #[schema(example = "sortie")]
    pub provider: String,
    /// Display name of the model.
    pub name: String,
    /// Maximum tokens of a request and its answer together.
    pub context_window: u64,
    /// Maximum tokens of one answer.
    pub max_output_tokens: u64,
    /// Prices of the model.
    pub prices: ModelPrices,
    /// Capabilities of the model: `tools`, `structured_output`, `thinking`, `offline`.
    #[schema(example = json!(["tools", "offline"]))]
    pub capabilities: Vec<String>,
}

/// Prices in micros per million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ModelPrices {
    /// Price of tokens read.
    pub input_micros_per_mtok: Micros,
    /// Price of tokens written.
    pub output_micros_per_mtok: Micros,
    /// Price of tokens read from the provider's cache.
    pub cache_read_micros_per_mtok: Micros,
    /// Price of tokens written to the provider's cache.
    pub cache_write_micros_per_mtok: Micros,
}
