//! An engine that starts on the store of a crashed worker: the runs that it resumes, and the errors of the others.

use std::time::Duration;

use futures_util::StreamExt;
use sortie_agent::{
    ToolContent,
    journal::{Entry, What},
    model::{Content, ToolCall, ToolResult},
    tool::Effect,
};
use sortie_api::{
    AuditId, KeyId, Micros, OrgId, Role, Run, RunId, RunStatus, Timestamp,
    event::EventType,
    secret::{SELF_HOSTED_KEY, Secret},
};
use sortie_engine::{Clock, Deltas, Hop, Options};
use sortie_store::{
    access::{Actor, Audit, Caller, NewKey},
    nodes::NodeId,
    runs::{Append, Created, EventRow, Fence, NewEntries, NewEvent, NewRun},
};
use tempfile::TempDir;

use crate::rig::{new_node, start, store_in};

/// A store after the loss of its node: a run is `running`, with a journal.
pub(crate) struct Left {
    dir: TempDir,
    org: OrgId,
    run: RunId,
    at: Timestamp,
}

pub(crate) fn entry(step: u32, what: What) -> String {
    serde_json::to_string(&Entry {
        step,
        spent_micros: Micros::new(300).unwrap(),
        what,
    })
    .unwrap()
}

fn intent(step: u32, effect: Effect) -> String {
    entry(
        step,
        What::Intent {
            id: format!("call_{step}"),
            tool: "send_mail".to_owned(),
            effect,
        },
    )
}

fn reply(step: u32) -> String {
    let call = ToolCall {
        id: format!("call_{step}"),
        name: "send_mail".to_owned(),
        arguments: "{}".to_owned(),
    };
    let content = vec![Content::ToolCall(call)];
    let reply = What::Reply {
        content,
        count: None,
        is_cut: false,
    };
    entry(step, reply)
}

fn result(step: u32) -> String {
    entry(
        step,
        What::Result(ToolResult {
            id: format!("call_{step}"),
            name: "send_mail".to_owned(),
            content: ToolContent::Text("done".to_owned()),
            is_error: false,
            note: None,
        }),
    )
}

