//! `http_request`: a call to a public API.
//!
//! It obeys the run's policy, follows redirects only for GET, and always reports the status if there is one, because the model
//! must learn if a call has changed something.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method,
    header::{self, CONTENT_TYPE},
};
use reqwest::Response;
use serde::Deserialize;
use serde_json::value::RawValue;
use sortie_agent::{
    Tool, ToolContent,
    model::ToolDefinition,
    tool::{Context, Effect, Order, ToolError, arguments_of},
};
use sortie_net::{BodyEnd, BodyHead, Policy, read_head};
use tokio::time::timeout;

use crate::{
    Web,
    fetch::{BODY_BYTES, media_of, parse_url, status_text, type_text},
    follow::{Answered, Asked, Gate, check_encoding, follow},
    media::Kind,
    reader::{Body, Form, RunReaders},
    text, told,
};

/// Timeout of a call.
const TIME: Duration = Duration::from_mins(1);
/// Maximum size of a request body, in bytes.
const SENT_BYTES: usize = 1 << 20;
/// Maximum number of header fields in a request.
const FIELDS: usize = 50;
/// Maximum total size of their names and values, in bytes.
const FIELD_BYTES: usize = 16 * 1024;
/// Maximum length of an idempotency key, in characters.
const KEY_CHARS: usize = 200;
/// Header field of the idempotency key.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Fields that frame the message, belong to the connection, or are set by the tool.
const FORBIDDEN: [HeaderName; 12] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::TE,
    header::TRAILER,
    header::UPGRADE,
    header::EXPECT,
    header::ACCEPT_ENCODING,
    header::FORWARDED,
    IDEMPOTENCY_KEY,
    HeaderName::from_static("keep-alive"),
];

/// Response fields that we show, in addition to those of rate limits.
const SHOWN: [HeaderName; 9] = [
    CONTENT_TYPE,
    header::CONTENT_LENGTH,
    header::LOCATION,
    header::LINK,
    header::ETAG,
    header::LAST_MODIFIED,
    header::RETRY_AFTER,
    header::ALLOW,
    header::WWW_AUTHENTICATE,
];

/// Size in bytes after which further response fields are omitted.
const SHOWN_BYTES: usize = 4096;

pub(crate) struct HttpRequest {
    web: Arc<Web>,
    policy: Arc<Policy>,
    readers: Arc<RunReaders>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    #[serde(default)]
    method: Verb,
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<String>,
    json: Option<Box<RawValue>>,
    idempotency_key: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Verb {
    #[default]
    Get,
    Head,
    Options,
    Post,
    Put,
    Patch,
    Delete,
}

impl Verb {
    fn method(self) -> Method {
        match self {
            Self::Get => Method::GET,
            Self::Head => Method::HEAD,
            Self::Options => Method::OPTIONS,
            Self::Post => Method::POST,
            Self::Put => Method::PUT,
            Self::Patch => Method::PATCH,
            Self::Delete => Method::DELETE,
        }
    }

    fn is_safe(self) -> bool {
        matches!(self, Self::Get | Self::Head | Self::Options)
    }
}

impl HttpRequest {
    pub(crate) fn new(web: Arc<Web>, policy: Arc<Policy>, readers: Arc<RunReaders>) -> Self {
        Self { web, policy, readers }
    }
}

impl Tool for HttpRequest {
    fn definition(&self) -> ToolDefinition<'_> {
        ToolDefinition {
            name: "http_request",
            description: "Calls a public HTTP API and returns the status, the important header fields and the body. \
                          Redirects are followed for GET and HEAD alone. For a call that changes something, give an \
                          idempotency_key where the API knows that header: it can then be repeated safely. To read \
                          a web page use web_fetch.",
            parameters: concat!(
                r#"{"type":"object","#,
                r#""properties":{"method":{"type":"string","enum":["GET","HEAD","OPTIONS","POST","PUT","PATCH","DELETE"],"description":"Default: GET."},"#,
                r#""url":{"type":"string","description":"An http or https URL."},"#,
                r#""headers":{"type":"object","additionalProperties":{"type":"string"},"description":"Header fields of the request."},"#,
                r#""body":{"type":"string","description":"The body as text. Name its type in the headers."},"#,
                r#""json":{"description":"The body as a JSON value, in place of body."},"#,
                r#""idempotency_key":{"type":"string","description":"Sent as Idempotency-Key: unique for what the call is to do."}},"#,
                r#""required":["url"],"additionalProperties":false}"#
            ),
        }
    }

