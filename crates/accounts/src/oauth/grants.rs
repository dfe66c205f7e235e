//! Grants of a person: list and end.

use sortie_api::{GrantId, UserId};
use sortie_store::{EndedGrant, GrantRow};

use crate::{Accounts, Author, Result};

/// Number of rows of each kind that are deleted at once.
const BATCH: u32 = 1_000;

impl Accounts {
    /// Lists the applications that act for a person.
    pub async fn grants(&self, user: UserId) -> Result<Vec<GrantRow>> {
        let now = self.0.options.clock.now();
        Ok(self.0.store.list_grants(user, now).await?)
    }

    /// Ends a grant of a person. `NotFound` where the person has no such grant.
    pub async fn end_grant(&self, user: UserId, grant: GrantId, author: &Author) -> Result<EndedGrant> {
        let audit = self.grant_audit(author)?;
        Ok(self.0.store.end_grant(user, grant, audit).await?)
    }

    /// Deletes clients, grants, codes and tokens that have ended. Returns true where there may be more.
    pub async fn delete_ended_oauth(&self) -> Result<bool> {
        let now = self.0.options.clock.now();
        let deleted = self.0.store.delete_ended_oauth(now, BATCH).await?;
        Ok(deleted >= u64::from(BATCH))
    }
}
