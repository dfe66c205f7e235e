//! Client of the engine API and, for operators, of the organization API.

mod call;
mod content;
mod feed;
mod files;
mod find;
mod following;
mod key;
mod mcp;
mod rate_limit;
mod raw;

use std::{borrow::Cow, time::Duration};

use reqwest::{Method, RequestBuilder, Response, StatusCode, header};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;
use sortie_api::{ErrorBody, ErrorCode, Run, RunId, limits, plain};
use sortie_net::{EngineClient, Outbound, Timeouts, read_body};
use sortie_server::Api;
use url::Url;

use self::rate_limit::retry_after;
pub(crate) use self::{
    call::{Call, delete, get, patch, post, post_json, put},
    content::Content,
    feed::Change,
    files::{passing_name, refs},
    following::{Followed, Live},
    key::{ClientKey, KeySource},
    mcp::McpAnswer,
    rate_limit::waits,
    raw::{RawAnswer, RawCall},
};
use crate::{
    config::Environment,
    connect::is_this_machine,
    failure::{Exit, Failure, Result},
};

/// Largest accepted answer: a page of 100 runs with outputs of 1 MiB each, with the worst escaping.
const ANSWER_BYTES: usize = 640 << 20;

/// Largest refusal that is read.
const REFUSAL_BYTES: usize = 64 << 10;

/// Silence after which a connection counts as lost. A stream sends a heartbeat every 15 seconds.
const SILENCE: Duration = Duration::from_secs(45);

/// Client of one API with one key.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    http: EngineClient,
    base: Url,
    /// Source of the address.
    from: String,
    api: Api,
    key: Option<ClientKey>,
}

