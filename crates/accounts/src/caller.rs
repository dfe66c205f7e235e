//! Author of a command on accounts.

use sortie_api::{AuditId, OrgId};
use sortie_base::{Clock, random};
use sortie_store::access::{Actor, Audit};

use crate::Result;

/// Author of a command, for the audit log.
#[derive(Clone, Debug)]
pub struct Author {
    /// Credential, person, address and request of the author.
    pub actor: Actor,
}

impl Author {
    /// Makes the entry of the audit log of `org` for a change that happens now: `action` as `resource.verb`, `target` a
    /// name or an id.
    pub(crate) fn audit(
        &self,
        clock: &Clock,
        org: OrgId,
        action: &'static str,
        target: impl Into<String>,
    ) -> Result<Audit> {
        let at = clock.now();
        Ok(Audit {
            id: AuditId::new(at, random()?),
            org,
            at,
            actor: self.actor.clone(),
            action,
            target: target.into(),
        })
    }
}
