//! Confirmation of an authorization: runs can use tokens only after an administrator has presented the code of their page.
//!
//! The link of an authorization can be passed on, so the person who opens it need not be the one who began it. The page names the
//! organization and shows a code. The tokens stay sealed in the row of the connection until an admin key of that organization
//! presents the code, within ten minutes and five tries.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use sortie_api::{
    ConnectionStatus, Credential, ErrorCode, Refusal, Timestamp, connection::ConfirmedAuthorization, limits,
};
use sortie_connect::oauth;
use sortie_store::{
    access::Caller,
    connections::{AWAITING, Confirmed, ConnectionRow, OauthFlow},
};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::{
    Connections,
    addressed::Address,
    definition_of,
    flow::{changed, confirmation_hash, issuer_at, pending_at},
    tokens::{Held, tokens_at},
};
use crate::kit::random::random;
use sortie_base::hex;

/// Letters of a code: consonants only, so that no words appear and no letter looks like a digit (RFC 8628, section 6.1).
const LETTERS: &[u8; 20] = b"BCDFGHJKLMNPQRSTVWXZ";

/// Letters in a code: 20^8 codes against five tries.
const CODE_LETTERS: usize = 8;

/// Interval between two deletions of expired flows.
const FORGETTING: Duration = Duration::from_mins(1);

/// Tokens that wait for their confirmation, in the form that is sealed.
#[derive(Serialize, Deserialize)]
struct Returned {
    held: Held,
    code: String,
}

/// Facts for the person who has consented.
#[derive(Debug)]
pub struct AwaitingConfirmation {
    /// Name of the connection.
    pub connection: String,
    /// Name of the organization. Its runs would use the tokens.
    pub organization: String,
    /// Host of this engine.
    pub engine: String,
    /// Origin of the API or MCP server that the tokens would be sent to.
    pub service: Option<String>,
    /// Origin of the authorization server.
    pub server: String,
    /// Account that the tokens belong to, if the server names it.
    pub account: Option<String>,
    /// Scopes that were granted, if the server names them.
    pub scope: Option<String>,
    /// Code to present, with a hyphen in the middle.
    pub code: Credential,
    /// Time until which the code can be presented.
    pub expires_at: Timestamp,
}