    fn order(&self) -> Order {
        Order::OneByOne
    }

    fn effect(&self, raw: &RawValue) -> Effect {
        match arguments_of::<Arguments>(&self.definition(), raw) {
            Ok(arguments) if arguments.method.is_safe() || arguments.idempotency_key.is_some() => {
                Effect::Nothing
            }
            Ok(_) | Err(_) => Effect::Outside,
        }
    }

    fn call<'a>(
        &'a self,
        raw: Box<RawValue>,
        context: Context<'a>,
    ) -> BoxFuture<'a, Result<ToolContent, ToolError>> {
        Box::pin(async move {
            let arguments: Arguments = arguments_of(&self.definition(), &raw)?;
            let asked = Asked {
                method: arguments.method.method(),
                url: parse_url(&arguments.url)?,
                headers: fields(&arguments)?,
            };
            let verb = arguments.method;
            let body = body(arguments)?;
            let answered = timeout(TIME, self.answer(verb, asked, body)).await;
            let Ok(answered) = answered else {
                let why = format!("not answered within {} s", TIME.as_secs());
                return Err(told(why + in_doubt(verb)));
            };
            let shown = show(answered?, &self.readers, context.output_bytes).await;
            Ok(ToolContent::Text(text::clip(
                text::clean(shown),
                context.output_bytes,
            )))
        })
    }
}

impl HttpRequest {
    async fn answer(&self, verb: Verb, asked: Asked, body: Option<String>) -> Result<Answered, ToolError> {
        if matches!(verb, Verb::Get | Verb::Head) {
            let answered = follow(&self.web.client, &self.policy, asked, Gate::Open).await;
            return answered.map_err(told);
        }
        let client = &self.web.client;
        let request = client.request_under(&self.policy, asked.method, &asked.url);
        let mut request = request.map_err(told)?.headers(asked.headers);
        if let Some(body) = body {
            request = request.body(body);
        }
        let response = client.send(request).await.map_err(|error| {
            let sent = match &error {
                sortie_net::Error::Http(error) => !error.is_connect() && !error.is_builder(),
                sortie_net::Error::Switched
                | sortie_net::Error::Coding(_)
                | sortie_net::Error::CutOff
                | sortie_net::Error::Undecodable => true,
                sortie_net::Error::Url(_)
                | sortie_net::Error::Setup(_)
                | sortie_net::Error::Refused { .. }
                | sortie_net::Error::Policy(_)
                | sortie_net::Error::TooLarge { .. } => false,
            };
            let doubt = if sent { in_doubt(verb) } else { "" };
            told(format!("{error}{doubt}"))
        })?;
        Ok(Answered {
            url: asked.url,
            response,
        })
    }
}

/// Returns the note on a call that was sent but not answered.
fn in_doubt(verb: Verb) -> &'static str {
    if verb.is_safe() {
        ""
    } else {
        "; it is unknown whether the server has processed it"
    }
}

/// Parses the header fields of a request.
fn fields(arguments: &Arguments) -> Result<HeaderMap, ToolError> {
    let bytes: usize = arguments
        .headers
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    if arguments.headers.len() > FIELDS || bytes > FIELD_BYTES {
        let rule = format!("headers: at most {FIELDS} fields of {FIELD_BYTES} bytes together");
        return Err(told(rule));
    }
    let mut fields = HeaderMap::new();
    for (name, value) in &arguments.headers {
        let bad = |why: &str| told(format!("headers.{}: {why}", text::one_line(name, 60)));
        let key: HeaderName = name.parse().map_err(|_| bad("not the name of a header field"))?;
        if key == IDEMPOTENCY_KEY {
            return Err(bad("give it as idempotency_key"));
        }
        if FORBIDDEN.contains(&key) || key.as_str().starts_with("proxy-") {
            return Err(bad("cannot be set"));
        }
        let value: HeaderValue = value
            .parse()
            .map_err(|_| bad("not a value of a header field: it must be on one line"))?;
        if fields.insert(key, value).is_some() {
            return Err(bad("named twice"));
        }
    }
    if arguments.json.is_some() && !fields.contains_key(CONTENT_TYPE) {
        fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    if let Some(key) = &arguments.idempotency_key {
        let fits = (1..=KEY_CHARS).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic());
        let value = key.parse().ok().filter(|_| fits);
        let rule = || {
            told(format!(
                "idempotency_key: must be 1 to {KEY_CHARS} visible ASCII characters"
            ))
        };
        fields.insert(IDEMPOTENCY_KEY, value.ok_or_else(rule)?);
    }
    Ok(fields)
}

