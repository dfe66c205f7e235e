//! The form of the run request (`docs/RUNS.md#fields-of-a-request`). The engine's intake checks everything beyond the form.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::{
    Credential, Effort, RunId,
    connection::{ConnectionAuth, ConnectionType, names_only},
    limits,
    metadata::Metadata,
    object::{list, objects, unique},
    whole::Members,
};

objects!(RunRequest RunFile RunConnection Callback);

/// Body of `POST /v1/runs`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct RunRequest {
    /// The task. Required unless `workflow` is set, whose saved prompt it then replaces. At most 128 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(
        nullable = false,
        min_length = 1,
        max_length = 131_072,
        pattern = r"\S",
        example = "Summarise sales.csv by region."
    )]
    pub prompt: Option<String>,
    /// Instructions that say who the agent is and how it works. The model reads them after the engine's system prompt and
    /// before the task. Replaces the saved instructions of the workflow; an empty text uses none. At most 64 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(
        nullable = false,
        max_length = 65_536,
        example = "You are the sales analyst of a book shop. Amounts are in euros."
    )]
    pub instructions: Option<String>,
    /// Task data passed to the agent as JSON, kept as sent. At most 1 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = any_json)]
    pub input: Option<Box<RawValue>>,
    /// Name of a saved workflow. Other definition fields sent replace the saved ones whole; only `metadata` is merged.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, pattern = "^[a-z0-9][a-z0-9._-]{0,99}$")]
    pub workflow: Option<String>,
    /// Model ID. Default: `default_model` of `GET /v1/models`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "runbook")]
    pub model: Option<String>,
    /// Fallback model, called once if `model` refuses to answer. Must differ from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub fallback_model: Option<String>,
    /// Effort of the model's thinking, mapped to the nearest level that the model has. Default: the model's setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub effort: Option<Effort>,
    /// Files staged in the working directory before the agent begins. At most 32.
    #[serde(
        default,
        deserialize_with = "list::<_, _, { limits::FILES }>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false, max_items = 32)]
    pub files: Option<Vec<RunFile>>,
    /// APIs and MCP servers the agent may call, keyed by the name it sees. At most 16.
    #[serde(
        default,
        deserialize_with = "unique::<_, _, { limits::CONNECTIONS }>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false)]
    pub connections: Option<BTreeMap<String, RunConnection>>,
    /// Purpose of the run, for people and agents. At most 500 characters. No effect on the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, max_length = 500)]
    pub description: Option<String>,
    /// A JSON Schema that `input` must match. At most 64 KiB; only local `$ref`s. Patterns are regular expressions without
    /// look-around and back-references, of a limited size.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, nullable = false)]
    pub input_schema: Option<Box<RawValue>>,
    /// A JSON Schema that the run's output must match. At most 64 KiB; only local `$ref`s. Patterns are regular expressions
    /// without look-around and back-references, of a limited size.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, nullable = false)]
    pub output_schema: Option<Box<RawValue>>,
    /// Time limit from `started_at`, in seconds. Default 300.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 1, maximum = 3600)]
    pub timeout_seconds: Option<i64>,
    /// Maximum number of model calls; retries do not count. The run fails when it needs more. Default 200.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 1, maximum = 1000)]
    pub max_steps: Option<i64>,
    /// Lets the agent run shell commands and write files in its working directory. Default `true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub shell: Option<bool>,
    /// Lets the agent fetch pages, call public APIs and search. Default off.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub web: Option<Web>,
    /// Stores nothing of the run's content. Default `false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub zero_data_retention: Option<bool>,
    /// Budget in micros. Default: `default_max_cost_micros` of `GET /v1/me`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 1, maximum = 100_000_000)]
    pub max_cost_micros: Option<i64>,
    /// Short texts to find the run by: at most 16, each 1 to 64 characters, none twice.
    #[serde(
        default,
        deserialize_with = "list::<_, _, { limits::TAGS }>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false, max_items = 16, example = json!(["nightly"]))]
    pub tags: Option<Vec<String>>,
    /// Pairs of texts that the run carries and can be found by: at most 16. A key has 1 to 64 characters and no control
    /// characters, a value at most 512 characters. Pairs sent are added to those of the workflow and replace those with the
    /// same key.
    #[serde(
        default,
        deserialize_with = "unique::<_, _, { limits::METADATA }>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false, value_type = Option<BTreeMap<String, String>>, example = json!({"customer": "c-1042"}))]
    pub metadata: Option<Metadata>,
    /// ID of the run that this one repeats. It is only kept and shown: send the definition of that run as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub replay_of: Option<RunId>,
    /// Receiver of a signed request that is sent when the run is final.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub callback: Option<Callback>,
}

/// `input` may be any JSON. An empty schema, because generators of clients stumble over the boolean one.
fn any_json() -> utoipa::openapi::schema::Object {
    utoipa::openapi::ObjectBuilder::new()
        .schema_type(utoipa::openapi::schema::SchemaType::AnyValue)
        .description(Some(
            "Task data passed to the agent as JSON, kept as sent. At most 1 MiB.",
        ))
        .build()
}

