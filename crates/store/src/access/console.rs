//! Sessions at the console of a self-hosted engine, and the codes that begin one. Only the SHA-256 of a token or a code is stored.
//!
//! A session belongs to one secret of an API key. It ends when the key is deleted, when the key expires, and when the secret is
//! rotated and its grace period ends. It also ends twelve hours after the hour of its last use, and when it is seven days old.
//! [`Store::find_principal`] finds its principal.

use std::time::Duration;

use sortie_api::{KeyId, OrgId, SessionId, Timestamp};

use crate::{
    Error, Result, Store,
    access::{Actor, By, audit::record, keys::note_use, lookups::Ended},
    db::{Stmt, Tx, batch, insert, row, select, vals},
};

/// Longest time of a session.
pub const CONSOLE_SESSION: Duration = Duration::from_hours(7 * 24);

/// Time after the start of the hour of the last use at which a session ends.
const IDLE: Duration = Duration::from_hours(1 + 12);

const HOUR_MICROS: i64 = 3_600_000_000;

row! {
    /// API key, and the SHA-256 of the secret that a session or a code belongs to.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct KeySecret {
        /// Organization of the key.
        pub org: OrgId = "k.org_id",
        /// The key.
        pub key: KeyId = "k.id",
        /// SHA-256 of its secret.
        pub hash: [u8; 32] = "c.key_hash",
    }
}

/// Session to begin.
#[derive(Clone, Debug)]
pub struct NewConsoleSession {
    /// ID of the session.
    pub id: SessionId,
    /// SHA-256 of the token.
    pub hash: [u8; 32],
    /// Time of the sign-in.
    pub created_at: Timestamp,
    /// Request of the sign-in, for the audit log.
    pub actor: Actor,
    /// Random bytes of the audit entry's ID.
    pub audit_random: [u8; 10],
}

/// Code to store.
#[derive(Clone, Copy, Debug)]
pub struct NewConsoleCode {
    /// SHA-256 of the code.
    pub hash: [u8; 32],
    /// Key of the session that the code begins.
    pub secret: KeySecret,
    /// End of the code.
    pub expires_at: Timestamp,
}

impl Store {
    /// Begins a session of an API key. `NotFound` if the key was deleted, has expired, or has another secret.
    pub async fn begin_console_session(&self, session: NewConsoleSession, secret: KeySecret) -> Result<()> {
        self.db.write(move |tx| begin(tx, &session, &secret)).await
    }

    /// Stores a code that begins a session of an API key.
    pub async fn keep_console_code(&self, code: NewConsoleCode) -> Result<()> {
        let insert = move |tx: &mut dyn Tx| {
            tx.batch(&[insert!("console_code", {
                "hash": &code.hash,
                "key_id": code.secret.key,
                "key_hash": &code.secret.hash,
                "expires_at": code.expires_at,
            })])
            .map(drop)
        };
        self.db.write(insert).await
    }

    /// Uses up the code with the SHA-256 `code` and begins a session of its key. `NotFound` if the code is unknown, was used or
    /// has expired, and if its key has ended.
    pub async fn redeem_console_code(&self, code: [u8; 32], session: NewConsoleSession) -> Result<()> {
        self.db.write(move |tx| redeem(tx, &code, &session)).await
    }

    /// System: notes the hour in which a session and its key are used, unless a later one is noted.
    pub async fn note_console_use(&self, (session, key): (SessionId, KeyId), hour: Timestamp) -> Result<()> {
        let longest = i64::try_from(CONSOLE_SESSION.as_micros()).unwrap_or(i64::MAX);
        let note = move |tx: &mut dyn Tx| {
            tx.batch(&[
                Stmt::new(
                    "UPDATE console_session SET seen_at = $2, expires_at = CASE \
                     WHEN created_at + CAST($4 AS BIGINT) < CAST($3 AS BIGINT) THEN created_at + CAST($4 AS BIGINT) \
                     ELSE CAST($3 AS BIGINT) END WHERE id = $1 AND seen_at < $2 AND expires_at > $2",
                    vals![session, hour, hour + IDLE, longest],
                ),
                note_use(key, hour),
            ])
            .map(drop)
        };
        self.db.write(note).await
    }

