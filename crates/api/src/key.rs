//! API keys as a self-hosted engine administers them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    id::KeyId,
    object::{objects, present},
    organization::Role,
    time::Timestamp,
};

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
    /// When it stops working; absent where it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub expires_at: Option<Timestamp>,
    /// Until when the secret before the last rotation works, or did; absent where it was never rotated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub previous_until: Option<Timestamp>,
}

/// The roles a key may have: an owner is a person.
fn key_role() -> utoipa::openapi::schema::Object {
    utoipa::openapi::ObjectBuilder::new()
        .schema_type(utoipa::openapi::schema::Type::String)
        .enum_values(Some(["member", "admin"]))
        .description(Some("`member` (the default) or `admin`."))
        .build()
}

objects!(CreateKey RotateKey);

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
    /// When it stops working, which is in the future; without it, it works until it is revoked.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false)]
    pub expires_at: Option<Timestamp>,
}

/// Body of `POST /v1/admin/keys/{id}/rotate`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct RotateKey {
    /// How long the secret before it works on, in seconds: 0 to 604800. Default: 3600.
    #[serde(
        default,
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(nullable = false, minimum = 0, maximum = 604_800, default = 3600)]
    pub grace_seconds: Option<i64>,
}

/// Answer of `POST /v1/admin/keys` and of a rotation: the only time the secret is shown.
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
    /// When it stops working; absent where it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub expires_at: Option<Timestamp>,
    /// After a rotation: until when the secret before it works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub previous_until: Option<Timestamp>,
}
