//! Errors of the OAuth protocol (RFC 6749, RFC 7591, RFC 8707).

/// Error returned to a client, with a text for its developer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OauthError {
    /// Machine-readable name of the error.
    pub code: OauthErrorCode,
    /// Parameter and the rule that it breaks.
    pub description: String,
}

/// Name of an OAuth error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OauthErrorCode {
    /// A parameter is missing, repeated or malformed.
    InvalidRequest,
    /// The client is unknown, or its secret is wrong.
    InvalidClient,
    /// The code or refresh token is unknown, was used, has expired, or belongs to another client.
    InvalidGrant,
    /// The server issues no tokens this way.
    UnsupportedGrantType,
    /// The server knows no response of this type.
    UnsupportedResponseType,
    /// The scope is unknown, or differs from the granted one.
    InvalidScope,
    /// The server issues no tokens for this resource.
    InvalidTarget,
    /// The person has refused.
    AccessDenied,
    /// A redirect URI of the client breaks a rule.
    InvalidRedirectUri,
    /// The metadata of the client breaks a rule.
    InvalidClientMetadata,
}

impl OauthErrorCode {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidRequest => "invalid_request",
            Self::InvalidClient => "invalid_client",
            Self::InvalidGrant => "invalid_grant",
            Self::UnsupportedGrantType => "unsupported_grant_type",
            Self::UnsupportedResponseType => "unsupported_response_type",
            Self::InvalidScope => "invalid_scope",
            Self::InvalidTarget => "invalid_target",
            Self::AccessDenied => "access_denied",
            Self::InvalidRedirectUri => "invalid_redirect_uri",
            Self::InvalidClientMetadata => "invalid_client_metadata",
        }
    }

    /// Makes the error with a text.
    pub fn because(self, description: impl Into<String>) -> OauthError {
        OauthError {
            code: self,
            description: description.into(),
        }
    }
}
