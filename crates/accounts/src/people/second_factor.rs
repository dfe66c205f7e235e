//! Second factor: codes of an authenticator (TOTP, RFC 6238), and recovery codes.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest as _, Sha256};
use sortie_api::{Credential, ErrorCode, Refusal, Timestamp, UserId};
use sortie_base::{SealContext, random};
use sortie_store::{
    Error as StoreError,
    installation::SealedColumn,
    people::{Account, Factor, NewOneTime, Purpose},
};
use totp_rs::{Algorithm, Builder, Totp};

use crate::{Accounts, Parts, Proof, Result};

/// Number of recovery codes.
const RECOVERY_CODES: usize = 10;

/// Characters of a recovery code, without the hyphens.
const RECOVERY_CHARS: usize = 16;

/// Seconds of a time step.
const STEP_SECONDS: u64 = 30;

/// Number of time steps before and after the current one that are accepted.
const SKEW: u16 = 1;

/// Name of the service in the authenticator.
const ISSUER: &str = "Sortie";

/// Attempts per hour at the first code of an authenticator.
const CONFIRMATIONS: u32 = 10;

/// Key of an authenticator. It is shown only once.
#[derive(Clone, Debug)]
pub struct EnrolledTotp {
    /// The key in base32, for manual entry.
    pub secret: Credential,
    /// The key as an `otpauth` URI, for a QR code.
    pub uri: Credential,
}

/// Returns the refusal of a sign-in with a correct password and a missing or wrong second factor.
pub(crate) fn second_factor_required() -> Refusal {
    ErrorCode::SecondFactorRequired
        .because("code: must be the current code of the authenticator, or an unused recovery code")
}

impl Accounts {
    /// Creates the authenticator key of a person who has proved the account. The key is active once [`Self::confirm_totp`]
    /// confirms it. Returns `Forbidden` if mail is configured and the address is not verified: the real owner of the address
    /// would need the codes of a stranger. Returns `Conflict` if the person has a second factor.
    pub async fn enrol_totp(&self, user: UserId, proof: Proof) -> Result<EnrolledTotp> {
        let parts = &self.0;
        let account = parts.own_account(user, "password", proof).await?;
        parts.require_verified(account.person.email_verified_at.is_some())?;
        let key = totp_rs::Secret::new_stack(random()?);
        let row = user.to_string();
        let sealed = parts.sealer.seal(context(&row), key.as_bytes(), random()?)?;
        parts.store.enrol_totp(user, sealed).await?;
        let secret = key.to_base32();
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let uri = format!(
            "otpauth://totp/{ISSUER}:{}?secret={secret}&issuer={ISSUER}&algorithm=SHA1&digits=6&period={STEP_SECONDS}",
            encoded(&account.person.email),
        );
        Ok(EnrolledTotp {
            secret: Credential::new(secret),
            uri: Credential::new(uri),
        })
    }

    /// Confirms the key of an authenticator with a code. Returns the recovery codes, which are shown only once. Returns
    /// `Forbidden` if mail is configured and the address is not verified.
    pub async fn confirm_totp(&self, user: UserId, code: &Credential) -> Result<Vec<Credential>> {
        let parts = &self.0;
        parts
            .attempt("second factor", &user.to_string(), CONFIRMATIONS)
            .await?;
        let account = parts.store.account(user).await?;
        parts.require_verified(account.person.email_verified_at.is_some())?;
        let Some(sealed) = account
            .totp
            .clone()
            .filter(|_| account.person.second_factor_since.is_none())
        else {
            return Err(
                ErrorCode::Conflict.because("no second factor waits for its confirmation: enrol first")
            );
        };
        let Some(step) = parts.step(&account, code.expose())? else {
            return Err(
                ErrorCode::InvalidRequest.because("code: must be the current code of the authenticator")
            );
        };
        let now = parts.options.clock.now();
        let mut codes = Vec::with_capacity(RECOVERY_CODES);
        for _ in 0..RECOVERY_CODES {
            codes.push(recovery_code(random()?));
        }
        let tokens = codes.iter().map(|code| NewOneTime {
            hash: recovery_hash(user, code.expose()),
            purpose: Purpose::Recovery,
            user,
            // They expire only with the removal of the second factor.
            expires_at: Timestamp::from_micros(i64::MAX),
        });
        parts
            .store
            .confirm_totp((user, sealed), (step, now), tokens.collect())
            .await?;
        Ok(codes)
    }

