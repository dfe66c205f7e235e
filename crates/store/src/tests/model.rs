//! Random commands against a small model of the status machine. The store answers as the model does, and the
//! rules hold after every sequence.

mod commands;

use proptest::prelude::*;

use self::commands::{Command, Stale, command};
use super::prelude::*;
use crate::{
    Result,
    nodes::SeenLease,
    runs::{Held, NewEntries, Settled},
};

/// Run in the model.
#[derive(Clone, Debug)]
struct ModelRun {
    id: RunId,
    org: OrgId,
    status: RunStatus,
    attempt: i64,
    resumes: i64,
    last_event: i64,
    journal: Vec<String>,
    cost: Micros,
    node: Option<NodeId>,
    /// Whether the run was cancelled and its worker has not reported its cost.
    unsettled: bool,
}

impl ModelRun {
    fn fence(&self) -> Fence {
        Fence {
            run: self.id,
            attempt: self.attempt,
            last_event: self.last_event,
        }
    }

    fn is_held(&self) -> bool {
        matches!(self.status, RunStatus::Starting | RunStatus::Running)
    }

    /// Whether the run counts against the limit of its organization.
    fn occupies(&self) -> bool {
        self.is_held() || self.unsettled
    }

    /// Gives the run to a node, in another attempt.
    fn lose(&mut self, taker: NodeId) {
        self.attempt += 1;
        self.resumes += 1;
        self.node = Some(taker);
    }

    fn interrupt(&mut self) {
        self.status = RunStatus::Interrupted;
        self.last_event += 2;
        self.journal.clear();
    }

    fn is_tired(&self) -> bool {
        self.resumes >= 4
    }

    /// Expected answer to a worker that presents `fence` and wants to change to `next`; `None` means an
    /// append.
    fn verdict(&self, fence: Fence, next: Option<RunStatus>) -> Result<()> {
        let is_same = fence == self.fence();
        match next {
            Some(next) if is_same && self.status.may_become(next) => Ok(()),
            Some(_) if is_same => Err(Error::Conflict("the run may not go from its status to this one")),
            None if is_same && self.is_held() => Ok(()),
            Some(_) | None => Err(Error::Fenced),
        }
    }
}

/// Model of the whole store, with the store that it is compared with.
struct Model<'a> {
    fixture: &'a Fixture,
    orgs: Vec<OrgId>,
    /// Live incarnation of each of two nodes, and whether its lease has expired.
    nodes: [(NodeId, bool); 2],
    /// Nodes that were replaced or lost and still have runs to end.
    gone: Vec<NodeId>,
    runs: Vec<ModelRun>,
    keys: BTreeMap<(OrgId, u8), RunId>,
    last_org: String,
}

impl<'a> Model<'a> {
    async fn new(fixture: &'a Fixture) -> Self {
        Self {
            fixture,
            orgs: vec![fixture.org().await, fixture.org().await, fixture.org().await],
            nodes: [
                (fixture.node_named("0").await, false),
                (fixture.node_named("1").await, false),
            ],
            gone: Vec::new(),
            runs: Vec::new(),
            keys: BTreeMap::new(),
            last_org: String::new(),
        }
    }

    async fn apply(&mut self, command: Command) {
        match command {
            Command::Create { org, key } => self.create(org, key).await,
            Command::Claim { node, limit, cap } => self.claim(node, limit, cap).await,
            Command::Lose { node } => {
                // The lease expires. Only the next sweep notices.
                let (id, lost) = self.nodes[node];
                let renewed = self
                    .fixture
                    .store
                    .heartbeat(id, Timestamp::from_micros(0), Duration::ZERO)
                    .await;
                let fenced = self.is_fenced(id).then_some(Error::Fenced);
                assert_eq!(renewed.as_ref().err(), fenced.as_ref());
                self.nodes[node] = (id, lost || renewed.is_ok());
            }
            Command::Sweep { node, limit, places } => self.sweep(node, limit, places).await,
            Command::Restart { node } => {
                let (old, _) = self.nodes[node];
                self.gone.push(old);
                self.nodes[node] = (self.fixture.node_named(&node.to_string()).await, false);
            }
            Command::Start { run, .. }
            | Command::Append { run, .. }
            | Command::Finish { run, .. }
            | Command::Cancel { run } => {
                if !self.runs.is_empty() {
                    self.drive(run % self.runs.len(), command).await;
                }
            }
            Command::Settle { run, stale, events } => {
                if !self.runs.is_empty() {
                    self.settle(run % self.runs.len(), stale, events).await;
                }
            }
            Command::Abandon { node, run } => {
                if !self.runs.is_empty() {
                    self.abandon(node, run % self.runs.len()).await;
                }
            }
        }
    }

