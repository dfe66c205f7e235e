//! Foundations of every handler: extractors that answer in our error format, the roles, and the error itself.
//!
//! Handlers read their input only through these: `axum`'s own `Json`, `Query` and `Path` answer in plain text and are forbidden
//! by lint. Every handler has [`Member`], [`Admin`] or an entry among the public routes.

mod body_budget;
mod challenge;
mod client_address;
mod cookies;
mod credential_throttle;
mod credential_watch;
mod cursor;
mod deprecation;
mod download;
mod error;
mod held_answer;
mod json;
mod json_text;
mod large_texts;
mod multipart;
mod page;
mod path;
mod pieces;
mod query;
mod rate_limit;
mod request_id;
mod same_origin;
mod small_body;
mod unread_body;
mod who;

pub(crate) use body_budget::{AnswerRoom, BodyBudget, crowded};
pub(crate) use challenge::{Challenges, LacksScope};
pub(crate) use client_address::TrustedProxies;
pub(crate) use cookies::{SameSite, SessionCookie, Transport};
pub(crate) use credential_throttle::{CredentialThrottle, Token};
pub(crate) use credential_watch::{CredentialWatch, Opener, Watched, over};
pub(crate) use cursor::{Cursors, ListCursors};
pub use deprecation::Deprecation;
pub(crate) use deprecation::DeprecationHeaders;
pub(crate) use download::{CROSS_ORIGIN_RESOURCE_POLICY, Offered, Wanted, has_tag};
pub(crate) use error::{
    ApiError, ApiResult, Fault, error_response, method_not_allowed, range_not_satisfiable, rate_limited,
    too_large,
};
pub(crate) use held_answer::{Once, Uncounted, hold};
pub(crate) use json::{
    Json, JsonBody, JsonBytes, check_encoding, check_object, is_json, json_response, parse_object,
    shared_document, shown_once, value_bytes,
};
pub(crate) use large_texts::{LargeTexts, OpenText, TextForm};
pub(crate) use multipart::{Form, Part};
pub(crate) use page::PageQuery;
pub(crate) use path::{Below, Inner, Path};
#[cfg(test)]
pub(crate) use pieces::ANSWER_BYTES;
pub(crate) use pieces::{PIECE_BYTES, PieceWriter, Pieces};
pub(crate) use query::{FromQuery, Pairs, Query, integer};
pub(crate) use rate_limit::{Counting, Quota, RateLimits, Standing, WINDOW_SECONDS};
pub(crate) use request_id::{RequestIds, X_REQUEST_ID};
pub(crate) use same_origin::OwnOrigin;
pub(crate) use small_body::{is_form, is_of_type, small_body};
pub(crate) use unread_body::{LeavesBody, UnreadBody};
pub(crate) use who::{
    Admin, AtLeast, Credential, Member, OfRun, Owner, RunCanceller, RunReader, actor, bearer,
};
