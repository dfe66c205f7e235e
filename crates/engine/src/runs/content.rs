//! Content of runs for clients: the run itself, its events, its definition.
//!
//! The store has the content of ordinary runs. The content of a run without retention is in the memory of one node. This node
//! answers from its memory or asks the node that has the content. Once no node has the content, the store returns the remaining
//! fields.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::stream::BoxStream;
use sortie_api::{ErrorCode, OrgId, Refusal, Run, RunId, event::kind};
use sortie_store::{
    access::Caller,
    runs::{ContentHolder, EventSelection, LargeText, ListedEvent, ListedRun, RunFilter, StoredDefinition},
};

use crate::{
    Engine,
    cluster::peers::{Hop, Peer, PeerStream},
    runs::hub::{Batch, Deltas},
};

impl Engine {
    /// Returns a run as soon as its status is terminal, and at the latest after `wait`. For a run with zero data retention and
    /// without a callback, only the first caller gets the output. Any other large output is left out.
    pub async fn get_run(
        &self,
        caller: &Caller,
        id: RunId,
        wait: Duration,
        hop: Hop,
    ) -> Result<ListedRun, Refusal> {
        let whole = |run| ListedRun {
            run,
            has_large_output: false,
        };
        let (node, org) = (&self.0, caller.org);
        self.until_final(org, id, wait).await?;
        if node.stores.records.unretained.holds(id) {
            let unretained = &node.stores.records.unretained;
            let read = unretained.read_once(&node.stores.database, org, id).await;
            return read.map(whole);
        }
        let listed = node.stores.database.get_listed_run(org, id).await?;
        if !listed.run.zero_data_retention {
            return Ok(listed);
        }
        match self.holder(org, id, hop).await? {
            Some(holder) => node.cluster.peers.run(&holder, caller, id, wait).await.map(whole),
            None => Ok(node.stores.database.get_listed_run(org, id).await?),
        }
    }

    /// Returns a run as [`get_run`](Self::get_run) does, without side effects: an output that can be read once is left out and
    /// stays readable. Other nodes are not asked, so this does not wait for a run with content on another node.
    pub async fn look_at_run(&self, org: OrgId, id: RunId, wait: Duration) -> Result<Run, Refusal> {
        self.until_final(org, id, wait).await?;
        self.0.stores.records.run(org, id).await
    }

    async fn until_final(&self, org: OrgId, id: RunId, wait: Duration) -> Result<(), Refusal> {
        if wait.is_zero() {
            return Ok(());
        }
        match self.0.work.hub.until_final(org, id, wait).await {
            Err(error) if error.code != ErrorCode::Gone => Err(error),
            // The node that has the content waits for the end.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Streams a run's events after `after`, then new ones as they happen, then `done`. Ends early when the node stops.
    pub async fn follow(
        &self,
        caller: &Caller,
        id: RunId,
        (after, deltas): (i64, Deltas),
        hop: Hop,
    ) -> Result<BoxStream<'static, Result<Arc<Batch>, Refusal>>, Refusal> {
        match self.0.work.hub.follow(caller.org, id, after, deltas).await {
            Err(error) if error.code == ErrorCode::Gone => {
                let deltas = deltas == Deltas::Live;
                let stream = PeerStream {
                    target: format!("events?after={after}&deltas={deltas}"),
                    last_line: b"event: done\n",
                };
                self.follow_elsewhere(caller, id, stream, hop).await
            }
            other => other,
        }
    }

    /// Streams as [`follow`](Self::follow) does, but begins with the last model call before the event `after`. If another node has
    /// the content, that node is asked for its UI message stream after `position`, and the pieces of the answer are passed on.
    pub async fn follow_ui_messages(
        &self,
        caller: &Caller,
        id: RunId,
        (after, position): (i64, &str),
        deltas: Deltas,
        hop: Hop,
    ) -> Result<BoxStream<'static, Result<Arc<Batch>, Refusal>>, Refusal> {
        match self.follow_from_model_call(caller.org, id, after, deltas).await {
            Err(error) if error.code == ErrorCode::Gone => {
                let deltas = deltas == Deltas::Live;
                let stream = PeerStream {
                    target: format!("ui-messages?lastEventId={position}&deltas={deltas}"),
                    last_line: b"data: [DONE]\n",
                };
                self.follow_elsewhere(caller, id, stream, hop).await
            }
            other => other,
        }
    }

