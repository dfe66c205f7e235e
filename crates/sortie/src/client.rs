//! The engine's API as the command line uses it.

mod artifacts;
mod files;
mod following;
mod master_key;
mod node;
mod operators;
mod rate_limit;
mod schedules;
mod workflows;

use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response, header};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};
use sortie_api::{
    AuditEntry, AuditPage, Budget, BudgetScope, Connection, DeliveryAttempt, ErrorBody, ErrorCode, KeyId,
    License, OrganizationInfo, PutBudget, Redelivery, Run, RunDefinition, RunId, RunPage,
    connection::{Authorization, ConfirmAuthorization, ConfirmedAuthorization, ConnectionTest, KnownService},
    key::{ApiKey, CreateKey, CreatedKey, RotateKey},
    license::PutLicense,
    limits,
    model::ModelCatalog,
    plain,
    usage::Usage,
};
use sortie_net::{EngineClient, Outbound, Timeouts, read_body};
use url::Url;

use self::rate_limit::retry_after;
pub(crate) use self::{
    artifacts::Content,
    files::{passing_name, refs},
    following::Followed,
    node::InstallationApi,
    rate_limit::waits,
    workflows::UsedDefinition,
};
use crate::{
    args::{Name, WhichRuns},
    config::Environment,
    connect::is_this_machine,
    failure::{Exit, Failure, Result},
};

/// Largest answer that is taken: a page of 100 runs with outputs of 1 MiB each, escaped at worst.
const ANSWER_BYTES: usize = 640 << 20;

/// Silence after which a connection counts as lost. A stream sends a heartbeat every 15 seconds.
const SILENCE: Duration = Duration::from_secs(45);

/// A client of one engine with one key.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    http: EngineClient,
    base: Url,
    key: Option<String>,
}

