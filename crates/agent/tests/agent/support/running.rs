//! Runs agents, each with models that enforce the rules of the providers.

use std::sync::Arc;

use sortie_agent::{Model, Outcome, RunSpec, Sink, Source, Workspace};
use sortie_sandbox::RelPath;

use super::{Pretended, Recorder, Ruled, failed, succeeded, untouched, workspace};

/// Runs an agent and checks its requests, including those to its fallback model.
pub(crate) async fn run_agent(
    spec: RunSpec,
    model: &dyn Model,
    workspace: &mut Workspace,
    sink: &dyn Sink,
) -> Outcome {
    run_ruled(spec, &Ruled::new(model), workspace, sink).await
}

/// Runs an agent with a model that counts in its own way.
pub(crate) async fn run_ruled(
    mut spec: RunSpec,
    model: &Ruled<&dyn Model>,
    workspace: &mut Workspace,
    sink: &dyn Sink,
) -> Outcome {
    let fallback = spec.fallback.take();
    spec.fallback = fallback.map(|model| Arc::new(Ruled::new(model)) as Arc<dyn Model>);
    sortie_agent::run(spec, model, workspace, sink).await
}

/// Runs an agent and closes its workspace; nothing of it may be left.
pub(crate) async fn run_in(
    spec: RunSpec,
    model: &dyn Model,
    backend: &Arc<Pretended>,
    files: &[(&str, &str)],
) -> (Outcome, Recorder) {
    let recorder = Recorder::default();
    let (mut workspace, root) = workspace(backend);
    if !files.is_empty() {
        let files = files.iter().map(|(path, text)| {
            (
                RelPath::new(path).unwrap(),
                Source::Bytes(text.as_bytes().to_vec()),
            )
        });
        workspace.stage(files.collect()).await.unwrap();
    }
    let outcome = run_agent(spec, model, &mut workspace, &recorder).await;
    workspace.close().await.unwrap();
    assert_eq!(
        std::fs::read_dir(root.path()).unwrap().count(),
        0,
        "something is left"
    );
    (outcome, recorder)
}

/// A run that has ended.
pub(crate) struct Ended {
    outcome: Outcome,
    recorder: Recorder,
}

impl Ended {
    /// Asserts that the run succeeded with this output.
    #[track_caller]
    pub(crate) fn succeeds(self, output: impl AsRef<str>) -> Recorder {
        assert_eq!(succeeded(&self.outcome), output.as_ref());
        self.recorder
    }

    /// Asserts that the run failed for this reason.
    #[track_caller]
    pub(crate) fn fails(self, reason: impl AsRef<str>) -> Recorder {
        assert_eq!(failed(&self.outcome), reason.as_ref());
        self.recorder
    }
}

/// Works like [`run_in`].
pub(crate) async fn play_in(
    spec: RunSpec,
    model: &dyn Model,
    backend: &Arc<Pretended>,
    files: &[(&str, &str)],
) -> Ended {
    let (outcome, recorder) = run_in(spec, model, backend, files).await;
    Ended { outcome, recorder }
}

/// Runs an agent that uses no sandbox and no files.
pub(crate) async fn play(spec: RunSpec, model: &dyn Model) -> Ended {
    play_in(spec, model, &untouched(), &[]).await
}
