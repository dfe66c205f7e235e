//! A browser without scripts: it keeps cookies, sends the forms of pages, and does not follow redirects automatically.

use std::{collections::BTreeMap, net::SocketAddr};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http::Method;
use parking_lot::{Mutex, MutexGuard};
use sortie_api::secret::SESSION_TOKEN;

use crate::{Answer, Client};

/// Content type of a form that a page sends.
pub const FORM: &str = "application/x-www-form-urlencoded";

/// Name of the cookie of a session on a loopback address.
const SESSION: &str = "sortie";

/// A browser at one address of the organization API.
#[derive(Debug)]
pub struct Browser {
    address: SocketAddr,
    origin: String,
    cookies: Mutex<BTreeMap<String, String>>,
}

/// Text in the form of a query.
pub fn encoded(pairs: &[(&str, &str)]) -> String {
    url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(pairs)
        .finish()
}

/// Parameters of the query of an address.
pub fn query_of(address: &str) -> Result<BTreeMap<String, String>> {
    let url: url::Url = address
        .parse()
        .with_context(|| format!("{address} is no address"))?;
    Ok(url.query_pairs().into_owned().collect())
}

/// Value of the hidden field `form` of the form that is sent to `action`.
pub fn form_token(page: &Answer, action: &str) -> Result<String> {
    let text = page.text();
    let field = text
        .split("<form")
        .find(|form| form.contains(&format!("action=\"{action}\"")))
        .and_then(|form| form.split_once("name=\"form\" value=\""));
    let (_, value) = field.with_context(|| format!("no form to {action}: {text}"))?;
    Ok(value.split('"').next().unwrap_or_default().to_owned())
}

impl Browser {
    /// A signed-out browser. `origin` is the address of the organization API as its pages know it.
    pub fn new(address: SocketAddr, origin: &str) -> Self {
        Self {
            address,
            origin: origin.to_owned(),
            cookies: Mutex::default(),
        }
    }

    /// A browser with the token of a session.
    pub fn signed_in(address: SocketAddr, origin: &str, token: &str) -> Self {
        let browser = Self::new(address, origin);
        browser.set(SESSION, token);
        browser
    }

    fn cookies(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.cookies.lock()
    }

    /// Sets a cookie.
    pub fn set(&self, name: &str, value: &str) {
        self.cookies().insert(name.to_owned(), value.to_owned());
    }

    /// Value of a cookie.
    pub fn cookie(&self, name: &str) -> Option<String> {
        self.cookies().get(name).cloned()
    }

    /// Name and value of the cookie of a session.
    pub fn session(&self) -> Option<(String, String)> {
        let cookies = self.cookies();
        let mut sessions = cookies
            .iter()
            .filter(|(_, value)| value.starts_with(SESSION_TOKEN));
        sessions.next().map(|(name, value)| (name.clone(), value.clone()))
    }

    /// Opens a page.
    pub async fn get(&self, path: &str) -> Result<Answer> {
        self.send(Method::GET, path, None, Bytes::new()).await
    }

    /// Sends a form as a page of this origin does.
    pub async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Result<Answer> {
        self.post_from(Some(&self.origin), path, fields).await
    }

    /// Sends a form as a page of another origin does.
    pub async fn post_from(
        &self,
        origin: Option<&str>,
        path: &str,
        fields: &[(&str, &str)],
    ) -> Result<Answer> {
        self.send(Method::POST, path, origin, encoded(fields).into())
            .await
    }

    async fn send(&self, method: Method, path: &str, origin: Option<&str>, body: Bytes) -> Result<Answer> {
        let mut client = Client::new(self.address, None);
        let cookies: Vec<_> = self
            .cookies()
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        if !cookies.is_empty() {
            client = client.with_header("cookie", cookies.join("; "));
        }
        if let Some(origin) = origin {
            client = client.with_header("origin", origin);
        }
        let client = client.with_header("content-type", FORM);
        let answer = client.send(method, path, body).await?;
        for cookie in answer.headers.get_all("set-cookie") {
            let (name, rest) = cookie.to_str()?.split_once('=').context("a cookie without =")?;
            let value = rest.split(';').next().unwrap_or_default();
            if value.is_empty() {
                self.cookies().remove(name);
            } else {
                self.set(name, value);
            }
        }
        Ok(answer)
    }
}
