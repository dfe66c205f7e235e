//! `sortie credits` and `sortie admin`: credits of the organizations of a hosted deployment, refunds, and the check of their
//! ledger.

use sortie_api::billing::{Balance, LedgerDifference, MoveCredits, MovementKind, Payment, RefundPayment};

use super::{Context, operators::client, print_json, table};
use crate::{
    args::{AdminCommand, Amount, CreditsCommand, OperatorArgs},
    failure::{Exit, Failure, Result},
    terminal,
};

pub(super) async fn credits(context: &Context, command: CreditsCommand) -> Result<Exit> {
    match command {
        CreditsCommand::Grant(args) => {
            let client = client(context, &args.operator)?;
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
            let balance = client.move_credits(args.organization, &movement).await?;
            show(&balance, &args.operator)
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
            let refunded = client(context, &operator)?
                .refund_payment(payment, &request)
                .await?;
            show_payment(&refunded, &operator)
        }
        CreditsCommand::Show {
            organization,
            operator,
        } => {
            let balance = client(context, &operator)?.operated_credits(organization).await?;
            show(&balance, &operator)
        }
    }
}

fn show(balance: &Balance, args: &OperatorArgs) -> Result<Exit> {
    if args.json {
        return print_json(balance);
    }
    let mut rows = table::new(["BALANCE", "RESERVED", "AVAILABLE"]);
    rows.add_row([
        Amount(balance.balance_micros).to_string(),
        Amount(balance.reserved_micros.get()).to_string(),
        Amount(balance.available_micros.get()).to_string(),
    ]);
    terminal::print(&table::text(&rows))?;
    Ok(Exit::Success)
}

fn show_payment(payment: &Payment, args: &OperatorArgs) -> Result<Exit> {
    if args.json {
        return print_json(payment);
    }
    let mut rows = table::new(["PAYMENT", "CENTS", "REFUNDED", "DISPUTED"]);
    rows.add_row([
        payment.id.to_string(),
        payment.amount_cents.to_string(),
        payment.refunded_cents.to_string(),
        payment.disputed_cents.to_string(),
    ]);
    terminal::print(&table::text(&rows))?;
    Ok(Exit::Success)
}

pub(super) async fn admin(context: &Context, command: AdminCommand) -> Result<Exit> {
    match command {
        AdminCommand::CheckLedger(operator) => check_ledger(context, &operator).await,
    }
}

async fn check_ledger(context: &Context, args: &OperatorArgs) -> Result<Exit> {
    let checked = client(context, args)?.check_ledger().await?;
    if args.json {
        print_json(&checked)?;
    } else {
        for difference in &checked.differences {
            terminal::print_line(&line(difference))?;
        }
        terminal::note(&format!(
            "checked {} organizations and {} runs",
            checked.organizations, checked.runs
        ));
    }
    match checked.differences.len() {
        0 => Ok(Exit::Success),
        1 => Err(Failure::new(Exit::Failed, "the ledger differs in one place")),
        count => Err(Failure::new(
            Exit::Failed,
            format!("the ledger differs in {count} places"),
        )),
    }
}

fn line(difference: &LedgerDifference) -> String {
    let run = difference.run_id.map(|run| format!(" {run}"));
    let payment = difference.payment_id.map(|payment| format!(" {payment}"));
    format!(
        "{}{} {}: expected {} micros, found {}",
        difference.organization_id,
        run.or(payment).unwrap_or_default(),
        difference.rule,
        difference.expected_micros,
        difference.found_micros
    )
}
