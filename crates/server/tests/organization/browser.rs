//! A browser without script: it keeps cookies, sends the forms of pages, and follows no redirect by itself.

use std::{collections::BTreeMap, sync::Mutex};

use sortie_testkit::{
    Answer, Bytes, Client,
    http::{HeaderValue, Method},
};

use crate::rig::Rig;

pub(crate) struct Browser<'a> {
    rig: &'a Rig,
    cookies: Mutex<BTreeMap<String, String>>,
}

/// Text in the form of a query.
pub(crate) fn encoded(pairs: &[(&str, &str)]) -> String {
    url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs(pairs)
        .finish()
}

/// Parameters of the query of an address.
pub(crate) fn query_of(address: &str) -> BTreeMap<String, String> {
    let url: url::Url = address.parse().unwrap();
    url.query_pairs().into_owned().collect()
}

/// Value of the hidden field `form` of the form that leads to `action`.
pub(crate) fn form_token(page: &Answer, action: &str) -> String {
    let text = page.text();
    let form = text
        .split("<form")
        .find(|form| form.contains(&format!("action=\"{action}\"")));
    let form = form.unwrap_or_else(|| panic!("no form to {action}: {text}"));
    let (_, value) = form.split_once("name=\"form\" value=\"").unwrap();
    value.split('"').next().unwrap().to_owned()
}

impl<'a> Browser<'a> {
    /// A browser that nobody is signed in with.
    pub(crate) fn new(rig: &'a Rig) -> Self {
        Self {
            rig,
            cookies: Mutex::default(),
        }
    }

    /// A browser with a session.
    pub(crate) fn signed_in(rig: &'a Rig, token: &str) -> Self {
        let browser = Self::new(rig);
        browser.set("sortie", token);
        browser
    }

    pub(crate) fn set(&self, name: &str, value: &str) {
        self.cookies
            .lock()
            .unwrap()
            .insert(name.to_owned(), value.to_owned());
    }

    pub(crate) fn cookie(&self, name: &str) -> Option<String> {
        self.cookies.lock().unwrap().get(name).cloned()
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, None, Bytes::new()).await
    }

    /// Sends a form as a page of this origin does.
    pub(crate) async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        self.post_from(Some(&self.rig.org_url), path, fields).await
    }

    /// Sends a form as a page of another origin does.
    pub(crate) async fn post_from(
        &self,
        origin: Option<&str>,
        path: &str,
        fields: &[(&str, &str)],
    ) -> Answer {
        self.send(Method::POST, path, origin, encoded(fields).into())
            .await
    }

    async fn send(&self, method: Method, path: &str, origin: Option<&str>, body: Bytes) -> Answer {
        let mut client = Client::new(self.rig.address, None);
        let cookies: Vec<_> = self
            .cookies
            .lock()
            .unwrap()
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        if !cookies.is_empty() {
            client = client.with_header("cookie", HeaderValue::try_from(cookies.join("; ")).unwrap());
        }
        if let Some(origin) = origin {
            client = client.with_header("origin", HeaderValue::try_from(origin).unwrap());
        }
        let form = HeaderValue::from_static("application/x-www-form-urlencoded");
        let client = client.with_header("content-type", form);
        let answer = client.send(method, path, body).await.unwrap();
        for cookie in answer.headers.get_all("set-cookie") {
            let (name, rest) = cookie.to_str().unwrap().split_once('=').unwrap();
            let value = rest.split(';').next().unwrap();
            if value.is_empty() {
                self.cookies.lock().unwrap().remove(name);
            } else {
                self.set(name, value);
            }
        }
        answer
    }
}