    /// Ends a session. `NotFound` if it has ended already.
    pub async fn end_console_session(&self, session: SessionId) -> Result<()> {
        let _ending = self.ending(Ended::Of(By::Session(session)));
        let delete = move |tx: &mut dyn Tx| {
            let delete = Stmt::new("DELETE FROM console_session WHERE id = $1", vals![session]);
            tx.batch(&[delete.exactly(1, Error::NotFound)]).map(drop)
        };
        self.db.write(delete).await
    }

    /// System: deletes up to `limit` sessions and as many codes that ended before `at`, the earliest first. Returns their number.
    pub async fn delete_ended_console_rows(&self, at: Timestamp, limit: u32) -> Result<u64> {
        let delete = move |tx: &mut dyn Tx| {
            let sessions = tx.exec(
                "DELETE FROM console_session WHERE id {IN}SELECT s.id FROM console_session s WHERE s.expires_at < $1 \
                 ORDER BY s.expires_at LIMIT $2{END}",
                vals![at, limit],
            )?;
            let codes = tx.exec(
                "DELETE FROM console_code WHERE hash {IN}SELECT c.hash FROM console_code c WHERE c.expires_at < $1 \
                 ORDER BY c.expires_at LIMIT $2{END}",
                vals![at, limit],
            )?;
            Ok(sessions.saturating_add(codes))
        };
        self.db.write(delete).await
    }
}

/// Inserts a session if the key has the secret at the time of the sign-in, and records the sign-in.
fn begin(tx: &mut dyn Tx, session: &NewConsoleSession, secret: &KeySecret) -> Result<()> {
    let at = session.created_at;
    let hour = Timestamp::from_micros(at.as_micros() - at.as_micros().rem_euclid(HOUR_MICROS));
    let actor = Actor {
        by: Some(By::Key(secret.key)),
        ..session.actor.clone()
    };
    let audit = actor.audit(
        (at, session.audit_random),
        secret.org,
        "console.sign_in",
        session.id,
    );
    tx.batch(&[
        insert!("console_session", {
            "id": session.id,
            "hash" = "CAST(@ AS {BLOB})": &session.hash,
            "key_id" = "k.id",
            "key_hash" = "CAST(@ AS {BLOB})": &secret.hash,
            "created_at" = "CAST(@ AS BIGINT)": at,
            "seen_at" = "CAST(@ AS BIGINT)": hour,
            "expires_at" = "CAST(@ AS BIGINT)": hour + IDLE,
        }, select " FROM api_key k WHERE k.id = @ AND (k.expires_at IS NULL OR k.expires_at > @) \
            AND (k.hash = @ OR (k.previous_hash = @ AND k.previous_until > @))",
            secret.key, at, &secret.hash, &secret.hash, at)
        .exactly(1, Error::NotFound),
        record(&audit),
    ])
    .map(drop)
}

/// Deletes a code and begins its session. Of two concurrent commands, the second one finds the code deleted.
fn redeem(tx: &mut dyn Tx, code: &[u8; 32], session: &NewConsoleSession) -> Result<()> {
    const WORKS: &str =
        " FROM console_code c JOIN api_key k ON k.id = c.key_id WHERE c.hash = $1 AND c.expires_at > $2";
    let secret: Option<KeySecret> = tx.read_opt(
        select!(KeySecret, WORKS),
        vals![code.as_slice(), session.created_at],
    )?;
    let secret = secret.ok_or(Error::NotFound)?;
    let delete = Stmt::new("DELETE FROM console_code WHERE hash = $1", vals![code.as_slice()]);
    let [_] = batch(tx, &[delete.exactly(1, Error::NotFound)])?;
    begin(tx, session, &secret)
}
