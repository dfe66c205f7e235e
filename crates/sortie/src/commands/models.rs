//! `sortie models`: the models that runs can use, and their prices.

use sortie_api::{Micros, model::ModelCatalog};

use super::Context;
use crate::{
    client::get,
    failure::{Exit, Result},
    render::{Look, Record, Render, grid, some},
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

pub(super) async fn list(context: &Context, render: &Render) -> Result<Exit> {
    context.one::<ModelCatalog>(render, get("v1/models")).await
}

fn price(micros: Micros) -> String {
    if micros.is_zero() {
        "free".to_owned()
    } else {
        micros.to_string()
    }
}
