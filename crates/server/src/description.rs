//! The `OpenAPI` document of each API: descriptions of the routes, and rules that apply to all of them.
//!
//! Handlers describe their specific parts. The answers that follow from the form of a route (a key is needed, there is a
//! body, the path has an id) and the headers of every answer are added here, so that no route can forget them.

#![expect(
    clippy::indexing_slicing,
    reason = "members of a JSON value of our own making: the document is the same at each start and a test builds it"
)]

use serde_json::{Map, Value, json};
use sortie_api::{ErrorCode, Mode, limits};

use crate::{
    access::{Access, Api, Modes},
    kit::WINDOW_SECONDS,
    metrics::METRICS,
    org, routes,
};

/// Headers of every answer.
const HEADERS: [&str; 6] = [
    "X-Request-Id",
    "RateLimit-Policy",
    "RateLimit",
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-RateLimit-Reset",
];

/// Failures that follow from the form of an operation, with their component names.
const FAILURES: [(ErrorCode, &str, &str, &str); 8] = [
    (
        ErrorCode::InvalidRequest,
        "InvalidRequest",
        "The request breaks a rule; the message names the field and the rule. Nothing was changed.",
        "timeout_seconds: must be from 1 to 3600",
    ),
    (
        ErrorCode::Unauthorized,
        "Unauthorized",
        "The credential is missing, invalid, expired or revoked.",
        "the credential is invalid, expired or revoked",
    ),
    (
        ErrorCode::Forbidden,
        "Forbidden",
        "The role is too small, or the organization is suspended.",
        "this needs the role admin",
    ),
    (
        ErrorCode::NotFound,
        "NotFound",
        "This organization has no such resource.",
        "not found",
    ),
    (
        ErrorCode::PayloadTooLarge,
        "PayloadTooLarge",
        "The body is larger than any request may be.",
        "the body must be at most 25165824 bytes",
    ),
    (
        ErrorCode::RateLimited,
        "RateLimited",
        "The rate limit is reached; wait for the time in `Retry-After`.",
        "rate limit reached, retry in 17 s",
    ),
    (
        ErrorCode::Internal,
        "Internal",
        "The engine failed; the log has the cause under the request id.",
        "internal error, request id 5f0c1a528d3b4c8e00000017",
    ),
    (
        ErrorCode::Unavailable,
        "Unavailable",
        "A dependency is temporarily unavailable; retry with back-off.",
        "the database is unavailable, retry later",
    ),
];

/// Document of an API.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Description {
    /// Engine API of a deployment of this mode.
    Engine(Mode),
    /// Organization API.
    Organization,
}

impl Description {
    /// Returns the document of an API, with the operations of every mode.
    pub(crate) const fn of(api: Api) -> Self {
        match api {
            Api::Engine => Self::Engine(Mode::SelfHosted),
            Api::Organization => Self::Organization,
        }
    }

    /// Generates the whole document; `base_url` is the address that clients use.
    pub(crate) fn document(self, base_url: Option<&str>) -> Value {
        let (table, access) = match self {
            Self::Engine(_) => (routes::table(Mode::SelfHosted).into_openapi(), routes::ACCESS),
            Self::Organization => (org::table(Mode::Hosted).into_openapi(), org::ACCESS),
        };
        // The document consists of our own types: one that does not serialize would fail every test of it.
        let mut document = serde_json::to_value(table).unwrap_or_default();
        document["info"] = self.info();
        document["servers"] = json!([{"url": base_url.unwrap_or("/")}]);
        document["tags"] = self.tags();
        document["paths"] = members(&mut document["paths"])
            // The router's notation for a parameter with slashes.
            .map(|(path, item)| (path.replace("{*", "{"), item.take()))
            .collect::<Map<_, _>>()
            .into();
        for (path, item) in members(&mut document["paths"]) {
            for (_, operation) in members(item) {
                complete(access, path, operation);
            }
        }
        if let Self::Engine(_) = self {
            // The derive cannot express this.
            let connections =
                &mut document["components"]["schemas"]["RunRequest"]["properties"]["connections"];
            connections["maxProperties"] = limits::CONNECTIONS.into();
            connections["propertyNames"] =
                json!({"type": "string", "pattern": "^[a-z0-9][a-z0-9._-]{0,99}$"});
            routes::workflows::describe(&mut document["components"]["schemas"]);
            let message = &mut document["components"]["schemas"]["StreamMessage"]["properties"]["data"];
            let types = ["Event", "Run", "MessageStart", "MessageDelta", "ToolOutput"];
            message["contentSchema"] = json!({"anyOf": types.map(|name| reference("schemas", name))});
        }
        open_free_objects(&mut document["components"]["schemas"]);
        document["components"]["responses"] = failures();
        document["components"]["headers"] = headers(self.longest_wait());
        document["components"]["securitySchemes"] = self.security_schemes();
        if let Self::Engine(Mode::Hosted) = self {
            remove_self_hosted(&mut document);
        }
        document
    }

