//! Erasure of deleted organizations on a node with a stopped clock and real files, by passes that are interrupted at any moment.

use std::{future::poll_fn, path::Path, pin::pin, task::Poll};

use serde_json::json;
use sortie_api::{AuditId, LedgerKind, Mode, OrgId, UserId};
use sortie_base::Clock;
use sortie_store::{
    access::{Actor, Audit},
    money::NewLedgerEntry,
    organizations::OrganizationDeletion,
    people::{NewOrganization, NewPerson},
};

use super::*;
use crate::{
    kit::options::Options,
    testing::{caller, engine, idle},
};

const START: Timestamp = Timestamp::from_micros(1_763_674_200_000_000);

/// Runs of each organization.
const RUNS: usize = 5;

struct Rig {
    engine: Engine,
    clock: Clock,
    owner: UserId,
    dir: tempfile::TempDir,
}

impl Rig {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = crate::testing::store_in(&dir).await;
        let clock = Clock::manual(START);
        // The runs stay in their status, and the test makes each pass.
        let options = Options {
            mode: Mode::Hosted,
            ..idle(&clock, dir.path())
        };
        let engine = engine(options, store).await;
        let owner = UserId::new(START, [1; 10]);
        let person = NewPerson {
            id: owner,
            email: "ann@example.com".to_owned(),
            email_key: "ann@example.com".to_owned(),
            name: "Ann".to_owned(),
            password: String::new(),
            created_at: START,
        };
        engine.store().sign_up(person, None, None).await.unwrap();
        Self {
            engine,
            clock,
            owner,
            dir,
        }
    }

    fn audit(&self, org: OrgId) -> Audit {
        Audit {
            id: AuditId::new(self.clock.now(), crate::kit::random::random().unwrap()),
            org,
            at: self.clock.now(),
            actor: Actor::default(),
            action: "test.change",
            target: "x".to_owned(),
        }
    }

    /// Makes an organization with files, runs, a workflow, a schedule and a budget. No other organization has the same content.
    async fn organization(&self, number: u8) -> OrgId {
        let org = OrgId::new(START, [number; 10]);
        let new = NewOrganization {
            id: org,
            name: "ours".to_owned(),
            owner: self.owner,
            created_at: START,
        };
        self.engine
            .store()
            .create_organization(new, self.audit(org))
            .await
            .unwrap();
        let grant = NewLedgerEntry {
            cause: format!("grant:{org}"),
            org,
            kind: LedgerKind::Grant,
            amount_micros: 1_000_000_000,
            description: "for tests".to_owned(),
            payment: None,
            topup: None,
            user: None,
            at: START,
        };
        let given = self.engine.store().move_credits(grant, self.audit(org));
        given.await.unwrap();
        let caller = caller(org);
        for name in ["a", "b", "c"] {
            let mut upload = self.engine.begin_upload(&caller).await.unwrap();
            upload.write(format!("{name} of {org}").as_bytes()).await.unwrap();
            let saved = self.engine.create_file(&caller, upload, name.to_owned(), None);
            saved.await.unwrap();
        }
        let definition = || json!({"prompt": "x", "shell": false, "model": "runbook"});
        let workflow = serde_json::from_value(definition()).unwrap();
        self.engine.put_workflow(&caller, "w", workflow).await.unwrap();
        let schedule = json!({"workflow": "w", "cron": "* * * * *"});
        let schedule = serde_json::from_value(schedule).unwrap();
        self.engine.create_schedule(&caller, schedule).await.unwrap();
        for _ in 0..RUNS {
            let request = serde_json::from_value(definition()).unwrap();
            self.engine.create_run(&caller, request, None).await.unwrap();
        }
        org
    }

    async fn delete(&self, org: OrgId) {
        let deletion = OrganizationDeletion {
            org,
            owner: self.owner,
            name: "ours".to_owned(),
            at: self.clock.now(),
        };
        let store = self.engine.store();
        store
            .delete_organization(deletion, self.audit(org))
            .await
            .unwrap();
    }

    /// Number of contents in the folder of an organization.
    fn contents(&self, org: OrgId) -> usize {
        fn below(folder: &Path) -> usize {
            let Ok(entries) = std::fs::read_dir(folder) else {
                return 0;
            };
            entries
                .map(|entry| entry.unwrap().path())
                .map(|path| if path.is_dir() { below(&path) } else { 1 })
                .sum()
        }
        below(&self.dir.path().join("blobs").join(org.to_string()))
    }

    /// Makes a pass that is dropped after `polls` polls. Returns true if it was complete before.
    async fn interrupted(&self, polls: usize) -> bool {
        let (mut pass, mut left) = (pin!(self.engine.erase()), polls);
        let ends = poll_fn(|context| {
            if left == 0 {
                return Poll::Ready(false);
            }
            left -= 1;
            pass.as_mut().poll(context).map(|done| {
                done.unwrap();
                true
            })
        });
        ends.await
    }

    async fn left(&self) -> Vec<OrgId> {
        let left = self.engine.store().deleted_organizations(None, 10).await;
        left.unwrap().items
    }

    fn execute(&self, sql: &str, parameter: &str) {
        let file = rusqlite::Connection::open(self.dir.path().join("test.db")).unwrap();
        assert_eq!(file.execute(sql, [parameter]).unwrap(), 1, "{sql}");
    }
}

