//! The models that this node can use, by id.

use std::{collections::BTreeMap, sync::Arc};

use sortie_agent::Model;
use sortie_api::model::ModelCatalog;
use sortie_models::{Catalog, InvalidSettings, Settings, catalog};

use crate::kit::metrics::{ModelFigures, measured};

pub(crate) struct Models {
    by_id: BTreeMap<String, Arc<dyn Model>>,
    catalog: ModelCatalog,
}

impl Models {
    /// The models that the operator's settings make usable, `runbook` among them.
    pub(crate) fn new(settings: &Settings, figures: &ModelFigures) -> Result<Self, InvalidSettings> {
        let Catalog {
            default_model,
            models,
        } = catalog(settings)?;
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
        })
    }

    pub(crate) const fn catalog(&self) -> &ModelCatalog {
        &self.catalog
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Arc<dyn Model>> {
        self.by_id.get(id)
    }
}
