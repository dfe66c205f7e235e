//! Nodes of a hosted deployment are killed while people sign up, organize themselves and let an application act for them.
//!
//! The clients record every acknowledged change. After each kill the record is compared with the API and the database:
//! one owner in every organization, no member lost, no code or token used twice.

mod apps;
mod check;
mod money;
mod ownership;
mod record;
mod requests;
mod team;

use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::try_join_all;
use tokio::task::JoinSet;

use self::{check::check_database, money::check_money, record::Tally, team::Team};
pub(crate) use self::{
    money::check_books,
    requests::{Call, Requests, Ways},
    team::text,
};
use crate::prelude::*;
use crate::{Checked, world::seeded};

every_deployment![people_of_a_deployment_survive_its_kills];

/// Minimum number of answers before a kill. A busy machine takes longer for them than the pause.
const ANSWERS: usize = 150;
/// Teams at once.
const TEAMS: usize = 8;

/// Number of kills in the ordinary run of the tests.
const ROUNDS: usize = 2;

/// Number of kills.
pub(crate) fn kills() -> Result<usize> {
    rounds("SORTIE_DURABILITY_ROUNDS", ROUNDS)
}

/// Nodes on one database, with clients.
struct Deployment {
    name: String,
    nodes: Vec<HostedNode>,
    ways: Ways,
    random: fastrand::Rng,
    teams: Vec<Team>,
    /// The operator's key.
    operator: String,
}

async fn people_of_a_deployment_survive_its_kills(database: Database, count: usize) -> Checked {
    let rounds = kills()?;
    let mut deployment = Deployment::start(database, count).await?;
    let begun = Instant::now();
    for round in 1..=rounds {
        deployment
            .round(round == rounds)
            .await
            .with_context(|| format!("round {round} of {rounds}"))?;
    }
    deployment.report(rounds, begun.elapsed())
}

impl Deployment {
    async fn start(database: Database, count: usize) -> Result<Self> {
        let name = format!("people of {count} on {}", database.as_str());
        let mut random = seeded(&name, database)?;
        let options = NodeOptions::default()
            .env("SORTIE_MASTER_KEY", &"5a".repeat(32))
            // The audit logs name the actions of each person.
            .env("SORTIE_LOG_FILTER", "warn,sortie::commands::serve=info")
            // Each request has a different address, or the limits of networks would end the load.
            .env("SORTIE_TRUSTED_PROXIES", "127.0.0.1");
        let binary = env!("CARGO_BIN_EXE_sortie");
        let first = HostedNode::start_with(binary, database, options.clone()).await?;
        let ways = Ways {
            org_url: first.org_url(),
            ..Ways::default()
        };
        let mut nodes = vec![first];
        while nodes.len() < count {
            nodes.push(nodes[0].beside(options.clone()).await?);
        }
        let operator = std::fs::read_to_string(nodes[0].node.data_dir().join("operator.key"))?;
        let operator = operator.trim().to_owned();
        let mut deployment = Self {
            name,
            operator: operator.clone(),
            nodes,
            teams: (0..TEAMS)
                .map(|team| Team {
                    operator: operator.clone(),
                    ..Team::new(format!("t{team}"), ways.clone(), random.fork())
                })
                .collect(),
            ways,
            random,
        };
        for nth in 0..count {
            deployment.open(nth)?;
        }
        Ok(deployment)
    }

    fn open(&mut self, nth: usize) -> Result<()> {
        let node = &self.nodes[nth];
        self.ways.org.open(nth, node.org_address);
        self.ways.engine.open(nth, node.node.address()?);
        Ok(())
    }

    async fn pause(&mut self, range: std::ops::Range<u64>) {
        let pause = Duration::from_millis(self.random.u64(range));
        tokio::time::sleep(pause).await;
    }

    /// Kills a node under load, starts it again, ends the load, and runs the audit.
    async fn round(&mut self, is_last: bool) -> Result<()> {
        let stop = Arc::<AtomicBool>::default();
        let mut load = JoinSet::new();
        let answered = |ways: &Ways| ways.figures.answered.load(Ordering::Relaxed);
        let before = answered(&self.ways);
        for team in std::mem::take(&mut self.teams) {
            load.spawn(team.act(Arc::clone(&stop)));
        }
        self.pause(800..2_500).await;
        while answered(&self.ways) < before + ANSWERS {
            // Before the stop flag is set, a team ends only because of a failure.
            if let Some(ended) = load.try_join_next() {
                ended??;
            }
            self.pause(10..20).await;
        }
        let nth = self.random.usize(..self.nodes.len());
        self.nodes[nth].node.kill()?;
        // Let the clients discover the kill on their own, before they are kept from the node.
        self.pause(0..100).await;
        self.ways.org.close(nth);
        self.ways.engine.close(nth);
        self.pause(0..500).await;
        self.nodes[nth].node.restart().await?;
        self.open(nth)?;
        self.pause(100..600).await;
        stop.store(true, Ordering::SeqCst);
        while let Some(team) = load.join_next().await {
            self.teams.push(team??);
        }
        self.teams.sort_by(|one, other| one.name.cmp(&other.name));
        let checks = self.teams.iter_mut().map(async |team| {
            let name = team.name.clone();
            let checked = team.check(is_last).await;
            checked.with_context(|| format!("the audit of team {name}"))
        });
        try_join_all(checks).await?;
        check_database(&self.nodes[0], &self.teams).await?;
        check_money(&self.nodes[0], &self.operator, &self.teams).await
    }

    /// Prints the figures. Fails if there was hardly any load.
    fn report(&self, rounds: usize, took: Duration) -> Checked {
        let figures = &self.ways.figures;
        let (answered, lost) = (
            figures.answered.load(Ordering::Relaxed),
            figures.lost.load(Ordering::Relaxed),
        );
        let sum = |of: fn(&Team) -> usize| self.teams.iter().map(of).sum::<usize>();
        let tally = |of: fn(&Tally) -> usize| self.teams.iter().map(|team| of(&team.tally)).sum::<usize>();
        let changes = sum(|team| {
            let changes = team.organizations.iter().map(|of| of.changes.count());
            changes.sum()
        });
        println!(
            "{}: {rounds} kills in {:.0} s; {answered} answers, {lost} attempts lost; {} people, {} organizations, \
             {} members, {changes} changes in the audit logs; {} invitations accepted, {} hand-overs, {} races for an \
             ownership; {} codes exchanged, {} refreshes, {} races for a token, {} replays, {} families ended by a \
             repetition behind a lost answer; {} grants, {} runs, {} that credits did not cover; nothing wrong",
            self.name,
            took.as_secs_f64(),
            sum(|team| team.people.len()),
            sum(|team| team.organizations.len()),
            sum(|team| team.organizations.iter().map(|of| of.members.len()).sum()),
            tally(|of| of.accepted),
            tally(|of| of.hand_overs),
            tally(|of| of.races),
            tally(|of| of.exchanged),
            tally(|of| of.refreshed),
            tally(|of| of.token_races),
            tally(|of| of.replays),
            tally(|of| of.reuse_after_loss),
            tally(|of| of.grants),
            tally(|of| of.runs),
            tally(|of| of.not_covered),
        );
        // A few kills may all come between two requests.
        ensure!(
            lost > 0 || rounds <= ROUNDS,
            "no request was under way when a node was killed"
        );
        ensure!(changes > rounds * TEAMS, "hardly any load: {changes} changes");
        Ok(())
    }
}
