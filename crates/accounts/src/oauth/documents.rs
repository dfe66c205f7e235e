//! Client ID metadata documents: the id of a client is the URL of a document that describes the client.
//!
//! The URL comes from an untrusted client. The request goes to public addresses only, never to this machine, follows no
//! redirect, and reads at most 5 KiB in 5 seconds.

use std::{sync::Arc, time::Duration};

use reqwest::{
    Method, StatusCode,
    header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderMap},
};
use sortie_net::{Client, Network, Outbound, Reach, Timeouts, read_body};
use url::Url;

use super::metadata::ClientMetadata;

/// Maximum length of the URL of a document, in bytes.
const LONGEST_URL: usize = 1_024;
/// Maximum size of a document, in bytes.
const LARGEST: usize = 5 * 1_024;
const TIMEOUT: Duration = Duration::from_secs(5);
/// Minimum and maximum time for which a document is cached.
const SHORTEST_USE: Duration = Duration::from_mins(10);
const LONGEST_USE: Duration = Duration::from_hours(24);

/// Returns true if a client id is the URL of a document: `https`, with a path, and in canonical spelling.
pub(super) fn is_document(id: &str) -> bool {
    id.len() <= LONGEST_URL
        && id.starts_with("https://")
        && Url::parse(id).is_ok_and(|url| {
            url.as_str() == id
                && url.path() != "/"
                && url.fragment().is_none()
                && url.username().is_empty()
                && url.password().is_none()
        })
}

/// Fetches a document. Returns the metadata and their cache lifetime. The error text is for the person at the
/// browser.
pub(super) async fn fetch(id: &str, outbound: &Outbound) -> Result<(ClientMetadata, Duration), String> {
    let network = Network::of_this_machine(Reach::Public).map_err(|_| "the network is unknown".to_owned())?;
    fetch_on(network.with_outbound(outbound.clone()), id).await
}

async fn fetch_on(network: Network, id: &str) -> Result<(ClientMetadata, Duration), String> {
    let timeouts = Timeouts {
        connect: TIMEOUT,
        read: TIMEOUT,
        total: Some(TIMEOUT),
    };
    let text = |error: sortie_net::Error| error.to_string();
    let url = Url::parse(id).map_err(|_| "the URL has a wrong form".to_owned())?;
    let client = Client::on(Arc::new(network), timeouts).map_err(text)?;
    let request = client
        .request(Method::GET, &url)
        .map_err(text)?
        .header(ACCEPT, "application/json");
    let response = client.send(request).await.map_err(text)?;
    if response.status() != StatusCode::OK {
        return Err(format!("the server answered {}", response.status().as_u16()));
    }
    if !is_json(response.headers()) {
        return Err("its content type is not application/json".to_owned());
    }
    let lifetime = lifetime(response.headers());
    let body = read_body(response, LARGEST).await.map_err(text)?;
    let metadata = ClientMetadata::parse(&body, Some(id)).map_err(|error| error.description)?;
    Ok((metadata, lifetime))
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = value.unwrap_or_default().split(';').next().unwrap_or_default();
    let essence = essence.trim().to_ascii_lowercase();
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}