    fn info(self) -> Value {
        let (title, purpose) = match self {
            Self::Engine(_) => ("Sortie engine API", "Runs AI agents on demand."),
            Self::Organization => (
                "Sortie organization API",
                "Manages the people, organizations and keys of a hosted deployment.",
            ),
        };
        json!({
            "title": title,
            "version": env!("CARGO_PKG_VERSION"),
            "description": format!(
                "{purpose} Every failure is `{{error, code}}`; every answer carries \
                `X-Request-Id` and the rate-limit headers. Request bodies with unknown fields are refused; clients ignore \
                unknown fields in answers. Fields that end in `_micros` are millionths of a US dollar; times are RFC 3339 in UTC."
            ),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        })
    }

    fn tags(self) -> Value {
        match self {
            Self::Engine(mode) => json!([
                {"name": "runs", "description": "Create runs, follow them, read their results."},
                {"name": "workflows", "description": "Save run definitions under names that runs and schedules start by."},
                {"name": "files", "description": "Save files under names for runs to read."},
                {"name": "schedules", "description": "Start workflows on a timetable."},
                {"name": "connections", "description": "The HTTP APIs and MCP servers that runs call through the engine."},
                {"name": "budgets", "description": "Limit the cost of runs in a day or a month."},
                {"name": "models", "description": "The models runs can use."},
                {"name": "organization", "description": "The organization of the key."},
                {"name": "console", "description": "Sign a browser in at the web console."},
                {"name": "administration", "description": administration(mode)},
                {"name": "operations", "description": "Health and description of the engine."},
            ]),
            Self::Organization => json!([
                {"name": "sign-in", "description": "Sign up, sign in and out, verify an address, reset a password."},
                {"name": "console", "description": "The session of a browser at the web console."},
                {"name": "account", "description": "The signed-in person: name, picture, password, sessions, second factor."},
                {"name": "organizations", "description": "Organizations, their members and invitations."},
                {"name": "keys", "description": "API keys of an organization."},
                {"name": "billing", "description": "Credits of an organization, their ledger, and payments."},
                {"name": "licenses", "description": "Licenses of an organization for self-hosted engines."},
                {"name": "oauth", "description": "The OAuth 2.1 server, and the applications that act for a person."},
                {"name": "operator", "description": "Organizations, people, nodes and master keys, for the operator of the installation."},
                {"name": "operations", "description": "Health and description of the organization API."},
            ]),
        }
    }

    /// Maximum value of `Retry-After`, in seconds. Sign-in attempts have limits per hour and per day, and count for up to a sixth
    /// longer.
    const fn longest_wait(self) -> u64 {
        match self {
            Self::Engine(_) => WINDOW_SECONDS,
            Self::Organization => 86_400 + 86_400 / 6,
        }
    }

    fn security_schemes(self) -> Value {
        match self {
            Self::Engine(_) => json!({
                "api_key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An API key of the organization. `security` of an operation has the role that it needs; an \
                        `admin` key may call every operation that needs `member`.",
                },
                "run_token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token for one run, of `POST /v1/runs/{id}/tokens`. `security` of an operation \
                        has the permission that it needs.",
                },
            }),
            Self::Organization => json!({
                "session": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The token of a session, as a sign-in returns it. `security` of an operation has the role that it \
                        needs: `signed_in`, or the role of the person in the organization of the path. API keys are refused.",
                },
                "operator_key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The operator's key.",
                },
            }),
        }
    }
}