impl Client {
    /// Makes a client of the engine API at `base`. Messages name `from` as the source of the address.
    pub(crate) fn new(base: &str, from: &str, key: Option<ClientKey>) -> Result<Self> {
        let wrong =
            |rule: &str| Failure::usage(format!("{from} {base}: not the address of an engine: {rule}"));
        let base: Url = format!("{}/", base.trim_end_matches('/'))
            .parse()
            .map_err(|_| wrong("it must be a URL such as http://127.0.0.1:8080"))?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(wrong("it must begin with http:// or https://"));
        }
        let is_sent = |key: &str| !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic());
        if let Some(key) = key.as_ref().filter(|key| !is_sent(key.secret.expose())) {
            let rule = "must be letters, digits and signs without spaces or line ends";
            let message = format!("the API key from {} {rule}", key.source);
            return Err(Failure::new(Exit::Denied, message));
        }
        Ok(Self {
            http: http_client(&base, SILENCE)?,
            base,
            from: from.to_owned(),
            api: Api::Engine,
            key,
        })
    }

    /// Returns a client of this engine with another key.
    pub(crate) fn with_key(&self, key: ClientKey) -> Self {
        Self {
            key: Some(key),
            ..self.clone()
        }
    }

    /// Turns this into a client of the organization API, for the operator of a hosted deployment.
    pub(crate) fn for_operator(self) -> Self {
        Self {
            api: Api::Organization,
            ..self
        }
    }

    pub(crate) fn api(&self) -> Api {
        self.api
    }

    /// Whether requests carry a key.
    pub(crate) fn has_key(&self) -> bool {
        self.key.is_some()
    }

    /// Returns an address of the engine. An address elsewhere is refused, because requests carry the key.
    pub(crate) fn url(&self, path: &str) -> Result<Url> {
        let joined = self.base.join(path);
        let joined = joined.map_err(|error| Failure::usage(format!("{}: {error}", self.base)))?;
        if joined.origin() == self.base.origin() && joined.path().starts_with(self.base.path()) {
            return Ok(joined);
        }
        Err(Failure::usage(format!(
            "{path}: must be a path below {}, such as /v1/runs",
            self.base
        )))
    }

    fn request(&self, method: Method, path: &str) -> Result<RequestBuilder> {
        let request = self
            .http
            .request(method, &self.url(path)?)
            .map_err(|error| Failure::usage(format!("{}: {error}", self.base)))?;
        Ok(match &self.key {
            Some(key) => request.bearer_auth(key.secret.expose()),
            None => request,
        })
    }

    /// Sends a request once and returns the answer, unless it is a refusal.
    async fn send_once(&self, request: RequestBuilder) -> Result<Response> {
        let response = request.send().await.map_err(|error| self.unreachable(error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let retry_after = retry_after(&response);
        let mut refusal = self.refusal(response).await;
        refusal.retry_after = retry_after;
        Err(refusal)
    }

    fn unreachable(&self, error: reqwest::Error) -> Failure {
        let remedy = if is_this_machine(self.base.as_str()) {
            "check the address, or start an engine with `sortie serve`"
        } else {
            "check the address, and that no proxy or firewall blocks it"
        };
        Failure::unavailable(format!(
            "cannot reach the engine at {} (from {}): {}; {remedy}",
            self.base,
            self.from,
            sortie_net::Error::from(error)
        ))
    }

    /// Reads the engine's refusal of a request.
    async fn refusal(&self, response: Response) -> Failure {
        let head = RefusalHead::of(&response);
        let body = read_body(response, REFUSAL_BYTES).await.unwrap_or_default();
        self.explain(&head, &body)
    }

    /// Explains the engine's refusal of a request.
    fn explain(&self, head: &RefusalHead, body: &[u8]) -> Failure {
        let RefusalHead {
            status,
            resource,
            request_id,
            wait,
        } = head;
        let Ok(ErrorBody { error, code }) = serde_json::from_slice(body) else {
            return Failure::unavailable(format!(
                "{} is not a Sortie engine: it answers {status}",
                self.base
            ));
        };
        match code {
            ErrorCode::Unauthorized | ErrorCode::SecondFactorRequired => self.refused_key(&error),
            ErrorCode::Forbidden => Failure::new(Exit::Forbidden, error),
            ErrorCode::PaymentRequired => Failure::new(Exit::Unpaid, error),
            ErrorCode::NotFound => {
                Failure::usage(format!("{error}: the engine at {} has no {resource}", self.base))
            }
            ErrorCode::InvalidRequest
            | ErrorCode::MethodNotAllowed
            | ErrorCode::Conflict
            | ErrorCode::Gone
            | ErrorCode::PreconditionFailed
            | ErrorCode::PayloadTooLarge
            | ErrorCode::RangeNotSatisfiable => Failure::usage(error),
            // The sentence of a rate limit may have the seconds already.
            ErrorCode::RateLimited if error.contains("retry in ") => Failure::unavailable(error),
            ErrorCode::RateLimited | ErrorCode::Unavailable => Failure::unavailable(format!("{error}{wait}")),
            ErrorCode::Internal => Failure::unavailable(format!("{error}{request_id}")),
        }
    }

    fn refused_key(&self, error: &str) -> Failure {
        let message = match &self.key {
            Some(ClientKey { source, .. }) => format!(
                "the engine at {} refuses the API key from {source}: {error}; {}",
                self.base,
                source.remedy()
            ),
            None => format!("the engine at {} asks for an API key: {error}", self.base),
        };
        Failure::new(Exit::Denied, message)
    }

    async fn read<T: DeserializeOwned>(&self, response: Response) -> Result<T> {
        let body = read_body(response, ANSWER_BYTES)
            .await
            .map_err(|error| Failure::unavailable(format!("the answer broke off: {error}")))?;
        // An answer without a body, such as that of a deletion, reads as `()`.
        let body = if body.is_empty() { b"null" } else { body.as_ref() };
        serde_json::from_slice(body).map_err(|error| {
            Failure::unavailable(format!(
                "{} answers what this version cannot read: {}",
                self.base,
                plain::json(&error)
            ))
        })
    }

    /// Makes a call and reads its answer.
    pub(crate) async fn ask<T: DeserializeOwned>(&self, call: Call<'_, impl Serialize + Sync>) -> Result<T> {
        let mut request = self.request(call.method, &call.path)?;
        if let Some(body) = call.body {
            request = request.json(body);
        }
        self.read(self.send(request).await?).await
    }

    /// Reads a list page by page: all records that match the filters, or the first `limit` of them.
    pub(crate) async fn pages<T: DeserializeOwned>(
        &self,
        path: &str,
        filters: &[Parameter],
        limit: Option<u32>,
    ) -> Result<Listed<T>> {
        let (mut items, mut cursor) = (Vec::new(), String::new());
        loop {
            let read = u32::try_from(items.len()).unwrap_or(u32::MAX);
            let left = limit.map_or(u32::MAX, |limit| limit.saturating_sub(read));
            if left == 0 {
                return Ok(Listed {
                    items,
                    has_more: true,
                });
            }
            let mut query = filters.to_vec();
            query.push(("limit".into(), left.min(limits::PAGE).to_string()));
            if !cursor.is_empty() {
                query.push(("cursor".into(), cursor));
            }
            let page: Page<T> = self.ask(get(path_of(path, &query))).await?;
            items.extend(page.items);
            if page.next_cursor.is_empty() {
                return Ok(Listed {
                    items,
                    has_more: false,
                });
            }
            cursor = page.next_cursor;
        }
    }

    /// Returns the address below `path` with these segments, which it encodes.
    pub(crate) fn below<'a>(&self, path: &str, names: impl IntoIterator<Item = &'a str>) -> Result<String> {
        let mut url = self.url(path)?;
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.extend(names);
        }
        Ok(url.into())
    }

    /// Returns the path of an operation on all nodes of a database.
    pub(crate) fn on_all_nodes(&self, path: &str) -> String {
        let root = match self.api {
            Api::Engine => "v1/admin",
            Api::Organization => "v1/operator",
        };
        format!("{root}/{path}")
    }

    /// Creates a run, or returns the one that was created with the same key. `request` has the form of a `RunRequest`.
    pub(crate) async fn create_run(&self, request: &RawValue, idempotency_key: &str) -> Result<Run> {
        let post = self
            .request(Method::POST, "v1/runs")?
            .header("idempotency-key", idempotency_key);
        self.read(self.send(post.json(request)).await?).await
    }

    /// Returns a run without its output. The output stays readable.
    pub(crate) async fn look_at_run(&self, id: RunId) -> Result<Run> {
        self.ask(get(format!("v1/runs/{id}?output=false"))).await
    }

    pub(crate) async fn cancel_run(&self, id: RunId) -> Result<Run> {
        self.ask(post(format!("v1/runs/{id}/cancel"))).await
    }

    /// Returns the time on the clock of the node, as it answers. Needs no key.
    pub(crate) async fn time(&self) -> Result<Option<String>> {
        let request = self.request(Method::GET, "healthz")?;
        let response = self.send(request).await?;
        let date = response.headers().get(header::DATE);
        Ok(date.and_then(|date| date.to_str().ok()).map(str::to_owned))
    }

    /// Checks that the node accepts runs. Returns the degraded parts of the node, without which it still accepts runs.
    /// The error is the reason why it accepts none. Needs no key.
    pub(crate) async fn ready(&self) -> Result<Vec<String>> {
        #[derive(Deserialize)]
        struct Readiness {
            degraded: Vec<String>,
        }
        let Readiness { degraded } = self.ask(get("readyz")).await?;
        Ok(degraded)
    }
}

