//! `web_fetch`: a page as text that a model can read.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{
    HeaderMap, HeaderValue, Method,
    header::{ACCEPT, ACCEPT_LANGUAGE, CONTENT_TYPE},
};
use reqwest::Response;
use serde::Deserialize;
use serde_json::value::RawValue;
use sortie_agent::{
    Tool, ToolContent,
    model::ToolDefinition,
    tool::{Context, Effect, Order, ToolError, arguments_of},
};
use sortie_net::{BodyEnd, Policy, read_head};
use tokio::time::timeout;
use url::Url;

use crate::{
    Web,
    follow::{Answered, Asked, Gate, follow},
    html::Layout,
    media::{Kind, Media},
    reader::{Body, Form, Reading, RunReaders},
    text::{self, URL_BYTES},
    told,
};

/// Maximum number of bytes to read from a page.
pub(crate) const BODY_BYTES: usize = 5 << 20;
/// Timeout of a fetch, redirects and robots.txt included.
const TIME: Duration = Duration::from_secs(20);
/// Maximum length of a `Content-Type`, in bytes. Longer ones are ignored.
const CONTENT_TYPE_BYTES: usize = 500;

pub(crate) struct WebFetch {
    web: Arc<Web>,
    policy: Arc<Policy>,
    readers: Arc<RunReaders>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    url: String,
    #[serde(default)]
    start: usize,
}

impl WebFetch {
    pub(crate) fn new(web: Arc<Web>, policy: Arc<Policy>, readers: Arc<RunReaders>) -> Self {
        Self { web, policy, readers }
    }
}

impl Tool for WebFetch {
    fn definition(&self) -> ToolDefinition<'_> {
        ToolDefinition {
            name: "web_fetch",
            description: "Fetches a public web page and returns its text: HTML as Markdown (the main article where \
                          the page has one), JSON, XML, CSV and plain text as they are. A last line in brackets \
                          tells where to go on when there is more than fits into one result.",
            parameters: concat!(
                r#"{"type":"object","#,
                r#""properties":{"url":{"type":"string","description":"An http or https URL."},"#,
                r#""start":{"type":"integer","minimum":0,"description":"Position in a long text to continue from, as an earlier result says. Default: 0."}},"#,
                r#""required":["url"],"additionalProperties":false}"#
            ),
        }
    }

    fn order(&self) -> Order {
        Order::SideBySide
    }

    fn effect(&self, _arguments: &RawValue) -> Effect {
        Effect::Nothing
    }

    fn call<'a>(
        &'a self,
        raw: Box<RawValue>,
        context: Context<'a>,
    ) -> BoxFuture<'a, Result<ToolContent, ToolError>> {
        Box::pin(async move {
            let Arguments { url, start } = arguments_of(&self.definition(), &raw)?;
            let url = parse_url(&url)?;
            let fetched = timeout(TIME, self.fetch(url)).await;
            let fetched =
                fetched.map_err(|_| told(format!("not answered within {} s", TIME.as_secs())))??;
            let limit = context.output_bytes;
            let body = Body {
                media: &fetched.media,
                url: &fetched.url,
                bytes: &fetched.body,
            };
            let reading = self.readers.read(body, Form::Page, start, limit).await;
            let reading = reading.map_err(|unread| told(format!("{}: the page {unread}", fetched.url)))?;
            let shown = text::page(&head(&fetched, &reading), reading.part(), limit)
                .map_err(|length| told(format!("start: the text has only {length} bytes")))?;
            Ok(ToolContent::Text(shown))
        })
    }
}

struct Fetched {
    url: Url,
    status: String,
    media: Media,
    body: Bytes,
    end: BodyEnd,
}

impl WebFetch {
    async fn fetch(&self, url: Url) -> Result<Fetched, ToolError> {
        let mut headers = HeaderMap::new();
        let accept =
            "text/html, application/xhtml+xml, text/markdown, text/plain, application/json;q=0.9, */*;q=0.5";
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        headers.insert(ACCEPT_LANGUAGE, HeaderValue::from_static("en, *;q=0.5"));
        let asked = Asked {
            method: Method::GET,
            url,
            headers,
        };
        let gate = self.web.robots.as_ref().map_or(Gate::Open, Gate::Robots);
        let answered = follow(&self.web.client, &self.policy, asked, gate).await;
        let Answered { url, response } = answered.map_err(told)?;
        let status = status_text(&response);
        let media = media_of(&response);
        if media.kind() == Kind::Binary {
            let size = response.content_length();
            return Err(not_text(&url, &media, size));
        }
        let head = read_head(response, BODY_BYTES).await;
        if media.kind_of(&head.bytes) == Kind::Binary {
            let size = matches!(head.end, BodyEnd::Whole).then_some(head.bytes.len() as u64);
            return Err(not_text(&url, &media, size));
        }
        Ok(Fetched {
            url,
            status,
            media,
            body: head.bytes,
            end: head.end,
        })
    }
}

/// Parses a URL that a model wrote.
pub(crate) fn parse_url(text: &str) -> Result<Url, ToolError> {
    let too_long = || told(format!("url: must be at most {URL_BYTES} bytes long"));
    if text.len() > URL_BYTES {
        return Err(too_long());
    }
    let url: Url = text
        .parse()
        .map_err(|_| told("url: must be a URL such as https://example.com/page".to_owned()))?;
    if url.as_str().len() > URL_BYTES {
        return Err(too_long());
    }
    Ok(url)
}

pub(crate) fn status_text(response: &Response) -> String {
    let status = response.status();
    match status.canonical_reason() {
        Some(reason) => format!("{} {reason}", status.as_u16()),
        None => status.as_u16().to_string(),
    }
}

pub(crate) fn media_of(response: &Response) -> Media {
    let value = response.headers().get(CONTENT_TYPE);
    let value = value.filter(|value| value.len() <= CONTENT_TYPE_BYTES);
    Media::new(value.and_then(|value| value.to_str().ok()).unwrap_or_default())
}

/// Returns the name of a media type for messages. The server chose its text.
pub(crate) fn type_text(media: &Media) -> String {
    match media.essence.as_str() {
        "" => "no content type".to_owned(),
        essence => text::one_line(essence, 100),
    }
}

fn not_text(url: &Url, media: &Media, size: Option<u64>) -> ToolError {
    let size = size.map_or("of unknown size".to_owned(), |bytes| format!("{bytes} bytes"));
    let kind = type_text(media);
    told(format!("{url} is {kind}, {size}: only text can be fetched"))
}

/// Returns the first lines of a result: address, status, type, and notes on missing content.
fn head(fetched: &Fetched, reading: &Reading) -> String {
    let note = match reading.layout() {
        Some(Layout::Article) => "\nThis is the main part of the page.",
        Some(Layout::Bare) => {
            "\nThe page is too large or too deeply nested to be laid out: this is its bare text."
        }
        Some(Layout::Whole) | None => "",
    };
    let title = match reading.title() {
        "" => String::new(),
        title => format!(", “{title}”"),
    };
    let kind = type_text(&fetched.media);
    let cut = match &fetched.end {
        BodyEnd::Whole => String::new(),
        BodyEnd::Cut => format!("\nOnly its first {BODY_BYTES} bytes were read."),
        BodyEnd::Broken(error) => format!("\nIt broke off after {} bytes: {error}.", fetched.body.len()),
    };
    let (url, status) = (&fetched.url, &fetched.status);
    let head = format!("[{url}: {status}, {kind}{title}\n{}{note}{cut}]\n", text::OUTSIDE);
    text::clean(head)
}