    fn is_fenced(&self, node: NodeId) -> bool {
        self.gone.contains(&node)
    }

    async fn create(&mut self, org: usize, key: Option<u8>) {
        let org = self.orgs[org];
        let mut new = self.fixture.new_run(org);
        new.idempotency_key = key.map(|key| key.to_string());
        let created = self.fixture.store.create_run(new.clone()).await.unwrap();
        if let Some(existing) = key.and_then(|key| self.keys.get(&(org, key)).copied()) {
            assert!(matches!(created, Created::Existing(run) if run.id == existing));
            return;
        }
        assert!(matches!(created, Created::New(run) if run.id == new.id));
        self.keys.extend(key.map(|key| ((org, key), new.id)));
        self.runs.push(ModelRun {
            id: new.id,
            org,
            status: RunStatus::Queued,
            attempt: 0,
            resumes: 0,
            last_event: 1,
            journal: Vec::new(),
            cost: Micros::ZERO,
            node: None,
            unsettled: false,
        });
    }

    /// Returns the runs that a claim takes: the oldest run of each organization in turn, beginning after the
    /// organization served last.
    fn expected_claim(&mut self, limit: u32, cap: Option<u32>) -> Vec<usize> {
        let mut orgs: Vec<(String, OrgId)> = self.orgs.iter().map(|org| (org.to_string(), *org)).collect();
        orgs.sort_by_key(|(name, _)| (*name <= self.last_org, name.clone()));
        let mut taken = Vec::new();
        loop {
            let before = taken.len();
            for (name, org) in &orgs {
                let of_org = |runs: &ModelRun| runs.org == *org;
                let held = self
                    .runs
                    .iter()
                    .filter(|run| of_org(run) && run.occupies())
                    .count()
                    + taken
                        .iter()
                        .filter(|&&run: &&usize| self.runs[run].org == *org)
                        .count();
                let next = (0..self.runs.len()).find(|run| {
                    let model = &self.runs[*run];
                    of_org(model) && model.status == RunStatus::Queued && !taken.contains(run)
                });
                let is_full = taken.len() >= limit as usize || cap.is_some_and(|cap| held >= cap as usize);
                if let (Some(run), false) = (next, is_full) {
                    taken.push(run);
                    self.last_org.clone_from(name);
                }
            }
            if taken.len() == before {
                taken.sort_unstable();
                return taken;
            }
        }
    }

    async fn claim(&mut self, node: usize, limit: u32, cap: Option<u32>) {
        let (node, _) = self.nodes[node];
        let claims = self
            .fixture
            .store
            .claim_runs(node, limit, cap, self.fixture.now())
            .await;
        if self.is_fenced(node) && limit > 0 {
            assert_eq!(claims.unwrap_err(), Error::Fenced);
            return;
        }
        let expected = self.expected_claim(limit, cap);
        let claimed: Vec<Fence> = claims.unwrap().iter().map(|claim| claim.fence).collect();
        for &run in &expected {
            let run = &mut self.runs[run];
            run.status = RunStatus::Starting;
            run.attempt += 1;
            run.last_event += 1;
            run.node = Some(node);
        }
        let expected: Vec<Fence> = expected.iter().map(|&run| self.runs[run].fence()).collect();
        assert_eq!(claimed, expected);
    }

