//! `sortie budgets`: limits of the cost of runs in a day or a month.

use sortie_api::{Budget, BudgetScope, PutBudget};

use super::Context;
use crate::{
    args::BudgetsCommand,
    client::{delete, get, put},
    failure::{Exit, Result},
    render::{Field, Record, Render, some, time},
};

impl Record for Budget {
    const COLUMNS: &'static [Field<Self>] = &[
        ("SCOPE", |budget| some(&budget.scope)),
        ("PERIOD", |budget| some(budget.period)),
        ("LIMIT", |budget| some(budget.limit_micros)),
        ("SPENT", |budget| some(budget.spent_micros)),
        ("LEFT", |budget| some(budget.available_micros)),
    ];
    const MORE: &'static [Field<Self>] = &[
        ("HELD", |budget| some(budget.held_micros)),
        ("RESETS", |budget| time(budget.resets_at)),
    ];
    const CUT: &'static [&'static str] = &["SCOPE"];
}

pub(super) fn path(scope: &BudgetScope) -> String {
    format!("v1/budgets/{scope}")
}

pub(super) async fn execute(context: &Context, command: BudgetsCommand) -> Result<Exit> {
    match command {
        BudgetsCommand::List(render) => context.list::<Budget>(&render, get("v1/budgets")).await,
        BudgetsCommand::Get { scope, render } => context.one::<Budget>(&render, get(path(&scope))).await,
        BudgetsCommand::Set {
            scope,
            limit,
            period,
            render,
        } => {
            let budget = PutBudget {
                limit_micros: limit,
                period: period.into(),
            };
            context.one::<Budget>(&render, put(path(&scope), &budget)).await
        }
        BudgetsCommand::Delete { scope } => {
            let note = |(): &()| format!("the budget {scope} is deleted");
            context.done(&Render::default(), delete(path(&scope)), note).await
        }
    }
}
