//! `sortie connections`: the APIs and MCP servers that runs call through the engine.
//!
//! A credential is read from standard input or from the environment, and is used only in the request.

use std::{io::stdin, iter, path::Path};

use serde_json::{Map, Value, json};
use sortie_api::{
    Connection, ConnectionStatus,
    connection::{
        AuthType, Authorization, ConfirmAuthorization, ConfirmedAuthorization, ConnectionTest,
        ConnectionType, KnownService,
    },
    limits,
};

use super::Context;
use crate::{
    args::{AuthKind, ConnectionsCommand, Name, PutArgs},
    client::{Client, delete, get, post, post_json, put},
    config::Environment,
    connect,
    failure::{Exit, Failure, Result},
    input::{self, DEFINITION_BYTES, STDIN},
    prompt,
    render::{Cell, Field, Look, Record, Render, lines_but, maybe, print_json, some, time},
    terminal::{self, harmless},
};

/// Number of codes that `authorize` asks for: the engine accepts no more for one authorization.
const CODE_TRIES: u32 = 5;

fn path(name: &Name, rest: &str) -> String {
    format!("v1/connections/{name}{rest}")
}

pub(super) async fn execute(context: &Context, command: ConnectionsCommand) -> Result<Exit> {
    match command {
        ConnectionsCommand::List(render) => context.list::<Connection>(&render, get("v1/connections")).await,
        ConnectionsCommand::Get { name, render } => {
            context.one::<Connection>(&render, get(path(&name, ""))).await
        }
        ConnectionsCommand::Put(args) => save(context, &args).await,
        ConnectionsCommand::Delete { names } => {
            let delete = async |client: &Client| {
                for name in &names {
                    client.ask::<()>(delete(path(name, ""))).await?;
                    terminal::note(&format!("connection {name} is deleted"));
                }
                Ok(Exit::Success)
            };
            context.call(&Render::default(), delete).await
        }
        ConnectionsCommand::Test { name, render } => test(context, &name, &render).await,
        ConnectionsCommand::Authorize { name, render } => authorize(context, &name, &render).await,
        ConnectionsCommand::Confirm { name, code, render } => {
            let confirm = async |client: &Client| present(client, &name, &code, &render).await;
            context.call(&render, confirm).await
        }
        ConnectionsCommand::Catalog(render) => {
            context
                .list::<KnownService>(&render, get("v1/connections/catalog"))
                .await
        }
    }
}

impl Record for Connection {
    const COLUMNS: &'static [Field<Self>] = &[
        ("CONNECTION", |connection| some(&connection.name)),
        ("TYPE", |connection| some(connection.kind)),
        ("AUTH", |connection| some(connection.auth.kind)),
        ("STATUS", |connection| some(connection.status)),
        ("LEADS TO", |connection| some(leads_to(connection))),
    ];
    const CUT: &'static [&'static str] = &["LEADS TO"];
    const LINES: &'static [Field<Self>] = &[
        ("connection", |connection| some(&connection.name)),
        ("type", |connection| some(connection.kind)),
        ("leads to", |connection| some(leads_to(connection))),
        ("auth", |connection| some(connection.auth.kind)),
        ("headers", |connection| joined(&connection.headers)),
        ("env", |connection| joined(&connection.env)),
        ("allowed", |connection| {
            let allowed = connection.allowed_methods.as_ref();
            joined(allowed.or(connection.allowed_tools.as_ref())?)
        }),
        ("about", |connection| maybe(connection.description.as_ref())),
        ("status", |connection| some(connection.status)),
        ("error", |connection| maybe(connection.error.as_ref())),
        ("created", |connection| time(connection.created_at)),
        ("updated", |connection| time(connection.updated_at)),
    ];
}

fn joined(items: &[String]) -> Option<Cell> {
    maybe((!items.is_empty()).then(|| items.join(", ")))
}

fn leads_to(connection: &Connection) -> String {
    match (&connection.url, &connection.command) {
        (Some(url), _) => url.clone(),
        (None, Some(command)) => command.join(" "),
        (None, None) => String::new(),
    }
}

impl Record for KnownService {
    const COLUMNS: &'static [Field<Self>] = &[
        ("SERVICE", |service| some(&service.name)),
        ("TYPE", |service| some(service.kind)),
        ("AUTH", |service| some(service.auth.kind)),
        ("LEADS TO", |service| some(&service.url)),
    ];
    const CUT: &'static [&'static str] = &["LEADS TO"];
}

