//! `sortie credits` and `sortie admin`: credits of the organizations of a hosted deployment, refunds, and the check of their
//! ledger.

use sortie_api::{
    OrgId,
    billing::{Balance, LedgerCheck, LedgerDifference, MoveCredits, MovementKind, Payment, RefundPayment},
};

use super::Context;
use crate::{
    args::{AdminCommand, Amount, CreditsCommand},
    client::{Client, get, path_of, post_json},
    failure::{Exit, Failure, Result},
    render::{Field, Look, Record, some},
};

impl Record for Balance {
    const COLUMNS: &'static [Field<Self>] = &[
        ("BALANCE", |credits| some(Amount(credits.balance_micros))),
        ("RESERVED", |credits| some(Amount(credits.reserved_micros.get()))),
        ("AVAILABLE", |credits| {
            some(Amount(credits.available_micros.get()))
        }),
    ];
}

impl Record for Payment {
    const COLUMNS: &'static [Field<Self>] = &[
        ("PAYMENT", |payment| some(payment.id)),
        ("CENTS", |payment| some(payment.amount_cents)),
        ("REFUNDED", |payment| some(payment.refunded_cents)),
        ("DISPUTED", |payment| some(payment.disputed_cents)),
    ];
}

impl Record for LedgerCheck {
    /// Returns a line for each difference.
    fn text(&self, _: &Look) -> String {
        self.differences.iter().map(line).collect()
    }

    fn note(&self) -> Option<String> {
        Some(format!(
            "checked {} organizations and {} runs",
            self.organizations, self.runs
        ))
    }
}

fn path(organization: OrgId) -> String {
    format!("v1/operator/organizations/{organization}/credits")
}

pub(super) async fn credits(context: &Context, command: CreditsCommand) -> Result<Exit> {
    match command {
        CreditsCommand::Grant(args) => {
            let movement = MoveCredits {
                amount_micros: args.amount.0,
                kind: if args.correct {
                    MovementKind::Correction
                } else {
                    MovementKind::Grant
                },
                reason: args.reason,
                reference: args.reference,
            };
            let grant = post_json(path(args.organization), &movement);
            context.one::<Balance>(&args.operator, grant).await
        }
        CreditsCommand::Refund {
            payment,
            amount_cents,
            reference,
            operator,
        } => {
            let request = RefundPayment {
                amount_cents,
                reference,
            };
            let refund = post_json(format!("v1/operator/payments/{payment}/refund"), &request);
            context.one::<Payment>(&operator, refund).await
        }
        CreditsCommand::Show {
            organization,
            operator,
        } => context.one::<Balance>(&operator, get(path(organization))).await,
    }
}

pub(super) async fn admin(context: &Context, command: AdminCommand) -> Result<Exit> {
    let AdminCommand::CheckLedger(args) = command;
    let checked = context.call(&args, check_ledger).await?;
    args.render.one(&checked)?;
    match checked.differences.len() {
        0 => Ok(Exit::Success),
        1 => Err(Failure::new(Exit::Failed, "the ledger differs in one place")),
        count => Err(Failure::new(
            Exit::Failed,
            format!("the ledger differs in {count} places"),
        )),
    }
}

/// Checks the ledger of all organizations, page by page.
async fn check_ledger(client: &Client) -> Result<LedgerCheck> {
    let path = "v1/operator/ledger/check";
    let mut all: LedgerCheck = client.ask(get(path)).await?;
    while !all.next_cursor.is_empty() {
        let query = [("cursor", std::mem::take(&mut all.next_cursor))];
        let page: LedgerCheck = client.ask(get(path_of(path, &query))).await?;
        all.organizations += page.organizations;
        all.runs += page.runs;
        all.differences.extend(page.differences);
        all.next_cursor = page.next_cursor;
    }
    Ok(all)
}

fn line(difference: &LedgerDifference) -> String {
    let run = difference.run_id.map(|run| format!(" {run}"));
    let payment = difference.payment_id.map(|payment| format!(" {payment}"));
    format!(
        "{}{} {}: expected {}, found {}\n",
        difference.organization_id,
        run.or(payment).unwrap_or_default(),
        difference.rule,
        Amount(difference.expected_micros),
        Amount(difference.found_micros)
    )
}
