//! Endpoints of the OAuth 2.1 server on the organization listener, and the grants of a person.
//!
//! The page where a person decides is in [`pages`](crate::pages).

mod cross_origin;
pub(crate) mod endpoints;
pub(crate) mod grants;

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use http::request::Parts;
use sortie_accounts::Author;
use sortie_base::network;

pub(crate) use cross_origin::{preflight, write_cross_origin};

use crate::kit::{RequestOrigin, actor};

/// Client of a public endpoint: no credential of a person is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Visitor {
    /// Author of changes, for the audit log.
    pub(crate) author: Author,
    /// Network that attempts are counted by.
    pub(crate) network: String,
}

impl<S: Send + Sync> FromRequestParts<S> for Visitor {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        let origin = parts.extensions.get::<RequestOrigin>();
        Ok(Self {
            network: origin.map_or_else(String::new, |origin| network(origin.address).to_string()),
            author: Author {
                actor: actor(parts, None, None),
            },
        })
    }
}
