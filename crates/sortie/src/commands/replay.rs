//! `sortie runs replay`: starts a new run with the definition of an earlier one, after adding the missing credentials.
//!
//! A credential comes from a file, a variable or a person at the terminal, and is used only in the request.

use std::{collections::BTreeMap, fmt};

use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};
use sortie_api::{Micros, limits, plain};

use super::{
    Context,
    connections::variable,
    run::{self, StartOptions},
};
use crate::{
    args::ReplayArgs,
    client::get,
    config::Environment,
    connect::Connection,
    failure::{Exit, Failure, Result},
    follow::Format,
    input::{self, DEFINITION_BYTES},
    prompt,
};

pub(super) async fn replay(context: &Context, args: ReplayArgs) -> Result<Exit> {
    let config = context.node_config(&args.node)?;
    let given = given(&args, &context.environment)?;
    let need = run::need(args.attendance);
    let connection = context.open(&config, need).await?;
    connection
        .during(async |connection| on(connection, context, &args, given).await)
        .await
}

async fn on(
    connection: &mut Connection,
    context: &Context,
    args: &ReplayArgs,
    given: BTreeMap<String, String>,
) -> Result<Exit> {
    let run = connection.client.find_run(&args.run).await?;
    let path = format!("v1/runs/{run}/definition");
    let used: UsedDefinition = connection.client.ask(get(path)).await?;
    if let Some(sandbox) = connection.own_sandbox().filter(|_| uses_commands(&used)) {
        run::check_sandbox(sandbox)?;
    }
    let ask = |connection: &str, field: &Field| {
        prompt::hidden(&format!("{connection}: {field}: "), limits::CREDENTIAL_BYTES)
    };
    let mut request = completed(used, args.max_cost, given, ask)?;
    let replayed = RawValue::from_string(format!("\"{run}\"")).map_err(unreadable)?;
    request.insert("replay_of".to_owned(), replayed);
    let start_options = StartOptions {
        attendance: args.attendance,
        format: Format::of(args.json),
        idempotency_key: None,
    };
    run::start(connection, context, &request, start_options).await
}

/// Definition that a run used, field by field: values keep their original text.
#[derive(Debug, Deserialize)]
struct UsedDefinition {
    request: BTreeMap<String, Box<RawValue>>,
    /// Inline connections that were stored without their credentials.
    requires_credentials: Vec<String>,
}

fn uses_commands(used: &UsedDefinition) -> bool {
    used.request
        .get("shell")
        .is_none_or(|shell| shell.get() != "false")
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err takes")]
fn unreadable(error: serde_json::Error) -> Failure {
    Failure::unavailable(format!("the definition cannot be read: {}", plain::json(&error)))
}

/// Returns the credentials of the flags, by connection.
fn given(args: &ReplayArgs, environment: &Environment) -> Result<BTreeMap<String, String>> {
    let mut given = BTreeMap::new();
    let mut add = |connection: &String, text: String| {
        let text = text.trim_end_matches(['\r', '\n']).to_owned();
        match given.insert(connection.clone(), text) {
            None => Ok(()),
            Some(_) => Err(Failure::usage(format!(
                "the credential of {connection} is given twice"
            ))),
        }
    };
    for credential in &args.credentials {
        let text = input::file(&credential.from, DEFINITION_BYTES)?;
        add(&credential.connection, text)?;
    }
    for credential in &args.credentials_env {
        add(&credential.connection, variable(environment, &credential.from)?)?;
    }
    Ok(given)
}

/// The request of a used definition. Its credentials come from `given`, or from prompts.
fn completed(
    used: UsedDefinition,
    max_cost: Option<Micros>,
    mut given: BTreeMap<String, String>,
    mut ask: impl FnMut(&str, &Field) -> Result<Option<String>>,
) -> Result<BTreeMap<String, Box<RawValue>>> {
    let UsedDefinition {
        mut request,
        requires_credentials,
    } = used;
    if !requires_credentials.is_empty() {
        let mut connections: Map<String, Value> = request
            .get("connections")
            .map_or_else(|| Ok(Map::new()), |all| serde_json::from_str(all.get()))
            .map_err(unreadable)?;
        for name in &requires_credentials {
            let connection = connections
                .get_mut(name)
                .and_then(Value::as_object_mut)
                .ok_or_else(|| Failure::unavailable(format!("the definition has no connection {name}")))?;
            match given.remove(name) {
                Some(text) => put_back(name, connection, &text)?,
                None => ask_for(name, connection, &mut ask)?,
            }
        }
        let text = serde_json::to_string(&connections).map_err(unreadable)?;
        request.insert(
            "connections".to_owned(),
            RawValue::from_string(text).map_err(unreadable)?,
        );
    }
    if let Some(name) = given.keys().next() {
        return Err(Failure::usage(format!(
            "{name}: the run has no connection of this name whose credentials are missing"
        )));
    }
    if let Some(micros) = max_cost {
        let micros = RawValue::from_string(micros.get().to_string()).map_err(unreadable)?;
        request.insert("max_cost_micros".to_owned(), micros);
    }
    Ok(request)
}

/// Field that a connection lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Field {
    /// A field of `auth`.
    Auth(&'static str),
    /// The value of a header.
    Header(String),
    /// Query of the URL.
    Query,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auth(field) => write!(f, "auth.{field}"),
            Self::Header(name) => write!(f, "headers.{name}"),
            Self::Query => f.write_str("query of the url"),
        }
    }
}

