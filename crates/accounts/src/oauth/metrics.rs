//! Metrics of the OAuth server. No label names a client, a person or an organization.

use prometheus_client::{
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

use super::{OauthFailure, OauthResult};

/// Metrics of the OAuth server of one node.
#[derive(Debug)]
pub(crate) struct Metrics {
    requests: Family<Labels, Counter>,
}

type Labels = [(&'static str, &'static str); 2];

/// Kind of a request for tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GrantType {
    /// A code of the authorization endpoint.
    AuthorizationCode,
    /// A refresh token.
    RefreshToken,
    /// Unknown to the server.
    Unknown,
}

impl GrantType {
    const ALL: [Self; 3] = [Self::AuthorizationCode, Self::RefreshToken, Self::Unknown];

    /// Reads the parameter of a request.
    pub(super) fn of(parameter: &str) -> Self {
        match parameter {
            "authorization_code" => Self::AuthorizationCode,
            "refresh_token" => Self::RefreshToken,
            _ => Self::Unknown,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::AuthorizationCode => "authorization_code",
            Self::RefreshToken => "refresh_token",
            Self::Unknown => "unknown",
        }
    }
}

/// Outcome of a request for tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The client got tokens.
    Issued,
    /// The request broke a rule of the protocol.
    Refused,
    /// A code or token was used a second time, and the grant has ended.
    Reused,
    /// The server failed to answer.
    Failed,
}

impl Outcome {
    const ALL: [Self; 4] = [Self::Issued, Self::Refused, Self::Reused, Self::Failed];

    fn of<T>(done: &OauthResult<T>) -> Self {
        match done {
            Ok(_) => Self::Issued,
            Err(OauthFailure::Protocol(_)) => Self::Refused,
            Err(OauthFailure::Reused) => Self::Reused,
            Err(OauthFailure::Other(_)) => Self::Failed,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Issued => "issued",
            Self::Refused => "refused",
            Self::Reused => "reused",
            Self::Failed => "failed",
        }
    }
}

fn labels(grant_type: GrantType, outcome: Outcome) -> Labels {
    [("grant_type", grant_type.as_str()), ("outcome", outcome.as_str())]
}

impl Default for Metrics {
    fn default() -> Self {
        let requests = Family::default();
        for grant_type in GrantType::ALL {
            for outcome in Outcome::ALL {
                drop(requests.get_or_create(&labels(grant_type, outcome)));
            }
        }
        Self { requests }
    }
}

impl Metrics {
    /// Registers the metrics.
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "oauth_token_requests",
            "Requests for OAuth tokens, by grant type and outcome",
            self.requests.clone(),
        );
    }

    /// Counts a request for tokens.
    pub(super) fn count<T>(&self, grant_type: GrantType, done: &OauthResult<T>) {
        let labels = labels(grant_type, Outcome::of(done));
        self.requests.get_or_create(&labels).inc();
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use sortie_store::access::Actor;

    use crate::{TokenRequest, rig::Rig};

    #[tokio::test]
    async fn requests_for_tokens_are_counted_by_grant_type_and_outcome() {
        let rig = Rig::new().await;
        for form in [
            "grant_type=refresh_token",
            "grant_type=authorization_code&client_id=x",
            "grant_type=password",
            "grant_type=refresh_token&grant_type=refresh_token",
            "",
        ] {
            let request = TokenRequest {
                authorization: None,
                form: form.as_bytes(),
                actor: &Actor::default(),
            };
            rig.accounts.issue_tokens(request).await.unwrap_err();
        }
        let mut registry = prometheus_client::registry::Registry::default();
        rig.accounts.register_metrics(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for (grant_type, outcome, count) in [
            ("authorization_code", "refused", 1),
            ("refresh_token", "refused", 1),
            ("unknown", "refused", 3),
            ("refresh_token", "reused", 0),
            ("authorization_code", "issued", 0),
        ] {
            let line = format!(
                "oauth_token_requests_total{{grant_type=\"{grant_type}\",outcome=\"{outcome}\"}} {count}\n"
            );
            assert!(text.contains(&line), "{line}: {text}");
        }
    }
}