/// Description of the operations of administration that a deployment has.
const fn administration(mode: Mode) -> &'static str {
    match mode {
        Mode::Hosted => "The audit log and usage.",
        Mode::SelfHosted => {
            "API keys, the audit log, usage, and the license, the nodes, the master keys and the checks of a self-hosted engine."
        }
    }
}

/// Removes the operations that a hosted engine answers with 404, and the schemas that only they refer to.
fn remove_self_hosted(document: &mut Value) {
    let is_absent = |operation: &Value| {
        routes::ACCESS
            .iter()
            .any(|access| access.modes != Modes::All && operation["operationId"] == access.operation)
    };
    let paths = document["paths"].as_object_mut().into_iter();
    for item in paths
        .flat_map(|paths| paths.values_mut())
        .filter_map(Value::as_object_mut)
    {
        item.retain(|_, operation| !is_absent(operation));
    }
    if let Some(paths) = document["paths"].as_object_mut() {
        paths.retain(|_, item| *item != json!({}));
    }
    // A removed schema may have been the last one to refer to another.
    loop {
        let text = document.to_string();
        let Some(schemas) = document["components"]["schemas"].as_object_mut() else {
            return;
        };
        let before = schemas.len();
        schemas.retain(|name, _| text.contains(&format!("\"#/components/schemas/{name}\"")));
        if schemas.len() == before {
            return;
        }
    }
}

/// Says of each object without properties that it may have any. Generators of types take it for an empty one otherwise.
fn open_free_objects(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            let is_free = members.get("type") == Some(&"object".into())
                && !members.contains_key("properties")
                && !members.contains_key("additionalProperties");
            if is_free {
                members.insert("additionalProperties".to_owned(), true.into());
            }
            let parts = members
                .iter_mut()
                .filter(|(name, _)| !name.starts_with("example"));
            parts.for_each(|(_, part)| open_free_objects(part));
        }
        Value::Array(items) => items.iter_mut().for_each(open_free_objects),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn members(value: &mut Value) -> impl Iterator<Item = (&String, &mut Value)> {
    value.as_object_mut().into_iter().flatten()
}

/// Adds the parts that follow from the form of the operation.
fn complete(table: &[Access], path: &str, operation: &mut Value) {
    let access = table
        .iter()
        .find(|access| operation["operationId"] == access.operation);
    operation["security"] = access.map_or(Value::Null, |access| access.security());
    let public = operation["security"] == json!([]);
    let has_body = operation.get("requestBody").is_some();
    let has_input = has_body
        || operation["parameters"]
            .as_array()
            .is_some_and(|parameters| parameters.iter().any(|parameter| parameter["in"] != "path"));
    let probe = matches!(path, routes::HEALTHZ | routes::READYZ | METRICS);
    for (code, name, _, _) in FAILURES {
        let possible = match code {
            ErrorCode::InvalidRequest => has_input,
            ErrorCode::Unauthorized | ErrorCode::Forbidden => !public,
            // A hosted engine does not have every administration route.
            ErrorCode::NotFound => path.contains('{') || path.starts_with("/v1/admin/"),
            ErrorCode::PayloadTooLarge => has_body,
            ErrorCode::RateLimited => !probe,
            ErrorCode::Unavailable => !matches!(path, routes::HEALTHZ | METRICS),
            ErrorCode::Internal
            | ErrorCode::SecondFactorRequired
            | ErrorCode::PaymentRequired
            | ErrorCode::MethodNotAllowed
            | ErrorCode::Conflict
            | ErrorCode::Gone
            | ErrorCode::PreconditionFailed
            | ErrorCode::RangeNotSatisfiable => true,
        };
        let status = code.status().to_string();
        // The endpoints of the OAuth server have different error bodies (RFC 6749). A handler may describe its specific reasons
        // for a
        // 403.
        let may_have_own = path.starts_with("/oauth/") || code == ErrorCode::Forbidden;
        let own = may_have_own && !operation["responses"][&status].is_null();
        if possible && !own {
            operation["responses"][status] = reference("responses", name);
        }
    }
    for (status, response) in members(&mut operation["responses"]) {
        if response.get("$ref").is_some() {
            continue;
        }
        response["headers"] = header_references(&[]);
        let failure = FAILURE_EXAMPLES
            .iter()
            .find(|(code, _)| *status == code.status().to_string());
        let media = &response["content"]["application/json"];
        if let Some((code, message)) = failure
            && media["example"].is_null()
        {
            response["content"]["application/json"]["example"] = json!({"error": message, "code": code});
        }
    }
}