/// Head of the engine's refusal.
struct RefusalHead {
    status: StatusCode,
    /// Path of the resource.
    resource: String,
    /// The ID of the request, in parentheses; empty without one.
    request_id: String,
    /// The time to wait, after a semicolon; empty without one.
    wait: String,
}

impl RefusalHead {
    fn of(response: &Response) -> Self {
        let header = |name: &str| {
            let value = response.headers().get(name);
            value.and_then(|value| value.to_str().ok())
        };
        Self {
            status: response.status(),
            resource: response.url().path().trim_start_matches("/v1/").to_owned(),
            request_id: header("x-request-id").map_or_else(String::new, |id| format!(" (request {id})")),
            wait: header("retry-after").map_or_else(String::new, |wait| format!("; retry in {wait} s")),
        }
    }
}

/// Makes the HTTP client for an engine. A connection counts as lost after `silence`.
fn http_client(base: &Url, silence: Duration) -> Result<EngineClient> {
    let timeouts = Timeouts {
        connect: Duration::from_secs(10),
        read: silence,
        total: None,
    };
    // An engine on this machine needs neither, so no file of certificates is read for it.
    let outbound = if is_this_machine(base.as_str()) {
        Outbound::default()
    } else {
        let read = Environment::of_process().outbound();
        read.map_err(|error| Failure::new(Exit::Configuration, error.to_string()))?
    };
    EngineClient::through(&outbound, timeouts)
        .map_err(|error| Failure::internal(format!("the HTTP client cannot be made: {error}")))
}

