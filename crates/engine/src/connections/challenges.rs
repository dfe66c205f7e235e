//! Challenges of servers that require another authorization than a connection has. They are sealed and kept for the next
//! authorization.

use sortie_api::{ConnectionId, ConnectionStatus, Credential, OrgId, Refusal, connection::AuthType};
use sortie_connect::{Failure, OpenError, oauth::Challenge};
use sortie_store::connections::ConnectionRow;

use super::{Connections, addressed::Address, definition_of, flow::challenge_at};

impl Connections {
    /// Stores the challenge to a token. If the challenge asks for more scopes, the connection needs to be authorized again. A
    /// failure is only logged, so that it does not fail the call that was challenged.
    pub(super) async fn challenged(
        &self,
        (org, id): (OrgId, ConnectionId),
        address: &Address,
        refused: &Credential,
        challenge: Challenge,
    ) {
        if let Err(error) = self.keep_challenge((org, id), address, refused, challenge).await {
            tracing::warn!(connection = %id, %error, "keeping the challenge of a server failed");
        }
    }

    async fn keep_challenge(
        &self,
        (org, id): (OrgId, ConnectionId),
        address: &Address,
        refused: &Credential,
        challenge: Challenge,
    ) -> Result<(), Refusal> {
        let row = match self.0.store.connection_by_id(org, id).await {
            Err(sortie_store::Error::NotFound) => return Ok(()),
            row => row?,
        };
        // Ignores a challenge of a server that the connection does not point to by now.
        if Address::of_row(&row)? != *address {
            return Ok(());
        }
        // A challenge to an older token says nothing about the current tokens, which may come from a later authorization.
        if let Some(sealed) = &row.tokens
            && self.tokens_of(org, &row, sealed)?.grant.access_token != *refused
        {
            return Ok(());
        }
        let wants_scope = challenge.wants_scope();
        let earlier = self.challenge_of(org, &row).unwrap_or_default();
        let challenge = challenge.over(earlier.clone());
        let is_known =
            (&challenge.scope, &challenge.resource_metadata) == (&earlier.scope, &earlier.resource_metadata);
        if is_known && (!wants_scope || row.status == ConnectionStatus::NeedsAuthorization) {
            return Ok(());
        }
        let reason = wants_scope.then(|| {
            let wanted = match &challenge.scope {
                Some(scope) => format!("the scope `{scope}`"),
                None => "more scopes than were granted".to_owned(),
            };
            format!(
                "the server requires {wanted}: authorize the connection again (`sortie connections authorize {}`)",
                row.name
            )
        });
        let row_id = id.to_string();
        let sealed = self
            .seal_for(challenge_at(&row_id, org), address, &challenge)
            .await?;
        let seen = row.seen(org);
        self.0
            .store
            .keep_challenge(seen, row.revision, sealed, reason)
            .await?;
        Ok(())
    }

    /// Returns the challenge since the last authorization. A challenge that cannot be opened is ignored, so that it does not
    /// prevent another authorization.
    pub(super) fn challenge_of(&self, org: OrgId, row: &ConnectionRow) -> Option<Challenge> {
        let sealed = row.challenge.as_deref()?;
        let opened = Address::of_row(row)
            .and_then(|address| self.open_for(challenge_at(&row.id.to_string(), org), &address, sealed));
        match opened {
            Ok(challenge) => Some(challenge),
            Err(error) => {
                tracing::warn!(%error, connection = %row.id, "cannot open the challenge of a connection; treating it as absent");
                None
            }
        }
    }

    /// Records that a run could not open a saved connection because it lacks an authorization, unless it has been authorized
    /// since.
    pub(super) async fn record_unauthorized(&self, org: OrgId, row: &ConnectionRow, error: &OpenError) {
        let Failure::NeedsAuthorization(why) = &error.failure else {
            return;
        };
        let recorded = async {
            // Only OAuth waits for a person: the credentials of other methods may work the next time.
            if definition_of(row)?.auth_type() == AuthType::OAuth {
                let (seen, status) = (row.seen(org), ConnectionStatus::NeedsAuthorization);
                let why = Some(why.clone());
                self.0
                    .store
                    .set_connection_status(seen, row.revision, status, why)
                    .await?;
            }
            Ok::<_, Refusal>(())
        };
        if let Err(error) = recorded.await {
            tracing::warn!(connection = %row.id, %error, "recording the status of a connection failed");
        }
    }
}