impl Connections {
    /// Deletes expired flows and their unconfirmed tokens, until the node stops.
    pub(crate) async fn keep_forgetting(self, stop: CancellationToken) {
        let mut tick = tokio::time::interval(FORGETTING);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                _ = tick.tick() => {}
            }
            match self.0.store.forget_flows(self.0.clock.now()).await {
                Ok(0) => {}
                Ok(flows) => tracing::info!(flows, "deleted expired authorizations"),
                Err(error) => {
                    tracing::warn!(%error, "deleting expired authorizations failed");
                }
            }
        }
    }

    /// Stores tokens until they are confirmed. `state` is that of their flow, `server` the origin that issued them.
    pub(super) async fn await_confirmation(
        &self,
        browser: &Caller,
        flow: &OauthFlow,
        row: &ConnectionRow,
        (state, server, grant): (&str, String, oauth::Grant),
    ) -> Result<AwaitingConfirmation, Refusal> {
        let now = self.0.clock.now();
        let code = code(random()?);
        let organization = self.0.store.organization_name(flow.org).await?;
        let home = self.0.home.as_ref();
        let awaiting = AwaitingConfirmation {
            connection: row.name.clone(),
            organization,
            engine: home.and_then(|home| host(&home.redirect_uri)).unwrap_or_default(),
            service: service(row)?,
            server,
            account: grant.account.clone(),
            scope: grant.scope.clone(),
            code: Credential::new(shown(&code)),
            expires_at: now + Duration::from_secs(limits::AUTHORIZATION_SECONDS),
        };
        let state_hash = confirmation_hash(state);
        let returned = Returned {
            held: Held { grant, given_at: now },
            code,
        };
        let waiting = OauthFlow {
            state_hash,
            pending: self
                .seal_for(
                    pending_at(&hex(&state_hash), flow.org),
                    &Address::of_authorization(row.id, &Address::of_row(row)?),
                    &returned,
                )
                .await?,
            expires_at: awaiting.expires_at,
            ..flow.clone()
        };
        let audit = browser.audit(
            (self.0.clock.now(), random()?),
            "connection.consented",
            &*row.name,
        );
        let note = format!(
            "{AWAITING} until {}: POST /v1/connections/{}/oauth/confirm with the code that the \
             browser shows",
            awaiting.expires_at, row.name
        );
        if !self.0.store.await_confirmation(waiting, note, audit).await? {
            return Err(changed());
        }
        Ok(awaiting)
    }

    /// Confirms an authorization with the code that the person saw. From then on runs use its tokens. `Conflict` if no
    /// authorization waits, or the code is wrong.
    pub async fn confirm_authorization(
        &self,
        caller: &Caller,
        name: &str,
        code: &str,
    ) -> Result<ConfirmedAuthorization, Refusal> {
        let code = typed(code).ok_or_else(|| {
            ErrorCode::InvalidRequest.because("code: must be the eight letters that the page shows")
        })?;
        let row = self.row(caller.org, name).await?;
        let waiting = self
            .0
            .store
            .try_confirmation(caller.org, row.id, self.0.clock.now())
            .await?;
        if waiting.is_empty() {
            return Err(ErrorCode::Conflict.because(
                "no authorization waits for its confirmation: start one, consent in the browser, and send the code of its \
                 page within ten minutes"));
        }
        let address = Address::of_authorization(row.id, &Address::of_row(&row)?);
        let mut found = None;
        for flow in waiting {
            let at = hex(&flow.state_hash);
            let opened: Result<Returned, Refusal> =
                self.open_for(pending_at(&at, caller.org), &address, &flow.pending);
            match opened {
                Ok(returned) if is_same(&returned.code, &code) => found = Some((flow, returned.held)),
                Ok(_) => {}
                // Tokens for an address that the connection had before.
                Err(error) if error.code == ErrorCode::Conflict && flow.revision != row.revision => {}
                // The code may belong to another flow.
                Err(error) => {
                    tracing::error!(%error, connection = %row.id, "cannot open an authorization that waits for its confirmation");
                }
            }
        }
        let Some((flow, held)) = found else {
            let audit = caller.audit(
                (self.0.clock.now(), random()?),
                "connection.confirmation_refused",
                row.name,
            );
            self.0
                .store
                .refuse_confirmation(caller.org, row.id, audit)
                .await?;
            return Err(ErrorCode::Conflict.because(
                "code: is not the one that the page shows; after five tries the authorization has to be started again"));
        };
        self.save_confirmed(caller, row, &flow, held).await
    }

    async fn save_confirmed(
        &self,
        caller: &Caller,
        row: ConnectionRow,
        flow: &OauthFlow,
        held: Held,
    ) -> Result<ConfirmedAuthorization, Refusal> {
        let (org, id) = (caller.org, row.id.to_string());
        let issuer = match &held.grant.issuer {
            Some(issuer) => Some(self.seal(issuer_at(&id, org), issuer).await?),
            None => None,
        };
        let confirmed = Confirmed {
            state_hash: flow.state_hash,
            org,
            connection: row.id,
            revision: flow.revision,
            tokens: self
                .seal_for(tokens_at(&id, org), &Address::of_row(&row)?, &held)
                .await?,
            issuer,
        };
        let audit = caller.audit(
            (self.0.clock.now(), random()?),
            "connection.authorized",
            &*row.name,
        );
        if !self.0.store.save_authorization(confirmed, audit).await? {
            return Err(changed());
        }
        Ok(ConfirmedAuthorization {
            connection: row.name,
            status: ConnectionStatus::Ready,
            account: held.grant.account,
            issuer: held.grant.issuer,
            scope: held.grant.scope,
        })
    }
}

