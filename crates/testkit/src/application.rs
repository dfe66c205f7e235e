//! An OAuth application that acts for a person: its requests, and the person's consent.

use anyhow::{Context as _, Result, ensure};
use http::Method;
use serde_json::{Value, json};

use crate::{
    Answer, Browser, Client, HostedNode,
    browser::{FORM, encoded, form_token, query_of},
};

const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
const REDIRECT: &str = "https://app.example.com/cb";

/// Path of the page of consent.
pub const CONSENT: &str = "/oauth/authorize";
/// Path of the token endpoint.
pub const TOKEN: &str = "/oauth/token";

/// A public client with one redirect address.
#[derive(Clone, Debug, Default)]
pub struct Application {
    /// ID that the server gave it.
    pub client_id: String,
}

/// Access token and refresh token.
#[derive(Clone, Debug)]
pub struct TokenPair {
    /// For the engine API.
    pub access: String,
    /// For the token endpoint, once.
    pub refresh: String,
}

impl Application {
    /// Metadata of its registration.
    pub fn metadata() -> Value {
        json!({"client_name": "App", "redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none"})
    }

    /// The application described by the answer to its registration.
    pub fn registered(answer: Answer) -> Result<Self> {
        let made = answer.expect(201)?.json()?;
        let client_id = made.get("client_id").and_then(Value::as_str);
        let client_id = client_id.context("no client_id")?;
        Ok(Self {
            client_id: client_id.to_owned(),
        })
    }

    /// Address of the page of consent.
    pub fn consent_page(&self, state: &str) -> String {
        let query = encoded(&[
            ("response_type", "code"),
            ("client_id", &self.client_id),
            ("redirect_uri", REDIRECT),
            ("state", state),
            ("code_challenge", CHALLENGE),
            ("code_challenge_method", "S256"),
        ]);
        format!("{CONSENT}?{query}")
    }

    /// Form that exchanges a code.
    pub fn exchange<'a>(&'a self, code: &'a str) -> [(&'a str, &'a str); 5] {
        [
            ("grant_type", "authorization_code"),
            ("client_id", &self.client_id),
            ("code", code),
            ("code_verifier", VERIFIER),
            ("redirect_uri", REDIRECT),
        ]
    }

    /// Form that uses a refresh token.
    pub fn refresh<'a>(&'a self, token: &'a str) -> [(&'a str, &'a str); 3] {
        [
            ("grant_type", "refresh_token"),
            ("client_id", &self.client_id),
            ("refresh_token", token),
        ]
    }

    /// Tokens of a new grant: the person of a session allows the application to act in an organization.
    pub async fn tokens(&self, node: &HostedNode, session: &str, organization: &str) -> Result<TokenPair> {
        let browser = Browser::signed_in(node.org_address, &node.org_url(), session);
        let page = browser.get(&self.consent_page("state")).await?.expect(200)?;
        let form = decision(&page, organization)?;
        let form: Vec<_> = form.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let code = code(browser.post(CONSENT, &form).await?, "state")?;
        let client = Client::new(node.org_address, None);
        let client = client.with_header("content-type", FORM);
        let body = encoded(&self.exchange(&code)).into();
        TokenPair::issued(&client.send(Method::POST, TOKEN, body).expect(200).await?)
    }
}

impl TokenPair {
    /// The tokens in an answer of the token endpoint.
    pub fn issued(answer: &Answer) -> Result<Self> {
        let issued = answer.json()?;
        let token = |name: &str| {
            let token = issued.get(name).and_then(Value::as_str);
            token
                .map(str::to_owned)
                .with_context(|| format!("no {name} in {issued}"))
        };
        Ok(Self {
            access: token("access_token")?,
            refresh: token("refresh_token")?,
        })
    }
}

/// Form of the consent page that allows the application to act in an organization.
pub fn decision(page: &Answer, organization: &str) -> Result<[(&'static str, String); 3]> {
    Ok([
        ("form", form_token(page, CONSENT)?),
        ("organization", organization.to_owned()),
        ("decision", "allow".to_owned()),
    ])
}

/// The code in the answer to a decision.
pub fn code(decided: Answer, state: &str) -> Result<String> {
    let decided = decided.expect(303)?;
    let mut query = query_of(decided.header("location")?)?;
    ensure!(query.get("state").is_some_and(|sent| sent == state), "{query:?}");
    query.remove("code").context("no code")
}
