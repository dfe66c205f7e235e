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
                                     GEMINI_API_KEY, or run `sortie init` (docs/MODELS.md)";

/// Returns the rule that refuses a prompt without a named model, if these settings have no language model for it. Also returns
/// `None` for settings that are invalid themselves.
pub fn refuses_prompt(settings: &Settings, prompt: &str) -> Option<&'static str> {
    let is_stopgap = catalog(settings).is_ok_and(|catalog| catalog.is_stopgap);
    (is_stopgap && !is_runbook(prompt)).then_some(NO_LANGUAGE_MODEL)
}

/// Returns the models that an engine with these settings has.
///
/// # Errors
/// Invalid settings.
pub fn model_catalog(settings: &Settings) -> Result<ModelCatalog, Refusal> {
    let Catalog {
        default_model,
        models,
        ..
    } = catalog(settings).map_err(|error| ErrorCode::InvalidRequest.because(error.to_string()))?;
    Ok(ModelCatalog {
        default_model,
        models: models.iter().map(|model| model.info().clone()).collect(),
    })
}

/// Similarity of names, of at most 1, from which an unknown model is taken for a misspelt one.
const SIMILAR: f64 = 0.85;

/// Number of models that a message lists.
const LISTED: usize = 10;

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

    /// Returns the rule that refuses an unknown model, with the model that is probably meant, or else with those there are.
    pub(crate) fn unknown(&self, id: &str) -> String {
        let ids: Vec<_> = self
            .catalog
            .models
            .iter()
            .map(|model| model.id.as_str())
            .collect();
        if let Some(near) = nearest_model(id, &ids) {
            return format!("no model {id:?}; did you mean {near:?}?");
        }
        let listed = ids.iter().take(LISTED).copied().collect::<Vec<_>>().join(", ");
        match ids.len().saturating_sub(LISTED) {
            0 => format!("no model {id:?}; this engine has {listed}"),
            more => format!("no model {id:?}; this engine has {listed} and {more} more"),
        }
    }
}

/// Returns the model with the id most similar to an unknown one, or with one that contains it: `claude-opus-5-5` for `opus`.
fn nearest_model<'a>(id: &str, known: &[&'a str]) -> Option<&'a str> {
    let id = id.to_ascii_lowercase();
    let similarity = |known: &str| {
        let known = known.to_ascii_lowercase();
        if id.len() > 2 && known.contains(&id) {
            1.0
        } else {
            strsim::jaro_winkler(&id, &known)
        }
    };
    let rated = known.iter().map(|known| (similarity(known), *known));
    // Of equals the first, which is the better model of its provider.
    let best = rated.reduce(|best, next| if next.0 > best.0 { next } else { best });
    best.filter(|(similarity, _)| *similarity >= SIMILAR)
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_or_shortened_model_has_a_nearest_one() {
        let known = ["claude-opus-5-5", "claude-haiku-5", "gpt-6", "runbook"];
        for (id, near) in [
            ("claude-opus-55", Some("claude-opus-5-5")),
            ("Claude-Opus-5.5", Some("claude-opus-5-5")),
            ("haiku", Some("claude-haiku-5")),
            ("gtp-6", Some("gpt-6")),
            ("runbok", Some("runbook")),
            ("nothing", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest_model(id, &known), near, "{id}");
        }
    }
}
