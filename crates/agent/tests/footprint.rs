//! Thousands of runs are in flight at once: measures the memory that one takes while it waits.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "shared/nowhere.rs"]
mod nowhere;
#[path = "shared/spec.rs"]
mod spec;

use std::{sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, join_all};
use sortie_agent::{RunSpec, Workspace, run, runbook};
use sortie_api::Micros;
use sortie_sandbox::{
    Backend, Capabilities, Enforcement, Error, Level, Limits, Sandbox, Spec, Tenancy, Workdir,
};

use self::{nowhere::Nowhere, spec::spec};

const RUNS: usize = 5_000;

struct NoBackend(Capabilities);

impl Backend for NoBackend {
    fn capabilities(&self) -> &Capabilities {
        &self.0
    }

    fn open<'a>(
        &'a self,
        _workdir: &'a Workdir,
        _spec: Spec,
    ) -> BoxFuture<'a, Result<Box<dyn Sandbox>, Error>> {
        Box::pin(async { Err(Error::Setup("none in this test".to_owned())) })
    }
}

fn spec_at(prompt: &str, rate: u64) -> RunSpec {
    let mut spec = spec(prompt);
    spec.budget.compute_micros_per_second = Micros::new(rate).unwrap();
    spec
}

/// Memory in use by this process, in bytes.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1_024
}

#[tokio::test(flavor = "current_thread")]
async fn a_waiting_run_is_small() {
    let capabilities = Capabilities {
        level: Level::None,
        memory: Enforcement::Soft,
        disk: Enforcement::Soft,
        tenancy: Tenancy::Single,
        egress: false,
        missing: Vec::new(),
    };
    let backend: Arc<dyn Backend> = Arc::new(NoBackend(capabilities));
    let model = runbook();
    let one = |prompt: &'static str, rate: u64| {
        let (backend, model) = (Arc::clone(&backend), Arc::clone(&model));
        async move {
            let mut workspace = Workspace::new(
                "/nonexistent".into(),
                "run_0".to_owned(),
                backend,
                Limits::default(),
            );
            let outcome = run(spec_at(prompt, rate), &*model, &mut workspace, &Nowhere).await;
            workspace.close().await.unwrap();
            outcome
        }
    };
    let size = size_of_val(&one("", 0));
    assert!(
        size < 1_024,
        "the future of a run takes {size} bytes in its caller"
    );

    // One run first, so that one-time allocations are not counted.
    one("Hello.", 30).await;
    let before = resident();
    let mut waiting = Box::pin(join_all((0..RUNS).map(|_| one("```wait 3600000\n```", 30))));
    tokio::select! {
        biased;
        _ = &mut waiting => panic!("it does not wait"),
        () = tokio::time::sleep(Duration::from_millis(50)) => {}
    }
    let held = (resident() - before) / RUNS;
    assert!(held < 12 * 1_024, "a waiting run takes {held} bytes");
}
