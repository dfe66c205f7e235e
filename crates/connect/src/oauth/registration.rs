//! Identity of the client at an authorization server: configured by an administrator, otherwise its metadata document, otherwise
//! dynamic registration (RFC 7591).

use serde_json::{Value, json};
use sortie_api::Credential;
use url::{Host, Url};

use super::{Error, Home, Identity, Method, Settings, discovery::Server, own::Addresses, wire::Wire};

/// Returns the metadata document of the client, to be served as JSON below [`Home::client_document`], for authorization servers
/// that read such documents.
pub fn client_document(document: &Url, redirect_uri: &Url) -> Value {
    let mut about = about(redirect_uri);
    if let Value::Object(members) = &mut about {
        members.insert("client_id".to_owned(), Value::from(document.as_str()));
        members.insert(
            "client_uri".to_owned(),
            Value::from(document.origin().ascii_serialization()),
        );
    }
    about
}

fn about(redirect_uri: &Url) -> Value {
    let is_loopback = match redirect_uri.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    };
    json!({
        "client_name": "Sortie",
        "redirect_uris": [redirect_uri.as_str()],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "application_type": if is_loopback { "native" } else { "web" }
    })
}

/// Returns the identity of a configured client; `methods` are those that the server supports, empty if unknown.
pub(super) fn given(client_id: &str, secret: Option<&Credential>, methods: &[String]) -> Identity {
    let takes = |name: &str| methods.iter().any(|method| method == name);
    let method = match secret {
        None => Method::None,
        // The default of RFC 8414 if the server does not list methods.
        Some(_) if methods.is_empty() || takes("client_secret_basic") => Method::ClientSecretBasic,
        Some(_) => Method::ClientSecretPost,
    };
    Identity {
        client_id: client_id.to_owned(),
        client_secret: secret.cloned(),
        method,
    }
}

/// A client at an authorization server.
pub(super) struct Registered {
    pub(super) identity: Identity,
    pub(super) addresses: Addresses,
}

/// Returns the client at a discovered server. A registration is used for only one flow and one issuer.
pub(super) async fn identify(
    wire: &Wire,
    server: &Server,
    settings: &Settings,
    home: &Home,
    scope: Option<&str>,
) -> Result<Registered, Error> {
    if let Some(client_id) = &settings.client_id {
        let secret = settings.client_secret.as_ref();
        return Ok(Registered {
            identity: given(client_id, secret, &server.token_methods),
            addresses: Addresses::shared(home),
        });
    }
    let addresses = Addresses::own(home, &settings.context, &server.issuer);
    let document = addresses.client_document.as_ref();
    if let Some(document) = document.filter(|_| server.takes_client_documents) {
        return Ok(Registered {
            identity: given(document.as_str(), None, &[]),
            addresses,
        });
    }
    let identity = register(wire, server, &addresses.redirect_uri, scope).await?;
    Ok(Registered { identity, addresses })
}

/// Registers a client for `redirect_uri` (RFC 7591).
async fn register(
    wire: &Wire,
    server: &Server,
    redirect_uri: &Url,
    scope: Option<&str>,
) -> Result<Identity, Error> {
    let Some(registration) = &server.registration_url else {
        return Err(Error::Refused(
            "auth.client_id: required, because the authorization server does not register clients dynamically"
                .to_owned(),
        ));
    };
    let mut about = about(redirect_uri);
    if let (Value::Object(members), Some(scope)) = (&mut about, scope) {
        members.insert("scope".to_owned(), Value::from(scope));
    }
    let answer = wire.post_json(registration, &about).await?;
    let Some(client_id) = answer.text("client_id").filter(|_| answer.status.is_success()) else {
        let why = answer
            .error()
            .unwrap_or_else(|| format!("HTTP {}", answer.status.as_u16()));
        return Err(Error::Refused(format!(
            "the authorization server did not register the client: {why}"
        )));
    };
    let secret = answer.text("client_secret").map(Credential::new);
    let method = match (answer.text("token_endpoint_auth_method"), &secret) {
        (Some("none"), _) | (_, None) => Method::None,
        (Some("client_secret_post"), Some(_)) => Method::ClientSecretPost,
        (Some(_) | None, Some(_)) => Method::ClientSecretBasic,
    };
    Ok(Identity {
        client_id: client_id.to_owned(),
        client_secret: secret,
        method,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_names_itself_and_where_people_come_back_to() {
        let document = "https://sortie.example/client.json".parse().unwrap();
        let redirect = "https://sortie.example/v1/oauth/callback".parse().unwrap();
        assert_eq!(
            client_document(&document, &redirect),
            json!({
                "client_id": "https://sortie.example/client.json",
                "client_name": "Sortie",
                "client_uri": "https://sortie.example",
                "redirect_uris": ["https://sortie.example/v1/oauth/callback"],
                "grant_types": ["authorization_code", "refresh_token"],
                "response_types": ["code"],
                "token_endpoint_auth_method": "none",
                "application_type": "web"
            })
        );
    }

    #[test]
    fn a_secret_is_sent_the_way_the_server_takes_it() {
        let secret = Credential::new("s");
        let post = ["client_secret_post".to_owned()];
        let both = ["client_secret_post".to_owned(), "client_secret_basic".to_owned()];
        assert_eq!(given("c", None, &post).method, Method::None);
        assert_eq!(given("c", Some(&secret), &[]).method, Method::ClientSecretBasic);
        assert_eq!(given("c", Some(&secret), &post).method, Method::ClientSecretPost);
        assert_eq!(given("c", Some(&secret), &both).method, Method::ClientSecretBasic);
    }
}
