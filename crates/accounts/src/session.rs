//! Look-up of sessions.

use sortie_api::secret::{SESSION_TOKEN, Secret};
use sortie_store::SignedIn;

use crate::{Accounts, Result};

impl Accounts {
    /// Finds the person behind the token of a session. None where the token is malformed or unknown, or where the session
    /// has ended.
    pub async fn session(&self, token: &str) -> Result<Option<SignedIn>> {
        let Ok(secret) = Secret::parse(SESSION_TOKEN, token) else {
            return Ok(None);
        };
        let found = self.0.store.find_session(secret.hash()).await?;
        Ok(found.filter(|person| self.0.options.clock.now() < person.until))
    }
}
