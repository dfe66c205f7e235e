//! Checks of a node for an operator. Each check returns a sentence, a verdict and a remedy.
//!
//! Every check has a time limit and changes nothing: the storage check writes a test object and deletes it again. Model providers
//! are called only if the operator asks for it.

use std::time::{Duration, Instant};

use sortie_api::{
    OrgId, Refusal,
    check::{Check, NodeChecks, Verdict},
};
use sortie_models::Settings;
use sortie_sandbox::Level;
use sortie_store::installation::DatabaseInfo;

use crate::{
    Engine,
    credentials::master_keys::check_master_keys,
    kit::{
        descriptors::Descriptors,
        disk::{self, NO_SPACE},
        models::NO_LANGUAGE_MODEL,
    },
};

/// Name of the check of the models.
const MODELS: &str = "models";
/// Timeout of one check.
const PATIENCE: Duration = Duration::from_secs(10);
/// Latency above which the database slows every request down.
const SLOW: Duration = Duration::from_millis(50);
/// Waiting time above which a run, a scheduled occurrence or a due callback is late.
const LATE: Duration = Duration::from_mins(1);
/// Waiting runs are counted up to this number, and everything else up to [`SOME`].
const COUNTED: u32 = 10_000;
const SOME: u32 = 100;
/// Free disk space in bytes below which a check warns. Below [`NO_SPACE`] it fails.
const LITTLE_SPACE: u64 = 2 << 30;
/// Size of SQLite's write-ahead log in bytes above which a check warns.
const LONG_LOG: u64 = 256 << 20;
/// Limit of open files below which a check warns.
const ENOUGH_FILES: u64 = 4_096;

/// Checks the models that these settings make usable, without asking a provider.
pub fn check_models(settings: &Settings) -> Check {
    match sortie_models::catalog(settings) {
        Ok(catalog) => models_check(catalog.models.len(), &catalog.default_model, catalog.is_stopgap),
        Err(error) => Check::new(MODELS, Verdict::Fault, error.to_string()),
    }
}

fn models_check(count: usize, default_model: &str, is_stopgap: bool) -> Check {
    if is_stopgap {
        Check::new(MODELS, Verdict::Warning, NO_LANGUAGE_MODEL)
            .hint("until then only prompts with blocks for `runbook` run")
    } else {
        let found = format!("{count} models, {default_model} is the default");
        Check::new(MODELS, Verdict::Ok, found)
    }
}

/// Inclusion of the model providers in the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Providers {
    /// The providers are not called.
    Left,
    /// Each provider is called for the list of its models, with the key that runs use.
    Asked,
}

impl Engine {
    /// Runs every check of this node. Failing schedules are named only for an organization, not for an operator.
    pub async fn checks(&self, org: Option<OrgId>, providers: Providers) -> NodeChecks {
        let (readiness, database, storage, master_key, backlog, callbacks, schedules) = tokio::join!(
            limited("readiness", self.check_readiness()),
            limited("database", self.check_database()),
            limited("storage", self.check_storage()),
            limited("master key", self.check_master_key()),
            limited("queue", self.check_backlog()),
            limited("callbacks", self.check_callbacks()),
            limited("schedules", self.check_schedules(org)),
        );
        let mut checks = vec![
            readiness,
            database,
            storage,
            master_key,
            self.check_models(),
            self.check_sandbox(),
        ];
        checks.extend(self.check_machine());
        checks.extend([
            backlog,
            callbacks,
            schedules,
            self.check_memory(),
            self.check_addresses(),
        ]);
        match self.check_license().await {
            Ok(license) => checks.extend(license),
            Err(error) => checks.push(Check::new("license", Verdict::Fault, error.to_string())),
        }
        if providers == Providers::Asked {
            checks.extend(check_providers(&self.0.options.models).await);
        }
        NodeChecks {
            node: self.0.options.node_name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            checks,
        }
    }

    async fn check_readiness(&self) -> Result<Check, Unchecked> {
        self.check_node()?;
        self.store().ping().await?;
        let active = self.0.work.active.count();
        let slots = self.0.options.concurrency;
        Ok(Check::new(
            "readiness",
            Verdict::Ok,
            format!("accepts runs; {active} of {slots} slots in use"),
        ))
    }

