//! Secrets of a connection. They are separated from its definition on arrival, sealed, and joined to it again for the
//! call that needs them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use url::Url;
use zeroize::Zeroize as _;

/// Minimum length of a query value that is redacted, in bytes. A shorter value is no secret, and would be found
/// everywhere.
const LEAST_BYTES: usize = 6;

/// Authentication method, with its credentials.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AuthSecret {
    /// No authentication.
    #[default]
    None,
    /// A bearer token.
    Bearer { token: String },
    /// User name and password.
    Basic { username: String, password: String },
    /// A custom header.
    Header { name: String, value: String },
    /// A parameter in the query.
    Query { name: String, value: String },
    /// OAuth: the client and the server, as configured.
    OAuth(OAuthClient),
}

/// OAuth settings of a definition.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OAuthClient {
    pub(crate) client_id: Option<String>,
    pub(crate) client_secret: Option<String>,
    /// URLs of the authorization endpoint and the token endpoint.
    pub(crate) endpoints: Option<(String, String)>,
    pub(crate) scopes: Vec<String>,
    /// Issuer that the client belongs to.
    pub(crate) issuer: Option<String>,
}

/// Secrets of one connection. No `Debug`: they are never logged. Their memory is overwritten when they are dropped.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Secrets {
    pub(crate) auth: AuthSecret,
    /// Headers, by name.
    pub(crate) headers: BTreeMap<String, String>,
    /// The encoded query of the URL.
    pub(crate) query: Option<String>,
    /// The environment of the program, by name.
    pub(crate) env: BTreeMap<String, String>,
}

impl Drop for Secrets {
    fn drop(&mut self) {
        match &mut self.auth {
            AuthSecret::None => {}
            AuthSecret::Bearer { token: text }
            | AuthSecret::Basic { password: text, .. }
            | AuthSecret::Header { value: text, .. }
            | AuthSecret::Query { value: text, .. } => text.zeroize(),
            AuthSecret::OAuth(client) => client.client_secret.zeroize(),
        }
        if let AuthSecret::Basic { username, .. } = &mut self.auth {
            username.zeroize();
        }
        self.query.zeroize();
        for text in self.headers.values_mut().chain(self.env.values_mut()) {
            text.zeroize();
        }
    }
}

impl Secrets {
    /// Whether there are no secrets.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the texts to redact from a run's output: the credentials as they are sent, and their secret parts.
    pub(crate) fn texts(&self) -> Vec<String> {
        let mut texts = match &self.auth {
            AuthSecret::None => Vec::new(),
            AuthSecret::Bearer { token } => vec![token.clone()],
            // Some services take the key as user name, with an empty password.
            AuthSecret::Basic { username, password } if password.is_empty() => {
                vec![username.clone(), format!("{username}:")]
            }
            AuthSecret::Basic { username, password } => {
                vec![password.clone(), format!("{username}:{password}")]
            }
            AuthSecret::Header { value, .. } | AuthSecret::Query { value, .. } => {
                // `Token abc`: the secret is the part after the last space.
                let last = value.rsplit(' ').next().unwrap_or_default();
                vec![value.clone(), last.to_owned()]
            }
            AuthSecret::OAuth(client) => client.client_secret.iter().cloned().collect(),
        };
        texts.extend(self.headers.values().chain(self.env.values()).cloned());
        texts.extend(self.query_values().filter(|text| text.len() >= LEAST_BYTES));
        texts.retain(|text| !text.is_empty());
        texts
    }

    /// Returns the decoded values of the query.
    fn query_values(&self) -> impl Iterator<Item = String> {
        let query = self.query.as_deref().unwrap_or_default();
        url::form_urlencoded::parse(query.as_bytes()).map(|(_, value)| value.into_owned())
    }

    /// Returns `url` with the query that was removed from it.
    pub(crate) fn whole_url(&self, mut url: Url) -> Url {
        if self.query.is_some() {
            url.set_query(self.query.as_deref());
        }
        url
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(auth: AuthSecret) -> Secrets {
        Secrets {
            auth,
            headers: BTreeMap::new(),
            query: None,
            env: BTreeMap::new(),
        }
    }

    #[test]
    fn what_is_secret_is_taken_out_and_what_is_not_stays() {
        let secrets = Secrets {
            auth: AuthSecret::Header {
                name: "Authorization".to_owned(),
                value: "Token hush-1".to_owned(),
            },
            headers: [("X-Key".to_owned(), "hush-2".to_owned())].into(),
            query: Some("key=hush%2D3&v=1".to_owned()),
            env: [("TOKEN".to_owned(), "hush-4".to_owned())].into(),
        };
        let mut texts = secrets.texts();
        texts.sort();
        assert_eq!(texts, ["Token hush-1", "hush-1", "hush-2", "hush-3", "hush-4"]);
        let url = "https://a.example/v1".parse().unwrap();
        assert_eq!(
            secrets.whole_url(url).as_str(),
            "https://a.example/v1?key=hush%2D3&v=1"
        );
    }

    #[test]
    fn a_user_name_without_a_password_is_the_secret() {
        let basic = |username: &str, password: &str| {
            let auth = AuthSecret::Basic {
                username: username.to_owned(),
                password: password.to_owned(),
            };
            with(auth)
        };
        assert_eq!(basic("sk_live", "").texts(), ["sk_live", "sk_live:"]);
        assert_eq!(basic("ann", "hush").texts(), ["hush", "ann:hush"]);
        assert!(Secrets::default().is_empty() && !basic("a", "").is_empty());
    }

    #[test]
    fn secrets_survive_their_sealed_form() {
        let secrets = with(AuthSecret::OAuth(OAuthClient {
            endpoints: Some(("https://a.example/a".to_owned(), "https://a.example/t".to_owned())),
            ..OAuthClient::default()
        }));
        let text = serde_json::to_string(&secrets).unwrap();
        assert!(serde_json::from_str::<Secrets>(&text).unwrap() == secrets);
    }
}
