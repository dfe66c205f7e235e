//! Test browser for the organization API of a rig. A request without an answer fails the test.

use std::{collections::BTreeMap, net::SocketAddr};

use sortie_testkit::browser;

use crate::prelude::*;

pub(crate) use sortie_testkit::browser::encoded;

pub(crate) struct Browser(browser::Browser);

/// Parameters of the query of an address.
pub(crate) fn query_of(address: &str) -> BTreeMap<String, String> {
    browser::query_of(address).unwrap()
}

/// Value of the hidden field `form` of the form that leads to `action`.
pub(crate) fn form_token(page: &Answer, action: &str) -> String {
    browser::form_token(page, action).unwrap()
}

impl Browser {
    /// A browser without a signed-in person.
    pub(crate) fn new(rig: &Rig) -> Self {
        Self::at(rig.address, &rig.org_url)
    }

    /// A browser for the pages of a server with this origin.
    pub(crate) fn at(address: SocketAddr, origin: &str) -> Self {
        Self(browser::Browser::new(address, origin))
    }

    /// A browser with a session.
    pub(crate) fn signed_in(rig: &Rig, token: &str) -> Self {
        Self(browser::Browser::signed_in(rig.address, &rig.org_url, token))
    }

    pub(crate) fn set(&self, name: &str, value: &str) {
        self.0.set(name, value);
    }

    pub(crate) fn cookie(&self, name: &str) -> Option<String> {
        self.0.cookie(name)
    }

    /// Token of the session, if the browser is signed in.
    pub(crate) fn session(&self) -> Option<String> {
        self.0.session().map(|(_, token)| token)
    }

    /// Header with the cookie of the session.
    pub(crate) fn session_cookie(&self) -> String {
        let (name, token) = self.0.session().unwrap();
        format!("{name}={token}")
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.0.get(path).await.unwrap()
    }

    /// Sends a form as a page of this origin does.
    pub(crate) async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        self.0.post(path, fields).await.unwrap()
    }

    /// Sends a form as a page of another origin does.
    pub(crate) async fn post_from(
        &self,
        origin: Option<&str>,
        path: &str,
        fields: &[(&str, &str)],
    ) -> Answer {
        self.0.post_from(origin, path, fields).await.unwrap()
    }
}