/// Returns the body of a request.
fn body(arguments: Arguments) -> Result<Option<String>, ToolError> {
    let body = match (arguments.body, arguments.json) {
        (Some(_), Some(_)) => return Err(told("body: give either body or json")),
        (Some(body), None) => Some(body),
        (None, Some(json)) => Some(json.get().to_owned()),
        (None, None) => None,
    };
    if body.is_some() && matches!(arguments.method, Verb::Get | Verb::Head) {
        return Err(told("body: GET and HEAD have none"));
    }
    if body.as_ref().is_some_and(|body| body.len() > SENT_BYTES) {
        return Err(told(format!("body: must be at most {SENT_BYTES} bytes long")));
    }
    Ok(body)
}

/// Formats a response for the model, in at most `limit` bytes.
async fn show(answered: Answered, readers: &RunReaders, limit: usize) -> String {
    let Answered { url, response } = answered;
    let media = media_of(&response);
    let mut head = format!("[{url}: {}\n{}]\n", status_text(&response), text::OUTSIDE);
    let fields = shown_fields(&response);
    head.push_str(&fields);
    head.push('\n');
    if let Err(failure) = check_encoding(&response) {
        return head + &format!("[{failure}]");
    }
    if media.kind() == Kind::Binary {
        let size = response
            .content_length()
            .map_or("of unknown size".to_owned(), |bytes| format!("{bytes} bytes"));
        return head + &format!("[the body is {}, {size}: not shown]", type_text(&media));
    }
    let Ok(BodyHead { bytes, end }) = timeout(TIME, read_head(response, BODY_BYTES)).await else {
        return head + &format!("[the body did not end within {} s: not shown]", TIME.as_secs());
    };
    if media.kind_of(&bytes) == Kind::Binary {
        return head + &format!("[the body is binary, {} bytes: not shown]", bytes.len());
    }
    let body = Body {
        media: &media,
        url: &url,
        bytes: &bytes,
    };
    let room = limit.saturating_sub(head.len() + 200);
    let reading = match readers.read(body, Form::Source, 0, room).await {
        Ok(reading) => reading,
        Err(unread) => return head + &format!("[the body is not shown: it {unread}]"),
    };
    let shown = reading.part();
    let cut = if shown.text.len() < shown.total {
        format!("\n[{} of {} bytes are shown]", shown.text.len(), shown.total)
    } else {
        String::new()
    };
    let missing = match end {
        BodyEnd::Whole => String::new(),
        BodyEnd::Cut => format!("\n[only the first {BODY_BYTES} bytes were read]"),
        BodyEnd::Broken(error) => {
            let why = text::one_line(&error.to_string(), 100);
            format!("\n[the body broke off: {why}]")
        }
    };
    head + shown.text + &cut + &missing
}

/// Returns the visible header fields, one per line.
fn shown_fields(response: &Response) -> String {
    let mut lines = String::new();
    for (name, value) in response.headers() {
        let limits = ["ratelimit", "x-ratelimit", "x-rate-limit"];
        let is_limit = limits.iter().any(|prefix| name.as_str().starts_with(prefix));
        if (SHOWN.contains(name) || is_limit) && lines.len() < SHOWN_BYTES {
            let value = text::one_line(&String::from_utf8_lossy(value.as_bytes()), 500);
            // Writing to a String cannot fail.
            let _ = writeln!(lines, "{name}: {value}");
        }
    }
    lines
}
