//! Agents at work, each behind the rules of the providers.

use std::sync::Arc;

use sortie_agent::{Model, Outcome, RunSpec, Sink, Source, Workspace};
use sortie_sandbox::RelPath;

use super::{Pretended, Recorder, Ruled, workspace};

/// Runs an agent whose requests, and those to its fallback model, are checked.
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
