//! Commands of workflows, for the query plans.

use sortie_api::OrgId;

use crate::{runs::LargeText, tests::fixture::Fixture};

/// Runs every command of workflows.
pub(super) async fn use_workflows(fixture: &Fixture, org: OrgId) {
    for prompt in ["x", "y"] {
        fixture.put_workflow(org, "a", prompt).await.unwrap();
        fixture.put_workflow_with(org, "b", &[prompt], &[prompt]).await;
    }
    fixture.store.get_workflow(org, "a").await.unwrap();
    let row = fixture.store.workflow_record(org, "a").await.unwrap();
    let definition = LargeText::Workflow("a".into(), row.revision, row.updated_at);
    fixture.store.large_text(org, definition).await.unwrap();
    fixture.store.workflow_names(org).await.unwrap();
    fixture
        .store
        .workflow_summaries(org, "a".to_owned(), 10)
        .await
        .unwrap();
    fixture.store.workflow_summary(org, "a").await.unwrap();
    fixture.store.workflow_list_state(org).await.unwrap();
    fixture.delete_workflow(org, "a").await.unwrap();
}
