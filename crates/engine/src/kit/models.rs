//! The models that this node can use, by id.

use std::{collections::BTreeMap, sync::Arc};

use sortie_agent::{Model, is_runbook};
use sortie_api::{ErrorCode, Refusal, model::ModelCatalog};
use sortie_models::{Catalog, Settings, catalog};

use crate::kit::metrics::{ModelFigures, measured};

pub(crate) struct Models {
    by_id: BTreeMap<String, Arc<dyn Model>>,
    catalog: ModelCatalog,
    /// Whether the default is the offline model because no language model is configured.
    is_stopgap: bool,
}

/// Rule for a prompt that needs a language model, on an engine that has none.
pub(crate) const NO_LANGUAGE_MODEL: &str = "no language model is configured; set ANTHROPIC_API_KEY, OPENAI_API_KEY or \
                                     GEMINI_API_KEY, or name one (docs/MODELS.md)";

/// Returns the rule that refuses a prompt without a named model, if these settings have no language model for it. Also returns
/// `None` for settings that are invalid themselves.
pub fn refuses_prompt(settings: &Settings, prompt: &str) -> Option<&'static str> {
    let is_stopgap = catalog(settings).is_ok_and(|catalog| catalog.is_stopgap);
    (is_stopgap && !is_runbook(prompt)).then_some(NO_LANGUAGE_MODEL)
}

impl Models {
    /// The models that the operator's settings make usable, `runbook` among them.
    pub(crate) fn new(settings: &Settings, figures: &ModelFigures) -> Result<Self, Refusal> {
        let Catalog {
            default_model,
            is_stopgap,
            models,
        } = catalog(settings).map_err(|error| ErrorCode::InvalidRequest.because(error.to_string()))?;
        let models = measured(models, figures);
        Ok(Self {
            catalog: ModelCatalog {
                default_model,
                models: models.iter().map(|model| model.info().clone()).collect(),
            },
            by_id: models
                .into_iter()
                .map(|model| (model.info().id.clone(), model))
                .collect(),
            is_stopgap,
        })
    }

    /// Whether the default is the offline model because no language model is configured.
    pub(crate) const fn is_stopgap(&self) -> bool {
        self.is_stopgap
    }

    pub(crate) const fn catalog(&self) -> &ModelCatalog {
        &self.catalog
    }

    /// Returns the model of a request that names none. If the default is the offline model because no other is configured, the
    /// error is the rule for a prompt that the offline model cannot run.
    pub(crate) fn default_for(&self, prompt: &str) -> Result<&str, &'static str> {
        if self.is_stopgap && !is_runbook(prompt) {
            return Err(NO_LANGUAGE_MODEL);
        }
        Ok(&self.catalog.default_model)
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Arc<dyn Model>> {
        self.by_id.get(id)
    }
}
