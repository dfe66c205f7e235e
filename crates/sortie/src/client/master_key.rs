//! Master keys: pages through everything that is sealed, to count it or to seal it again.

use std::time::Duration;

use reqwest::{Method, StatusCode, header};
use serde::de::DeserializeOwned;
use sortie_api::master_key::{MasterKeys, Reseal};

use super::{Client, InstallationApi, path_of};
use crate::failure::Result;

/// Longest `Retry-After` that is waited for. A longer one ends the command with a message.
const PATIENCE: Duration = Duration::from_mins(2);

impl Client {
    /// Returns the keys and the number of values that each seals: all pages as one.
    pub(crate) async fn master_keys(&self, api: InstallationApi) -> Result<MasterKeys> {
        let path = api.path("master-key");
        let mut found: MasterKeys = self.page(Method::GET, &path).await?;
        while !found.next_cursor.is_empty() {
            let query = [("cursor", std::mem::take(&mut found.next_cursor))];
            let page: MasterKeys = self.page(Method::GET, &path_of(&path, &query)).await?;
            found.sealed.extend(page.sealed);
            found.next_cursor = page.next_cursor;
        }
        Ok(found)
    }

    /// Seals a page of values again.
    pub(crate) async fn reseal(&self, api: InstallationApi, cursor: &str) -> Result<Reseal> {
        let path = path_of(&api.path("master-key/reseal"), &[("cursor", cursor.to_owned())]);
        self.page(Method::POST, &path).await
    }

    /// A page of more than the rate limit has requests for: as often as it is refused for that, it is asked for again
    /// when the engine says (`Retry-After`, RFC 9110 section 10.2.3).
    async fn page<T: DeserializeOwned>(&self, method: Method, path: &str) -> Result<T> {
        loop {
            let response = self.ask(self.request(method.clone(), path)?).await?;
            let wait = response
                .headers()
                .get(header::RETRY_AFTER)
                .filter(|_| response.status() == StatusCode::TOO_MANY_REQUESTS)
                .and_then(|seconds| seconds.to_str().ok()?.parse().ok())
                .map(Duration::from_secs)
                .filter(|wait| *wait <= PATIENCE);
            let Some(wait) = wait else {
                return self.read(self.accepted(response).await?).await;
            };
            tokio::time::sleep(wait).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::client::tests::{answer, client, engine, refusal};

    #[tokio::test]
    async fn a_page_that_the_rate_limit_refuses_is_asked_for_again_when_it_may_be() {
        let (listener, client) = client().await;
        let done = r#"{"looked_at":500,"resealed":1,"changed_meanwhile":0,"unreadable":0,"next_cursor":""}"#;
        let refused =
            refusal("429 Too Many Requests", "rate_limited").replace("retry-after: 7", "retry-after: 1");
        let begun = Instant::now();
        let (asked, page) = tokio::join!(
            engine(listener, vec![refused, answer(done)]),
            client.reseal(InstallationApi::Engine, "6.run_1")
        );
        assert_eq!(page.unwrap().looked_at, 500);
        for request in &asked {
            let line = "POST /v1/admin/master-key/reseal?cursor=6.run_1 HTTP/1.1\r\n";
            assert!(request.starts_with(line), "{request}");
        }
        assert_eq!(asked.len(), 2);
        assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
    }

    #[tokio::test]
    async fn a_rate_limit_says_its_seconds_once() {
        let (listener, client) = client().await;
        let words = "rate limit reached, retry in 7200 s";
        let refused = refusal("429 Too Many Requests", "rate_limited")
            .replace("content-length: 41\r\n", "")
            .replace("said so", words)
            .replace("retry-after: 7", "retry-after: 7200");
        let (_, found) = tokio::join!(
            engine(listener, vec![refused]),
            client.master_keys(InstallationApi::Engine)
        );
        assert_eq!(found.map(|_| ()).unwrap_err().to_string(), words);
    }

    #[tokio::test]
    async fn who_is_to_stay_away_for_long_is_told_so() {
        let (listener, client) = client().await;
        let refused =
            refusal("429 Too Many Requests", "rate_limited").replace("retry-after: 7", "retry-after: 7200");
        let (_, found) = tokio::join!(
            engine(listener, vec![refused]),
            client.master_keys(InstallationApi::Engine)
        );
        let failure = found.map(|_| ()).unwrap_err().to_string();
        assert!(failure.ends_with("retry in 7200 s"), "{failure}");
    }
}
