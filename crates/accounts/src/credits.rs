//! Movements of credits by the operator.

use sortie_api::{
    ErrorCode, LedgerKind, OrgId,
    billing::{MoveCredits, MovementKind},
    limits,
};
use sortie_store::{
    access::Actor,
    money::{Appended, Credit, NewLedgerEntry},
};

use crate::{Accounts, Result};

impl Accounts {
    /// Returns the credits of an organization, or `NotFound` if no organization has this id.
    pub async fn credits(&self, org: OrgId) -> Result<Credit> {
        let store = &self.0.store;
        store.operated_organization(org).await?;
        Ok(store.credit(org).await?)
    }

    /// Grants credits to an organization, or corrects them. The reference identifies the movement, so a repetition changes
    /// nothing. Returns whether the movement is new, and the credits of the organization. Returns `Conflict` if the reference was
    /// used for another organization or amount.
    pub async fn move_credits(
        &self,
        actor: &Actor,
        org: OrgId,
        movement: &MoveCredits,
    ) -> Result<(Appended, Credit)> {
        let parts = &self.0;
        let (reason, reference) = checked(movement)?;
        let (prefix, action) = match movement.kind {
            MovementKind::Grant => ("grant", "credits.grant"),
            MovementKind::Correction => ("correction", "credits.correct"),
        };
        let audit = parts.audit(actor, org, action, reference)?;
        let entry = NewLedgerEntry {
            cause: format!("{prefix}:{reference}"),
            org,
            kind: LedgerKind::from(movement.kind),
            amount_micros: movement.amount_micros,
            description: reason.to_owned(),
            payment: None,
            topup: None,
            user: None,
            at: audit.at,
        };
        let appended = parts.store.move_credits(entry, audit).await?;
        Ok((appended, parts.store.credit(org).await?))
    }
}

/// Checks the rules of a movement. Returns its reason and its reference.
fn checked(movement: &MoveCredits) -> Result<(&str, &str)> {
    let amount = movement.amount_micros;
    if amount == 0 || amount.unsigned_abs() > limits::MOVEMENT_MICROS_MAX.unsigned_abs() {
        return Err(ErrorCode::InvalidRequest.because(format!(
            "amount_micros: must not be 0, and at most {} in either direction",
            limits::MOVEMENT_MICROS_MAX
        )));
    }
    if amount < 0 && movement.kind == MovementKind::Grant {
        return Err(ErrorCode::InvalidRequest
            .because("amount_micros: must be more than 0; only a correction takes credits"));
    }
    Ok((
        text("reason", &movement.reason, limits::MOVEMENT_REASON_CHARS)?,
        text("reference", &movement.reference, limits::MOVEMENT_REFERENCE_CHARS)?,
    ))
}

fn text<'a>(field: &str, text: &'a str, most: usize) -> Result<&'a str> {
    let text = text.trim();
    if text.is_empty() || text.chars().count() > most || text.chars().any(char::is_control) {
        return Err(ErrorCode::InvalidRequest.because(format!(
            "{field}: must be 1 to {most} characters, without control characters"
        )));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn movement(amount_micros: i64, kind: MovementKind) -> MoveCredits {
        MoveCredits {
            amount_micros,
            kind,
            reason: " welcome ".to_owned(),
            reference: "a".to_owned(),
        }
    }

    fn rule(movement: &MoveCredits) -> String {
        checked(movement).unwrap_err().to_string()
    }

    #[test]
    fn only_a_correction_takes_credits() {
        let (grant, correction) = (MovementKind::Grant, MovementKind::Correction);
        assert_eq!(checked(&movement(1, grant)).unwrap(), ("welcome", "a"));
        assert!(checked(&movement(-1, correction)).is_ok());
        assert!(rule(&movement(-1, grant)).contains("only a correction takes credits"));
        for amount in [0, 1_000_000_000_001, -1_000_000_000_001, i64::MIN] {
            assert!(
                rule(&movement(amount, correction)).contains("must not be 0"),
                "{amount}"
            );
        }
    }

    #[test]
    fn a_movement_has_a_reason_and_a_reference() {
        for text in ["", " ", "a\nb"] {
            let mut wrong = movement(1, MovementKind::Grant);
            wrong.reason = text.to_owned();
            assert!(rule(&wrong).starts_with("reason: must be 1 to 500"), "{text:?}");
            let mut wrong = movement(1, MovementKind::Grant);
            wrong.reference = text.to_owned();
            assert!(
                rule(&wrong).starts_with("reference: must be 1 to 200"),
                "{text:?}"
            );
        }
    }
}
