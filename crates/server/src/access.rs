//! Access to the operations of the API: the API of each operation, the role it needs, and the deployment modes that have it.
//!
//! [`routes`](crate::routes) and [`org`](crate::org) list every operation with its access; router and description are generated
//! from the lists. The extractors of the handlers (such as [`Member`](crate::kit::Member)) check the role. A test calls every
//! operation as every kind of caller and compares the answers with these lists.

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
    /// Whether members of a suspended organization can make this change. They can use every read operation of the organization
    /// API; the engine API refuses all their requests.
    pub while_suspended: bool,
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
    /// Member, admin or owner of the organization, or a token of the run that permits to read it.
    RunReader,
    /// Member, admin or owner of the organization, or a token of the run that permits to cancel it.
    RunCanceller,
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
    /// The `security` of the operation in the description (`OpenAPI` 3.1, "Security Requirement Object").
    pub(crate) fn security(self) -> serde_json::Value {
        let role = match self.role {
            RequiredRole::Public | RequiredRole::Signature => return serde_json::json!([]),
            RequiredRole::Operator => return serde_json::json!([{"operator_key": []}]),
            RequiredRole::RunReader => {
                return serde_json::json!([{"api_key": ["member"]}, {"run_token": ["read"]}]);
            }
            RequiredRole::RunCanceller => {
                return serde_json::json!([{"api_key": ["member"]}, {"run_token": ["cancel"]}]);
            }
            RequiredRole::SignedIn => "signed_in",
            RequiredRole::Member => "member",
            RequiredRole::Admin => "admin",
            RequiredRole::Owner => "owner",
        };
        match self.api {
            Api::Engine => serde_json::json!([{"api_key": [role]}]),
            Api::Organization => serde_json::json!([{"session": [role]}]),
        }
    }
}
