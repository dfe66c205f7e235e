//! Endpoints of the OAuth 2.1 server on the organization listener, and the grants of a person.
//!
//! The page where a person decides is in [`pages`](crate::pages).

pub(crate) mod endpoints;
pub(crate) mod grants;
