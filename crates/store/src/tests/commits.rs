//! Lost and late commits of every command that writes, on PostgreSQL. The answer to a commit is lost after it took place, or
//! the commit never reaches the server, or its answer is late. The commands are those of the atomicity tests: a command that
//! is tested there is tested here.
#![expect(clippy::future_not_send, reason = "the tests await everything on one thread")]

use std::{
    path::Path,
    pin::Pin,
    sync::atomic::{AtomicUsize, Ordering},
    time::Instant,
};

use futures_util::{StreamExt, stream};
use sortie_testkit::{CommitFault, CommitProxy, Database, Which, list, postgres::TestDatabase};
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls, Statement};

use super::{
    atomicity, atomicity_accounts, atomicity_auto_topups, atomicity_refunds,
    prelude::*,
    settings::{migrated, options},
};
use crate::Result;

/// A test that proves commands on the fixture.
pub(super) type Scenario = for<'a> fn(&'a Fixture) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

/// Delay of a late answer: longer than any client waits for its next try, shorter than the store waits for the server.
const LATE: Duration = Duration::from_secs(3);
/// Approximate number of late commands of one database. The other commands of a scenario are late on another
/// database, so that the delays overlap.
const LATE_ONES: usize = 8;
/// Number of concurrent scenarios without waits.
const AT_ONCE: usize = 4;

/// Faults of the commits of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Each commit of each command is lost, before and after it took place.
    Lost,
    /// Every commit of every n-th command is late.
    Late {
        /// Number of the first late command.
        first: usize,
        /// Distance to the next late command.
        every: usize,
    },
}

/// Effect of another try of a command that has succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// Another try changes nothing, or is refused.
    Nothing,
    /// Another try does the next step.
    Step,
}

/// Proxy before a fixture's database, with the faults of its commits.
pub(super) struct Behind {
    proxy: CommitProxy,
    fault: Fault,
    proven: AtomicUsize,
    rows: Rows,
}

impl Behind {
    /// Starts a fixture with a store that reaches its database through a proxy with these faults.
    async fn start(fault: Fault) -> anyhow::Result<Fixture> {
        let with_copies = async |url: &str| {
            Store::open(url).await?;
            TestDatabase::at(url.to_owned()).execute(PREPARE).await
        };
        let database = TestDatabase::made_by(Database::Postgres, "commits", with_copies).await?;
        let proxy = CommitProxy::start(database.server()?).await?;
        // The store has one connection for commands, because many stores are open at the same time.
        let store = Store::open_with(&database.url_at(proxy.address())?, options(1)).await?;
        let behind = Self {
            proxy,
            fault,
            proven: AtomicUsize::new(0),
            rows: Rows::of(database.url()).await?,
        };
        Ok(Fixture::with(store, database, Some(behind)))
    }

    /// Proves a command under the faults of this fixture, then runs it without faults and returns that value.
    /// Every run has the same arguments and begins with the same rows.
    pub(super) async fn prove<T>(
        &self,
        fixture: &Fixture,
        then: Again,
        command: impl AsyncFn() -> Result<T>,
    ) -> T {
        let nth = self.proven.fetch_add(1, Ordering::SeqCst);
        if let Fault::Late { first, every } = self.fault
            && nth % every != first
        {
            return command().await.expect("nothing is late");
        }
        let start = Start::of(fixture, &self.rows).await;
        self.proxy.take_commits();
        command().await.map(drop).expect("nothing is lost");
        let commits = self.proxy.take_commits();
        assert!(commits > 0, "the command commits nothing");
        let done = self.rows.state().await;
        start.again(fixture, &self.rows).await;
        match self.fault {
            Fault::Lost => {
                for nth in 1..=commits {
                    self.lose_before(fixture, (&start, &done), nth, &command).await;
                    self.lose_after(fixture, (&start, &done), (nth, commits, then), &command)
                        .await;
                }
                command().await.expect("nothing is lost")
            }
            Fault::Late { .. } => {
                self.proxy.delay_commits(LATE);
                let begun = Instant::now();
                let value = command().await.expect("late, and done");
                self.proxy.delay_commits(Duration::ZERO);
                assert!(begun.elapsed() >= LATE, "the commit was not late");
                assert_eq!(self.proxy.take_commits(), commits, "done once");
                assert_eq!(self.rows.state().await, done, "done once");
                value
            }
        }
    }

