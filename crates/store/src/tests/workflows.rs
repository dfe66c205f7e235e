use sortie_api::limits;

use super::prelude::*;
use crate::workflows::{PutWorkflow, SavedWorkflow, SummaryRow, WorkflowRow};

impl Fixture {
    /// Creates an entry of the audit log for an action of now.
    pub(super) fn audit_of(&self, org: OrgId, action: &'static str, target: &str) -> Audit {
        Audit {
            action,
            target: target.to_owned(),
            ..self.audit(org)
        }
    }

    pub(super) fn new_workflow(name: &str, prompt: &str) -> PutWorkflow {
        PutWorkflow {
            name: name.to_owned(),
            summary: format!(r#"{{"name":"{name}","description":"{prompt}"}}"#),
            definition: format!(r#"{{"prompt":"{prompt}"}}"#),
            connections: Vec::new(),
            files: Vec::new(),
        }
    }

    /// Saves a workflow that names these connections and files.
    pub(super) async fn put_workflow_with(
        &self,
        org: OrgId,
        name: &str,
        connections: &[&str],
        files: &[&str],
    ) {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let new = PutWorkflow {
            definition: format!("{connections:?} {files:?}"),
            connections: owned(connections),
            files: owned(files),
            ..Self::new_workflow(name, "x")
        };
        let audit = self.audit_of(org, "workflow.put", name);
        self.store.put_workflow(org, new, 100, audit).await.unwrap();
    }

    /// Saves a workflow, with a limit of ten for the organization.
    pub(super) async fn put_workflow(
        &self,
        org: OrgId,
        name: &str,
        prompt: &str,
    ) -> crate::Result<SavedWorkflow> {
        let audit = self.audit_of(org, "workflow.put", name);
        self.store
            .put_workflow(org, Self::new_workflow(name, prompt), 10, audit)
            .await
    }

    pub(super) async fn delete_workflow(&self, org: OrgId, name: &str) -> crate::Result<()> {
        let audit = self.audit_of(org, "workflow.delete", name);
        self.store.delete_workflow(org, name, audit).await
    }

    /// Adds the row of a schedule that starts a workflow.
    async fn schedule_of(&self, org: OrgId, workflow: &'static str) {
        let made = self.store.db.write(move |tx| {
            tx.exec(
                "INSERT INTO schedule (id, org_id, workflow, cron, timezone, enabled, overlap, catch_up_window_seconds, \
                 jitter_seconds, handled_instant, failures_since, revision, created_at, updated_at) \
                 VALUES ('s', $1, $2, '@daily', 'UTC', 1, 'allow', 0, 0, 0, 0, 1, 1, 1)",
                vals![org, workflow],
            )
        });
        assert_eq!(made.await, Ok(1));
    }

    /// Returns the entries of the audit log of an organization: actions and targets, the oldest first.
    pub(super) async fn audited(&self, org: OrgId) -> Vec<(String, String)> {
        self.store
            .db
            .read(move |tx| {
                tx.query_all(
                    "SELECT action, target FROM audit WHERE org_id = $1 ORDER BY org_id, at, id",
                    vals![org],
                )?
                .iter()
                .map(|row| Ok((row.text(0)?.to_owned(), row.text(1)?.to_owned())))
                .collect()
            })
            .await
            .expect("a list")
    }
}

fn row(
    name: &str,
    prompt: &str,
    revision: i64,
    (created_at, updated_at): (Timestamp, Timestamp),
) -> WorkflowRow {
    WorkflowRow {
        name: name.to_owned(),
        definition: Fixture::new_workflow(name, prompt).definition,
        revision,
        created_at,
        updated_at,
    }
}

/// Summary of a workflow in a list.
fn summary(name: &str, description: &str) -> String {
    format!(r#"{{"name":"{name}","description":"{description}"}}"#)
}

both! {
    async fn a_workflow_is_saved_found_listed_and_deleted(fixture: &Fixture, org: OrgId, other: OrgId, store: &Store) {
        for (org, name) in [(org, "b"), (org, "a"), (other, "c")] {
            let saved = fixture.put_workflow(org, name, "x").await.unwrap();
            assert!(matches!(saved, SavedWorkflow::Created(_)));
        }
        assert_eq!(store.workflow_names(org).await.unwrap(), ["a", "b"]);
        let summaries = async |after: &str, limit| {
            let rows = store.workflow_summaries(org, after.to_owned(), limit).await.unwrap();
            rows.into_iter().map(|row| row.summary).collect::<Vec<_>>()
        };
        assert_eq!(summaries("", 10).await, [summary("a", "x"), summary("b", "x")]);
        assert_eq!(summaries("", 1).await, [summary("a", "x")]);
        assert_eq!(summaries("a", 1).await, [summary("b", "x")]);
        assert!(summaries("b", 1).await.is_empty());
        assert_eq!(store.get_workflow(org, "b").await.unwrap().definition, r#"{"prompt":"x"}"#);
        assert_eq!(store.get_workflow(other, "b").await.unwrap_err(), Error::NotFound);
        assert_eq!(fixture.delete_workflow(other, "b").await.unwrap_err(), Error::NotFound);
        fixture.delete_workflow(org, "b").await.unwrap();
        assert_eq!(fixture.delete_workflow(org, "b").await.unwrap_err(), Error::NotFound);
        assert_eq!(store.get_workflow(org, "b").await.unwrap_err(), Error::NotFound);
        assert_eq!(store.workflow_names(org).await.unwrap(), ["a"]);
        let told = |action: &str, name: &str| (action.to_owned(), name.to_owned());
        assert_eq!(
            fixture.audited(org).await,
            [told("workflow.put", "b"), told("workflow.put", "a"), told("workflow.delete", "b")]
        );
        assert_eq!(fixture.audited(other).await, [told("workflow.put", "c")]);
    }

    async fn each_change_raises_the_revision_and_the_same_again_is_none(fixture: &Fixture, org: OrgId, store: &Store) {
        let put = async |prompt| {
            let audit = fixture.audit_of(org, "workflow.put", "a");
            let at = audit.at;
            (store.put_workflow(org, Fixture::new_workflow("a", prompt), 10, audit).await.unwrap(), at)
        };
        let (saved, first) = put("x").await;
        assert_eq!(saved, SavedWorkflow::Created(row("a", "x", 1, (first, first))));
        let (saved, _) = put("x").await;
        assert_eq!(saved, SavedWorkflow::Replaced(row("a", "x", 1, (first, first))));
        let (saved, second) = put("y").await;
        assert_eq!(saved, SavedWorkflow::Replaced(row("a", "y", 2, (first, second))));
        assert_eq!(store.get_workflow(org, "a").await.unwrap(), row("a", "y", 2, (first, second)));
        let listed = SummaryRow { summary: summary("a", "y"), revision: 2, updated_at: second };
        assert_eq!(store.workflow_summaries(org, String::new(), 10).await.unwrap(), [listed]);
        assert_eq!(fixture.audited(org).await.len(), 2);
    }

    async fn a_large_definition_is_read_by_itself_as_long_as_it_is_the_same(fixture: &Fixture, org: OrgId, other: OrgId, store: &Store) {
        fixture.put_workflow(org, "a", "x").await.unwrap();
        assert_eq!(store.workflow_record(org, "a").await.unwrap(), store.get_workflow(org, "a").await.unwrap());
        let large = "x".repeat(20_000);
        fixture.put_workflow(org, "a", &large).await.unwrap();
        let whole = store.get_workflow(org, "a").await.unwrap();
        let row = store.workflow_record(org, "a").await.unwrap();
        assert_eq!(row, WorkflowRow { definition: String::new(), ..whole.clone() });
        let text = |revision| LargeText::Workflow("a".into(), revision, row.updated_at);
        assert_eq!(store.large_text(org, text(2)).await.unwrap(), whole.definition);
        assert_eq!(store.large_text(other, text(2)).await.unwrap_err(), Error::NotFound);
        fixture.put_workflow(org, "a", "y").await.unwrap();
        for revision in [2, 3] {
            assert_eq!(store.large_text(org, text(revision)).await.unwrap_err(), Error::NotFound);
        }
        assert_eq!(store.workflow_record(other, "a").await.unwrap_err(), Error::NotFound);
    }

    async fn a_workflow_that_a_schedule_uses_is_kept(fixture: &Fixture, org: OrgId, other: OrgId) {
        for (org, name) in [(org, "a"), (org, "b"), (other, "a")] {
            fixture.put_workflow(org, name, "x").await.unwrap();
        }
        fixture.schedule_of(org, "a").await;
        let audited = fixture.audited(org).await;
        let refused = fixture.delete_workflow(org, "a").await.unwrap_err();
        assert_eq!(refused, Error::Conflict("a schedule uses the workflow"));
        assert_eq!(fixture.audited(org).await, audited);
        fixture.delete_workflow(org, "b").await.unwrap();
        fixture.delete_workflow(other, "a").await.unwrap();
        assert_eq!(fixture.store.workflow_names(org).await.unwrap(), ["a"]);
    }

    async fn the_number_of_workflows_has_a_limit_and_replacing_is_free_of_it(fixture: &Fixture, org: OrgId, other: OrgId) {
        for number in 0..10 {
            fixture.put_workflow(org, &number.to_string(), "x").await.unwrap();
        }
        let refused = fixture.put_workflow(org, "a", "x").await.unwrap_err();
        assert_eq!(refused, Error::Conflict("the organization has reached its limit of workflows"));
        fixture.put_workflow(org, "9", "y").await.unwrap();
        fixture.put_workflow(other, "a", "x").await.unwrap();
        let nobody = OrgId::new(fixture.now(), [1; 10]);
        assert_eq!(fixture.put_workflow(nobody, "a", "x").await.unwrap_err(), Error::NotFound);
        assert_eq!((fixture.audited(org).await.len(), fixture.audited(nobody).await.len()), (11, 0));
    }

    async fn connections_and_files_list_the_workflows_that_name_them(fixture: &Fixture, org: OrgId, other: OrgId, store: &Store) {
        for name in ["crm", "idle"] {
            fixture.connection(org, name).await;
        }
        fixture.connection(other, "crm").await;
        let file = fixture.file(org, "a.csv", 1).await;
        let id = file.id.to_string();
        fixture.put_workflow_with(org, "both", &["crm"], &["a.csv", &id]).await;
        fixture.put_workflow_with(org, "by-id", &["missing"], &[&id]).await;
        fixture.put_workflow_with(org, "by-name", &[], &["a.csv"]).await;
        fixture.put_workflow_with(org, "also", &["crm", "idle"], &["crm"]).await;
        fixture.put_workflow_with(other, "foreign", &["crm"], &["a.csv", &id]).await;
        let of_connections = async || {
            let listed = store.list_connections(org, String::new(), 10).await.unwrap();
            for one in &listed {
                assert_eq!(&store.listed_connection(org, &one.connection.name).await.unwrap(), one);
            }
            listed.into_iter().map(|listed| listed.used_by).collect::<Vec<_>>()
        };
        let of_file = async || {
            let listed = store.list_files(org, None, 10).await.unwrap();
            assert_eq!([store.listed_file(org, file.id).await.unwrap()].as_slice(), listed);
            assert_eq!([store.listed_file_named(org, &listed[0].name).await.unwrap()].as_slice(), listed);
            listed[0].used_by.clone()
        };
        assert_eq!(of_connections().await, [vec!["also", "both"], vec!["also"]]);
        assert_eq!(of_file().await, ["both", "by-id", "by-name"]);
        assert_eq!(store.list_connections(other, String::new(), 10).await.unwrap()[0].used_by, ["foreign"]);

        // The current definitions count: one changed, one was deleted.
        fixture.put_workflow_with(org, "also", &["idle"], &[]).await;
        fixture.delete_workflow(org, "by-name").await.unwrap();
        assert_eq!(of_connections().await, [vec!["both"], vec!["also"]]);
        assert_eq!(of_file().await, ["both", "by-id"]);

        // A name means the file that has it.
        fixture.put_workflow_with(org, "by-new-name", &[], &["b.csv"]).await;
        let renamed = store.rename_file(org, file.id, "b.csv", fixture.audit_of(org, "file.rename", "a file")).await.unwrap();
        assert_eq!(renamed.used_by, ["both", "by-id", "by-new-name"]);
        let named = fixture.new_file(org, "a.csv", 2).await;
        let saved = store.create_file(named, fixture.audit_of(org, "file.create", "a file")).await.unwrap();
        assert_eq!(saved.used_by, ["both"]);
    }

    async fn the_first_workflows_that_use_something_are_listed(fixture: &Fixture, org: OrgId, store: &Store) {
        fixture.connection(org, "crm").await;
        let file = fixture.file(org, "a.csv", 1).await;
        let id = file.id.to_string();
        let names: Vec<String> = (10..10 + 2 * limits::USED_BY).map(|number| format!("w{number}")).collect();
        for (at, name) in names.iter().enumerate().rev() {
            let named_by = if at % 2 == 0 { id.as_str() } else { "a.csv" };
            fixture.put_workflow_with(org, name, &["crm"], &[named_by]).await;
        }
        let first = &names[..limits::USED_BY];
        assert_eq!(store.listed_connection(org, "crm").await.unwrap().used_by, first);
        assert_eq!(store.listed_file(org, file.id).await.unwrap().used_by, first);
    }
}
