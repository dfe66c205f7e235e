use sortie_api::Artifact;

use super::prelude::*;
use crate::runs::{KeptArtifact, NewArtifacts, RunArtifacts};

impl Fixture {
    /// Creates the end of a run of `org` with artifacts. Each content is one byte, written just now.
    pub(super) async fn with_artifacts(&self, org: OrgId, files: &[(&str, u8)]) -> Finish {
        let mut kept = Vec::new();
        for (path, byte) in files {
            let new = self.new_blob(org, *byte);
            kept.push(KeptArtifact {
                artifact: Artifact {
                    path: (*path).to_owned(),
                    size: new.size,
                    sha256: new.sha256,
                    content_type: "text/plain".to_owned(),
                },
                blob: self.store.reserve_blob(new).await.unwrap(),
            });
        }
        let check_at = self.now() + HOUR;
        Finish {
            artifacts: Some(NewArtifacts { kept, check_at }),
            ..self.succeeded("out")
        }
    }
}

const HOUR: Duration = Duration::from_hours(1);

fn paths(artifacts: &[Artifact]) -> Vec<&str> {
    artifacts.iter().map(|artifact| artifact.path.as_str()).collect()
}

both! {
    async fn a_run_shows_the_artifacts_it_ended_with_everywhere(fixture: &Fixture, org: OrgId, node: NodeId) {
        let fence = fixture.running(org, node).await;
        let finish = fixture.with_artifacts(org, &[("a.txt", 1), ("b/c.txt", 2)]).await;
        let run = fixture.store.finish_run(fence, finish.clone()).await.unwrap();
        assert_eq!(paths(&run.artifacts), ["a.txt", "b/c.txt"]);
        assert_eq!(run, fixture.get(org, run.id).await);
        let filter = RunFilter { statuses: vec![RunStatus::Succeeded], limit: 10, ..RunFilter::default() };
        let listed = fixture.store.list_runs(org, filter).await.unwrap().items;
        assert_eq!(listed.iter().map(|listed| &listed.run).collect::<Vec<_>>(), [&run]);
        let Cancelled::AlreadyFinal(same) = fixture.store.cancel_run(org, run.id, fixture.now()).await.unwrap()
        else {
            panic!("it was final");
        };
        assert_eq!(same.run, run);
        let kept = fixture.store.run_artifacts(org, run.id).await.unwrap();
        assert_eq!((kept.finished_at, kept.kept), (run.finished_at, finish.artifacts.unwrap().kept));
    }

    async fn a_run_without_artifacts_has_none_and_another_organizations_is_not_found(fixture: &Fixture, org: OrgId, other: OrgId, node: NodeId) {
        let fence = fixture.running(org, node).await;
        assert_eq!(fixture.store.run_artifacts(org, fence.run).await, Ok(RunArtifacts::default()));
        let run = fixture.store.finish_run(fence, fixture.succeeded("out")).await.unwrap();
        assert_eq!(fixture.store.run_artifacts(org, run.id).await.unwrap().kept, []);
        assert_eq!(fixture.store.run_artifacts(other, run.id).await, Err(Error::NotFound));
        assert_eq!(fixture.count("SELECT COUNT(*) FROM run_artifacts").await, 0);
    }

    async fn content_stays_for_as_long_as_a_run_or_a_file_refers_to_it(fixture: &Fixture, org: OrgId, node: NodeId) {
        let fence = fixture.running(org, node).await;
        // The first two artifacts have the same content, which also becomes a file.
        let finish = fixture.with_artifacts(org, &[("a", 1), ("b", 1), ("c", 2)]).await;
        fixture.store.finish_run(fence, finish).await.unwrap();
        let file = fixture.file(org, "promoted", 1).await;
        assert_eq!(fixture.count("SELECT COUNT(*) FROM artifact_blob").await, 2);
        let later = fixture.now() + HOUR * 5;
        assert_eq!(fixture.sweep_blobs(later).await, []);
        let expiry = Expiry { org, finished_before: later, created_before: later, check_at: later, open_callbacks: OpenCallbacks::Wait };
        let batch = Batch { runs: 10, events: 100 };
        assert_eq!(fixture.store.delete_expired_runs(expiry, batch, &mut crate::runs::Undeletable::default()).await.unwrap().runs, 1);
        // Of two contents, a file has one.
        assert_eq!(fixture.stored(org).await, file.size);
        let gone = fixture.sweep_blobs(later).await;
        assert_eq!(gone.len(), 1, "{gone:?}");
        assert_ne!(gone[0].id, file.blob);
    }

    async fn content_of_an_artifact_counts_where_its_last_file_was_deleted_meanwhile(fixture: &Fixture, org: OrgId, node: NodeId) {
        let fence = fixture.running(org, node).await;
        let file = fixture.file(org, "a", 1).await;
        let finish = fixture.with_artifacts(org, &[("a", 1), ("b", 1)]).await;
        let audit = fixture.audit_of(org, "file.delete", "a file");
        fixture.store.delete_file(org, file.id, fixture.now() + HOUR, audit).await.unwrap();
        assert_eq!(fixture.stored(org).await, 0);
        fixture.store.finish_run(fence, finish).await.unwrap();
        assert_eq!(fixture.stored(org).await, file.size);
    }

    async fn a_run_does_not_end_with_content_that_was_given_up(fixture: &Fixture, org: OrgId, node: NodeId) {
        let fence = fixture.running(org, node).await;
        let finish = fixture.with_artifacts(org, &[("a", 1)]).await;
        fixture.sweep_blobs(fixture.now() + HOUR * 5).await;
        let refused = fixture.store.finish_run(fence, finish).await.unwrap_err();
        assert_eq!(refused, Error::Conflict("the content of an artifact is pending deletion"));
        assert_eq!(fixture.get(org, fence.run).await.status, RunStatus::Running);
    }

    async fn content_of_another_organization_is_not_referred_to(fixture: &Fixture, org: OrgId, other: OrgId, node: NodeId) {
        let fence = fixture.running(org, node).await;
        let finish = fixture.with_artifacts(other, &[("a", 1)]).await;
        let refused = fixture.store.finish_run(fence, finish).await.unwrap_err();
        assert!(matches!(refused, Error::Conflict(_)), "{refused}");
    }

    async fn of_the_sweep_and_the_end_of_a_run_one_wins(fixture: &Fixture, org: OrgId, node: NodeId) {
        for byte in 0..20 {
            let fence = fixture.running(org, node).await;
            let finish = fixture.with_artifacts(org, &[("a", byte)]).await;
            let due = fixture.now() + HOUR;
            let check_at = due + HOUR;
            let finish = Finish { artifacts: finish.artifacts.map(|new| NewArtifacts { check_at, ..new }), ..finish };
            let (finished, doomed) =
                join(fixture.store.finish_run(fence, finish), fixture.store.mark_unreferenced_blobs(due, None, 10)).await;
            doomed.unwrap();
            let gone = fixture.sweep_blobs(due).await;
            match finished {
                Ok(_) => assert_eq!(gone, []),
                Err(Error::Conflict(_)) => assert_eq!(gone.len(), 1),
                Err(other) => panic!("{other}"),
            }
        }
    }
}
