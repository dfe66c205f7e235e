//! `sortie connections`: the APIs and MCP servers that runs call through the engine.
//!
//! A credential is read from standard input or from the environment and goes into the request, nowhere else.

use std::{io::Read as _, path::Path};

use serde_json::{Map, Value, json};
use sortie_api::{
    Connection, ConnectionStatus,
    connection::{AuthType, ConfirmedAuthorization, ConnectionTest, ConnectionType},
    limits, plain,
};

use super::{Context, print_json, table};
use crate::{
    args::{ConnectionsCommand, ListArgs, Name, PutArgs},
    client::Client,
    config::Environment,
    failure::{Exit, Failure, Result},
    prompt,
    terminal::{self, harmless},
};

/// The largest definition that is read: every field at its limit fits.
const DEFINITION_BYTES: u64 = 1 << 20;

/// Number of codes that `authorize` asks for: the engine takes no more for one authorization.
const CODE_TRIES: u32 = 5;

pub(super) async fn execute(context: &Context, command: ConnectionsCommand) -> Result<Exit> {
    match command {
        ConnectionsCommand::List(args) => list(context, &args).await,
        ConnectionsCommand::Get { name, list } => get(context, &name, &list).await,
        ConnectionsCommand::Put(args) => put(context, &args).await,
        ConnectionsCommand::Delete { name, engine } => {
            let connection = context.records(&engine).await?;
            let deleted = connection.client.delete_connection(&name).await;
            connection.close().await;
            deleted?;
            terminal::note(&format!("connection {name} is deleted"));
            Ok(Exit::Success)
        }
        ConnectionsCommand::Test { name, list } => test(context, &name, &list).await,
        ConnectionsCommand::Authorize { name, list } => authorize(context, &name, &list).await,
        ConnectionsCommand::Confirm { name, code, list } => confirm(context, &name, &code, &list).await,
        ConnectionsCommand::Catalog(args) => catalog(context, &args).await,
    }
}

async fn list(context: &Context, args: &ListArgs) -> Result<Exit> {
    let connection = context.records(&args.engine).await?;
    let all = connection.client.list_connections().await;
    connection.close().await;
    let all = all?;
    if args.json {
        return print_json(&all);
    }
    let mut rows = table::new(["CONNECTION", "TYPE", "AUTH", "STATUS", "LEADS TO"]);
    for one in &all {
        rows.add_row([
            one.name.clone(),
            one.kind.to_string(),
            one.auth.kind.to_string(),
            one.status.to_string(),
            leads_to(one),
        ]);
    }
    terminal::print(&table::text(&rows))?;
    Ok(Exit::Success)
}

fn leads_to(connection: &Connection) -> String {
    let text = match (&connection.url, &connection.command) {
        (Some(url), _) => url.clone(),
        (None, Some(command)) => command.join(" "),
        (None, None) => String::new(),
    };
    harmless(&text).into_owned()
}

async fn get(context: &Context, name: &Name, args: &ListArgs) -> Result<Exit> {
    let connection = context.records(&args.engine).await?;
    let found = connection.client.get_connection(name).await;
    connection.close().await;
    shown(&found?, args)
}

fn shown(connection: &Connection, args: &ListArgs) -> Result<Exit> {
    if args.json {
        return print_json(connection);
    }
    terminal::print(&details(connection, connection.status.as_str()))?;
    Ok(Exit::Success)
}

fn details(connection: &Connection, status: &str) -> String {
    let joined = |items: &[String]| (!items.is_empty()).then(|| items.join(", "));
    let allowed = connection
        .allowed_methods
        .as_deref()
        .or(connection.allowed_tools.as_deref());
    let lines = [
        ("connection", Some(connection.name.clone())),
        ("type", Some(connection.kind.to_string())),
        ("leads to", Some(leads_to(connection))),
        ("auth", Some(connection.auth.kind.to_string())),
        ("headers", joined(&connection.headers)),
        ("env", joined(&connection.env)),
        ("allowed", allowed.map(|items| items.join(", "))),
        ("about", connection.description.clone()),
        ("status", Some(status.to_owned())),
        ("error", connection.error.clone()),
        ("created", Some(connection.created_at.to_string())),
        ("updated", Some(connection.updated_at.to_string())),
    ];
    lines
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name:<10} {}\n", harmless(&value?))))
        .collect()
}

