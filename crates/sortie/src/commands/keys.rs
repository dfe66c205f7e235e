//! `sortie keys`: the API keys of the engine.

use std::path::PathBuf;

use sortie_api::{
    ErrorCode, KeyId, Mode, OrganizationInfo,
    key::{ApiKey, CreateKey, CreatedKey, RotateKey},
    secret::{SELF_HOSTED_KEY, Secret},
};
use sortie_engine::{Clock, create_key_offline};

use super::Context;
use crate::{
    args::{Grace, KeysCommand},
    client::{ClientKey, KeySource, delete, get, post_json},
    connect::{Connection, database_exists},
    data_dir::{DataDir, NodeKey, Owner},
    failure::{Exit, Failure, Result},
    node::open_store,
    render::{Field, Record, Render, some},
    terminal,
};

pub(super) async fn execute(context: &Context, command: KeysCommand) -> Result<Exit> {
    match command {
        KeysCommand::Create {
            name,
            role,
            expiry,
            offline,
            database_url,
            render,
        } => {
            let request = CreateKey {
                name,
                role: Some(role.into()),
                expires_at: expiry.from(Clock::system().now()),
            };
            if offline {
                let created = create_offline(context, request, database_url.as_deref()).await?;
                return render.one(&created);
            }
            let create = post_json("v1/admin/keys", &request);
            context.one::<CreatedKey>(render, create).await
        }
        KeysCommand::List(render) => context.list::<ApiKey>(render, get("v1/admin/keys")).await,
        KeysCommand::Rotate { key, grace, render } => rotate(context, key, grace, render).await,
        KeysCommand::Revoke { key } => {
            let note = |(): &()| format!("{key} is revoked");
            context
                .done(Render::default(), delete(format!("v1/admin/keys/{key}")), note)
                .await
        }
    }
}

impl Record for ApiKey {
    const COLUMNS: &'static [Field<Self>] = &[
        ("KEY", |key| some(key.id)),
        ("ROLE", |key| some(key.role)),
        ("CREATED", |key| some(key.created_at)),
        ("EXPIRES", |key| {
            Some(
                key.expires_at
                    .map_or_else(|| "never".to_owned(), |at| at.to_string()),
            )
        }),
        ("NAME", |key| some(&key.name)),
    ];
}

impl Record for CreatedKey {
    fn text(&self) -> String {
        format!("{}\n", self.key)
    }

    fn note(&self) -> Option<String> {
        let until = self
            .expires_at
            .map_or_else(String::new, |at| format!(", works until {at}"));
        let name = terminal::harmless(&self.name);
        some(format!(
            "{} key {} made for {name}{until}; it is shown this once",
            self.role, self.id
        ))
    }
}

/// Creates a key in the database of a stopped engine.
async fn create_offline(
    context: &Context,
    request: CreateKey,
    database_url: Option<&str>,
) -> Result<CreatedKey> {
    let mut flags = context.flags.clone();
    flags.text("database_url", "--database-url", database_url);
    let config = context.client_config(&flags)?;
    if config.mode == Mode::Hosted {
        return Err(Failure::usage(
            "--offline: keys of a hosted deployment belong to its organizations, whose admins create them",
        ));
    }
    database_exists(
        &config,
        "name the data folder by --data-dir, or the database by --database-url",
    )?;
    let data_dir = DataDir::new(&config.data_dir);
    let owner = match config.database_url.sqlite_path() {
        Some(_) => Some(data_dir.own()?),
        // With such a database, each node has a separate folder.
        None => None,
    };
    if owner.as_ref().is_some_and(Owner::is_new_folder) {
        terminal::note(&data_dir.made());
    }
    let store = open_store(&config).await?;
    create_key_offline(&store, &Clock::system(), request)
        .await
        .map_err(|error| {
            let exit = if error.code == ErrorCode::InvalidRequest {
                Exit::Usage
            } else {
                Exit::Unavailable
            };
            Failure::new(exit, error.to_string())
        })
}

/// Rotates a key. If the data folder holds its secret, the file gets the new one.
async fn rotate(context: &Context, key: KeyId, grace: Option<Grace>, render: Render) -> Result<Exit> {
    let work = async |connection: &mut Connection| rotate_on(connection, key, grace).await;
    let (rotated, kept) = context.with(render, work).await?;
    // Print the key even if the file could not be written: the engine never shows it again.
    render.answer(&rotated, |rotated| Ok(terminal::print_line(&rotated.key)?))?;
    let until = rotated
        .previous_until
        .map_or_else(String::new, |at| format!("; the one before works until {at}"));
    terminal::note(&format!(
        "{key} has a new secret, which is shown this once{until}"
    ));
    if let Some(file) = kept? {
        terminal::note(&format!("{} holds it", file.display()));
    }
    Ok(Exit::Success)
}

/// The admin key of the data folder. If this user may not read it, the command says so, because it may be the rotated
/// key.
fn held_key(data_dir: &DataDir) -> Option<String> {
    data_dir.admin_key().unwrap_or_else(|failure| {
        terminal::note(&format!(
            "the new secret is not written to the data folder: {failure}"
        ));
        None
    })
}

/// The rotated key, and the result of updating the file if the data folder held its secret.
async fn rotate_on(
    connection: &Connection,
    key: KeyId,
    grace: Option<Grace>,
) -> Result<(CreatedKey, Result<Option<PathBuf>>)> {
    let client = &connection.client;
    let mut folder = None;
    if let Some(data_dir) = &connection.folder
        && let Some(held) = held_key(data_dir)
        && let Ok(held) = Secret::parse(SELF_HOSTED_KEY, &held)
    {
        let source = KeySource::File(data_dir.key_file(NodeKey::Admin));
        let me = client.with_key(ClientKey::new(held.expose(), source));
        let id = match me.ask::<OrganizationInfo>(get("v1/me")).await {
            Ok(me) => me.key_id,
            // The engine has revoked this key.
            Err(failure) if matches!(failure.exit, Exit::Denied | Exit::Forbidden) => None,
            Err(failure) => return Err(failure),
        };
        if id == Some(key) {
            data_dir.check_admin_key_can_be_replaced(held)?;
            folder = Some(data_dir);
        }
    }
    let request = RotateKey {
        grace_seconds: grace.map(Grace::seconds),
    };
    let path = format!("v1/admin/keys/{key}/rotate");
    let rotated: CreatedKey = client.ask(post_json(path, &request)).await?;
    let kept = folder.map(|data_dir| {
        let secret = Secret::parse(SELF_HOSTED_KEY, &rotated.key).map_err(|error| {
            Failure::internal(format!("cannot read the key in the engine's answer: {error}"))
        })?;
        data_dir.replace_admin_key(secret)?;
        Ok(data_dir.key_file(NodeKey::Admin))
    });
    Ok((rotated, kept.transpose()))
}