    async fn check_database(&self) -> Result<Check, Unchecked> {
        let info = self.store().database_info().await?;
        let begun = Instant::now();
        self.store().ping().await?;
        Ok(database_check(&info, begun.elapsed(), self.store().log_bytes()))
    }

    async fn check_storage(&self) -> Result<Check, Refusal> {
        Ok(match self.0.options.prove_storage().await {
            Ok(url) => Check::new(
                "storage",
                Verdict::Ok,
                format!("{url}: written, read and deleted"),
            ),
            Err(reason) => Check::new("storage", Verdict::Fault, reason)
                .hint(format!(
                    "files cannot be saved until this works; {} runs of this node wait for it, runs without files continue",
                    self.0.work.active.waiting()
                )),
        })
    }

    async fn check_master_key(&self) -> Result<Check, Refusal> {
        let name = "master key";
        let ids = self.0.stores.connections.sealer().ids();
        let Some((first, others)) = ids.split_first() else {
            return Ok(Check::new(name, Verdict::Fault, "none")
                .hint("credentials cannot be kept: give every node the same SORTIE_MASTER_KEY"));
        };
        // Checked at each call: the database may have been restored under a running node.
        check_master_keys(self.store(), &self.0.options.master_keys).await?;
        let check = Check::new(name, Verdict::Ok, format!("{first} fits the database"));
        Ok(if others.is_empty() {
            check
        } else {
            Check {
                found: format!("{first} seals, {} only open", others.join(", ")),
                ..check
            }
            .hint("`sortie master-key status` says which of them are still needed")
        })
    }

    fn check_models(&self) -> Check {
        let models = &self.0.work.models;
        let catalog = models.catalog();
        models_check(catalog.models.len(), &catalog.default_model, models.is_stopgap())
    }

    fn check_sandbox(&self) -> Check {
        let name = "sandbox";
        match &self.0.work.commands {
            Ok(Level::Namespaces) => Check::new(name, Verdict::Ok, "level namespaces"),
            Ok(level) => Check::new(name, Verdict::Warning, format!("level {}", level.as_str()))
                .hint("commands of runs are confined less than they could be: docs/SANDBOX.md has the steps"),
            Err(reason) => Check::new(name, Verdict::Fault, format!("none: {reason}"))
                .hint("runs with shell are refused"),
        }
    }

    /// Checks disk space and open files.
    fn check_machine(&self) -> [Check; 2] {
        [free_space(&self.0.options.data_dir), open_files()]
    }

    async fn check_backlog(&self) -> Result<Check, Refusal> {
        let now = self.0.options.clock.now();
        let backlog = self
            .store()
            .backlog(self.0.cluster.identity.leases.now(), COUNTED)
            .await?;
        let more = if backlog.waiting == i64::from(COUNTED) {
            " or more"
        } else {
            ""
        };
        let age = backlog.waiting_since.map_or(0, |since| {
            (now.as_micros() - since.as_micros()).max(0) / 1_000_000
        });
        let found = format!("{}{more} runs wait, the longest for {age} s", backlog.waiting);
        let mut check = Check::new("queue", Verdict::Ok, found);
        if age > i64::try_from(LATE.as_secs()).unwrap_or(i64::MAX) {
            check.verdict = Verdict::Warning;
            check = check.hint(
                "more nodes, or a larger `concurrency`; `organization_concurrency` may hold them back too",
            );
        }
        let gone = backlog.silent_nodes + backlog.lost_nodes;
        if gone > 0 {
            check.verdict = Verdict::Warning;
            check = check.hint(format!(
                "{gone} nodes are gone without signing off: their runs are taken over within half a minute by a node with \
                 free slots; if this remains, no node has free slots"
            ));
        }
        Ok(check)
    }

    async fn check_callbacks(&self) -> Result<Check, Refusal> {
        let name = "callbacks";
        let now = self.0.options.clock.now();
        let hosts = self.store().due_hosts(String::new(), now, SOME).await?;
        let late: Vec<&str> = hosts
            .iter()
            .filter(|host| host.due_at + LATE < now)
            .map(|host| host.host.as_str())
            .collect();
        Ok(if late.is_empty() {
            Check::new(name, Verdict::Ok, "none is overdue")
        } else {
            Check::new(
                name,
                Verdict::Warning,
                format!("overdue for more than a minute: {}", late.join(", ")),
            )
            .hint("a receiver that answers slowly holds up its own; `sortie runs deliveries ID` shows the attempts")
        })
    }

