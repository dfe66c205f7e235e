//! Scaling of nodes on one PostgreSQL. Each node is limited to a tenth of a core, as if it had a separate small machine, so that
//! the server and the clients have the rest.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use sortie_testkit::Node;

use crate::{
    Bench,
    load::{complete_for, per_second, request},
    process::cpu_of_all,
    report::Report,
};

/// Numbers of nodes to compare.
const COUNTS: [usize; 4] = [1, 2, 4, 6];

/// Number of clients for all nodes.
const CLIENTS: usize = 64;

/// Period of the kernel's CPU quota, in microseconds.
const PERIOD: u32 = 20_000;

/// CPU time that a node may use in each period, in microseconds.
const QUOTA: u32 = PERIOD / 10;

/// Measures each number of nodes.
pub(crate) async fn measure(bench: &Bench, report: &mut Report) -> Result<()> {
    if !bench.has_several() || !report.wants("nodes held to a tenth of a core") {
        return Ok(());
    }
    for count in COUNTS {
        let name =
            format!("complete tool-free runs, {CLIENTS} at once, nodes held to a tenth of a core: {count}");
        let nodes = bench.cluster(count).await?;
        let held: Result<Vec<Share>> = nodes.iter().map(Share::of).collect();
        let held = match held {
            Ok(held) => held,
            Err(error) => {
                report.add(name, format!("not measured: {error:#}"));
                continue;
            }
        };
        let all: Vec<&Node> = nodes.iter().collect();
        let before = cpu_of_all("postgres")?;
        let done = complete_for(&all, CLIENTS, bench.seconds, || request("hello")).await?;
        let server = cpu_of_all("postgres")?.saturating_sub(before);
        // The server also processed the runs of the warm-up, which are not counted.
        let seconds = u32::try_from(bench.seconds)?;
        let each = server * seconds / (seconds + 1) / u32::try_from(done.completed)?.max(1);
        let rate = per_second(done.completed, bench.seconds)?;
        report.add(
            name,
            format!("{rate:.0}/s; PostgreSQL works {} us for each", each.as_micros()),
        );
        drop(nodes);
        drop(held);
    }
    Ok(())
}

/// Control group that limits the CPU time of one node. Removed after the node has exited.
struct Share(PathBuf);

impl Share {
    /// Moves a node into a new control group.
    fn of(node: &Node) -> Result<Self> {
        let (root, pid) = (Path::new("/sys/fs/cgroup"), node.pid()?);
        let is_unified = root.join("cgroup.controllers").exists();
        let parent = if is_unified {
            root.to_owned()
        } else {
            root.join("cpu")
        };
        let group = parent.join(format!("sortie-bench-{pid}"));
        let write = |path: PathBuf, text: String| {
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
        };
        if is_unified {
            write(parent.join("cgroup.subtree_control"), "+cpu".to_owned())?;
        }
        fs::create_dir(&group).with_context(|| format!("cannot make {}", group.display()))?;
        let share = Self(group.clone());
        if is_unified {
            write(group.join("cpu.max"), format!("{QUOTA} {PERIOD}"))?;
        } else {
            write(group.join("cpu.cfs_period_us"), PERIOD.to_string())?;
            write(group.join("cpu.cfs_quota_us"), QUOTA.to_string())?;
        }
        write(group.join("cgroup.procs"), pid.to_string())?;
        Ok(share)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        // A process that is still exiting keeps the empty group.
        let _kept = fs::remove_dir(&self.0);
    }
}
