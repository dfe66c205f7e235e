//! On whose behalf something is done.

use sortie_api::{AuditId, OrgId, ScheduleId};
use sortie_store::{Actor, Audit};

use crate::{
    error::Error,
    kit::clock::{Clock, random},
};

/// Who asks: the organization, and what stands in the audit log and on the runs that are started.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The organization.
    pub org: OrgId,
    /// The key, the address and the request.
    pub actor: Actor,
    /// The schedule that acts for itself.
    pub schedule: Option<ScheduleId>,
}

impl Caller {
    /// The entry of the audit log for what is done now: `action` as `resource.verb`, `target` a name or an id.
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
