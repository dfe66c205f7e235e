//! Grants of a person: list and end.

use sortie_api::{GrantId, UserId};
use sortie_store::{
    access::Actor,
    oauth::{EndedGrant, GrantRow},
};

use crate::{Accounts, Result};

impl Accounts {
    /// Lists the applications that act for a person.
    pub async fn grants(&self, user: UserId) -> Result<Vec<GrantRow>> {
        let now = self.0.options.clock.now();
        Ok(self.0.store.list_grants(user, now).await?)
    }

    /// Ends a grant of a person. Returns `NotFound` if the person has no such grant.
    pub async fn end_grant(&self, user: UserId, grant: GrantId, actor: &Actor) -> Result<EndedGrant> {
        let audit = self.grant_audit(actor)?;
        Ok(self.0.store.end_grant(user, grant, audit).await?)
    }
}