    async fn check_schedules(&self, org: Option<OrgId>) -> Result<Check, Refusal> {
        let name = "schedules";
        let now = self.0.options.clock.now();
        let store = self.store();
        let own = async {
            match org {
                Some(org) => store.list_schedules(org, None, SOME).await,
                None => Ok(Vec::new()),
            }
        };
        let (overdue, rows) = tokio::try_join!(store.due_schedules(now, None, SOME), own)?;
        let overdue = overdue.items.iter().filter(|due| due.since + LATE < now).count();
        let failing: Vec<String> = rows
            .iter()
            .map(|listed| &listed.schedule)
            .filter(|row| row.state.enabled)
            .filter(|row| row.state.last_error.is_some() || row.last_run_error.is_some())
            .map(|row| row.id.to_string())
            .collect();
        let mut found = format!("{overdue} instants are overdue");
        if org.is_some() {
            found = format!("{found}, {} schedules fail", failing.len());
        }
        let mut check = Check::new(name, Verdict::Ok, found);
        if overdue > 0 {
            check.verdict = Verdict::Warning;
            check = check.hint("no node processes schedules: start one that serves every run");
        }
        if !failing.is_empty() {
            check.verdict = Verdict::Warning;
            check = check.hint(format!(
                "their last instant or run failed: sortie schedules fires {}",
                failing.join(", ")
            ));
        }
        Ok(check)
    }

    /// Checks the memory that runs with zero data retention share.
    fn check_memory(&self) -> Check {
        let name = "memory";
        let (held, limit) = self.0.stores.records.unretained.held();
        let found = format!("{held} of {limit} bytes held for runs with zero data retention");
        if held > limit / 10 * 9 {
            Check::new(name, Verdict::Warning, found)
                .hint("new ones are refused soon: read the answers, or raise `memory_bytes`")
        } else {
            Check::new(name, Verdict::Ok, found)
        }
    }

    /// Checks the addresses of this node for browsers, authorization servers and other nodes.
    fn check_addresses(&self) -> Check {
        let name = "addresses";
        let options = &self.0.options;
        let base = options.base_url.as_deref().unwrap_or("none");
        let node = options.node_address.as_deref().unwrap_or("none");
        let check = Check::new(name, Verdict::Ok, format!("for clients {base}, for nodes {node}"));
        let is_open = base.starts_with("http://") && !is_loopback(base);
        match (is_open, options.node_address.is_none()) {
            (true, _) => Check {
                verdict: Verdict::Warning,
                ..check
            }
            .hint("advertise_url is without TLS: put a proxy with a certificate in front and name its https:// address"),
            (false, true) => Check {
                verdict: Verdict::Warning,
                ..check
            }
            .hint("other nodes cannot reach this one for runs with zero data retention: set node_url"),
            (false, false) => check,
        }
    }
}

/// Asks each provider of models for the list of its models, with its key.
pub async fn check_providers(settings: &Settings) -> Vec<Check> {
    let name = |provider: &str| format!("provider {provider}");
    match sortie_models::probe(settings).await {
        Err(error) => vec![Check::new("providers", Verdict::Fault, error.to_string())],
        Ok(found) if found.is_empty() => vec![
            Check::new("providers", Verdict::Warning, "none")
                .hint("only the offline model works: set the key of a provider"),
        ],
        Ok(found) => found
            .into_iter()
            .map(|(provider, answered)| match answered {
                Ok(_) => Check::new(name(&provider), Verdict::Ok, "answers, and accepts the key"),
                Err(reason) => Check::new(name(&provider), Verdict::Fault, reason)
                    .hint("runs with its models fail; `sortie config check` shows where its key and its address come from"),
            })
            .collect(),
    }
}

/// Reason why a check has no result.
#[derive(Debug)]
enum Unchecked {
    /// The database did not answer. The operator sees the cause; clients do not.
    Database(sortie_store::Error),
    Other(Refusal),
}

impl From<sortie_store::Error> for Unchecked {
    fn from(error: sortie_store::Error) -> Self {
        Self::Database(error)
    }
}

