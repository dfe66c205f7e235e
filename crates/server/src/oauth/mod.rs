//! Endpoints of the OAuth 2.1 server on the organization listener, and the grants of a person.
//!
//! The page where a person decides is in [`pages`](crate::pages).

mod cross_origin;
pub(crate) mod endpoints;
pub(crate) mod grants;

pub(crate) use cross_origin::{preflight, write_cross_origin};
