//! Tokens for one run (`docs/BROWSER.md#run-tokens`): a browser follows a run with one, and needs no API key.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    id::RunId,
    limits,
    object::{list, objects},
    time::Timestamp,
};

objects!(CreateRunToken);

/// Permission of a run token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunPermission {
    /// Read the run, its events and its artifacts.
    Read,
    /// Cancel the run.
    Cancel,
}

/// Body of `POST /v1/runs/{id}/tokens`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct CreateRunToken {
    /// Time for which the token is valid, in seconds.
    #[schema(minimum = 1, maximum = 86_400, example = 3_600)]
    pub ttl_seconds: i64,
    /// Permissions of the token. Default: `["read"]`.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "list::<_, _, { limits::RUN_PERMISSIONS }>"
    )]
    #[schema(nullable = false, min_items = 1, max_items = 2)]
    pub may: Option<Vec<RunPermission>>,
}

/// Answer of `POST /v1/runs/{id}/tokens`: the only time the token is shown.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct CreatedRunToken {
    /// The token, a bearer credential.
    #[schema(example = "stt_…")]
    pub token: String,
    /// ID of the run.
    pub run_id: RunId,
    /// Permissions of the token.
    pub may: Vec<RunPermission>,
    /// Time at which it expires. It ends earlier if the API key that made it is revoked.
    pub expires_at: Timestamp,
}
