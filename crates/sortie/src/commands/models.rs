//! `sortie models`: what runs can use, and what it costs.

use sortie_api::Micros;

use super::{Context, print_json, table};
use crate::{
    args::ListArgs,
    failure::{Exit, Result},
    terminal,
};

pub(super) async fn list(context: &Context, args: &ListArgs) -> Result<Exit> {
    let connection = context.records(&args.engine).await?;
    let catalog = connection.client.models().await;
    connection.close().await;
    let catalog = catalog?;
    if args.json {
        return print_json(&catalog);
    }
    let mut rows = table::new([
        "MODEL",
        "PROVIDER",
        "CONTEXT",
        "INPUT/MTOK",
        "OUTPUT/MTOK",
        "CAPABILITIES",
    ]);
    for model in &catalog.models {
        let default = if model.id == catalog.default_model {
            " (default)"
        } else {
            ""
        };
        rows.add_row([
            format!("{}{default}", model.id),
            model.provider.clone(),
            model.context_window.to_string(),
            price(model.prices.input_micros_per_mtok),
            price(model.prices.output_micros_per_mtok),
            model.capabilities.join(", "),
        ]);
    }
    terminal::print(&table::text(&rows))?;
    Ok(Exit::Success)
}

fn price(micros: Micros) -> String {
    if micros.is_zero() {
        "free".to_owned()
    } else {
        micros.to_string()
    }
}