impl Client {
    /// A client of the engine at `base`, which the caller has from `from` (for messages).
    pub(crate) fn new(base: &str, from: &str, key: Option<String>) -> Result<Self> {
        let wrong =
            |rule: &str| Failure::usage(format!("{from} {base}: not the address of an engine: {rule}"));
        let base: Url = format!("{}/", base.trim_end_matches('/'))
            .parse()
            .map_err(|_| wrong("it must be a URL such as http://127.0.0.1:8080"))?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(wrong("it must begin with http:// or https://"));
        }
        let is_sent = |key: &String| !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_graphic());
        if !key.as_ref().is_none_or(is_sent) {
            return Err(Failure::new(
                Exit::Denied,
                "the API key must be letters, digits and signs without spaces or line ends: look at SORTIE_API_KEY",
            ));
        }
        let timeouts = Timeouts {
            connect: Duration::from_secs(10),
            read: SILENCE,
            total: None,
        };
        // An engine on this machine needs neither, and no file of certificates is read for it.
        let outbound = if is_this_machine(base.as_str()) {
            Outbound::default()
        } else {
            let read = Environment::of_process().outbound();
            read.map_err(|error| Failure::new(Exit::Configuration, error.to_string()))?
        };
        let http = EngineClient::through(&outbound, timeouts)
            .map_err(|error| Failure::internal(format!("the HTTP client cannot be made: {error}")))?;
        Ok(Self { http, base, key })
    }

    /// Returns a client of this engine with another key.
    pub(crate) fn with_key(&self, key: String) -> Self {
        Self {
            key: Some(key),
            ..self.clone()
        }
    }

    /// Whether requests carry a key.
    pub(crate) fn has_key(&self) -> bool {
        self.key.is_some()
    }

    fn request(&self, method: Method, path: &str) -> Result<RequestBuilder> {
        let wrong = |text: String| Failure::usage(format!("{}: {text}", self.base));
        let url = self.base.join(path).map_err(|error| wrong(error.to_string()))?;
        let request = self
            .http
            .request(method, &url)
            .map_err(|error| wrong(error.to_string()))?;
        Ok(match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        })
    }

    /// Sends a request once and returns the answer, unless it is a refusal.
    async fn send_once(&self, request: RequestBuilder) -> Result<Response> {
        let response = request.send().await.map_err(|error| {
            Failure::unavailable(format!(
                "cannot reach the engine at {}: {}",
                self.base,
                sortie_net::Error::from(error)
            ))
        })?;
        if response.status().is_success() {
            return Ok(response);
        }
        let retry_after = retry_after(&response);
        let mut refusal = self.refusal(response).await;
        refusal.retry_after = retry_after;
        Err(refusal)
    }

    /// Reads the engine's refusal of a request.
    async fn refusal(&self, response: Response) -> Failure {
        let status = response.status();
        let resource = response.url().path().trim_start_matches("/v1/").to_owned();
        let request_id = response
            .headers()
            .get("x-request-id")
            .and_then(|id| id.to_str().ok())
            .map_or_else(String::new, |id| format!(" (request {id})"));
        let wait = response
            .headers()
            .get(header::RETRY_AFTER)
            .and_then(|seconds| seconds.to_str().ok())
            .map_or_else(String::new, |seconds| format!("; retry in {seconds} s"));
        let body = read_body(response, 64 << 10).await.unwrap_or_default();
        let Ok(ErrorBody { error, code }) = serde_json::from_slice(&body) else {
            return Failure::unavailable(format!(
                "{} is not a Sortie engine: it answers {status}",
                self.base
            ));
        };
        match code {
            ErrorCode::Unauthorized | ErrorCode::SecondFactorRequired => Failure::new(
                Exit::Denied,
                format!("the engine at {} refuses the API key: {error}", self.base),
            ),
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

    async fn read<T: DeserializeOwned>(&self, response: Response) -> Result<T> {
        let body = read_body(response, ANSWER_BYTES)
            .await
            .map_err(|error| Failure::unavailable(format!("the answer broke off: {error}")))?;
        serde_json::from_slice(&body).map_err(|error| {
            Failure::unavailable(format!(
                "{} answers what this version cannot read: {}",
                self.base,
                plain::json(&error)
            ))
        })
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let request = self.request(Method::GET, path)?;
        self.read(self.send(request).await?).await
    }

    async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: Option<&(impl Serialize + Sync)>,
    ) -> Result<T> {
        let mut request = self.request(Method::POST, path)?;
        if let Some(body) = body {
            request = request.json(body);
        }
        self.read(self.send(request).await?).await
    }

    /// Creates a run, or returns the one that was created with the same key. `request` has the form of a `RunRequest`.
    pub(crate) async fn create_run(&self, request: &RawValue, idempotency_key: &str) -> Result<Run> {
        let post = self
            .request(Method::POST, "v1/runs")?
            .header("idempotency-key", idempotency_key);
        self.read(self.send(post.json(request)).await?).await
    }

    /// Returns a run with its output. An output that can be read once is read by this: the caller must print it.
    pub(crate) async fn get_run(&self, id: RunId) -> Result<Run> {
        self.get(&format!("v1/runs/{id}")).await
    }

    /// Returns a run without its output, which stays readable.
    pub(crate) async fn look_at_run(&self, id: RunId) -> Result<Run> {
        self.get(&format!("v1/runs/{id}?output=false")).await
    }

    /// The newest of these runs, page by page.
    pub(crate) async fn list_runs(&self, which: &WhichRuns) -> Result<Vec<Run>> {
        let mut runs: Vec<Run> = Vec::new();
        let mut cursor = String::new();
        loop {
            let left = which
                .limit
                .saturating_sub(u32::try_from(runs.len()).unwrap_or(u32::MAX));
            if left == 0 {
                return Ok(runs);
            }
            let path = page_path(which, left.min(limits::PAGE), &cursor);
            let page: RunPage = self.get(&path).await?;
            runs.extend(page.items);
            if page.next_cursor.is_empty() {
                return Ok(runs);
            }
            cursor = page.next_cursor;
        }
    }

    pub(crate) async fn cancel_run(&self, id: RunId) -> Result<Run> {
        self.post(&format!("v1/runs/{id}/cancel"), None::<&()>).await
    }

    pub(crate) async fn run_definition(&self, id: RunId) -> Result<RunDefinition> {
        self.get(&format!("v1/runs/{id}/definition")).await
    }

    pub(crate) async fn list_deliveries(&self, id: RunId) -> Result<Vec<DeliveryAttempt>> {
        self.get(&format!("v1/runs/{id}/deliveries")).await
    }

    pub(crate) async fn redeliver_run(&self, id: RunId) -> Result<Redelivery> {
        self.post(&format!("v1/runs/{id}/deliveries"), None::<&()>).await
    }

    pub(crate) async fn models(&self) -> Result<ModelCatalog> {
        self.get("v1/models").await
    }

    pub(crate) async fn list_keys(&self) -> Result<Vec<ApiKey>> {
        self.get("v1/admin/keys").await
    }

    pub(crate) async fn create_key(&self, key: &CreateKey) -> Result<CreatedKey> {
        self.post("v1/admin/keys", Some(key)).await
    }

    pub(crate) async fn rotate_key(&self, id: KeyId, request: &RotateKey) -> Result<CreatedKey> {
        self.post(&format!("v1/admin/keys/{id}/rotate"), Some(request))
            .await
    }

    /// The organization, the role and the id of the key in use.
    pub(crate) async fn me(&self) -> Result<OrganizationInfo> {
        self.get("v1/me").await
    }

    /// The newest entries of the audit log that the filters let through, page by page, at most `limit`.
    pub(crate) async fn list_audit(
        &self,
        filters: &[(&'static str, String)],
        limit: u32,
    ) -> Result<Vec<AuditEntry>> {
        let mut entries: Vec<AuditEntry> = Vec::new();
        let mut cursor = String::new();
        loop {
            let left = limit.saturating_sub(u32::try_from(entries.len()).unwrap_or(u32::MAX));
            if left == 0 {
                return Ok(entries);
            }
            let mut query = filters.to_vec();
            query.push(("limit", left.min(limits::PAGE).to_string()));
            query.extend((!cursor.is_empty()).then_some(("cursor", cursor)));
            let page: AuditPage = self.get(&path_of("v1/admin/audit", &query)).await?;
            entries.extend(page.items);
            if page.next_cursor.is_empty() {
                return Ok(entries);
            }
            cursor = page.next_cursor;
        }
    }

    /// Returns the usage; `query` has the days and the dimensions.
    pub(crate) async fn usage(&self, query: &[(&'static str, String)]) -> Result<Usage> {
        self.get(&path_of("v1/admin/usage", query)).await
    }

    pub(crate) async fn license(&self) -> Result<License> {
        self.get("v1/admin/license").await
    }

    pub(crate) async fn put_license(&self, put: &PutLicense) -> Result<License> {
        let request = self.request(Method::PUT, "v1/admin/license")?;
        self.read(self.send(request.json(put)).await?).await
    }

    pub(crate) async fn delete_license(&self) -> Result<()> {
        let request = self.request(Method::DELETE, "v1/admin/license")?;
        self.send(request).await.map(drop)
    }

    pub(crate) async fn delete_key(&self, id: KeyId) -> Result<()> {
        let request = self.request(Method::DELETE, &format!("v1/admin/keys/{id}"))?;
        self.send(request).await.map(drop)
    }

    pub(crate) async fn list_connections(&self) -> Result<Vec<Connection>> {
        self.get("v1/connections").await
    }

    pub(crate) async fn get_connection(&self, name: &Name) -> Result<Connection> {
        self.get(&format!("v1/connections/{name}")).await
    }

    /// Saves a connection: its definition as it was given, for the engine to judge.
    pub(crate) async fn put_connection(&self, name: &Name, definition: &Value) -> Result<Connection> {
        let request = self.request(Method::PUT, &format!("v1/connections/{name}"))?;
        self.read(self.send(request.json(definition)).await?).await
    }

    pub(crate) async fn delete_connection(&self, name: &Name) -> Result<()> {
        let request = self.request(Method::DELETE, &format!("v1/connections/{name}"))?;
        self.send(request).await.map(drop)
    }

    pub(crate) async fn test_connection(&self, name: &Name) -> Result<ConnectionTest> {
        self.post(&format!("v1/connections/{name}/test"), None::<&()>)
            .await
    }

    pub(crate) async fn authorize_connection(&self, name: &Name) -> Result<Authorization> {
        self.post(&format!("v1/connections/{name}/oauth"), None::<&()>)
            .await
    }

    pub(crate) async fn confirm_authorization(
        &self,
        name: &Name,
        code: &str,
    ) -> Result<ConfirmedAuthorization> {
        let code = ConfirmAuthorization {
            code: code.to_owned(),
        };
        self.post(&format!("v1/connections/{name}/oauth/confirm"), Some(&code))
            .await
    }

    pub(crate) async fn known_services(&self) -> Result<Vec<KnownService>> {
        self.get("v1/connections/catalog").await
    }

    pub(crate) async fn list_budgets(&self) -> Result<Vec<Budget>> {
        self.get("v1/budgets").await
    }

    pub(crate) async fn put_budget(&self, scope: &BudgetScope, put: &PutBudget) -> Result<Budget> {
        let request = self.request(Method::PUT, &format!("v1/budgets/{scope}"))?;
        self.read(self.send(request.json(put)).await?).await
    }

    pub(crate) async fn delete_budget(&self, scope: &BudgetScope) -> Result<()> {
        let request = self.request(Method::DELETE, &format!("v1/budgets/{scope}"))?;
        self.send(request).await.map(drop)
    }
}

fn page_path(which: &WhichRuns, limit: u32, cursor: &str) -> String {
    let path = "v1/runs?".to_owned();
    let start = path.len();
    let mut query = url::form_urlencoded::Serializer::for_suffix(path, start);
    query.append_pair("limit", &limit.to_string());
    if let Some(status) = which.status {
        query.append_pair("status", status.as_str());
    }
    if let Some(tag) = &which.tag {
        query.append_pair("tag", tag);
    }
    if let Some(schedule) = which.schedule {
        query.append_pair("schedule", &schedule.to_string());
    }
    if !cursor.is_empty() {
        query.append_pair("cursor", cursor);
    }
    query.finish()
}

/// A path with its query.
fn path_of(path: &str, query: &[(&'static str, String)]) -> String {
    let path = format!("{path}?");
    let start = path.len();
    url::form_urlencoded::Serializer::for_suffix(path, start)
        .extend_pairs(query)
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

    /// Gives one answer to each connection and returns what was asked, in order.
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

    pub(super) async fn client() -> (TcpListener, Client) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        (
            listener,
            Client::new(&url, "--url", Some("sts_x".to_owned())).unwrap(),
        )
    }

    #[tokio::test]
    async fn every_refusal_has_its_exit_code_and_says_what_helps() {
        for (status, code, exit, words) in [
            ("400 Bad Request", "invalid_request", Exit::Usage, "said so"),
            (
                "401 Unauthorized",
                "unauthorized",
                Exit::Denied,
                "refuses the API key: said so",
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
            let (_, answer) = tokio::join!(engine(listener, vec![refused]), client.models());
            let failure = answer.map(|_| ()).unwrap_err();
            assert_eq!(failure.exit, exit, "{status}");
            assert!(failure.to_string().ends_with(words), "{failure}");
        }
    }

    #[test]
    fn a_page_is_asked_for_with_all_its_filters() {
        let all = WhichRuns {
            status: None,
            tag: None,
            schedule: None,
            limit: 20,
        };
        assert_eq!(page_path(&all, 20, ""), "v1/runs?limit=20");
        let some = WhichRuns {
            status: Some(RunStatus::TimedOut),
            tag: Some("a&b".to_owned()),
            schedule: "sched_01kafs6w1cefkstv6qr1ptb0mp".parse().ok(),
            limit: 20,
        };
        assert_eq!(
            page_path(&some, 100, "a+b/="),
            "v1/runs?limit=100&status=timed_out&tag=a%26b&schedule=sched_01kafs6w1cefkstv6qr1ptb0mp&cursor=a%2Bb%2F%3D"
        );
    }

    #[test]
    fn a_key_that_cannot_be_sent_is_refused_before_anything_is() {
        for wrong in ["", "sts_x\n", "a b", "\u{e9}"] {
            let client = Client::new("http://127.0.0.1:1", "--url", Some(wrong.to_owned()));
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