/// Cache lifetime of a document: its `max-age` within the bounds.
fn lifetime(headers: &HeaderMap) -> Duration {
    let ages = headers
        .get_all(CACHE_CONTROL)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|directive| directive.trim().strip_prefix("max-age="))
        .filter_map(|age| age.trim_matches('"').parse().ok());
    ages.min()
        .map_or(SHORTEST_USE, Duration::from_secs)
        .clamp(SHORTEST_USE, LONGEST_USE)
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;
    use sortie_testkit::{list, rows};
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
        task::JoinSet,
    };

    use super::*;

    #[test]
    fn a_document_is_known_by_its_url() {
        for good in [
            "https://app.example.com/client.json",
            "https://app.example.com:8443/a/b?v=1",
        ] {
            assert!(is_document(good), "{good}");
        }
        let long = format!("https://app.example.com/{}", "x".repeat(1_024));
        for bad in list! {
            "http://app.example.com/client.json", "https://app.example.com", "https://app.example.com/",
            "https://app.example.com/a/../b", "https://app.example.com/a#b", "https://u@app.example.com/a",
            "https://APP.example.com/a", "https://app.example.com:443/a", "https:app.example.com/a",
            " https://app.example.com/a", "client_01kafs6w1cefkstv6qr1ptb0mp", &long,
        } {
            assert!(!is_document(bad), "{bad}");
        }
    }

    #[test]
    fn a_document_is_used_between_ten_minutes_and_a_day() {
        let of = |value: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            if let Some(value) = value {
                headers.insert(CACHE_CONTROL, HeaderValue::from_static(value));
            }
            lifetime(&headers).as_secs()
        };
        assert_eq!(of(None), 600);
        assert_eq!(of(Some("no-store")), 600);
        assert_eq!(of(Some("public, max-age=3600")), 3_600);
        assert_eq!(of(Some("max-age=1")), 600);
        assert_eq!(of(Some("max-age=9999999")), 86_400);
        assert_eq!(of(Some("max-age=x")), 600);
    }

    /// Serves one answer, and returns the URL of the document.
    async fn serving(
        tasks: &mut JoinSet<()>,
        answer: impl FnOnce(&str) -> Vec<u8> + Send + 'static,
    ) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/client.json", listener.local_addr().unwrap());
        let answer = answer(&url);
        tasks.spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4_096];
            let _length = stream.read(&mut request).await.unwrap();
            // The client closes the connection early once it has read enough.
            let _written = stream.write_all(&answer).await;
        });
        url
    }

    fn answer(head: &str, body: &str) -> Vec<u8> {
        format!("HTTP/1.1 {head}\r\nConnection: close\r\n\r\n{body}").into_bytes()
    }

    async fn fetched(url: &str) -> Result<(ClientMetadata, Duration), String> {
        fetch_on(Network::new(Reach::Private, Vec::new()), url).await
    }

    #[tokio::test]
    async fn a_document_is_fetched_and_its_rules_are_checked() {
        let mut tasks = JoinSet::new();
        let body = |url: &str| {
            format!(r#"{{"client_id":"{url}","redirect_uris":["https://a.example/cb"],"client_name":"A"}}"#)
        };
        let ok = "200 OK\r\nContent-Type: application/json\r\nCache-Control: max-age=1200";
        let url = serving(&mut tasks, move |url| answer(ok, &body(url))).await;
        let (metadata, lifetime) = fetched(&url).await.unwrap();
        assert_eq!(
            (metadata.client_name.as_deref(), lifetime.as_secs()),
            (Some("A"), 1_200)
        );
        for (head, large, reason) in rows! {
            "302 Found\r\nLocation: /other", 0, "the server answered 302";
            "404 Not Found\r\nContent-Type: application/json", 0, "the server answered 404";
            "200 OK\r\nContent-Type: text/html", 0, "its content type is not application/json";
            ok, LARGEST, "the answer is larger than 5120 bytes";
        } {
            let url = serving(&mut tasks, move |url| {
                answer(head, &(body(url) + &" ".repeat(large)))
            })
            .await;
            assert_eq!(fetched(&url).await.unwrap_err(), reason);
        }
        let endless = "200 OK\r\nContent-Type: application/json\r\nContent-Length: 1073741824";
        let url = serving(&mut tasks, move |_| answer(endless, "{")).await;
        assert_eq!(
            fetched(&url).await.unwrap_err(),
            "the answer is larger than 5120 bytes"
        );
        let url = serving(&mut tasks, move |_| answer(ok, &body("https://a.example/other"))).await;
        assert_eq!(
            fetched(&url).await.unwrap_err(),
            "client_id: must be the URL of the document"
        );
    }

    #[tokio::test]
    async fn addresses_that_are_not_public_are_refused() {
        for host in ["127.0.0.1", "169.254.169.254", "10.0.0.1", "[::1]", "localhost"] {
            let reason = fetch(&format!("https://{host}/client.json"), &Outbound::default())
                .await
                .unwrap_err();
            assert!(
                reason.contains("is not a public address") || reason.contains("name a host"),
                "{host}: {reason}"
            );
        }
    }
}