    async fn follow_from_model_call(
        &self,
        org: OrgId,
        id: RunId,
        after: i64,
        deltas: Deltas,
    ) -> Result<BoxStream<'static, Result<Arc<Batch>, Refusal>>, Refusal> {
        let model_calls = EventSelection {
            before: after,
            kinds: vec![kind::MODEL_CALL],
            ..EventSelection::after(0)
        };
        // Without a model call before it, the stream begins with the first event.
        let start = match after {
            0 => 0,
            _ => self.newest_events(org, id, &model_calls, 1).await?,
        };
        self.0.work.hub.follow(org, id, start, deltas).await
    }

    async fn follow_elsewhere(
        &self,
        caller: &Caller,
        id: RunId,
        stream: PeerStream,
        hop: Hop,
    ) -> Result<BoxStream<'static, Result<Arc<Batch>, Refusal>>, Refusal> {
        let holder = self.events_holder(caller.org, id, hop).await?;
        self.0.cluster.peers.follow(&holder, caller, id, stream).await
    }

    /// Streams each change of status and each settlement of the organization's runs that the filter admits, after a position. Begins
    /// with a `reset` if this node does not know the position. Ends when the node stops.
    pub fn follow_list(
        &self,
        org: OrgId,
        filter: RunFilter,
        after: Option<&str>,
    ) -> Result<BoxStream<'static, Result<Arc<Batch>, Refusal>>, Refusal> {
        self.0.work.hub.feeds().follow(org, filter, after)
    }

    /// Returns selected recorded events of a run, in order, at most `limit`. Large data is left out.
    /// `Gone` if this node does not have the events of a run without retention.
    pub async fn list_events(
        &self,
        org: OrgId,
        id: RunId,
        selection: &EventSelection,
        limit: u32,
    ) -> Result<Vec<ListedEvent>, Refusal> {
        self.0.stores.records.list_events(org, id, selection, limit).await
    }

    /// Returns the position that the newest `limit` selected events of a run follow. Fails as [`Self::list_events`] does.
    pub async fn newest_events(
        &self,
        org: OrgId,
        id: RunId,
        selection: &EventSelection,
        limit: u32,
    ) -> Result<i64, Refusal> {
        self.0
            .stores
            .records
            .newest_events(org, id, selection, limit)
            .await
    }

    /// Returns the JSON array of at most `limit` selected events of a run from the other node that has them, piece by piece.
    pub async fn events_elsewhere(
        &self,
        caller: &Caller,
        id: RunId,
        (selection, limit): (&EventSelection, u32),
        hop: Hop,
    ) -> Result<BoxStream<'static, Result<Bytes, Refusal>>, Refusal> {
        let holder = self.events_holder(caller.org, id, hop).await?;
        let events = (selection, limit);
        self.0.cluster.peers.events(&holder, caller, id, events).await
    }

    /// Returns a text that a list, a definition or a stream leaves out because it is large.
    pub async fn large_text(&self, org: OrgId, text: LargeText) -> Result<String, Refusal> {
        self.0.stores.records.large_text(org, text).await
    }

    /// Returns the definition of a run. `Gone` for a run without retention.
    pub async fn run_definition(&self, org: OrgId, id: RunId) -> Result<StoredDefinition, Refusal> {
        match self.store().run_definition(org, id).await {
            Err(sortie_store::Error::Unretained) => {
                Err(ErrorCode::Gone.because("the run has zero data retention: its definition was never kept"))
            }
            other => Ok(other?),
        }
    }

    /// Returns the caller for whom another node sends a request, or `None` if no node has signed the request.
    pub fn peer(&self, method: &str, target: &str, header: &str) -> Option<Peer> {
        self.0.cluster.peers.verify(method, target, header)
    }

    async fn events_holder(&self, org: OrgId, id: RunId, hop: Hop) -> Result<ContentHolder, Refusal> {
        let forgotten = || {
            ErrorCode::Gone.because(
                "the run has zero data retention: its events were kept while it worked and for five minutes \
                 afterwards",
            )
        };
        if self.0.stores.records.unretained.holds(id) {
            return Err(forgotten());
        }
        self.holder(org, id, hop).await?.ok_or_else(forgotten)
    }

    /// Returns the other node that has the content of a run, or `None` if no node has it.
    async fn holder(&self, org: OrgId, id: RunId, hop: Hop) -> Result<Option<ContentHolder>, Refusal> {
        let holder = self.store().content_holder(org, id).await?;
        let is_elsewhere = |holder: &ContentHolder| holder.node != self.0.cluster.identity.get();
        match (holder.filter(is_elsewhere), hop) {
            // The process of a lost node may still be running and register again with the output.
            (Some(holder), _) if holder.is_lost && holder.has_answer => Err(ErrorCode::Unavailable.because(
                "the node that holds the output of this run cannot be reached: the output is available once it comes \
                 back, and is deleted at output_expires_at")),
            // The sweep is about to abandon the content, or the output is for the receiver of the callback.
            (Some(holder), _) if holder.is_lost => Ok(None),
            // A request is forwarded only once: the first node took this node for the holder.
            (Some(_), Hop::Second) => Err(ErrorCode::Unavailable.because(
                "the content of this run is on another node, retry later")),
            (holder, _) => Ok(holder),
        }
    }
}