    /// Loses `COMMIT` on its way to the server. The caller gets `Unavailable`, nothing was changed, and another try takes
    /// full effect.
    async fn lose_before<T>(
        &self,
        fixture: &Fixture,
        (start, done): (&Start, &[String]),
        nth: u64,
        command: &impl AsyncFn() -> Result<T>,
    ) {
        self.proxy.fail(Which::Nth(nth), CommitFault::LostBefore);
        unavailable(command().await);
        assert!(!self.proxy.disarm(), "no commit was lost");
        if nth == 1 {
            assert_eq!(self.rows.state().await, start.rows, "nothing was committed");
        }
        start.same_arguments(fixture);
        command().await.map(drop).expect("nothing was done");
        assert_eq!(self.rows.state().await, done, "another try does all of it");
        start.again(fixture, &self.rows).await;
        self.proxy.take_commits();
    }

    /// Loses the answer to `COMMIT`. The caller gets `Unavailable`, and the command has taken effect once. Another try
    /// changes nothing, unless the command advances by steps.
    async fn lose_after<T>(
        &self,
        fixture: &Fixture,
        (start, done): (&Start, &[String]),
        (nth, commits, then): (u64, u64, Again),
        command: &impl AsyncFn() -> Result<T>,
    ) {
        self.proxy.fail(Which::Nth(nth), CommitFault::LostAfter);
        unavailable(command().await);
        assert!(!self.proxy.disarm(), "no commit was lost");
        assert_eq!(self.proxy.take_commits(), nth, "done once");
        if nth == commits {
            assert_eq!(self.rows.state().await, done, "it was committed");
        }
        start.same_arguments(fixture);
        let again = command().await.map(drop);
        let is_answered = match &again {
            Ok(()) | Err(Error::Fenced | Error::Conflict(_) | Error::NotFound) => true,
            // The id exists already: callers use a new one for each try.
            Err(Error::Database(text)) => text.contains("_pkey"),
            Err(_) => false,
        };
        assert!(is_answered, "another try is answered: {again:?}");
        if then == Again::Nothing {
            assert_eq!(
                self.rows.state().await,
                done,
                "another try does nothing more: {again:?}"
            );
        }
        start.again(fixture, &self.rows).await;
        self.proxy.take_commits();
    }
}

fn unavailable<T>(told: Result<T>) {
    let told = told.map(drop);
    assert!(matches!(told, Err(Error::Unavailable(_))), "{told:?}");
}

/// Initial state of a command: the rows of all tables, and the next number of the fixture, which determines the arguments.
struct Start {
    rows: Vec<String>,
    number: i64,
}

/// Makes a schema for copies of all tables.
const PREPARE: &str = "CREATE SCHEMA kept; DO $$ DECLARE t text; BEGIN \
    FOR t IN SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = 'public' LOOP \
    EXECUTE 'CREATE TABLE kept.' || t || ' AS TABLE public.' || t; END LOOP; END $$";
/// Copies the tables that have rows or had some before.
const KEEP: &str = "DO $$ DECLARE t text; BEGIN \
    FOR t IN SELECT quote_ident(relname) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' \
    AND pg_relation_size(oid) + pg_relation_size(to_regclass('kept.' || quote_ident(relname))) > 0 LOOP \
    EXECUTE 'DELETE FROM kept.' || t; \
    EXECUTE 'INSERT INTO kept.' || t || ' SELECT * FROM public.' || t; END LOOP; END $$";
/// Restores these tables from their copies, without checks of foreign keys.
const RESTORE: &str = "SET LOCAL session_replication_role = replica; DO $$ DECLARE t text; BEGIN \
    FOR t IN SELECT quote_ident(relname) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' \
    AND pg_relation_size(oid) + pg_relation_size(to_regclass('kept.' || quote_ident(relname))) > 0 LOOP \
    EXECUTE 'DELETE FROM public.' || t; \
    EXECUTE 'INSERT INTO public.' || t || ' SELECT * FROM kept.' || t; END LOOP; END $$";