    /// Removes the second factor of a person who has proved their identity and the second factor.
    pub async fn remove_totp(&self, user: UserId, proof: Proof, code: &Credential) -> Result<()> {
        let parts = &self.0;
        let account = parts.own_account(user, "password", proof).await?;
        if account.person.second_factor_since.is_none() {
            return Err(ErrorCode::Conflict.because("the account has no second factor"));
        }
        let wrong = || ErrorCode::InvalidRequest.because(second_factor_required().text);
        let factor = parts.factor(&account, code).await.map_err(|error| {
            if error.code == ErrorCode::SecondFactorRequired {
                wrong()
            } else {
                error
            }
        })?;
        parts.store.remove_totp(user, factor).await.map_err(|error| {
            if let StoreError::Conflict(_) = error {
                wrong()
            } else {
                error.into()
            }
        })
    }
}

impl Parts {
    /// Parses a code as the second factor of an account. Returns `SecondFactorRequired` if it is neither a recovery code nor a
    /// valid code of the authenticator.
    pub(crate) fn factor_of(&self, account: &Account, code: &str) -> Result<Factor> {
        let code: String = code
            .chars()
            .filter(|at| !at.is_whitespace() && *at != '-')
            .collect();
        if code.len() == RECOVERY_CHARS {
            return Ok(Factor::Recovery(recovery_hash(account.person.id, &code)));
        }
        let step = self.step(account, &code)?.ok_or_else(second_factor_required)?;
        Ok(Factor::Step(step))
    }

    /// Returns the time step that matches a code of the authenticator, or `None` if the code is not valid at present.
    fn step(&self, account: &Account, code: &str) -> Result<Option<i64>> {
        let Some(sealed) = &account.totp else {
            return Ok(None);
        };
        let row = account.person.id.to_string();
        let key = self.sealer.open(context(&row), sealed)?;
        let seconds = self.options.clock.now().as_micros() / 1_000_000;
        let step = totp(&key)?.check(code.trim(), u64::try_from(seconds).unwrap_or(0));
        Ok(step.and_then(|step| i64::try_from(step).ok()))
    }
}

fn totp(key: &[u8]) -> Result<Totp> {
    Builder::new()
        .with_algorithm(Algorithm::SHA1)
        .with_digits(6)
        .with_skew(SKEW)
        .with_step_duration(STEP_SECONDS)
        .with_secret(key.to_vec())
        .build()
        .map_err(Refusal::internal)
}

/// A recovery code of 80 random bits: four groups of four characters.
fn recovery_code(bits: [u8; 10]) -> Credential {
    let text = totp_rs::Secret::from(bits.to_vec()).to_base32().to_lowercase();
    let mut grouped = String::with_capacity(RECOVERY_CHARS + 3);
    for (at, character) in text.chars().enumerate() {
        if at > 0 && at % 4 == 0 {
            grouped.push('-');
        }
        grouped.push(character);
    }
    Credential::new(grouped)
}

/// Hash of a person's recovery code, with or without hyphens, in any case.
fn recovery_hash(user: UserId, code: &str) -> [u8; 32] {
    let code: String = code.chars().filter(|at| *at != '-').collect();
    Sha256::new()
        .chain_update(user.to_string())
        .chain_update(code.to_lowercase())
        .finalize()
        .into()
}

/// Seal context of the key of the person with the ID `row`.
const fn context(row: &str) -> SealContext<'_> {
    SealContext {
        table: SealedColumn::PersonTotp.table(),
        column: SealedColumn::PersonTotp.column(),
        row,
        org: None,
    }
}