#[tokio::test]
async fn an_erasure_that_is_interrupted_anywhere_is_completed_by_the_next_passes() {
    let rig = Rig::start().await;
    let (gone, stays) = (rig.organization(1).await, rig.organization(2).await);
    assert_eq!((rig.contents(gone), rig.contents(stays)), (3, 3));
    rig.delete(gone).await;
    let mut polls = 1;
    while !rig.interrupted(polls).await {
        polls += 1;
    }
    assert!(polls > 5, "the pass was interrupted {polls} times");
    assert_eq!((rig.contents(gone), rig.contents(stays)), (0, 3));
    assert_eq!(rig.left().await, [gone], "a late run may still come");
    rig.clock.set(START + MARGIN * 2);
    rig.engine.erase().await.unwrap();
    assert_eq!(rig.left().await, []);
    let store = rig.engine.store();
    assert_eq!(store.unsettled_runs(stays, None, 100).await.unwrap().len(), RUNS);
    assert_eq!(store.list_files(stays, None, 10).await.unwrap().len(), 3);
    let days = rig.engine.asked_usage((None, None), Vec::new()).unwrap();
    let used = rig.engine.usage_totals(gone, days.from, days.to).await.unwrap();
    assert_eq!(used.runs, i64::try_from(RUNS).unwrap(), "the usage stays");
}

#[tokio::test]
async fn an_organization_that_cannot_be_erased_holds_up_no_other() {
    let rig = Rig::start().await;
    let (broken, whole) = (rig.organization(1).await, rig.organization(2).await);
    rig.delete(broken).await;
    rig.delete(whole).await;
    rig.execute(
        "UPDATE schedule SET id = 'sched_broken' WHERE org_id = ?1",
        &broken.to_string(),
    );
    rig.clock.set(START + MARGIN * 2);
    rig.engine.erase().await.unwrap();
    assert_eq!(rig.left().await, [broken]);
    assert_eq!(rig.contents(whole), 0);
    rig.execute(
        "UPDATE schedule SET id = 'sched_01kafs6w1cefkstv6qr1ptb0mp' WHERE org_id = ?1",
        &broken.to_string(),
    );
    rig.engine.erase().await.unwrap();
    assert_eq!(rig.left().await, []);
    assert_eq!(rig.contents(broken), 0);
}

#[tokio::test]
async fn the_job_works_at_its_start_and_when_it_is_told_of_a_deletion() {
    let rig = Rig::start().await;
    let (first, second) = (rig.organization(1).await, rig.organization(2).await);
    rig.delete(first).await;
    let stop = CancellationToken::new();
    let look = async {
        while rig.contents(first) > 0 {
            tokio::task::yield_now().await;
        }
        rig.delete(second).await;
        rig.engine.erase_deleted();
        while rig.contents(second) > 0 {
            tokio::task::yield_now().await;
        }
        stop.cancel();
    };
    futures_util::join!(rig.engine.clone().keep_erasing(stop.clone()), look);
}
