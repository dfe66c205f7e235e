//! Author of a command, and the audit entries of what the command changes.

use std::{fmt, net::IpAddr};

use sortie_api::{AuditId, KeyId, OrgId, Timestamp, TraceContext, UserId};

use super::{audit::Audit, principal::By};

/// Author of a change, and the request that asked for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Actor {
    /// Credential of the request, or schedule that made the change. `None` for other tasks of the engine and for public
    /// routes.
    pub by: Option<By>,
    /// Person of the credential. `None` for a key and for the operator.
    pub user: Option<UserId>,
    /// API key of the console session. `None` for every other credential.
    pub session_key: Option<KeyId>,
    /// Client address of the request.
    pub address: Option<IpAddr>,
    /// ID of the request.
    pub request_id: Option<String>,
    /// Trace of the request.
    pub trace: Option<TraceContext>,
}

/// Organization that a command works in, and the author of the command.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Organization of the credential, or of the path of the request.
    pub org: OrgId,
    /// Author, for the audit log and for runs that the command starts.
    pub actor: Actor,
}

impl Actor {
    /// Returns the API key of the request, or of its console session. `None` for every other subject.
    pub fn key(&self) -> Option<KeyId> {
        self.by.and_then(By::key).or(self.session_key)
    }

    /// Makes the audit entry of a change in `org` at `at`: `action` as `resource.verb`, `target` a name or an id. The ID of
    /// the entry consists of the time and the `random` bytes.
    pub fn audit(
        &self,
        (at, random): (Timestamp, [u8; 10]),
        org: OrgId,
        action: &'static str,
        target: impl Into<String>,
    ) -> Audit {
        Audit {
            id: AuditId::new(at, random),
            org,
            at,
            actor: self.clone(),
            action,
            target: target.into(),
        }
    }
}

impl Caller {
    /// Makes the audit entry of a change in the organization; see [`Actor::audit`].
    pub fn audit(
        &self,
        (at, random): (Timestamp, [u8; 10]),
        action: &'static str,
        target: impl Into<String>,
    ) -> Audit {
        self.actor.audit((at, random), self.org, action, target)
    }
}

/// The subject, for the log.
impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.by {
            Some(by) => by.fmt(f),
            None => f.write_str("nobody"),
        }
    }
}