async fn save(context: &Context, args: &PutArgs) -> Result<Exit> {
    let definition = match &args.file {
        Some(path) => read_definition(path)?,
        None => definition(args, &context.environment, || {
            match prompt::hidden("credential: ", limits::CREDENTIAL_BYTES)? {
                Some(typed) => Ok(typed),
                None => secret_of(&mut stdin()),
            }
        })?,
    };
    let name = &args.name;
    let save = put(path(name, ""), &definition);
    let saved: Connection = context.ask(&args.render, save).await?;
    if saved.status == ConnectionStatus::NeedsAuthorization {
        terminal::note(&format!("it needs a person: sortie connections authorize {name}"));
    }
    args.render.answer(&saved, |saved| {
        // A save does not contact the server, so it is unknown whether the address and the credential work.
        let untested = format!("saved, not tested: run `sortie connections test {name}`");
        let untested = Some(untested).filter(|_| saved.status == ConnectionStatus::Ready);
        let text = lines_but(saved, &args.render.look(), |heading| {
            untested.clone().filter(|_| heading == "status")
        });
        Ok(terminal::print(&text)?)
    })
}

/// Reads a definition in JSON or TOML.
fn read_definition(path: &Path) -> Result<Value> {
    let (name, text) = input::file_or_stdin(path, &mut stdin(), DEFINITION_BYTES)?;
    // The messages of both parsers quote the faulty text, which may be a credential.
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(&text)
            .map_err(|error| Failure::usage(format!("{name}: not JSON, at line {}", error.line())));
    }
    text.parse::<toml::Table>()
        .ok()
        .and_then(|table| serde_json::to_value(table).ok())
        .ok_or_else(|| Failure::usage(format!("{name}: neither a JSON object nor TOML")))
}

/// Returns the definition that the flags describe. The flags also name the source of its credential.
fn definition(
    args: &PutArgs,
    environment: &Environment,
    ask: impl FnOnce() -> Result<String>,
) -> Result<Value> {
    let (kind, allowed) = if args.mcp || !args.command.is_empty() {
        (ConnectionType::Mcp, "allowed_tools")
    } else {
        (ConnectionType::Http, "allowed_methods")
    };
    let auth = if args.auth == AuthKind::None {
        Value::Null
    } else {
        auth_of(args.auth.into(), args, environment, ask)?
    };
    Ok(given(json!({
        "type": kind,
        "url": args.target,
        "command": args.command,
        "env": variables("--env", &args.variables, environment)?,
        "headers": variables("--header-env", &args.headers, environment)?,
        (allowed): args.allow,
        "description": args.description,
        "auth": auth,
    })))
}

/// Removes the fields that are not given.
fn given(mut fields: Value) -> Value {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    };
    if let Some(fields) = fields.as_object_mut() {
        fields.retain(|_, value| !is_empty(value));
    }
    fields
}

pub(super) fn variable(environment: &Environment, name: &str) -> Result<String> {
    environment
        .get(name)
        .map(ToOwned::to_owned)
        .ok_or_else(|| Failure::usage(format!("the variable {name} is not set")))
}

/// Returns the values of pairs NAME=VARIABLE by their names.
fn variables(flag: &str, pairs: &[String], environment: &Environment) -> Result<Value> {
    let mut values = Map::new();
    for pair in pairs {
        let (name, from) = pair
            .split_once('=')
            .ok_or_else(|| Failure::usage(format!("{flag} takes NAME=VARIABLE")))?;
        values.insert(name.to_owned(), variable(environment, from)?.into());
    }
    Ok(values.into())
}

fn auth_of(
    kind: AuthType,
    args: &PutArgs,
    environment: &Environment,
    ask: impl FnOnce() -> Result<String>,
) -> Result<Value> {
    let field = match kind {
        AuthType::Bearer => "token",
        AuthType::Basic => "password",
        AuthType::Header | AuthType::Query => "value",
        AuthType::OAuth | AuthType::None => "client_secret",
    };
    let secret = match &args.secret_env {
        Some(name) => Some(variable(environment, name)?),
        // A client may have no secret, so the command does not ask for one.
        None if kind == AuthType::OAuth => None,
        None => Some(ask()?),
    };
    Ok(given(json!({
        "type": kind,
        "name": args.auth_name,
        "username": args.username,
        "client_id": args.client_id,
        "issuer": args.issuer,
        "scopes": args.scopes,
        (field): secret,
    })))
}