    /// Applies a command to one run.
    async fn drive(&mut self, run: usize, command: Command) {
        let fixture = self.fixture;
        let run = &mut self.runs[run];
        match command {
            Command::Start { stale, .. } => {
                let fence = stale.of(run.fence());
                let expected = run.verdict(fence, Some(RunStatus::Running));
                assert_eq!(fixture.start(fence).await.map(drop), expected);
                if expected.is_ok() {
                    run.status = RunStatus::Running;
                    run.last_event += 1;
                }
            }
            Command::Append {
                events,
                entries,
                stale,
                ..
            } => {
                let fence = stale.of(run.fence());
                let expected = run.verdict(fence, None);
                let cost = Micros::new(fixture.number().unsigned_abs()).unwrap();
                let new = Append {
                    events: (0..events).map(|_| fixture.message("x")).collect(),
                    journal: NewEntries {
                        after: i64::try_from(run.journal.len()).unwrap(),
                        data: (0..entries).map(|_| fixture.number().to_string()).collect(),
                    },
                    cost,
                    usage: sortie_api::RunUsage::default(),
                };
                assert_eq!(fixture.store.append(fence, new.clone()).await, expected);
                if expected.is_ok() {
                    run.cost = cost;
                    run.journal.extend(new.journal.data);
                    run.last_event += i64::try_from(events).unwrap();
                }
            }
            Command::Finish { status, stale, .. } => {
                let fence = stale.of(run.fence());
                let expected = if status.is_final() {
                    run.verdict(fence, Some(status))
                } else {
                    Err(Error::Conflict("a run ends with a final status"))
                };
                let finish = fixture.finish(status, Some("out"), None);
                let finished = fixture.store.finish_run(fence, finish.clone()).await;
                assert_eq!(finished.map(drop), expected);
                if expected.is_ok() {
                    run.status = status;
                    run.cost = finish.cost;
                    run.last_event += 2;
                    run.journal.clear();
                }
            }
            Command::Cancel { .. } => {
                let cancelled = fixture.store.cancel_run(run.org, run.id, fixture.now()).await;
                match cancelled.unwrap() {
                    Cancelled::Now(_) => {
                        assert!(run.status.may_become(RunStatus::Cancelled));
                        run.unsettled = run.is_held();
                        run.status = RunStatus::Cancelled;
                        run.last_event += 1;
                    }
                    Cancelled::AlreadyFinal(_) => assert!(run.status.is_final()),
                }
            }
            Command::Settle { .. }
            | Command::Abandon { .. }
            | Command::Create { .. }
            | Command::Claim { .. }
            | Command::Lose { .. }
            | Command::Sweep { .. }
            | Command::Restart { .. } => panic!("not a command on a run: {command:?}"),
        }
    }

    /// Reports the cost of a cancelled run, as its worker does.
    async fn settle(&mut self, run: usize, stale: Stale, events: usize) {
        let run = &mut self.runs[run];
        let attempt = stale.of(run.fence()).attempt;
        let is_due = run.unsettled && attempt == run.attempt;
        let cost = Micros::new(self.fixture.number().unsigned_abs()).unwrap();
        let settled = self
            .fixture
            .store
            .settle_run(
                run.id,
                attempt,
                of_calls(cost),
                vec![self.fixture.called(cost); events],
            )
            .await;
        let last_event = run.last_event + i64::try_from(events).unwrap();
        let expected = if is_due {
            Ok(Settled { last_event, cost })
        } else {
            Err(Error::Fenced)
        };
        assert_eq!(settled, expected);
        if is_due {
            run.last_event = last_event;
            run.unsettled = false;
            run.cost = cost;
            run.journal.clear();
        }
    }

    /// Takes over a run again that the node holds without a task, unless the node is lost.
    async fn abandon(&mut self, node: usize, run: usize) {
        let (node, _) = self.nodes[node];
        let is_fenced = self.is_fenced(node);
        let (run, at) = (&mut self.runs[run], self.fixture.now());
        let swept = self
            .fixture
            .store
            .retake_held(node, vec![run.id], at, Micros::ZERO)
            .await;
        let holds = run.node == Some(node);
        if is_fenced && holds && run.is_held() && !run.is_tired() {
            assert_eq!(swept.unwrap_err(), Error::Fenced);
            return;
        }
        let swept = swept.unwrap();
        let is_open = holds && run.is_held();
        assert_eq!(swept.ended.len(), usize::from(is_open && run.is_tired()));
        assert_eq!(swept.taken.len(), usize::from(is_open && !run.is_tired()));
        if is_open && run.is_tired() {
            run.interrupt();
        } else if is_open {
            run.lose(node);
            assert_eq!(swept.taken[0].fence, run.fence());
        } else if holds && run.unsettled {
            run.unsettled = false;
            run.journal.clear();
        }
    }