async fn put(context: &Context, args: &PutArgs) -> Result<Exit> {
    let definition = match &args.file {
        Some(path) => read_definition(path)?,
        None => definition(args, &context.environment, || {
            match prompt::hidden("credential: ", limits::CREDENTIAL_BYTES)? {
                Some(typed) => Ok(typed),
                None => secret_of(&mut std::io::stdin()),
            }
        })?,
    };
    let connection = context.records(&args.list.engine).await?;
    let saved = connection.client.put_connection(&args.name, &definition).await;
    connection.close().await;
    let saved = saved?;
    match saved.status {
        ConnectionStatus::NeedsAuthorization => terminal::note(&format!(
            "it needs a person: sortie connections authorize {}",
            args.name
        )),
        // A save does not ask the server: whether the address and the credential work is unknown.
        ConnectionStatus::Ready if !args.list.json => {
            let status = format!("saved, not tested: run `sortie connections test {}`", args.name);
            terminal::print(&details(&saved, &status))?;
            return Ok(Exit::Success);
        }
        ConnectionStatus::Ready | ConnectionStatus::Error => {}
    }
    shown(&saved, &args.list)
}

/// A definition in JSON or TOML.
fn read_definition(path: &Path) -> Result<Value> {
    let name = path.display();
    let text = if path == Path::new("-") {
        read_text(&mut std::io::stdin(), "standard input")?
    } else {
        let mut file = std::fs::File::open(path)
            .map_err(|error| Failure::usage(format!("{name}: cannot be read: {}", plain::io(&error))))?;
        read_text(&mut file, &name.to_string())?
    };
    // Errors of either parser repeat what they stumbled over, which may be a credential.
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(&text)
            .map_err(|error| Failure::usage(format!("{name}: not JSON, at line {}", error.line())));
    }
    text.parse::<toml::Table>()
        .ok()
        .and_then(|table| serde_json::to_value(table).ok())
        .ok_or_else(|| Failure::usage(format!("{name}: neither a JSON object nor TOML")))
}

