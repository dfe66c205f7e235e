//! The models this node can use, by id.

use std::{collections::BTreeMap, sync::Arc};

use sortie_agent::Model;
use sortie_api::model::ModelCatalog;

pub(crate) struct Models {
    by_id: BTreeMap<String, Arc<dyn Model>>,
    catalog: ModelCatalog,
}

impl Models {
    /// The models that need no provider: `runbook`.
    pub(crate) fn offline() -> Self {
        let runbook = sortie_agent::runbook();
        let info = runbook.info().clone();
        Self {
            catalog: ModelCatalog {
                default_model: info.id.clone(),
                models: vec![info.clone()],
            },
            by_id: BTreeMap::from([(info.id, runbook)]),
        }
    }

    pub(crate) const fn catalog(&self) -> &ModelCatalog {
        &self.catalog
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Arc<dyn Model>> {
        self.by_id.get(id)
    }
}
