use std::{collections::BTreeMap, net::IpAddr, path::Path};

use sortie_accounts::{Accounts, Client, IdentityProvider, OidcAnswer, OidcFlow, OidcSignIn, OidcVisitor};
use sortie_api::Credential;
use sortie_store::{access::Actor, people::SessionKind};
use sortie_testkit::{
    Bytes, Client as Http,
    http::Method,
    peers::{Peer, installed},
};
use url::{Url, form_urlencoded};

use crate::rig::Rig;

/// Address of the callback.
const CALLBACK: &str = "https://accounts.example/sign-in/oidc/idp/callback";

/// Maximum number of pages and redirects in one sign-in.
const STEPS: usize = 20;

/// Browser for the pages of the provider. It keeps cookies and sends forms.
#[derive(Default)]
struct Browser {
    cookies: BTreeMap<String, String>,
}

impl Browser {
    /// Follows redirects and fills in forms until the provider redirects to the callback. Returns its address.
    async fn sign_in(&mut self, address: &str, login: &str) -> Url {
        let mut url: Url = address.parse().unwrap();
        let mut form = None;
        for _ in 0..STEPS {
            let answer = self.send(&url, form.take()).await;
            if let Ok(location) = answer.header("location") {
                url = url.join(location).unwrap();
                if url.as_str().starts_with(CALLBACK) {
                    return url;
                }
                continue;
            }
            let page = answer.text();
            assert_eq!(answer.status, 200, "{url}: {page}");
            let (_, rest) = page
                .split_once("action=\"")
                .unwrap_or_else(|| panic!("{url}: {page}"));
            url = url.join(rest.split('"').next().unwrap()).unwrap();
            let prompt = if page.contains("value=\"login\"") {
                "login"
            } else {
                "consent"
            };
            let fields = [("prompt", prompt), ("login", login), ("password", "any")];
            form = Some(
                form_urlencoded::Serializer::new(String::new())
                    .extend_pairs(fields)
                    .finish(),
            );
        }
        panic!("the provider does not come to an end");
    }

    async fn send(&mut self, url: &Url, form: Option<String>) -> sortie_testkit::Answer {
        let address = url.socket_addrs(|| None).unwrap()[0];
        let cookies: Vec<_> = self
            .cookies
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let client = Http::new(address, None)
            .with_header("cookie", cookies.join("; "))
            .with_header("content-type", "application/x-www-form-urlencoded");
        let method = if form.is_some() { Method::POST } else { Method::GET };
        let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
        let answer = client
            .send(method, path, Bytes::from(form.unwrap_or_default()))
            .await
            .unwrap();
        for cookie in answer.headers.get_all("set-cookie") {
            let (name, rest) = cookie.to_str().unwrap().split_once('=').unwrap();
            let value = rest.split(';').next().unwrap();
            self.cookies.insert(name.to_owned(), value.to_owned());
        }
        answer
    }
}

/// Starts oidc-provider. Returns it with its issuer.
fn oidc_provider(arguments: [&str; 3]) -> (Peer, String) {
    installed("npm/node_modules/oidc-provider/package.json").unwrap();
    let npm = installed("npm").unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/servers/oidc.mjs");
    let [algorithm, method, claims] = arguments;
    let (script, npm) = (script.to_str().unwrap(), npm.to_str().unwrap());
    let peer = Peer::start(Path::new("node"), &[script, npm, algorithm, method, claims]).unwrap();
    let issuer = peer.json().unwrap()["issuer"].as_str().unwrap().to_owned();
    (peer, issuer)
}

fn settings(issuer: &str, secret: &str) -> IdentityProvider {
    IdentityProvider {
        name: "idp".to_owned(),
        label: "Example".to_owned(),
        issuer: issuer.to_owned(),
        client_id: "sortie".to_owned(),
        client_secret: Credential::new(secret),
        trusted_domains: vec!["corp.example".to_owned()],
        scopes: Vec::new(),
        roles: None,
    }
}

/// Visits the provider as a browser does. Returns the flow and the URL of the redirect.
async fn away(accounts: &Accounts, browser: &mut Browser, login: &str) -> (OidcFlow, Url) {
    let request = accounts.begin_oidc("idp", "/").await.unwrap();
    let flow = request.flow.clone();
    let callback = browser.sign_in(&request.url("the state"), login).await;
    (flow, callback)
}

async fn back(accounts: &Accounts, flow: &OidcFlow, callback: &Url) -> Result<OidcSignIn, String> {
    let query: BTreeMap<_, _> = callback.query_pairs().into_owned().collect();
    assert_eq!(query["state"], "the state");
    let answer = OidcAnswer {
        code: query.get("code").map(String::as_str),
        issuer: query.get("iss").map(String::as_str),
        error: query.get("error").map(String::as_str),
    };
    let actor = Actor::default();
    let visitor = OidcVisitor {
        client: Client {
            kind: SessionKind::Web,
            address: IpAddr::from([192, 0, 2, 7]),
            agent: None,
        },
        actor: &actor,
        invitation: None,
    };
    let done = accounts.finish_oidc(flow, &answer, &visitor).await;
    done.map_err(|error| error.to_string())
}

fn address_of(done: Result<OidcSignIn, String>) -> String {
    match done {
        Ok(OidcSignIn::SignedIn(person)) => person.person.email,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn people_sign_in_at_oidc_provider_by_its_own_pages() {
    for arguments in [
        ["RS256", "client_secret_basic", "userinfo"],
        ["ES256", "client_secret_post", "token"],
    ] {
        let (_peer, issuer) = oidc_provider(arguments);
        let rig = Rig::with_provider(settings(&issuer, "secret:with/odd+signs")).await;
        let accounts = rig.accounts();
        let mut browser = Browser::default();
        let (flow, callback) = away(accounts, &mut browser, "cat").await;
        assert!(
            callback
                .query_pairs()
                .any(|(name, value)| name == "iss" && value == issuer)
        );
        let another = accounts.begin_oidc("idp", "/").await.unwrap().flow;
        let refused = back(accounts, &another, &callback).await.unwrap_err();
        assert!(
            refused.contains("did not confirm"),
            "{refused}: the verifier of another sign-in"
        );
        let done = back(accounts, &flow, &callback).await;
        assert_eq!(address_of(done), "cat@corp.example", "{arguments:?}");
        assert!(
            back(accounts, &flow, &callback).await.is_err(),
            "a code works once"
        );
        let identity = sortie_store::people::Identity {
            issuer,
            subject: "cat".to_owned(),
        };
        let account = accounts.store().find_identity(&identity).await.unwrap().unwrap();
        assert!(account.person.email_verified_at.is_some());
        assert_eq!(account.person.name, "Name of cat");
        let (flow, callback) = away(accounts, &mut Browser::default(), "cat").await;
        assert_eq!(
            address_of(back(accounts, &flow, &callback).await),
            "cat@corp.example"
        );
    }
}

#[tokio::test]
async fn oidc_provider_refuses_a_wrong_secret() {
    let (_peer, issuer) = oidc_provider(["RS256", "client_secret_basic", "token"]);
    let rig = Rig::with_provider(settings(&issuer, "wrong")).await;
    let (flow, callback) = away(rig.accounts(), &mut Browser::default(), "cat").await;
    let refused = back(rig.accounts(), &flow, &callback).await.unwrap_err();
    assert_eq!(refused, "Example returned an unexpected answer: try again later");
}
