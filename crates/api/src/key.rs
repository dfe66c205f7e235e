//! API keys as a self-hosted engine administers them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{id::KeyId, object::objects, organization::Role, request::present, time::Timestamp};

/// An API key without its secret, which is shown once and never stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApiKey {
    /// The key's id.
    pub id: KeyId,
    /// What it is for.
    #[schema(example = "deploy pipeline")]
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// When it was made.
    pub created_at: Timestamp,
}

/// The roles a key may have: an owner is a person.
fn key_role() -> utoipa::openapi::schema::Object {
    utoipa::openapi::ObjectBuilder::new()
        .schema_type(utoipa::openapi::schema::Type::String)
        .enum_values(Some(["member", "admin"]))
        .description(Some("`member` (the default) or `admin`."))
        .build()
}

objects!(CreateKey);

/// Body of `POST /v1/admin/keys`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct CreateKey {
    /// What it is for; 1 to 200 characters after trimming, without control characters.
    #[schema(
        min_length = 1,
        max_length = 200,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$",
        example = "deploy pipeline"
    )]
    pub name: String,
    /// `member` (the default) or `admin`.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(schema_with = key_role)]
    pub role: Option<Role>,
}

/// Answer of `POST /v1/admin/keys`: the only time the secret is shown.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct CreatedKey {
    /// The key's id.
    pub id: KeyId,
    /// What it is for.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// The secret to send as `Authorization: Bearer`.
    #[schema(example = "sts_…")]
    pub key: String,
}