impl Left {
    async fn with(journal: Vec<String>) -> Self {
        Self::of(r#"{"prompt":"hello","shell":false}"#.to_owned(), journal).await
    }

    /// The store of a worker that crashed after it had appended `journal`, at a cost of 500 micros.
    pub(crate) async fn of(definition: String, journal: Vec<String>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = store_in(&dir).await;
        let at = Clock::system().now();
        let org = OrgId::new(at, [1; 10]);
        let key = NewKey {
            id: KeyId::new(at, [1; 10]),
            org,
            name: "test".to_owned(),
            role: Role::Admin,
            hash: Secret::new(SELF_HOSTED_KEY, [1; 32]).hash(),
            created_at: at,
            expires_at: None,
        };
        let audit = Audit {
            id: AuditId::new(at, [1; 10]),
            org,
            at,
            actor: Actor::default(),
            action: "key.create",
            target: key.id.to_string(),
        };
        assert!(store.bootstrap("test", key, audit).await.unwrap());
        let run = NewRun {
            id: RunId::new(at, [2; 10]),
            org,
            idempotency_key: None,
            definition: definition.into(),
            inline: None,
            callback: None,
            max_cost: Micros::new(1_000_000).unwrap(),
            payment: sortie_store::money::Payment::Free,
            timeout_seconds: 60,
            labels: sortie_store::runs::Labels::default(),
            created_at: at,
            trace: None,
            allowance: None,
        };
        let (Created::New(run) | Created::Existing(run)) = store.create_run(run).await.unwrap();
        let node = new_node(NodeId(1), "local", at, Duration::from_hours(1));
        store.register_node(node).await.unwrap();
        let claim = store
            .claim_named(NodeId(1), vec![run.id], None, at)
            .await
            .unwrap()
            .remove(0);
        let running = NewEvent::new(&EventType::status(RunStatus::Running), at).unwrap();
        store.start_run(claim.fence, vec![running]).await.unwrap();
        let fence = Fence {
            last_event: claim.fence.last_event + 1,
            ..claim.fence
        };
        let new = Append {
            journal: NewEntries {
                after: 0,
                data: journal,
            },
            cost: Micros::new(500).unwrap(),
            ..Append::default()
        };
        store.append(fence, new).await.unwrap();
        Self {
            dir,
            org,
            run: run.id,
            at,
        }
    }

    /// Restarts the node. Returns the run at its end, and its events.
    pub(crate) async fn resumed(&self) -> (Run, Vec<EventRow>) {
        let store = store_in(&self.dir).await;
        let options = Options {
            data_dir: self.dir.path().to_owned(),
            shutdown_grace: Duration::from_millis(50),
            ..Options::default()
        };
        let engine = start(options, store.clone()).await;
        let caller = Caller {
            org: self.org,
            actor: Actor::default(),
        };
        let stream = engine.follow(&caller, self.run, (0, Deltas::Off), Hop::First);
        let mut stream = stream.await.unwrap();
        while !stream.next().await.expect("the run ends").unwrap().is_last() {}
        let run = store.get_run(self.org, self.run).await.unwrap();
        assert_eq!(run.started_at, Some(self.at));
        assert!(
            !run.billing_pending && run.cost_micros >= Micros::new(500).unwrap(),
            "{run:?}"
        );
        assert!(store.journal(self.run).await.unwrap().is_empty());
        let events = store.events_after(self.org, self.run, 0, 100).await.unwrap();
        engine.shutdown().await;
        (run, events)
    }
}

pub(crate) fn kinds(events: &[EventRow]) -> Vec<&str> {
    events.iter().map(|event| event.kind.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_goes_on_after_the_events_of_its_lost_worker() {
    let (run, events) = Left::with(Vec::new()).await.resumed().await;
    assert_eq!(
        (run.status, run.output.as_deref()),
        (RunStatus::Succeeded, Some("hello"))
    );
    let kinds = kinds(&events);
    assert_eq!(
        kinds[..5],
        ["status", "status", "status", "resumed", "worker_started"]
    );
    assert_eq!(kinds.iter().filter(|kind| **kind == "status").count(), 4);
    assert_eq!(events[3].data, r#"{"step":0,"attempt":2}"#);
    assert!((1..).zip(&events).all(|(at, event)| event.seq == at));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_with_a_call_in_doubt_ends_and_names_the_call() {
    let journal = vec![
        reply(1),
        intent(1, Effect::Outside),
        result(1),
        reply(2),
        intent(2, Effect::Outside),
    ];
    let left = Left::with(journal).await;
    let work = left.dir.path().join("work").join(left.run.to_string());
    std::fs::create_dir_all(&work).unwrap();
    let (run, events) = left.resumed().await;
    assert_eq!(run.status, RunStatus::Interrupted);
    assert_eq!(
        run.error.as_deref(),
        Some(
            "the worker that ran it was lost during the call call_2 of \"send_mail\", which may have had its effect"
        )
    );
    assert_eq!(
        kinds(&events),
        ["status", "status", "status", "interrupted", "status"]
    );
    assert_eq!(
        events[3].data,
        r#"{"reason":"uncertain_call","step":2,"tool":"send_mail","id":"call_2"}"#
    );
    assert!(!work.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_working_directory_is_gone_ends_where_it_depends_on_it() {
    let journal = vec![
        reply(1),
        intent(1, Effect::Directory),
        result(1),
        reply(2),
        intent(2, Effect::Directory),
    ];
    let (run, events) = Left::with(journal).await.resumed().await;
    assert_eq!(run.status, RunStatus::Interrupted);
    assert_eq!(
        run.error.as_deref(),
        Some("the worker that ran it was lost, and its working directory is gone")
    );
    assert_eq!(
        kinds(&events),
        ["status", "status", "status", "interrupted", "status"]
    );
    assert_eq!(events[3].data, r#"{"reason":"worker_lost","step":1}"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_journal_cannot_be_read_ends() {
    let (run, events) = Left::with(vec!["{\"step\":1}".to_owned()]).await.resumed().await;
    assert_eq!(run.status, RunStatus::Interrupted);
    assert_eq!(
        run.error.as_deref(),
        Some("the worker that ran it was lost, and its journal cannot be read")
    );
    assert_eq!(kinds(&events)[3], "interrupted");
}