/// A file for the working directory: a saved one by `file`, or its text by `content`; exactly one of the two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct RunFile {
    /// Path in the working directory: relative, `/`-separated, no `..`, at most 1,024 bytes, unique in the run.
    #[schema(min_length = 1, max_length = 1_024, example = "data/sales.csv")]
    pub path: String,
    /// ID or name of a saved file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub file: Option<String>,
    /// Inline text, UTF-8; all inline contents of a run together at most 8 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub content: Option<String>,
}

/// A connection of a run: a saved one by `ref`, or an inline definition by `type` and `url`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct RunConnection {
    /// Name of a saved connection.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reference: Option<String>,
    /// Kind of an inline definition.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub kind: Option<ConnectionType>,
    /// Base URL of an inline HTTP API, or the endpoint of an MCP server. User info and query are credentials: the
    /// engine uses them and does not keep them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, max_length = 2_048, pattern = "^https?://")]
    pub url: Option<String>,
    /// Authentication of an inline definition, every type but `oauth`. The engine uses it and does not keep it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub auth: Option<ConnectionAuth>,
    /// Headers added to every request of an inline definition, by name; at most 32. The engine uses the values and does
    /// not keep them.
    #[serde(
        default,
        deserialize_with = "unique::<_, _, { limits::CONNECTION_HEADERS }>",
        skip_serializing_if = "Option::is_none",
        serialize_with = "names_only"
    )]
    #[schema(nullable = false, value_type = Option<BTreeMap<String, String>>)]
    pub headers: Option<BTreeMap<String, Credential>>,
    /// The only HTTP methods the agent may use; beside `ref`, of those the saved connection allows.
    #[serde(
        default,
        deserialize_with = "list::<_, _, { limits::ALLOWED_METHODS }>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false)]
    pub allowed_methods: Option<Vec<String>>,
    /// The only MCP tools the agent may use; beside `ref`, of those the saved connection allows.
    #[serde(
        default,
        deserialize_with = "list::<_, _, { limits::ALLOWED_TOOLS }>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false)]
    pub allowed_tools: Option<Vec<String>>,
}

/// `true`, `false`, or an object that enables web access with restrictions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(untagged)]
pub enum Web {
    /// Web access to every public address, or none.
    Switch(bool),
    /// Web access to these domains only.
    Restricted(WebRestriction),
}

/// Restriction of the agent's web access.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebRestriction {
    /// Domains with their subdomains. Absent: every public address.
    #[serde(
        default,
        deserialize_with = "list::<_, _, { limits::WEB_DOMAINS }>",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false, max_items = 100)]
    pub allow: Option<Vec<String>>,
    /// Whether the agent may search. Default `true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub search: Option<bool>,
}

impl<'de> Deserialize<'de> for Web {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Web;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a boolean, or an object with `allow` and `search`")
            }

            fn visit_bool<E>(self, on: bool) -> Result<Web, E> {
                Ok(Web::Switch(on))
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Web, A::Error> {
                let members = de::value::MapAccessDeserializer::new(Members(map));
                WebRestriction::deserialize(members).map(Web::Restricted)
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

/// Receiver of the completion callback.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct Callback {
    /// http or https, without user info, at most 2,048 characters.
    #[schema(
        max_length = 2_048,
        pattern = "^https?://",
        example = "https://example.com/hooks/sortie"
    )]
    pub url: String,
    /// Key of the signature, 1 to 256 characters.
    #[schema(min_length = 1, max_length = 256)]
    pub secret: String,
}

/// Leaves the secret out.
impl std::fmt::Debug for Callback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Callback")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(body: &str) -> String {
        serde_json::from_str::<RunRequest>(body).map_or_else(|e| e.to_string(), |r| format!("accepted {r:?}"))
    }

    #[test]
    fn an_unknown_field_is_named() {
        assert!(refusal(r#"{"prompt":"x","promt":"y"}"#).contains("unknown field `promt`"));
        assert!(refusal(r#"{"web":{"alow":[]}}"#).contains("unknown field `alow`"));
        assert!(refusal(r#"{"files":[{"path":"a","text":"b"}]}"#).contains("unknown field `text`"));
    }

    #[test]
    fn null_is_not_absence() {
        assert!(refusal(r#"{"prompt":null}"#).contains("invalid type: null"));
    }

    #[test]
    fn a_field_sent_twice_is_refused() {
        assert!(refusal(r#"{"prompt":"a","prompt":"b"}"#).contains("duplicate field `prompt`"));
    }

    #[test]
    fn input_is_kept_as_sent_also_null_and_large_numbers() {
        for input in ["null", "12345678901234567890123", r#"{"a" : [1,2 ]}"#] {
            let request: Result<RunRequest, _> = serde_json::from_str(&format!(r#"{{"input":{input}}}"#));
            let kept = request.ok().and_then(|r| r.input).map(|raw| raw.get().to_owned());
            assert_eq!(kept.as_deref(), Some(input));
        }
    }

    #[test]
    fn web_takes_a_boolean_or_an_object_and_says_so() {
        assert!(refusal(r#"{"web":"yes"}"#).contains("a boolean, or an object"));
        assert!(refusal(r#"{"web":true}"#).contains("Switch(true)"));
    }
}
