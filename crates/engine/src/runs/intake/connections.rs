//! Rules of `connections`: their number, their names, and that each is an existing saved connection or a valid
//! definition.
//!
//! The checked request holds no credentials: those of inline definitions are returned separately, for sealing.

use std::collections::BTreeMap;

use sortie_api::{
    OrgId, Refusal, RunRequest,
    connection::{ConnectionDefinition, ConnectionType},
    limits,
    request::RunConnection,
};

use crate::{
    connections::{
        Connections,
        fields::At,
        form::{self, Use},
        secrets::Secrets,
    },
    kit::rules::{self, broken},
};

/// Checks the request's connections and removes the credentials of inline ones from it. Returns these by name.
pub(super) async fn check(
    connections: &Connections,
    org: OrgId,
    request: &mut RunRequest,
) -> Result<BTreeMap<String, Secrets>, Refusal> {
    let inline_secrets = form(connections, request)?;
    if let Some(all) = &request.connections {
        references_there_are(connections, org, all).await?;
    }
    Ok(inline_secrets)
}

/// Checks the request's connections without a look-up of saved ones. Removes the credentials of inline ones from the
/// request, and returns them by name.
pub(super) fn form(
    connections: &Connections,
    request: &mut RunRequest,
) -> Result<BTreeMap<String, Secrets>, Refusal> {
    let mut inline_secrets = BTreeMap::new();
    let Some(all) = &mut request.connections else {
        return Ok(inline_secrets);
    };
    if all.len() > limits::CONNECTIONS {
        return Err(broken(
            "connections",
            format!("must have at most {} entries", limits::CONNECTIONS),
        ));
    }
    for (name, connection) in all.iter_mut() {
        let field = format!("connections.{name}");
        rules::name(&shown(&field), name)?;
        let at = At(&field);
        match (&connection.reference, connection.kind) {
            (Some(_), None) => reference(at, connection)?,
            (None, Some(_)) => {
                let secrets = inline(connections, at, connection)?;
                if !secrets.is_empty() {
                    inline_secrets.insert(name.clone(), secrets);
                }
            }
            (Some(_), Some(_)) | (None, None) => {
                return Err(broken(field, "must have either ref, or type and url"));
            }
        }
    }
    Ok(inline_secrets)
}

/// Shortens a field's name for use in a message, because it contains the name of the connection, which is not checked yet.
fn shown(field: &str) -> String {
    field
        .chars()
        .take(60)
        .filter(|character| !character.is_control())
        .collect()
}

/// Checks the form of `{ref, allowed_methods?, allowed_tools?}`.
fn reference(at: At<'_>, connection: &RunConnection) -> Result<(), Refusal> {
    let others = [
        ("url", connection.url.is_some()),
        ("auth", connection.auth.is_some()),
        ("headers", connection.headers.is_some()),
    ];
    if let Some((field, _)) = others.iter().find(|(_, is_there)| *is_there) {
        return Err(at.broken(
            field,
            "is for an inline definition: the saved connection has its own",
        ));
    }
    if let Some(methods) = &connection.allowed_methods {
        form::allowed_methods(at, methods)?;
    }
    match &connection.allowed_tools {
        Some(tools) => form::allowed_tools(at, tools),
        None => Ok(()),
    }
}

/// Checks an inline definition, and replaces it with its half without secrets.
fn inline(connections: &Connections, at: At<'_>, connection: &mut RunConnection) -> Result<Secrets, Refusal> {
    let Some(kind) = connection.kind else {
        return Err(at.broken("type", "required"));
    };
    let definition = ConnectionDefinition {
        kind,
        url: connection.url.take(),
        command: None,
        env: None,
        auth: connection.auth.take(),
        headers: connection.headers.take(),
        allowed_methods: connection.allowed_methods.take(),
        allowed_tools: connection.allowed_tools.take(),
        description: None,
    };
    let checked = form::check(at, connections.rules(Use::Inline), definition)?;
    *connection = RunConnection {
        reference: None,
        kind: Some(checked.definition.kind),
        url: checked.definition.url,
        auth: checked.definition.auth,
        headers: checked.definition.headers,
        allowed_methods: checked.definition.allowed_methods,
        allowed_tools: checked.definition.allowed_tools,
    };
    Ok(checked.secrets)
}

/// Checks that each saved connection exists and has the type that its lists apply to.
async fn references_there_are(
    connections: &Connections,
    org: OrgId,
    all: &BTreeMap<String, RunConnection>,
) -> Result<(), Refusal> {
    let names: Vec<String> = all
        .values()
        .filter_map(|connection| connection.reference.clone())
        .collect();
    if names.is_empty() {
        return Ok(());
    }
    let kinds = connections.kinds(org, names).await?;
    for (name, connection) in all {
        let Some(reference) = &connection.reference else {
            continue;
        };
        let field = format!("connections.{name}");
        let at = At(&field);
        let Some(kind) = kinds.get(reference) else {
            let told: String = reference.chars().take(100).collect();
            return Err(at.broken("ref", format!("no connection {told:?}")));
        };
        if connection.allowed_methods.is_some() && *kind != ConnectionType::Http {
            return Err(at.broken("allowed_methods", "is for type http"));
        }
        if connection.allowed_tools.is_some() && *kind != ConnectionType::Mcp {
            return Err(at.broken("allowed_tools", "is for type mcp"));
        }
    }
    Ok(())
}
