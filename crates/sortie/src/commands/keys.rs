//! `sortie keys`: the API keys of the engine.

use std::path::PathBuf;

use sortie_api::{
    Budget, BudgetScope, ErrorCode, Mode, OrganizationInfo, PutBudget,
    key::{ApiKey, CreateKey, CreatedKey, RotateKey},
    secret::{SELF_HOSTED_KEY, Secret},
};
use sortie_engine::{Clock, create_key_offline};

use super::{Context, budgets};
use crate::{
    args::{Allowance, Grace, KeysCommand, Reference},
    client::{Client, ClientKey, KeySource, delete, get, post_json, put},
    connect::{Connection, database_exists},
    data_dir::{DataDir, NodeKey, Owner},
    failure::{Exit, Failure, Result},
    node::open_store,
    render::{Field, Look, Record, Render, id, maybe_time, some, time},
    terminal,
};

pub(super) async fn execute(context: &Context, command: KeysCommand) -> Result<Exit> {
    match command {
        KeysCommand::Create {
            name,
            role,
            expiry,
            budget,
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
            let create = async |client: &Client| create(client, &request, budget).await;
            let created = context.call(&render, create).await?;
            render.one(&created)
        }
        KeysCommand::List(render) => context.list::<ApiKey>(&render, get("v1/admin/keys")).await,
        KeysCommand::Rotate { key, grace, render } => rotate(context, &key, grace, &render).await,
        KeysCommand::Revoke { keys } => {
            let revoke = async |client: &Client| {
                for key in client.find_all::<ApiKey>(&keys).await? {
                    client.ask::<()>(delete(format!("v1/admin/keys/{key}"))).await?;
                    terminal::note(&format!("{key} is revoked"));
                }
                Ok(Exit::Success)
            };
            context.call(&Render::default(), revoke).await
        }
    }
}

impl Record for ApiKey {
    const COLUMNS: &'static [Field<Self>] = &[
        ("KEY", |key| id(key.id)),
        ("ROLE", |key| some(key.role)),
        ("NAME", |key| some(&key.name)),
        ("EXPIRES", |key| {
            maybe_time(key.expires_at).or_else(|| some("never"))
        }),
    ];
    const MORE: &'static [Field<Self>] = &[("CREATED", |key| time(key.created_at))];
    const CUT: &'static [&'static str] = &["NAME"];
}

impl Record for CreatedKey {
    fn text(&self, _: &Look) -> String {
        format!("{}\n", self.key)
    }

    fn note(&self) -> Option<String> {
        let until = self
            .expires_at
            .map_or_else(String::new, |at| format!(", works until {at}"));
        let name = terminal::harmless(&self.name);
        Some(format!(
            "{} key {} made for {name}{until}; it is shown this once",
            self.role, self.id
        ))
    }
}

/// Creates a key, with its budget. A key without the budget that it should have is revoked.
async fn create(client: &Client, request: &CreateKey, budget: Option<Allowance>) -> Result<CreatedKey> {
    let created: CreatedKey = client.ask(post_json("v1/admin/keys", request)).await?;
    let Some(Allowance { limit, period }) = budget else {
        return Ok(created);
    };
    let budget = PutBudget {
        limit_micros: limit,
        period,
    };
    let path = budgets::path(&BudgetScope::Key(created.id));
    let Err(failure) = client.ask::<Budget>(put(path, &budget)).await else {
        return Ok(created);
    };
    let revoked = client
        .ask::<()>(delete(format!("v1/admin/keys/{}", created.id)))
        .await;
    Err(Failure::new(
        failure.exit,
        match revoked {
            Ok(()) => format!("cannot set the budget, so the key is revoked: {failure}"),
            Err(error) => format!(
                "cannot set the budget: {failure}; the key {} exists without it and cannot be revoked: {error}",
                created.id
            ),
        },
    ))
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
async fn rotate(context: &Context, key: &Reference, grace: Option<Grace>, render: &Render) -> Result<Exit> {
    let work = async |connection: &mut Connection| {
        let id = connection.client.find::<ApiKey>(key).await?;
        rotate_on(connection, &id, grace).await
    };
    let (rotated, kept) = context.with(render, work).await?;
    // Print the key even if the file could not be written: the engine never shows it again.
    render.answer(&rotated, |rotated| Ok(terminal::print_line(&rotated.key)?))?;
    let until = rotated
        .previous_until
        .map_or_else(String::new, |at| format!("; the one before works until {at}"));
    terminal::note(&format!(
        "{} has a new secret, which is shown this once{until}",
        rotated.id
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
    key: &str,
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
        if id.is_some_and(|id| id.to_string() == key) {
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
