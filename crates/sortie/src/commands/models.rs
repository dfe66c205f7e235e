//! `sortie models`: the models that runs can use, and their prices.

use sortie_api::{
    Micros,
    model::{ModelCatalog, ModelInfo},
};
use sortie_engine::model_catalog;

use super::Context;
use crate::{
    client::get,
    connect::{Connection, Need},
    data_dir::{DataDir, Occupancy},
    failure::{Exit, Failure, Result},
    render::{Look, Record, Render, grid, some},
    terminal,
};

impl Record for ModelCatalog {
    fn text(&self, look: &Look) -> String {
        let headings = [
            "MODEL",
            "PROVIDER",
            "CONTEXT",
            "INPUT/MTOK",
            "OUTPUT/MTOK",
            "CAPABILITIES",
        ];
        let rows = self.models.iter().map(|model| {
            let is_default = model.id == self.default_model;
            [
                some(format!(
                    "{}{}",
                    model.id,
                    if is_default { " (default)" } else { "" }
                )),
                some(&model.provider),
                some(model.context_window),
                some(price(model.prices.input_micros_per_mtok)),
                some(price(model.prices.output_micros_per_mtok)),
                some(model.capabilities.join(", ")),
            ]
        });
        grid(headings, rows, look)
    }
}

/// Lists the models of the engine that is named or runs, else those of the configuration.
pub(super) async fn list(context: &Context, render: &Render) -> Result<Exit> {
    let config = context.client_config(&context.flags)?;
    let is_running = matches!(DataDir::new(&config.data_dir).occupancy()?, Occupancy::Engine(_));
    if context.named_engine().is_some() || is_running {
        let connection = context.open(&config, Need::Records).await?;
        let ask = async |connection: &mut Connection| connection.client.ask(get("v1/models")).await;
        let catalog: ModelCatalog = connection.during(ask).await?;
        return render.one(&catalog);
    }
    let catalog = model_catalog(&config.models)
        .map_err(|error| Failure::new(Exit::Configuration, error.to_string()))?;
    render.one(&catalog)?;
    if catalog.models.iter().all(is_offline) && !render.is_json() {
        terminal::note(NO_LANGUAGE_MODEL);
    }
    Ok(Exit::Success)
}

/// Whether a model answers without a provider.
pub(super) fn is_offline(model: &ModelInfo) -> bool {
    model
        .capabilities
        .iter()
        .any(|capability| capability == "offline")
}

/// Remedy if only the offline model is there.
pub(super) const NO_LANGUAGE_MODEL: &str = "no language model yet: `sortie init` sets one up";

fn price(micros: Micros) -> String {
    if micros.is_zero() {
        "free".to_owned()
    } else {
        micros.to_string()
    }
}