/// The credential on standard input, without the end of its line.
fn secret_of(input: &mut impl std::io::Read) -> Result<String> {
    let text = input::text(input, STDIN, DEFINITION_BYTES)?;
    let secret = text.trim_end_matches(['\r', '\n']);
    if secret.len() > limits::CREDENTIAL_BYTES {
        return Err(Failure::usage("standard input: larger than a credential may be"));
    }
    Ok(secret.to_owned())
}

async fn test(context: &Context, name: &Name, render: &Render) -> Result<Exit> {
    let found: ConnectionTest = context.ask(render, post(path(name, "/test"))).await?;
    render.one(&found)?;
    Ok(match found.status {
        ConnectionStatus::Ready => Exit::Success,
        ConnectionStatus::NeedsAuthorization | ConnectionStatus::Error => Exit::Failed,
    })
}

impl Record for ConnectionTest {
    fn text(&self, _: &Look) -> String {
        let tools = self.tools.iter().flatten();
        let first = format!(
            "{}: {} ({} ms)\n",
            self.status,
            harmless(&self.detail),
            self.duration_ms
        );
        iter::once(first)
            .chain(tools.map(|tool| format!("  {}\n", harmless(tool))))
            .collect()
    }
}

async fn authorize(context: &Context, name: &Name, render: &Render) -> Result<Exit> {
    let authorize = async |connection: &mut connect::Connection| {
        if connection.own_engine().is_some() {
            return Err(Failure::usage(
                "the browser comes back to an engine that stays: start one with `sortie serve`, or name one by --url",
            ));
        }
        begin(&connection.client, name, render).await
    };
    context.with(render, authorize).await
}

/// Begins an authorization. Confirms it if a person is at the terminal to type the code.
async fn begin(client: &Client, name: &Name, render: &Render) -> Result<Exit> {
    let begun: Authorization = client.ask(post(path(name, "/oauth"))).await?;
    if render.is_json() {
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
        match present(client, name, &code, render).await {
            Err(failure) if is_mistyped(&failure) && tries < CODE_TRIES => {
                terminal::note(&harmless(&failure.to_string()));
                tries += 1;
            }
            Err(failure) => return Err(Failure::new(failure.exit, format!("{failure}; {by_hand}"))),
            Ok(exit) => return Ok(exit),
        }
    }
}

/// Whether the engine refused the code itself and accepts another one.
fn is_mistyped(failure: &Failure) -> bool {
    failure.exit == Exit::Usage && failure.to_string().starts_with("code: ")
}

/// Presents the code of the page.
async fn present(client: &Client, name: &Name, code: &str, render: &Render) -> Result<Exit> {
    let code = ConfirmAuthorization {
        code: code.to_owned(),
    };
    let confirm = post_json(path(name, "/oauth/confirm"), &code);
    let confirmed: ConfirmedAuthorization = client.ask(confirm).await?;
    render.one(&confirmed)
}

impl Record for ConfirmedAuthorization {
    /// Returns a sentence that names the account, as far as it is known.
    fn text(&self, _: &Look) -> String {
        let account = match (&self.account, &self.issuer) {
            (Some(account), Some(issuer)) => format!(" as {account} at {issuer}"),
            (Some(account), None) => format!(" as {account}"),
            (None, Some(issuer)) => format!(" at {issuer}"),
            (None, None) => String::new(),
        };
        let sentence = format!("connection {} is authorized{account}\n", self.connection);
        harmless(&sentence).into_owned()
    }
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
            let confirmed = ConfirmedAuthorization {
                connection: "crm".to_owned(),
                status: ConnectionStatus::Ready,
                account: account.map(str::to_owned),
                issuer: issuer.map(str::to_owned),
                scope: None,
            };
            confirmed.text(&Look::plain()).trim_end().to_owned()
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
            "updated_at": "2026-11-20T21:31:00.000Z", "used_by": []
        }))
        .unwrap();
        insta::assert_snapshot!(connection.text(&Look::plain()));
    }
}
