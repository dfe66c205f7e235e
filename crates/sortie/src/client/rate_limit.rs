//! Requests that the engine refuses because too many came (429). Such a request had no effect. The client repeats it
//! after the time in `Retry-After` (RFC 9110 section 10.2.3), so that no command of a batch is lost.

use std::time::Duration;

use reqwest::{RequestBuilder, Response, StatusCode, header};

use super::Client;
use crate::{
    failure::{Failure, Result},
    terminal,
};

/// Longest accepted `Retry-After`: two windows of the rate limit. A longer one ends the command with a message.
const PATIENCE: Duration = Duration::from_mins(2);

/// Returns the time after which the engine accepts a refused request again.
pub(super) fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = response.headers().get(header::RETRY_AFTER)?;
    let seconds = seconds.to_str().ok()?.parse().ok()?;
    (response.status() == StatusCode::TOO_MANY_REQUESTS).then_some(Duration::from_secs(seconds))
}

/// Returns the sentence about a wait.
pub(crate) fn waits(wait: Duration) -> String {
    format!("the rate limit is reached; trying again in {} s", wait.as_secs())
}

/// Waits until a refused request may be sent again.
///
/// # Errors
/// The refusal, if it has another reason or the wait is too long.
pub(super) async fn wait_out(refusal: Failure) -> Result<()> {
    match refusal.retry_after.filter(|wait| *wait <= PATIENCE) {
        None => Err(refusal),
        Some(wait) => {
            terminal::note(&waits(wait));
            tokio::time::sleep(wait).await;
            Ok(())
        }
    }
}

impl Client {
    /// Sends a request, repeats it while the rate limit refuses it, and returns the answer unless it is a refusal. A
    /// request with a stream as its body cannot be repeated.
    pub(super) async fn send(&self, mut request: RequestBuilder) -> Result<Response> {
        loop {
            let again = request.try_clone();
            let refusal = match self.send_once(request).await {
                Err(refusal) => refusal,
                answer @ Ok(_) => return answer,
            };
            let Some(next) = again else {
                return Err(refusal);
            };
            wait_out(refusal).await?;
            request = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::client::{
        get,
        tests::{answer, client, engine, refusal},
    };

    /// Returns a refusal that asks for a wait.
    fn refused(seconds: u32) -> String {
        let wait = format!("retry-after: {seconds}");
        refusal("429 Too Many Requests", "rate_limited").replace("retry-after: 7", &wait)
    }

    #[tokio::test]
    async fn a_request_that_the_rate_limit_refuses_is_sent_again_when_it_may_be() {
        let (listener, client) = client().await;
        let run = r#"{"id":"run_01kafs6w1cefkstv6qr1ptb0mp","status":"queued","created_at":"2026-11-20T21:30:00.000Z",
            "max_cost_micros":1,"billing_pending":true,"zero_data_retention":false,"timeout_seconds":300,"last_event_id":1}"#;
        let request = serde_json::value::to_raw_value(&serde_json::json!({"prompt": "x"})).unwrap();
        let begun = Instant::now();
        let (asked, created) = tokio::join!(
            engine(listener, vec![refused(1), refused(0), answer(run)]),
            client.create_run(&request, "key")
        );
        created.unwrap();
        assert_eq!(asked.len(), 3);
        for request in &asked {
            assert!(request.starts_with("POST /v1/runs HTTP/1.1\r\n"), "{request}");
            assert!(request.contains("idempotency-key: key\r\n"), "{request}");
            assert!(request.ends_with("{\"prompt\":\"x\"}"), "{request}");
        }
        assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn an_upload_that_the_rate_limit_refuses_is_sent_again_from_its_beginning() {
        let (listener, client) = client().await;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes");
        std::fs::write(&path, "all of it").unwrap();
        let file = format!(
            r#"{{"id":"file_01kafs6w1cefkstv6qr1ptb0mp","name":"notes","size":9,"content_type":"text/plain","sha256":"{}",
            "created_at":"2026-11-20T21:30:00.000Z","used_by":[]}}"#,
            "0".repeat(64)
        );
        let (asked, saved) = tokio::join!(
            engine(listener, vec![refused(0), answer(&file)]),
            client.upload(&path, "notes")
        );
        saved.unwrap();
        assert_eq!(asked.len(), 2);
    }

    #[tokio::test]
    async fn a_rate_limit_says_its_seconds_once() {
        let (listener, client) = client().await;
        let words = "rate limit reached, retry in 7200 s";
        let refused = refused(7200)
            .replace("content-length: 41\r\n", "")
            .replace("said so", words);
        let (_, found) = tokio::join!(
            engine(listener, vec![refused]),
            client.ask::<()>(get("v1/models"))
        );
        assert_eq!(found.unwrap_err().to_string(), words);
    }

    #[tokio::test]
    async fn who_is_to_stay_away_for_long_is_told_so() {
        let (listener, client) = client().await;
        let (_, found) = tokio::join!(
            engine(listener, vec![refused(7200)]),
            client.ask::<()>(get("v1/models"))
        );
        let failure = found.unwrap_err().to_string();
        assert!(failure.ends_with("retry in 7200 s"), "{failure}");
    }
}