fn host(url: &Url) -> Option<String> {
    let host = url.host_str()?;
    Some(match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    })
}

/// Origin of the server that a connection points to.
fn service(row: &ConnectionRow) -> Result<Option<String>, Refusal> {
    let url = definition_of(row)?.url;
    let url = url.and_then(|url| Url::parse(&url).ok());
    Ok(url.map(|url| url.origin().ascii_serialization()))
}

/// A code of equally likely letters. Bytes above the largest multiple of the alphabet's size are skipped, because they would
/// favour its first letters.
fn code(random: [u8; 32]) -> String {
    let round = u8::try_from(LETTERS.len()).unwrap_or(u8::MAX);
    let fair = random.iter().filter(|byte| **byte < u8::MAX - u8::MAX % round);
    let letters = fair.filter_map(|byte| LETTERS.get(usize::from(byte % round)));
    letters.take(CODE_LETTERS).copied().map(char::from).collect()
}

/// Formats a code for people.
fn shown(code: &str) -> String {
    match code.split_at_checked(CODE_LETTERS / 2) {
        Some((first, second)) => format!("{first}-{second}"),
        None => code.to_owned(),
    }
}

/// Reads the code that a person has typed. `None` if it cannot be a code.
fn typed(text: &str) -> Option<String> {
    let letters = text.chars().filter(|c| !c.is_whitespace() && *c != '-');
    let code: String = letters.map(|c| c.to_ascii_uppercase()).collect();
    (code.len() == CODE_LETTERS && code.bytes().all(|byte| LETTERS.contains(&byte))).then_some(code)
}

/// Compares the hashes of two codes in constant time, so that the time does not reveal where they differ.
fn is_same(one: &str, other: &str) -> bool {
    let hashes = (Sha256::digest(one), Sha256::digest(other));
    hashes
        .0
        .iter()
        .zip(hashes.1.iter())
        .fold(0, |differs, (one, other)| differs | (one ^ other))
        == 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_code_is_read_back_as_people_write_it() {
        for text in ["BCDFGHJK", "bcdf-ghjk", " bcdf ghjk\n", "B-C-D-F-G-H-J-K"] {
            assert_eq!(typed(text).as_deref(), Some("BCDFGHJK"), "{text}");
        }
        for text in ["", "BCDFGHJ", "BCDFGHJKL", "ACDFGHJK", "BCDF-GHJ1", "ÉCDFGHJK"] {
            assert_eq!(typed(text), None, "{text}");
        }
        assert!(is_same("BCDFGHJK", "BCDFGHJK") && !is_same("BCDFGHJK", "BCDFGHJL"));
    }

    proptest! {
        #[test]
        fn a_code_has_eight_letters_and_survives_how_it_is_shown(mut bytes: [u8; 32]) {
            // Bytes below 240 are usable. Without this, eight of the 32 bytes are usable in all but one of 10^26 cases.
            bytes.iter_mut().take(CODE_LETTERS).for_each(|byte| *byte %= 240);
            let code = code(bytes);
            prop_assert_eq!(code.len(), CODE_LETTERS);
            prop_assert_eq!(shown(&code).len(), CODE_LETTERS + 1);
            prop_assert_eq!(typed(&shown(&code)), Some(code));
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,20}") {
            typed(&text);
        }
    }

    #[test]
    fn every_letter_is_as_likely_as_another() {
        let letters: Vec<char> = (0..240)
            .flat_map(|byte| code([byte; 32]).chars().take(1).collect::<Vec<_>>())
            .collect();
        for letter in LETTERS {
            let count = letters
                .iter()
                .filter(|other| **other == char::from(*letter))
                .count();
            assert_eq!(count, 12, "{letter}");
        }
        assert_eq!(code([255; 32]), "");
    }
}
