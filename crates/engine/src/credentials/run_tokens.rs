//! Tokens for one run. No row is stored: a token carries its run, the API key that made it, its expiry and its permissions, with
//! an HMAC-SHA256 of them, truncated to 128 bits. The key of the HMAC belongs to the installation, so every node accepts a token
//! and no other installation does. A token ends with the API key that made it.

use std::time::Duration;

use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use sortie_api::{
    ErrorCode, KeyId, Refusal, RunId, Timestamp, limits,
    run_token::{CreateRunToken, CreatedRunToken, RunPermission},
    secret::{Presented, RUN_TOKEN, signed_text},
};
use sortie_store::access::{Caller, Principal};

use crate::Engine;

/// Purpose of the key that tokens are signed with.
const PURPOSE: &[u8] = b"sortie tokens of runs";
const GRANT_LEN: usize = 16 + 16 + 8 + 1;
const SEAL_LEN: usize = 16;

/// Content of a run token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RunGrant {
    /// The run.
    pub run: RunId,
    /// The API key that made the token.
    pub key: KeyId,
    /// Time at which the token expires.
    pub until: Timestamp,
    /// Bit set of [`RunPermission`].
    permissions: u8,
}

impl RunGrant {
    /// Whether the token permits this.
    ///
    /// `permission` is a [`RunPermission`] as a number, as constants of types need it.
    pub const fn permits(self, permission: u8) -> bool {
        self.permissions & bit(permission) != 0
    }

    fn to_bytes(self) -> [u8; GRANT_LEN] {
        let mut bytes = [0; GRANT_LEN];
        let parts = self
            .run
            .to_bytes()
            .into_iter()
            .chain(self.key.to_bytes())
            .chain(self.until.as_micros().to_be_bytes())
            .chain([self.permissions]);
        for (byte, part) in bytes.iter_mut().zip(parts) {
            *byte = part;
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (run, rest) = bytes.split_first_chunk()?;
        let (key, rest) = rest.split_first_chunk()?;
        let (until, rest) = rest.split_first_chunk()?;
        Some(Self {
            run: RunId::from_bytes(*run),
            key: KeyId::from_bytes(*key),
            until: Timestamp::from_micros(i64::from_be_bytes(*until)),
            permissions: *rest.first()?,
        })
    }
}

const fn bit(permission: u8) -> u8 {
    1 << permission
}

impl Engine {
    /// Makes a token for a run of the caller.
    ///
    /// # Errors
    /// 400 for a time or permissions that are not possible, 403 for a caller without an API key, 404 for an unknown run.
    pub async fn create_run_token(
        &self,
        who: &Caller,
        run: RunId,
        request: CreateRunToken,
    ) -> Result<CreatedRunToken, Refusal> {
        let ttl = request.ttl_seconds;
        if !(1..=limits::RUN_TOKEN_SECONDS).contains(&ttl) {
            let most = limits::RUN_TOKEN_SECONDS;
            return Err(ErrorCode::InvalidRequest.because(format!("ttl_seconds: must be 1 to {most}")));
        }
        let may = request.may.unwrap_or_else(|| vec![RunPermission::Read]);
        let permissions = may
            .iter()
            .fold(0, |bits, permission| bits | bit(*permission as u8));
        if may.is_empty() || usize::try_from(permissions.count_ones()) != Ok(may.len()) {
            return Err(ErrorCode::InvalidRequest.because("may: must have 1 or 2 entries, none twice"));
        }
        let Some(key) = who.actor.key() else {
            return Err(ErrorCode::Forbidden.because("this needs an API key, with which the token ends"));
        };
        // An unknown run has no token.
        self.look_at_run(who.org, run, Duration::ZERO).await?;
        let until = Timestamp::from_micros(self.clock().now().as_micros() + ttl * 1_000_000);
        let grant = RunGrant {
            run,
            key,
            until,
            permissions,
        };
        let mut content = grant.to_bytes().to_vec();
        let seal = self.run_token_seal(&content).finalize().into_bytes();
        content.extend(seal.iter().take(SEAL_LEN));
        Ok(CreatedRunToken {
            token: signed_text(RUN_TOKEN, &content),
            run_id: run,
            may,
            expires_at: until,
        })
    }

    /// Returns the content of a run token, and the principal of the API key that made it. `None` if the credential is no run
    /// token, is forged or has expired, or if the key is revoked or expired.
    pub async fn authenticate_run_token(
        &self,
        credential: Presented<'_>,
    ) -> Result<Option<(RunGrant, Principal)>, Refusal> {
        let Some(content) = credential.signed_content::<{ GRANT_LEN + SEAL_LEN }>(RUN_TOKEN) else {
            return Ok(None);
        };
        let (grant, seal) = content.split_at(GRANT_LEN);
        if self.run_token_seal(grant).verify_truncated_left(seal).is_err() {
            return Ok(None);
        }
        let Some(grant) = RunGrant::from_bytes(grant) else {
            return Ok(None);
        };
        let principal = self.run_token_principal(grant).await?;
        Ok(principal.map(|principal| (grant, principal)))
    }

    /// Returns the principal of the API key that made a token, if both still work.
    pub async fn run_token_principal(&self, grant: RunGrant) -> Result<Option<Principal>, Refusal> {
        if grant.until <= self.clock().now() {
            return Ok(None);
        }
        self.0.stores.principals.authenticate_key(grant.key).await
    }

    fn run_token_seal(&self, grant: &[u8]) -> Hmac<Sha256> {
        self.installation_key(PURPOSE).chain_update(grant)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_grant_is_read_back(run: [u8; 16], key: [u8; 16], until: i64, permissions: u8) {
            let grant = RunGrant {
                run: RunId::from_bytes(run),
                key: KeyId::from_bytes(key),
                until: Timestamp::from_micros(until),
                permissions,
            };
            prop_assert_eq!(RunGrant::from_bytes(&grant.to_bytes()), Some(grant));
            for permission in [RunPermission::Read, RunPermission::Cancel] {
                prop_assert_eq!(grant.permits(permission as u8), permissions & bit(permission as u8) != 0);
            }
        }
    }

    #[test]
    fn less_than_a_grant_is_none() {
        for length in 0..GRANT_LEN {
            assert_eq!(RunGrant::from_bytes(&vec![0; length]), None, "{length}");
        }
    }
}
