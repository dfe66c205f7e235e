//! Access to the operations of the API: the API of an operation, the role that it needs, and the deployment modes that have
//! it.
//!
//! [`routes`](crate::routes) lists every operation with its access, and makes both the router and the description from
//! that list. The extractors of the handlers ([`Member`](crate::kit::Member), [`Admin`](crate::kit::Admin)) check the role. A
//! test calls every operation as every kind of caller and compares the answer with this list.

/// Access to one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Name of the operation: `operationId` in the description.
    pub operation: &'static str,
    /// API that has the operation.
    pub api: Api,
    /// Role that a caller needs.
    pub role: RequiredRole,
    /// Deployment modes that have the operation.
    pub modes: Modes,
}

/// API of a deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// Runs and their resources.
    Engine,
    /// People, organizations and payments of a hosted deployment.
    Organization,
}

/// Role that an operation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequiredRole {
    /// No role: the operation is public.
    Public,
    /// A person who is signed in.
    SignedIn,
    /// Member, admin or owner of the organization.
    Member,
    /// Admin or owner of the organization.
    Admin,
    /// Owner of the organization.
    Owner,
    /// Operator of the installation.
    Operator,
    /// No role: the operation verifies a signature of the request.
    Signature,
}

/// Deployment modes that have an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modes {
    /// Every mode.
    All,
    /// Self-hosted engines only. A hosted engine answers 404 with this message.
    SelfHosted(&'static str),
}

impl Access {
    /// The `security` of the operation in the description (`OpenAPI` 3.1, "Security Requirement Object"). The roles of
    /// the organization API get their security scheme with that API.
    pub(crate) fn security(self) -> serde_json::Value {
        let scope = match self.role {
            RequiredRole::Public | RequiredRole::Signature => return serde_json::json!([]),
            RequiredRole::SignedIn => "signed_in",
            RequiredRole::Member => "member",
            RequiredRole::Admin => "admin",
            RequiredRole::Owner => "owner",
            RequiredRole::Operator => "operator",
        };
        serde_json::json!([{"api_key": [scope]}])
    }
}
