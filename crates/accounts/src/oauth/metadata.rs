//! Metadata of a client (RFC 7591), from a registration or from a client ID metadata document.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    error::{OauthError, OauthErrorCode},
    redirect::RedirectUri,
};

/// Maximum number of redirect URIs of a client.
const MOST_REDIRECTS: usize = 10;

/// Proof of identity of a client at the token endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthMethod {
    /// No proof: a public client.
    None,
    /// The secret in the `Authorization` header.
    ClientSecretBasic,
    /// The secret in the form.
    ClientSecretPost,
}

impl AuthMethod {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ClientSecretBasic => "client_secret_basic",
            Self::ClientSecretPost => "client_secret_post",
        }
    }
}

/// Client metadata that the server stores. Other members are ignored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientMetadata {
    /// Name that the client chose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_name: Option<String>,
    /// Redirect URIs that may receive codes.
    pub redirect_uris: Vec<String>,
    /// Proof of identity at the token endpoint.
    pub token_endpoint_auth_method: AuthMethod,
}

impl ClientMetadata {
    /// Parses the metadata of a registration, or of the document at the URL `document`.
    pub(crate) fn parse(body: &[u8], document: Option<&str>) -> Result<Self, OauthError> {
        let invalid = |text: &str| OauthErrorCode::InvalidClientMetadata.because(text);
        let members: Map<String, Value> =
            serde_json::from_slice(body).map_err(|_| invalid("the metadata must be a JSON object"))?;
        if let Some(url) = document {
            if members.get("client_id").and_then(Value::as_str) != Some(url) {
                return Err(invalid("client_id: must be the URL of the document"));
            }
            if members.contains_key("client_secret") {
                return Err(invalid("client_secret: must be absent in a document"));
            }
        }
        includes(&members, "grant_types", "authorization_code")?;
        includes(&members, "response_types", "code")?;
        Ok(Self {
            client_name: text(&members, "client_name")?.map(str::to_owned),
            redirect_uris: redirect_uris(&members)?,
            token_endpoint_auth_method: auth_method(&members, document.is_some())?,
        })
    }
}

fn text<'a>(members: &'a Map<String, Value>, name: &str) -> Result<Option<&'a str>, OauthError> {
    match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(OauthErrorCode::InvalidClientMetadata.because(format!("{name}: must be a text"))),
    }
}

/// Checks that a list, if present, includes the only value that the server supports.
fn includes(members: &Map<String, Value>, name: &str, value: &str) -> Result<(), OauthError> {
    match members.get(name) {
        None | Some(Value::Null) => Ok(()),
        Some(Value::Array(list)) if list.iter().any(|one| one == value) => Ok(()),
        Some(_) => {
            Err(OauthErrorCode::InvalidClientMetadata.because(format!("{name}: must include {value}")))
        }
    }
}

fn redirect_uris(members: &Map<String, Value>) -> Result<Vec<String>, OauthError> {
    let invalid = |rule: String| OauthErrorCode::InvalidRedirectUri.because(rule);
    let list = members
        .get("redirect_uris")
        .and_then(Value::as_array)
        .filter(|list| (1..=MOST_REDIRECTS).contains(&list.len()))
        .ok_or_else(|| invalid("redirect_uris: must have 1 to 10 URIs".to_owned()))?;
    list.iter()
        .enumerate()
        .map(|(at, uri)| {
            let uri = RedirectUri::parse(uri.as_str().unwrap_or_default())
                .map_err(|rule| invalid(format!("redirect_uris[{at}]: {rule}")))?;
            Ok(uri.as_str().to_owned())
        })
        .collect()
}