impl From<Refusal> for Unchecked {
    fn from(error: Refusal) -> Self {
        Self::Other(error)
    }
}

/// Runs a check with a timeout.
async fn limited<E: Into<Unchecked>>(name: &str, check: impl Future<Output = Result<Check, E>>) -> Check {
    match tokio::time::timeout(PATIENCE, check).await {
        Ok(Ok(check)) => check,
        Ok(Err(error)) => match error.into() {
            Unchecked::Database(error) => {
                let found = format!("the database is unavailable: {}", error.cause());
                Check::new(name, Verdict::Fault, found)
                    .hint("the engine accepts no requests until it answers: check its disk, its server and the network")
            }
            Unchecked::Other(error) => {
                Check::new(name, Verdict::Fault, error.to_string()).hint("the log of the node has the cause")
            }
        },
        Err(_) => Check::new(
            name,
            Verdict::Fault,
            format!("no answer within {} seconds", PATIENCE.as_secs()),
        ),
    }
}

fn is_loopback(url: &str) -> bool {
    ["http://127.", "http://localhost", "http://[::1]"]
        .iter()
        .any(|here| url.starts_with(here))
}

fn free_space(folder: &std::path::Path) -> Check {
    let name = "disk";
    match disk::free_bytes(folder) {
        Err(error) => Check::new(name, Verdict::Fault, format!("{}: {error}", folder.display())),
        Ok(free) => {
            let said = format!("{} MiB free at {}", free >> 20, folder.display());
            space_verdict(Check::new(name, Verdict::Ok, said), free)
        }
    }
}

fn space_verdict(check: Check, free: u64) -> Check {
    let verdict = match free {
        0..NO_SPACE => Verdict::Fault,
        NO_SPACE..LITTLE_SPACE => Verdict::Warning,
        LITTLE_SPACE.. => return check,
    };
    Check { verdict, ..check }
        .hint("make room, or shorten `retention_days`: with a full disk nothing is accepted")
}

fn open_files() -> Check {
    let name = "open files";
    let Descriptors { limit, reserved, .. } = Descriptors::of_process();
    // The listing itself has a file open, which is not counted.
    let open = std::fs::read_dir("/proc/self/fd").map(|entries| entries.count().saturating_sub(1));
    let open = open.map_or(0, |open| open as u64);
    let said = limit.map_or_else(|| "no limit".to_owned(), |limit| format!("of {limit}"));
    let found = format!("{open} {said}; {reserved} are reserved for runs, the storage and the database");
    let check = Check::new(name, Verdict::Ok, found);
    let is_short = limit.is_some_and(|limit| limit < ENOUGH_FILES || open > limit / 10 * 8);
    if is_short {
        Check {
            verdict: Verdict::Warning,
            ..check
        }
        .hint("each connection is one, and each run with commands a few: raise the hard limit (LimitNOFILE= of systemd)")
    } else {
        check
    }
}

/// Check of a database that answered a write after `took`, with the length of its write-ahead log if it has one.
fn database_check(info: &DatabaseInfo, took: Duration, log: Option<u64>) -> Check {
    let millis = took.as_secs_f64() * 1_000.0;
    let long_log = log.filter(|bytes| *bytes > LONG_LOG);
    let log = long_log.map(|bytes| format!(", a log of {} MiB", bytes >> 20));
    let found = format!(
        "{} {}, migration {}, {millis:.1} ms until a write has its turn{}",
        info.kind,
        info.version,
        info.migration,
        log.unwrap_or_default()
    );
    if info.migration > info.known_migration {
        Check::new("database", Verdict::Warning, found)
            .hint("a newer version has migrated it: bring this node to that version")
    } else if took > SLOW {
        Check::new("database", Verdict::Warning, found)
            .hint("every request waits for it: check its disk, its load and the network")
    } else if long_log.is_some() {
        Check::new("database", Verdict::Warning, found).hint(
            "another program reads the database in one long transaction, or has until just now, as `sortie backup` or an open \
             `sqlite3` does; the log grows until that ends, and then the database needs as much room again",
        )
    } else {
        Check::new("database", Verdict::Ok, found)
    }
}

#[cfg(test)]
#[path = "checks_tests.rs"]
mod tests;