/// The required fields of a connection that are missing.
fn missing(connection: &Map<String, Value>) -> Vec<Field> {
    let auth = connection.get("auth").and_then(Value::as_object);
    let kind = auth.and_then(|auth| auth.get("type")).and_then(Value::as_str);
    let fields: &[&str] = match kind {
        Some("bearer") => &["token"],
        Some("basic") => &["username", "password"],
        Some("header" | "query") => &["name", "value"],
        _ => &[],
    };
    let lacks = |field: &&str| auth.is_none_or(|auth| !auth.contains_key(*field));
    let mut missing: Vec<Field> = fields
        .iter()
        .filter(|field| lacks(field))
        .map(|field| Field::Auth(field))
        .collect();
    let headers = connection.get("headers").and_then(Value::as_object);
    for (name, value) in headers.into_iter().flatten() {
        if value == "" {
            missing.push(Field::Header(name.clone()));
        }
    }
    missing
}

/// Returns the [`missing`] fields of a connection that is known to lack one. If no field shows as missing, it is the
/// query, which leaves no trace.
fn lacking(connection: &Map<String, Value>) -> Vec<Field> {
    let missing = missing(connection);
    if missing.is_empty() {
        vec![Field::Query]
    } else {
        missing
    }
}

fn set(connection: &mut Map<String, Value>, field: &Field, text: &str) {
    let (object, name) = match field {
        Field::Auth(name) => ("auth", *name),
        Field::Header(name) => ("headers", name.as_str()),
        Field::Query => {
            let url = connection.get("url").and_then(Value::as_str).unwrap_or_default();
            let url = format!("{url}?{}", text.trim_start_matches('?'));
            connection.insert("url".to_owned(), url.into());
            return;
        }
    };
    if let Some(fields) = connection.get_mut(object).and_then(Value::as_object_mut) {
        fields.insert(name.to_owned(), text.into());
    }
}

/// Sets the only missing credential to a given text, or merges a JSON object into the connection. No message repeats
/// any of it.
fn put_back(name: &str, connection: &mut Map<String, Value>, text: &str) -> Result<()> {
    if text.trim_start().starts_with('{') {
        let over: Map<String, Value> = serde_json::from_str(text).map_err(|error| {
            Failure::usage(format!(
                "the credential of {name}: not JSON, at line {}",
                error.line()
            ))
        })?;
        for (field, value) in over {
            match (connection.get_mut(&field), value) {
                (Some(Value::Object(fields)), Value::Object(more)) => fields.extend(more),
                (_, value) => {
                    connection.insert(field, value);
                }
            }
        }
        let left = missing(connection);
        return if left.is_empty() {
            Ok(())
        } else {
            Err(incomplete(name, &left))
        };
    }
    match lacking(connection).as_slice() {
        [field] => {
            set(connection, field, text);
            Ok(())
        }
        several => Err(Failure::usage(format!(
            "the credential of {name} has several parts ({}): give them as a JSON object",
            listed(several)
        ))),
    }
}

fn ask_for(
    name: &str,
    connection: &mut Map<String, Value>,
    ask: &mut impl FnMut(&str, &Field) -> Result<Option<String>>,
) -> Result<()> {
    let fields = lacking(connection);
    for field in &fields {
        let text = ask(name, field)?.ok_or_else(|| incomplete(name, &fields))?;
        set(connection, field, &text);
    }
    Ok(())
}

fn incomplete(name: &str, fields: &[Field]) -> Failure {
    Failure::usage(format!(
        "the run's connection {name} lacks {}: give it by --credential {name}=@FILE or --credential-env {name}=VARIABLE",
        listed(fields)
    ))
}

