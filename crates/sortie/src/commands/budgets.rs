//! `sortie budgets`: what runs may cost in a day or a month.

use sortie_api::{Budget, Micros, PutBudget};

use super::{Context, print_json, table};
use crate::{
    args::BudgetsCommand,
    failure::{Exit, Failure, Result},
    terminal,
};

pub(super) async fn execute(context: &Context, command: BudgetsCommand) -> Result<Exit> {
    match command {
        BudgetsCommand::List(args) => {
            let connection = context.records(&args.engine).await?;
            let budgets = connection.client.list_budgets().await;
            connection.close().await;
            let budgets = budgets?;
            if args.json {
                return print_json(&budgets);
            }
            show(&budgets)?;
        }
        BudgetsCommand::Set {
            scope,
            limit,
            period,
            list,
        } => {
            let put = PutBudget {
                limit_micros: Micros::new(limit).map_err(|rule| Failure::usage(rule.to_string()))?,
                period: period.into(),
            };
            let connection = context.records(&list.engine).await?;
            let budget = connection.client.put_budget(&scope, &put).await;
            connection.close().await;
            let budget = budget?;
            if list.json {
                return print_json(&budget);
            }
            show(&[budget])?;
        }
        BudgetsCommand::Delete { scope, engine } => {
            let connection = context.records(&engine).await?;
            let deleted = connection.client.delete_budget(&scope).await;
            connection.close().await;
            deleted?;
            terminal::note(&format!("the budget {scope} is deleted"));
        }
    }
    Ok(Exit::Success)
}

fn show(budgets: &[Budget]) -> Result<()> {
    let mut rows = table::new(["SCOPE", "PERIOD", "LIMIT", "SPENT", "HELD", "LEFT", "RESETS"]);
    for budget in budgets {
        rows.add_row([
            budget.scope.to_string(),
            budget.period.to_string(),
            budget.limit_micros.to_string(),
            budget.spent_micros.to_string(),
            budget.held_micros.to_string(),
            budget.available_micros.to_string(),
            budget.resets_at.to_string(),
        ]);
    }
    terminal::print(&table::text(&rows))?;
    Ok(())
}
