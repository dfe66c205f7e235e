//! People of a hosted node, over HTTP: their sign-up, their organizations, keys and applications.

use crate::prelude::*;

/// Password of every person.
pub(super) const PASSWORD: &str = "plum-anchor-violet-42";

/// Redirect URI of the application, and its form in a query.
const REDIRECT: (&str, &str) = ("https://app.example.com/cb", "https%3A%2F%2Fapp.example.com%2Fcb");

/// A verifier of PKCE, and its challenge.
const PKCE: (&str, &str) = (
    "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
    "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
);

/// A person with a session.
pub(super) struct Person {
    pub(super) user: String,
    pub(super) token: String,
    /// With the session, on the organization API.
    pub(super) client: Client,
}

/// Text of a member of an answer.
pub(super) fn text(value: &Value, name: &str) -> Result<String> {
    let text = value[name].as_str();
    Ok(text.with_context(|| format!("no {name} in {value}"))?.to_owned())
}

impl Person {
    /// Signs a person up.
    pub(super) async fn sign_up(node: &HostedNode, email: &str, name: &str) -> Result<Self> {
        let body = json!({"email": email, "name": name, "password": PASSWORD});
        let signed = node.anybody().post("/v1/auth/signup", &body).json(201).await?;
        let token = text(&signed, "token")?;
        Ok(Self {
            user: text(&signed["user"], "id")?,
            client: node.client(&token),
            token,
        })
    }

    /// Creates an organization. Returns the id.
    pub(super) async fn organization(&self, name: &str) -> Result<String> {
        let made = self
            .client
            .post("/v1/organizations", &json!({"name": name}))
            .await?;
        text(&made.expect(201)?.json()?, "id")
    }

    /// Creates an organization with credits for its runs. Returns the id.
    pub(super) async fn paying_organization(&self, node: &HostedNode, name: &str) -> Result<String> {
        let organization = self.organization(name).await?;
        node.give_credits(&organization, 1_000_000_000).await?;
        Ok(organization)
    }

    /// Creates an API key. Returns the id and the secret.
    pub(super) async fn key(&self, org: &str, name: &str, role: &str) -> Result<(String, String)> {
        let path = format!("/v1/organizations/{org}/keys");
        let made = self
            .client
            .post(&path, &json!({"name": name, "role": role}))
            .json(201)
            .await?;
        Ok((text(&made, "id")?, text(&made, "key")?))
    }

    /// Invites an address. Returns the invitation.
    pub(super) async fn invite(&self, org: &str, email: &str) -> Result<Value> {
        let path = format!("/v1/organizations/{org}/invitations");
        let body = json!({"email": email, "role": "member"});
        self.client.post(&path, &body).json(201).await
    }

    /// Allows an application to act in an organization. Returns the code of the redirect, and the id of the application.
    pub(super) async fn allow(&self, node: &HostedNode, org: &str, scope: &str) -> Result<(String, String)> {
        let metadata = json!({"redirect_uris": [REDIRECT.0], "token_endpoint_auth_method": "none"});
        let registered = node.anybody().post("/oauth/register", &metadata).await?;
        let client_id = text(&registered.expect(201)?.json()?, "client_id")?;
        let path = format!(
            "/oauth/authorize?response_type=code&client_id={client_id}&redirect_uri={}&state=s&scope={scope}\
             &code_challenge={}&code_challenge_method=S256",
            REDIRECT.1, PKCE.1
        );
        let cookie = HeaderValue::try_from(format!("sortie={}", self.token))?;
        let browser = node
            .anybody()
            .with_header("cookie", cookie)
            .with_header("origin", node.org_url());
        let page = browser.get(&path).expect(200).await?.text();
        let form = page
            .split("<form")
            .find(|form| form.contains("action=\"/oauth/authorize\""));
        let form = form.context("a form")?.split_once("name=\"form\" value=\"");
        let form = form.context("a token of the form")?.1.split('"').next();
        let fields = format!(
            "form={}&organization={org}&decision=allow",
            form.unwrap_or_default()
        );
        let decided = form_of(&browser, "/oauth/authorize", fields).expect(303).await?;
        let code = decided.header("location")?.split_once("code=");
        let code = code.context("a code")?.1.split('&').next();
        Ok((code.unwrap_or_default().to_owned(), client_id))
    }

    /// Gets tokens for an application.
    pub(super) async fn tokens(&self, node: &HostedNode, org: &str, scope: &str) -> Result<Value> {
        let (code, client_id) = self.allow(node, org, scope).await?;
        redeem(node, &code, &client_id).await
    }
}

/// Exchanges a code for tokens.
pub(super) async fn redeem(node: &HostedNode, code: &str, client_id: &str) -> Result<Value> {
    let fields = format!(
        "grant_type=authorization_code&client_id={client_id}&code={code}&code_verifier={}&redirect_uri={}",
        PKCE.0, REDIRECT.1
    );
    form_of(&node.anybody(), "/oauth/token", fields).json(200).await
}

/// Sends a form.
pub(super) fn form_of(client: &Client, path: &str, fields: String) -> Pending {
    client
        .with_header("content-type", "application/x-www-form-urlencoded")
        .send(Method::POST, path, fields.into())
}