impl Start {
    async fn of(fixture: &Fixture, rows: &Rows) -> Self {
        rows.client.batch_execute(KEEP).await.unwrap();
        Self {
            rows: rows.state().await,
            number: fixture.counter.load(Ordering::SeqCst),
        }
    }

    /// Makes the fixture repeat the arguments that it has made since the start.
    fn same_arguments(&self, fixture: &Fixture) {
        fixture.counter.store(self.number, Ordering::SeqCst);
    }

    /// Restores the rows, and makes the fixture repeat its arguments.
    async fn again(&self, fixture: &Fixture, rows: &Rows) {
        rows.client.batch_execute(RESTORE).await.unwrap();
        self.same_arguments(fixture);
    }
}

/// Returns the query of every row of every table except `dispatch`, which counts the uses of its lock.
const QUERY: &str = "SELECT string_agg(format('SELECT CAST(%L AS TEXT) || '' '' || CAST(row_to_json(t) AS TEXT) \
    FROM public.%I t', relname, relname), ' UNION ALL ') \
    FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> 'dispatch'";

/// Connection to the server itself, past the proxy. It lasts as long as the fixture, so that the server plans the query once.
struct Rows {
    client: Client,
    all: Statement,
    _connection: JoinSet<std::result::Result<(), tokio_postgres::Error>>,
}

impl Rows {
    async fn of(url: &str) -> anyhow::Result<Self> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        let mut connections = JoinSet::new();
        connections.spawn(connection);
        let query: String = client.query_one(QUERY, &[]).await?.try_get(0)?;
        let all = client.prepare(&query).await?;
        Ok(Self {
            client,
            all,
            _connection: connections,
        })
    }

    /// Returns all stored rows, without times of the server's clock.
    async fn state(&self) -> Vec<String> {
        let rows = self.client.query(&self.all, &[]).await.unwrap();
        let mut rows: Vec<_> = rows.iter().map(|row| without_server_times(row.get(0))).collect();
        rows.sort();
        rows
    }
}

/// Bound between times of the fixture and times of the server's clock, in micros. Those of the fixture are
/// earlier.
const SERVER_TIMES: u64 = 1_750_000_000_000_000;

fn without_server_times(row: &str) -> String {
    let shown = row.split_inclusive(|c: char| !c.is_ascii_digit()).map(|part| {
        let digits = part.trim_end_matches(|c: char| !c.is_ascii_digit());
        let is_server_time = digits
            .parse()
            .is_ok_and(|number: u64| (SERVER_TIMES..1 << 60).contains(&number));
        let rest = &part[digits.len()..];
        if is_server_time {
            format!("now{rest}")
        } else {
            part.to_owned()
        }
    });
    shown.collect()
}

/// Tests of every module that proves commands.
fn scenarios() -> impl Iterator<Item = &'static (&'static str, Scenario)> {
    atomicity::SCENARIOS
        .iter()
        .chain(atomicity_accounts::SCENARIOS)
        .chain(atomicity_auto_topups::SCENARIOS)
        .chain(atomicity_refunds::SCENARIOS)
}

async fn run(fault: Fault, scenario: Scenario) {
    let fixture = Behind::start(fault).await.unwrap();
    scenario(&fixture).await;
    fixture.check().await;
}

#[tokio::test]
async fn a_commit_that_is_lost_before_or_after_it_took_place_is_unavailable_and_done_once() {
    let runs = scenarios().map(|(_, scenario)| run(Fault::Lost, *scenario));
    let () = stream::iter(runs).buffer_unordered(AT_ONCE).collect().await;
}

#[tokio::test]
async fn a_commit_that_is_late_by_three_seconds_is_answered_and_done_once() {
    let runs = scenarios().flat_map(|(text, scenario)| {
        let every = text.matches("proves").count().div_ceil(LATE_ONES).max(1);
        (0..every).map(move |first| run(Fault::Late { first, every }, *scenario))
    });
    join_all(runs).await;
}