/// Reads the authentication method. A document is public, so its client has no secret.
fn auth_method(members: &Map<String, Value>, is_document: bool) -> Result<AuthMethod, OauthError> {
    let default = if is_document {
        AuthMethod::None
    } else {
        AuthMethod::ClientSecretBasic
    };
    let name = "token_endpoint_auth_method";
    let Some(asked) = text(members, name)? else {
        return Ok(default);
    };
    [
        AuthMethod::None,
        AuthMethod::ClientSecretBasic,
        AuthMethod::ClientSecretPost,
    ]
    .into_iter()
    .filter(|method| !is_document || *method == AuthMethod::None)
    .find(|method| method.as_str() == asked)
    .ok_or_else(|| {
        let rule = if is_document {
            "must be none"
        } else {
            "must be none, client_secret_basic or client_secret_post"
        };
        OauthErrorCode::InvalidClientMetadata.because(format!("{name}: {rule}"))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use sortie_testkit::rows;

    use super::*;

    fn read(value: &Value) -> Result<ClientMetadata, OauthError> {
        ClientMetadata::parse(value.to_string().as_bytes(), None)
    }

    #[test]
    fn a_registration_keeps_what_the_server_uses() {
        let kept = read(&json!({
            "client_name": "App", "redirect_uris": ["http://127.0.0.1:3000/cb"], "application_type": "native",
            "grant_types": ["authorization_code", "refresh_token"], "response_types": ["code"], "scope": "member",
            "token_endpoint_auth_method": "none", "logo_uri": 7, "software_id": null,
        }));
        let expected = ClientMetadata {
            client_name: Some("App".to_owned()),
            redirect_uris: vec!["http://127.0.0.1:3000/cb".to_owned()],
            token_endpoint_auth_method: AuthMethod::None,
        };
        assert_eq!(kept, Ok(expected));
        let least = read(&json!({"redirect_uris": ["https://a.example/"]})).unwrap();
        assert_eq!(least.token_endpoint_auth_method, AuthMethod::ClientSecretBasic);
        assert_eq!(least.client_name, None);
    }

    #[test]
    fn every_broken_rule_has_its_error() {
        let with = |name: &str, value: Value| {
            let mut metadata = json!({"redirect_uris": ["https://a.example/"]});
            metadata[name] = value;
            metadata
        };
        let many: Vec<_> = (0..11).map(|n| format!("https://a.example/{n}")).collect();
        for (metadata, code) in rows! {
            json!([]), "invalid_client_metadata";
            json!({}), "invalid_redirect_uri";
            with("redirect_uris", json!([])), "invalid_redirect_uri";
            with("redirect_uris", json!(many)), "invalid_redirect_uri";
            with("redirect_uris", json!("https://a.example/")), "invalid_redirect_uri";
            with("redirect_uris", json!(["https://a.example/", 7])), "invalid_redirect_uri";
            with("redirect_uris", json!(["http://a.example/"])), "invalid_redirect_uri";
            with("client_name", json!(7)), "invalid_client_metadata";
            with("grant_types", json!(["client_credentials"])), "invalid_client_metadata";
            with("response_types", json!(["token"])), "invalid_client_metadata";
            with("token_endpoint_auth_method", json!("private_key_jwt")), "invalid_client_metadata";
            with("token_endpoint_auth_method", json!(1)), "invalid_client_metadata";
        } {
            let error = read(&metadata).expect_err("a rule is broken");
            assert_eq!(error.code.as_str(), code, "{metadata}: {}", error.description);
        }
        assert!(ClientMetadata::parse(b"{", None).is_err());
    }

    #[test]
    fn a_document_names_its_own_url_and_has_no_secret() {
        let url = "https://app.example.com/client.json";
        let read = |value: Value| ClientMetadata::parse(value.to_string().as_bytes(), Some(url));
        let right = json!({"client_id": url, "redirect_uris": ["https://app.example.com/cb"]});
        assert_eq!(
            read(right.clone()).unwrap().token_endpoint_auth_method,
            AuthMethod::None
        );
        for (name, value) in [
            ("client_id", json!("https://app.example.com/other.json")),
            ("client_id", json!(null)),
            ("client_secret", json!("x")),
            ("token_endpoint_auth_method", json!("client_secret_post")),
        ] {
            let mut wrong = right.clone();
            wrong[name] = value;
            assert_eq!(
                read(wrong).unwrap_err().code.as_str(),
                "invalid_client_metadata",
                "{name}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_body_makes_it_panic(body in any::<Vec<u8>>()) {
            let _read = ClientMetadata::parse(&body, None);
        }

        #[test]
        fn kept_metadata_is_read_back(name in "\\PC{0,20}", number in 1_usize..10) {
            let uris: Vec<_> = (0..number).map(|n| format!("https://a.example/{n}")).collect();
            let kept = read(&json!({"client_name": name, "redirect_uris": uris})).map_err(|e| TestCaseError::fail(e.description))?;
            let text = serde_json::to_vec(&kept).map_err(|e| TestCaseError::fail(e.to_string()))?;
            prop_assert_eq!(serde_json::from_slice::<ClientMetadata>(&text).ok(), Some(kept));
        }
    }
}
