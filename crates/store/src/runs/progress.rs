//! How far one run has come, without what it brought or answered.

use sortie_api::{OrgId, RunId, RunStatus};

use crate::{
    Store,
    db::vals,
    types::{Error, Progress, Result},
};

impl Store {
    /// The status and the last event of a run; `Unretained` where its events are not stored.
    pub async fn progress(&self, org: OrgId, id: RunId) -> Result<Progress> {
        let row = self
            .db
            .read(move |tx| {
                tx.query_opt(
                    "SELECT status, last_event, zero_data_retention FROM run WHERE id = $2 AND org_id = $1",
                    vals![org, id],
                )
            })
            .await?
            .ok_or(Error::NotFound)?;
        if row.int(2)? != 0 {
            return Err(Error::Unretained);
        }
        Ok(Progress {
            status: row.parse::<RunStatus>(0)?,
            last_event: row.int(1)?,
        })
    }
}