#[tokio::test]
async fn a_fenced_worker_sends_nothing_that_the_server_refuses() {
    let database = migrated(Database::Postgres).await;
    let proxy = CommitProxy::start(database.server().unwrap()).await.unwrap();
    let url = database.url_at(proxy.address()).unwrap();
    let store = Store::open_with(&url, options(1)).await.unwrap();
    let fixture = Fixture::with(store, database, None);
    let (org, lost, next) = (fixture.org().await, fixture.node().await, fixture.node().await);
    let messages = |count: usize| vec![fixture.message("x"); count];
    fixture.queued(org).await;
    let claimed = fixture.claim_one(lost).await.fence;
    let held = fixture.start(claimed).await.unwrap();
    fixture.store.deregister_node(lost, fixture.now()).await.unwrap();
    let swept = fixture.take_over(next, fixture.now(), 5).await;
    let taken = swept.taken.first().unwrap().fence;
    let writes_late = async || {
        for events in [1, 2, 6] {
            let appended = fixture.append(held, messages(events), Micros::ZERO).await;
            assert_eq!(appended.unwrap_err(), Error::Fenced);
        }
        assert_eq!(fixture.start(claimed).await.unwrap_err(), Error::Fenced);
        let finished = fixture.store.finish_run(held, fixture.succeeded("late")).await;
        assert_eq!(finished.unwrap_err(), Error::Fenced);
    };
    proxy.take_errors();
    writes_late().await;
    fixture.append(taken, messages(6), Micros::ZERO).await.unwrap();
    writes_late().await;
    let done = fixture
        .store
        .finish_run(after(taken, 6), fixture.succeeded("done"))
        .await;
    assert_eq!(done.unwrap().output.as_deref(), Some("done"));
    writes_late().await;
    assert_eq!(proxy.take_errors(), Vec::<String>::new());
}

/// Public functions of the store that are no commands, or that only read although they are in the queue of
/// writes.
const NO_COMMANDS: [&str; 9] = list! {
    "clock", "inspect", "look_up", "low_credits", "open", "open_with", "payment", "ping", "say",
};

#[test]
fn every_command_that_writes_is_proven() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut commands = BTreeSet::new();
    commands_below(&source, &mut commands);
    assert!(commands.len() > 50, "{commands:?}");
    let proven = proven(concat!(
        include_str!("atomicity.rs"),
        include_str!("atomicity_accounts.rs"),
        include_str!("atomicity_auto_topups.rs"),
        include_str!("atomicity_refunds.rs")
    ));
    let missing: Vec<&String> = commands
        .iter()
        .filter(|command| !proven.contains(*command) && !NO_COMMANDS.contains(&command.as_str()))
        .collect();
    assert!(missing.is_empty(), "in none of tests/atomicity*.rs: {missing:?}");
}

/// Collects the names of public functions that do not only read.
fn commands_below(folder: &Path, commands: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap();
        if path.is_dir() && name != "tests" && name != "db" {
            commands_below(&path, commands);
        } else if path.is_file() {
            let text = std::fs::read_to_string(&path).unwrap();
            for function in text.split("\n    pub async fn ").skip(1) {
                let body = function.split("\n    }\n").next().unwrap_or_default();
                let writes = [".write", ".urgent("].iter().any(|call| body.contains(call));
                let reads = [".read(", ".list(", ".scan("]
                    .iter()
                    .any(|call| body.contains(call));
                if writes || !reads {
                    commands.extend(function.split(['(', '<']).next().map(str::to_owned));
                }
            }
        }
    }
}

/// Returns the names of the functions that are called within a proof.
fn proven(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for proof in text.split("(fixture, async ||").skip(1) {
        let mut depth = 1;
        let end = proof.find(|c| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            depth == 0
        });
        let calls = proof.get(..end.unwrap_or(proof.len())).unwrap_or_default();
        for call in calls.split('.').skip(1) {
            let name = call.split('(').next().unwrap_or_default();
            names.insert(name.to_owned());
        }
    }
    names
}