fn listed(fields: &[Field]) -> String {
    fields
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn used(connections: &Value) -> UsedDefinition {
        let names: Vec<&String> = connections.as_object().unwrap().keys().collect();
        let text = format!(
            r#"{{"request": {{"prompt": "x", "input": 12345678901234567890123, "max_cost_micros": 7,
                "connections": {connections}}}, "requires_credentials": {}}}"#,
            json!(names)
        );
        serde_json::from_str(&text).unwrap()
    }

    /// The only connection after the given credentials were put back, and the prompts.
    fn put(connection: &Value, given: Option<&str>) -> (Result<Value>, Vec<String>) {
        let given = given
            .map(|text| ("crm".to_owned(), text.to_owned()))
            .into_iter()
            .collect();
        let mut asked = Vec::new();
        let request = completed(used(&json!({"crm": connection})), None, given, |name, field| {
            asked.push(format!("{name} {field}"));
            Ok(Some(format!("<{field}>")))
        });
        let connection = request.map(|request| {
            let connections: Value = serde_json::from_str(request["connections"].get()).unwrap();
            connections["crm"].clone()
        });
        (connection, asked)
    }

    fn http(auth: &Value) -> Value {
        json!({"type": "http", "url": "https://a.example/v1", "auth": auth})
    }

    #[test]
    fn whatever_is_missing_is_asked_for_and_put_where_it_was() {
        let (bare, headers) = (
            json!({"type": "http", "url": "https://a.example/v1"}),
            json!({"type": "mcp", "url": "https://a.example", "headers": {"X-A": "", "X-B": ""}}),
        );
        for (connection, whole) in [
            (
                http(&json!({"type": "bearer"})),
                http(&json!({"type": "bearer", "token": "<auth.token>"})),
            ),
            (
                http(&json!({"type": "basic"})),
                http(&json!({"type": "basic", "username": "<auth.username>", "password": "<auth.password>"})),
            ),
            (
                http(&json!({"type": "query"})),
                http(&json!({"type": "query", "name": "<auth.name>", "value": "<auth.value>"})),
            ),
            (
                headers,
                json!({"type": "mcp", "url": "https://a.example",
                "headers": {"X-A": "<headers.X-A>", "X-B": "<headers.X-B>"}}),
            ),
            (
                bare,
                json!({"type": "http", "url": "https://a.example/v1?<query of the url>"}),
            ),
        ] {
            let (put, asked) = put(&connection, None);
            assert_eq!(put.unwrap(), whole);
            assert!(!asked.is_empty());
        }
    }

    #[test]
    fn what_is_given_is_not_asked_for() {
        let bearer = http(&json!({"type": "bearer"}));
        let (whole, asked) = put(&bearer, Some("hush"));
        assert_eq!(
            (whole.unwrap(), asked.len()),
            (http(&json!({"type": "bearer", "token": "hush"})), 0)
        );
        let (whole, _) = put(
            &http(&json!({"type": "basic"})),
            Some(r#"{"auth": {"username": "a", "password": "b"}}"#),
        );
        assert_eq!(
            whole.unwrap(),
            http(&json!({"type": "basic", "username": "a", "password": "b"}))
        );
        let bare = json!({"type": "http", "url": "https://a.example/v1"});
        let (whole, _) = put(&bare, Some("?key=hush"));
        assert_eq!(whole.unwrap()["url"], "https://a.example/v1?key=hush");
        let (whole, _) = put(
            &bearer,
            Some(r#"{"url": "https://a.example/v1?key=hush", "auth": {"token": "t"}}"#),
        );
        let both = whole.unwrap();
        assert_eq!(
            (&both["url"], &both["auth"]["token"]),
            (&json!("https://a.example/v1?key=hush"), &json!("t"))
        );
    }

    #[test]
    fn what_does_not_fit_is_refused_without_being_repeated() {
        for (auth, given, told) in [
            ("basic", "hush", "several parts (auth.username, auth.password)"),
            (
                "basic",
                r#"{"auth": {"username": "hush"}}"#,
                "crm lacks auth.password",
            ),
            ("bearer", "{hush", "not JSON, at line 1"),
        ] {
            let refusal = put(&http(&json!({"type": auth})), Some(given))
                .0
                .unwrap_err()
                .to_string();
            assert!(refusal.contains(told) && !refusal.contains("hush"), "{refusal}");
        }
        let nobody = completed(
            used(&json!({"crm": http(&json!({"type": "bearer"}))})),
            None,
            BTreeMap::new(),
            |_, _| Ok(None),
        );
        let refusal = nobody.unwrap_err().to_string();
        assert!(
            refusal.contains("--credential crm=@FILE or --credential-env crm=VARIABLE"),
            "{refusal}"
        );
        let other = BTreeMap::from([("shop".to_owned(), "hush".to_owned())]);
        let refusal = completed(used(&json!({})), None, other, |_, _| Ok(None))
            .unwrap_err()
            .to_string();
        assert!(
            refusal.starts_with("shop: the run has no connection"),
            "{refusal}"
        );
    }

    #[test]
    fn everything_else_is_sent_as_it_was_and_the_budget_may_be_another() {
        for (max_cost, sent) in [(None, "7"), (Micros::new(9).ok(), "9")] {
            let request = completed(used(&json!({})), max_cost, BTreeMap::new(), |_, _| Ok(None)).unwrap();
            assert_eq!(request["input"].get(), "12345678901234567890123");
            assert_eq!(request["max_cost_micros"].get(), sent);
        }
    }
}
