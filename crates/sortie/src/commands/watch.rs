//! `sortie runs list --watch`: shows a list of runs and keeps it up to date.

use std::io::IsTerminal as _;

use super::{Context, resume};
use crate::{
    args::WhichRuns,
    client::Change,
    connect::Connection,
    failure::{Exit, Failure, Result},
    interruption::interruption,
    render::{Render, table},
    terminal,
};

/// Moves the cursor to the first line and clears the screen.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

/// Shows the list until the user leaves. As JSON, prints each change on a line instead.
pub(super) async fn watch(context: &Context, which: &WhichRuns, render: &Render) -> Result<Exit> {
    render.check_is_table_or_json("--watch")?;
    let show = async |connection: &mut Connection| {
        let mut interrupted = interruption();
        let mut feed = connection.client.feed(&which.lasting_filters());
        loop {
            let change = tokio::select! {
                change = feed.next() => change?,
                () = &mut interrupted => return Err(Failure::left()),
            };
            match change {
                Change::Away(cause) => {
                    terminal::note(&format!("the engine does not answer; trying again: {cause}"));
                }
                Change::Run(run) if render.is_json() => terminal::print_line(&run)?,
                // A feed begins with a reset, so the list is shown at once.
                Change::Run(_) | Change::Reset if render.is_json() => {}
                Change::Run(_) | Change::Reset => {
                    let runs = resume::list_runs(&connection.client, which).await?;
                    let clear = if std::io::stdout().is_terminal() {
                        CLEAR
                    } else {
                        "\n"
                    };
                    terminal::print(&(clear.to_owned() + &table(&runs.items, &render.look())))?;
                }
            }
        }
    };
    context.with(render, show).await
}
