//! `sortie runs logs`: prints what the commands of a run printed.

use super::{Context, runs::follow_to_end};
use crate::{
    args::RunRef,
    connect::Connection,
    failure::{Exit, Result},
    follow::Format,
    printed::Printed,
    render::Render,
};

pub(super) async fn logs(context: &Context, run: &RunRef, follow: bool) -> Result<Exit> {
    let print = async |connection: &mut Connection| {
        let id = connection.client.find_run(run).await?;
        if follow {
            follow_to_end(connection, context, (id, 0), Format::Logs).await?;
            return Ok(Exit::Success);
        }
        let mut printed = Printed::default();
        for event in connection.client.recorded_events(id, 0).await? {
            printed.event(&event)?;
        }
        Ok(Exit::Success)
    };
    context.with(&Render::default(), print).await
}