/// Examples for the failures that handlers describe themselves without an example.
const FAILURE_EXAMPLES: [(ErrorCode, &str); 6] = [
    (
        ErrorCode::PreconditionFailed,
        "If-Match: the content has another entity tag",
    ),
    (
        ErrorCode::RangeNotSatisfiable,
        "Range: the content has 1000 bytes",
    ),
    (
        ErrorCode::NotFound,
        "this engine has no https address that it could be known by",
    ),
    (
        ErrorCode::PaymentRequired,
        "budget organization: max_cost_micros is 2000000, and 1250000 are left until 2026-12-01T00:00:00.000Z",
    ),
    (
        ErrorCode::Conflict,
        "the last admin key that does not expire cannot be deleted",
    ),
    (ErrorCode::Gone, "a zero-data-retention run keeps no definition"),
];

fn reference(kind: &str, name: &str) -> Value {
    json!({"$ref": format!("#/components/{kind}/{name}")})
}

fn header_references(more: &[&str]) -> Value {
    HEADERS
        .iter()
        .chain(more)
        .map(|name| ((*name).to_owned(), reference("headers", name)))
        .collect::<Map<_, _>>()
        .into()
}

fn failures() -> Value {
    FAILURES
        .iter()
        .map(|(code, name, description, message)| {
            let more: &[&str] = if *code == ErrorCode::RateLimited {
                &["Retry-After"]
            } else if *code == ErrorCode::Unauthorized {
                &["WWW-Authenticate"]
            } else {
                &[]
            };
            let response = json!({
                "description": description,
                "headers": header_references(more),
                "content": {"application/json": {
                    "schema": reference("schemas", "ErrorBody"),
                    "example": {"error": message, "code": code},
                }},
            });
            ((*name).to_owned(), response)
        })
        .collect::<Map<_, _>>()
        .into()
}

fn headers(longest_wait: u64) -> Value {
    let text = |description: &str, pattern: &str, example: &str| {
        json!({
            "description": description, "required": true,
            "schema": {"type": "string", "pattern": pattern}, "example": example,
        })
    };
    let number = |description: &str, maximum: Option<u64>, example: u64| {
        let mut schema = json!({"type": "integer", "format": "int64", "minimum": 0});
        if let Some(maximum) = maximum {
            schema["maximum"] = maximum.into();
        }
        json!({"description": description, "required": true, "schema": schema, "example": example})
    };
    json!({
        "X-Request-Id": text("ID of the request: the one that was sent, if valid, else a new one.",
            "^[!-~]{1,128}$", "5f0c1a528d3b4c8e00000017"),
        "RateLimit-Policy": text("Quota and window in seconds.",
            "^\"default\";q=[0-9]+;w=60$", "\"default\";q=600;w=60"),
        "RateLimit": text("Requests left in the window, and seconds until it restarts.",
            "^\"default\";r=[0-9]+;t=[0-9]+$", "\"default\";r=599;t=31"),
        "X-RateLimit-Limit": number("Quota of the window.", None, 600),
        "X-RateLimit-Remaining": number("Requests left in the window.", None, 599),
        "X-RateLimit-Reset": number("Seconds until the window restarts.", Some(WINDOW_SECONDS), 31),
        "Retry-After": number("Seconds to wait.", Some(longest_wait), 17),
        "WWW-Authenticate": text("The scheme, and `invalid_token` when a credential was sent.",
            "^Bearer", "Bearer error=\"invalid_token\""),
    })
}
