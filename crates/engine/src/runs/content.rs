//! What clients ask of the content of a run, wherever it is: the run itself, its events, its definition.
//!
//! A run that is stored is answered from the store. One without retention is answered from memory where this node has it,
//! and by the node that has it otherwise; where nobody has it any more, the store says what is left.

use std::{sync::Arc, time::Duration};

use futures_util::stream::BoxStream;
use serde_json::value::RawValue;
use sortie_api::{Event, OrgId, Run, RunId};
use sortie_store::{ContentHolder, EventRow, StoredDefinition};

use crate::{
    Engine,
    cluster::peers::{Hop, Peer},
    error::Error,
    kit::caller::Caller,
    runs::hub::{Batch, Deltas},
};

impl Engine {
    /// A run: as soon as it is final, and at the latest after `wait`. The first who asks for one with zero data retention
    /// that is final, and has no callback, gets its output, and nobody after.
    pub async fn get_run(&self, caller: &Caller, id: RunId, wait: Duration, hop: Hop) -> Result<Run, Error> {
        let (node, org) = (&self.0, caller.org);
        self.until_final(org, id, wait).await?;
        if node.stores.records.unretained.holds(id) {
            return node
                .stores
                .records
                .unretained
                .hand_out(&node.stores.database, org, id)
                .await;
        }
        let run = node.stores.database.get_run(org, id).await?;
        if !run.zero_data_retention {
            return Ok(run);
        }
        match self.holder(org, id, hop).await? {
            Some(holder) => node.cluster.peers.run(&holder, caller, id, wait).await,
            None => Ok(node.stores.database.get_run(org, id).await?),
        }
    }

    /// A run as [`get_run`](Self::get_run) shows it, and nothing changes by it: an output that is handed out once is not in it
    /// and stays where it is. No other node is asked, so that one whose content is elsewhere is not waited for.
    pub async fn look_at_run(&self, org: OrgId, id: RunId, wait: Duration) -> Result<Run, Error> {
        self.until_final(org, id, wait).await?;
        self.0.stores.records.run(org, id).await
    }

    async fn until_final(&self, org: OrgId, id: RunId, wait: Duration) -> Result<(), Error> {
        if wait.is_zero() {
            return Ok(());
        }
        match self.0.work.hub.until_final(org, id, wait).await {
            // It is waited for where it is.
            Ok(()) | Err(Error::Unretained) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// A run's events after `after`, then new ones as they happen, then `done`. Ends early when the node stops.
    pub async fn follow(
        &self,
        caller: &Caller,
        id: RunId,
        (after, deltas): (i64, Deltas),
        hop: Hop,
    ) -> Result<BoxStream<'static, Result<Arc<Batch>, Error>>, Error> {
        match self.0.work.hub.follow(caller.org, id, after, deltas).await {
            Err(Error::Unretained) => {
                let holder = self.events_holder(caller.org, id, hop).await?;
                self.0
                    .cluster
                    .peers
                    .follow(&holder, caller, id, (after, deltas))
                    .await
            }
            other => other,
        }
    }

    /// Recorded events of a run after `after`, in order, at most `limit`.
    pub async fn events_after(
        &self,
        caller: &Caller,
        id: RunId,
        (after, limit): (i64, u32),
        hop: Hop,
    ) -> Result<Vec<Event>, Error> {
        match self
            .0
            .stores
            .records
            .events_after(caller.org, id, after, limit)
            .await
        {
            Err(Error::Unretained) => {
                let holder = self.events_holder(caller.org, id, hop).await?;
                self.0.cluster.peers.events(&holder, caller, id, after).await
            }
            rows => rows?.into_iter().map(event).collect(),
        }
    }

    /// The definition that a run used. [`Error::Gone`] where it was never kept.
    pub async fn run_definition(&self, org: OrgId, id: RunId) -> Result<StoredDefinition, Error> {
        match self.store().run_definition(org, id).await {
            Err(sortie_store::Error::Unretained) => Err(Error::Gone(
                "the run has zero data retention: its definition was never kept".to_owned(),
            )),
            other => Ok(other?),
        }
    }

    /// On whose behalf another node asks; none where the request is not signed by one.
    pub fn peer(&self, method: &str, target: &str, header: &str) -> Option<Peer> {
        self.0.cluster.peers.verify(method, target, header)
    }

    async fn events_holder(&self, org: OrgId, id: RunId, hop: Hop) -> Result<ContentHolder, Error> {
        let forgotten = || {
            Error::Gone(
                "the run has zero data retention: its events were kept while it worked and for five minutes \
                 afterwards"
                    .to_owned(),
            )
        };
        if self.0.stores.records.unretained.holds(id) {
            return Err(forgotten());
        }
        self.holder(org, id, hop).await?.ok_or_else(forgotten)
    }

    /// The other node that has the content of a run; none where nobody has it.
    async fn holder(&self, org: OrgId, id: RunId, hop: Hop) -> Result<Option<ContentHolder>, Error> {
        let holder = self.store().content_holder(org, id).await?;
        let is_elsewhere = |holder: &ContentHolder| holder.node != self.0.cluster.identity.get();
        match (holder.filter(is_elsewhere), hop) {
            // Its process may be alive and come back with the answer.
            (Some(holder), _) if holder.is_lost && holder.has_answer => Err(Error::Unavailable(
                "the node that holds the output of this run cannot be reached: the output is available once it comes \
                 back, and is deleted at output_expires_at"
                    .to_owned(),
            )),
            // The sweep is about to give it up, or the answer is for the receiver of the callback.
            (Some(holder), _) if holder.is_lost => Ok(None),
            // Never passed on twice: what this node was asked for, it was thought to have.
            (Some(_), Hop::Second) => Err(Error::Unavailable(
                "the content of this run is on another node, retry later".to_owned(),
            )),
            (holder, _) => Ok(holder),
        }
    }
}

fn event(row: EventRow) -> Result<Event, Error> {
    Ok(Event {
        id: row.seq,
        kind: row.kind,
        data: RawValue::from_string(row.data).map_err(|error| Error::Internal(error.to_string()))?,
        created_at: row.created_at,
    })
}
