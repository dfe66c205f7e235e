//! Sends a request and follows redirects. Each target is checked like the first.

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
    header::{ACCEPT, ACCEPT_LANGUAGE, LOCATION},
};
use reqwest::Response;
use sortie_net::{Client, Policy, unknown_coding};
use url::Url;

use crate::{robots::Robots, text::URL_BYTES};

/// Maximum number of redirects.
const HOPS: usize = 5;
/// Headers that are also sent to another origin. All others may be meant only for the first.
const CARRIED: [HeaderName; 2] = [ACCEPT, ACCEPT_LANGUAGE];

/// A request without a body.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
}

/// A response that is not a redirect, and its URL.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) url: Url,
    pub(crate) response: Response,
}

/// Checks that must pass before each request.
#[derive(Clone, Copy)]
pub(crate) enum Gate<'a> {
    /// Only the run's policy.
    Open,
    /// The run's policy and the site's robots.txt.
    Robots(&'a Robots),
}

/// Reason why there is no response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{0}")]
    Net(#[from] sortie_net::Error),
    #[error("redirected more than {HOPS} times")]
    Redirects,
    #[error("redirected to what is not a URL of at most {URL_BYTES} bytes")]
    Location,
    #[error("{0}")]
    Robots(String),
}

impl Failure {
    /// Whether the run's policy is the reason.
    pub(crate) fn is_of_policy(&self) -> bool {
        matches!(self, Self::Net(sortie_net::Error::Policy(_)))
    }

    /// Whether the reason is an endless chain of redirects.
    pub(crate) fn is_redirects(&self) -> bool {
        matches!(self, Self::Redirects | Self::Location)
    }
}

/// Sends a GET or HEAD and follows redirects.
pub(crate) async fn follow(
    client: &Client,
    policy: &Policy,
    mut asked: Asked,
    gate: Gate<'_>,
) -> Result<Answered, Failure> {
    for _ in 0..=HOPS {
        if let Gate::Robots(robots) = gate {
            // Check the policy first, so that we never fetch the robots.txt of a forbidden site.
            policy.check_url(&asked.url).map_err(sortie_net::Error::from)?;
            robots.check(client, policy, &asked.url).await?;
        }
        let request = client.request_under(policy, asked.method.clone(), &asked.url)?;
        let response = client.send(request.headers(asked.headers.clone())).await?;
        let Some(location) = redirect(&response) else {
            check_encoding(&response)?;
            return Ok(Answered {
                url: asked.url,
                response,
            });
        };
        let target = target(&asked.url, location).ok_or(Failure::Location)?;
        if target.origin() != asked.url.origin() {
            let carried = |name: HeaderName| Some((name.clone(), asked.headers.get(&name)?.clone()));
            asked.headers = CARRIED.into_iter().filter_map(carried).collect();
        }
        asked.url = target;
    }
    Err(Failure::Redirects)
}

/// Returns the URL that a redirect names.
fn target(from: &Url, location: &HeaderValue) -> Option<Url> {
    let location = std::str::from_utf8(location.as_bytes()).ok()?;
    if location.len() > URL_BYTES {
        return None;
    }
    let target = from.join(location).ok()?;
    (target.as_str().len() <= URL_BYTES).then_some(target)
}

/// Returns the `Location` of a redirect.
fn redirect(response: &Response) -> Option<&HeaderValue> {
    let redirects = matches!(
        response.status(),
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    );
    response.headers().get(LOCATION).filter(|_| redirects)
}

/// Rejects a body with an unknown content coding.
pub(crate) fn check_encoding(response: &Response) -> Result<(), sortie_net::Error> {
    unknown_coding(response.headers()).map_or(Ok(()), |coding| Err(sortie_net::Error::Coding(coding)))
}