/// Parameter of a query: its name and its value.
pub(crate) type Parameter = (Cow<'static, str>, String);

/// The records of a list, or the first of them.
pub(crate) struct Listed<T> {
    pub(crate) items: Vec<T>,
    /// Whether the list has more records.
    pub(crate) has_more: bool,
}

/// Page of a list.
#[derive(Deserialize)]
struct Page<T> {
    items: Vec<T>,
    /// Position of the next page; empty on the last one.
    next_cursor: String,
}

/// Returns a path with its query.
pub(crate) fn path_of(path: &str, query: &[(impl AsRef<str>, String)]) -> String {
    if query.is_empty() {
        return path.to_owned();
    }
    let path = format!("{path}{}", if path.contains('?') { '&' } else { '?' });
    let start = path.len();
    url::form_urlencoded::Serializer::for_suffix(path, start)
        .extend_pairs(query.iter().map(|(name, value)| (name, value)))
        .finish()
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };

    use sortie_api::RunStatus;

    use super::*;
    use crate::args::{Paging, WhichRuns};

    /// Gives one answer to each connection and returns the requests, in order.
    pub(super) async fn engine(listener: TcpListener, answers: Vec<String>) -> Vec<String> {
        let mut asked = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 8192];
            let length = stream.read(&mut request).await.unwrap();
            asked.push(String::from_utf8_lossy(&request[..length]).into_owned());
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        asked
    }

    pub(super) fn answer(body: &str) -> String {
        format!(
            "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    pub(super) fn refusal(status: &str, code: &str) -> String {
        let body = format!("{{\"error\":\"said so\",\"code\":\"{code}\"}}");
        format!(
            "HTTP/1.1 {status}\r\nconnection: close\r\nx-request-id: abc\r\nretry-after: 7\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    fn key(text: &str) -> ClientKey {
        ClientKey::new(text, KeySource::Variable("SORTIE_API_KEY"))
    }

    pub(super) async fn client() -> (TcpListener, Client) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        (listener, Client::new(&url, "--url", Some(key("sts_x"))).unwrap())
    }

    #[tokio::test]
    async fn every_refusal_has_its_exit_code_and_says_what_helps() {
        for (status, code, exit, words) in [
            ("400 Bad Request", "invalid_request", Exit::Usage, "said so"),
            (
                "401 Unauthorized",
                "unauthorized",
                Exit::Denied,
                "refuses the API key from SORTIE_API_KEY: said so; set SORTIE_API_KEY to a key that `sortie keys create` \
                 has made on this engine",
            ),
            (
                "402 Payment Required",
                "payment_required",
                Exit::Unpaid,
                "said so",
            ),
            ("403 Forbidden", "forbidden", Exit::Forbidden, "said so"),
            ("409 Conflict", "conflict", Exit::Usage, "said so"),
            (
                "429 Too Many Requests",
                "rate_limited",
                Exit::Unavailable,
                "said so; retry in 7200 s",
            ),
            (
                "500 Internal Server Error",
                "internal",
                Exit::Unavailable,
                "said so (request abc)",
            ),
            (
                "502 Bad Gateway",
                "bogus",
                Exit::Unavailable,
                "is not a Sortie engine: it answers 502 Bad Gateway",
            ),
        ] {
            let (listener, client) = client().await;
            // Longer than anybody waits.
            let refused = refusal(status, code).replace("retry-after: 7", "retry-after: 7200");
            let (_, answer) = tokio::join!(
                engine(listener, vec![refused]),
                client.ask::<()>(get("v1/models"))
            );
            let failure = answer.unwrap_err();
            assert_eq!(failure.exit, exit, "{status}");
            assert!(failure.to_string().ends_with(words), "{failure}");
        }
    }

    /// Returns the first line of a request for the second page of a list of runs, of which `limit` are wanted.
    async fn second_page_of(which: &WhichRuns) -> String {
        let (listener, client) = client().await;
        let answers = vec![
            answer(r#"{"items":[1,2],"next_cursor":"a+b/="}"#),
            answer(r#"{"items":[3],"next_cursor":""}"#),
        ];
        let filters = which.filters();
        let (asked, found) = tokio::join!(
            engine(listener, answers),
            client.pages::<u8>("v1/runs", &filters, which.paging.most())
        );
        let found = found.unwrap();
        assert_eq!((found.items, found.has_more), (vec![1, 2, 3], false));
        asked[1].lines().next().unwrap().to_owned()
    }

    #[tokio::test]
    async fn a_page_is_asked_for_with_all_its_filters() {
        let all = WhichRuns {
            paging: Paging::default(),
            ..WhichRuns::default()
        };
        assert_eq!(
            second_page_of(&all).await,
            "GET /v1/runs?limit=18&cursor=a%2Bb%2F%3D HTTP/1.1"
        );
        let some = WhichRuns {
            status: vec![RunStatus::TimedOut],
            tag: Some("a&b".to_owned()),
            schedule: "sched_01kafs6w1cefkstv6qr1ptb0mp".parse().ok(),
            search: Some("north east".to_owned()),
            paging: Paging {
                limit: 500,
                all: false,
            },
            ..WhichRuns::default()
        };
        assert_eq!(
            second_page_of(&some).await,
            "GET /v1/runs?status=timed_out&tag=a%26b&schedule=sched_01kafs6w1cefkstv6qr1ptb0mp&q=north+east&limit=100\
             &cursor=a%2Bb%2F%3D HTTP/1.1"
        );
    }

    #[tokio::test]
    async fn a_name_in_an_address_is_encoded() {
        let (_, client) = client().await;
        let path = client.below("v1/files", ["a b/c?d#e", "content"]).unwrap();
        assert!(path.ends_with("/v1/files/a%20b%2Fc%3Fd%23e/content"), "{path}");
    }

    #[tokio::test]
    async fn an_engine_that_does_not_answer_is_named_with_the_source_of_its_address() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let client = Client::new(&url, "SORTIE_URL", Some(key("sts_x"))).unwrap();
        let text = client.ask::<()>(get("v1/models")).await.unwrap_err().to_string();
        let begin = format!("cannot reach the engine at {url}/ (from SORTIE_URL): ");
        assert!(text.starts_with(&begin), "{text}");
        assert!(text.ends_with("or start an engine with `sortie serve`"), "{text}");
    }

    #[tokio::test]
    async fn no_address_of_another_host_is_made() {
        let (_, client) = client().await;
        assert!(client.url("v1/runs?limit=1").is_ok());
        for elsewhere in [
            "http://127.0.0.2/v1/runs",
            "//example.com/v1",
            "\\\\example.com\\v1",
            "https://example.com",
        ] {
            let failure = client.url(elsewhere).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage, "{elsewhere}");
        }
    }

    #[test]
    fn a_key_that_cannot_be_sent_is_refused_before_anything_is() {
        for wrong in ["", "sts_x\n", "a b", "\u{e9}"] {
            let client = Client::new("http://127.0.0.1:1", "--url", Some(key(wrong)));
            let failure = client.map(|_| ()).unwrap_err();
            assert_eq!(failure.exit, Exit::Denied);
            assert!(failure.to_string().contains("SORTIE_API_KEY"), "{failure}");
        }
    }

    #[test]
    fn an_address_that_is_none_is_refused_with_where_it_comes_from() {
        for wrong in ["", "localhost:8080", "ftp://x"] {
            let failure = Client::new(wrong, "SORTIE_URL", None).map(|_| ()).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage);
            assert!(failure.to_string().starts_with("SORTIE_URL "), "{failure}");
        }
    }
}
