//! The load program: one command measures the engine on both databases and the machine, and writes a table. The engine is the
//! real binary in a separate process; it shares the cores with the database and this program.
#![expect(clippy::print_stderr, reason = "progress of a command that takes minutes")]

mod bars;
mod budgets;
mod callbacks;
mod cancel;
mod chart;
mod cluster;
mod command;
mod connection;
mod consoles;
mod files;
mod followers;
mod history;
mod hosted;
mod limits;
mod load;
mod machine;
mod memory;
mod mixed;
mod model;
mod outage;
mod people;
mod process;
mod report;
mod resume;
mod run;
mod samples;
mod schedules;
mod shares;
mod soak;
mod storm;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand, ValueEnum};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sortie_testkit::{Database, LogOnDrop, Node, NodeOptions};

use crate::report::Report;

/// Measures the engine and the machine.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// The binary under test, in release mode.
    #[arg(long, global = true, default_value = "target/release/sortie")]
    binary: PathBuf,
    /// File for the table. Default: standard output.
    #[arg(long)]
    results: Option<PathBuf>,
    /// Duration of each load in seconds.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Use only this database.
    #[arg(long, global = true)]
    database: Option<Which>,
    /// Run only measurements whose name contains this.
    #[arg(long)]
    only: Option<String>,
    /// Commit of the binary, for the table.
    #[arg(long)]
    commit: Option<String>,
    /// Number of nodes on one PostgreSQL for measurements of several nodes; 1 skips these.
    #[arg(long, default_value_t = 3)]
    nodes: usize,
    /// Number of finished runs on a node for measurements of creates during lists, sums and deletions; 0 skips these.
    #[arg(long, default_value_t = 0)]
    history_runs: u64,
}

/// Commands other than the table.
#[derive(Debug, Subcommand)]
enum Command {
    /// Run mixed work for a long time and sample it every second; write CSV files and charts.
    Soak(soak::Soak),
}

/// A database by name.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Which {
    /// The embedded default.
    Sqlite,
    /// The server of `scripts/test-postgres`.
    Postgres,
}

/// Master key of nodes that share a database.
const MASTER_KEY: &str = "0101010101010101010101010101010101010101010101010101010101010101";

/// Context of every measurement.
struct Bench {
    binary: String,
    database: Database,
    seconds: u64,
    nodes: usize,
    history_runs: u64,
}

impl Bench {
    /// Starts a node on an empty database.
    async fn node(&self) -> Result<Node> {
        self.node_with(NodeOptions::default()).await
    }

    async fn node_with(&self, options: NodeOptions) -> Result<Node> {
        let options = NodeOptions {
            log: LogOnDrop::Forget,
            ..options.env("SORTIE_LOG_FILTER", "warn,sortie::commands::serve=info")
        };
        // The database is empty, so the measured first start includes the migrations.
        Node::on(&self.binary, self.database.fresh().await?, options, None).await
    }

    /// Starts nodes on one empty database.
    async fn cluster(&self, count: usize) -> Result<Vec<Node>> {
        // Sealed values open on every node only if they share a key.
        let options = NodeOptions::default().env("SORTIE_MASTER_KEY", MASTER_KEY);
        let first = self.node_with(options).await?;
        let mut others = Vec::new();
        while others.len() + 1 < count {
            others.push(first.beside().await?);
        }
        Ok(std::iter::once(first).chain(others).collect())
    }

    /// Whether to measure several nodes, which requires a database that nodes can share.
    fn has_several(&self) -> bool {
        self.nodes > 1 && self.database == Database::Postgres
    }
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    allow_many_connections()?;
    let databases = match arguments.database {
        None => vec![Database::Sqlite, Database::Postgres],
        Some(Which::Sqlite) => vec![Database::Sqlite],
        Some(Which::Postgres) => vec![Database::Postgres],
    };
    let mut report = Report::new(arguments.only.clone());
    if arguments.command.is_none() {
        if let Some(commit) = &arguments.commit {
            report.add("commit", commit);
        }
        machine::measure(&mut report).await?;
    }
    for database in databases {
        let binary = arguments.binary.to_string_lossy().into_owned();
        let bench = Bench {
            binary,
            database,
            seconds: arguments.seconds,
            nodes: arguments.nodes,
            history_runs: arguments.history_runs,
        };
        match &arguments.command {
            None => measure(&bench, &mut report).await,
            Some(Command::Soak(what)) => soak::soak(&bench, what).await,
        }
        .with_context(|| database.as_str())?;
    }
    if arguments.command.is_some() {
        return Ok(());
    }
    report.write(arguments.results.as_deref())
}

async fn measure(bench: &Bench, report: &mut Report) -> Result<()> {
    report.begin(bench.database);
    machine::database(bench.database, report).await?;
    limits::of_the_database(bench, report).await?;
    memory::start(bench, report).await?;
    load::creates(bench, report).await?;
    budgets::measure(bench, report).await?;
    for concurrency in [1, 16, 64, 256] {
        load::runs(bench, report, concurrency).await?;
    }
    model::measure(bench, report).await?;
    command::measure(bench, report).await?;
    files::measure(bench, report).await?;
    memory::waiting(bench, report).await?;
    followers::measure(bench, report).await?;
    consoles::measure(bench, report).await?;
    mixed::measure(bench, report).await?;
    cluster::measure(bench, report).await?;
    shares::measure(bench, report).await?;
    callbacks::measure(bench, report).await?;
    resume::measure(bench, report).await?;
    outage::measure(bench, report).await?;
    cancel::measure(bench, report).await?;
    schedules::measure(bench, report).await?;
    people::measure(bench, report).await?;
    hosted::measure(bench, report).await?;
    storm::measure(bench, report).await?;
    history::measure(bench, report).await
}

/// Ten thousand followers need as many sockets here and in the node, which inherits the limit.
fn allow_many_connections() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).context("cannot raise the limit of open files")
}
