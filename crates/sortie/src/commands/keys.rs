//! `sortie keys`: the API keys of the engine.

use sortie_api::key::CreateKey;

use super::{Context, print_json, table};
use crate::{
    args::KeysCommand,
    failure::{Exit, Result},
    terminal,
};

pub(super) async fn execute(context: &Context, command: KeysCommand) -> Result<Exit> {
    match command {
        KeysCommand::Create { name, role, list } => {
            let connection = context.records(&list.engine).await?;
            let request = CreateKey {
                name,
                role: Some(role.into()),
            };
            let created = connection.client.create_key(&request).await;
            connection.close().await;
            let created = created?;
            if list.json {
                return print_json(&created);
            }
            terminal::print_line(&created.key)?;
            terminal::note(&format!(
                "{} key {} made for {}; it is shown this once",
                created.role,
                created.id,
                terminal::harmless(&created.name)
            ));
        }
        KeysCommand::List(args) => {
            let connection = context.records(&args.engine).await?;
            let keys = connection.client.list_keys().await;
            connection.close().await;
            let keys = keys?;
            if args.json {
                return print_json(&keys);
            }
            let mut rows = table::new(["KEY", "ROLE", "CREATED", "NAME"]);
            for key in keys {
                rows.add_row([
                    key.id.to_string(),
                    key.role.to_string(),
                    key.created_at.to_string(),
                    terminal::harmless(&key.name).into_owned(),
                ]);
            }
            terminal::print(&table::text(&rows))?;
        }
        KeysCommand::Revoke { key, engine } => {
            let connection = context.records(&engine).await?;
            let revoked = connection.client.delete_key(key).await;
            connection.close().await;
            revoked?;
            terminal::note(&format!("{key} is revoked"));
        }
    }
    Ok(Exit::Success)
}