    async fn sweep(&mut self, node: usize, limit: u32, places: u32) {
        let (sweeper, is_lost) = self.nodes[node];
        let at = self.fixture.now();
        if !is_lost {
            // The lease is not renewed if the node was declared lost.
            drop(self.fixture.renew(sweeper, at).await);
        }
        let is_alive = !is_lost && !self.is_fenced(sweeper);
        // The sweeping node never declares itself lost, and declares no other node lost while its own lease
        // has expired.
        let declared = |(id, lost): &(NodeId, bool)| *lost && *id != sweeper && is_alive;
        let mut gone = self.gone.clone();
        gone.extend(self.nodes.iter().filter(|node| declared(node)).map(|(id, _)| *id));
        let of_gone = |run: &ModelRun| run.node.is_some_and(|node| gone.contains(&node));
        let lost = |tired| {
            let of = |run: &&ModelRun| run.is_held() && of_gone(run) && run.is_tired() == tired;
            self.runs.iter().filter(of).count()
        };
        let (to_end, to_take) = (lost(true), lost(false));
        let mut overdue = self.fixture.overdue(Timestamp::from_micros(i64::MAX)).await;
        let is_lost = |seen: &SeenLease| self.nodes.contains(&(seen.node, true));
        overdue.retain(is_lost);
        let sweep = Sweep {
            places,
            overdue,
            ..sweep(sweeper, at, limit)
        };
        let swept = self.fixture.store.sweep(sweep).await;
        if self.is_fenced(sweeper) && places > 0 && to_take > 0 {
            assert_eq!(swept.unwrap_err(), Error::Fenced);
            return;
        }
        let swept = swept.unwrap();
        assert_eq!(swept.ended.len(), to_end.min(limit as usize));
        assert_eq!(swept.taken.len(), to_take.min(places as usize));
        let is_done = swept.ended.len() < limit as usize;
        for run in &mut self.runs {
            if swept.ended.contains(&(run.org, run.id)) {
                assert!(of_gone(run) && run.is_held() && run.is_tired(), "{run:?}");
                run.interrupt();
            } else if let Some(claim) = swept.taken.iter().find(|claim| claim.fence.run == run.id) {
                assert!(of_gone(run) && run.is_held() && !run.is_tired(), "{run:?}");
                run.lose(sweeper);
                assert_eq!(claim.fence, run.fence());
            } else if run.unsettled && of_gone(run) {
                run.unsettled = self.fixture.get(run.org, run.id).await.billing_pending;
                assert!(!run.unsettled || !is_done, "{run:?}");
                if !run.unsettled {
                    run.journal.clear();
                }
            }
        }
        for (id, lost) in &mut self.nodes {
            *lost &= *id == sweeper || !is_alive;
        }
        self.gone = gone;
    }

    async fn compare(&self) {
        self.fixture.check().await;
        for model in &self.runs {
            let run = self.fixture.get(model.org, model.id).await;
            assert_eq!(
                (run.status, run.cost_micros, run.billing_pending),
                (
                    model.status,
                    model.cost,
                    model.unsettled || !model.status.is_final()
                ),
                "{model:?}"
            );
            let journal = self.fixture.store.journal(model.id).await.unwrap();
            assert_eq!(journal, model.journal, "{model:?}");
            let events = self.fixture.events(model.org, model.id).await;
            assert_eq!(
                events.last().map(|event| event.seq),
                Some(model.last_event),
                "{model:?}"
            );
        }
        for node in self.gone.iter().copied().chain(self.nodes.map(|(node, _)| node)) {
            let held = self.fixture.store.held_runs(node).await.unwrap();
            let mut expected: Vec<Held> = self
                .runs
                .iter()
                .filter(|run| run.node == Some(node) && run.occupies())
                .map(|run| Held {
                    run: run.id,
                    status: Some(run.status),
                })
                .collect();
            expected.sort_by_key(|held| held.run);
            assert_eq!(held, expected);
        }
    }
}

fn compare(cases: u32, fixture: impl AsyncFn() -> Fixture) {
    let commands = prop::collection::vec(command(), 1..60);
    with_random(cases, &commands, fixture, &async |fixture, commands| {
        let mut model = Model::new(fixture).await;
        for command in commands {
            model.apply(command).await;
        }
        model.compare().await;
    });
}

#[test]
fn any_sequence_of_commands_does_what_the_model_does_on_sqlite() {
    compare(150, Fixture::sqlite);
}

#[test]
fn any_sequence_of_commands_does_what_the_model_does_on_postgres() {
    compare(12, Fixture::postgres);
}
