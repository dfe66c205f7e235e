//! The format of a case.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Deserialize;
use serde_json::Value;
use sortie_models::Api;
use sortie_testkit::{
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode},
    model::{ChatProvider, Turn},
    raw::{Piece, RawAnswer},
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    about: String,
    #[serde(default)]
    reports: Vec<String>,
    pub(super) model: ModelTable,
    #[serde(default)]
    pub(super) run: RunTable,
    #[serde(default, rename = "tool")]
    pub(super) tools: Vec<ToolTable>,
    #[serde(default, rename = "answer")]
    answers: Vec<AnswerTable>,
    pub(super) expect: Expect,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ModelTable {
    pub(super) api: ApiName,
    #[serde(default)]
    pub(super) provider: ProviderName,
    #[serde(default = "upstream")]
    pub(super) upstream: String,
    #[serde(default = "capabilities")]
    pub(super) capabilities: Vec<String>,
}

fn upstream() -> String {
    "scripted".to_owned()
}

fn capabilities() -> Vec<String> {
    vec!["tools".to_owned()]
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ApiName {
    Anthropic,
    OpenaiResponses,
    OpenaiChat,
    Gemini,
}

impl ApiName {
    pub(super) fn api(self) -> Api {
        let name = match self {
            Self::Anthropic => "anthropic",
            Self::OpenaiResponses => "openai-responses",
            Self::OpenaiChat => "openai-chat",
            Self::Gemini => "gemini",
        };
        Api::named(name).unwrap()
    }
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ProviderName {
    #[default]
    Common,
    Mistral,
    Deepseek,
}

impl ProviderName {
    pub(super) const fn provider(self) -> ChatProvider {
        match self {
            Self::Common => ChatProvider::Common,
            Self::Mistral => ChatProvider::Mistral,
            Self::Deepseek => ChatProvider::Deepseek,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RunTable {
    pub(super) prompt: String,
    pub(super) instructions: String,
    /// JSON Schema of the output.
    pub(super) schema: Option<String>,
    /// Whether the run has a fallback model, named `fallback` at the provider.
    pub(super) fallback: bool,
    pub(super) timeout_seconds: u64,
}

impl Default for RunTable {
    fn default() -> Self {
        Self {
            prompt: "Go.".to_owned(),
            instructions: String::new(),
            schema: None,
            fallback: false,
            timeout_seconds: 3_600,
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolTable {
    pub(super) name: String,
    #[serde(default = "any_object")]
    pub(super) schema: String,
    pub(super) answer: String,
}

fn any_object() -> String {
    r#"{"type":"object"}"#.to_owned()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswerTable {
    #[serde(default = "once")]
    times: usize,
    /// Repeats the answer until this many seconds after the first request.
    until_seconds: Option<u64>,
    says: Option<String>,
    #[serde(default)]
    calls: Vec<Call>,
    stream: Option<String>,
    body: Option<String>,
    body_base64: Option<String>,
    status: Option<u16>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

const fn once() -> usize {
    1
}

/// A tool call, as a model makes it or as the agent has executed it.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub(super) struct Call {
    pub(super) tool: String,
    #[serde(default = "no_arguments")]
    pub(super) arguments: Value,
}

fn no_arguments() -> Value {
    Value::Object(serde_json::Map::new())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expect {
    pub(super) status: Status,
    pub(super) output: Option<String>,
    #[serde(default)]
    pub(super) error: Vec<String>,
    pub(super) calls: Option<Vec<Call>>,
    pub(super) charged_micros: Option<u64>,
    pub(super) waited_seconds: Option<[f64; 2]>,
    #[serde(default, rename = "request")]
    pub(super) requests: Vec<RequestCheck>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    Succeeded,
    Failed,
    TimedOut,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RequestCheck {
    /// Starts at 1.
    pub(super) number: usize,
    #[serde(default)]
    pub(super) contains: Vec<String>,
    #[serde(default)]
    pub(super) lacks: Vec<String>,
    /// JSON pointers with their expected values.
    #[serde(default)]
    pub(super) has: BTreeMap<String, Value>,
}

impl Case {
    /// Parses a file. The error describes the mistake.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let case: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        if case.about.trim().is_empty() {
            return Err("about: must say what the case shows".to_owned());
        }
        if let Some(report) = case.reports.iter().find(|report| !is_report(report)) {
            return Err(format!(
                "reports: must be owner/repository#number, not {report:?}"
            ));
        }
        if case.answers.is_empty() {
            return Err("there is no answer".to_owned());
        }
        let is_common = matches!(case.model.provider, ProviderName::Common);
        if !is_common && !matches!(case.model.api, ApiName::OpenaiChat) {
            return Err("model.provider: must be left out unless api is \"openai-chat\"".to_owned());
        }
        for check in &case.expect.requests {
            if check.contains.is_empty() && check.lacks.is_empty() && check.has.is_empty() {
                return Err(format!("expect.request {} checks nothing", check.number));
            }
        }
        case.planned()?;
        Ok(case)
    }

    /// Returns the answers in order.
    pub(super) fn planned(&self) -> Result<VecDeque<Planned>, String> {
        let mut planned = VecDeque::new();
        for (number, answer) in (1..).zip(&self.answers) {
            let turn = answer.turn().map_err(|error| format!("answer {number}{error}"))?;
            let until = answer.until_seconds.map(Duration::from_secs);
            planned.extend(std::iter::repeat_n(Planned { turn, until }, answer.times));
        }
        Ok(planned)
    }
}

/// An answer for a future request.
#[derive(Clone)]
pub(super) struct Planned {
    pub(super) turn: Turn,
    /// The answer repeats until this time after the first request.
    pub(super) until: Option<Duration>,
}

fn is_report(report: &str) -> bool {
    report
        .split_once('#')
        .is_some_and(|(repository, number)| repository.contains('/') && number.parse::<u32>().is_ok())
}

impl AnswerTable {
    fn turn(&self) -> Result<Turn, String> {
        let is_plain = self.says.is_some() || !self.calls.is_empty();
        let (body, content_type) = match (is_plain, &self.stream, &self.body, &self.body_base64) {
            (true, None, None, None) if self.status.is_none() && self.headers.is_empty() => {
                let turn = Turn::says(self.says.clone());
                return Ok(self.calls.iter().fold(turn, |turn, call| {
                    turn.and_calls(&call.tool, call.arguments.clone())
                }));
            }
            (false, Some(stream), None, None) => (pieces(stream)?, "text/event-stream"),
            (false, None, Some(body), None) => (vec![Piece::Bytes(body.clone().into())], "application/json"),
            (false, None, None, Some(body)) => {
                let bytes = STANDARD
                    .decode(body)
                    .map_err(|error| format!(": body_base64: {error}"))?;
                (vec![Piece::Bytes(bytes.into())], "application/json")
            }
            _ => {
                return Err(
                    " must have one of `stream`, `body`, `body_base64`, or else `says` and `calls`, and `status` and \
                     `headers` only with the first three"
                        .to_owned(),
                );
            }
        };
        let mut headers = HeaderMap::from_iter([(
            HeaderName::from_static("content-type"),
            HeaderValue::from_static(content_type),
        )]);
        for (name, value) in &self.headers {
            let name = HeaderName::try_from(name).map_err(|error| format!(": headers: {error}"))?;
            let value = HeaderValue::try_from(value).map_err(|error| format!(": headers: {error}"))?;
            headers.insert(name, value);
        }
        let status =
            StatusCode::from_u16(self.status.unwrap_or(200)).map_err(|error| format!(": {error}"))?;
        Ok(Turn::raw(RawAnswer {
            status,
            headers,
            body,
        }))
    }
}

/// Parses the pieces of a stream. A line that begins with `{` or `[` is the data of an event. A line in parentheses is a step of
/// the server. All other lines are sent unchanged.
fn pieces(stream: &str) -> Result<Vec<Piece>, String> {
    let bytes = |text: String| Piece::Bytes(text.into());
    let mut pieces = Vec::new();
    for line in stream.lines() {
        let step = line.strip_prefix('(').and_then(|step| step.strip_suffix(')'));
        pieces.push(if let Some(step) = step {
            match step
                .strip_prefix("pause ")
                .and_then(|time| time.strip_suffix('s'))
            {
                Some(seconds) => {
                    let seconds = seconds.parse().map_err(|error| format!(": pause: {error}"))?;
                    Piece::Pause(Duration::from_secs(seconds))
                }
                None if step == "disconnect" => Piece::Disconnect,
                None => return Err(format!(": unknown step ({step})")),
            }
        } else if line.starts_with(['{', '[']) {
            bytes(event(line))
        } else {
            bytes(format!("{line}\n"))
        });
    }
    Ok(pieces)
}

/// Encodes an event with this data. Protocols with event types also send the type as the name.
fn event(data: &str) -> String {
    let kind = data
        .strip_prefix(r#"{"type":""#)
        .and_then(|rest| rest.split_once('"'));
    match kind {
        Some((kind, _)) => format!("event: {kind}\ndata: {data}\n\n"),
        None => format!("data: {data}\n\n"),
    }
}