/// A text of at most [`DEFINITION_BYTES`]; `name` is where it comes from, for messages.
pub(super) fn read_text(source: &mut impl std::io::Read, name: &str) -> Result<String> {
    let mut text = String::new();
    source
        .take(DEFINITION_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(|error| Failure::usage(format!("{name}: cannot be read: {}", plain::io(&error))))?;
    if text.len() as u64 > DEFINITION_BYTES {
        return Err(Failure::usage(format!(
            "{name}: larger than {DEFINITION_BYTES} bytes"
        )));
    }
    Ok(text)
}

/// The definition that the flags describe, with its credential from where they say.
fn definition(
    args: &PutArgs,
    environment: &Environment,
    ask: impl FnOnce() -> Result<String>,
) -> Result<Value> {
    let kind = if args.mcp {
        ConnectionType::Mcp
    } else {
        ConnectionType::Http
    };
    let mut definition = Map::new();
    let mut set = |name: &str, value: Value| definition.insert(name.to_owned(), value);
    set("type", json!(kind));
    set("url", json!(args.target));
    if !args.headers.is_empty() {
        set("headers", headers(&args.headers, environment)?);
    }
    if !args.allow.is_empty() {
        let field = if args.mcp {
            "allowed_tools"
        } else {
            "allowed_methods"
        };
        set(field, json!(args.allow));
    }
    if let Some(description) = &args.description {
        set("description", json!(description));
    }
    let auth = AuthType::from(args.auth);
    if auth != AuthType::None {
        set("auth", auth_of(auth, args, environment, ask)?);
    }
    Ok(Value::Object(definition))
}

pub(super) fn variable(environment: &Environment, name: &str) -> Result<String> {
    environment
        .get(name)
        .map(ToOwned::to_owned)
        .ok_or_else(|| Failure::usage(format!("the variable {name} is not set")))
}

fn headers(pairs: &[String], environment: &Environment) -> Result<Value> {
    let mut headers = Map::new();
    for pair in pairs {
        let (name, from) = pair
            .split_once('=')
            .ok_or_else(|| Failure::usage("--header-env takes NAME=VARIABLE"))?;
        headers.insert(name.to_owned(), variable(environment, from)?.into());
    }
    Ok(headers.into())
}

fn auth_of(
    kind: AuthType,
    args: &PutArgs,
    environment: &Environment,
    ask: impl FnOnce() -> Result<String>,
) -> Result<Value> {
    let mut auth = Map::new();
    auth.insert("type".to_owned(), json!(kind));
    let given = [
        ("name", &args.auth_name),
        ("username", &args.username),
        ("client_id", &args.client_id),
        ("issuer", &args.issuer),
    ];
    for (field, value) in given {
        if let Some(value) = value {
            auth.insert(field.to_owned(), json!(value));
        }
    }
    if !args.scopes.is_empty() {
        auth.insert("scopes".to_owned(), json!(args.scopes));
    }
    let field = match kind {
        AuthType::Bearer => "token",
        AuthType::Basic => "password",
        AuthType::Header | AuthType::Query => "value",
        AuthType::OAuth | AuthType::None => "client_secret",
    };
    let secret = match &args.secret_env {
        Some(name) => Some(variable(environment, name)?),
        // A client may have no secret: nobody is asked for one.
        None if kind == AuthType::OAuth => None,
        None => Some(ask()?),
    };
    if let Some(secret) = secret {
        auth.insert(field.to_owned(), secret.into());
    }
    Ok(auth.into())
}

/// The credential on standard input, without the end of its line.
fn secret_of(stdin: &mut impl std::io::Read) -> Result<String> {
    let text = read_text(stdin, "standard input")?;
    let secret = text.trim_end_matches(['\r', '\n']);
    if secret.len() > limits::CREDENTIAL_BYTES {
        return Err(Failure::usage("standard input: larger than a credential may be"));
    }
    Ok(secret.to_owned())
}

async fn test(context: &Context, name: &Name, args: &ListArgs) -> Result<Exit> {
    let connection = context.records(&args.engine).await?;
    let found = connection.client.test_connection(name).await;
    connection.close().await;
    let found = found?;
    if args.json {
        print_json(&found)?;
    } else {
        terminal::print(&findings(&found))?;
    }
    Ok(match found.status {
        ConnectionStatus::Ready => Exit::Success,
        ConnectionStatus::NeedsAuthorization | ConnectionStatus::Error => Exit::Failed,
    })
}

fn findings(found: &ConnectionTest) -> String {
    let tools = found
        .tools
        .iter()
        .flatten()
        .map(|tool| format!("  {}\n", harmless(tool)));
    let first = format!(
        "{}: {} ({} ms)\n",
        found.status,
        harmless(&found.detail),
        found.duration_ms
    );
    std::iter::once(first).chain(tools).collect()
}

async fn authorize(context: &Context, name: &Name, args: &ListArgs) -> Result<Exit> {
    let connection = context.records(&args.engine).await?;
    if connection.own_sandbox().is_some() {
        connection.close().await;
        return Err(Failure::usage(
            "the browser comes back to an engine that stays: start one with `sortie serve`, or name one by --url",
        ));
    }
    let done = begin(&connection.client, name, args).await;
    connection.close().await;
    done
}

/// Begins an authorization, and confirms it where somebody is there to type the code.
async fn begin(client: &Client, name: &Name, args: &ListArgs) -> Result<Exit> {
    let begun = client.authorize_connection(name).await?;
    if args.json {
        return print_json(&begun);
    }
    terminal::print_line(&harmless(&begun.authorization_url))?;
    terminal::note(&format!(
        "open it in a browser until {}; the page that it comes back to shows a code",
        begun.expires_at
    ));
    let by_hand = format!("confirm it with: sortie connections confirm {name} CODE");
    let mut tries = 1;
    loop {
        let Some(code) = prompt::line("code: ")?.filter(|code| !code.is_empty()) else {
            terminal::note(&by_hand);
            return Ok(Exit::Success);
        };
        match present(client, name, &code, args).await {
            Err(failure) if is_mistyped(&failure) && tries < CODE_TRIES => {
                terminal::note(&harmless(&failure.to_string()));
                tries += 1;
            }
            Err(failure) => return Err(Failure::new(failure.exit, format!("{failure}; {by_hand}"))),
            Ok(exit) => return Ok(exit),
        }
    }
}

/// Whether the engine refused the code itself, and takes another one.
fn is_mistyped(failure: &Failure) -> bool {
    failure.exit == Exit::Usage && failure.to_string().starts_with("code: ")
}

async fn confirm(context: &Context, name: &Name, code: &str, args: &ListArgs) -> Result<Exit> {
    let connection = context.records(&args.engine).await?;
    let done = present(&connection.client, name, code, args).await;
    connection.close().await;
    done
}

/// Presents the code of the page.
async fn present(client: &Client, name: &Name, code: &str, args: &ListArgs) -> Result<Exit> {
    let confirmed = client.confirm_authorization(name, code).await?;
    if args.json {
        return print_json(&confirmed);
    }
    terminal::print_line(&harmless(&outcome(&confirmed)))?;
    Ok(Exit::Success)
}

/// The sentence that names the account, as far as it is known.
fn outcome(confirmed: &ConfirmedAuthorization) -> String {
    let account = match (&confirmed.account, &confirmed.issuer) {
        (Some(account), Some(issuer)) => format!(" as {account} at {issuer}"),
        (Some(account), None) => format!(" as {account}"),
        (None, Some(issuer)) => format!(" at {issuer}"),
        (None, None) => String::new(),
    };
    format!("connection {} is authorized{account}", confirmed.connection)
}

async fn catalog(context: &Context, args: &ListArgs) -> Result<Exit> {
    let connection = context.records(&args.engine).await?;
    let services = connection.client.known_services().await;
    connection.close().await;
    let services = services?;
    if args.json {
        return print_json(&services);
    }
    let mut rows = table::new(["SERVICE", "TYPE", "AUTH", "LEADS TO"]);
    for service in services {
        rows.add_row([
            harmless(&service.name).into_owned(),
            service.kind.to_string(),
            service.auth.kind.to_string(),
            harmless(&service.url).into_owned(),
        ]);
    }
    terminal::print(&table::text(&rows))?;
    Ok(Exit::Success)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};

    fn defined(arguments: &[&str], stdin: &str) -> Result<Value> {
        let all = ["sortie", "connections", "put"].iter().chain(arguments);
        let Command::Connections(ConnectionsCommand::Put(args)) = Cli::try_parse_from(all).unwrap().command
        else {
            unreachable!("asked for put");
        };
        let environment = [("TOKEN", "from-env"), ("KEY", "a key")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into_iter()
            .collect();
        definition(&args, &environment, || secret_of(&mut stdin.as_bytes()))
    }

    #[test]
    fn flags_describe_a_definition_and_the_credential_comes_from_elsewhere() {
        let url = "https://a.example";
        assert_eq!(
            defined(&["crm", url, "--auth", "bearer", "--allow", "GET"], "hush\r\n").unwrap(),
            json!({"type": "http", "url": url, "allowed_methods": ["GET"], "auth": {"type": "bearer", "token": "hush"}})
        );
        assert_eq!(
            defined(
                &[
                    "crm",
                    url,
                    "--auth",
                    "basic",
                    "--username",
                    "ann",
                    "--secret-env",
                    "TOKEN"
                ],
                "unread"
            )
            .unwrap(),
            json!({"type": "http", "url": url, "auth": {"type": "basic", "username": "ann", "password": "from-env"}})
        );
        assert_eq!(
            defined(
                &[
                    "crm", url, "--mcp", "--auth", "oauth", "--scope", "read", "--allow", "find"
                ],
                ""
            )
            .unwrap(),
            json!({"type": "mcp", "url": url, "allowed_tools": ["find"], "auth": {"type": "oauth", "scopes": ["read"]}})
        );
        assert_eq!(
            defined(
                &["crm", url, "--header-env", "X-Key=KEY", "--description", "d"],
                ""
            )
            .unwrap(),
            json!({"type": "http", "url": url, "headers": {"X-Key": "a key"}, "description": "d"})
        );
        for wrong in [["--header-env", "X-Key"], ["--header-env", "X-Key=NOWHERE"]] {
            assert!(
                defined(&["crm", url, wrong[0], wrong[1]], "").is_err(),
                "{wrong:?}"
            );
        }
    }

    #[test]
    fn a_code_is_asked_for_again_where_the_engine_refuses_the_code_itself() {
        for (exit, message, again) in [
            (
                Exit::Usage,
                "code: must be the eight letters that the page shows",
                true,
            ),
            (
                Exit::Usage,
                "code: is not the one that the page shows; after five tries",
                true,
            ),
            (
                Exit::Usage,
                "no authorization waits for its confirmation: start one",
                false,
            ),
            (Exit::Unavailable, "code: unknown", false),
        ] {
            assert_eq!(is_mistyped(&Failure::new(exit, message)), again, "{message}");
        }
    }

    #[test]
    fn a_definition_is_read_from_json_and_toml_and_errors_repeat_nothing_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("definition");
        let read = |text: &str| {
            std::fs::write(&file, text).unwrap();
            read_definition(&file)
        };
        let expected =
            json!({"type": "http", "url": "https://a.example", "auth": {"type": "bearer", "token": "hush"}});
        assert_eq!(read(&expected.to_string()).unwrap(), expected);
        let toml =
            "type = \"http\"\nurl = \"https://a.example\"\n[auth]\ntype = \"bearer\"\ntoken = \"hush\"\n";
        assert_eq!(read(toml).unwrap(), expected);
        for wrong in ["{\"token\": hush}", "token = hush", "[hush"] {
            let refusal = read(wrong).unwrap_err().to_string();
            assert!(!refusal.contains("hush"), "{refusal}");
        }
        assert!(read_definition(&folder.path().join("nothing")).is_err());
    }

    #[test]
    fn a_confirmed_authorization_names_its_account() {
        let outcome = |account: Option<&str>, issuer: Option<&str>| {
            outcome(&ConfirmedAuthorization {
                connection: "crm".to_owned(),
                status: ConnectionStatus::Ready,
                account: account.map(str::to_owned),
                issuer: issuer.map(str::to_owned),
                scope: None,
            })
        };
        let url = "https://auth.example.com";
        assert_eq!(outcome(None, None), "connection crm is authorized");
        assert_eq!(
            outcome(Some("ann"), Some(url)),
            "connection crm is authorized as ann at https://auth.example.com"
        );
        assert_eq!(outcome(Some("ann"), None), "connection crm is authorized as ann");
        assert_eq!(
            outcome(None, Some(url)),
            format!("connection crm is authorized at {url}")
        );
    }

    #[test]
    fn a_connection_shows_what_it_has() {
        let connection: Connection = serde_json::from_value(json!({
            "name": "crm", "type": "http", "url": "https://a.example/v1", "auth": {"type": "bearer"},
            "headers": ["X-Key"], "allowed_methods": ["GET", "POST"], "status": "error",
            "error": "the API answers HTTP 500\u{1b}[2J", "created_at": "2026-11-20T21:30:00.000Z",
            "updated_at": "2026-11-20T21:31:00.000Z"
        }))
        .unwrap();
        insta::assert_snapshot!(details(&connection, "error"));
    }
}
