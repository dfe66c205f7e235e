//! Caller of a command of the engine.

use sortie_api::{AuditId, OrgId};
use sortie_store::access::{Actor, Audit};

use crate::{error::Error, kit::random::random};
use sortie_base::Clock;

/// Organization and author of a command.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The organization.
    pub org: OrgId,
    /// Author, for the audit log and for runs that the command starts.
    pub actor: Actor,
}

impl Caller {
    /// Makes the entry of the audit log for a change that happens now: `action` as `resource.verb`, `target` a name or an
    /// id.
    pub(crate) fn audit(
        &self,
        clock: &Clock,
        action: &'static str,
        target: impl Into<String>,
    ) -> Result<Audit, Error> {
        let at = clock.now();
        Ok(Audit {
            id: AuditId::new(at, random()?),
            org: self.org,
            at,
            actor: self.actor.clone(),
            action,
            target: target.into(),
        })
    }
}
