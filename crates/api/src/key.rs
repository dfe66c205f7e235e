//! API keys in the administration of a self-hosted engine.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{id::KeyId, object::objects, organization::Role, time::Timestamp};

/// An API key without its secret, which is shown once and never stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApiKey {
    /// ID of the key.
    pub id: KeyId,
    /// Name of the key: its purpose, for people.
    #[schema(example = "deploy pipeline")]
    pub name: String,
    /// Role of the key.
    pub role: Role,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time at which the key expires; absent for a key that does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub expires_at: Option<Timestamp>,
    /// Time at which the previous secret stops working; absent if the key was never rotated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub previous_until: Option<Timestamp>,
    /// Start of the hour in which the key was last used; absent for a key that never was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub last_used_at: Option<Timestamp>,
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
    /// Name of the key: its purpose, for people. 1 to 200 characters after trimming, without control and invisible characters.
    #[schema(
        min_length = 1,
        max_length = 200,
        pattern = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$",
        example = "deploy pipeline"
    )]
    pub name: String,
    /// `member` (the default) or `admin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(schema_with = key_role)]
    pub role: Option<Role>,
    /// Time at which the key expires; must be in the future. Absent: the key works until it is revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub expires_at: Option<Timestamp>,
}

/// Body of `POST /v1/admin/keys/{id}/rotate`.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct RotateKey {
    /// Time for which the previous secret still works, in seconds: 0 to 604800. Default: 3600.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 0, maximum = 604_800, default = 3600)]
    pub grace_seconds: Option<i64>,
}

/// Answer of `POST /v1/admin/keys` and of a rotation: the only time the secret is shown.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct CreatedKey {
    /// ID of the key.
    pub id: KeyId,
    /// Name of the key: its purpose, for people.
    pub name: String,
    /// Role of the key.
    pub role: Role,
    /// The secret to send as `Authorization: Bearer`.
    #[schema(example = "sts_…")]
    pub key: String,
    /// Time at which the key expires; absent for a key that does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub expires_at: Option<Timestamp>,
    /// After a rotation: time until which the previous secret works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub previous_until: Option<Timestamp>,
}
