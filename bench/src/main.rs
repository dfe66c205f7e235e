//! The load program: one command measures the engine on both databases and the machine it stands on, and writes a
//! table. The engine is the real binary in a process of its own; it, the database and this program share the cores.
#![expect(clippy::print_stderr, reason = "progress of a command that takes minutes")]

mod command;
mod connection;
mod files;
mod followers;
mod load;
mod machine;
mod memory;
mod model;
mod outage;
mod report;
mod resume;
mod samples;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sortie_testkit::{Database, LogOnDrop, Node, NodeOptions};

use crate::report::Report;

/// Measures the engine and the machine it stands on.
#[derive(Debug, Parser)]
struct Arguments {
    /// The binary under test, built in release.
    #[arg(long, default_value = "target/release/sortie")]
    binary: PathBuf,
    /// Where the table is written; standard output otherwise.
    #[arg(long)]
    results: Option<PathBuf>,
    /// Seconds that each load lasts.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Only this database.
    #[arg(long)]
    database: Option<Which>,
    /// Only measurements whose name contains this.
    #[arg(long)]
    only: Option<String>,
}

/// A database by name.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Which {
    /// The embedded default.
    Sqlite,
    /// The server of `scripts/test-postgres`.
    Postgres,
}

/// What every measurement is given.
struct Bench {
    binary: String,
    database: Database,
    seconds: u64,
}

impl Bench {
    /// A node on an empty database.
    async fn node(&self) -> Result<Node> {
        self.node_with(NodeOptions::default()).await
    }

    async fn node_with(&self, options: NodeOptions) -> Result<Node> {
        let options = NodeOptions {
            log: LogOnDrop::Forget,
            ..options.env("SORTIE_LOG_FILTER", "warn,sortie::commands::serve=info")
        };
        Node::start_with(&self.binary, self.database, options).await
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
    machine::measure(&mut report).await?;
    for database in databases {
        let binary = arguments.binary.to_string_lossy().into_owned();
        let bench = Bench {
            binary,
            database,
            seconds: arguments.seconds,
        };
        measure(&bench, &mut report)
            .await
            .with_context(|| database.as_str())?;
    }
    report.write(arguments.results.as_deref())
}

async fn measure(bench: &Bench, report: &mut Report) -> Result<()> {
    report.begin(bench.database);
    memory::start(bench, report).await?;
    load::creates(bench, report).await?;
    for concurrency in [1, 16, 64, 256] {
        load::runs(bench, report, concurrency).await?;
    }
    model::measure(bench, report).await?;
    command::measure(bench, report).await?;
    files::measure(bench, report).await?;
    memory::waiting(bench, report).await?;
    followers::on_one_run(bench, report).await?;
    followers::each_on_its_own(bench, report).await?;
    resume::measure(bench, report).await?;
    outage::measure(bench, report).await
}

/// A thousand followers are two thousand sockets, here and in the node, which inherits the limit.
fn allow_many_connections() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).context("cannot raise the limit of open files")
}
