//! Sign-in of a browser at the console (`docs/API.md#sessions-of-the-console`).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    credential::Credential, id::SessionId, object::read_objects, organization::Mode, time::Timestamp,
};

read_objects!(BeginConsoleSession);

/// Answer of `GET /v1/console`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ConsoleInfo {
    /// Version of the engine.
    #[schema(example = "1.0.0")]
    pub version: String,
    /// The deployment mode.
    pub mode: Mode,
    /// Path of the page where people sign in; absent if every sign-in needs a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "/sign-in")]
    pub sign_in_url: Option<String>,
}

/// Body of `POST /v1/console/sessions`: a key or a code.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct BeginConsoleSession {
    /// API key of the engine.
    #[schema(value_type = Option<String>, nullable = false, example = "sts_…")]
    pub key: Option<Credential>,
    /// Code of `POST /v1/console/codes`.
    #[schema(value_type = Option<String>, nullable = false, example = "stl_…")]
    pub code: Option<Credential>,
}

/// Session of a browser. Its token is in the cookie only.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ConsoleSession {
    /// ID of the session.
    pub id: SessionId,
    /// End of the session. A session of an API key that is used ends later, at most seven days after the sign-in.
    pub expires_at: Timestamp,
}

/// Answer of `POST /v1/console/sessions`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct BegunConsoleSession {
    /// ID of the session.
    pub id: SessionId,
}

/// Answer of `POST /v1/console/codes`.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct CreatedConsoleCode {
    /// Code that begins one session with the role of the key.
    #[schema(example = "stl_…")]
    pub code: String,
    /// Time at which the code stops working.
    pub expires_at: Timestamp,
}
