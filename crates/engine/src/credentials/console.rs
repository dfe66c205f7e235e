//! Sessions at the console of a self-hosted engine: the sign-in with an API key or with a code, and the codes.
//!
//! A browser gets a session token for a key, so that it need not keep the key. The session acts with the role of the key.

use std::time::Duration;

use sortie_api::{
    Credential, ErrorCode, KeyId, OrgId, Refusal, SessionId,
    console::CreatedConsoleCode,
    secret::{CONSOLE_CODE, Presented, SESSION_TOKEN, Secret},
};
use sortie_store::{
    Error, Store,
    access::{Actor, KeySecret, NewConsoleCode, NewConsoleSession},
};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::{Engine, kit::random::random};
use sortie_base::Clock;

/// Time for which a code works.
const CODE: Duration = Duration::from_mins(1);

/// Interval between two deletions of ended sessions and codes.
const INTERVAL: Duration = Duration::from_hours(1);

/// Maximum number of sessions, and of codes, that one transaction deletes.
const BATCH: u32 = 1_000;

/// Proof of a sign-in at the console.
#[derive(Debug)]
pub enum ConsoleSignIn<'a> {
    /// An API key.
    Key(&'a Credential),
    /// A code of [`Engine::create_console_code`].
    Code(&'a Credential),
}

impl Engine {
    /// Begins a session at the console, and returns its token and its ID. `Unauthorized` if the key is not valid, or if the code
    /// is unknown, was used or has expired.
    pub async fn begin_console_session(
        &self,
        sign_in: ConsoleSignIn<'_>,
        actor: &Actor,
    ) -> Result<(SessionId, Secret), Refusal> {
        let token = Secret::new(SESSION_TOKEN, random()?);
        let at = self.0.options.clock.now();
        let session = NewConsoleSession {
            id: SessionId::new(at, random()?),
            hash: token.hash(),
            created_at: at,
            actor: actor.clone(),
            audit_random: random()?,
        };
        let id = session.id;
        let (begun, refusal) = match sign_in {
            ConsoleSignIn::Key(key) => (self.begin_with_key(key, session).await?, WRONG_KEY),
            ConsoleSignIn::Code(code) => {
                let code = Presented::from(code.expose().trim());
                let begun = self.store().redeem_console_code(code.hash(), session).await;
                (begun, WRONG_CODE)
            }
        };
        match begun {
            Ok(()) => Ok((id, token)),
            Err(Error::NotFound) => Err(ErrorCode::Unauthorized.because(refusal)),
            Err(error) => Err(error.into()),
        }
    }

    async fn begin_with_key(
        &self,
        key: &Credential,
        session: NewConsoleSession,
    ) -> Result<sortie_store::Result<()>, Refusal> {
        let key = Presented::from(key.expose().trim());
        let principal = self.authenticate(key).await?;
        let Some((org, id)) = principal.and_then(|found| Some((found.org, found.by.key()?))) else {
            return Ok(Err(Error::NotFound));
        };
        let secret = KeySecret {
            org,
            key: id,
            hash: key.hash(),
        };
        Ok(self.store().begin_console_session(session, secret).await)
    }

    /// Creates a code that begins one session of a key within a minute. `hash` is the SHA-256 of the secret that the caller has
    /// sent.
    pub async fn create_console_code(
        &self,
        (org, key): (OrgId, KeyId),
        hash: [u8; 32],
    ) -> Result<CreatedConsoleCode, Refusal> {
        let code = Secret::new(CONSOLE_CODE, random()?);
        let expires_at = self.0.options.clock.now() + CODE;
        let row = NewConsoleCode {
            hash: code.hash(),
            secret: KeySecret { org, key, hash },
            expires_at,
        };
        self.store().keep_console_code(row).await?;
        Ok(CreatedConsoleCode {
            code: code.expose().to_owned(),
            expires_at,
        })
    }

    /// Ends a session at the console. A session that has ended already is no error.
    pub async fn end_console_session(&self, session: SessionId) -> Result<(), Refusal> {
        match self.store().end_console_session(session).await {
            Ok(()) | Err(Error::NotFound) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Deletes sessions and codes that have ended, now and every hour, until the node stops.
pub(crate) async fn keep_deleting(store: Store, clock: Clock, stop: CancellationToken) {
    let mut tick = tokio::time::interval(INTERVAL);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            _ = tick.tick() => {}
        }
        // A wrong clock would end every session.
        if clock.fault().is_some() {
            continue;
        }
        loop {
            match store.delete_ended_console_rows(clock.now(), BATCH).await {
                Ok(0) => break,
                Ok(rows) => tracing::debug!(rows, "deleted ended sessions and codes of the console"),
                Err(error) => {
                    tracing::warn!(%error, "deleting ended sessions and codes of the console failed");
                    break;
                }
            }
        }
    }
}

const WRONG_KEY: &str = "key: unknown, expired or revoked. Use a key of this engine: the first one is in `admin.key` of its data \
                         folder, and `sortie console` on its machine signs in without one";
const WRONG_CODE: &str =
    "code: unknown, expired or used already. A code works once and for a minute: run `sortie console` again";
